/* SPDX-License-Identifier: Apache-2.0 */
/* The autoscaler at work: what it sees, and what comes of its orders. */
#ifndef CRTI_CONTROL_CONTROL_AUTOSCALE_H
#define CRTI_CONTROL_CONTROL_AUTOSCALE_H

#include "runtime/control/autoscale/autoscaler.h"
#include "runtime/control/control_state.h"

/* The rows are loaded, and the cluster has its id: makes it, where one is configured. */
void crti_control_autoscale_begin(crti_control_t *c);
void crti_control_autoscale_end(crti_control_t *c);

/* Something has happened: it looks soon. */
void crti_control_autoscale_touch(crti_control_t *c);
/* Looks when that is due. */
void crti_control_autoscale_tick(crti_control_t *c);

#endif
