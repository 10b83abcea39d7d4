/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of actors: found or made, held, given to other processes with the place where the actor
 * lives.
 *
 * Where it sits
 *     contained.c, naming.c (values with handles), actor.c -> [ actor_handle.c ] -> remotes.c
 * Threads
 *     The core's lock.
 * Unconfirmed places
 *     A handle comes with the place where its sender knew the actor to live, and is callable at
 *     once, head or no head. The session names the process and its incarnation, so that nobody else
 *     takes the calls; those that certainly did not run wait for what the head says.
 */
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/values/handles.h"

/*              alive              process or session lost
 *  WAITING ------------> CALLABLE ------------------------> SUSPECT
 *     ^                     |  ^       still alive after all    |  |
 *     |    restarting       |  +--------------------------------+  |
 *     +---------------------+--------------------------------------+
 *  Every phase may go to GONE: dead, or it could not be made.
 */
static const char *const phase_names[] = {"waiting", "callable", "suspect", "gone"};

void crti_actor_set_phase(crt_actor_t *actor, crti_actor_phase_t phase)
{
    if (actor->phase == phase)
        return;
    crti_log(CRTI_LOG_DEBUG, "core", "actor %s %s -> %s", actor->hex,
             phase_names[actor->phase], phase_names[phase]);
    actor->phase = phase;
    crti_net_wake(actor->core->net);
}

/* The tick looks at it then. */
void crti_actor_check_at(crt_actor_t *actor, uint64_t at_ns)
{
    crti_list_remove(&actor->in_due);
    crti_list_append(&actor->core->calls->due_actors, &actor->in_due);
    crti_core_wake_at(actor->core, at_ns);
}

void crti_actor_set_remote(crt_actor_t *actor, crti_remote_t *remote)
{
    crti_remote_t *old = actor->remote;

    actor->remote = remote;
    actor->has_answered = false;
    if (old)
        crti_remote_unuse(actor->core, old);
}

/* ------------------------------------------------------------------ life of a handle */

/* Who only looks after an actor does not know its class, and gives none. */
static crt_status_t set_class(crt_actor_t *actor, crti_span_t class_name)
{
    char *name = crti_str_dup(class_name);

    if (!name)
        return crt_raise(CRT_ERR_NO_MEMORY, "an actor handle");
    free(actor->class_name);
    actor->class_name = name;
    actor->class_ =
        crti_program_find_class(actor->core->program, class_name.data, class_name.size);
    return CRT_OK;
}

crt_status_t crti_actor_get(crti_core_t *core, crti_id_t id, crti_span_t class_name,
                            crt_actor_t **actor_out)
{
    crt_actor_t *actor = crti_map_get(&core->calls->actors, &id);
    crt_status_t status;

    if (actor) {
        status = actor->class_name[0] ? CRT_OK : set_class(actor, class_name);
        if (status != CRT_OK)
            return status;
        actor->holds++;
        *actor_out = actor;
        return CRT_OK;
    }
    actor = calloc(1, sizeof(*actor));
    if (!actor)
        return crt_raise(CRT_ERR_NO_MEMORY, "an actor handle");
    *actor = (crt_actor_t){.core = core, .id = id, .holds = 1};
    crti_id_hex(id, actor->hex);
    crti_list_init(&actor->queue);
    crti_list_init(&actor->suspects);
    crti_list_init(&actor->watchers);
    crti_list_init(&actor->in_due);
    status = set_class(actor, class_name);
    if (status == CRT_OK)
        status = crti_handles_add(&core->calls->handles, actor);
    if (status == CRT_OK)
        status = crti_map_put(&core->calls->actors, &id, actor);
    if (status != CRT_OK) {
        crti_handles_take(&core->calls->handles, actor);
        free(actor->class_name);
        free(actor);
        return status;
    }
    *actor_out = actor;
    return CRT_OK;
}

void crti_actor_let_go(crt_actor_t *actor)
{
    crti_core_t *core = actor->core;

    if (actor->holds == actor->weak_holds)
        crti_actor_lifetime_drop(actor);
    if (actor->holds)
        return;
    if (actor->is_watched && actor->phase != CRTI_ACTOR_GONE && core->link->channel)
        crti_node_notice(core, CRTI_MSG_ACTOR_UNWATCH,
                         &(crti_msg_actor_unwatch_t){actor->id, 0});
    crti_map_remove(&core->calls->actors, &actor->id);
    crti_handles_take(&core->calls->handles, actor);
    crti_list_remove(&actor->in_due);
    crti_actor_set_remote(actor, NULL);
    free(actor->class_name);
    free(actor->text);
    free(actor->report);
    free(actor->restart_text);
    free(actor);
}

void crti_actor_hold_weakly(crt_actor_t *actor)
{
    actor->holds++;
    actor->weak_holds++;
}

void crti_actor_release_weakly(crt_actor_t *actor)
{
    actor->weak_holds--;
    crti_actor_release(actor);
}

void crti_actor_orphan(crt_actor_t *actor)
{
    actor->lifetime = NULL;
    free(actor->creation_refs);
    actor->creation_refs = NULL;
    actor->creation_count = 0;
    actor->remote = NULL;
    actor->core = NULL;
    actor->holds = actor->handles;
    if (actor->holds) {
        crti_old_handle_add(actor);
        return;
    }
    free(actor->class_name);
    free(actor->text);
    free(actor->report);
    free(actor->restart_text);
    free(actor);
}

static crt_status_t refuse(const crt_actor_t *actor)
{
    if (!actor)
        return crt_raise(CRT_ERR_INVALID, "the actor handle is NULL");
    if (!crti_old_handle_is(actor))
        return crt_raise(CRT_ERR_INVALID, "the actor handle is none: it was dropped, or "
                                          "never was one");
    if (actor->is_none && actor->text)
        return crt_raise(actor->status, "%s", actor->text);
    return crt_raise(CRT_ERR_CLOSED, "the actor handle is " CRTI_BEFORE_SHUTDOWN);
}

crt_status_t crti_actor_check(const crti_core_t *core, const crt_actor_t *actor)
{
    return core && crti_handles_have(&core->calls->handles, actor) ? CRT_OK
                                                                   : refuse(actor);
}

/* ------------------------------------------------------------------ where it lives */

void crti_actor_export_location(const crt_actor_t *actor, crti_actor_name_t *name)
{
    const crti_address_t *at;

    if (actor->phase != CRTI_ACTOR_CALLABLE)
        return;
    at = &actor->remote->address;
    name->incarnation = actor->incarnation;
    name->process = at->process;
    name->process_incarnation = at->incarnation;
    name->node = at->node;
    name->tcp = crti_str(at->tcp);
}

static void import_location(crt_actor_t *actor, const crti_actor_name_t *name)
{
    crti_core_t *core = actor->core;
    crti_address_t address = crti_peer_address(name->process, name->process_incarnation,
                                               name->node, crti_str(""), name->tcp);
    crti_remote_t *remote;

    if (actor->phase != CRTI_ACTOR_WAITING || name->incarnation <= actor->incarnation)
        return;
    if (crti_remote_use(core, &address, &remote) != CRT_OK)
        return; /* the head knows it, too */
    if (remote->is_dead || remote->address.incarnation != address.incarnation) {
        crti_remote_unuse(core, remote);
        return;
    }
    crti_actor_set_remote(actor, remote);
    actor->incarnation = name->incarnation;
    actor->is_unconfirmed = true;
    crti_actor_set_phase(actor, CRTI_ACTOR_CALLABLE);
    crti_actor_check_at(
        actor, crti_now_ns()); /* what waits leaves, but not while a value is read */
}

/* Each process that has a handle may know them or not yet: what one has is so. */
#define LEARN_TERM(type, name)                                                           \
    if (!own->name)                                                                      \
        own->name = told->name;
static void learn_terms(crti_actor_terms_t *own,
                        const crti_actor_terms_t *told){CRTI_ACTOR_TERMS(LEARN_TERM)}

crt_status_t crti_actor_open(crti_core_t *core, const crti_actor_name_t *name,
                             crt_ref_t *lifetime, crt_actor_t **actor_out)
{
    crt_status_t status = crti_actor_get(core, name->id, name->class_name, actor_out);

    if (status != CRT_OK)
        return status;
    learn_terms(&(*actor_out)->terms, &name->terms);
    crti_actor_lifetime_hold(*actor_out, lifetime);
    import_location(*actor_out, name);
    return CRT_OK;
}
