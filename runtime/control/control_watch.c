/* SPDX-License-Identifier: Apache-2.0 */
/* Those who want to know of an actor: by its id, with every change from now on, or by its name.
 *
 * A handle can be faster than the creation of its actor: the driver passes it on at once, and the
 * worker that gets it asks through another node. So an id that nobody knows is waited for,
 * EARLY_NS long, before it is said to be dead. See control.h.
 */
#include <stdlib.h>

#include "runtime/control/control_int.h"

#define EARLY_NS (10 * CRTI_S)

typedef struct early {
    crti_list_t in_early;
    crti_id_t actor;
    uint64_t link, request, deadline_ns;
} early_t;

#define EARLY_OF(item) CRTI_CONTAINER(item, early_t, in_early)

static void answer_state(crti_control_t *c, uint64_t link, uint64_t request,
                         const crti_actor_t *actor)
{
    crti_msg_actor_state_t notice = crti_actor_notice(actor);

    crti_control_answer(c, link, CRTI_MSG_ACTOR_STATE, request, &notice, false);
}

static void watch(crti_control_t *c, uint64_t link, uint64_t request, crti_actor_t *actor)
{
    crt_status_t status = crti_actor_watch(actor, link);

    if (status == CRT_OK)
        answer_state(c, link, request, actor);
    else
        crti_control_refuse(c, link, request, status);
}

static void wait_for(crti_control_t *c, uint64_t link, uint64_t request, crti_id_t id)
{
    early_t *early = calloc(1, sizeof(*early));

    if (early == NULL) {
        crt_raise(CRT_ERR_NO_MEMORY, "watcher");
        crti_control_refuse(c, link, request, CRT_ERR_NO_MEMORY);
        return;
    }
    *early = (early_t){.actor = id,
                       .link = link,
                       .request = request,
                       .deadline_ns = c->now_ns + EARLY_NS};
    crti_list_append(&c->early, &early->in_early);
}

void crti_control_actor_watch(crti_control_t *c, uint64_t link, uint64_t request,
                              crti_id_t id)
{
    crti_actor_t *actor = crti_actor_table_get(&c->actors, id);

    if (actor)
        watch(c, link, request, actor);
    else
        wait_for(c, link, request, id);
}

void crti_control_actor_unwatch(crti_control_t *c, uint64_t link, crti_id_t id)
{
    crti_actor_t *actor = crti_actor_table_get(&c->actors, id);

    if (actor)
        crti_actor_unwatch(actor, link);
}

void crti_control_actor_find(crti_control_t *c, uint64_t link, uint64_t request,
                             crti_span_t name)
{
    const crti_actor_t *actor = crti_actor_table_find(&c->actors, name);

    if (actor) {
        answer_state(c, link, request, actor);
        return;
    }
    crt_raise(CRT_ERR_NOT_FOUND, "no actor is named \"%.*s\"", (int)name.size,
              name.size ? (const char *)name.data : "");
    crti_control_refuse(c, link, request, CRT_ERR_NOT_FOUND);
}

/* ---------------------------------------------------------------- early watchers */

static void forget(early_t *early)
{
    crti_list_remove(&early->in_early);
    free(early);
}

void crti_control_watch_early(crti_control_t *c, crti_actor_t *actor)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->early) {
        early_t *early = EARLY_OF(item);

        if (!crti_id_equal(early->actor, actor->id))
            continue;
        watch(c, early->link, early->request, actor);
        forget(early);
    }
}

void crti_control_early_closed(crti_control_t *c, uint64_t link)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->early)
        if (EARLY_OF(item)->link == link)
            forget(EARLY_OF(item));
}

void crti_control_early_overdue(crti_control_t *c)
{
    while (!crti_list_is_empty(&c->early)) {
        early_t *early = EARLY_OF(c->early.next); /* all wait equally long */
        crti_msg_actor_state_t notice = {
            .actor = early->actor,
            .state = CRTI_ACTOR_DEAD,
            .status = CRT_ERR_ACTOR_DIED,
            .text = crti_str("the actor is not known: it ended long ago, or never was"),
        };

        if (early->deadline_ns > c->now_ns)
            return;
        crti_control_answer(c, early->link, CRTI_MSG_ACTOR_STATE, early->request, &notice,
                            false);
        forget(early);
    }
}

uint64_t crti_control_early_deadline(const crti_control_t *c)
{
    return crti_list_is_empty(&c->early) ? UINT64_MAX
                                         : EARLY_OF(c->early.next)->deadline_ns;
}

void crti_control_early_free(crti_control_t *c)
{
    while (!crti_list_is_empty(&c->early))
        forget(EARLY_OF(c->early.next));
}
