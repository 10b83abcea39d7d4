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
#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/node/dispatch/dispatch.h"
#include "runtime/node/leases/fair_share.h"
#include "runtime/node/leases/job_shares.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/lifecycle/drain.h"
#include "runtime/node/lifecycle/lifecycle.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/node.h"
#include "runtime/node/objects/pull_table.h"
#include "runtime/node/objects/spill.h"
#include "runtime/node/objects/transfer.h"
#include "runtime/node/process/context.h"
#include "runtime/node/watches/watch.h"

#define ORPHANS_NS (1 * CRTI_S)

/* What jobs have used elsewhere grows old while requests wait and nothing changes: it is asked for
 * each turn, less often in large clusters. */
static void ask_for_levels(crti_node_t *node, uint64_t now)
{
    const crti_lease_table_t *table = node->lease_table;
    uint64_t every = CRTI_LIMIT(share_turn) + crti_lease_table_nodes(table) * CRTI_MS;

    if (crti_lease_table_waiting(table) && crti_lease_table_shares(table)->jobs > 1 &&
        now - crti_registration_beat_ns(node) >= every)
        crti_head_changed(node);
}

static void on_tick(void *user)
{
    crti_node_t *node = user;
    uint64_t now = crti_node_now(node), next, due;

    if (now - node->orphans_ns >= ORPHANS_NS) {
        node->orphans_ns = now;
        crti_node_reap_orphans(node);
        crti_peer_look_for_silence(node);
    }
    next = crti_owner_tick(node, now);
    crti_watch_tick(node, now);
    due = crti_lease_table_tick(node->lease_table, now);
    next = due < next ? due : next;
    due = crti_fair_share_tick(node->lease_table, now);
    ask_for_levels(node, now);
    next = due < next ? due : next;
    due = crti_worker_table_tick(node->workers, now);
    next = due < next ? due : next;
    due = crti_drain_tick(node, now);
    next = due < next ? due : next;
    due = crti_pull_table_tick(node->pull_table, now);
    next = due < next ? due : next;
    due = crti_spill_tick(node, now);
    next = due < next ? due : next;
    due = node->orphans_ns + ORPHANS_NS;
    next = due < next ? due : next;
    crti_loop_start(node->loop, &node->tick, next);
    crti_lease_act(node);
    crti_pull_act(node);
}

void crti_node_start_ticks(crti_node_t *node)
{
    node->tick = (crti_timer_t){.on_expired = on_tick, .user = node};
}
