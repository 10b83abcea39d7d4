/* SPDX-License-Identifier: Apache-2.0 */
/* Ticks: the time of the node daemon's tables, of what owners left, and of silent peers.
 *
 * Where it sits
 *     loop -> [ node/tick.c ] -> lease_table.c, worker_table.c, pull_table.c, owner.c, watch.c,
 *         peer.c
 * Threads
 *     The loop's. tests/sim runs this very file on virtual time.
 * Invariants
 *     One timer, set to the earliest of all deadlines; whoever moves one calls
 *     crti_node_schedule_tick.
 */
#ifndef CRTI_NODE_TICK_H
#define CRTI_NODE_TICK_H

#include "runtime/net/loop.h"

typedef struct crti_node crti_node_t;

typedef struct crti_ticks {
    crti_timer_t timer;
    uint64_t orphans_ns; /* when orphans and silent peers were looked for last */
} crti_ticks_t;

void crti_node_start_ticks(crti_node_t *node);

#endif
