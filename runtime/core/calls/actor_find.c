/* SPDX-License-Identifier: Apache-2.0 */
/* Finding actors by name.
 *
 * Where it sits
 *     crt_actor_find, actor_create.c (get_if_exists) -> [ actor_find.c ] -> node daemon -> head
 * Threads
 *     The core's lock, which is given up while the head is asked.
 */
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/process/blocking.h"
#include "runtime/core/process/node_link.h"

static bool is_registered(void *user)
{
    const crt_ref_t *ref = user;

    return ref->is_owned ||
           (ref->borrow.state != CRTI_BORROW_REGISTERING &&
            ref->borrow.state != CRTI_BORROW_COVERED) ||
           ref->borrow.covers;
}

static bool is_gone(void *user)
{
    return ((crt_actor_t *)user)->phase == CRTI_ACTOR_GONE;
}

/* Its owner has let it go: the head is about to hear so, or has. */
static crt_status_t await_end(crt_actor_t *actor)
{
    crt_status_t status;

    crti_actor_observe(actor);
    status = crti_wait_for(actor->core, is_gone, actor,
                           (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS), NULL,
                           "the end of an actor");
    return status == CRT_OK
               ? crt_raise(CRT_ERR_NOT_FOUND, "the actor has just ended: %s",
                           actor->text ? actor->text
                                       : "nobody has a handle of it any more")
               : status;
}

/* Held here from now on, and registered at its owner. */
static crt_status_t keep_alive(crt_actor_t *actor, const crti_msg_actor_state_t *m)
{
    const crti_ref_name_t name = {.id = {m->owner, m->lifetime},
                                  .incarnation = m->owner_incarnation,
                                  .node = m->owner_node,
                                  .tcp = m->owner_tcp};
    crt_ref_t *ref;
    crt_status_t status;

    if (m->lifetime == 0 || actor->lifetime)
        return CRT_OK; /* it is detached; or held here already */
    if (crti_ref_arrive(actor->core, &name, &ref) != CRT_OK)
        return await_end(actor);
    crti_ref_cover(ref);
    crti_actor_lifetime_hold(actor, ref);
    crti_ref_uncover(ref, NULL); /* nobody else's hold: it has to be registered */
    status = crti_wait_for(actor->core, is_registered, ref,
                           (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS), NULL,
                           "an actor that it has found");
    if (status == CRT_OK && !ref->is_owned && ref->borrow.state == CRTI_BORROW_ORPHANED)
        status = await_end(actor);
    return status;
}

static crt_status_t take_found(crti_core_t *core, const crti_msg_actor_state_t *m,
                               const char *name, const crt_actor_class_t *user,
                               crt_actor_t **actor_out)
{
    crt_actor_t *actor;
    const crti_class_t *class_;
    crt_status_t status =
        user ? crti_program_class(core->program, user, &class_) : CRT_OK;
    char found[256];

    if (status != CRT_OK)
        return status;
    crti_text(m->class_name, found, sizeof(found));
    if (user && strcmp(found, user->name) != 0)
        return crt_raise(CRT_ERR_INVALID, "actor \"%s\" is of class %s, not %s", name,
                         found, user->name);
    status = crti_actor_get(core, m->actor, m->class_name, &actor);
    if (status != CRT_OK)
        return status;
    status = keep_alive(actor, m);
    if (status == CRT_OK)
        *actor_out = actor;
    else
        crti_actor_release(actor);
    return status;
}

crt_status_t crti_actor_find(crti_core_t *core, const char *name_space, const char *name,
                             const crt_actor_class_t *user, crt_actor_t **actor_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    crti_msg_actor_find_t body = {
        .name = crti_str(name),
        .name_space = crti_str(name_space ? name_space : core->name_space)};
    crti_message_t answer;
    crt_status_t status;

    if (!name || !*name)
        return crt_raise(CRT_ERR_INVALID, "the name is empty");
    status =
        crti_node_ask(core, CRTI_MSG_ACTOR_FIND, &body,
                      (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS), &answer, &storage);
    if (status == CRT_OK && answer.kind != CRTI_MSG_ACTOR_STATE)
        status = crt_raise(CRT_ERR_PROTOCOL,
                           "the head answered a question for an actor with %s",
                           crti_message_name(answer.kind));
    return status == CRT_OK ? take_found(core, &answer.actor_state, name, user, actor_out)
                            : status;
}

crt_status_t crti_actor_find_own(crti_core_t *core, crt_actor_t **actor_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    const crti_msg_actor_watch_t body = {.actor = core->actor_id};
    crt_actor_t *actor = crti_map_get(&core->calls->actors, &core->actor_id);
    crti_message_t answer;
    crt_status_t status;

    if (actor && actor->lifetime) {
        crti_actor_hold(actor);
        *actor_out = actor;
        return CRT_OK;
    }
    status =
        crti_node_ask(core, CRTI_MSG_ACTOR_WATCH, &body,
                      (int64_t)(CRTI_LIMIT(head_timeout) / CRTI_MS), &answer, &storage);
    if (status == CRT_OK && answer.kind != CRTI_MSG_ACTOR_STATE)
        status = crt_raise(CRT_ERR_PROTOCOL,
                           "the head answered a question for an actor with %s",
                           crti_message_name(answer.kind));
    if (status == CRT_OK)
        status = take_found(core, &answer.actor_state, "", NULL, actor_out);
    if (status == CRT_OK && !(*actor_out)->is_watched)
        crti_node_notice(core, CRTI_MSG_ACTOR_UNWATCH,
                         &(crti_msg_actor_unwatch_t){core->actor_id, 0});
    return status;
}
