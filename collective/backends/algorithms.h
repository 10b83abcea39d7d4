/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithms: the ways in which members that links connect carry out an operation.
 *
 * Where it sits
 *     ring.c -> [ algorithms ] -> ring_flow.c, ring_direct.c, ring_tree.c: the algorithms
 *     group_open.c: CRT_COLLECTIVE_ALGORITHM
 * A new algorithm
 *     Its file defines crti_algorithm_OPERATION_NAME; the list below names it. The tests run
 *     every algorithm of the list by force.
 * What an algorithm keeps
 *     Sums: those of an element begin with the value of the member behind the one whose part it
 *     lies in (reduce: behind the root) and go round once. So all algorithms give the same bits,
 *     and a result does not depend on what links cost.
 *     Calls that differ, and members that do not come: a member that has its result has heard of
 *     every other one; its first message goes to the next member and waits for nobody. Else
 *     `has_check`.
 */
#ifndef CRTI_COLLECTIVE_ALGORITHMS_H
#define CRTI_COLLECTIVE_ALGORITHMS_H

#include "collective/backends/ring_int.h"

#define CRTI_ALGORITHMS_VARIABLE "CRT_COLLECTIVE_ALGORITHM"

typedef struct crti_algorithm {
    crt_collective_kind_t kind; /* the operation */
    const char *name, *description;
    bool has_check; /* members compare their calls beside it (exchange.h) */
    /* Why it can't do this one; NULL: it can. */
    const char *(*unfit)(const crti_ring_job_t *job);
    double (*cost)(const crti_ring_job_t *job); /* estimated nanoseconds */
    crt_status_t (*run)(const crti_ring_job_t *job);
} crti_algorithm_t;

/* Operations with their algorithms. Of two that cost the same the first is taken. */
#define CRTI_ALGORITHMS(X)                                                               \
    X(allreduce_bruck)                                                                   \
    X(allreduce_gather)                                                                  \
    X(allreduce_tree)                                                                    \
    X(allreduce_ring)                                                                    \
    X(allreduce_direct)                                                                  \
    X(reduce_collect)                                                                    \
    X(reduce_direct)                                                                     \
    X(reduce_chain)                                                                      \
    X(broadcast_tree)                                                                    \
    X(broadcast_chain)                                                                   \
    X(allgather_bruck)                                                                   \
    X(allgather_direct)                                                                  \
    X(allgather_ring)                                                                    \
    X(reducescatter_direct)                                                              \
    X(reducescatter_ring)                                                                \
    X(alltoall_direct)                                                                   \
    X(barrier_dissemination)

#define CRTI_ALGORITHM_DECLARED(name) extern const crti_algorithm_t crti_algorithm_##name;
CRTI_ALGORITHMS(CRTI_ALGORITHM_DECLARED)

/* All of them, NULL behind the last. */
extern const crti_algorithm_t *const crti_algorithms[];

/* The one that the group was told to use, else the one of the least cost. CRT_ERR_UNSUPPORTED:
 * the group was told to use one that can't do this. The same on all members. */
crt_status_t crti_algorithm_choose(const crti_ring_job_t *job,
                                   const crti_algorithm_t **algorithm_out);

/* "allreduce:tree,broadcast:chain": into `forced`, by kind; "" forces nothing. CRT_ERR_INVALID. */
crt_status_t crti_algorithms_parse(const char *text,
                                   const crti_algorithm_t *forced[CRTI_GROUP_KINDS]);

/* ---------------------------------------------------------------- what costs are made of */

/* Of bytes that many members send to one at once; of bytes that are copied or summed in memory
 * while no others move. */
#define CRTI_CROWD   1.5
#define CRTI_COPY_NS 0.2

static inline double crti_cost_bytes(const crti_ring_job_t *job)
{
    return (double)(job->count * job->element);
}

/* One message, from its send to what it makes the receiver do. */
static inline double crti_cost_step(const crti_ring_job_t *job)
{
    return job->ring->costs.hop_ns + job->ring->costs.message_ns;
}

/* `bytes` on one link. */
static inline double crti_cost_link(const crti_ring_job_t *job, double bytes)
{
    return bytes * job->ring->costs.byte_ns;
}

/* `bytes` from each of all others to one member, or to each, at once. */
static inline double crti_cost_crowd(const crti_ring_job_t *job, double bytes)
{
    int others = job->ring->size - 1;

    return (others > 1 ? CRTI_CROWD : 1) * others * crti_cost_link(job, bytes);
}

/* The least number of steps in which all hear of all. */
static inline double crti_cost_rounds(const crti_ring_job_t *job)
{
    int count = 0;

    while (1 << count < job->ring->size)
        count++;
    return count;
}

/* ---------------------------------------------------------------- what can't be done */

/* The operation is divided into a part for each member, none of which may be empty: whoever has
 * no part would not be heard of. */
const char *crti_unfit_in_parts(const crti_ring_job_t *job);
/* Partial sums travel: 16-bit numbers would be rounded at each member. */
const char *crti_unfit_partial_sums(const crti_ring_job_t *job);
const char *crti_unfit_partial_sums_in_parts(const crti_ring_job_t *job);

#endif
