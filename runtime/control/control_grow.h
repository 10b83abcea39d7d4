/* SPDX-License-Identifier: Apache-2.0 */
/* What is not infeasible, as nodes may come that have it. */
#ifndef CRTI_CONTROL_CONTROL_GROW_H
#define CRTI_CONTROL_CONTROL_GROW_H

#include "runtime/control/autoscale/demand.h"
#include "runtime/control/control_state.h"

/* Whether nodes that may still come would have room for all of it, were those that live idle. */
bool crti_control_could_grow(const crti_control_t *c, const crti_demand_t *demand);

#endif
