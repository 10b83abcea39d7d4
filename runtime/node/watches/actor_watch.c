/* SPDX-License-Identifier: Apache-2.0 */
/* Watched actors: which processes of this node want to hear of which actor's life.
 *
 * Where it sits
 *     local.c (ACTOR_WATCH) -> [ node/watches/actor_watch.c ] -> head; head (ACTOR_STATE) ->
 *     watchers
 * Rules
 *     The head knows nodes, not processes: it is asked on every watch (the answer is the state
 *     now) and told when the last process of this node stops watching. After a reconnect every
 *     watched actor is asked for again, so that no change is missed. A dead actor has no more to
 *     tell: its watch ends with that word.
 */
#include <string.h>

#include "runtime/node/links/head.h"
#include "runtime/node/links/local.h"
#include "runtime/node/process/process.h"
#include "runtime/node/watches/watches_int.h"

typedef struct actor_watch {
    crti_id_t actor;
    crti_buffer_t watchers; /* crti_id_t of processes */
} actor_watch_t;

crt_status_t crti_actor_watch(crti_process_t *watcher, crti_id_t actor)
{
    crti_node_t *node = watcher->node;
    crti_id_t process = watcher->id;
    actor_watch_t *w = crti_map_get(&node->watches->actors, &actor);
    crt_status_t status;

    if (w == NULL) {
        w = calloc(1, sizeof(*w));
        if (w == NULL)
            return crt_raise(CRT_ERR_NO_MEMORY, "watch of an actor");
        w->actor = actor;
        status = crti_map_put(&node->watches->actors, &actor, w);
        if (status != CRT_OK) {
            free(w);
            return status;
        }
    }
    for (size_t i = 0; i < w->watchers.size; i += sizeof(process))
        if (memcmp(w->watchers.data + i, &process, sizeof(process)) == 0)
            return CRT_OK;
    return crti_buffer_append(&w->watchers, &process, sizeof(process));
}

static void forget(crti_node_t *node, actor_watch_t *w)
{
    crti_map_remove(&node->watches->actors, &w->actor);
    crti_buffer_fini(&w->watchers);
    free(w);
}

static void drop(crti_node_t *node, actor_watch_t *w)
{
    crti_msg_actor_unwatch_t unwatch = {.actor = w->actor};

    crti_head_send(node, CRTI_MSG_ACTOR_UNWATCH, 0, &unwatch);
    forget(node, w);
}

/* True when nobody is left. */
static bool take_out(actor_watch_t *w, crti_id_t process)
{
    for (size_t i = 0; i < w->watchers.size; i += sizeof(process))
        if (memcmp(w->watchers.data + i, &process, sizeof(process)) == 0) {
            memmove(w->watchers.data + i, w->watchers.data + i + sizeof(process),
                    w->watchers.size - i - sizeof(process));
            w->watchers.size -= sizeof(process);
            break;
        }
    return w->watchers.size == 0;
}

void crti_actor_unwatch(crti_node_t *node, crti_id_t process, crti_id_t actor)
{
    actor_watch_t *w = crti_map_get(&node->watches->actors, &actor);

    if (w && take_out(w, process))
        drop(node, w);
}

void crti_actor_watch_drop(crti_node_t *node, crti_id_t process)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t over = {0};

    CRTI_MAP_FOREACH (actor_watch_t, w, &node->watches->actors)
        if (take_out(w, process))
            crti_buffer_append(&over, &w, sizeof(w));
    for (size_t at = 0; at < over.size; at += sizeof(actor_watch_t *)) {
        actor_watch_t *w;

        memcpy(&w, over.data + at, sizeof(w));
        drop(node, w); /* the map changes */
    }
}

static void on_state_again(crti_node_t *node, crti_id_t id, uint64_t number,
                           const crti_message_t *answer)
{
    crti_msg_actor_state_t dead = {
        .actor = id, .state = CRTI_ACTOR_DEAD, .status = CRT_ERR_ACTOR_DIED};

    if (answer && answer->kind == CRTI_MSG_ACTOR_STATE) {
        crti_actor_state(node, &answer->actor_state);
    } else if (answer && answer->kind == CRTI_MSG_ERROR) {
        dead.text = answer->error.text; /* the head knows it no more */
        crti_actor_state(node, &dead);
    }
}

void crti_actor_watch_again(crti_node_t *node)
{
    CRTI_MAP_FOREACH (const actor_watch_t, w, &node->watches->actors) {
        crti_msg_actor_watch_t watch = {.actor = w->actor};

        crti_head_ask(node, CRTI_MSG_ACTOR_WATCH, &watch, on_state_again, watch.actor, 0);
    }
}

void crti_actor_state(crti_node_t *node, const crti_msg_actor_state_t *state)
{
    actor_watch_t *w = crti_map_get(&node->watches->actors, &state->actor);

    for (size_t i = 0; w && i < w->watchers.size; i += sizeof(crti_id_t)) {
        crti_id_t process;

        memcpy(&process, w->watchers.data + i, sizeof(process));
        crti_local_send(crti_process_get(node, process), CRTI_MSG_ACTOR_STATE, 0, state);
    }
    if (w && state->state == CRTI_ACTOR_DEAD)
        forget(node, w);
}

void crti_actor_watch_free(crti_node_t *node)
{
    CRTI_MAP_FOREACH (actor_watch_t, w, &node->watches->actors) {
        crti_buffer_fini(&w->watchers);
        free(w);
    }
    crti_map_fini(&node->watches->actors);
}
