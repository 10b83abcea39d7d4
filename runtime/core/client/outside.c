/* SPDX-License-Identifier: Apache-2.0 */
/* Calls from outside the cluster. See outside.h. */
#include "runtime/core/client/outside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/stream.h"
#include "runtime/core/execution/execution.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/refs/value_of.h"
#include "runtime/core/values/error.h"

crt_status_t crti_outside_check(void)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;

    if (!core)
        return crti_entry_status();
    status = crti_core_check(core);
    crti_leave(core);
    return status;
}

/* ------------------------------------------------------------------ finding */

typedef struct finding {
    crti_core_t *core;
    crti_outside_found_t *on_found;
    void *user;
} finding_t;

static crt_status_t take_state(crti_core_t *core, const crti_message_t *answer,
                               crt_actor_t **actor_out)
{
    crt_status_t status;

    if (!answer)
        return crt_raise(CRT_ERR_CLOSED, "the node has gone");
    if (answer->kind == CRTI_MSG_ERROR)
        return crti_channel_raise(&answer->error);
    if (answer->kind != CRTI_MSG_ACTOR_STATE)
        return crt_raise(CRT_ERR_PROTOCOL,
                         "the head answered a question for an actor with %s",
                         crti_message_name(answer->kind));
    status = crti_actor_get(core, answer->actor_state.actor,
                            answer->actor_state.class_name, actor_out);
    if (status == CRT_OK)
        (*actor_out)->handles++;
    return status;
}

static void on_answer(void *user, const crti_message_t *answer)
{
    finding_t *finding = user;
    crt_actor_t *actor = NULL;
    crt_status_t status = take_state(finding->core, answer, &actor);
    bool is_alive = status == CRT_OK && answer->actor_state.state == CRTI_ACTOR_ALIVE;

    finding->on_found(finding->user, status, actor, is_alive);
    free(finding);
}

crt_status_t crti_outside_find(const char *name_space, const char *name,
                               crti_outside_found_t *on_found, void *user)
{
    crti_msg_actor_find_t body = {.name = crti_str(name),
                                  .name_space = crti_str(name_space)};
    finding_t *finding = malloc(sizeof(*finding));
    crti_core_t *core;
    crt_status_t status;

    if (!finding)
        return crt_raise(CRT_ERR_NO_MEMORY, "a question for an actor");
    core = crti_enter();
    if (!core) {
        free(finding);
        return crti_entry_status();
    }
    *finding = (finding_t){core, on_found, user};
    status = crti_core_check(core);
    if (status == CRT_OK)
        status = crti_node_request(core, CRTI_MSG_ACTOR_FIND, &body, on_answer, finding);
    if (status != CRT_OK)
        free(finding);
    crti_leave(core);
    return status;
}

bool crti_outside_is_gone(crt_actor_t *actor)
{
    crti_core_t *core = crti_enter_quiet();
    bool is_gone = !core || crti_actor_check(core, actor) != CRT_OK ||
                   actor->phase == CRTI_ACTOR_GONE;

    if (core)
        crti_leave(core);
    return is_gone;
}

bool crti_outside_is_callable(crt_actor_t *actor)
{
    crti_core_t *core = crti_enter_quiet();
    bool is_callable = core && crti_actor_check(core, actor) == CRT_OK &&
                       actor->phase == CRTI_ACTOR_CALLABLE;

    if (core)
        crti_leave(core);
    return is_callable;
}

/* ------------------------------------------------------------------ calling */

/* What is called: the name that the call was given is CLASS.METHOD (outgoing.c). The signature is
 * the worker's to check. */
static const crti_function_t known = {.class_name = "",
                                      .name = "",
                                      .index = CRTI_CALL_OUTSIDE,
                                      .display = "a call from outside",
                                      .signature = {.is_unchecked = true}},
                             stranger = {.class_name = "",
                                         .name = "",
                                         .index = CRTI_CALL_STRANGER,
                                         .display = "a call from outside",
                                         .signature = {.is_unchecked = true}};

static void on_ready(crti_waiting_t *waiting, crt_ref_t *ref)
{
    crti_outside_call_t *call = CRTI_CONTAINER(waiting, crti_outside_call_t, waiting);

    call->on_change(call);
}

static void on_stream(void *user)
{
    crti_outside_call_t *call = user;

    if (!call->ref) /* else that one is waited for */
        call->on_change(call);
}

/* Tells when it can be read here. */
static void await(crti_outside_call_t *call)
{
    crti_ref_await(call->ref, &call->waiting, true);
}

static crt_status_t begin(crti_core_t *core, crti_outside_call_t *call,
                          const crti_outside_target_t *what, const crti_given_t *given)
{
    char name[256];
    crti_target_t target = {.actor = what->actor,
                            .function = what->has_token ? &known : &stranger,
                            .max_retries = CRTI_RETRIES_OF_ACTOR,
                            .returns = 1,
                            .name = name,
                            .timeout_ms = what->timeout_ms,
                            .try_only = true};
    crt_status_t status = crti_actor_check(core, what->actor);

    if (status != CRT_OK)
        return status;
    snprintf(name, sizeof(name), "%s.%s", what->actor->class_name, what->method);
    if (what->is_stream) {
        call->stream = target.stream = crti_call_stream_new(core);
        if (!call->stream)
            return crt_raise(CRT_ERR_NO_MEMORY, "a stream");
        call->stream->on_change = on_stream;
        call->stream->on_change_user = call;
        (void)crti_call_stream_window(0, &call->stream->window);
        crti_call_out(core, &target, given, &call->stream->completed);
        if (call->stream
                ->is_ended) /* it could not be made: the end is told all the same */
            call->on_change(call);
    } else {
        crti_call_out(core, &target, given, &call->ref);
        call->ref->handles++;
        await(call);
    }
    return CRT_OK;
}

crt_status_t crti_outside_begin(crti_outside_call_t *call,
                                const crti_outside_target_t *target)
{
    crti_core_t *core = crti_enter_unlocked();
    crti_given_t given;
    crt_status_t status;

    call->ref = NULL;
    call->stream = NULL;
    crti_list_init(&call->waiting.link);
    call->waiting.on_ready = on_ready;
    if (!core)
        return crti_entry_status();
    status = crti_given_take(core, target->args, target->count, &given);
    crti_net_lock(core->net);
    if (status == CRT_OK)
        status = crti_core_check(core);
    if (status == CRT_OK)
        status = begin(core, call, target, &given);
    crti_net_unlock(core->net);
    crti_given_end(core, &given);
    crti_leave_unlocked(core);
    return status;
}

/* ------------------------------------------------------------------ its results */

static crt_status_t raise_failure(crt_ref_t *ref, bool *may_have_run_out)
{
    *may_have_run_out = ref->error && ref->error->user.may_have_run;
    return crti_ref_raise(ref);
}

static crt_status_t look(crti_outside_call_t *call, const crt_value_t **value_out,
                         bool *may_have_run_out)
{
    crt_stream_t *stream = call->stream;

    if (!call->ref && stream && stream->count) {
        call->ref = crti_call_stream_take(stream);
        call->ref->handles++;
        if (!crti_ref_fetch(call->ref))
            await(call);
    }
    if (call->ref) {
        if (!crti_ref_fetch(call->ref))
            return CRT_IN_PROGRESS;
        if (call->ref->content == CRTI_CONTENT_FAILED)
            return raise_failure(call->ref, may_have_run_out);
        return crti_ref_value(call->ref, value_out);
    }
    if (!stream->is_ended)
        return CRT_IN_PROGRESS;
    if (stream->completed->content == CRTI_CONTENT_FAILED)
        return raise_failure(stream->completed, may_have_run_out);
    return CRT_END_OF_STREAM;
}

crt_status_t crti_outside_look(crti_outside_call_t *call, const crt_value_t **value_out,
                               bool *may_have_run_out)
{
    crti_core_t *core = crti_enter();
    crt_status_t status;

    *may_have_run_out = true;
    if (!core)
        return crti_entry_status();
    status = look(call, value_out, may_have_run_out);
    crti_leave(core);
    return status;
}

void crti_outside_next(crti_outside_call_t *call)
{
    crti_core_t *core = crti_enter_quiet();

    if (core)
        crti_list_remove(&call->waiting.link);
    if (core)
        crti_leave(core);
    crt_ref_drop(&call->ref);
}

void crti_outside_end(crti_outside_call_t *call)
{
    crti_core_t *core = crti_enter_quiet();

    if (core) {
        crti_list_remove(&call->waiting.link);
        if (call->stream)
            call->stream->on_change = NULL;
        if (call->ref && call->ref->call)
            crti_cancel_call(call->ref->call);
        crti_leave(core);
    }
    crt_ref_drop(&call->ref);
    crt_stream_drop(&call->stream);
}
