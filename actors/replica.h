/* SPDX-License-Identifier: Apache-2.0 */
/* Replica: what its files share. See crt_actors.h for what it does.
 *
 *     replica.c   a step: backward pass, average, update
 *     agree.c     after joining or a death: the same weights and state for all
 */
#ifndef CRTI_ACTORS_REPLICA_H
#define CRTI_ACTORS_REPLICA_H

#include <crt_actors.h>

struct crt_replica {
    crt_group_t *group;
    crt_model_t *model;
    crt_optimizer_t *optimizer;
    crt_replica_options_t options;
    crt_buckets_t *buckets;
    uint64_t steps; /* that all members have agreed on */
    bool compares;  /* a comparison has failed, when `settled` operations were settled */
    uint64_t settled;
    double *squares; /* of each array */
    /* Sharded: the floats of the own parts before the step that is not yet agreed on: weights, then
     * each of the optimizer's states. `has_before` while they may be needed. */
    float *before;
    bool has_before;
    /* Sharded: the parts whose state is kept here; none before the first agreement. */
    crt_part_t *owned;
    size_t owned_count;
};

/* For the group as it is now. */
crt_status_t crti_replica_new_buckets(crt_replica_t *r);

/* Collective, in a group that works: makes buckets for it, and everybody the same. */
crt_status_t crti_replica_agree(crt_replica_t *r);

/* Sharded: keeps a copy of the own parts, to be put back. */
crt_status_t crti_replica_keep(crt_replica_t *r);

void crti_buckets_set_at_end(crt_buckets_t *buckets, bool at_end);

#endif
