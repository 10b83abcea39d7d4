/* SPDX-License-Identifier: Apache-2.0 */
/* Making actors: what crt_actor_new asks the head for.
 *
 * Where it sits
 *     crt_actor_new -> [ actor_create.c ] -> node daemon -> head; actor.c has the handle
 * Threads
 *     The core's lock.
 * Failure
 *     An actor that can't even be asked for is a handle whose calls fail with the reason.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/calls/defaults.h"
#include "runtime/core/calls/environment.h"
#include "runtime/core/calls/placement_group.h"
#include "runtime/core/calls/scheduling.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/seeds.h"
#include "runtime/core/refs/value_of.h"
#include "runtime/core/values/handles.h"

#define FIND_TRIES 100

/* ------------------------------------------------------------------ what create needs */

static void on_create_ended(crti_waiting_t *waiting, crt_ref_t *ref)
{
    crt_actor_t *actor = CRTI_CONTAINER(waiting, crt_actor_t, waits_for_create);

    /* Of one that failed the head tells what follows. */
    if (ref->content != CRTI_CONTENT_FAILED)
        crti_actor_drop_creation(actor);
    actor->create_ended = NULL;
    crti_ref_release(ref);
    crti_actor_release(actor);
}

/* It is callable: what it was made with is let go when create has ended for good. */
static void watch_create(crt_actor_t *actor)
{
    if (!actor->creation_count || actor->may_restart || actor->create_ended ||
        actor->phase != CRTI_ACTOR_CALLABLE)
        return;
    crti_actor_hold(actor);
    actor->create_ended = crti_ready_out(actor->core, actor);
    actor->waits_for_create.on_ready = on_create_ended;
    crti_ref_await(actor->create_ended, &actor->waits_for_create, false);
}

/* ------------------------------------------------------------------ asking for one */

static void on_created(void *user, const crti_message_t *message)
{
    crt_actor_t *actor = user;

    actor->is_creating = false;
    if (message && message->kind == CRTI_MSG_ERROR) {
        crti_channel_raise(&message->error);
        actor->is_final = message->error.status != CRT_ERR_IO;
        actor->is_none = actor->is_final;
        crti_actor_end(actor, (crt_status_t)message->error.status, crt_error_detail());
    }
    crti_actor_release_weakly(actor);
}

/* What an actor that can't even be asked for is: a handle whose calls fail. */
static crt_actor_t *failed_actor(crti_core_t *core, const char *class_name,
                                 crt_status_t status)
{
    char text[1024];
    crt_actor_t *actor;

    strncpy(text, crt_error_detail(), sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    if (crti_actor_get(core, crti_id_random(), crti_str(class_name), &actor) != CRT_OK)
        return NULL;
    actor->is_final = actor->is_none = true;
    crti_actor_end(actor, status, text);
    return actor;
}

static crt_status_t check_options(const crt_actor_options_t *o)
{
    if (o->get_if_exists && (!o->name || !*o->name))
        return crt_raise(CRT_ERR_INVALID, "get_if_exists needs a name");
    if (o->detached && (!o->name || !*o->name))
        return crt_raise(CRT_ERR_INVALID, "a detached actor needs a name");
    if (o->max_restarts < -1 || o->max_task_retries < -1)
        return crt_raise(CRT_ERR_INVALID, "max_restarts and max_task_retries are -1 "
                                          "(without limit), 0 or more");
    if (o->max_task_retries && !o->max_restarts)
        return crt_raise(CRT_ERR_INVALID,
                         "max_task_retries needs max_restarts: calls are "
                         "made again when the actor was restarted");
    if (o->max_pending_calls < -1)
        return crt_raise(CRT_ERR_INVALID, "max_pending_calls is -1 or 0 (without limit), "
                                          "or more");
    if (o->max_concurrency < 0 || o->max_concurrency > CRTI_CONCURRENCY_MAX)
        return crt_raise(CRT_ERR_INVALID, "max_concurrency is %d, not 1 to %d",
                         o->max_concurrency, CRTI_CONCURRENCY_MAX);
    if (o->name && strlen(o->name) > 255)
        return crt_raise(CRT_ERR_INVALID, "an actor's name has at most 255 bytes");
    return CRT_OK; /* the head checks its namespace */
}

/* max_concurrency, and whether calls are unordered: what only the worker has to know of the
 * options. */
static unsigned concurrency_of(const crt_actor_options_t *o)
{
    return (unsigned)o->max_concurrency |
           (o->allow_out_of_order_execution ? CRTI_CREATION_UNORDERED : 0);
}

/* The creation record is a call record whose name is the class. */
static crt_status_t build_creation(crt_actor_t *actor, unsigned concurrency,
                                   const crti_placement_t *placement,
                                   const crti_given_t *given, crti_buffer_t *record)
{
    const crt_arg_t *args = given->copy ? given->copy : given->args;
    size_t count = given->count;
    const crti_function_t *create = &actor->class_->create;
    crti_call_spec_t scratch = {.function = create};
    bool is_pending;
    crti_call_head_t head = {.flags = crti_id_is_zero(placement->group)
                                          ? 0
                                          : CRTI_CALL_TASK | CRTI_CALL_PLACED,
                             .index = concurrency,
                             .name = crti_str(actor->class_name),
                             .placement = *placement,
                             .seed = crti_seed_of_call(actor->core)};
    crt_ref_t *failed = NULL;
    size_t total;
    crt_status_t status =
        crti_args_check(create, given->args, count, &total, &is_pending);

    if (status != CRT_OK)
        return status;
    head.arg_count = (unsigned)total;
    status = crti_put_call(record, &head);
    if (status == CRT_OK)
        status = crti_put_args(actor->core, &scratch, record, args, count, &failed);
    if (failed)
        status = crti_ref_raise(failed);
    if (status == CRT_OK && record->size > CRTI_CREATION_MAX)
        status = crt_raise(CRT_ERR_TOO_LARGE, "%s: creation arguments of %zu bytes",
                           create->display, record->size);
    if (scratch.pins == scratch.few_pins && scratch.pin_count) {
        actor->creation_refs = malloc(sizeof(scratch.few_pins));
        if (!actor->creation_refs)
            return crt_raise(CRT_ERR_NO_MEMORY, "%s: refs", create->display);
        memcpy(actor->creation_refs, scratch.few_pins, sizeof(scratch.few_pins));
    } else if (scratch.pin_count) {
        actor->creation_refs = scratch.pins;
    }
    actor->creation_count = scratch.pin_count;
    actor->on_callable = watch_create;
    if (actor->creation_count)
        crti_actor_hold_weakly(actor);
    return status;
}

static crt_status_t ask_for_actor(crt_actor_t *actor, const crt_actor_options_t *o,
                                  const crti_given_t *given)
{
    crti_core_t *core = actor->core;
    crti_scheduling_t how = crti_scheduling_default;
    crti_placement_t placement;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};
    CRTI_AUTO(crti_environment_drop) crti_environment_t *environment = NULL;
    crti_msg_actor_create_t m = {
        .actor = actor->id,
        .job = core->job,
        .owner = core->process,
        .owner_node = core->node,
        .owner_incarnation = core->incarnation,
        .owner_tcp = crti_str(crti_net_address(core->net)->tcp),
        .class_name = crti_str(actor->class_name),
        .name = crti_str(o->name),
        .name_space = crti_str(o->name_space ? o->name_space : core->name_space),
        .detached = o->detached,
        .max_restarts = o->max_restarts,
        .max_task_retries = o->max_task_retries,
        .max_pending_calls = o->max_pending_calls,
        .is_unordered = o->allow_out_of_order_execution,
        .fenced = o->fenced};
    crt_status_t status = crti_scheduling_resources(o->num_cpus, 0, o->num_gpus,
                                                    o->resources, &m.resources);

    if (status == CRT_OK)
        status = crti_scheduling_infeasible(o->if_infeasible, &m.if_infeasible);
    if (status == CRT_OK)
        status = crti_scheduling_where(o->scheduling, o->node_id, o->node_is_soft,
                                       o->label_selector, o->fallback_selectors, &how);
    if (status == CRT_OK)
        status = crti_placement_group_option(
            core, o->placement_group, o->bundle_plus_one, o->capture_child_tasks, &how,
            o->scheduling || o->node_id || o->label_selector,
            &placement.captures_children);
    placement.group = how.group;
    placement.bundle = how.bundle;
    m.strategy = how.strategy;
    m.affinity = how.node;
    m.is_soft = how.is_soft;
    m.group = how.group;
    m.bundle = how.bundle;
    m.selector = crti_str(how.selector);
    if (status == CRT_OK)
        status = crti_environment_of_options(core->calls->environment, o->env_vars,
                                             o->working_dir, &environment);
    m.environment = crti_environment_bytes(environment);
    if (status == CRT_OK)
        status = build_creation(actor, concurrency_of(o), &placement, given, &record);
    if (status == CRT_OK && !m.detached)
        status = crti_actor_lifetime_new(actor);
    if (status != CRT_OK)
        return status;
    if (actor->lifetime)
        m.lifetime = actor->lifetime->number;
    m.creation = crti_span(record.data, record.size);
    actor->is_creating = true;
    actor->may_restart = m.max_restarts != 0;
    CRTI_TERMS_COPY(&actor->terms, &m);
    crti_actor_hold_weakly(actor);
    status = crti_node_request(core, CRTI_MSG_ACTOR_CREATE, &m, on_created, actor);
    if (status != CRT_OK) {
        crti_actor_release_weakly(actor);
        return status;
    }
    crti_actor_observe(actor);
    return CRT_OK;
}

static crt_actor_t *make_actor(crti_core_t *core, const crti_class_t *class_,
                               const crt_actor_options_t *o, const crti_given_t *given)
{
    const char *name = class_->user->name;
    crt_actor_t *actor;
    crt_status_t status = crti_core_check(core);

    if (status == CRT_OK)
        status = check_options(o);
    if (status == CRT_OK)
        status = crti_actor_get(core, crti_id_random(), crti_str(name), &actor);
    if (status != CRT_OK)
        return failed_actor(core, name, status);
    status = ask_for_actor(actor, o, given);
    if (status != CRT_OK) {
        actor->is_final = actor->is_none = true;
        crti_actor_end(actor, status, crt_error_detail());
    }
    return actor;
}

static bool is_answered(void *user)
{
    return !((crt_actor_t *)user)->is_creating;
}

/* Somebody else may make one of the name between the question and the creation, and it may end
 * after that. */
static crt_actor_t *find_or_make(crti_core_t *core, const crti_class_t *class_,
                                 const crt_actor_options_t *o, const crti_given_t *given)
{
    crt_status_t status = check_options(o);
    crt_actor_t *actor;

    for (int i = 0; status == CRT_OK && i < FIND_TRIES; i++) {
        status = crti_actor_find(core, o->name_space, o->name, class_->user, &actor);
        if (status == CRT_OK)
            return actor;
        if (status != CRT_ERR_NOT_FOUND)
            break;
        actor = make_actor(core, class_, o, given);
        if (!actor)
            return NULL;
        status = crti_wait_for(core, is_answered, actor,
                               (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS), NULL,
                               "the head, which names an actor");
        if (status != CRT_OK || actor->phase != CRTI_ACTOR_GONE ||
            actor->status != CRT_ERR_EXISTS)
            return actor;
        crti_actor_release(actor);
    }
    if (status == CRT_OK)
        status = crt_raise(CRT_ERR_EXISTS, "actors \"%s\" come and go: %d were missed",
                           o->name, FIND_TRIES);
    return failed_actor(core, class_->user->name, status);
}

crt_actor_t *crt_actor_new_v(const crt_actor_class_t *user,
                             const crt_actor_options_t *options, const crt_arg_t *args,
                             size_t count)
{
    crti_core_t *core = crti_enter_unlocked();
    const crti_class_t *class_ = NULL;
    crt_actor_options_t mine;
    crti_given_t given;
    crt_actor_t *actor;
    crt_status_t status;

    if (!core) {
        if (!crti_is_forked())
            crti_objects_forget(args, count);
        actor = calloc(1, sizeof(*actor));
        if (!actor)
            return NULL;
        *actor = (crt_actor_t){.holds = 1,
                               .handles = 1,
                               .phase = CRTI_ACTOR_GONE,
                               .is_none = true,
                               .status = crti_entry_status(),
                               .text = strdup(crt_error_detail())};
        crti_old_handle_add(actor);
        return actor;
    }
    status = crti_given_take(core, args, count, &given);
    if (status == CRT_OK)
        status = crti_program_class(core->program, user, &class_);
    if (status == CRT_OK)
        status = crti_actor_defaults(class_, options, &mine);
    crti_net_lock(core->net);
    if (status != CRT_OK)
        actor = failed_actor(core, user && user->name ? user->name : "", status);
    else if (mine.get_if_exists)
        actor = find_or_make(core, class_, &mine, &given);
    else
        actor = make_actor(core, class_, &mine, &given);
    if (actor)
        actor->handles++;
    crti_net_unlock(core->net);
    crti_given_end(core, &given);
    crti_leave_unlocked(core);
    return actor;
}
