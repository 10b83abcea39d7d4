/* SPDX-License-Identifier: Apache-2.0 */
/* GPU table: which GPUs of this node are given out, and how much of each. Pure.
 *
 * Where it sits
 *     lease_table.c -> [ node/leases/gpu_table.c ] -> the GPUs of a lease or an actor
 * Policy
 *     One GPU or more are whole ones that nobody else has. A fraction is a part of one GPU, of the
 *     fullest one that has room, so that others stay whole.
 * Invariants
 *     A GPU's shares add up to one at most.
 */
#ifndef CRTI_NODE_GPU_TABLE_H
#define CRTI_NODE_GPU_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#define CRTI_GPUS_MAX 64

typedef struct crti_gpu_table {
    unsigned count;
    int64_t room[CRTI_GPUS_MAX]; /* in 1/10000 */
} crti_gpu_table_t;

/* What one lease or actor has. */
typedef struct crti_gpu_share {
    uint64_t gpus; /* bit i: GPU i; 0: none */
    int64_t each;  /* so much of each */
} crti_gpu_share_t;

void crti_gpu_table_init(crti_gpu_table_t *table, unsigned count);

/* `amount` in 1/10000 of a GPU. More than one are whole: crti_resources_check sees to that. */
bool crti_gpu_table_fits(const crti_gpu_table_t *table, int64_t amount);
/* False: there is no room, and `*share_out` is none. An amount of 0 always fits. */
bool crti_gpu_table_take(crti_gpu_table_t *table, int64_t amount,
                         crti_gpu_share_t *share_out);
/* `*share` is none afterwards. */
void crti_gpu_table_give(crti_gpu_table_t *table, crti_gpu_share_t *share);

#endif
