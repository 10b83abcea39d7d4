/* SPDX-License-Identifier: Apache-2.0 */
/* What a cluster that grows could have room for.
 *
 * Where it sits
 *     control_actor.c, control_placement_group.c (no node has that) -> [ control_grow.c ]
 *         -> autoscale/pack.h
 */
#include "runtime/control/control_grow.h"

#include <stdlib.h>

#include "runtime/base/cleanup.h"
#include "runtime/control/autoscale/autoscaler.h"

static size_t may_come(const crti_autoscaler_t *s, size_t type)
{
    size_t running = crti_autoscaler_count_in(s, type, CRTI_INSTANCE_RUNNING);

    return s->types[type].max > running ? s->types[type].max - running : 0;
}

bool crti_control_could_grow(const crti_control_t *c, const crti_demand_t *demand)
{
    const crti_autoscaler_t *s = c->autoscaler;
    CRTI_AUTO(free) crti_pack_outcome_t *outcomes = NULL;
    crti_pack_t pack;
    bool has_room = true;

    if (!s)
        return false;
    outcomes = calloc(demand->count + 1, sizeof(*outcomes));
    crti_pack_init(&pack, s->types, s->config.type_count);
    for (size_t i = 0; i < s->config.type_count; i++)
        pack.more[i] = may_come(s, i);
    CRTI_LIST_FOREACH (item, &c->nodes.living) {
        const crti_node_entry_t *node = CRTI_NODE_OF(item);

        crti_pack_add(&pack, node->id, node->labels ? node->labels : "", -1,
                      &node->resources);
    }
    if (outcomes)
        crti_pack_demand(&pack, demand, ~0u, outcomes);
    for (size_t i = 0; outcomes && i < demand->count; i++)
        has_room &= outcomes[i] == CRTI_PACK_ROOM;
    crti_pack_fini(&pack);
    return has_room;
}
