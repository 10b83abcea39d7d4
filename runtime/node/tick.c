/* SPDX-License-Identifier: Apache-2.0 */
/* Ticks. See tick.h. */
#include "runtime/base/clock.h"
#include "runtime/node/node.h"

#define ORPHANS_NS (1 * CRTI_S)

static void on_tick(void *user)
{
    crti_node_t *node = user;
    uint64_t now = crti_node_now(node), next, due;

    if (now - node->ticks.orphans_ns >= ORPHANS_NS) {
        node->ticks.orphans_ns = now;
        crti_node_reap_orphans(node);
        crti_peer_look_for_silence(node);
    }
    next = crti_owner_tick(node, now);
    crti_watch_tick(node, now);
    due = crti_lease_table_tick(node->leases.table, now);
    next = due < next ? due : next;
    due = crti_worker_table_tick(node->workers, now);
    next = due < next ? due : next;
    due = crti_pull_table_tick(node->pulls.table, now);
    next = due < next ? due : next;
    due = node->ticks.orphans_ns + ORPHANS_NS;
    next = due < next ? due : next;
    crti_loop_start(node->loop, &node->ticks.timer, next);
    crti_lease_act(node);
    crti_pull_act(node);
}

void crti_node_start_ticks(crti_node_t *node)
{
    node->ticks.timer = (crti_timer_t){.on_expired = on_tick, .user = node};
}
