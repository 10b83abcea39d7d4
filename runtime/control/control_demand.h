/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for room, from the tables and from what nodes tell. */
#ifndef CRTI_CONTROL_CONTROL_DEMAND_H
#define CRTI_CONTROL_CONTROL_DEMAND_H

#include "runtime/control/autoscale/demand.h"
#include "runtime/control/control_state.h"

/* One of them. */
void crti_control_demand_actor(crti_demand_t *demand, const crti_actor_entry_t *actor);
void crti_control_demand_group(crti_demand_t *demand,
                               const crti_placement_group_entry_t *group);
void crti_control_demand_job(crti_demand_t *demand, const crti_job_entry_t *job);

/* All that waits now, and all that users ask for, into an empty demand. The caller
 * releases it. */
void crti_control_demand(const crti_control_t *c, crti_demand_t *demand);

#endif
