/* SPDX-License-Identifier: Apache-2.0 */
/* Watches. See watch.h. */
#include "runtime/node/watches/watch.h"

#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/node/links/local.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/process/process.h"
#include "runtime/node/watches/watches_int.h"

#define DEAD_MAX 1024
#define AGAIN_NS (10 * CRTI_S)

typedef struct watcher {
    crti_id_t id;
    bool is_node;
} watcher_t;

typedef struct watch {
    crti_msg_watch_t target;
    crti_buffer_t watchers; /* watcher_t */
    uint64_t owner_sweep; /* the last one that this node itself asked in, 0 it does not */
} watch_t;

typedef struct dead {
    crti_id_t process;
    crt_status_t status;
    int64_t pid;
    bool ran_no_call;
    crti_id_t caller;
    uint64_t unbegun;
    char text[480];
} dead_t;

/* ---------------------------------------------------------------- recent deaths */

void crti_dead_add(crti_node_t *node, const crti_msg_peer_died_t *died)
{
    dead_t dead = {.process = died->process,
                   .status = (crt_status_t)died->status,
                   .pid = died->pid,
                   .ran_no_call = died->ran_no_call,
                   .caller = died->caller,
                   .unbegun = died->unbegun};

    crti_text(died->text, dead.text, sizeof(dead.text));
    if (node->watches->dead.size < DEAD_MAX * sizeof(dead)) {
        crti_buffer_append(&node->watches->dead, &dead, sizeof(dead));
        return;
    }
    memcpy(node->watches->dead.data + node->watches->dead_next * sizeof(dead), &dead,
           sizeof(dead));
    node->watches->dead_next = (node->watches->dead_next + 1) % DEAD_MAX;
}

static const dead_t *find_dead(const crti_node_t *node, crti_id_t process)
{
    const dead_t *all = (const dead_t *)(const void *)node->watches->dead.data;

    for (size_t i = node->watches->dead.size / sizeof(dead_t); i-- > 0;)
        if (crti_id_equal(all[i].process, process))
            return &all[i];
    return NULL;
}

bool crti_dead_is(const crti_node_t *node, crti_id_t process)
{
    return find_dead(node, process) != NULL;
}

/* ---------------------------------------------------------------- telling */

static void tell(crti_node_t *node, const watcher_t *w, const crti_msg_peer_died_t *died)
{
    if (crti_id_equal(w->id, node->id))
        return; /* it drops the objects of every process that died */
    if (w->is_node)
        crti_node_send(node, w->id, CRTI_MSG_PEER_DIED, died);
    else
        crti_local_send(crti_process_get(node, w->id), CRTI_MSG_PEER_DIED, 0, died);
}

/* The process is gone already, as far as this node knows. */
static bool is_gone(crti_node_t *node, const crti_msg_watch_t *target,
                    crti_msg_peer_died_t *died)
{
    const dead_t *dead = find_dead(node, target->process);
    const crti_process_t *process = crti_process_get(node, target->process);

    *died = (crti_msg_peer_died_t){.process = target->process,
                                   .incarnation = target->incarnation,
                                   .node = target->node,
                                   .status = CRT_ERR_WORKER_DIED};
    if (dead) {
        died->status = dead->status;
        died->pid = dead->pid;
        died->ran_no_call = dead->ran_no_call;
        died->caller = dead->caller;
        died->unbegun = dead->unbegun;
        died->text = crti_str(dead->text);
        return true;
    }
    if (!crti_id_equal(target->node, node->id))
        return false; /* a node that is unknown here is not gone: peer.c asks the head */
    died->text = crti_str("the process ended some time ago");
    return process == NULL ||
           (target->incarnation && process->incarnation != target->incarnation);
}

/* ---------------------------------------------------------------- watching */

static watch_t *make_watch(crti_node_t *node, const crti_msg_watch_t *target)
{
    watch_t *w = crti_map_get(&node->watches->by_process, &target->process);

    if (w)
        return w;
    w = calloc(1, sizeof(*w));
    if (w == NULL)
        return NULL;
    w->target = *target;
    if (crti_map_put(&node->watches->by_process, &target->process, w) == CRT_OK)
        return w;
    free(w);
    return NULL;
}

/* False: out of memory; the head's word comes nevertheless when a node dies. */
static bool add_watcher(watch_t *w, const watcher_t *watcher)
{
    const watcher_t *all = (const watcher_t *)(const void *)w->watchers.data;

    for (size_t i = 0; i < w->watchers.size / sizeof(*all); i++)
        if (crti_id_equal(all[i].id, watcher->id))
            return true;
    return crti_buffer_append(&w->watchers, watcher, sizeof(*watcher)) == CRT_OK;
}

static void add(crti_node_t *node, const watcher_t *watcher,
                const crti_msg_watch_t *target, bool ask_there)
{
    crti_msg_peer_died_t died;
    bool is_first;
    watch_t *w;

    if (is_gone(node, target, &died)) {
        tell(node, watcher, &died);
        return;
    }
    w = make_watch(node, target);
    if (w == NULL) {
        crti_log(CRTI_LOG_ERROR, "watch", "no memory for a watch");
        return;
    }
    is_first = w->watchers.size == 0;
    add_watcher(w, watcher);
    if (is_first && ask_there && !crti_id_equal(target->node, node->id))
        crti_node_send(node, target->node, CRTI_MSG_WATCH, target);
}

void crti_watch_add(crti_process_t *watcher, const crti_msg_watch_t *watch)
{
    add(watcher->node, &(watcher_t){.id = watcher->id}, watch, true);
}

void crti_watch_note(crti_node_t *node, crti_id_t watcher, const crti_msg_watch_t *watch)
{
    add(node, &(watcher_t){.id = watcher}, watch, false);
}

void crti_watch_add_node(crti_node_t *node, crti_id_t from, const crti_msg_watch_t *watch)
{
    if (crti_id_equal(watch->node,
                      node->id)) /* only its own processes, never in circles */
        add(node, &(watcher_t){.id = from, .is_node = true}, watch, false);
}

static void free_watch(crti_node_t *node, watch_t *w)
{
    crti_map_remove(&node->watches->by_process, &w->target.process);
    crti_buffer_fini(&w->watchers);
    free(w);
}

/* True when nobody is left. */
static bool remove_watcher(watch_t *w, crti_id_t id)
{
    watcher_t *all = (watcher_t *)(void *)w->watchers.data;
    size_t count = w->watchers.size / sizeof(*all), kept = 0;

    for (size_t i = 0; i < count; i++)
        if (!crti_id_equal(all[i].id, id))
            all[kept++] = all[i];
    w->watchers.size = kept * sizeof(*all);
    return kept == 0;
}

/* Nobody here wants to hear of it any more. */
static void end_watch(crti_node_t *node, watch_t *w)
{
    crti_msg_unwatch_t unwatch = {.process = w->target.process};

    if (!crti_id_equal(w->target.node, node->id))
        crti_node_send(node, w->target.node, CRTI_MSG_UNWATCH, &unwatch);
    free_watch(node, w);
}

void crti_watch_remove(crti_process_t *watcher, crti_id_t target)
{
    crti_node_t *node = watcher->node;
    watch_t *w = crti_map_get(&node->watches->by_process, &target);

    if (w && remove_watcher(w, watcher->id))
        end_watch(node, w);
}

void crti_watch_remove_node(crti_node_t *node, crti_id_t from, crti_id_t target)
{
    watch_t *w = crti_map_get(&node->watches->by_process, &target);

    if (w && remove_watcher(w, from))
        free_watch(node, w);
}

void crti_watch_owner(crti_node_t *node, const crti_msg_watch_t *watch, uint64_t sweep)
{
    watch_t *w;

    add(node, &(watcher_t){.id = node->id}, watch, true);
    w = crti_map_get(&node->watches->by_process, &watch->process);
    if (w)
        w->owner_sweep = sweep;
}

void crti_watch_owners_seen(crti_node_t *node, uint64_t sweep)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->watches->by_process, &cursor, NULL, &value)) {
        watch_t *w = value;

        if (w->owner_sweep == 0 || w->owner_sweep == sweep)
            continue;
        w->owner_sweep = 0;
        if (!remove_watcher(w, node->id))
            continue;
        end_watch(node, w);
        cursor = 0;
    }
}

/* Those that a walk found to be over: freed when it is done, as that changes the map. What there is
 * no memory for stays, and tells nobody. */
static void free_found(crti_node_t *node, const crti_buffer_t *found)
{
    for (size_t at = 0; at < found->size; at += sizeof(watch_t *)) {
        watch_t *w;

        memcpy(&w, found->data + at, sizeof(w));
        free_watch(node, w);
    }
}

void crti_watch_drop(crti_node_t *node, crti_id_t watcher)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t over = {0};

    CRTI_MAP_FOREACH (watch_t, w, &node->watches->by_process) {
        if (w->watchers.size && remove_watcher(w, watcher))
            crti_buffer_append(&over, &w, sizeof(w));
    }
    free_found(node, &over);
}

void crti_watch_fire(crti_node_t *node, const crti_msg_peer_died_t *died)
{
    watch_t *w = crti_map_get(&node->watches->by_process, &died->process);
    const watcher_t *all;

    if (w == NULL)
        return;
    crti_map_remove(&node->watches->by_process,
                    &died->process); /* telling may lead to more watches */
    all = (const watcher_t *)(const void *)w->watchers.data;
    for (size_t i = 0; i < w->watchers.size / sizeof(*all); i++)
        tell(node, &all[i], died);
    crti_buffer_fini(&w->watchers);
    free(w);
}

/* Local processes heard NODE_DIED; their watches of that node's processes are over. */
void crti_watch_node_died(crti_node_t *node, crti_id_t target_node)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t over = {0};

    crti_watch_drop(node, target_node);
    CRTI_MAP_FOREACH (watch_t, w, &node->watches->by_process) {
        if (crti_id_equal(w->target.node, target_node))
            crti_buffer_append(&over, &w, sizeof(w));
    }
    free_found(node, &over);
}

void crti_watch_no_node(crti_node_t *node, crti_id_t target_node, const char *text)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->watches->by_process, &cursor, NULL, &value)) {
        const watch_t *w = value;
        crti_msg_peer_died_t died = {.process = w->target.process,
                                     .incarnation = w->target.incarnation,
                                     .node = target_node,
                                     .status = CRT_ERR_NODE_LOST,
                                     .text = crti_str(text)};

        if (!crti_id_equal(w->target.node, target_node))
            continue;
        crti_watch_fire(node, &died);
        cursor = 0;
    }
}

void crti_watch_again(crti_node_t *node, crti_id_t target_node)
{
    CRTI_MAP_FOREACH (const watch_t, w, &node->watches->by_process) {
        if (crti_id_equal(w->target.node, target_node))
            crti_node_send(node, target_node, CRTI_MSG_WATCH, &w->target);
    }
}

void crti_watch_tick(crti_node_t *node, uint64_t now_ns)
{
    if (now_ns - node->watches->again_ns < AGAIN_NS)
        return;
    node->watches->again_ns = now_ns;
    CRTI_MAP_FOREACH (const watch_t, w, &node->watches->by_process) {
        if (!crti_id_equal(w->target.node, node->id))
            crti_node_send(node, w->target.node, CRTI_MSG_WATCH, &w->target);
    }
}

void crti_watch_free(crti_node_t *node)
{
    CRTI_MAP_FOREACH (watch_t, w, &node->watches->by_process) {
        crti_buffer_fini(&w->watchers);
        free(w);
    }
    crti_map_fini(&node->watches->by_process);
    crti_buffer_fini(&node->watches->dead);
}

void crti_watch_init(crti_node_t *node)
{
    crti_map_init(&node->watches->by_process, sizeof(crti_id_t));
    crti_map_init(&node->watches->actors, sizeof(crti_id_t));
}
