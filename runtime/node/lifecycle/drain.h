/* SPDX-License-Identifier: Apache-2.0 */
/* Drain: this node takes no new work, and ends when what it has is done, or its time is over; and
 * what this node does while another one is drained.
 *
 * Where it sits
 *     head_dispatch.c (NODE_DRAIN), the tick -> [ node/lifecycle/drain.c ] -> lease_table.c (leases
 *     end their turns), lifecycle.c (the end)
 * What it waits for
 *     Leases, actors, drivers, submitted jobs; then for processes of other nodes to have copied
 *     what they own in this node's store: they free it here then (core/refs/rescue.c). When nothing
 *     of that goes for STALL_NS it ends nevertheless.
 */
#ifndef CRTI_NODE_DRAIN_H
#define CRTI_NODE_DRAIN_H

#include "runtime/base/buffer.h"
#include "runtime/node/types.h"

/* From the head. */
void crti_drain_begin(crti_node_t *node, uint64_t left_ms);
/* Milliseconds that are left, at least 1; 0: it is not drained. */
uint64_t crti_drain_left(const crti_node_t *node);
uint64_t crti_drain_tick(crti_node_t *node, uint64_t now_ns);
/* Whether something runs that a drain would wait for. */
bool crti_drain_is_busy(crti_node_t *node);

/* Another node: processes of this one hear so, those that attach later too. */
void crti_drain_other(crti_node_t *node, crti_id_t other, bool is_drained);
void crti_drain_tell(crti_process_t *process);
void crti_drain_fini(crti_node_t *node);

#endif
