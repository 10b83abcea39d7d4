/* SPDX-License-Identifier: Apache-2.0 */
/* Job shares: how much of the cluster's CPUs each job has used, by its weight. Pure; a part of the
 * lease table.
 *
 * Where it sits
 *     lease_table.c (leases wait, begin and end) -> [ node/leases/job_shares.c ] -> fair_share.c
 *     (who is next) dispatch/head_link.c: what is used here, with heartbeats ->
 *     control/tables/job_levels.c -> what is used elsewhere
 * What is counted
 *     CPUs times time, divided by the weight of the job (virtual time, as of Linux' fair
 *     scheduler): jobs that have used equally much so have got their shares. What a job holds
 *     counts one turn in advance. A job that comes, or comes back, begins a turn of one CPU before
 *     the one that has used least: so it is next, and nobody saves up more than that while others
 *     run.
 * The cluster
 *     The head adds up what a job has used on all nodes (its level) and tells a node that of the
 *     jobs that are there. From then on a node adds what its leases use, and what those elsewhere
 *     do if nothing changes. Without the head it counts its own only.
 * Invariants
 *     An account is there while leases of its job wait or run here, and REMEMBER_NS longer.
 */
#ifndef CRTI_NODE_JOB_SHARES_H
#define CRTI_NODE_JOB_SHARES_H

#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"
#include "runtime/base/map.h"

#define CRTI_JOB_WEIGHT_MAX 1000
#define CRTI_JOB_SHARE_ONE  10000 /* all CPUs of a node */

/* How a job takes part. */
typedef struct crti_job_quota {
    uint64_t weight;    /* 1 .. CRTI_JOB_WEIGHT_MAX; else it is 1 */
    uint64_t max_share; /* of the CPUs of a node, in 1/10000; 0: all */
} crti_job_quota_t;

typedef struct crti_job_shares {
    crti_map_t by_job;
    double
        ahead; /* what the job that is most ahead has used, of those that hold some of any node */
    uint64_t jobs; /* that take part in the cluster, as far as the head said */
} crti_job_shares_t;

/* What the head is told of a job on this node. */
typedef struct crti_job_use {
    crti_id_t job;
    uint64_t weight;
    double spent;  /* CPUs times ns, here, since the head was told first */
    double level;  /* what it has used, by its weight, as this node knows it */
    int64_t held;  /* now */
    bool is_alone; /* as far as is known here it is on no other node */
    bool is_here;  /* false: it has left */
} crti_job_use_t;

/* What the head says of it: its level when `spent` was what it had used here, and what it holds
 * elsewhere. */
typedef struct crti_job_level {
    crti_id_t job;
    double level, spent;
    int64_t elsewhere;
} crti_job_level_t;

void crti_job_shares_init(crti_job_shares_t *shares);
void crti_job_shares_fini(crti_job_shares_t *shares);

/* A lease of the job begins to wait or to run here; each is ended by _leave. Without memory the job
 * is not counted, and comes first. */
void crti_job_shares_join(crti_job_shares_t *shares, crti_id_t job,
                          const crti_job_quota_t *quota, uint64_t now_ns);
void crti_job_shares_leave(crti_job_shares_t *shares, crti_id_t job, uint64_t now_ns);
/* It holds so much more, or less, from now on. */
void crti_job_shares_hold(crti_job_shares_t *shares, crti_id_t job, int64_t change,
                          uint64_t now_ns);

/* The jobs of which the head is to be told, one after the other (`*cursor` 0 at first): what has
 * changed or, with `all`, what is here. False: no more. What is walked counts as told. */
bool crti_job_shares_tell(crti_job_shares_t *shares, size_t *cursor, bool all,
                          uint64_t now_ns, crti_job_use_t *use_out);
void crti_job_shares_told(crti_job_shares_t *shares, const crti_job_level_t *level,
                          uint64_t now_ns);
/* There is no head, or another one: what it said does not count any more, and it is to be told
 * all. */
void crti_job_shares_reset(crti_job_shares_t *shares, uint64_t now_ns);

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
