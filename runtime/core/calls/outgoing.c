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
#include "runtime/core/calls/call_events.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/placement_group.h"
#include "runtime/core/calls/stream.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/core.h"
#include "runtime/core/refs/value_of.h"

/* ------------------------------------------------------------------ life of a pending call */

/* ------------------------------------------------------------------ the end of one */

/* It failed, in no list any more: for an error for which it is to be made once more? */
static bool is_made_again(crti_pending_t *p, const crti_result_t *result)
{
    char text[200];

    if (result->form != CRTI_RESULT_ERROR || p->record.size == 0 ||
        !crti_call_is_retried_for(p, &result->failure))
        return false;
    crti_text(result->failure.text, text, sizeof(text));
    if (!crti_pending_again(p, text))
        return false;
    p->state = CRTI_CALL_ARGUMENTS; /* in no list */
    p->remote = NULL;
    if (p->actor)
        crti_actor_submit(p, &p->record);
    else
        crti_task_submit(p);
    return true;
}

void crti_pending_answer(crti_pending_t *p, const crti_result_t *result)
{
    const crti_result_t cancelled = {
        .form = CRTI_RESULT_ERROR,
        .failure = {.status = CRT_ERR_CANCELLED,
                    .text = crti_str("it was cancelled before it began"),
                    .class_name = crti_str(p->function->class_name),
                    .method = crti_str(crti_call_method(p))}};
    crt_actor_t *actor = p->actor;

    if (result->form == CRTI_RESULT_NOT_STARTED && p->is_cancelled)
        result = &cancelled;
    if (result->form == CRTI_RESULT_NOT_STARTED) {
        if (p->pool && p->state == CRTI_CALL_SENT)
            crti_task_answered(p, true);
        return;
    }
    if (actor) {
        crti_actor_hold(actor);
        actor->has_answered = actor->has_answered || p->remote == actor->remote;
    }
    crti_pending_unlink(p);
    if (p->pool && p->lease)
        crti_task_answered(p, false);
    if (!is_made_again(p, result))
        crti_pending_finish(p, result);
    if (!actor)
        return;
    if (!crti_list_is_empty(&actor->queue))
        crti_actor_drain(actor);
    crti_actor_release(actor);
}

static void lose_task(crti_pending_t *p, const crti_net_loss_t *loss)
{
    bool lives = loss->status == CRT_ERR_UNREACHABLE;

    if (!p->may_have_run || (!lives && crti_pending_again(p, loss->detail)))
        crti_task_answered(p, true);
    else
        crti_pending_fail(p, lives ? loss->status : CRT_ERR_WORKER_DIED, loss->detail,
                          true);
}

/* It certainly did not run, and the actor may live elsewhere: its process died in `create`, or it did not leave
 * for a place that was only heard of. */
static bool is_to_be_sent_elsewhere(const crti_pending_t *p)
{
    crti_actor_phase_t phase = p->actor->phase;

    if (p->may_have_run || p->record.size == 0)
        return false;
    if (p->remote->ran_no_call)
        return phase != CRTI_ACTOR_GONE;
    return p->on_unconfirmed &&
           (phase == CRTI_ACTOR_WAITING || phase == CRTI_ACTOR_SUSPECT);
}

void crti_pending_lost(crti_pending_t *p, const crti_net_loss_t *loss)
{
    crt_actor_t *actor = p->actor;

    p->may_have_run = p->sequence <= loss->handed && !p->remote->ran_no_call;
    if (p->is_cancelled) {
        crti_pending_fail(
            p, loss->status == CRT_ERR_UNREACHABLE ? loss->status : CRT_ERR_WORKER_DIED,
            loss->detail, p->may_have_run);
    } else if (p->pool) {
        lose_task(p, loss);
    } else if (is_to_be_sent_elsewhere(p)) {
        crti_pending_unlink(p);
        crti_actor_take_back(p);
        crti_actor_drain(actor); /* it may live anew */
    } else if (actor->phase == CRTI_ACTOR_SUSPECT && p->remote == actor->remote) {
        crti_pending_suspect(p);
    } else { /* of a place before its actor's, too: nothing more is said of that */
        crti_pending_fail(
            p, loss->status == CRT_ERR_UNREACHABLE ? loss->status : CRT_ERR_ACTOR_DIED,
            loss->detail, p->may_have_run);
    }
}

/* ------------------------------------------------------------------ making one */

crt_ref_t crti_ref_out_of_memory = {.is_owned = true,
                                    .is_result = true,
                                    .content = CRTI_CONTENT_FAILED,
                                    .more = CRTI_REF_NO_MORE};

/* The last ref that it waited for is ready. */
static void on_slot_ready(crti_waiting_t *waiting, crt_ref_t *ref)
{
    crti_slot_t *slot = CRTI_CONTAINER(waiting, crti_slot_t, waiting);
    crti_pending_t *p = slot->pending;
    crt_actor_t *actor = p->actor;
    crt_ref_t *failed = NULL;
    crt_status_t status;

    if (--p->missing)
        return;
    if (actor)
        crti_actor_hold(actor);
    status = crti_put_slots(p, &failed);
    if (failed) {
        crti_pending_fail_by(p, failed);
    } else if (status != CRT_OK) {
        crti_pending_fail(p, status, crt_error_detail(), false);
    } else {
        crti_drop_slots(p);
        if (actor)
            crti_actor_complete(p);
        else
            crti_task_submit(p);
    }
    if (actor) {
        crti_actor_drain(actor); /* it may have held up those behind it */
        crti_actor_release(actor);
    }
}

/* What is asked instead of a method. */
static const crti_function_t ready_question = {
    .class_name = "", .name = "", .display = CRTI_READY_QUESTION};

/* What is called instead of a method. */
static const crti_function_t stop_request = {
    .class_name = "", .name = "", .display = CRTI_STOP_REQUEST, .index = CRTI_CALL_STOP};

/* As the worker knows it; of a call from outside, which is given the name CLASS.METHOD, what is behind the class. */
static crti_span_t method_name(const crti_pending_t *p)
{
    if (p->actor && CRTI_CALL_IS_OUTSIDE(p->function->index))
        return crti_str(p->options->name + strlen(p->actor->class_name) + 1);
    return (crti_span_t){p->function->name, p->function->name_size};
}

static crt_status_t put_head(crti_pending_t *p, crti_buffer_t *record, size_t arg_count)
{
    bool is_question = p->function == &ready_question;
    crti_call_head_t head = {.flags = p->pool       ? CRTI_CALL_TASK
                                      : is_question ? CRTI_CALL_READY
                                                    : CRTI_CALL_IN_GROUP(p->group),
                             .returns = p->returns,
                             .index = p->function->index,
                             .arg_count = (unsigned)arg_count,
                             .call = p->number,
                             .name = method_name(p),
                             .seed = is_question || p->function == &stop_request
                                         ? 0
                                         : crti_seed_of_call(p->core)};

    if (p->returns > 1 || p->stream)
        head.flags |= CRTI_CALL_RETURNS;
    if (p->stream) {
        head.is_stream = true;
        head.stream = crti_call_stream_start(p->stream);
    }
    if (p->options && p->options->name) {
        head.flags |= CRTI_CALL_NAMED;
        head.given_name = crti_str(p->options->name);
    }
    if (p->pool && p->pool->group) {
        head.flags |= CRTI_CALL_PLACED;
        head.placement =
            (crti_placement_t){p->pool->group->id, p->pool->shape.how->bundle,
                               p->pool->shape.captures_children};
    }
    return crti_put_call(record, &head);
}

/* Waits, with its place in the order kept where there is one, until the refs among its arguments are ready. */
static void start_waiting(crti_pending_t *p, const crt_arg_t *args, size_t count,
                          size_t total)
{
    crt_status_t status = put_head(p, &p->record, total);

    p->state = CRTI_CALL_ARGUMENTS;
    if (p->actor)
        crti_actor_reserve(p);
    if (status == CRT_OK)
        status = crti_slot_args(p, args, count);
    if (status != CRT_OK) {
        crti_pending_fail(p, status, crt_error_detail(), false);
        return;
    }
    p->missing = 1; /* until all are asked */
    for (unsigned i = 0; i < p->slot_count; i++) {
        crti_slot_t *slot = &p->slots[i];

        if (!slot->ref || !slot->ref->is_owned || slot->ref->content != CRTI_CONTENT_NONE)
            continue;
        p->missing++;
        slot->waiting.on_ready = on_slot_ready;
        crti_ref_await(slot->ref, &slot->waiting, false);
    }
    on_slot_ready(&p->slots[0].waiting, NULL);
}

static void start(crti_pending_t *p, const crt_arg_t *args, size_t count, size_t total)
{
    crti_core_t *core = p->core;
    crti_buffer_t scratch = crti_scratch_take(core);
    crt_ref_t *failed = NULL;
    crt_status_t status;

    p->state = CRTI_CALL_ARGUMENTS;
    status = put_head(p, &scratch, total);
    if (status == CRT_OK)
        status = crti_put_args(p, &scratch, args, count, &failed);
    if (status == CRT_OK && !failed && p->pool) /* a million may wait */
        status = crti_buffer_assign(&p->record, scratch.data, scratch.size);
    if (failed)
        crti_pending_fail_by(p, failed);
    else if (status != CRT_OK)
        crti_pending_fail(p, status, crt_error_detail(), false);
    else if (p->actor)
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
    bool is_pending;
    size_t total;

    if (status == CRT_OK)
        status = check_returns(target->returns);
    if (status == CRT_OK)
        status = crti_args_check(target->function, given->args, count);
    if (status == CRT_OK)
        status = crti_call_options_check(target);
    if (status == CRT_OK && target->actor)
        status = crti_actor_room(target->actor, target->try_only);
    else if (status == CRT_OK)
        status = crti_task_room(target->pool, target->try_only);
    p = status == CRT_OK ? crti_pending_new(core, target) : NULL;
    if (!p) {
        if (status == CRT_OK)
            status = crt_raise(CRT_ERR_NO_MEMORY, "a call");
        crti_call_refused(core, status, refs, target->returns);
        return;
    }
    if (p->actor) {
        p->is_counted = true;
        p->actor->pending_calls++;
    }
    refs[0] = p->result;
    if (p->returns > 1)
        memcpy(refs + 1, p->more, (p->returns - 1) * sizeof(crt_ref_t *));
    total = crti_args_count(args, count, &is_pending);
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
