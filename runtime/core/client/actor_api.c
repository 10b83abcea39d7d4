/* SPDX-License-Identifier: Apache-2.0 */
/* Actor handles in crt.h: calls, finding, killing, waiting, keeping and dropping. See actor.c. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/copy_struct.h"
#include "runtime/base/log.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/defaults.h"
#include "runtime/core/calls/stream.h"
#include "runtime/core/client/client.h"
#include "runtime/core/execution/execution.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/refs/value_of.h"
#include "runtime/core/values/handles.h"

/* Handles of before a shutdown have no lock of a runtime any more. */
static pthread_mutex_t orphans = PTHREAD_MUTEX_INITIALIZER;

/* ------------------------------------------------------------------ calls */

static crt_status_t check_actor(crti_core_t *core, crt_actor_t *actor,
                                const crt_method_t *method,
                                const crti_function_t **function_out)
{
    crt_status_t status = crti_actor_check(core, actor);

    if (status != CRT_OK)
        return status;
    if (!actor->class_)
        return crt_raise(CRT_ERR_INVALID, "class %s of actor %s is not in this program",
                         actor->class_name, actor->hex);
    return crti_class_method(actor->class_, method, function_out);
}

static crt_status_t take_options(const crt_actor_t *actor,
                                 const crt_call_options_t *options, crti_target_t *target)
{
    crt_call_options_t mine, *o = &mine;
    crt_status_t status;

    target->group = target->function->group;
    target->max_retries = CRTI_RETRIES_OF_ACTOR;
    if (!options && !target->function->call_defaults)
        return CRT_OK;
    status = crti_call_defaults(target->function, options, &mine);
    if (status != CRT_OK)
        return status;
    target->try_only = o->try_only;
    target->name = o->name;
    target->timeout_ms = o->limit_ms == CRT_FOREVER ? 0 : o->limit_ms;
    target->retry_exceptions = o->retry_exceptions;
    target->copies = o->copies;
    if (target->stream) {
        status = crti_call_stream_window(o->generator_backpressure_num_objects,
                                         &target->stream->window);
        if (status != CRT_OK)
            return status;
    }
    status = crti_retries(o->max_attempts, CRTI_RETRIES_OF_ACTOR, &target->max_retries);
    return status == CRT_OK && o->concurrency_group
               ? crti_class_group(actor->class_, o->concurrency_group, &target->group)
               : status;
}

crt_status_t crti_call_target(crti_core_t *core, const crt_method_t *method,
                              const crt_call_options_t *options, crti_target_t *target)
{
    crt_status_t status = check_actor(core, target->actor, method, &target->function);

    return status == CRT_OK ? take_options(target->actor, options, target) : status;
}

/* Fills in `target`, of which the caller says the actor and the results. */
static void call(crti_target_t *target, const crt_method_t *method,
                 const crt_call_options_t *options, const crt_arg_t *args, size_t count,
                 crt_ref_t **refs)
{
    crti_core_t *core = crti_enter_unlocked();
    crti_given_t given;
    crt_status_t status;

    if (!core) {
        crti_call_without_core(args, count, refs, target->returns);
        return;
    }
    status = crti_given_take(core, args, count, &given);
    crti_net_lock(core->net);
    if (status == CRT_OK)
        status = crti_call_target(core, method, options, target);
    if (status == CRT_OK)
        crti_call_out(core, target, &given, refs);
    else
        crti_call_refused(core, status, refs, target->returns);
    for (size_t i = 0; i < target->returns; i++)
        refs[i]->handles++;
    crti_net_unlock(core->net);
    crti_given_end(core, &given);
    crti_leave_unlocked(core);
}

void crt_call_returns_v(crt_ref_t **refs, size_t returns, crt_actor_t *actor,
                        const crt_method_t *method, const crt_call_options_t *options,
                        const crt_arg_t *args, size_t count)
{
    call(&(crti_target_t){.actor = actor, .returns = returns}, method, options, args,
         count, refs);
}

crt_ref_t *crt_call_v(crt_actor_t *actor, const crt_method_t *method,
                      const crt_call_options_t *options, const crt_arg_t *args,
                      size_t count)
{
    crt_ref_t *ref;

    call(&(crti_target_t){.actor = actor, .returns = 1}, method, options, args, count,
         &ref);
    return ref;
}

crt_stream_t *crt_call_stream_v(crt_actor_t *actor, const crt_method_t *method,
                                const crt_call_options_t *options, const crt_arg_t *args,
                                size_t count)
{
    crti_target_t target = {.actor = actor, .returns = 1};
    crti_core_t *core = crti_enter_unlocked();
    crti_given_t given;
    crt_status_t status;

    if (!core)
        return crti_call_stream_refused(args, count);
    status = crti_given_take(core, args, count, &given);
    crti_net_lock(core->net);
    target.stream = crti_call_stream_new(core);
    if (status == CRT_OK && target.stream)
        status = crti_call_target(core, method, options, &target);
    if (status == CRT_OK && target.stream)
        crti_call_out(core, &target, &given, &target.stream->completed);
    else if (target.stream)
        crti_call_refused(core, status, &target.stream->completed, 1);
    crti_net_unlock(core->net);
    crti_given_end(core, &given);
    crti_leave_unlocked(core);
    return target.stream;
}

crt_status_t crt_tell_v(crt_actor_t *actor, const crt_method_t *method,
                        const crt_arg_t *args, size_t count)
{
    crti_target_t target = {.actor = actor, .returns = 1, .is_tell = true};
    crt_status_t status = CRT_OK;
    const crt_error_t *error;
    crt_ref_t *ref;

    call(&target, method, NULL, args, count, &ref);
    error = crt_ref_error(ref);
    if (error)
        status = crt_raise(error->status, "%s", error->text);
    crt_ref_drop(&ref);
    return status;
}

/* ------------------------------------------------------------------ finding and ending */

crt_status_t crt_actor_find(const char *name, const crt_find_options_t *options,
                            const crt_actor_class_t *user, crt_actor_t **actor_out)
{
    crt_find_options_t o;
    crt_status_t status = CRTI_COPY_STRUCT(&o, options, "CRT_FIND_OPTIONS");
    crti_core_t *core;

    if (status != CRT_OK)
        return status;
    core = crti_enter();
    if (!core)
        return crti_entry_status();
    if (!actor_out)
        status = crt_raise(CRT_ERR_INVALID, "there is no place for the actor");
    else
        status = crti_actor_find(core, o.name_space, name, user, actor_out);
    if (status == CRT_OK)
        (*actor_out)->handles++;
    crti_leave(core);
    return status;
}

static crt_status_t check_kill(crti_core_t *core, const crt_actor_t *actor)
{
    crt_status_t status = crti_actor_check(core, actor);

    if (status == CRT_OK)
        status =
            crti_core_check(core); /* with the node its handle is gone; it may live */
    if (status == CRT_OK && actor->is_none)
        status = crt_raise(actor->status, "there is no actor to kill: %s",
                           actor->text ? actor->text : "");
    return status;
}

static crt_status_t kill_actor(crti_core_t *core, crt_actor_t *actor, bool restart)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_actor_kill_t body = {.actor = actor->id,
                                  .no_restart = !restart,
                                  .text = crti_str("killed by crt_actor_kill"),
                                  .actor_incarnation = restart ? actor->incarnation : 0};
    crti_message_t answer;
    crt_status_t status;

    crti_actor_hold(actor);
    status = crti_node_ask(core, CRTI_MSG_ACTOR_KILL, &body, 30000, &answer, &storage);
    if (status == CRT_OK && !restart) {
        actor->is_final = true;
        crti_actor_end(actor, CRT_ERR_ACTOR_DIED,
                       "the actor was killed by crt_actor_kill");
    }
    crti_actor_release(actor);
    return status;
}

crt_status_t crt_actor_kill(crt_actor_t *actor, const crt_kill_options_t *options)
{
    crt_kill_options_t o;
    crt_status_t status = CRTI_COPY_STRUCT(&o, options, "CRT_KILL_OPTIONS");
    crti_core_t *core;

    if (status != CRT_OK)
        return status;
    core = crti_enter();
    if (!core)
        return crti_entry_status();
    status = check_kill(core, actor);
    if (status == CRT_OK && !actor->is_final)
        status = kill_actor(core, actor, o.restart);
    crti_leave(core);
    return status;
}

static bool is_answered(void *user)
{
    return ((crt_ref_t *)user)->content != CRTI_CONTENT_NONE;
}

/* It ends itself, in its turn; one that has ended by then has stopped, too. */
static crt_status_t await_stop(crti_core_t *core, crt_actor_t *actor, int64_t limit_ms)
{
    crt_ref_t *answer;
    crt_status_t status;

    if (crti_id_equal(actor->id, core->actor_id))
        return crt_raise(CRT_ERR_DEADLOCK,
                         "actor %s would wait for its own end: use "
                         "crt_actor_exit",
                         actor->hex);
    answer = crti_stop_out(core, actor);
    status = crti_wait_for(core, is_answered, answer, limit_ms ? limit_ms : -1, answer,
                           "an actor to stop");
    if (status == CRT_OK && answer->content == CRTI_CONTENT_FAILED)
        status = crti_ref_raise(answer);
    crti_ref_release(answer);
    return status == CRT_ERR_ACTOR_DIED ? CRT_OK : status;
}

static crt_status_t stop_actor(crt_actor_t *actor, int64_t limit_ms)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = check_kill(core, actor);
    if (status == CRT_OK && !actor->is_final) {
        crti_actor_hold(actor);
        status = await_stop(core, actor, limit_ms);
        crti_actor_release(actor);
    }
    crti_leave(core);
    return status;
}

crt_status_t crt_actor_stop(crt_actor_t *actor, int64_t limit_ms)
{
    crt_status_t status;

    if (limit_ms < 0)
        return crt_raise(CRT_ERR_INVALID, "a limit of %lld ms: it is 0 (none) or more",
                         (long long)limit_ms);
    status = stop_actor(actor, limit_ms);
    if (status != CRT_ERR_TIMED_OUT)
        return status;
    status = crt_actor_kill(actor, NULL);
    return status == CRT_OK ? crt_raise(CRT_ERR_TIMED_OUT,
                                        "the actor did not stop within %lld ms, and was "
                                        "killed",
                                        (long long)limit_ms)
                            : status;
}

/* Of a call that is a method, or create. */
static crt_status_t check_save(const crt_call_t *call, size_t size)
{
    const crti_class_t *own = call ? crti_execution_class(call->core) : NULL;
    const crt_actor_class_t *class_ = own ? own->user : NULL;

    if (!call)
        return crti_no_call("crt_actor_save");
    if (!class_ || call->function->task)
        return crt_raise(CRT_ERR_INVALID,
                         "%s is no method: crt_actor_save keeps the "
                         "state of an actor",
                         call->function->display);
    if (!class_->restore)
        return crt_raise(CRT_ERR_INVALID,
                         "the class %s has no .restore: nothing would "
                         "use what is saved",
                         class_->name);
    if (size > CRTI_SAVED_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "a state of %zu bytes, at most %u are saved",
                         size, CRTI_SAVED_MAX);
    return CRT_OK;
}

crt_status_t crt_actor_save(crt_call_t *call, const void *state, size_t size)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_actor_save_t body = {.state = crti_span(state, size)};
    crt_status_t status = check_save(call, size);
    crti_core_t *core = status == CRT_OK ? crti_enter() : NULL;
    crti_message_t answer;

    if (status != CRT_OK)
        return status;
    if (!core)
        return crti_entry_status();
    body.actor = core->actor_id;
    body.actor_incarnation = core->actor_incarnation;
    status = crti_node_ask(core, CRTI_MSG_ACTOR_SAVE, &body, 30000, &answer, &storage);
    crti_leave(core);
    return status;
}

static bool is_settled(void *user)
{
    const crt_actor_t *actor = user;

    return actor->phase == CRTI_ACTOR_CALLABLE || actor->phase == CRTI_ACTOR_GONE;
}

/* Its process exists; whether create has ended it alone knows. CRT_IN_PROGRESS: it died, and the
 * head has still to say whether another one follows. */
static crt_status_t ask_process(crti_core_t *core, crt_actor_t *actor, int64_t timeout_ms)
{
    crt_ref_t *answer = crti_ready_out(core, actor);
    crt_status_t status = crti_wait_for(core, is_answered, answer, timeout_ms, answer,
                                        "an actor to be ready");

    if (status == CRT_OK && answer->content == CRTI_CONTENT_FAILED) {
        status = crti_ref_raise(answer);
        if (actor->phase != CRTI_ACTOR_GONE && status == CRT_ERR_ACTOR_DIED)
            status = CRT_IN_PROGRESS;
    }
    crti_ref_release(answer);
    return status;
}

/* -1: without limit. */
static int64_t rest_ms(uint64_t start_ns, int64_t timeout_ms)
{
    int64_t passed = (int64_t)((crti_now_ns() - start_ns) / CRTI_MS);

    return timeout_ms < 0 ? -1 : passed < timeout_ms ? timeout_ms - passed : 0;
}

static crt_status_t await_ready(crti_core_t *core, crt_actor_t *actor, int64_t timeout_ms)
{
    uint64_t start = crti_now_ns();
    crt_status_t status;

    do {
        status = crti_wait_in_detail(core, is_settled, actor, rest_ms(start, timeout_ms),
                                     &(crti_wait_detail_t){.actor = actor},
                                     "an actor to be placed");
        if (status == CRT_OK && actor->phase == CRTI_ACTOR_GONE)
            return crt_raise(actor->status, "%s", actor->text ? actor->text : "");
        if (status == CRT_OK)
            status = ask_process(core, actor, rest_ms(start, timeout_ms));
    } while (status == CRT_IN_PROGRESS);
    return status;
}

crt_status_t crt_actor_ready(crt_actor_t *actor, int64_t timeout_ms)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = crti_actor_check(core, actor);
    if (status == CRT_OK) {
        crti_actor_hold(actor);
        crti_actor_observe(actor);
        status = await_ready(core, actor, timeout_ms);
        crti_actor_release(actor);
    }
    crti_leave(core);
    return status;
}

/* ------------------------------------------------------------------ handles */

/* True when it was one. */
static bool drop_old(crt_actor_t *actor)
{
    bool is_old, is_last = false;

    pthread_mutex_lock(&orphans);
    is_old = crti_old_handle_is(actor);
    if (is_old)
        is_last = --actor->handles == 0;
    if (is_last)
        crti_old_handle_take(actor);
    pthread_mutex_unlock(&orphans);
    if (!is_last)
        return is_old;
    free(actor->class_name);
    free(actor->text);
    free(actor->report);
    free(actor);
    return true;
}

static bool keep_old(crt_actor_t *actor)
{
    bool is_old;

    pthread_mutex_lock(&orphans);
    is_old = crti_old_handle_is(actor);
    if (is_old)
        actor->handles++;
    pthread_mutex_unlock(&orphans);
    return is_old;
}

crt_actor_t *crt_actor_keep(crt_actor_t *actor)
{
    crti_core_t *core;

    if (!actor || crti_is_forked())
        return actor;
    core = crti_enter_quiet();
    if (core && crti_calls_have_handle(core, actor)) {
        actor->handles++;
        crti_actor_hold(actor);
    } else if (!keep_old(actor)) {
        (void)crti_actor_check(core, actor);
        actor = NULL;
    }
    if (core)
        crti_leave(core);
    return actor;
}

void crt_actor_drop(crt_actor_t **slot)
{
    crt_actor_t *actor = slot ? *slot : NULL;
    crti_core_t *core;
    bool is_dropped = true;

    if (!actor)
        return;
    *slot = NULL;
    if (crti_is_forked())
        return; /* the parent's; this copy goes with the process */
    core = crti_enter_quiet();
    if (core && crti_calls_have_handle(core, actor)) {
        is_dropped = actor->handles > 0;
        if (is_dropped) {
            actor->handles--;
            crti_actor_release(actor);
        }
    } else {
        is_dropped = drop_old(actor);
    }
    if (core)
        crti_leave(core);
    if (!is_dropped)
        crti_log(
            CRTI_LOG_WARN, "core",
            "crt_actor_drop of a handle that is not the caller's: it is borrowed, was "
            "dropped before, or never was one");
}

const char *crt_actor_id(crt_actor_t *actor)
{
    crti_core_t *core = crti_is_forked() ? NULL : crti_enter_quiet();
    const char *hex = "";

    if ((core && crti_calls_have_handle(core, actor)) || crti_old_handle_is(actor))
        hex = actor->hex;
    if (core)
        crti_leave(core);
    return hex;
}
