/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: the calls, and how one runs.
 *
 * Where it sits
 *     crt_group_allreduce ... -> [ operation.c ] -> operation_check.c; the group's backend
 *     posting.c (its thread)       ->                 -> message.c, for sends and receives
 */
#include "collective/group_int.h"
#include "collective/operation_signature.h"
#include "runtime/base/clock.h"

/* ---------------------------------------------------------------- running */

crt_status_t crti_operation_run(crt_group_t *group, const crt_collective_t *what)
{
    struct crti_group_private *p = group->private;
    crti_step_t step;
    uint64_t begun_ns;
    crt_status_t status;

    if (crti_is_message(what->kind))
        return crti_message_run(group, what);
    status = crti_operation_check(group, what, &step);
    if (status != CRT_OK)
        return status;
    step.sequence = ++p->sequence;
    group->running = CRTI_GROUP_OPENING + step.sequence;
    group->has_waited = false;
    begun_ns = crti_now_ns();
    step.deadline_ns = crti_operation_deadline(group, what, begun_ns);
    status = p->backend->run(p->state, &step);
    if (status == CRT_OK)
        group->done = group->running;
    group->running = 0;
    crti_operation_ended(group, &step, begun_ns, status);
    return status;
}

/* ---------------------------------------------------------------- the calls */

static crt_status_t call(crt_group_t *group, const crt_collective_t *what)
{
    crt_operation_t *operation;
    crt_status_t status;

    if (!group)
        return crt_raise(CRT_ERR_INVALID, "%s: the group is NULL",
                         crti_operation_kind_name((int32_t)what->kind));
    CRT_TRY(crti_group_check_process());
    if (!crti_posting_is_busy(group))
        return crti_operation_run(group, what);
    status = crt_group_post(group, what, &operation);
    return status == CRT_OK ? crt_operation_wait(&operation) : status;
}

crt_status_t crt_group_allreduce(crt_group_t *group, const crt_tensor_t *input,
                                 const crt_tensor_t *output, crt_reduction_t reduction)
{
    return call(group, CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_ALLREDUCE, .input = input,
                                      .output = output, .reduction = reduction));
}

crt_status_t crt_group_reduce(crt_group_t *group, const crt_tensor_t *input,
                              const crt_tensor_t *output, int root,
                              crt_reduction_t reduction)
{
    return call(group,
                CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_REDUCE, .input = input,
                               .output = output, .reduction = reduction, .peer = root));
}

crt_status_t crt_group_broadcast(crt_group_t *group, const crt_tensor_t *tensor, int root)
{
    return call(group, CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_BROADCAST, .input = tensor,
                                      .output = tensor, .peer = root));
}

crt_status_t crt_group_allgather(crt_group_t *group, const crt_tensor_t *input,
                                 const crt_tensor_t *output)
{
    return call(group, CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_ALLGATHER, .input = input,
                                      .output = output));
}

crt_status_t crt_group_reducescatter(crt_group_t *group, const crt_tensor_t *input,
                                     const crt_tensor_t *output,
                                     crt_reduction_t reduction)
{
    return call(group,
                CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_REDUCESCATTER, .input = input,
                               .output = output, .reduction = reduction));
}

crt_status_t crt_group_alltoall(crt_group_t *group, const crt_tensor_t *input,
                                const crt_tensor_t *output)
{
    return call(group, CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_ALLTOALL, .input = input,
                                      .output = output));
}

crt_status_t crt_group_send(crt_group_t *group, const crt_tensor_t *tensor, int peer)
{
    return call(group, CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_SEND, .input = tensor,
                                      .peer = peer));
}

crt_status_t crt_group_recv(crt_group_t *group, const crt_tensor_t *tensor, int peer)
{
    return call(group, CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_RECV, .output = tensor,
                                      .peer = peer));
}

static crt_status_t post_both(crt_group_t *group, const crt_collective_t *send,
                              const crt_collective_t *receive)
{
    crt_operation_t *operations[2] = {0};
    crt_status_t status = crt_group_post(group, receive, &operations[0]), ended;

    if (status == CRT_OK)
        status = crt_group_post(group, send, &operations[1]);
    ended = crt_operation_wait_all(operations, 2);
    return status == CRT_OK ? ended : status;
}

crt_status_t crt_group_sendrecv(crt_group_t *group, const crt_tensor_t *input, int to,
                                const crt_tensor_t *output, int from)
{
    const crt_collective_t send = {.struct_size = sizeof(send),
                                   .kind = CRT_COLLECTIVE_SEND,
                                   .input = input,
                                   .peer = to};
    const crt_collective_t receive = {.struct_size = sizeof(receive),
                                      .kind = CRT_COLLECTIVE_RECV,
                                      .output = output,
                                      .peer = from};

    if (!group)
        return crt_raise(CRT_ERR_INVALID, "sendrecv: the group is NULL");
    if (!output)
        return crt_group_send(group, input, to);
    if (!input)
        return crt_group_recv(group, output, from);
    CRT_TRY(crti_group_check_process());
    return crti_posting_is_busy(group) ? post_both(group, &send, &receive)
                                       : crti_message_run_both(group, &send, &receive);
}

crt_status_t crt_group_isend(crt_group_t *group, const crt_tensor_t *tensor, int peer,
                             crt_operation_t **operation_out)
{
    return crt_group_post(
        group, CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_SEND, .input = tensor, .peer = peer),
        operation_out);
}

crt_status_t crt_group_irecv(crt_group_t *group, const crt_tensor_t *tensor, int peer,
                             crt_operation_t **operation_out)
{
    return crt_group_post(
        group,
        CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_RECV, .output = tensor, .peer = peer),
        operation_out);
}

crt_status_t crt_group_barrier(crt_group_t *group)
{
    return call(group, CRT_COLLECTIVE(.kind = CRT_COLLECTIVE_BARRIER));
}
