/* SPDX-License-Identifier: Apache-2.0 */
/* Execution: the executors of a worker run what was asked for, each one call after the other.
 *
 * Where it sits
 *     executor.c (runnable calls) -> [ execute.c ] -> user code -> incoming.c (answers)
 * Threads
 *     Those of the executors. They wait with the net's progress token, and run user code without
 *     the lock. `create` and `destroy` run in the main thread while there is no other.
 * Failure
 *     A create function that fails: the node daemon is told, callers get its error, the worker
 *     ends. It ends, too, when a function of the user ends the thread that it runs in.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/fence.h"
#include "runtime/base/log.h"
#include "runtime/base/number_text.h"
#include "runtime/core/calls/calls.h"
#include "runtime/core/execution/debugger.h"
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/execution/outside_call.h"
#include "runtime/core/execution/run_events.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/printed.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/value_of.h"

#define EXIT_PATIENCE_NS CRTI_S
#define EXIT_LOOK_NS     (5 * CRTI_MS) /* an acknowledgement alone ends no wait */
#define FENCE_LOOK_NS                                                                    \
    (50 * CRTI_MS) /* the node's word is a word in memory: nobody rings */

/* ------------------------------------------------------------------ one call */

/* Values of arguments that came as refs; false when one has failed. */
static bool read_refs(crt_call_t *call)
{
    for (unsigned i = 0; i < call->arg_count; i++) {
        crti_incoming_arg_t *arg = &call->args[i];
        const crt_value_t *value;
        crt_status_t status;

        if (!arg->ref)
            continue;
        status = crti_ref_value(arg->ref, &value);
        if (status != CRT_OK) {
            crti_call_set_error(call, status, crt_error_detail());
            return false;
        }
        arg->value = *value;
    }
    return true;
}

static void show(crti_core_t *core, const crt_call_t *call)
{
    const crti_function_t *function = call->given_name ? NULL : call->function;

    if (!core->blackboard)
        return;
    if (call->given_name || core->execution->shown != function)
        crti_blackboard_name(core->blackboard,
                             function ? function->display : call->given_name);
    core->execution->shown = function;
    crti_blackboard_enter(core->blackboard);
}

/* Should this worker die, its callers know which of their tasks did not begin. */
static void show_begin(crti_core_t *core, const crt_call_t *call)
{
    crti_id_t caller;

    if (!core->blackboard || !call->client || !(call->flags & CRTI_CALL_TASK))
        return;
    caller = crti_peer_process(call->client->peer);
    crti_blackboard_begin(core->blackboard, caller.high, caller.low, call->arrived);
}

static crt_status_t run(crti_core_t *core, crt_call_t *call)
{
    const crti_function_t *f = call->function;

    if (*crt_error_detail())
        crt_error_set_detail("%s",
                             ""); /* what failed before is not why this call fails */
    if (call->is_outside) {
        crt_status_t status = crti_outside_arguments(call);

        if (status != CRT_OK)
            return status;
    }
    if (f->method)
        return f->method->run(core->execution->self, call);
    if (f->task)
        return f->task->run(call);
    return f->create->create ? f->create->create(core->execution->self, call) : CRT_OK;
}

/* The thread runs `call` from now on. */
static void set_running(crti_executor_t *executor, crt_call_t *call)
{
    crti_set_running(call, call ? call->serial : 0);
    if (executor->core->has_seeds)
        crti_seeds_run(call ? &call->seeds : NULL);
    executor->running = call;
    if (executor->blocking.is_cancelled || (call && call->is_cancel_requested))
        crti_cancel_running_changed(executor);
}

/* Something else may still run: in this thread, or in another one. */
static void show_rest(crti_core_t *core)
{
    const crti_executor_t *busy;

    if (!core->blackboard)
        return;
    crti_blackboard_leave(core->blackboard);
    if (core->blocked->running == 0)
        return;
    busy = crti_executor_busy(&core->execution->executors);
    if (busy)
        show(core, busy->running);
}

/* What a function of the user returned is a status, and why, if it is an error: success is CRT_OK
 * alone. `name` is the function's. */
static crt_status_t judge(crt_status_t returned, const char *name, char *text,
                          size_t size)
{
    if (returned == CRT_OK)
        return CRT_OK;
    if (returned > 0)
        snprintf(text, size,
                 "%s returned %d: a function returns CRT_OK, or an error, which is "
                 "below 0",
                 name, (int)returned);
    else if (*crt_error_detail())
        snprintf(text, size, "%s", crt_error_detail());
    else if (strcmp(crt_status_name(returned), crt_status_text(returned)) == 0)
        snprintf(text, size, "%s returned %d: %s", name, (int)returned,
                 crt_status_text(returned));
    else
        *text = '\0';
    return returned > 0 ? CRT_ERR_INVALID : returned;
}

/* Apart from run_unlocked: many tasks may run inside each other on one stack. */
static void fail_call(crt_call_t *call, crt_status_t returned) __attribute__((noinline));
static void fail_call(crt_call_t *call, crt_status_t returned)
{
    char why[1100];
    crt_status_t status = judge(returned, call->function->display, why, sizeof(why));

    crti_call_set_error(call, status, why);
}

/* Of several results none may be missing. */
static void check_results(crt_call_t *call)
{
    const crti_call_result_t *result;
    unsigned count = 0;
    char text[300];

    for (unsigned i = 0; (result = crti_call_result(call, i)); i++)
        count += result->is_set;
    if (count == call->returns)
        return;
    snprintf(text, sizeof(text), "%s returned %u of the %u results that its caller wants",
             call->function->display, count, call->returns);
    crti_call_set_error(call, CRT_ERR_INVALID, text);
}

static void run_unlocked(crti_executor_t *executor, crt_call_t *call)
{
    crti_core_t *core = executor->core;
    crt_status_t status;

    call->outer = executor->running;
    call->executor = executor;
    call->is_started = true;
    call->serial = ++core->execution->next_serial;
    if (!call->outer)
        crti_blocking_begin(core, &executor->blocking);
    set_running(executor, call);
    show(core, call);
    show_begin(core, call);
    crti_run_event_begun(call);
    crti_net_busy(core->net, true);
    crti_net_unlock(core->net);
    status = run(core, call);
    if (status != CRT_OK)
        fail_call(call, status);
    crti_net_lock(core->net);
    crti_net_busy(core->net, false);
    set_running(executor, call->outer);
    if (!call->outer)
        crti_blocking_end(core);
    show_rest(core);
    if (call->is_cancel_requested)
        crti_call_set_error(call, CRT_ERR_CANCELLED, "it was cancelled while it ran");
    else if (call->returns > 1 && call->status >= 0)
        check_results(call);
    crti_run_event_back(call);
}

/* True while another process may serve the actor; and how long ago the head heard of its node. */
static bool is_shut(const crti_core_t *core, double *seconds_out)
{
    uint64_t now, head;

    if (!core->is_fenced || !core->blackboard)
        return false;
    head = atomic_load_explicit(&core->blackboard->head_ns, memory_order_relaxed);
    now = crti_boot_ns();
    *seconds_out = (double)(now - head) / (double)CRTI_S;
    return crti_fence_is_shut(head, now);
}

/* Looked at as late as can be. */
static bool is_let_in(const crti_core_t *core, crt_call_t *call)
{
    double seconds;
    char text[400];

    if (!call->function->method || !is_shut(core, &seconds))
        return true;
    crti_format(
        text, sizeof(text),
        "%s did not run: its actor is fenced, and the head last vouched for node %s "
        "%.1f s ago; from 4 s on it takes no calls until the head hears of the node "
        "again, or it is placed elsewhere",
        call->function->display, core->node_hex, seconds);
    crti_call_set_error(call, CRT_ERR_HEAD_LOST, text);
    return false;
}

/* ------------------------------------------------------------------ an actor ends itself */

/* The head has ended the actor, and SHUTDOWN follows; or it can't be asked, and may start it
 * again. */
static void on_exit_answered(void *user, const crti_message_t *answer)
{
    crti_core_t *core = user;

    if (answer && answer->kind == CRTI_MSG_DONE)
        return;
    crti_log(CRTI_LOG_WARN, "core", "crt_actor_exit: the head could not be told");
    crti_execution_end(core);
}

static bool all_have_answers(void *user)
{
    const crti_core_t *core = user;

    CRTI_LIST_FOREACH (item, &core->remotes->clients) {
        const crti_client_t *client = CRTI_CONTAINER(item, crti_client_t, link);

        if (!client->is_lost && crti_peer_unacknowledged(client->peer))
            return false;
    }
    return true;
}

/* What has been answered has arrived before the head tells callers that the actor is dead. A caller
 * that does not listen is not waited for. */
static void wait_for_answers(crti_core_t *core)
{
    uint64_t now = crti_now_ns(), end = now + EXIT_PATIENCE_NS;
    crt_status_t status = CRT_OK;

    crti_net_flush(core->net);
    for (; now < end && status != CRT_ERR_CLOSED && !all_have_answers(core);
         now = crti_now_ns())
        status = crti_net_wait(core->net, all_have_answers, core, now + EXIT_LOOK_NS);
}

static void exit_actor(crti_core_t *core)
{
    const crti_msg_actor_kill_t body = {
        .actor = core->actor_id,
        .no_restart = true,
        .text = crti_str("it ended itself by crt_actor_exit")};

    wait_for_answers(core);
    if (crti_node_request(core, CRTI_MSG_ACTOR_KILL, &body, on_exit_answered, core) !=
        CRT_OK)
        on_exit_answered(core, NULL);
}

crt_status_t crt_actor_exit(crt_call_t *call)
{
    crti_core_t *core = call ? call->core : NULL;

    if (!call)
        return crti_no_call("crt_actor_exit");
    if (!call->function->method)
        return crt_raise(CRT_ERR_INVALID, "%s is no method: crt_actor_exit ends an actor",
                         call->function->display);
    crti_net_lock(core->net);
    if (!core->execution->is_exiting)
        call->is_last = true;
    core->execution->is_exiting = true;
    crti_net_unlock(core->net);
    return CRT_OK;
}

static crt_status_t stop_run(void *self, crt_call_t *call)
{
    return crt_actor_exit(call);
}

static const crt_method_t stop_method =
    CRT_METHOD(.name = CRTI_STOP_REQUEST, .run = stop_run);

const crti_function_t crti_stop_function = {.class_name = "",
                                            .name = CRTI_STOP_REQUEST,
                                            .display = CRTI_STOP_REQUEST,
                                            .method = &stop_method};

/* ------------------------------------------------------------------ one call, as a whole */

void crti_execute(crti_executor_t *executor, crt_call_t *call)
{
    crti_core_t *core = executor->core;
    bool is_last;

    if (core->execution->awaits_debugger)
        core->execution->awaits_debugger =
            !crti_debugger_await(core, call->function->display);
    if (read_refs(call) && is_let_in(core, call)) {
        if (call->function->task && call->function->task->max_calls)
            crti_max_calls_begin(call);
        run_unlocked(executor, call);
        crti_printed_flush(core);
        crti_run_event_ended(call);
    }
    is_last = call->is_last;
    crti_call_finish(call, true);
    if (is_last)
        exit_actor(core);
}

/* ------------------------------------------------------------------ a worker's life */

static bool is_complete(void *user)
{
    crt_call_t *call = user;

    return call->missing == 0 || call->core->execution->is_ending;
}

/* Answers leave, the link says why, then the process ends. */
static void end_worker(crti_core_t *core, int code) __attribute__((noreturn));
static void end_worker(crti_core_t *core, int code)
{
    crti_channel_t *channel = core->link->channel;

    core->is_closing = true;
    crti_node_link_stop(core);
    crti_net_flush(core->net);
    crti_net_unlock(core->net);
    crti_net_free(core->net);
    core->net = NULL;
    if (channel)
        (void)crti_channel_drain(channel, crti_now_ns() + CRTI_S);
    fflush(NULL);
    _exit(code);
}

/* `status` CRT_OK: they asked for no more than that. */
static void answer_all(crti_list_t *calls, crt_status_t status, const char *text)
{
    while (!crti_list_is_empty(calls)) {
        crt_call_t *call = CRTI_CONTAINER(calls->next, crt_call_t, link);

        crti_executor_unqueue(call);
        if (status != CRT_OK)
            crti_call_set_error(call, status, text);
        crti_call_finish(call, true);
    }
}

static void fail_creation(crti_core_t *core, crt_status_t status, const char *text)
    __attribute__((noreturn));
static void fail_creation(crti_core_t *core, crt_status_t status, const char *text)
{
    crti_msg_actor_failed_t body = {
        .actor = core->actor_id, .status = status, .text = crti_str(text)};

    crti_log(CRTI_LOG_WARN, "core", "create failed: %s", text);
    crti_node_notice(core, CRTI_MSG_ACTOR_FAILED, &body);
    answer_all(&core->execution->questions, status, text);
    for (unsigned i = 0; i < core->execution->executors.group_count; i++)
        answer_all(&core->execution->executors.groups[i].runnable, status, text);
    end_worker(core, 1);
}

static bool is_ending(void *user)
{
    const crti_core_t *core = user;

    return core->execution->is_ending;
}

/* `create` is a call too, but nobody would make it again: it waits until the head has been heard,
 * or the node ends this process. */
static crt_status_t wait_for_head(crti_core_t *core)
{
    crt_status_t status = CRT_OK;
    double seconds;

    while (status != CRT_ERR_CLOSED && !core->execution->is_ending &&
           is_shut(core, &seconds))
        status = crti_net_wait(core->net, is_ending, core, crti_now_ns() + FENCE_LOOK_NS);
    return status == CRT_ERR_CLOSED ? status : CRT_OK;
}

/* What an earlier process of the actor has saved. */
static void restore(crti_core_t *core, crti_span_t saved)
{
    const crt_actor_class_t *user = core->execution->class_->user;
    crt_status_t status;
    char name[300], reason[1100], why[1500];

    if (!saved.size || !user->restore)
        return;
    crti_net_busy(core->net, true);
    crti_net_unlock(core->net);
    crt_error_set_detail("%s", "");
    status = user->restore(core->execution->self, saved.data, saved.size);
    snprintf(name, sizeof(name), "%s.restore", user->name);
    status = judge(status, name, reason, sizeof(reason));
    crti_net_lock(core->net);
    crti_net_busy(core->net, false);
    if (status == CRT_OK)
        return;
    snprintf(why, sizeof(why), "%s of %zu bytes: %s", name, saved.size,
             *reason ? reason : crt_status_name(status));
    fail_creation(core, status, why);
}

static void create_actor(crti_core_t *core, crti_span_t creation, crti_span_t saved)
{
    crt_call_t *call = NULL;
    crt_status_t status = crti_incoming_creation(core, creation, &call);

    if (status == CRT_OK) {
        core->execution->self = calloc(1, core->execution->class_->user->size
                                              ? core->execution->class_->user->size
                                              : 1);
        if (!core->execution->self)
            status = crt_raise(CRT_ERR_NO_MEMORY, "an actor of %zu bytes",
                               core->execution->class_->user->size);
    }
    if (status == CRT_OK)
        status = crti_net_wait(core->net, is_complete, call, CRTI_NET_NO_DEADLINE);
    if (status == CRT_OK)
        status = wait_for_head(core);
    if (core->execution->is_ending)
        end_worker(core, 0);
    if (status != CRT_OK)
        fail_creation(core, status, crt_error_detail());
    if (core->execution->awaits_debugger)
        core->execution->awaits_debugger =
            !crti_debugger_await(core, core->execution->class_->user->name);
    if (read_refs(call)) {
        run_unlocked(&core->execution->executors.main, call);
        crti_printed_flush(core);
        crti_run_event_ended(call);
    }
    status = call->status;
    if (status < 0) {
        char why[1400];

        snprintf(why, sizeof(why), "%s: %s", core->execution->class_->create.display,
                 call->text ? call->text : "");
        fail_creation(core, status, why);
    }
    crti_call_finish(call, true);
    restore(core, saved);
    core->execution->is_created = true;
    atomic_store_explicit(&core->board->created, 1, memory_order_relaxed);
    answer_all(&core->execution->questions, CRT_OK, NULL);
}

static void destroy_actor(crti_core_t *core)
{
    if (!core->execution->is_created || !core->execution->class_->user->destroy)
        return;
    crti_net_busy(core->net, true);
    crti_net_unlock(core->net);
    core->execution->class_->user->destroy(core->execution->self);
    crti_net_lock(core->net);
    crti_net_busy(core->net, false);
}

/* A function of the user has ended the thread that it ran in (pthread_exit, pthread_cancel): its
 * call would never be answered. The node quotes the line in what callers are told. */
static void on_thread_end(void *user)
{
    const crti_executor_t *executor = user;
    const crt_call_t *call = executor->running;

    fflush(stdout);
    crti_log(CRTI_LOG_ERROR, "core",
             "%s ended its thread (pthread_exit or pthread_cancel), which belongs to the "
             "runtime: the process ends",
             call ? call->function->display : "restore or destroy");
    _exit(1);
}

/* Until the worker ends. */
static void run_calls(crti_executor_t *executor)
{
    crti_core_t *core = executor->core;

    for (;;) {
        crt_call_t *call;

        if (!crti_executor_has_work(executor) &&
            crti_net_wait(core->net, crti_executor_has_work, executor,
                          CRTI_NET_NO_DEADLINE) == CRT_ERR_CLOSED)
            return;
        if (core->execution->is_ending)
            return;
        call = core->execution->is_exiting ? NULL : crti_executor_take(executor);
        if (!call)
            continue; /* a signal interrupted the wait */
        crti_execute(executor, call);
        crti_executor_idle(executor);
    }
}

static void run_thread(crti_executor_t *executor)
{
    pthread_cleanup_push(on_thread_end, executor);
    run_calls(executor);
    pthread_cleanup_pop(0);
}

static void serve(crti_core_t *core, crti_span_t creation, crti_span_t saved)
{
    if (!crti_id_is_zero(core->actor_id)) {
        create_actor(core, creation, saved);
        crti_executors_open(core, run_thread);
    }
    run_calls(&core->execution->executors.main);
    crti_executors_join(core);
    destroy_actor(core);
}

void crti_serve(crti_core_t *core, crti_span_t creation, crti_span_t saved)
{
    core->execution->awaits_debugger = crti_debugger_is_wanted();
    pthread_cleanup_push(on_thread_end, &core->execution->executors.main);
    serve(core, creation, saved);
    pthread_cleanup_pop(0);
    end_worker(core, 0);
}
