/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: which node gets an actor, and the sentence for what fits nowhere. Pure.
 *
 * Where it sits
 *     control/control_actor.c -> [ control/placement/placement.c ] -> placement_index.h (the nodes)
 * Policy
 *     Pack until half full, then spread: a node that is at most half full with the newcomer
 *     counts as empty; ties go to the preferred node (that of the owner), then to the smallest
 *     id. Actors that need nothing count as one CPU each for this, so that many of them
 *     spread too. SPREAD takes the emptiest node at once. Alternatives of a selector are tried in
 *     order.
 */
#ifndef CRTI_CONTROL_PLACEMENT_H
#define CRTI_CONTROL_PLACEMENT_H

#include "runtime/base/resource_names.h"
#include "runtime/base/scheduling.h"
#include "runtime/control/placement/placement_index.h"

/* The best node, or NULL when none has room now. `how`: which nodes may be taken. */
const crti_placement_node_t *crti_placement_pick(const crti_placement_index_t *index,
                                                 const crti_resources_t *need,
                                                 crti_id_t prefer,
                                                 const crti_scheduling_t *how);

/* Why no node has room: "needs 3 CPU, the cluster has 2". `names`: that any node has ever had.
 * Returns `text`. */
const char *crti_placement_reason(const crti_placement_index_t *index,
                                  const crti_resources_t *need,
                                  const crti_scheduling_t *how,
                                  const crti_resource_names_t *names, char *text,
                                  size_t size);

#endif
