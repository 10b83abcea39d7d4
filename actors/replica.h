/* SPDX-License-Identifier: Apache-2.0 */
/* Replica: what its files share. See crt_actors.h for what it does.
 *
 *     replica.c   a step: backward pass, average, update
 *     agree.c     after joining or a death: the same weights and state for all
 *     resume.c    checkpoints: what a group begins with, and what it leaves
 */
#ifndef CRTI_ACTORS_REPLICA_H
#define CRTI_ACTORS_REPLICA_H

#include <crt_actors.h>

struct crt_replica {
    crt_group_t *group;
    crt_model_t *model;
    crt_model_t
        *there; /* on a GPU, and computes the passes for `model` on the host; or NULL */
    crt_optimizer_t *optimizer;
    int rule_states; /* the first ones, which begin with zero; the others follow the weights */
    crt_replica_options_t options;
    crt_buckets_t *buckets;
    uint64_t steps;   /* that all members have agreed on */
    uint64_t batches; /* that all members have taken in these steps */
    /* Batches before the last one of a step: the sum of their gradients, and their number. */
    float *held;
    int held_count;
    float *host;  /* of a model on a GPU: room for as many floats as it has parameters */
    size_t final; /* float from which on the gradient of the last one has the sum in it */
    bool compares; /* a comparison has failed, when `settled` operations were settled */
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

/* `count` floats of a flat tensor from `first` on, where they lie. */
static inline crt_tensor_t crti_replica_part(const crt_tensor_t *all, size_t first,
                                             size_t count)
{
    crt_tensor_t part = crt_tensor_floats((float *)all->data + first, count);

    part.device = all->device;
    return part;
}

/* From or to a tensor of the model or of its optimizer, which may lie on a GPU. */
crt_status_t crti_replica_read(const crt_replica_t *r, const crt_tensor_t *from,
                               float *host);
crt_status_t crti_replica_write(const crt_replica_t *r, const crt_tensor_t *to,
                                const float *host);

/* Lets the passes be computed by `there`, a model of the same layers on a GPU, which must outlive
 * the replica. The replica's own model is on the host, and so are sums and updates. */
void crti_replica_compute_on(crt_replica_t *r, crt_model_t *there);

/* Weights and statistics to the model that computes, when that is another one. */
crt_status_t crti_replica_send(crt_replica_t *r);

/* For the group as it is now. */
crt_status_t crti_replica_new_buckets(crt_replica_t *r);

/* Collective, in a group that works: makes buckets for it, and everybody the same. */
crt_status_t crti_replica_agree(crt_replica_t *r);

/* Sharded: keeps a copy of the own parts, to be put back. */
crt_status_t crti_replica_keep(crt_replica_t *r);

/* crt_replica_hash of the first `count` weights of a tensor. */
uint64_t crti_replica_hash_floats(const crt_tensor_t *weights, size_t count);

/* Before the first agreement: weights, state and position of a checkpoint. */
crt_status_t crti_replica_resume(crt_replica_t *r, const char *path, const char *network);

/* Collective. Sharded: the whole state of the optimizer comes to rank 0. */
crt_status_t crti_replica_gather_state(crt_replica_t *r);

/* Collective. Running statistics of batch norms, which are those of each member's own batches,
 * become their average. */
crt_status_t crti_replica_average_statistics(crt_replica_t *r);

/* Collective. As crt_replica_compare, but of steps instead of weights: all members learn that the
 * steps are made, without a pass over the weights. */
crt_status_t crti_replica_meet(crt_replica_t *r);

void crti_buckets_set_at_end(crt_buckets_t *buckets, bool at_end);

/* As crt_buckets_new, but the gradient lies in memory of the caller, perhaps on the GPU of a group
 * of the backend "nccl". No bfloat16, no scatter. */
crt_status_t crti_buckets_new_at(crt_group_t *group, const crt_tensor_t *gradients,
                                 const crt_buckets_options_t *options,
                                 crt_buckets_t **buckets_out);

#endif
