/* SPDX-License-Identifier: Apache-2.0 */
/* Job levels: how much each job has used on all nodes, by its weight. Pure; a part of the head's
 * tables, kept in memory.
 *
 * Where it sits
 *     HEARTBEAT of a node -> control_node.c -> [ tables/job_levels.c ] -> HEARTBEAT_ACK to that
 *     node
 * Rules
 *     A node tells what has changed, or all jobs that are there while some wait, and hears the
 *     levels of those: so neither message grows with the nodes, nor with jobs that are elsewhere. A
 *     job that is on one node only has the level that this node says: there the rules of
 *     job_shares.h hold, as if there were no head. One that comes from nowhere does not begin far
 *     below all others. The tables of a head that starts are empty: levels come back with the first
 *     word of any node.
 * Invariants
 *     The sum of what a job holds is that of its parts; a part is there while its node says so, and
 *     lives.
 */
#ifndef CRTI_CONTROL_JOB_LEVELS_H
#define CRTI_CONTROL_JOB_LEVELS_H

#include "runtime/base/map.h"
#include "runtime/node/leases/job_shares.h"

typedef struct crti_job_levels {
    crti_map_t jobs;  /* id -> what it has used */
    crti_map_t parts; /* node and job -> what that node said last */
    uint64_t present; /* jobs with a part */
} crti_job_levels_t;

void crti_job_levels_init(crti_job_levels_t *levels);
void crti_job_levels_fini(crti_job_levels_t *levels);

/* A node says what a job uses there. False: there is nothing to answer, as it has left it. */
bool crti_job_levels_note(crti_job_levels_t *levels, crti_id_t node,
                          const crti_job_use_t *use, uint64_t now_ns,
                          crti_job_level_t *level_out);
/* The node is dead, or registers anew: its parts are gone. */
void crti_job_levels_forget(crti_job_levels_t *levels, crti_id_t node, uint64_t now_ns);
/* What the job that is most ahead has used, of those that hold something, with a turn of that. */
double crti_job_levels_ahead(const crti_job_levels_t *levels, uint64_t now_ns);

#endif
