/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two members: send, receive, and both at once.
 *
 * Where it sits
 *     operation.c, posting.c -> [ message.c ] -> operation_check.c; the group's backend
 * Threads
 *     The one that uses the group carries them out, or the group's own while posted operations are
 *     pending.
 */
#include "collective/group_int.h"

static void fill(const crti_step_t *step, bool is_blocking, crti_pair_t *pair)
{
    *pair = (crti_pair_t){.is_send = step->kind == CRT_COLLECTIVE_SEND,
                          .is_blocking = is_blocking,
                          .dtype = step->dtype,
                          .count = step->count,
                          .bytes = step->count * crt_dtype_size(step->dtype),
                          .input = step->input,
                          .output = step->output,
                          .peer = step->peer,
                          .rank = step->peer,
                          .is_on_device = step->is_on_device};
    crti_list_init(&pair->link);
}

static void keep_reported(crt_group_t *group, crt_status_t status)
{
    if (status != CRT_OK && atomic_load(&group->has_failed))
        group->private->was_reported = true;
}

/* Of a step that was checked. */
static crt_status_t begin(crt_group_t *group, const crti_step_t *step, bool is_blocking,
                          crti_pair_t *pair)
{
    struct crti_group_private *p = group->private;
    crt_status_t status;

    fill(step, is_blocking, pair);
    group->has_waited = false;
    status = p->backend->post(p->state, pair);
    if (status != CRT_OK)
        crti_list_remove(&pair->link);
    return status;
}

crt_status_t crti_message_begin(crt_group_t *group, const crt_collective_t *what,
                                crti_pair_t *pair)
{
    crti_step_t step;
    crt_status_t status;

    crti_list_init(&pair->link);
    status = crti_operation_check(group, what, &step);
    if (status == CRT_OK)
        status = begin(group, &step, false, pair);
    keep_reported(group, status);
    return status;
}

/* The group may have failed while nobody waited: then nothing goes on any more. */
static crt_status_t check(crt_group_t *group)
{
    struct crti_group_private *p = group->private;
    crt_status_t status;

    if (p->later.status != CRT_OK)
        crti_group_fail(group, p->later.status, p->later.rank, "%s", p->later.text);
    status = p->state
                 ? crti_group_failed(group)
                 : crt_raise(CRT_ERR_CANCELLED, "group \"%s\" was closed", group->name);
    if (status != CRT_OK && p->state && p->backend->report)
        p->backend->report(p->state);
    return status == CRT_OK ? CRT_OK : crti_group_failed(group);
}

static crt_status_t await(crt_group_t *group, crti_pair_t *const *pairs, int count,
                          uint64_t deadline_ns)
{
    struct crti_group_private *p = group->private;
    crt_status_t status;

    group->awaits = pairs;
    group->await_count = count;
    status = p->backend->await(p->state, pairs, count, deadline_ns);
    group->awaits = NULL;
    group->await_count = 0;
    return status;
}

crt_status_t crti_message_await(crt_group_t *group, crti_pair_t *const *pairs, int count,
                                uint64_t deadline_ns)
{
    crt_status_t status = check(group);

    if (status == CRT_OK)
        status = await(group, pairs, count, deadline_ns);
    keep_reported(group, status);
    return status;
}

crt_status_t crti_message_progress(crt_group_t *group)
{
    struct crti_group_private *p = group->private;
    crt_status_t status = check(group);

    if (status == CRT_OK)
        status = p->backend->progress(p->state);
    keep_reported(group, status);
    return status;
}

static crt_status_t await_one(crt_group_t *group, crti_pair_t *pair, uint64_t deadline_ns)
{
    crt_status_t status = CRT_OK;

    if (!pair->is_done)
        status = await(group, &pair, 1, deadline_ns);
    if (status != CRT_OK)
        crti_list_remove(&pair->link);
    return status;
}

crt_status_t crti_message_run(crt_group_t *group, const crt_collective_t *what)
{
    crti_pair_t pair;
    crti_step_t step;
    uint64_t begun_ns;
    crt_status_t status = crti_operation_check(group, what, &step);

    if (status != CRT_OK)
        return status;
    begun_ns = crti_now_ns();
    status = begin(group, &step, true, &pair);
    if (status == CRT_OK)
        status = await_one(group, &pair, crti_operation_deadline(group, what, begun_ns));
    step.sequence = pair.number;
    crti_operation_ended(group, &step, begun_ns, status);
    return status;
}

/* ---------------------------------------------------------------- both at once */

/* Checked first, both: a call that is wrong begins nothing. */
crt_status_t crti_message_run_both(crt_group_t *group, const crt_collective_t *send,
                                   const crt_collective_t *receive)
{
    crti_pair_t going, coming;
    crti_step_t send_step, receive_step;
    uint64_t begun_ns, deadline_ns;
    crt_status_t status = crti_operation_check(group, send, &send_step);

    if (status == CRT_OK)
        status = crti_operation_check(group, receive, &receive_step);
    if (status != CRT_OK)
        return status;
    begun_ns = crti_now_ns();
    deadline_ns = crti_operation_deadline(group, send, begun_ns);
    crti_list_init(&going.link);
    status = begin(group, &receive_step, false, &coming);
    if (status == CRT_OK)
        status = begin(group, &send_step, false, &going);
    if (status == CRT_OK)
        status = await_one(group, &coming, deadline_ns);
    if (status == CRT_OK)
        status = await_one(group, &going, deadline_ns);
    crti_list_remove(&coming.link);
    crti_list_remove(&going.link);
    send_step.sequence = receive_step.sequence = coming.number;
    crti_operation_ended(group, &send_step, begun_ns, status);
    crti_operation_ended(group, &receive_step, begun_ns, status);
    return status;
}
