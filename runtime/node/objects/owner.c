/* SPDX-License-Identifier: Apache-2.0 */
/* Owners: no object stays in this node's store after the process that owns it.
 *
 * Where it sits
 *     death.c (NODE_DIED), the tick -> [ node/objects/owner.c ] -> store (drop), watch.c
 * Deaths
 *     Each is told to all nodes, and the objects of those who died go in one walk over the store:
 *     thousands of workers end together when a job does, and thousands of objects may be here.
 * Why
 *     That misses what is sealed
 *     after the word came, by a worker that did not hear it yet; processes of a node that died,
 *     whose deaths nobody tells one by one; and words that were lost with a link. So every
 *     SWEEP_NS the node looks who owns its objects. An owner's id names its node (base/id.h): one
 *     of this node must be a process of ours, one of another living node is watched there, and
 *     the watch's answer drops the objects.
 * Cost
 *     A walk over the objects, as each heartbeat has; nothing when the store is empty.
 */
#include "runtime/node/links/peer.h"
#include "runtime/node/objects/objects_int.h"
#include "runtime/node/process/process.h"
#include "runtime/node/watches/watch.h"

#define SWEEP_NS   (2 * CRTI_S)
#define DIED_NS    (50 * CRTI_MS) /* between two walks for those who died */
#define DEAD_NODES 64             /* remembered, as many as the head shows */

static bool is_of_dead_node(const crti_node_t *node, crti_id_t owner)
{
    const crti_id_t *dead =
        (const crti_id_t *)(const void *)node->owners->dead_nodes.data;

    for (size_t i = 0; i < node->owners->dead_nodes.size / sizeof(*dead); i++)
        if (crti_id_is_of_node(owner, dead[i]))
            return true;
    return false;
}

static bool is_dead(void *user, crti_id_t owner)
{
    crti_node_t *node = user;
    crti_msg_watch_t watch = {.process = owner};

    if (crti_process_get(node, owner))
        return false;
    if (crti_id_is_of_node(owner, node->id) || crti_dead_is(node, owner) ||
        is_of_dead_node(node, owner))
        return true;
    if (crti_peer_of_process(node, owner, &watch.node))
        crti_watch_owner(node, &watch, node->owners->sweep);
    return false; /* of a node that was not heard of yet, or whose answer comes */
}

/* ---------------------------------------------------------------- those who died */

static bool has_died(void *user, crti_id_t owner)
{
    return crti_map_get(&((crti_node_t *)user)->owners->died, &owner) != NULL;
}

void crti_owner_died(crti_node_t *node, crti_id_t owner)
{
    uint64_t now = crti_node_now(node), at = node->owners->died_ns + DIED_NS;

    if (crti_map_put(&node->owners->died, &owner, node) != CRT_OK)
        crti_store_drop_owner(node->store, owner);
    crti_node_schedule_tick(node, at > now ? at : now);
}

/* When those who died meanwhile are due. */
static uint64_t drop_died(crti_node_t *node, uint64_t now_ns)
{
    uint64_t at = node->owners->died_ns + DIED_NS;

    if (node->owners->died.count == 0)
        return UINT64_MAX;
    if (now_ns < at)
        return at;
    node->owners->died_ns = now_ns;
    crti_store_drop_owners(node->store, has_died, node);
    crti_map_fini(&node->owners->died);
    return UINT64_MAX;
}

void crti_owner_free(crti_node_t *node)
{
    crti_buffer_fini(&node->owners->dead_nodes);
    crti_map_fini(&node->owners->died);
}

/* ---------------------------------------------------------------- the sweep */

uint64_t crti_owner_tick(crti_node_t *node, uint64_t now_ns)
{
    uint64_t due = drop_died(node, now_ns);

    if (now_ns - node->owners->sweep_ns < SWEEP_NS)
        return due;
    node->owners->sweep_ns = now_ns;
    node->owners->sweep++;
    crti_store_drop_owners(node->store, is_dead, node);
    crti_watch_owners_seen(node, node->owners->sweep);
    return due;
}

static bool is_of(void *user, crti_id_t owner)
{
    return crti_id_is_of_node(owner, *(const crti_id_t *)user);
}

void crti_owner_node_died(crti_node_t *node, crti_id_t dead)
{
    crti_store_drop_owners(node->store, is_of, &dead);
    if (node->owners->dead_nodes.size == DEAD_NODES * sizeof(dead))
        crti_buffer_consume(&node->owners->dead_nodes, sizeof(dead));
    crti_buffer_append(&node->owners->dead_nodes, &dead, sizeof(dead));
}

/* It is back, with a new incarnation: processes of it may own objects again. */
void crti_owner_node_lives(crti_node_t *node, crti_id_t id)
{
    crti_id_t *dead = (crti_id_t *)(void *)node->owners->dead_nodes.data;
    size_t count = node->owners->dead_nodes.size / sizeof(*dead), kept = 0;

    for (size_t i = 0; i < count; i++)
        if (!crti_id_equal(dead[i], id))
            dead[kept++] = dead[i];
    node->owners->dead_nodes.size = kept * sizeof(*dead);
}

void crti_owner_init(crti_node_t *node)
{
    crti_map_init(&node->owners->died, sizeof(crti_id_t));
}
