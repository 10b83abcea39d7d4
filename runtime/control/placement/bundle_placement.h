/* SPDX-License-Identifier: Apache-2.0 */
/* Bundle placement: on which nodes the bundles of a placement group go, all of them or none. Pure.
 *
 * Where it sits
 *     control/control_placement_group.c -> [ control/placement/bundle_placement.c ] ->
 *     placement.h's nodes
 * Policy
 *     PACK          on few nodes: where the group already is, else on the emptiest
 *     SPREAD        on many: where fewest of the group are, then on the emptiest
 *     STRICT_PACK   on one node, of those that fit the fullest
 *     STRICT_SPREAD each on another node
 *     The largest bundles choose first, and choose again when a later one finds no room: a
 *     depth-first search of at most CRTI_BUNDLE_STEPS nodes. Nodes that are alike are tried once.
 */
#ifndef CRTI_CONTROL_BUNDLE_PLACEMENT_H
#define CRTI_CONTROL_BUNDLE_PLACEMENT_H

#include "runtime/control/placement/placement.h"

#define CRTI_PLACEMENT_PACK          0
#define CRTI_PLACEMENT_SPREAD        1
#define CRTI_PLACEMENT_STRICT_PACK   2
#define CRTI_PLACEMENT_STRICT_SPREAD 3
#define CRTI_PLACEMENT_STRATEGIES    4

#define CRTI_BUNDLE_STEPS 4000

typedef struct crti_bundle_choice {
    const crti_resources_t *need;
    const crti_scheduling_t *how; /* the labels that its node must have */
    bool is_fixed;                /* it is on `node` and stays there */
    int node;                     /* index; -1: it has none */
} crti_bundle_choice_t;

typedef enum crti_bundle_search {
    CRTI_BUNDLES_FOUND,      /* every bundle has a node */
    CRTI_BUNDLES_IMPOSSIBLE, /* there is no way */
    CRTI_BUNDLES_UNKNOWN     /* none was found in so many steps, or without memory */
} crti_bundle_search_t;

/* With what is available now; `were_idle`: with all that the nodes have. A fixed bundle's needs are
 * not taken out of what is available, and are out of all that its node has. */
crti_bundle_search_t crti_bundle_placement(const crti_placement_node_t *nodes,
                                           size_t node_count,
                                           crti_bundle_choice_t *bundles,
                                           size_t bundle_count, uint64_t strategy,
                                           bool were_idle);

/* Why there is no way: "its 3 bundles need 3 CPU, the cluster has 2". Returns `text`. */
const char *crti_bundle_placement_reason(const crti_placement_index_t *index,
                                         const crti_bundle_choice_t *bundles,
                                         size_t bundle_count, uint64_t strategy,
                                         const crti_resource_names_t *names, char *text,
                                         size_t size);

const char *crti_placement_strategy_name(uint64_t strategy);

#endif
