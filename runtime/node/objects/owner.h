/* SPDX-License-Identifier: Apache-2.0 */
/* Owners: no object stays in this node's store after the process that owns it.
 *
 * Where it sits
 *     death.c (NODE_DIED), the tick -> [ node/objects/owner.c ] -> store (drop), watch.c
 * Deaths
 *     Each is told to all nodes, and the objects of those who died go in one walk over the store: thousands
 *     of workers end together when a job does, and thousands of objects may be here.
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
#ifndef CRTI_NODE_OWNER_H
#define CRTI_NODE_OWNER_H

#include "runtime/node/types.h"

typedef struct crti_owners {
    crti_buffer_t dead_nodes; /* crti_id_t, oldest first */
    crti_map_t died;          /* ids: their objects go with the next tick */
    uint64_t died_ns;         /* when such went last */
    uint64_t sweep_ns;        /* when owners of objects were looked at */
    uint64_t sweep;           /* counts that */
} crti_owners_t;

void crti_owner_init(crti_node_t *node);
/* Its objects go with a tick, soon. */
void crti_owner_died(crti_node_t *node, crti_id_t owner);
/* When the next tick is due; the sweep comes with the ticks that there are. */
uint64_t crti_owner_tick(crti_node_t *node, uint64_t now_ns);
void crti_owner_node_died(crti_node_t *node, crti_id_t dead);
void crti_owner_node_lives(crti_node_t *node, crti_id_t id);
void crti_owner_free(crti_node_t *node);

#endif
