/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for room, from the tables and from what nodes tell. */
#ifndef CRTI_CONTROL_CONTROL_DEMAND_H
#define CRTI_CONTROL_CONTROL_DEMAND_H

#include "runtime/control/autoscale/demand.h"
#include "runtime/control/control_state.h"

/* All that waits now, and all that users ask for, into an empty demand, which the caller releases. */
void crti_control_demand(const crti_control_t *c, crti_demand_t *demand);

#endif
