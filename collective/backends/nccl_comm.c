/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a communicator, and waiting for NCCL and the GPU. See nccl_int.h.
 *
 * Waiting
 *     Short operations are polled without a pause; then the pauses grow, and end early when the
 *     group fails. Each pause looks at the members' states and at the communicator's.
 */
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "collective/backends/nccl_int.h"

#define SPIN_NS      (CRTI_MS / 10)
#define FIRST_NAP_NS (CRTI_MS / 50)
#define LAST_NAP_NS  (1 * CRTI_MS)
#define REASON_NS                                                                        \
    (1 * CRTI_S)            /* for the runtime to say who died when NCCL lost a member */
#define END_NS (1 * CRTI_S) /* for a communicator to end in good order */

/* ---------------------------------------------------------------- failure */

static void nap(crti_nccl_t *n, uint64_t ns)
{
    struct pollfd wake = {.fd = n->group->wake_fd, .events = POLLIN};
    struct timespec t = {.tv_sec = (time_t)(ns / CRTI_S), .tv_nsec = (long)(ns % CRTI_S)};

    (void)ppoll(&wake, 1, &t, NULL);
}

crt_status_t crti_nccl_cuda_failed(crti_nccl_t *n, const char *what, cudaError_t error)
{
    crt_status_t status =
        error == cudaErrorMemoryAllocation ? CRT_ERR_NO_MEMORY : CRT_ERR_IO;
    char who[160];

    (void)n->api->last_error(); /* the next caller's errors are its own */
    return crti_group_fail(
        n->group, status, n->group->rank, "%s: %s on device %d: CUDA says: %s",
        crti_group_describe(n->group, n->group->rank, who, sizeof(who)), what, n->device,
        n->api->cuda_text(error));
}

crt_status_t crti_nccl_failed(crti_nccl_t *n, const char *what, ncclResult_t result)
{
    const char *detail = n->api->nccl_detail ? n->api->nccl_detail(n->comm) : NULL;
    crt_status_t status = result == ncclInvalidArgument || result == ncclInvalidUsage
                              ? CRT_ERR_INVALID
                              : CRT_ERR_IO;
    char who[160];

    /* A lost connection is how a member's death looks from here: the runtime knows more. */
    if (result == ncclRemoteError || result == ncclSystemError)
        nap(n, REASON_NS);
    return crti_group_fail(
        n->group, status, -1, "%s: %s: NCCL says: %s%s%.300s",
        crti_group_describe(n->group, n->group->rank, who, sizeof(who)), what,
        n->api->nccl_text(result), detail && *detail ? ": " : "", detail ? detail : "");
}

/* ---------------------------------------------------------------- waiting */

typedef struct backoff {
    uint64_t started_ns, looked_ns, nap_ns;
} backoff_t;

/* Between two polls. `*napped_out` says whether time has passed. */
static crt_status_t wait_a_little(crti_nccl_t *n, const char *what, backoff_t *p)
{
    uint64_t now = crti_now_ns();
    crt_status_t status = crti_group_failed(n->group);
    char who[160];

    if (status != CRT_OK)
        return status;
    if (!p->started_ns)
        *p = (backoff_t){now, now, FIRST_NAP_NS};
    if (now >= n->deadline_ns)
        return crti_group_fail(
            n->group, CRT_ERR_TIMED_OUT, -1,
            "%s: %s timed out: all members are in it, but NCCL did not end it",
            crti_group_describe(n->group, n->group->rank, who, sizeof(who)), what);
    if (now - p->looked_ns >= CRTI_GROUP_LOOK_NS && n->control_state &&
        n->control->check) {
        p->looked_ns = now;
        status = n->control->check(n->control_state);
        if (status != CRT_OK)
            return status;
    }
    if (now - p->started_ns < SPIN_NS) {
        sched_yield();
        return CRT_OK;
    }
    nap(n, p->nap_ns);
    p->nap_ns = p->nap_ns * 3 / 2 < LAST_NAP_NS ? p->nap_ns * 3 / 2 : LAST_NAP_NS;
    return CRT_OK;
}

crt_status_t crti_nccl_settle(crti_nccl_t *n, const char *what, ncclResult_t result)
{
    backoff_t backoff = {0};
    crt_status_t status = CRT_OK;

    while (result == ncclInProgress && status == CRT_OK) {
        status = wait_a_little(n, what, &backoff);
        if (status == CRT_OK && n->api->async_error(n->comm, &result) != ncclSuccess)
            result = ncclInternalError;
    }
    if (status != CRT_OK || result == ncclSuccess)
        return status;
    return crti_nccl_failed(n, what, result);
}

crt_status_t crti_nccl_await(crti_nccl_t *n, const char *what)
{
    backoff_t backoff = {0};
    ncclResult_t result = ncclSuccess;
    crt_status_t status = CRT_OK;
    cudaError_t error = n->api->event_record(n->done, n->stream);

    if (error != cudaSuccess)
        return crti_nccl_cuda_failed(n, what, error);
    while ((error = n->api->event_query(n->done)) == cudaErrorNotReady) {
        status = wait_a_little(n, what, &backoff);
        if (status == CRT_OK && n->comm && backoff.nap_ns > FIRST_NAP_NS &&
            (n->api->async_error(n->comm, &result) != ncclSuccess ||
             (result != ncclSuccess && result != ncclInProgress)))
            status = crti_nccl_failed(n, what, result);
        if (status != CRT_OK)
            return status;
    }
    return error == cudaSuccess ? CRT_OK : crti_nccl_cuda_failed(n, what, error);
}

/* ---------------------------------------------------------------- beginning and end */

crt_status_t crti_nccl_connect(crti_nccl_t *n, ncclUniqueId id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t result;

    config.blocking = 0;
    result = n->api->init(&n->comm, n->size, id, n->rank, &config);
    return crti_nccl_settle(n, "making a communicator", result);
}

/* True when the state of the communicator is good within END_NS. */
static bool ends_soon(crti_nccl_t *n, ncclResult_t result)
{
    uint64_t until = crti_now_ns() + END_NS;
    struct timespec pause = {.tv_nsec = (long)LAST_NAP_NS};

    while (result == ncclInProgress && crti_now_ns() < until) {
        nanosleep(&pause, NULL); /* the group may have failed: wake_fd is of no use */
        if (n->api->async_error(n->comm, &result) != ncclSuccess)
            return false;
    }
    return result == ncclSuccess;
}

/* The memory is the caller's again when the GPU has left it. */
static void quiesce(crti_nccl_t *n)
{
    uint64_t until = crti_now_ns() + END_NS;
    struct timespec pause = {.tv_nsec = (long)LAST_NAP_NS};

    while (n->stream && n->api->stream_query(n->stream) == cudaErrorNotReady &&
           crti_now_ns() < until)
        nanosleep(&pause, NULL);
    (void)n->api->last_error();
}

void crti_nccl_give_up(crti_nccl_t *n)
{
    ncclComm_t comm = n->comm;

    if (!comm)
        return;
    /* Revoking ends what runs without freeing what it may still touch. */
    if (n->api->revoke) {
        (void)ends_soon(n, n->api->revoke(comm, 0));
        quiesce(n);
    }
    n->comm = NULL;
    (void)n->api->abort(comm);
    quiesce(n);
}

void crti_nccl_disconnect(crti_nccl_t *n)
{
    ncclComm_t comm = n->comm;

    if (!comm)
        return;
    /* What this member sent may still be on its way: finalize sees it off. It also waits for the
     * members on this node; they may stay, and then need nothing more from us. */
    if (!ends_soon(n, n->api->finalize(comm))) {
        crti_nccl_give_up(n);
        return;
    }
    n->comm = NULL;
    (void)n->api->destroy(comm);
}
