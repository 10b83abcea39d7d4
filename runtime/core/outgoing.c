/* SPDX-License-Identifier: Apache-2.0 */
/* Outgoing calls: from the user's arguments to a pending call, and from an answer to its result.
 *
 * Where it sits
 *     crt_call_v, crt_tell_v, crt_submit_v -> [ outgoing.c ] -> actor.c or submit.c -> net
 *     peers.c (REPLY, losses) -> [ outgoing.c ] -> refs.c (the result)
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
#include "runtime/core/core.h"
#include "runtime/core/missing.h"

/* ------------------------------------------------------------------ life of a pending call */

void crti_pending_fini(void *item)
{
    crti_pending_t *p = item;

    crti_buffer_fini(&p->record);
    crti_buffer_fini(&p->values);
}

static crti_pending_t *new_pending(crti_core_t *core, const crti_target_t *target)
{
    crti_pending_t *p = crti_pool_get(&core->pendings);
    crti_buffer_t record, values;

    if (!p)
        return NULL;
    record = p->record;
    values = p->values;
    record.size = values.size = 0;
    memset(p, 0, sizeof(*p));
    p->record = record;
    p->values = values;
    crti_list_init(&p->link);
    p->core = core;
    p->function = target->function;
    p->pool = target->pool;
    p->result = crti_ref_new(core);
    if (!p->result) {
        crti_pool_put(&core->pendings, p);
        return NULL;
    }
    p->number = p->result->id.number;
    p->max_retries = target->max_retries;
    p->result->call = p;
    p->result->is_tell = target->is_tell;
    crti_ref_hold(p->result);
    if (target->actor) {
        p->actor = target->actor;
        crti_actor_hold(p->actor);
    }
    return p;
}

static void free_pending(crti_pending_t *p)
{
    crti_core_t *core = p->core;
    crt_actor_t *actor = p->actor;

    crti_drop_slots(p);
    for (uint32_t i = 0; i < p->pin_count; i++)
        crti_ref_unpin(p->pins[i]);
    if (p->pins != p->few_pins)
        free(p->pins);
    if (p->record.capacity > 4096)
        crti_buffer_fini(&p->record);
    if (p->values.capacity > 4096)
        crti_buffer_fini(&p->values);
    crti_pool_put(&core->pendings, p);
    if (actor)
        crti_actor_release(actor);
}

void crti_pending_forget_remote(crti_pending_t *p)
{
    crti_remote_t *remote = p->remote;

    p->remote = NULL;
    if (remote)
        crti_remote_unuse(p->core, remote);
}

/* Out of whatever list it is in, with the counts of that list. */
static void unlink_pending(crti_pending_t *p)
{
    crti_list_remove(&p->link);
    if (p->state == CRTI_CALL_SENT) {
        crti_net_t *net = p->core->net;

        if (p->remote->peer)
            crti_net_watch(net, p->remote->peer, -1);
    } else if (p->state == CRTI_CALL_QUEUED) {
        crti_pending_forget_remote(p);
        if (p->actor)
            p->actor->queue_bytes -= p->record.size;
        else
            crti_task_unqueued(p);
    }
}

/* ------------------------------------------------------------------ the end of one */

static void log_tell(const crti_pending_t *p, const crt_ref_t *result)
{
    if (!result->is_tell || result->content != CRTI_CONTENT_FAILED || !result->error)
        return;
    p->core->tell_failures++;
    crti_log(CRTI_LOG_WARN, "core", "crt_tell of %s failed: %s (%llu so far)",
             p->function->display, result->error->user.text,
             (unsigned long long)p->core->tell_failures);
}

static void finish(crti_pending_t *p, const crti_result_t *result)
{
    crt_ref_t *ref = p->result;

    if (p->number != ref->id.number)
        crti_numbers_remove(&p->core->retried, p->number);
    ref->call = NULL;
    crti_ref_set_result(ref, result, true);
    if (ref->forward)
        crti_result_waits_for(ref, p->function);
    log_tell(p, ref);
    free_pending(p);
    crti_ref_release(ref);
}

crti_pending_t *crti_pending_get(crti_core_t *core, uint64_t number)
{
    crt_ref_t *ref = crti_numbers_get(&core->owned, number);

    if (!ref)
        return crti_numbers_get(&core->retried, number);
    return ref->call && ref->call->number == number ? ref->call : NULL;
}

/* What a worker says of its result must be about this process's own object. */
static bool is_sound(const crti_pending_t *p, const crti_result_t *result)
{
    return result->form != CRTI_RESULT_STORED ||
           (crti_id_equal(result->location.object.owner, p->core->process) &&
            result->location.node_count == 1);
}

void crti_pending_answer(crti_pending_t *p, const crti_result_t *result)
{
    crt_actor_t *actor = p->actor;
    crti_result_t wrong = {
        .form = CRTI_RESULT_ERROR,
        .failure = {.status = CRT_ERR_PROTOCOL,
                    .text = crti_str("a result of another process's object"),
                    .class_name = crti_str(""),
                    .method = crti_str("")}};

    if (result->form == CRTI_RESULT_NOT_STARTED) {
        if (p->pool && p->state == CRTI_CALL_SENT)
            crti_task_answered(p, true);
        return;
    }
    if (actor)
        crti_actor_hold(actor);
    unlink_pending(p);
    if (p->pool && p->lease)
        crti_task_answered(p, false);
    finish(p, is_sound(p, result) ? result : &wrong);
    if (!actor)
        return;
    if (!crti_list_is_empty(&actor->queue))
        crti_actor_drain(actor);
    crti_actor_release(actor);
}

/* The failure as the user sees it: what was called, where it would have run. */
static void describe_failure(const crti_pending_t *p, crt_status_t status,
                             const char *text, bool may_have_run, crti_failure_t *failure)
{
    *failure = (crti_failure_t){.status = status,
                                .may_have_run = may_have_run,
                                .text = crti_str(text),
                                .class_name = crti_str(p->function->class_name),
                                .method = crti_str(p->function->name)};
    if (p->actor)
        failure->actor = p->actor->id;
    if (p->remote) {
        failure->node = p->remote->address.node;
        failure->pid = p->remote->pid;
    }
}

/* The process that ran it has died, or was lost, perhaps between storing a result and telling of it. */
static void abandon_results(const crti_pending_t *p)
{
    if (p->remote)
        crti_object_abandon(p->core, p->number, p->remote->address.node);
}

void crti_pending_fail(crti_pending_t *p, crt_status_t status, const char *text,
                       bool may_have_run)
{
    crti_result_t result = {.form = CRTI_RESULT_ERROR};
    char tried[1100];

    if (p->retries) {
        may_have_run = true;
        snprintf(tried, sizeof(tried), "%s (the last of %lld tries)", text,
                 (long long)p->retries + 1);
        text = tried;
    }
    describe_failure(p, status, text, may_have_run, &result.failure);
    if (may_have_run && (status == CRT_ERR_ACTOR_DIED || status == CRT_ERR_WORKER_DIED ||
                         status == CRT_ERR_UNREACHABLE))
        abandon_results(p);
    unlink_pending(p);
    finish(p, &result);
}

/* An argument had failed: its failure becomes the call's. */
static void fail_by_argument(crti_pending_t *p, const crt_ref_t *failed)
{
    crti_result_t result = {.form = CRTI_RESULT_ERROR,
                            .failure = crti_error_failure(failed->error)};

    result.failure.may_have_run = false;
    unlink_pending(p);
    finish(p, &result);
}

/* Under a number of its own: what an earlier try stored must not be taken for its result. */
static crt_status_t renumber(crti_pending_t *p)
{
    crti_numbers_t *retried = &p->core->retried;
    uint64_t number = p->core->next_number++;
    crt_status_t status = crti_numbers_add(retried, number, p);

    if (status != CRT_OK)
        return status;
    if (p->number != p->result->id.number)
        crti_numbers_remove(retried, p->number);
    p->number = number;
    crti_renumber_call(&p->record, number);
    return CRT_OK;
}

bool crti_pending_again(crti_pending_t *p, const char *text)
{
    int64_t most = p->actor ? p->actor->max_task_retries : p->max_retries;

    if (most >= 0 && p->retries >= most)
        return false;
    abandon_results(p);
    if (renumber(p) != CRT_OK)
        return false;
    p->retries++;
    p->may_have_run = false;
    crti_log(CRTI_LOG_WARN, "core", "%s is made again (%lld): %s", p->function->display,
             (long long)p->retries, text);
    return true;
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

void crti_pending_suspect(crti_pending_t *p)
{
    unlink_pending(p);
    p->state = CRTI_CALL_QUEUED;
    p->remote
        ->uses++; /* the actor may live elsewhere before it is known what became of it */
    p->actor->queue_bytes += p->record.size;
    crti_list_append(&p->actor->doubtful, &p->link);
}

/* It was sent to a place that was only heard of, did not leave, and the actor may live elsewhere. */
static bool is_to_be_sent_elsewhere(const crti_pending_t *p)
{
    return p->on_unconfirmed && !p->may_have_run &&
           (p->actor->phase == CRTI_ACTOR_WAITING ||
            p->actor->phase == CRTI_ACTOR_SUSPECT);
}

void crti_pending_lost(crti_pending_t *p, const crti_net_loss_t *loss)
{
    p->may_have_run = p->sequence <= loss->handed;
    if (p->pool) {
        lose_task(p, loss);
    } else if (is_to_be_sent_elsewhere(p)) {
        unlink_pending(p);
        crti_actor_take_back(p);
    } else if (p->actor->phase == CRTI_ACTOR_SUSPECT && p->remote == p->actor->remote) {
        crti_pending_suspect(p);
    } else { /* of a place before its actor's, too: nothing more is said of that */
        crti_pending_fail(
            p, loss->status == CRT_ERR_UNREACHABLE ? loss->status : CRT_ERR_ACTOR_DIED,
            loss->detail, p->may_have_run);
    }
}

/* The refs in a result that nobody takes: each came with a token, which is given back. */
static void release_refs(crti_core_t *core, const crti_result_t *result)
{
    crti_span_t table = {"", 0};
    crti_contained_t inner;
    crt_ref_t *ref;

    if (result->form == CRTI_RESULT_FORWARD) {
        if (crti_ref_arrive(core, &result->ref, &ref) != CRT_OK)
            return;
        crti_ref_hold(ref);
        crti_ref_add_token(ref);
        crti_ref_release(ref);
        return;
    }
    if (result->form == CRTI_RESULT_STORED)
        table = result->table;
    else if (result->form == CRTI_RESULT_VALUE || result->form == CRTI_RESULT_DATA)
        (void)crti_value_table(result->value.data, result->value.size, &table);
    if (table.size &&
        crti_contained_open(core, table, CRTI_CONTAINED_HELD, true, &inner) == CRT_OK)
        crti_contained_close(&inner, NULL);
}

void crti_result_late(crti_core_t *core, const crti_result_t *result)
{
    const crti_location_t *location = &result->location;
    crti_id_t node;

    release_refs(core, result);
    if (result->form != CRTI_RESULT_STORED || location->node_count != 1 ||
        !crti_id_equal(location->object.owner, core->process))
        return;
    node = crti_location_node(location, 0);
    crti_object_unstore(core, location->object, &node, 1);
}

/* ------------------------------------------------------------------ making one */

crt_ref_t crti_ref_out_of_memory = {.is_owned = true, .content = CRTI_CONTENT_FAILED};

crt_ref_t *crti_ref_failed(crti_core_t *core, crt_status_t status)
{
    crti_failure_t failure = {.status = status,
                              .text = crti_str(crt_error_detail()),
                              .class_name = crti_str(""),
                              .method = crti_str(""),
                              .pid = getpid()};
    crt_ref_t *ref = core ? crti_ref_new(core) : calloc(1, sizeof(*ref));

    if (!ref)
        return &crti_ref_out_of_memory;
    if (core) {
        crti_ref_set_failed(ref, &failure);
        return ref;
    }
    ref->is_owned = true;
    ref->content = CRTI_CONTENT_FAILED;
    ref->error = crti_error_new(&failure);
    return ref;
}

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
        fail_by_argument(p, failed);
    } else if (status != CRT_OK) {
        crti_pending_fail(p, status, crt_error_detail(), false);
    } else {
        crti_drop_slots(p);
        if (actor) {
            actor->queue_bytes += p->record.size;
            p->state = CRTI_CALL_QUEUED;
        } else {
            crti_task_submit(p);
        }
    }
    if (actor) {
        crti_actor_drain(actor); /* it may have held up those behind it */
        crti_actor_release(actor);
    }
}

/* What is asked instead of a method. */
static const crti_function_t ready_question = {
    .class_name = "", .name = "", .display = "crt_actor_ready"};

static crt_status_t put_head(crti_pending_t *p, crti_buffer_t *record, size_t arg_count)
{
    bool is_question = p->function == &ready_question;
    crti_call_head_t head = {.flags = p->pool       ? CRTI_CALL_TASK
                                      : is_question ? CRTI_CALL_READY
                                                    : 0,
                             .index = p->function->index,
                             .arg_count = (unsigned)arg_count,
                             .call = p->number,
                             .name = {p->function->name, p->function->name_size}};

    return crti_put_call(record, &head);
}

/* Waits with its place in the order kept until the refs among its arguments are ready. */
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
        crti_list_append(&slot->ref->waiters, &slot->waiting.link);
        crti_missing_wanted(slot->ref);
    }
    on_slot_ready(&p->slots[0].waiting, NULL);
}

static void start(crti_pending_t *p, const crt_arg_t *args, size_t count, size_t total)
{
    crti_core_t *core = p->core;
    crti_buffer_t scratch = crti_scratch_take(core),
                  *record = p->actor ? &scratch : &p->record;
    crt_ref_t *failed = NULL;
    crt_status_t status;

    p->state = CRTI_CALL_ARGUMENTS;
    status = put_head(p, record, total);
    if (status == CRT_OK)
        status = crti_put_args(p, record, args, count, &failed);
    if (failed)
        fail_by_argument(p, failed);
    else if (status != CRT_OK)
        crti_pending_fail(p, status, crt_error_detail(), false);
    else if (p->actor)
        crti_actor_submit(p, record);
    else
        crti_task_submit(p);
    crti_scratch_give(core, &scratch);
}

crt_ref_t *crti_call_out(crti_core_t *core, const crti_target_t *target,
                         const crti_given_t *given)
{
    crt_status_t status = crti_core_check(core);
    const crt_arg_t *args = given->copy ? given->copy : given->args;
    size_t count = given->count;
    crti_pending_t *p;
    crt_ref_t *result;
    bool is_pending;
    size_t total;

    if (status == CRT_OK)
        status = crti_args_check(target->function, given->args, count);
    if (status == CRT_OK && target->actor)
        status = crti_actor_room(target->actor, target->try_only);
    else if (status == CRT_OK)
        status = crti_task_room(target->pool, target->try_only);
    if (status != CRT_OK)
        return crti_ref_failed(core, status);
    p = new_pending(core, target);
    if (!p)
        return crti_ref_failed(core, crt_raise(CRT_ERR_NO_MEMORY, "a call"));
    result = p->result;
    total = crti_args_count(args, count, &is_pending);
    if (is_pending)
        start_waiting(p, args, count, total);
    else
        start(p, args, count, total);
    return result;
}

crt_ref_t *crti_ready_out(crti_core_t *core, crt_actor_t *actor)
{
    crti_target_t target = {.actor = actor, .function = &ready_question};
    crti_pending_t *p = new_pending(core, &target);
    crt_ref_t *result;

    if (!p)
        return crti_ref_failed(core, crt_raise(CRT_ERR_NO_MEMORY, "a call"));
    result = p->result;
    start(p, NULL, 0, 0);
    return result;
}
