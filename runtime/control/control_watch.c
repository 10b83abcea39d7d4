/* SPDX-License-Identifier: Apache-2.0 */
/* Watches of an actor: by its id, with every change from now on, or by its name.
 *
 * A handle can arrive before the creation of its actor: the driver passes it on at once, and the
 * worker that gets it asks through another node. So a watch of an unknown id stays pending for
 * PENDING_NS before the actor is reported as dead. See control.h.
 */
#include <stdlib.h>

#include "runtime/base/limit.h"
#include "runtime/control/control_state.h"
#include "runtime/control/control_watch.h"
#include "runtime/control/outbox.h"

#define PENDING_NS (2 * CRTI_LIMIT(heartbeat_timeout))

typedef struct pending_watch {
    crti_list_t in_pending;
    crti_id_t actor;
    uint64_t link, request, deadline_ns;
} pending_watch_t;

#define PENDING_OF(item) CRTI_CONTAINER(item, pending_watch_t, in_pending)

static void answer_state(crti_control_t *c, uint64_t link, uint64_t request,
                         const crti_actor_entry_t *actor)
{
    crti_msg_actor_state_t notice = crti_actor_entry_notice(actor);

    crti_control_answer(c, link, CRTI_MSG_ACTOR_STATE, request, &notice, false);
}

static void watch(crti_control_t *c, uint64_t link, uint64_t request,
                  crti_actor_entry_t *actor)
{
    crti_control_link_t *from = crti_control_link(c, link);
    crt_status_t status = crti_actor_entry_watch(actor, link);

    if (status == CRT_OK && from)
        status = crti_map_put(&from->watched, &actor->id, from);
    if (status == CRT_OK)
        answer_state(c, link, request, actor);
    else
        crti_control_refuse(c, link, request, status);
}

static void wait_for(crti_control_t *c, uint64_t link, uint64_t request, crti_id_t id)
{
    pending_watch_t *pending = calloc(1, sizeof(*pending));

    if (pending == NULL) {
        crt_raise(CRT_ERR_NO_MEMORY, "watcher");
        crti_control_refuse(c, link, request, CRT_ERR_NO_MEMORY);
        return;
    }
    *pending = (pending_watch_t){.actor = id,
                                 .link = link,
                                 .request = request,
                                 .deadline_ns = c->now_ns + PENDING_NS};
    crti_list_append(&c->pending_watches, &pending->in_pending);
}

void crti_control_actor_watch(crti_control_t *c, uint64_t link, uint64_t request,
                              crti_id_t id)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, id);

    if (actor)
        watch(c, link, request, actor);
    else
        wait_for(c, link, request, id);
}

void crti_control_actor_unwatch(crti_control_t *c, uint64_t link, crti_id_t id)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, id);
    crti_control_link_t *from = crti_control_link(c, link);

    if (actor)
        crti_actor_entry_unwatch(actor, link);
    if (from)
        crti_map_remove(&from->watched, &id);
}

void crti_control_actor_find(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_actor_find_t *m)
{
    const crti_actor_entry_t *actor =
        crti_actor_table_find(&c->actors, m->name_space, m->name);
    char name[300], name_space[CRTI_NAMESPACE_SIZE];

    if (actor) {
        answer_state(c, link, request, actor);
        return;
    }
    crt_raise(CRT_ERR_NOT_FOUND, "no actor is named \"%s\" in the namespace \"%s\"",
              crti_text(m->name, name, sizeof(name)),
              crti_text(m->name_space, name_space, sizeof(name_space)));
    crti_control_refuse(c, link, request, CRT_ERR_NOT_FOUND);
}

/* ---------------------------------------------------------------- watches of unknown actors */

static void forget(pending_watch_t *pending)
{
    crti_list_remove(&pending->in_pending);
    free(pending);
}

void crti_control_watches_created(crti_control_t *c, crti_actor_entry_t *actor)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->pending_watches) {
        pending_watch_t *pending = PENDING_OF(item);

        if (!crti_id_equal(pending->actor, actor->id))
            continue;
        watch(c, pending->link, pending->request, actor);
        forget(pending);
    }
}

void crti_control_watches_closed(crti_control_t *c, crti_control_link_t *link)
{
    crti_actor_entry_t *actor;
    size_t cursor = 0;
    const void *id;
    void *value;

    while (crti_map_next(&link->watched, &cursor, &id, &value)) {
        actor = crti_actor_table_get(&c->actors, *(const crti_id_t *)id);
        if (actor)
            crti_actor_entry_unwatch(actor, link->number);
    }
    crti_map_fini(&link->watched);
    CRTI_LIST_FOREACH_SAFE (item, &c->pending_watches)
        if (PENDING_OF(item)->link == link->number)
            forget(PENDING_OF(item));
}

void crti_control_watches_forget(crti_control_t *c, const crti_actor_entry_t *actor)
{
    for (size_t i = 0; i < actor->watcher_count; i++) {
        crti_control_link_t *link = crti_control_link(c, actor->watchers[i]);

        if (link)
            crti_map_remove(&link->watched, &actor->id);
    }
}

void crti_control_watches_overdue(crti_control_t *c)
{
    while (!crti_list_is_empty(&c->pending_watches)) {
        pending_watch_t *pending =
            PENDING_OF(c->pending_watches.next); /* all have the same timeout */
        crti_msg_actor_state_t notice = {
            .actor = pending->actor,
            .state = CRTI_ACTOR_DEAD,
            .status = CRT_ERR_ACTOR_DIED,
            .text = crti_str("the actor is not known: it ended long ago, or never was"),
        };

        if (pending->deadline_ns > c->now_ns)
            return;
        crti_control_answer(c, pending->link, CRTI_MSG_ACTOR_STATE, pending->request,
                            &notice, false);
        forget(pending);
    }
}

uint64_t crti_control_watches_deadline(const crti_control_t *c)
{
    return crti_list_is_empty(&c->pending_watches)
               ? UINT64_MAX
               : PENDING_OF(c->pending_watches.next)->deadline_ns;
}

void crti_control_watches_free(crti_control_t *c)
{
    while (!crti_list_is_empty(&c->pending_watches))
        forget(PENDING_OF(c->pending_watches.next));
}
