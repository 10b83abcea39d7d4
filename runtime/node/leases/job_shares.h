/* SPDX-License-Identifier: Apache-2.0 */
/* Job shares: how much of this node's CPUs each job has used, by its weight. Pure; a part of the lease table.
 *
 * Where it sits
 *     lease_table.c (leases wait, begin and end) -> [ node/leases/job_shares.c ] -> fair_share.c (who is next)
 * What is counted
 *     CPUs times time, divided by the weight of the job (virtual time, as of Linux' fair scheduler): jobs that have used
 *     equally much so have got their shares. What a job holds counts one turn in advance. A job that comes, or
 *     comes back, begins a turn of one CPU before the one that has used least: so it is next, and nobody saves up more
 *     than that while others run.
 * Invariants
 *     An account is there while leases of its job wait or run here, and REMEMBER_NS longer.
 */
#ifndef CRTI_NODE_JOB_SHARES_H
#define CRTI_NODE_JOB_SHARES_H

#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"
#include "runtime/base/map.h"

#define CRTI_FAIR_TURN_NS UINT64_C(100000000)

#define CRTI_JOB_WEIGHT_MAX 1000
#define CRTI_JOB_SHARE_ONE  10000 /* all CPUs of a node */

/* How a job takes part. */
typedef struct crti_job_quota {
    uint64_t weight;    /* 1 .. CRTI_JOB_WEIGHT_MAX; else it is 1 */
    uint64_t max_share; /* of the CPUs of a node, in 1/10000; 0: all */
} crti_job_quota_t;

typedef struct crti_job_shares {
    crti_map_t by_job;
} crti_job_shares_t;

void crti_job_shares_init(crti_job_shares_t *shares);
void crti_job_shares_fini(crti_job_shares_t *shares);

/* A lease of the job begins to wait or to run here; each is ended by _leave. Without memory the job is not
 * counted, and comes first. */
void crti_job_shares_join(crti_job_shares_t *shares, crti_id_t job,
                          const crti_job_quota_t *quota, uint64_t now_ns);
void crti_job_shares_leave(crti_job_shares_t *shares, crti_id_t job, uint64_t now_ns);
/* It holds so much more, or less, from now on. */
void crti_job_shares_hold(crti_job_shares_t *shares, crti_id_t job, int64_t change,
                          uint64_t now_ns);

/* What it has used, with a turn of what it holds. */
double crti_job_shares_used(const crti_job_shares_t *shares, crti_id_t job,
                            uint64_t now_ns);
/* A turn of `amount` for that job. */
double crti_job_shares_turn(const crti_job_shares_t *shares, crti_id_t job,
                            int64_t amount);
/* Whether it may hold `amount` more of the node's `cpus`. One lease it may always hold. */
bool crti_job_shares_allow(const crti_job_shares_t *shares, crti_id_t job, int64_t amount,
                           int64_t cpus);

#endif
