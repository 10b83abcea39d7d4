/* SPDX-License-Identifier: Apache-2.0 */
/* From each member to each, at once: two steps instead of 2(n-1), with as many bytes.
 *
 * Allreduce: part b of everybody's values goes to member b, who sums it and sends it to all.
 * All values of an element come together at one member, so that it is rounded once. In pieces, so
 * that the temporary values stay small; member i begins with i + 1, then i + 2, ..., so that nobody
 * is sent to by all at once.
 */
#include <stdlib.h>
#include <string.h>

#include "collective/backends/algorithms.h"

#define ROOM      ((size_t)4 << 20)  /* temporary bytes, in all */
#define PIECE_MIN ((size_t)16 << 10) /* of one member */
#define DEPTH     2                  /* pieces on their way at once */

typedef struct direct {
    const crti_ring_job_t *job;
    size_t piece, pieces;     /* elements of a piece; pieces of the largest part */
    unsigned char *slots;     /* DEPTH times a piece of every member */
    crti_incoming_t *parts;   /* DEPTH times one of every member: to be summed */
    crti_incoming_t *results; /* likewise: sums of others */
    const void **sources;
} direct_t;

typedef struct span {
    size_t at, count; /* elements */
} span_t;

static span_t span_of(const direct_t *d, int part, size_t p)
{
    const crti_ring_job_t *job = d->job;
    size_t from, to;

    if (job->kind == CRT_COLLECTIVE_REDUCESCATTER) {
        from = job->count * (size_t)part;
        to = from + job->count;
    } else {
        from = crti_ring_part(job->count, job->ring->size, part);
        to = crti_ring_part(job->count, job->ring->size, part + 1);
    }
    from = from + p * d->piece < to ? from + p * d->piece : to;
    return (span_t){from, to - from < d->piece ? to - from : d->piece};
}

static unsigned char *slot_of(const direct_t *d, size_t p, int member)
{
    size_t index = p % DEPTH * (size_t)d->job->ring->size + (size_t)member;

    return d->slots + index * d->piece * d->job->element;
}

/* Where the sum of our own piece goes. */
static unsigned char *sum_of(const direct_t *d, size_t p)
{
    const crti_ring_job_t *job = d->job;
    span_t mine = span_of(d, job->ring->rank, p);

    if (job->kind == CRT_COLLECTIVE_ALLREDUCE ||
        (job->kind == CRT_COLLECTIVE_REDUCE && job->ring->rank == job->root))
        return job->output + mine.at * job->element;
    if (job->kind == CRT_COLLECTIVE_REDUCESCATTER)
        return job->output + p * d->piece * job->element;
    return slot_of(d, p, job->ring->rank);
}

static bool gets_results(const crti_ring_job_t *job, int member)
{
    return job->kind == CRT_COLLECTIVE_ALLREDUCE ||
           (job->kind == CRT_COLLECTIVE_REDUCE && member == job->root);
}

/* Everybody's piece p of our part is expected, ours of theirs is sent. */
static void scatter(direct_t *d, size_t p)
{
    const crti_ring_job_t *job = d->job;
    crti_ring_t *ring = job->ring;
    span_t mine = span_of(d, ring->rank, p);

    if (p >= d->pieces)
        return;
    for (int i = 1; i < ring->size; i++) {
        int from = crti_ring_member(ring, -i), to = crti_ring_member(ring, i);
        span_t theirs = span_of(d, to, p);

        crti_ring_receive(ring, &d->parts[p % DEPTH * (size_t)ring->size + (size_t)from],
                          from, 2 * p, slot_of(d, p, from), mine.count * job->element);
        crti_ring_send(ring, to, 2 * p, job->input + theirs.at * job->element,
                       theirs.count * job->element, NULL);
    }
}

static crt_status_t sum(direct_t *d, size_t p)
{
    const crti_ring_job_t *job = d->job;
    crti_ring_t *ring = job->ring;
    span_t mine = span_of(d, ring->rank, p);
    int last = job->kind == CRT_COLLECTIVE_REDUCE ? job->root : ring->rank;
    crt_status_t status = CRT_OK;

    for (int k = 0; k < ring->size && status == CRT_OK; k++) {
        int i = (last + 1 + k) % ring->size;

        d->sources[k] =
            i == ring->rank ? job->input + mine.at * job->element : slot_of(d, p, i);
        if (i != ring->rank)
            status = crti_exchange_wait(
                ring->exchange, &d->parts[p % DEPTH * (size_t)ring->size + (size_t)i]);
    }
    if (status == CRT_OK && mine.count)
        crti_kernel_reduce_many(job->dtype, job->reduction, sum_of(d, p), d->sources,
                                ring->size, job->divisor, mine.count);
    return status;
}

/* The sum of piece p goes to who gets it; those of others are expected. */
static void gather(direct_t *d, size_t p, unsigned *unsent)
{
    const crti_ring_job_t *job = d->job;
    crti_ring_t *ring = job->ring;
    span_t mine = span_of(d, ring->rank, p);

    for (int i = 1; i < ring->size; i++) {
        int from = crti_ring_member(ring, -i), to = crti_ring_member(ring, i);
        span_t theirs = span_of(d, from, p);

        if (gets_results(job, ring->rank))
            crti_ring_receive(ring,
                              &d->results[p % DEPTH * (size_t)ring->size + (size_t)from],
                              from, 2 * p + 1, job->output + theirs.at * job->element,
                              theirs.count * job->element);
        if (gets_results(job, to))
            crti_ring_send(ring, to, 2 * p + 1, sum_of(d, p), mine.count * job->element,
                           unsent);
    }
}

static crt_status_t wait_results(direct_t *d, size_t p)
{
    crti_ring_t *ring = d->job->ring;
    crt_status_t status = CRT_OK;

    if (!gets_results(d->job, ring->rank))
        return CRT_OK;
    for (int i = 0; i < ring->size && status == CRT_OK; i++)
        if (i != ring->rank)
            status = crti_exchange_wait(
                ring->exchange, &d->results[p % DEPTH * (size_t)ring->size + (size_t)i]);
    return status;
}

static crt_status_t run_pieces(direct_t *d)
{
    unsigned unsent[DEPTH] = {0};
    crt_status_t status = CRT_OK;

    for (size_t p = 0; p < DEPTH; p++)
        scatter(d, p);
    for (size_t p = 0; p < d->pieces && status == CRT_OK; p++) {
        status = sum(d, p);
        if (status == CRT_OK && p >= DEPTH)
            status = wait_results(d, p - DEPTH);
        if (status != CRT_OK)
            break;
        gather(d, p, &unsent[p % DEPTH]);
        if (p + DEPTH < d->pieces) /* the slots of p are used again */
            status = crti_exchange_wait_sent(d->job->ring->exchange, &unsent[p % DEPTH]);
        if (status == CRT_OK)
            scatter(d, p + DEPTH);
    }
    for (size_t p = d->pieces > DEPTH ? d->pieces - DEPTH : 0;
         p < d->pieces && status == CRT_OK; p++)
        status = wait_results(d, p);
    if (status == CRT_OK) /* a sum may still leave from a slot */
        for (int i = 0; i < DEPTH && status == CRT_OK; i++)
            status = crti_exchange_wait_sent(d->job->ring->exchange, &unsent[i]);
    return status;
}

static crt_status_t run_direct(const crti_ring_job_t *job)
{
    crti_ring_t *ring = job->ring;
    size_t n = (size_t)ring->size, part = job->count, slots, tables;
    direct_t d = {.job = job, .piece = ROOM / DEPTH / n};
    unsigned char *room;

    if (job->kind != CRT_COLLECTIVE_REDUCESCATTER)
        part = crti_ring_part(job->count, ring->size, 1);
    d.piece = (d.piece < PIECE_MIN ? PIECE_MIN : d.piece) / job->element;
    if (d.piece > part)
        d.piece = part;
    d.pieces = (part + d.piece - 1) / d.piece;
    slots = (DEPTH * n * d.piece * job->element + 63) / 64 * 64;
    tables = DEPTH * n * sizeof(crti_incoming_t);
    room = crti_ring_scratch(ring, 0, slots + 2 * tables + n * sizeof(void *));
    if (room == NULL)
        return crti_group_failed(ring->group);
    d.slots = room;
    d.parts = (void *)(room + slots);
    d.results = (void *)(room + slots + tables);
    d.sources = (void *)(room + slots + 2 * tables);
    return run_pieces(&d);
}

/* ---------------------------------------------------------------- without a sum */

/* Runs n - 1 receives and sends with all others. Part i of input goes to member i (alltoall), or
 * all of it to each (allgather); what member i sends becomes part i of output. */
crt_status_t crti_ring_exchange_all(const crti_ring_job_t *job)
{
    crti_ring_t *ring = job->ring;
    size_t bytes = job->count * job->element;
    bool is_gather = job->kind == CRT_COLLECTIVE_ALLGATHER;
    const unsigned char *mine = job->input;
    crti_incoming_t *incoming;
    crt_status_t status = CRT_OK;

    incoming = crti_ring_scratch(ring, 0, (size_t)ring->size * sizeof(*incoming));
    if (incoming == NULL)
        return crti_group_failed(ring->group);
    if (!is_gather)
        mine += (size_t)ring->rank * bytes;
    if (mine != job->output + (size_t)ring->rank * bytes)
        memcpy(job->output + (size_t)ring->rank * bytes, mine, bytes);
    for (int i = 1; i < ring->size; i++) {
        int from = crti_ring_member(ring, -i), to = crti_ring_member(ring, i);

        crti_ring_receive(ring, &incoming[from], from, 0,
                          job->output + (size_t)from * bytes, bytes);
        crti_ring_send(ring, to, 0, job->input + (is_gather ? 0 : (size_t)to * bytes),
                       bytes, NULL);
    }
    for (int i = 0; i < ring->size && status == CRT_OK; i++)
        if (i != ring->rank)
            status = crti_exchange_wait(ring->exchange, &incoming[i]);
    return status;
}

/* Everything to the root, who sums it. */
static crt_status_t run_collect(const crti_ring_job_t *job)
{
    crti_ring_t *ring = job->ring;
    size_t n = (size_t)ring->size, bytes = job->count * job->element;
    size_t slot = (bytes + 63) / 64 * 64;
    crti_incoming_t *incoming;
    const void **sources;
    unsigned char *room;
    crt_status_t status = CRT_OK;

    if (ring->rank != job->root) {
        crti_ring_send(ring, job->root, 0, job->input, bytes, NULL);
        return CRT_OK;
    }
    room = crti_ring_scratch(ring, 0, n * (slot + sizeof(*incoming) + sizeof(*sources)));
    if (room == NULL)
        return crti_group_failed(ring->group);
    incoming = (void *)(room + n * slot);
    sources = (void *)(incoming + n);
    for (int k = 0; k < ring->size; k++) {
        int i = (job->root + 1 + k) % ring->size;

        sources[k] = i == ring->rank ? job->input : room + (size_t)i * slot;
        if (i != ring->rank)
            crti_ring_receive(ring, &incoming[i], i, 0, room + (size_t)i * slot, bytes);
    }
    for (int i = 0; i < ring->size && status == CRT_OK; i++)
        if (i != ring->rank)
            status = crti_exchange_wait(ring->exchange, &incoming[i]);
    if (status == CRT_OK)
        crti_kernel_reduce_many(job->dtype, job->reduction, job->output, sources,
                                ring->size, job->divisor, job->count);
    return status;
}

/* ---------------------------------------------------------------- algorithms */

static double allreduce_cost(const crti_ring_job_t *job)
{
    double n = job->ring->size, bytes = crti_cost_bytes(job);
    const crti_ring_costs_t *c = &job->ring->costs;

    return 2 * c->hop_ns + 2 * (n - 1) * c->message_ns +
           2 * crti_cost_crowd(job, bytes / n) + bytes * CRTI_COPY_NS;
}

/* To one from all, to all from one, or both, of all bytes. */
static double all_cost(const crti_ring_job_t *job)
{
    const crti_ring_costs_t *c = &job->ring->costs;

    return c->hop_ns + (job->ring->size - 1) * c->message_ns +
           crti_cost_crowd(job, crti_cost_bytes(job));
}

/* The same, and the sum of what came. */
static double summed_cost(const crti_ring_job_t *job)
{
    return all_cost(job) + job->ring->size * crti_cost_bytes(job) * CRTI_COPY_NS;
}

/* The parts to their members, the sums of the parts to the root. */
static double reduce_cost(const crti_ring_job_t *job)
{
    double n = job->ring->size, bytes = crti_cost_bytes(job);
    const crti_ring_costs_t *c = &job->ring->costs;

    return 2 * c->hop_ns + n * c->message_ns + 2 * crti_cost_crowd(job, bytes / n) +
           bytes * CRTI_COPY_NS;
}

const crti_algorithm_t crti_algorithm_allreduce_direct = {
    .kind = CRT_COLLECTIVE_ALLREDUCE,
    .name = "direct",
    .description = "each sums a part and sends it to all",
    .unfit = crti_unfit_in_parts,
    .cost = allreduce_cost,
    .run = run_direct};

const crti_algorithm_t crti_algorithm_reduce_direct = {
    .kind = CRT_COLLECTIVE_REDUCE,
    .name = "direct",
    .description = "each sums a part and sends it to the root",
    .has_check = true,
    .unfit = crti_unfit_in_parts,
    .cost = reduce_cost,
    .run = run_direct};

const crti_algorithm_t crti_algorithm_reduce_collect = {
    .kind = CRT_COLLECTIVE_REDUCE,
    .name = "collect",
    .description = "all send to the root, which sums",
    .has_check = true,
    .cost = summed_cost,
    .run = run_collect};

const crti_algorithm_t crti_algorithm_reducescatter_direct = {
    .kind = CRT_COLLECTIVE_REDUCESCATTER,
    .name = "direct",
    .description = "each sums what all send it",
    .cost = summed_cost,
    .run = run_direct};

const crti_algorithm_t crti_algorithm_allgather_direct = {
    .kind = CRT_COLLECTIVE_ALLGATHER,
    .name = "direct",
    .description = "each sends to all",
    .cost = all_cost,
    .run = crti_ring_exchange_all};

const crti_algorithm_t crti_algorithm_alltoall_direct = {.kind = CRT_COLLECTIVE_ALLTOALL,
                                                         .name = "direct",
                                                         .description =
                                                             "each sends to all",
                                                         .cost = all_cost,
                                                         .run = crti_ring_exchange_all};
