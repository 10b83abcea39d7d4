/* SPDX-License-Identifier: Apache-2.0 */
/* The nccl backend: opening, comparing what the members call, running. See nccl_int.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/backends/nccl_int.h"

/* What a member says of itself before there is a communicator: `status` CRT_OK, or why not. */
typedef struct hello {
    int32_t status, version;
    char text[400];
} hello_t;

typedef struct invitation {
    int32_t status;
    char text[300];
    ncclUniqueId id;
} invitation_t;

/* ---------------------------------------------------------------- over control */

static crt_status_t gather(crti_nccl_t *n, const void *mine, void *all, size_t bytes)
{
    crti_step_t step = {.kind = CRT_COLLECTIVE_ALLGATHER,
                        .dtype = CRT_DTYPE_UINT8,
                        .count = bytes,
                        .input = mine,
                        .output = all,
                        .peer = -1,
                        .sequence = ++n->exchanges,
                        .deadline_ns = n->deadline_ns};

    return n->control->run(n->control_state, &step);
}

static crt_status_t broadcast(crti_nccl_t *n, int root, void *data, size_t bytes)
{
    crti_step_t step = {.kind = CRT_COLLECTIVE_BROADCAST,
                        .dtype = CRT_DTYPE_UINT8,
                        .count = bytes,
                        .input = data,
                        .output = data,
                        .peer = root,
                        .sequence = ++n->exchanges,
                        .deadline_ns = n->deadline_ns};

    return n->control->run(n->control_state, &step);
}

/* ---------------------------------------------------------------- comparing */

crt_status_t crti_nccl_mismatch(crti_nccl_t *n, const crti_operation_signature_t *own,
                                int other, const crti_operation_signature_t *theirs)
{
    char a[160], b[160], me[160], them[160];

    return crti_group_fail(
        n->group, CRT_ERR_INVALID, -1,
        "the members' calls do not fit together: %s calls %s, but %s calls %s",
        crti_group_describe(n->group, n->group->rank, me, sizeof(me)),
        crti_operation_describe(own, a, sizeof(a)),
        crti_group_describe(n->group, n->ranks[other], them, sizeof(them)),
        crti_operation_describe(theirs, b, sizeof(b)));
}

/* CRT_OK: all members are in this operation. */
static crt_status_t compare(crti_nccl_t *n, const crti_step_t *step)
{
    const crti_operation_signature_t own = crti_operation_signature_of(step);
    crt_status_t status;

    if (n->size == 1)
        return crti_group_failed(n->group);
    status = gather(n, &own, n->calls, sizeof(own));
    for (int i = 0; i < n->size && status == CRT_OK; i++)
        if (memcmp(&n->calls[i], &own, sizeof(own)) != 0)
            status = crti_nccl_mismatch(n, &own, i, &n->calls[i]);
    return status;
}

/* ---------------------------------------------------------------- the device */

cudaError_t crti_nccl_enter_device(const crti_nccl_t *n, int *before)
{
    cudaError_t error = n->api->get_device(before);

    if (error == cudaSuccess && *before != n->device)
        error = n->api->set_device(n->device);
    return error;
}

void crti_nccl_leave_device(const crti_nccl_t *n, int before)
{
    if (before != n->device)
        (void)n->api->set_device(before);
}

static crt_status_t check_device(crti_nccl_t *n)
{
    int count = 0, before;
    cudaError_t error = n->api->device_count(&count);

    if (error == cudaSuccess && count == 0)
        error = cudaErrorNoDevice;
    if (error != cudaSuccess)
        return crt_raise(CRT_ERR_UNSUPPORTED, "no GPU can be used: CUDA says: %s",
                         n->api->cuda_text(error));
    if (n->device < 0 || n->device >= count)
        return crt_raise(CRT_ERR_INVALID,
                         "there is no device %d among the %d of this process", n->device,
                         count);
    error = crti_nccl_enter_device(n, &before);
    if (error == cudaSuccess)
        error = n->api->stream_create(&n->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        error = n->api->event_create(&n->before, cudaEventDisableTiming);
    if (error == cudaSuccess)
        error = n->api->event_create(&n->done, cudaEventDisableTiming);
    if (error == cudaSuccess) {
        crti_nccl_leave_device(n, before);
        return CRT_OK;
    }
    crti_nccl_leave_device(n, before);
    return crt_raise(CRT_ERR_IO, "device %d: CUDA says: %s", n->device,
                     n->api->cuda_text(error));
}

/* ---------------------------------------------------------------- opening */

/* Everybody hears of everybody's libraries and device; one that can't take part ends it for all. */
static crt_status_t greet(crti_nccl_t *n)
{
    CRTI_AUTO(free) hello_t *all = calloc((size_t)n->size, sizeof(*all));
    hello_t own = {0};
    crt_status_t status = crti_nccl_library(&n->api);
    char who[160], a[32], b[32];

    if (status == CRT_OK)
        status = check_device(n);
    own.status = status;
    if (status == CRT_OK)
        own.version = n->api->version;
    else
        snprintf(own.text, sizeof(own.text), "%s", crt_error_detail());
    if (!all)
        return crt_raise(CRT_ERR_NO_MEMORY, "a group of %d", n->size);
    status = gather(n, &own, all, sizeof(own));
    for (int i = 0; i < n->size && status == CRT_OK; i++) {
        int rank = n->ranks[i];

        all[i].text[sizeof(all[i].text) - 1] = '\0';
        crti_group_describe(n->group, rank, who, sizeof(who));
        if (all[i].status != CRT_OK)
            status = crti_group_fail(
                n->group,
                all[i].status < 0 && all[i].status > -100 ? (crt_status_t)all[i].status
                                                          : CRT_ERR_PROTOCOL,
                rank, "backend \"nccl\" at %s: %s", who, all[i].text);
        else if (all[i].version != all[0].version)
            status = crti_group_fail(
                n->group, CRT_ERR_UNSUPPORTED, rank,
                "rank %d has NCCL %s, but %s has %s; all must have the same", n->ranks[0],
                crti_nccl_version_text(all[0].version, a, sizeof(a)), who,
                crti_nccl_version_text(all[i].version, b, sizeof(b)));
    }
    return status;
}

/* A unique id of rank 0 and a communicator at each; all members wait for it. */
static crt_status_t bootstrap(crti_nccl_t *n)
{
    invitation_t invitation = {0};
    ncclResult_t result = n->rank == 0 ? n->api->unique_id(&invitation.id) : ncclSuccess;
    crti_operation_signature_t here = {0};
    crt_status_t status;

    if (result != ncclSuccess) {
        invitation.status = CRT_ERR_IO;
        snprintf(invitation.text, sizeof(invitation.text), "%s",
                 n->api->nccl_text(result));
    }
    status = broadcast(n, 0, &invitation, sizeof(invitation));
    invitation.text[sizeof(invitation.text) - 1] = '\0';
    if (status == CRT_OK && invitation.status != CRT_OK)
        status = crti_group_fail(n->group, CRT_ERR_IO, n->ranks[0],
                                 "rank %d makes no unique id: NCCL says: %s", n->ranks[0],
                                 invitation.text);
    if (status == CRT_OK)
        status = crti_nccl_connect(n, invitation.id);
    return status == CRT_OK ? gather(n, &here, n->calls, sizeof(here)) : status;
}

static void close_team(void *state)
{
    crti_nccl_t *n = state;
    int before = n->device;

    if (n->api && n->stream && crti_nccl_enter_device(n, &before) == cudaSuccess) {
        if (crti_group_failed(n->group) == CRT_OK)
            crti_nccl_disconnect(n);
        crti_nccl_give_up(n);
        crti_nccl_free_stages(n);
    }
    if (n->done)
        (void)n->api->event_destroy(n->done);
    if (n->before)
        (void)n->api->event_destroy(n->before);
    if (n->stream)
        (void)n->api->stream_destroy(n->stream);
    if (n->api && n->stream)
        crti_nccl_leave_device(n, before);
    if (n->control_state)
        n->control->close(n->control_state);
    while (crti_list_pop(&n->pairs))
        continue;
    free(n->calls);
    free(n);
}

static void report_failure(crti_nccl_t *n)
{
    if (n->control_state && n->control->report)
        n->control->report(n->control_state);
}

/* The others hear first, so that all let go of the communicator at once. */
static void report(void *state)
{
    crti_nccl_t *n = state;
    int before = n->device;

    report_failure(n);
    if (!n->comm)
        return;
    if (crti_nccl_enter_device(n, &before) == cudaSuccess) {
        /* Between two operations others may still need what we have sent in the last one. */
        if (n->is_running)
            crti_nccl_give_up(n);
        else
            crti_nccl_disconnect(n);
    }
    crti_nccl_leave_device(n, before);
}

static crti_nccl_t *new_team(crt_group_t *group, const crti_team_t *team)
{
    size_t size = (size_t)team->size;
    crti_nccl_t *n = calloc(1, sizeof(*n));

    if (!n)
        return NULL;
    *n = (crti_nccl_t){.group = group,
                       .size = team->size,
                       .rank = team->rank,
                       .ranks = team->ranks,
                       .device = group->wanted_device,
                       .calls = calloc(size, sizeof(*n->calls))};
    crti_list_init(&n->pairs);
    if (n->calls)
        return n;
    close_team(n);
    return NULL;
}

static crt_status_t connect_all(crti_nccl_t *n, const crti_team_t *team)
{
    int before = n->device;
    crt_status_t status =
        n->control->open(n->group, team, n->deadline_ns, &n->control_state);
    cudaError_t error;

    if (status == CRT_OK)
        status = greet(n);
    if (status != CRT_OK)
        return status;
    error = crti_nccl_enter_device(n, &before);
    status = error == cudaSuccess
                 ? bootstrap(n)
                 : crti_nccl_cuda_failed(n, "choosing the device", error);
    crti_nccl_leave_device(n, before);
    return status;
}

static crt_status_t open_team(crt_group_t *group, const crti_team_t *team,
                              uint64_t deadline_ns, void **state_out)
{
    crti_nccl_t *n = new_team(group, team);
    crt_status_t status;

    if (!n)
        return crt_raise(CRT_ERR_NO_MEMORY, "a team of %d", team->size);
    n->control = crti_group_host_backend(group);
    n->deadline_ns = deadline_ns;
    status = connect_all(n, team);
    if (status == CRT_OK) {
        group->device = n->device;
        *state_out = n;
        return CRT_OK;
    }
    crti_group_fail(group, status, -1, "%s", crt_error_detail());
    report_failure(n);
    close_team(n);
    return crti_group_failed(group);
}

/* ---------------------------------------------------------------- running */

static crt_status_t run_on_device(crti_nccl_t *n, const crti_step_t *step,
                                  const char *what)
{
    ncclResult_t result = ncclSuccess;
    crt_status_t status = crti_nccl_launch(n, step, &result);

    if (status == CRT_OK && result != ncclSuccess && result != ncclInProgress)
        status = crti_nccl_failed(n, what, result);
    if (status == CRT_OK)
        status = compare(n, step);
    if (status == CRT_OK)
        status = crti_nccl_settle(n, what, result);
    if (status == CRT_OK)
        status = crti_nccl_await(n, what);
    return status == CRT_OK ? crti_nccl_collect(n, step) : status;
}

static crt_status_t run_step(crti_nccl_t *n, const crti_step_t *step)
{
    const char *refusal = crti_nccl_refuses(step);
    int before = n->device;
    cudaError_t error;
    crt_status_t status;

    if (refusal || step->kind == CRT_COLLECTIVE_BARRIER || step->count == 0) {
        status = compare(n, step);
        return status == CRT_OK && refusal ? crt_raise(CRT_ERR_UNSUPPORTED, "%s", refusal)
                                           : status;
    }
    error = crti_nccl_enter_device(n, &before);
    status = error == cudaSuccess
                 ? run_on_device(n, step, crti_operation_kind_name((int32_t)step->kind))
                 : crti_nccl_cuda_failed(n, "choosing the device", error);
    crti_nccl_leave_device(n, before);
    return status;
}

/* Of what ran: a failure of the group is reported. */
static crt_status_t end(crti_nccl_t *n, crt_status_t status)
{
    if (crti_group_failed(n->group) != CRT_OK) {
        report(n);
        status = crti_group_failed(n->group);
    }
    n->is_running = false;
    return status;
}

static crt_status_t run(void *state, const crti_step_t *step)
{
    crti_nccl_t *n = state;
    crt_status_t status;

    if (!n->comm) /* given up, and then it has failed */
        return crti_group_failed(n->group);
    n->deadline_ns = step->deadline_ns;
    n->is_running = true;
    status = run_step(n, step);
    return end(n, status);
}

/* ---------------------------------------------------------------- messages between two */

static crt_status_t post(void *state, crti_pair_t *pair)
{
    crti_nccl_t *n = state;

    crti_list_append(&n->pairs, &pair->link);
    return crti_group_failed(n->group);
}

static crt_status_t progress(void *state)
{
    return crti_group_failed(((crti_nccl_t *)state)->group);
}

static crt_status_t await(void *state, crti_pair_t *const *pairs, int count,
                          uint64_t deadline_ns)
{
    crti_nccl_t *n = state;
    int before = n->device;
    cudaError_t error;
    crt_status_t status;

    if (!n->comm)
        return crti_group_failed(n->group);
    n->deadline_ns = deadline_ns;
    n->is_running = true;
    error = crti_nccl_enter_device(n, &before);
    status = error == cudaSuccess
                 ? crti_nccl_run_pairs(n)
                 : crti_nccl_cuda_failed(n, "choosing the device", error);
    crti_nccl_leave_device(n, before);
    return end(n, status);
}

const crti_backend_t crti_backend_nccl = {.name = "nccl",
                                          .open = open_team,
                                          .run = run,
                                          .post = post,
                                          .progress = progress,
                                          .await = await,
                                          .report = report,
                                          .close = close_team};
