/* SPDX-License-Identifier: Apache-2.0 */
/* Fair share: a job that keeps tasks queued gives workers up, between tasks, when another one
 * waits.
 *
 * Where it sits
 *     tick.c, lease_table.c (who is served next) -> [ leases/fair_share.c ] -> lease_table.h
 *     (LEASE_YIELD to the owner)
 * Policy
 *     Weighted fair shares of CPUs, in turns: when a request has waited for share_turn, a
 *     lease of the job that has used most for its weight, and more than the waiting job has, ends
 *     its turn if that has lasted as long. One lease for each job that waits is on its way back at
 *     a time. What runs is not interrupted: the owner gives the worker back when its task has
 *     ended. What becomes free goes to the job that has used least of those that wait. A job that
 *     is at its cap gets no more here, and nobody yields to it. Within a job nobody yields: its
 *     tasks may wait for each other. Whoever holds a lease while another process waits for what it
 *     has hears so at once, and keeps the worker for a moment only when it has nothing to run. A
 *     job that is behind the one that is most ahead in the cluster seeks turns on other nodes, too:
 *     so many requests as would bring it level go to full nodes, one to each, and wait there, like
 *     those of that node. One that finds only its own job there comes back at once, one that nobody
 *     yields to after CRTI_FAIR_AWAY_NS or CRTI_FAIR_YIELD_NS; then the next node is asked. Leases
 *     whose worker waits in a get, and the resources of actors, are nobody's turn.
 * Threads
 *     None; pure.
 */
#ifndef CRTI_NODE_FAIR_SHARE_H
#define CRTI_NODE_FAIR_SHARE_H

#include "runtime/base/limit.h"
#include "runtime/node/leases/lease_table.h"

/* That a request waits for a turn on another node; for one that is over, and whose task runs on;
 * and until a node that gave one back is asked again. */
#define CRTI_FAIR_AWAY_NS  (4 * CRTI_LIMIT(share_turn))
#define CRTI_FAIR_YIELD_NS (10 * CRTI_LIMIT(share_turn))
#define CRTI_FAIR_AGAIN_NS (2 * CRTI_LIMIT(share_turn))

/* Looked at at a time; requests of others are served by arrival. */
#define CRTI_FAIR_JOBS 64

/* The jobs that wait, and what they have used (job_shares.h). */
typedef struct crti_fair_shares {
    crti_id_t job[CRTI_FAIR_JOBS];
    double used[CRTI_FAIR_JOBS];
    bool is_done[CRTI_FAIR_JOBS]; /* nothing of it can be served now */
    unsigned count;
    unsigned next; /* index of the job whose turn it is */
} crti_fair_shares_t;

/* False: not more than one job waits. */
bool crti_fair_shares_collect(const crti_lease_table_t *table, crti_fair_shares_t *shares,
                              uint64_t now_ns);
/* The job that has used least and is not done is next. False: all are done. */
bool crti_fair_shares_next(crti_fair_shares_t *shares);
bool crti_fair_shares_is_next(const crti_fair_shares_t *shares, crti_id_t job);
/* A request of the next job was served, or none could be. */
void crti_fair_shares_served(crti_fair_shares_t *shares, const crti_lease_table_t *table,
                             bool is_served);

/* A request waits, or a lease was granted while one does. */
void crti_fair_share_want_back(crti_lease_table_t *table);

/* A request that came from another node to wait for a turn is given back when no lease here is of
 * another job, or none ended in time: true. */
bool crti_fair_share_judge(crti_lease_table_t *table, crti_id_t id, uint64_t now_ns);

/* One that was sent away for a turn comes back: that node is not asked again at once. */
void crti_fair_share_bounced(crti_lease_table_t *table, const crti_lease_t *request,
                             uint64_t now_ns);

/* Time passed, or a request waits. The moment of the next look that is needed, UINT64_MAX for
 * none. */
uint64_t crti_fair_share_tick(crti_lease_table_t *table, uint64_t now_ns);

#endif
