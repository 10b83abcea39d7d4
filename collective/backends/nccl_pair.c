/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two, given to NCCL. See nccl_int.h.
 *
 * NCCL carries out what it is given in one order on all members, and what is given to it as one
 * goes on beside each other. So what was posted waits until one of them is waited for, and then all
 * of them are one: the members have told each other over `control` before that they are here, and
 * what they mean.
 */
#include <stdlib.h>
#include <string.h>

#include "collective/backends/nccl_int.h"

#define ALIGNMENT ((size_t)256)

/* A message, and what the two say of it. */
typedef struct paired {
    crti_pair_t *pair;
    crti_operation_signature_t own, theirs;
    crti_pair_t says, hears; /* over control */
    void *memory;            /* on the device */
} paired_t;

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---------------------------------------------------------------- comparing */

static crt_status_t post_signature(crti_nccl_t *n, const crti_pair_t *of, bool is_send,
                                   void *signature, crti_pair_t *pair)
{
    *pair = (crti_pair_t){.is_send = is_send,
                          .dtype = CRT_DTYPE_UINT8,
                          .count = sizeof(crti_operation_signature_t),
                          .bytes = sizeof(crti_operation_signature_t),
                          .input = signature,
                          .output = signature,
                          .peer = of->peer,
                          .rank = of->rank};
    crti_list_init(&pair->link);
    return n->control->post(n->control_state, pair);
}

static crt_status_t say(crti_nccl_t *n, paired_t *p)
{
    const crti_pair_t *pair = p->pair;
    crt_status_t status;

    p->own = (crti_operation_signature_t){.count = pair->count,
                                          .kind = pair->is_send ? CRT_COLLECTIVE_SEND
                                                                : CRT_COLLECTIVE_RECV,
                                          .dtype = (int32_t)pair->dtype,
                                          .peer = pair->peer};
    status = post_signature(n, pair, true, &p->own, &p->says);
    return status == CRT_OK ? post_signature(n, pair, false, &p->theirs, &p->hears)
                            : status;
}

static crt_status_t await_control(crti_nccl_t *n, crti_pair_t *pair)
{
    crti_pair_t *const *awaits = n->group->awaits;
    int count = n->group->await_count;
    crt_status_t status;

    if (pair->is_done)
        return CRT_OK;
    n->group->awaits = &pair;
    n->group->await_count = 1;
    status = n->control->await(n->control_state, &pair, 1, n->deadline_ns);
    n->group->awaits = awaits;
    n->group->await_count = count;
    return status;
}

static crt_status_t hear(crti_nccl_t *n, paired_t *p)
{
    crti_operation_signature_t expected = p->own;
    crt_status_t status = await_control(n, &p->says);

    if (status == CRT_OK)
        status = await_control(n, &p->hears);
    expected.kind = p->pair->is_send ? CRT_COLLECTIVE_RECV : CRT_COLLECTIVE_SEND;
    expected.peer = n->rank;
    if (status == CRT_OK && memcmp(&p->theirs, &expected, sizeof(expected)) != 0)
        status = crti_nccl_mismatch(n, &p->own, p->pair->peer, &p->theirs);
    return status;
}

/* What the lower of two ranks sends comes before what it receives, on both. */
static crt_status_t compare(crti_nccl_t *n, paired_t *all, int count)
{
    crt_status_t status = CRT_OK;

    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < count && status == CRT_OK; i++)
            if ((all[i].pair->is_send == (n->rank < all[i].pair->peer)) == (turn == 0))
                status = say(n, &all[i]);
    for (int i = 0; i < count && status == CRT_OK; i++)
        status = hear(n, &all[i]);
    for (int i = 0; i < count; i++) {
        crti_list_remove(&all[i].says.link);
        crti_list_remove(&all[i].hears.link);
    }
    return status;
}

/* ---------------------------------------------------------------- on the GPU */

/* Memory on the device for all; what is sent is brought there. */
static crt_status_t stage(crti_nccl_t *n, paired_t *all, int count)
{
    size_t given = 0, taken = 0;
    cudaError_t error = cudaSuccess;
    crt_status_t status;

    for (int i = 0; i < count; i++)
        if (!all[i].pair->is_on_device)
            *(all[i].pair->is_send ? &given : &taken) += aligned(all[i].pair->bytes);
    status = crti_nccl_grow(n, &n->input, given);
    if (status == CRT_OK)
        status = crti_nccl_grow(n, &n->output, taken);
    given = taken = 0;
    for (int i = 0; i < count && status == CRT_OK && error == cudaSuccess; i++) {
        const crti_pair_t *pair = all[i].pair;
        size_t *at = pair->is_send ? &given : &taken;

        if (pair->is_on_device) {
            all[i].memory = pair->is_send ? (void *)(uintptr_t)pair->input : pair->output;
            status = crti_nccl_follow(n);
            continue;
        }
        all[i].memory = (char *)(pair->is_send ? n->input : n->output).memory + *at;
        *at += aligned(pair->bytes);
        if (pair->is_send && pair->bytes)
            error = n->api->copy(all[i].memory, pair->input, pair->bytes,
                                 cudaMemcpyHostToDevice, n->stream);
    }
    return error == cudaSuccess
               ? status
               : crti_nccl_cuda_failed(n, "copying a message to the device", error);
}

static bool is_good(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress;
}

static ncclResult_t launch(crti_nccl_t *n, const paired_t *all, int count)
{
    const crti_nccl_api_t *api = n->api;
    ncclResult_t result = api->group_start(), ended;

    if (result != ncclSuccess)
        return result;
    for (int i = 0; i < count && is_good(result); i++) {
        const crti_pair_t *pair = all[i].pair;
        ncclDataType_t type = crti_nccl_type(pair->dtype);

        if (pair->count == 0)
            continue;
        result = pair->is_send ? api->send(all[i].memory, pair->count, type, pair->peer,
                                           n->comm, n->stream)
                               : api->recv(all[i].memory, pair->count, type, pair->peer,
                                           n->comm, n->stream);
    }
    ended = api->group_end();
    return is_good(result) ? ended : result;
}

static crt_status_t collect(crti_nccl_t *n, const paired_t *all, int count)
{
    static const char what[] = "copying a message from the device";
    cudaError_t error = cudaSuccess;

    for (int i = 0; i < count && error == cudaSuccess; i++)
        if (!all[i].pair->is_on_device && !all[i].pair->is_send && all[i].pair->bytes)
            error = n->api->copy(all[i].pair->output, all[i].memory, all[i].pair->bytes,
                                 cudaMemcpyDeviceToHost, n->stream);
    return error == cudaSuccess ? crti_nccl_await(n, what)
                                : crti_nccl_cuda_failed(n, what, error);
}

static crt_status_t move(crti_nccl_t *n, paired_t *all, int count)
{
    crt_status_t status = stage(n, all, count);
    ncclResult_t result = status == CRT_OK ? launch(n, all, count) : ncclSuccess;

    if (status == CRT_OK && !is_good(result))
        status = crti_nccl_failed(n, "messages", result);
    if (status == CRT_OK)
        status = crti_nccl_settle(n, "messages", result);
    return status == CRT_OK ? collect(n, all, count) : status;
}

crt_status_t crti_nccl_run_pairs(crti_nccl_t *n)
{
    CRTI_AUTO(free) paired_t *all = NULL;
    int count = 0, i = 0;
    crt_status_t status;

    CRTI_LIST_FOREACH (item, &n->pairs)
        count++;
    all = calloc((size_t)count + 1, sizeof(*all));
    if (!all)
        return crti_group_fail(n->group, CRT_ERR_NO_MEMORY, n->group->rank,
                               "no memory for %d messages", count);
    CRTI_LIST_FOREACH (item, &n->pairs) {
        all[i].pair = CRTI_CONTAINER(item, crti_pair_t, link);
        crti_list_init(&all[i].says.link);
        crti_list_init(&all[i++].hears.link);
    }
    status = compare(n, all, count);
    if (status == CRT_OK)
        status = move(n, all, count);
    for (i = 0; i < count; i++) {
        crti_list_remove(&all[i].pair->link);
        if (status != CRT_OK)
            continue;
        atomic_store(&all[i].pair->is_done, true);
        crti_group_message_ended(n->group);
    }
    return status;
}
