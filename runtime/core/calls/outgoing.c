/* SPDX-License-Identifier: Apache-2.0 */
/* Outgoing calls: from the user's arguments to a pending call, and from an answer to its result.
 *
 * Where it sits
 *     crt_call, crt_tell, crt_submit -> [ outgoing.c ] -> actor.c or submit.c -> net
 *     dispatch.c (REPLY), deaths.c (losses) -> [ outgoing.c ] -> pending.c (its end)
 * Ownership
 *     A pending call holds its result, its actor and what its arguments need, until it is answered.
 * Invariants
 *     Every pending call ends exactly once: answered, failed, or lost.
 * Tier: message path.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/placement_group.h"
#include "runtime/core/calls/stream.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/seeds.h"
#include "runtime/core/refs/value_of.h"

/* ------------------------------------------------------------------ the end of one */

/* Another attempt after an error, of a call in no list. False: none can be made. */
static bool repeat(crti_pending_t *p, const crti_result_t *result)
{
    char text[200];

    crti_text(result->failure.text, text, sizeof(text));
    if (!crti_pending_again(p, text))
        return false;
    p->remote = NULL;
    if (p->spec.actor)
        crti_actor_submit(p, &p->spec.record);
    else
        crti_task_submit(p);
    return true;
}

static crti_result_t cancelled(const crti_pending_t *p)
{
    return (crti_result_t){
        .form = CRTI_RESULT_ERROR,
        .failure = {.status = CRT_ERR_CANCELLED,
                    .text = crti_str("it was cancelled before it began"),
                    .class_name = crti_str(p->spec.function->class_name),
                    .method = crti_str(crti_call_method(p))}};
}

void crti_pending_answer(crti_pending_t *p, const crti_result_t *result)
{
    bool is_retried_for;
    crti_attempt_action_t action;
    crt_actor_t *actor = p->spec.actor;
    crti_result_t other;

    if (p->backup)
        crti_backup_answered(p, result);
    is_retried_for = result->form == CRTI_RESULT_ERROR && p->spec.record.size > 0 &&
                     crti_call_is_retried_for(p, &result->failure);
    action = crti_attempt_answered(&p->attempt, p->pool != NULL,
                                   result->form == CRTI_RESULT_NOT_STARTED,
                                   is_retried_for, crti_pending_most(p));
    if (action == CRTI_ATTEMPT_DO_QUEUE)
        crti_task_answered(p, true);
    if (action == CRTI_ATTEMPT_DO_QUEUE || action == CRTI_ATTEMPT_DO_NOTHING)
        return;
    if (action == CRTI_ATTEMPT_DO_END_CANCELLED) {
        other = cancelled(p);
        result = &other;
    }
    if (actor) {
        crti_actor_hold(actor);
        actor->has_answered = actor->has_answered || p->remote == actor->remote;
    }
    crti_pending_unlink(p);
    if (p->pool && p->lease)
        crti_task_answered(p, false);
    if (action != CRTI_ATTEMPT_DO_REPEAT || !repeat(p, result))
        crti_pending_finish(p, result);
    if (!actor)
        return;
    if (!crti_list_is_empty(&actor->queue))
        crti_actor_drain(actor);
    crti_actor_release(actor);
}

/* A worker that died says which tasks it had not begun (PEER_DIED). */
static bool may_have_begun(const crti_pending_t *p, const crti_net_loss_t *loss)
{
    bool is_unbegun = p->pool && p->remote->unbegun && p->sequence >= p->remote->unbegun;

    return p->sequence <= loss->handed && !is_unbegun;
}

static crti_attempt_loss_t describe_loss(const crti_pending_t *p,
                                         const crti_net_loss_t *loss)
{
    const crt_actor_t *actor = p->spec.actor;
    crti_attempt_loss_t facts = {.is_task = p->pool != NULL,
                                 .may_have_begun = may_have_begun(p, loss),
                                 .ran_no_call = p->remote->ran_no_call,
                                 .is_alive = loss->status == CRT_ERR_UNREACHABLE,
                                 .has_record = p->spec.record.size > 0,
                                 .max_retries = crti_pending_most(p)};

    if (actor) {
        facts.is_actor_gone = actor->phase == CRTI_ACTOR_GONE;
        facts.may_be_placed =
            actor->phase == CRTI_ACTOR_WAITING || actor->phase == CRTI_ACTOR_SUSPECT;
        facts.is_suspect =
            actor->phase == CRTI_ACTOR_SUSPECT && p->remote == actor->remote;
    }
    return facts;
}

/* The call goes on: a task to another worker, a method to where its actor may live anew. */
static void send_elsewhere(crti_pending_t *p)
{
    crt_actor_t *actor = p->spec.actor;

    if (!actor) {
        crti_task_answered(p, true);
        return;
    }
    crti_pending_unlink(p);
    crti_actor_take_back(p);
    crti_actor_drain(actor);
}

static void fail_by_loss(crti_pending_t *p, const crti_net_loss_t *loss)
{
    bool is_worker = p->pool || p->attempt.cancel;
    crt_status_t status = loss->status == CRT_ERR_UNREACHABLE ? loss->status
                          : is_worker                         ? CRT_ERR_WORKER_DIED
                                                              : CRT_ERR_ACTOR_DIED;

    crti_pending_fail(p, status, loss->detail, p->attempt.may_have_run);
}

void crti_pending_lost(crti_pending_t *p, const crti_net_loss_t *loss)
{
    crti_attempt_loss_t facts;
    crti_attempt_action_t action;

    if (p->backup)
        crti_backup_leave(p);
    facts = describe_loss(p, loss);
    action = crti_attempt_lost(&p->attempt, &facts);
    if (action == CRTI_ATTEMPT_DO_SUSPECT)
        crti_pending_suspect(p);
    else if (action == CRTI_ATTEMPT_DO_QUEUE ||
             (action == CRTI_ATTEMPT_DO_REPEAT && crti_pending_again(p, loss->detail)))
        send_elsewhere(p);
    else
        fail_by_loss(p, loss);
}

/* ------------------------------------------------------------------ making one */

crt_ref_t crti_ref_out_of_memory = {.is_owned = true,
                                    .is_result = true,
                                    .content = CRTI_CONTENT_FAILED,
                                    .more = CRTI_REF_NO_MORE};

/* What is asked instead of a method. */
static const crti_function_t ready_question = {
    .class_name = "", .name = "", .display = CRTI_READY_QUESTION};

/* What is called instead of a method. */
static const crti_function_t stop_request = {
    .class_name = "", .name = "", .display = CRTI_STOP_REQUEST, .index = CRTI_CALL_STOP};

/* As the worker knows it; of a call from outside, which is given the name CLASS.METHOD, what is
 * behind the class. */
static crti_span_t method_name(const crti_pending_t *p)
{
    if (p->spec.actor && CRTI_CALL_IS_OUTSIDE(p->spec.function->index))
        return crti_str(p->spec.options->name + strlen(p->spec.actor->class_name) + 1);
    return (crti_span_t){p->spec.function->name, p->spec.function->name_size};
}

static crt_status_t put_head(crti_pending_t *p, crti_buffer_t *record, size_t arg_count)
{
    bool is_question = p->spec.function == &ready_question;
    crti_call_head_t head = {.flags = p->pool       ? CRTI_CALL_TASK
                                      : is_question ? CRTI_CALL_READY
                                                    : CRTI_CALL_IN_GROUP(p->spec.group),
                             .returns = p->spec.returns,
                             .index = p->spec.function->index,
                             .arg_count = (unsigned)arg_count,
                             .call = p->number,
                             .name = method_name(p),
                             .seed = is_question || p->spec.function == &stop_request
                                         ? 0
                                         : crti_seed_of_call(p->core)};

    if (p->spec.returns > 1 || p->stream)
        head.flags |= CRTI_CALL_RETURNS;
    if (p->stream) {
        head.is_stream = true;
        head.stream = crti_call_stream_start(p->stream);
    }
    if (p->spec.options && p->spec.options->name) {
        head.flags |= CRTI_CALL_NAMED;
        head.given_name = crti_str(p->spec.options->name);
    }
    if (p->pool && p->pool->group) {
        head.flags |= CRTI_CALL_PLACED;
        head.placement =
            (crti_placement_t){p->pool->group->id, p->pool->shape.how->bundle,
                               p->pool->shape.captures_children};
    }
    return crti_put_call(record, &head);
}

/* Waits, with its place in the order kept where there is one, until the refs among its arguments
 * are ready. */
static void start_waiting(crti_pending_t *p, const crt_arg_t *args, size_t count,
                          size_t total)
{
    crt_status_t status = put_head(p, &p->spec.record, total);

    if (status == CRT_OK)
        status = crti_slot_args(p, args, count);
    if (status == CRT_OK)
        crti_call_await_slots(p);
    else
        crti_pending_fail(p, status, crt_error_detail(), false);
}

static void start(crti_pending_t *p, const crt_arg_t *args, size_t count, size_t total)
{
    crti_core_t *core = p->core;
    crti_buffer_t scratch = crti_scratch_take(core);
    crt_ref_t *failed = NULL;
    crt_status_t status = put_head(p, &scratch, total);

    if (status == CRT_OK)
        status = crti_put_args(core, &p->spec, &scratch, args, count, &failed);
    if (status == CRT_OK && !failed && p->pool) /* a million may wait */
        status = crti_buffer_assign(&p->spec.record, scratch.data, scratch.size);
    if (failed)
        crti_pending_fail_by(p, failed);
    else if (status != CRT_OK)
        crti_pending_fail(p, status, crt_error_detail(), false);
    else if (p->spec.actor)
        crti_actor_submit(p, &scratch);
    else
        crti_task_submit(p);
    crti_scratch_give(core, &scratch);
}

static crt_status_t check_returns(size_t returns)
{
    return returns > 0 && returns <= CRTI_EVERY_PART >> CRTI_NUMBER_BITS
               ? CRT_OK
               : crt_raise(CRT_ERR_INVALID, "a call has 1 to 65535 results, not %zu",
                           returns);
}

/* The result of a call that has ended before it began. */
static crt_ref_t *as_result(crt_ref_t *ref)
{
    if (ref != &crti_ref_out_of_memory)
        ref->is_result = true;
    return ref;
}

void crti_call_refused(crti_core_t *core, crt_status_t status, crt_ref_t **refs,
                       size_t returns)
{
    for (size_t i = 0; i < returns; i++)
        refs[i] = as_result(crti_ref_failed(core, status));
}

void crti_call_without_core(const crt_arg_t *args, size_t count, crt_ref_t **refs,
                            size_t returns)
{
    if (returns == 0)
        return;
    refs[0] = as_result(crti_given_refused(args, count));
    crti_call_refused(NULL, crti_entry_status(), refs + 1, returns - 1);
}

void crti_call_out(crti_core_t *core, const crti_target_t *target,
                   const crti_given_t *given, crt_ref_t **refs)
{
    crt_status_t status = crti_core_check(core);
    const crt_arg_t *args = given->copy ? given->copy : given->args;
    size_t count = given->count;
    crti_pending_t *p;
    bool is_pending = false, has_options = crti_call_has_options(target);
    size_t total = 0;

    if (status == CRT_OK)
        status = check_returns(target->returns);
    if (status == CRT_OK)
        status =
            crti_args_check(target->function, given->args, count, &total, &is_pending);
    if (status == CRT_OK && has_options)
        status = crti_call_options_check(target);
    if (status == CRT_OK && !target->past_limits)
        status = target->actor ? crti_actor_room(target->actor, target->try_only)
                               : crti_task_room(target->pool, target->try_only);
    p = status == CRT_OK ? crti_pending_new(core, target) : NULL;
    if (!p) {
        if (status == CRT_OK)
            status = crt_raise(CRT_ERR_NO_MEMORY, "a call");
        crti_call_refused(core, status, refs, target->returns);
        return;
    }
    if (p->spec.actor) {
        p->is_counted = true;
        p->spec.actor->pending_calls++;
    }
    refs[0] = p->result;
    if (p->spec.returns > 1)
        memcpy(refs + 1, p->more, (p->spec.returns - 1) * sizeof(crt_ref_t *));
    if (has_options || core->copies)
        status = crti_call_options_keep(p, target);
    if (status != CRT_OK)
        crti_pending_fail(p, status, crt_error_detail(), false);
    else if (is_pending)
        start_waiting(p, args, count, total);
    else
        start(p, args, count, total);
}

static crt_ref_t *request_out(crti_core_t *core, crt_actor_t *actor,
                              const crti_function_t *function, int64_t max_retries)
{
    crti_target_t target = {
        .actor = actor, .function = function, .max_retries = max_retries, .returns = 1};
    crti_pending_t *p = crti_pending_new(core, &target);
    crt_ref_t *result;

    if (!p)
        return crti_ref_failed(core, crt_raise(CRT_ERR_NO_MEMORY, "a call"));
    result = p->result;
    start(p, NULL, 0, 0);
    return result;
}

crt_ref_t *crti_ready_out(crti_core_t *core, crt_actor_t *actor)
{
    return request_out(core, actor, &ready_question, CRTI_RETRIES_OF_ACTOR);
}

crt_ref_t *crti_stop_out(crti_core_t *core, crt_actor_t *actor)
{
    return request_out(core, actor, &stop_request, -1);
}
