/* SPDX-License-Identifier: Apache-2.0 */
/* Pending calls: the life of a call of this process from when it is made to its result.
 *
 * Where it sits
 *     outgoing.c (makes them), actor.c, submit.c (send them, lose them) -> [ pending.c ] ->
 *     notify.c
 * Ownership
 *     A pending call holds its result, its actor and what its arguments need, until it is answered.
 * Invariants
 *     Every pending call ends exactly once: answered, failed, or lost.
 * Tier: message path.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/backlog.h"
#include "runtime/core/calls/call_events.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/calls/lineage.h"
#include "runtime/core/calls/stream.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/missing.h"
#include "runtime/core/values/error.h"

void crti_pending_fini(void *item)
{
    crti_pending_t *p = item;

    crti_buffer_fini(&p->spec.record);
    crti_buffer_fini(&p->values);
}

static crt_ref_t *make_result(crti_pending_t *p)
{
    crt_ref_t *ref = crti_ref_new(p->core);

    if (!ref)
        return NULL;
    ref->is_result = true;
    ref->call = p;
    return ref;
}

static void drop_result(crt_ref_t *ref)
{
    ref->call = NULL;
    crti_ref_release(ref);
}

static bool make_more(crti_pending_t *p)
{
    p->more = calloc(p->spec.returns - 1, sizeof(*p->more));
    if (!p->more)
        return false;
    for (unsigned i = 0; i < p->spec.returns - 1; i++) {
        p->more[i] = make_result(p);
        if (!p->more[i]) {
            while (i--)
                drop_result(p->more[i]);
            free(p->more);
            return false;
        }
    }
    return true;
}

bool crti_pending_make_results(crti_pending_t *p)
{
    p->result = make_result(p);
    if (p->result && p->spec.returns > 1 && !make_more(p)) {
        drop_result(p->result);
        return false;
    }
    return p->result != NULL;
}

/* All zero, but with the buffers of the one that it was before. */
crti_pending_t *crti_pending_blank(crti_core_t *core)
{
    crti_pending_t *p = crti_pool_get(&core->calls->pool);
    crti_buffer_t record, values;

    if (!p)
        return NULL;
    record = p->spec.record;
    values = p->values;
    record.size = values.size = 0;
    memset(p, 0, sizeof(*p));
    p->spec.record = record;
    p->values = values;
    crti_list_init(&p->link);
    p->core = core;
    return p;
}

crti_pending_t *crti_pending_new(crti_core_t *core, const crti_target_t *target)
{
    crti_pending_t *p = crti_pending_blank(core);

    if (!p)
        return NULL;
    p->spec.function = target->function;
    p->pool = target->pool;
    p->spec.returns = (unsigned)target->returns;
    if (!crti_pending_make_results(p)) {
        crti_pool_put(&core->calls->pool, p);
        return NULL;
    }
    if (p->pool)
        p->pool->users++;
    p->number = p->result->number;
    p->parent = crti_running_serial();
    p->spec.max_retries = target->max_retries;
    p->spec.group = target->group;
    p->result->is_tell = target->is_tell;
    crti_ref_hold(p->result);
    for (unsigned i = 0; i < p->spec.returns - 1; i++)
        crti_ref_hold(p->more[i]);
    if (target->actor) {
        p->spec.actor = target->actor;
        crti_actor_hold(p->spec.actor);
    }
    if (target->stream)
        crti_call_stream_begin(target->stream, p);
    crti_call_event_made(p);
    return p;
}

/* Those that are made again and were lost meanwhile may be made once more. */
static bool ends_with_call(const crti_pending_t *p, const crt_ref_t *ref)
{
    return !ref->more->forward && (ref->owned.state == CRTI_OWNED_PENDING ||
                                   (!p->lineage && crti_ref_is_missing(ref)));
}

/* The other results end as the first one does; those without a value have none. */
static void end_more(crti_pending_t *p, const crti_result_t *result)
{
    static const crti_result_t missing = {
        .form = CRTI_RESULT_ERROR,
        .failure = {.status = CRT_ERR_PROTOCOL,
                    .may_have_run = true,
                    .text = {"a call that ended without this one of its results", 49},
                    .class_name = {"", 0},
                    .method = {"", 0}}};

    for (unsigned i = 0; i < p->spec.returns - 1; i++) {
        crt_ref_t *ref = p->more[i];

        ref->call = NULL;
        if (ends_with_call(p, ref))
            crti_ref_set_result(
                ref, result->form == CRTI_RESULT_ERROR ? result : &missing, true);
    }
}

static void release_more(crti_pending_t *p)
{
    for (unsigned i = 0; i < p->spec.returns - 1; i++)
        crti_ref_release(p->more[i]);
    free(p->more);
    p->more = NULL;
}

void crti_pending_free(crti_pending_t *p)
{
    if (p->spec.pins != p->spec.few_pins)
        free(p->spec.pins);
    if (p->spec.record.capacity > 4096)
        crti_buffer_fini(&p->spec.record);
    if (p->values.capacity > 4096)
        crti_buffer_fini(&p->values);
    crti_pool_put(&p->core->calls->pool, p);
}

crti_pending_t *crti_pending_restore(crti_task_pool_t *pool, crt_ref_t *result,
                                     const crti_function_t *function,
                                     crt_ref_t *const *pins, uint32_t pin_count,
                                     crti_span_t record)
{
    crti_pending_t *p = crti_pending_blank(pool->core);

    if (!p)
        return NULL;
    if (!crti_call_spec_take_pins(&p->spec, pins, pin_count) ||
        crti_buffer_assign(&p->spec.record, record.data, record.size) != CRT_OK) {
        crti_pending_free(p);
        return NULL;
    }
    crti_attempt_queue(&p->attempt);
    p->pool = pool;
    p->spec.function = function;
    p->result = result;
    p->spec.returns = 1;
    p->number = result->number;
    result->in_backlog = false;
    result->call = p;
    return p;
}

static void free_pending(crti_pending_t *p)
{
    crt_actor_t *actor = p->spec.actor;

    if (p->is_counted)
        actor->pending_calls--;
    if (p->pool)
        p->pool->users--;
    crti_drop_slots(p);
    if (p->deadline)
        crti_call_deadline_end(p);
    if (p->backup)
        crti_backup_end(p);
    if (p->stream)
        crti_call_stream_ended(p->stream);
    if (p->spec.options || p->spec.pin_count)
        crti_call_spec_end(&p->spec);
    crti_pending_free(p);
    if (actor)
        crti_actor_release(actor);
}

/* A suspect call uses its process: the actor may live elsewhere before it is known what became of
 * the call. */
static void forget_remote(crti_pending_t *p)
{
    crti_remote_t *remote = p->remote;

    p->remote = NULL;
    if (remote)
        crti_remote_unuse(p->core, remote);
}

/* Of calls that wait where this one does. */
static size_t *queue_bytes(const crti_pending_t *p)
{
    return p->spec.actor ? &p->spec.actor->queue_bytes : &p->pool->base->queue_bytes;
}

void crti_pending_queue(crti_pending_t *p)
{
    crti_attempt_queue(&p->attempt);
    *queue_bytes(p) += p->spec.record.size;
}

crt_status_t crti_pending_send(crti_pending_t *p, crti_remote_t *remote,
                               const crti_buffer_t *record)
{
    crti_core_t *core = p->core;
    struct iovec part = {record->data, record->size};
    crt_status_t status = crti_remote_connect(core, remote);

    if (status == CRT_OK)
        status = crti_net_send(core->net, remote->peer, &part, 1, CRTI_SEND_TRY,
                               CRTI_NET_NO_DEADLINE, &p->sequence);
    if (status != CRT_OK)
        return status;
    if (p->attempt.state == CRTI_ATTEMPT_QUEUED) {
        crti_list_remove(&p->link);
        *queue_bytes(p) -= p->spec.record.size;
    }
    crti_attempt_send(&p->attempt, p->spec.actor && p->spec.actor->is_unconfirmed);
    p->remote = remote;
    p->lost_sessions = remote->lost_sessions;
    crti_list_append(&remote->in_flight, &p->link);
    crti_net_watch(core->net, remote->peer, 1);
    if (p->backup)
        crti_backup_sent(p);
    crti_call_event_sent(p);
    return CRT_OK;
}

void crti_pending_unlink(crti_pending_t *p)
{
    crti_list_remove(&p->link);
    switch (p->attempt.state) {
    case CRTI_ATTEMPT_QUEUED:
        *queue_bytes(p) -= p->spec.record.size;
        if (p->pool)
            p->pool->leases.queued--;
        break;
    case CRTI_ATTEMPT_SENT:
        if (p->remote->peer)
            crti_net_watch(p->core->net, p->remote->peer, -1);
        if (p->backup)
            crti_backup_taken_out(p);
        break;
    case CRTI_ATTEMPT_SUSPECT:
        forget_remote(p);
        p->spec.actor->queue_bytes -= p->spec.record.size;
        break;
    case CRTI_ATTEMPT_MADE: return;
    default: break;
    }
    crti_attempt_take_out(&p->attempt);
}

/* ------------------------------------------------------------------ the end of one */

static void log_tell(const crti_pending_t *p, const crt_ref_t *result)
{
    if (!result->is_tell || !crti_ref_has_error(result))
        return;
    p->core->calls->tell_failures++;
    crti_log(CRTI_LOG_WARN, "core", "crt_tell of %s failed: %s (%llu so far)",
             crti_call_name(p), result->error->user.text,
             (unsigned long long)p->core->calls->tell_failures);
}

/* Whether a result of a call that is made again is for it: others are here, and stay. */
static bool is_expected(crt_ref_t *ref)
{
    if (crti_ref_is_missing(ref))
        crti_ref_repeat(ref); /* lost since the attempt began, or with the one before */
    return ref->content == CRTI_CONTENT_NONE && !ref->more->forward;
}

static void end(crti_pending_t *p, const crti_result_t *result)
{
    crt_ref_t *ref = p->result;

    crti_attempt_end(&p->attempt);
    if (p->number != ref->number || p->backup)
        crti_numbers_remove(&p->core->calls->retried, p->number);
    ref->call = NULL;
    crti_call_event_ended(p, result);
    if (p->attempt.is_expired || (p->lineage && !is_expected(ref)))
        crti_result_late(p->core, result);
    else
        crti_ref_set_result(ref, result, true);
    if (ref->more->forward)
        p->core->on_forwarded(ref, p->spec.function);
    log_tell(p, ref);
    if (p->spec.returns > 1)
        end_more(p, result);
    if (ref->content == CRTI_CONTENT_STORED || ref->more->forward || p->lineage ||
        p->spec.returns > 1)
        crti_lineage_keep(p, result);
    if (p->spec.returns > 1)
        release_more(p);
    free_pending(p);
    crti_ref_release(ref);
}

/* What a worker says of its result must be about this process's own object. */
static bool is_sound(const crti_pending_t *p, const crti_result_t *result)
{
    return result->form != CRTI_RESULT_STORED ||
           (crti_id_equal(result->location.object.owner, p->core->process) &&
            result->location.node_count == 1);
}

void crti_pending_part(crti_pending_t *p, unsigned index, const crti_result_t *result)
{
    crt_ref_t *ref = index < p->spec.returns ? p->more[index - 1] : NULL;

    if (!ref || !is_sound(p, result) || !is_expected(ref)) {
        crti_result_late(p->core, result);
        return;
    }
    if (p->backup)
        crti_backup_drop(p);
    crti_ref_hold(ref); /* who hears of it may end the call */
    crti_ref_set_result(ref, result, true);
    if (ref->more->forward)
        p->core->on_forwarded(ref, p->spec.function);
    crti_ref_release(ref);
}

crti_pending_t *crti_pending_get(crti_core_t *core, uint64_t number)
{
    crt_ref_t *ref = crti_ref_owned(core, number);
    crti_pending_t *p = ref ? crti_ref_pending(ref) : NULL;

    return p && p->number == number ? p : crti_numbers_get(&core->calls->retried, number);
}

void crti_pending_finish(crti_pending_t *p, const crti_result_t *result)
{
    static const crti_result_t wrong = {
        .form = CRTI_RESULT_ERROR,
        .failure = {.status = CRT_ERR_PROTOCOL,
                    .text = {"a result of another process's object", 36},
                    .class_name = {"", 0},
                    .method = {"", 0}}};

    if (result->form == CRTI_RESULT_ERROR && p->attempt.retries) {
        crti_result_t failed = *result;

        failed.failure.may_have_run = true; /* an earlier try may */
        end(p, &failed);
    } else {
        end(p, is_sound(p, result) ? result : &wrong);
    }
}

/* The failure as the user sees it: what was called, where it would have run. */
static void describe_failure(const crti_pending_t *p, crt_status_t status,
                             const char *text, bool may_have_run, crti_failure_t *failure)
{
    *failure = (crti_failure_t){.status = status,
                                .may_have_run = may_have_run,
                                .text = crti_str(text),
                                .class_name = crti_str(p->spec.function->class_name),
                                .method = crti_str(crti_call_method(p))};
    if (p->spec.actor)
        failure->actor = p->spec.actor->id;
    if (p->remote) {
        failure->node = p->remote->address.node;
        failure->pid = p->remote->pid;
    }
}

/* The process that ran it has died, or was lost, perhaps between storing a result and telling of
 * it. */
static void abandon_results(const crti_pending_t *p)
{
    if (!p->remote)
        return;
    crti_object_abandon(p->core, p->number, p->remote->address.node);
    if (p->stream)
        crti_call_stream_abandon(p);
}

void crti_pending_fail(crti_pending_t *p, crt_status_t status, const char *text,
                       bool may_have_run)
{
    crti_result_t result = {.form = CRTI_RESULT_ERROR};
    char cancelled[1100], tried[1200];

    if (p->backup)
        crti_backup_leave(p);
    if (p->attempt.cancel && status != CRT_ERR_CANCELLED) {
        snprintf(cancelled, sizeof(cancelled), "it was cancelled; then: %s", text);
        text = cancelled;
    }
    if (p->attempt.retries) {
        may_have_run = true;
        snprintf(tried, sizeof(tried), "%s (the last of %lld tries)", text,
                 (long long)p->attempt.retries + 1);
        text = tried;
    }
    describe_failure(p, p->attempt.cancel ? CRT_ERR_CANCELLED : status, text,
                     may_have_run, &result.failure);
    if (may_have_run && (status == CRT_ERR_ACTOR_DIED || status == CRT_ERR_WORKER_DIED ||
                         status == CRT_ERR_UNREACHABLE))
        abandon_results(p);
    crti_pending_unlink(p);
    end(p, &result);
}

void crti_pending_expire(crti_pending_t *p, const char *text)
{
    crti_result_t result = {.form = CRTI_RESULT_ERROR};

    describe_failure(p, CRT_ERR_TIMED_OUT, text, true, &result.failure);
    if (p->stream)
        p->stream->is_ended = true;
    for (unsigned i = 0; i < p->spec.returns - 1; i++)
        crti_ref_set_result(p->more[i], &result, true);
    crti_ref_set_result(p->result, &result, true);
}

/* An argument had failed: its failure becomes the call's. */
void crti_pending_fail_by(crti_pending_t *p, const crt_ref_t *failed)
{
    crti_result_t result = {.form = CRTI_RESULT_ERROR,
                            .failure = crti_error_failure(failed->error)};

    if (p->backup)
        crti_backup_leave(p);
    result.failure.may_have_run = p->attempt.retries > 0; /* an earlier try */
    crti_pending_unlink(p);
    end(p, &result);
}

/* ------------------------------------------------------------------ another try */

/* Under a number of its own: what an earlier try stored must not be taken for its result. */
static crt_status_t renumber(crti_pending_t *p)
{
    crti_numbers_t *retried = &p->core->calls->retried;
    const crti_call_again_t again = {p->result->number, (uint32_t)p->attempt.retries + 1};
    uint64_t number = crti_new_number(p->core);
    size_t size = p->spec.record.size;
    crt_status_t status = crti_numbers_add(retried, number, p);

    if (status != CRT_OK)
        return status;
    status = crti_put_again(&p->spec.record, number, &again);
    if (status != CRT_OK) {
        crti_numbers_remove(retried, number);
        return status;
    }
    if (p->attempt.state == CRTI_ATTEMPT_SUSPECT)
        p->spec.actor->queue_bytes += p->spec.record.size - size;
    if (p->number != p->result->number || p->backup)
        crti_numbers_remove(retried, p->number);
    p->number = number;
    if (p->stream)
        crti_call_stream_restart(p);
    return CRT_OK;
}

int64_t crti_pending_most(const crti_pending_t *p)
{
    int64_t most = crti_most_retries(p->spec.actor, p->spec.max_retries);
    int64_t lost = crti_backup_lost(p);

    return most < 0 ? most : most > lost ? most - lost : 0;
}

/* What has come of the attempt of that number was given up with it. */
static void await_again(const crti_pending_t *p, uint64_t number)
{
    for (unsigned i = 1; p->remote && i < p->spec.returns; i++) {
        crt_ref_t *ref = p->more[i - 1];

        if (ref->owned.state == CRTI_OWNED_STORED && !ref->more->forward &&
            (ref->more->object.number & ~CRTI_EVERY_PART) == number)
            crti_ref_abandon(ref, p->remote->address.node);
    }
}

bool crti_pending_again(crti_pending_t *p, const char *text)
{
    uint64_t number = p->number;

    abandon_results(p);
    if (renumber(p) != CRT_OK)
        return false;
    await_again(p, number);
    crti_attempt_repeat(&p->attempt);
    crti_call_event_again(p, text);
    crti_log(CRTI_LOG_WARN, "core", "%s is made again (%lld): %s", crti_call_name(p),
             (long long)p->attempt.retries, text);
    return true;
}

void crti_pending_suspect(crti_pending_t *p)
{
    crti_pending_unlink(p);
    crti_attempt_suspect(&p->attempt);
    p->remote->uses++;
    p->spec.actor->queue_bytes += p->spec.record.size;
    crti_list_append(&p->spec.actor->suspects, &p->link);
}
