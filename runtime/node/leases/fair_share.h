/* SPDX-License-Identifier: Apache-2.0 */
/* Fair share: a job that keeps tasks queued gives workers up, between tasks, when another one waits.
 *
 * Where it sits
 *     tick.c, lease_table.c (who is served next) -> [ leases/fair_share.c ] -> lease_table.h (LEASE_YIELD
 *     to the owner)
 * Policy
 *     Max-min fairness by CPUs, in turns: when a request has waited for CRTI_FAIR_TURN_NS, a lease of the
 *     job that holds most, and more than the waiting job does, ends its turn if that has lasted as
 *     long. One lease for each job that waits is on its way back at a time. What runs is not
 *     interrupted: the owner gives the worker back when its task has ended. What becomes free goes to
 *     the job that holds least of those that wait. Within a job nobody yields: its tasks may wait for each other.
 *     Leases whose worker waits in a get, and the resources of actors, are nobody's turn.
 * Threads
 *     None; pure.
 */
#ifndef CRTI_NODE_FAIR_SHARE_H
#define CRTI_NODE_FAIR_SHARE_H

#include "runtime/node/leases/lease_table.h"

#define CRTI_FAIR_TURN_NS UINT64_C(100000000)

#define CRTI_FAIR_JOBS                                                                   \
    64 /* looked at at a time; requests of others are served by arrival */

/* What the jobs that wait hold here, by CPUs. */
typedef struct crti_fair_shares {
    crti_id_t job[CRTI_FAIR_JOBS];
    int64_t share[CRTI_FAIR_JOBS];
    unsigned count;
    int64_t least;
} crti_fair_shares_t;

/* False: not more than one job waits. */
bool crti_fair_shares_collect(const crti_lease_table_t *table,
                              crti_fair_shares_t *shares);
bool crti_fair_shares_is_least(const crti_fair_shares_t *shares, crti_id_t job);
/* The lease begins. */
void crti_fair_shares_add(crti_fair_shares_t *shares, const crti_lease_t *lease);

/* Time passed, or a request waits. The moment of the next look that is needed, UINT64_MAX for none. */
uint64_t crti_fair_share_tick(crti_lease_table_t *table, uint64_t now_ns);

#endif
