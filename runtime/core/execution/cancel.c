/* SPDX-License-Identifier: Apache-2.0 */
/* Cancelling calls: our own, and those that this process was asked to run.
 *
 * Where it sits
 *     crt_cancel, the timer -> [ cancel.c ] -> pending.c (not sent yet), or CANCEL -> [ cancel.c ]
 *     -> incoming.c (not begun yet), or the call that runs and its children
 * Threads
 *     The core's lock. While user code runs, CANCEL is handled by the progress thread.
 * How one that runs ends
 *     cooperatively   crt_cancelled tells it, and no wait inside of it goes on; whatever it
 *     returns, its
 *                     result is CRT_ERR_CANCELLED
 *     by force        a task: its worker answers for it, and gives back what it has not started.
 *     The
 *                     caller sends nothing more there (CRTI_LEASE_CLOSING), and when nothing is in
 *                     flight there, CRTI_LEASE_CLOSING_NS later at most, has the node kill the
 *                     worker.
 * Failure
 *     An answer that crosses CANCEL counts. A call whose process dies after it was cancelled is not
 *     made again: it ends as cancelled (pending.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/copy_struct.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/remotes.h"

#define BEFORE "it was cancelled before it began"

/* ------------------------------------------------------------------ our own calls */

static void cancel_pending(crti_pending_t *p, unsigned flags);

/* Not sent, or sent to a process that is gone. */
static void end_waiting(crti_pending_t *p, crt_status_t status, const char *text)
{
    crti_task_pool_t *pool = p->pool;
    crt_actor_t *actor = p->spec.actor;

    if (actor)
        crti_actor_hold(actor);
    crti_pending_fail(p, status, text, p->attempt.may_have_run);
    if (pool)
        crti_task_pump(pool); /* a worker that was asked for may be too many now */
    if (actor) {
        crti_actor_drain(actor); /* it may have held up those behind it */
        crti_actor_release(actor);
    }
}

static void ask_worker(crti_pending_t *p, unsigned flags)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};

    if (flags & CRTI_CANCEL_FORCE)
        crti_task_close_lease(p);
    if (crti_put_cancel(&record, p->number, flags) == CRT_OK)
        crti_remote_send(p->core, p->remote, &record);
}

/* ------------------------------------------------------------------ children */

static bool is_child_of(const crt_ref_t *ref, const void *call)
{
    uint64_t serial = ((const crt_call_t *)call)->serial;

    return ref->in_backlog ? crti_backlog_parent(ref) == serial
                           : ref->call && ref->call->parent == serial;
}

static void cancel_children(crt_call_t *call, unsigned flags)
{
    size_t count;
    crt_ref_t **refs = crti_refs_gather(call->core, false, is_child_of, call, &count);

    for (size_t i = 0; i < count; i++) {
        crti_pending_t *p = crti_ref_call(refs[i]);

        if (p)
            cancel_pending(p, flags);
        crti_ref_release(refs[i]);
    }
    free(refs);
}

/* ------------------------------------------------------------------ calls that run here */

void crti_cancel_running_changed(crti_executor_t *executor)
{
    const crt_call_t *running = executor->running;

    crti_blocking_cancel(executor->core, &executor->blocking,
                         running && running->is_cancel_requested);
}

static void cancel_running(crt_call_t *call, unsigned flags)
{
    __atomic_store_n(&call->is_cancel_requested, true, __ATOMIC_RELAXED);
    crti_cancel_running_changed(call->executor);
    if (flags & CRTI_CANCEL_RECURSIVE)
        cancel_children(call, flags);
}

/* The task that runs here ends with this worker. Its thread may be in user code, and never come
 * back: so it is answered for, and all that has not started goes back. When the caller has heard of
 * all of them, it gives this worker to its node, to be killed: until then nothing it has said may
 * be lost. */
static void answer_by_force(crt_call_t *call)
{
    crti_core_t *core = call->core;
    const crti_result_t result = {
        .form = CRTI_RESULT_ERROR,
        .failure = {.status = CRT_ERR_CANCELLED,
                    .may_have_run = true,
                    .text = crti_str("it was cancelled, and its worker ends with it"),
                    .class_name = crti_str(call->function->class_name),
                    .method = crti_str(call->given_name ? call->given_name
                                                        : call->function->name),
                    .node = core->node,
                    .pid = getpid()}};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};

    if (call->is_cancelled)
        return;
    call->is_cancelled = true;
    if (crti_put_result(&record, CRTI_RECORD_REPLY, call->number, &result, NULL) ==
        CRT_OK)
        crti_peer_reply(core, call->client->peer, &record, CRTI_SEND_CONTROL);
    crti_incoming_give_back(call->client);
    crti_net_flush(core->net);
}

static crt_call_t *find_call(const crti_client_t *client, uint64_t number)
{
    CRTI_LIST_FOREACH (item, &client->calls) {
        crt_call_t *call = CRTI_CONTAINER(item, crt_call_t, of_client);

        if (call->number == number)
            return call;
    }
    return NULL;
}

crt_status_t crti_cancel_arrived(crti_client_t *client, const void *data, size_t size)
{
    uint64_t number;
    unsigned flags;
    crt_status_t status = crti_get_cancel(data, size, &number, &flags);
    crt_call_t *call = status == CRT_OK ? find_call(client, number) : NULL;

    if (!call || call->ending.waits || call->flags & CRTI_CALL_READY)
        return status; /* it has ended: the answer is on its way */
    if (!call->is_started) {
        crti_incoming_refuse(call, CRT_ERR_CANCELLED, BEFORE);
        return CRT_OK;
    }
    cancel_running(call, flags);
    if (flags & CRTI_CANCEL_FORCE && call->flags & CRTI_CALL_TASK)
        answer_by_force(call);
    return CRT_OK;
}

/* ------------------------------------------------------------------ crt.h */

/* Our own task, which the thread that waits for it runs itself. */
static void cancel_inline(const crti_pending_t *p, unsigned flags)
{
    crt_call_t *call = crti_executors_find(&p->core->execution->executors, p);

    if (call)
        cancel_running(call, flags);
    else
        crti_net_wake(p->core->net); /* it waits for its arguments */
}

static void cancel_pending(crti_pending_t *p, unsigned flags)
{
    crti_pending_t *other = crti_backup_part(p);

    if (other) /* its second run, or its first one */
        cancel_pending(other, flags);
    if (p->spec.actor)
        flags &= ~(unsigned)CRTI_CANCEL_FORCE;
    switch (crti_attempt_cancelled(&p->attempt, flags & CRTI_CANCEL_FORCE)) {
    case CRTI_ATTEMPT_DO_END: end_waiting(p, CRT_ERR_CANCELLED, BEFORE); break;
    case CRTI_ATTEMPT_DO_ASK: ask_worker(p, flags); break;
    case CRTI_ATTEMPT_DO_INTERRUPT: cancel_inline(p, flags); break;
    default: break;
    }
}

void crti_cancel_call(crti_pending_t *p)
{
    cancel_pending(p, CRTI_CANCEL_RECURSIVE);
}

/* Its caller hears of it at once; whoever runs it may take a while to notice. */
static void expire(crti_pending_t *p)
{
    char text[300];

    snprintf(text, sizeof(text), "%s had not ended after its timeout of %lld ms",
             crti_call_name(p), (long long)p->spec.options->timeout_ms);
    crti_backup_drop(p);
    if (crti_attempt_expired(&p->attempt) == CRTI_ATTEMPT_DO_END) {
        end_waiting(p, CRT_ERR_TIMED_OUT, text);
        return;
    }
    crti_pending_expire(p, text);
    cancel_pending(p, CRTI_CANCEL_RECURSIVE);
}

void crti_cancel_expired(crti_core_t *core, uint64_t now_ns)
{
    crti_pending_t *p;

    while ((p = crti_call_expired(core, now_ns)))
        expire(p);
}

static crt_status_t cancel(crt_ref_t *ref, unsigned flags)
{
    crti_pending_t *p;

    if (!ref->is_owned)
        return crt_raise(CRT_ERR_INVALID,
                         "the ref is of a call that another process made: only that one "
                         "can cancel it");
    p = crti_ref_call(ref);
    if (!p && ref->in_backlog)
        return crt_raise(CRT_ERR_NO_MEMORY, "a call that is cancelled");
    if (!p)
        return ref->is_result ? crt_raise(CRT_ERR_NOT_FOUND, "the call has ended already")
                              : crt_raise(CRT_ERR_INVALID, "the ref is of no call");
    if (p->spec.actor && flags & CRTI_CANCEL_FORCE)
        return crt_raise(CRT_ERR_INVALID,
                         "a method can't be ended by force: kill its actor");
    cancel_pending(p, flags);
    return CRT_OK;
}

crt_status_t crt_cancel(crt_ref_t *ref, const crt_cancel_options_t *options)
{
    crt_cancel_options_t o;
    crt_status_t status = crti_ref_check(ref);
    crti_core_t *core;

    if (status == CRT_OK)
        status = CRTI_COPY_STRUCT(&o, options, "CRT_CANCEL_OPTIONS");
    if (status != CRT_OK)
        return status;
    core = crti_enter();
    if (!core)
        return crti_entry_status();
    status = cancel(ref, (o.force ? CRTI_CANCEL_FORCE : 0u) |
                             (o.not_recursive ? 0u : CRTI_CANCEL_RECURSIVE));
    crti_leave(core);
    return status;
}
