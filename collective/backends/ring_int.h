/* SPDX-License-Identifier: Apache-2.0 */
/* Ring: what its files share, and what two-level uses of it.
 *
 * An algorithm starts receives and sends, waits for what it needs next, and returns when its
 * output is complete or the group has failed. The order of the sum is the same for every
 * element on all members, because each element is summed at one place only.
 */
#ifndef CRTI_COLLECTIVE_RING_INT_H
#define CRTI_COLLECTIVE_RING_INT_H

#include "collective/backends/exchange.h"

#define CRTI_RING_MESH                                                                   \
    32 /* up to so many members all are connected when the team opens */

/* What the links of a team cost, in nanoseconds. The same on all members. */
typedef struct crti_ring_costs {
    double hop_ns;     /* from a send to what it makes the receiver do */
    double message_ns; /* of the processor, to send and receive one more message */
    double byte_ns;    /* of a link, while each member sends on one */
    /* A message and a byte while no others are on their way: less where members share a
     * processor. */
    double lone_step_ns, lone_byte_ns;
} crti_ring_costs_t;

typedef struct crti_ring {
    crt_group_t *group;
    crti_exchange_t *exchange;
    int size, rank; /* of the team */
    int *ranks;     /* of the group */
    uint64_t team;
    crti_ring_costs_t costs;
    void *scratch[2];
    size_t scratch_size[2];
} crti_ring_t;

/* One operation, in elements and bytes. */
typedef struct crti_ring_job {
    crti_ring_t *ring;
    crt_collective_kind_t kind;
    crt_dtype_t dtype;
    crt_reduction_t reduction;
    size_t element, count; /* bytes of an element; count as in crti_step_t */
    int divisor;           /* of CRT_REDUCE_AVERAGE */
    int root;              /* of the team */
    const unsigned char *input;
    unsigned char *output;
} crti_ring_job_t;

/* Runs `step` as part `phase` of the operation of its members, `from` (its
 * peer a rank of the group). Averages divide by `divisor`. */
crt_status_t crti_ring_run(crti_ring_t *ring, const crti_step_t *step,
                           const crti_exchange_call_t *from, int divisor);
/* The operation of a step whose peer is a rank of `ranks`; nothing is compared. */
crti_exchange_call_t crti_ring_call(const crti_step_t *step, const int *ranks);

/* Room for temporary values (0 and 1 are different), aligned to 64 bytes; kept until the ring is
 * closed. NULL: no memory, and the group has failed. */
void *crti_ring_scratch(crti_ring_t *ring, int which, size_t size);

/* Members of the team, by their index. */
void crti_ring_receive(crti_ring_t *ring, crti_incoming_t *incoming, int from,
                       uint64_t round, void *data, size_t size);
void crti_ring_send(crti_ring_t *ring, int to, uint64_t round, const void *data,
                    size_t size, unsigned *unsent);

/* Member `i` steps further on, or back. */
static inline int crti_ring_member(const crti_ring_t *ring, int i)
{
    return ((ring->rank + i) % ring->size + ring->size) % ring->size;
}

/* Part `i` of `n` of `count` elements: sizes differ by one at most. */
static inline size_t crti_ring_part(size_t count, int n, int i)
{
    size_t base = count / (size_t)n, more = count % (size_t)n;

    return base * (size_t)i + ((size_t)i < more ? (size_t)i : more);
}

/* Sets `costs`. Collective: each member of the team measures its links, and all agree. */
crt_status_t crti_ring_measure(crti_ring_t *ring, uint64_t deadline_ns);

/* Allgather by Bruck; allgather and alltoall from each to each. */
crt_status_t crti_ring_bruck(const crti_ring_job_t *job);
crt_status_t crti_ring_exchange_all(const crti_ring_job_t *job);

#endif
