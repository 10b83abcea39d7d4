/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of a group made by hand: each member knows what every one must give. */
#ifndef CRTI_TEST_RING_CHECKS_H
#define CRTI_TEST_RING_CHECKS_H

#include "ring_bed.h"

/* Value of element i at a member, small enough that sums are exact; that sum; memory with
 * elements `from` and on, which the caller frees. */
float bed_value(int rank, size_t i);
float bed_sum(int size, size_t i);
float *bed_values(int rank, size_t count, size_t from);

/* Of float32, without a peer. */
crti_step_t bed_step_of(crt_collective_kind_t kind, size_t count, const void *input,
                        void *output);

/* One operation of `n` elements of its unit, as sums, each. */
void bed_check_allreduce(bed_t *bed, size_t n, bool in_place);
void bed_check_reduce(bed_t *bed, size_t n, int root);
void bed_check_broadcast(bed_t *bed, size_t n, int root);
void bed_check_allgather(bed_t *bed, size_t n, bool in_place);
void bed_check_reducescatter(bed_t *bed, size_t n, bool in_place);
void bed_check_alltoall(bed_t *bed, size_t n);
/* One of these; a barrier, whatever `n` is. */
void bed_check(bed_t *bed, crt_collective_kind_t kind, size_t n, int root, bool in_place);

#endif
