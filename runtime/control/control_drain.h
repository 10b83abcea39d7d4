/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that are drained. */
#ifndef CRTI_CONTROL_CONTROL_DRAIN_H
#define CRTI_CONTROL_CONTROL_DRAIN_H

#include "runtime/control/control_state.h"

/* control_drain.c: NODE_DRAIN, and what a node that registers says of itself. */
void crti_control_drain(crti_control_t *c, uint64_t link, uint64_t request,
                        const crti_msg_node_drain_t *m);
/* The node takes no new work, and ends when it is done, in `ms` at the latest. */
void crti_control_drain_node(crti_control_t *c, crti_node_entry_t *node, uint64_t ms);
void crti_control_drain_told(crti_control_t *c, crti_node_entry_t *node,
                             uint64_t told_ms);

#endif
