/* SPDX-License-Identifier: Apache-2.0 */
/* Few steps, for what is small: log2(n) of them where n - 1 messages of one member would cost more.
 */
#include <string.h>

#include "collective/backends/algorithms.h"

/* Bruck's allgather. Position i of `all` is the part of the member i steps back: after a step
 * twice as many are there. */
crt_status_t crti_ring_bruck(const crti_ring_job_t *job)
{
    crti_ring_t *ring = job->ring;
    int n = ring->size;
    size_t bytes = job->count * job->element;
    unsigned char *all = crti_ring_scratch(ring, 0, (size_t)n * bytes);
    crt_status_t status = CRT_OK;

    if (all == NULL)
        return crti_group_failed(ring->group);
    memcpy(all, job->input, bytes);
    for (int have = 1, round = 0; have < n && status == CRT_OK; have *= 2, round++) {
        size_t more = (size_t)(have < n - have ? have : n - have);
        crti_incoming_t in;

        crti_ring_receive(ring, &in, crti_ring_member(ring, -have), (uint64_t)round,
                          all + (size_t)have * bytes, more * bytes);
        crti_ring_send(ring, crti_ring_member(ring, have), (uint64_t)round, all,
                       more * bytes, NULL);
        status = crti_exchange_wait(ring->exchange, &in);
    }
    for (int i = 0; i < n && status == CRT_OK; i++)
        memcpy(job->output + (size_t)crti_ring_member(ring, -i) * bytes,
               all + (size_t)i * bytes, bytes);
    return status;
}

/* Binomial tree: member p (steps from the root) gets it from p without its lowest bit. */
static crt_status_t run_tree(const crti_ring_job_t *job)
{
    crti_ring_t *ring = job->ring;
    int n = ring->size, p = crti_ring_member(ring, -job->root), bit = 1;
    size_t bytes = job->count * job->element;
    crt_status_t status = CRT_OK;

    while (bit < n && !(p & bit))
        bit *= 2;
    if (p) {
        crti_incoming_t in;

        crti_ring_receive(ring, &in, crti_ring_member(ring, -bit), 0, job->output, bytes);
        status = crti_exchange_wait(ring->exchange, &in);
    }
    for (bit /= 2; bit && status == CRT_OK; bit /= 2)
        if (p + bit < n)
            crti_ring_send(ring, crti_ring_member(ring, bit), 0,
                           p ? job->output : job->input, bytes, NULL);
    return status;
}

/* The sum of everybody's values, which lie one behind the other: part by part, in the order in
 * which others sum. */
static void sum_gathered(const crti_ring_job_t *job, const unsigned char *all,
                         const void **sources)
{
    int n = job->ring->size;
    size_t bytes = job->count * job->element;

    for (int part = 0; part < n; part++) {
        size_t from = crti_ring_part(job->count, n, part) * job->element;
        size_t to = crti_ring_part(job->count, n, part + 1) * job->element;

        for (int k = 0; k < n; k++)
            sources[k] = all + (size_t)((part + 1 + k) % n) * bytes + from;
        if (to > from)
            crti_kernel_reduce_many(job->dtype, job->reduction, job->output + from,
                                    sources, n, job->divisor, (to - from) / job->element);
    }
}

/* Allreduce: everybody's values, summed at each member. */
static crt_status_t run_gathered(const crti_ring_job_t *job,
                                 crt_status_t (*gather)(const crti_ring_job_t *))
{
    crti_ring_t *ring = job->ring;
    crti_ring_job_t all = *job;
    size_t n = (size_t)ring->size, bytes = job->count * job->element;
    size_t values = (n * bytes + 63) / 64 * 64;
    const void **sources;
    crt_status_t status;

    all.kind = CRT_COLLECTIVE_ALLGATHER;
    all.output = crti_ring_scratch(ring, 1, values + n * sizeof(*sources));
    if (all.output == NULL)
        return crti_group_failed(ring->group);
    status = gather(&all);
    if (status != CRT_OK)
        return status;
    sources = (void *)(all.output + values);
    status = crti_exchange_wait_sent_all(ring->exchange); /* in place: input is sent */
    if (status == CRT_OK)
        sum_gathered(job, all.output, sources);
    return status;
}

static crt_status_t run_bruck_gathered(const crti_ring_job_t *job)
{
    return run_gathered(job, crti_ring_bruck);
}

static crt_status_t run_all_gathered(const crti_ring_job_t *job)
{
    return run_gathered(job, crti_ring_exchange_all);
}

/* The values of the members behind it, up a binomial tree to the first member: member p has those
 * of the p without its lowest bit, and on. */
static crt_status_t gather_up(const crti_ring_job_t *job, unsigned char *all)
{
    crti_ring_t *ring = job->ring;
    int n = ring->size, p = ring->rank, bit = 1;
    size_t bytes = job->count * job->element;
    crt_status_t status = CRT_OK;

    memcpy(all, job->input, bytes);
    for (; bit < n && !(p & bit) && status == CRT_OK; bit *= 2) {
        int from = p + bit, count = n - from < bit ? n - from : bit;
        crti_incoming_t in;

        if (count <= 0)
            continue;
        crti_ring_receive(ring, &in, from, 0, all + (size_t)bit * bytes,
                          (size_t)count * bytes);
        status = crti_exchange_wait(ring->exchange, &in);
    }
    if (status == CRT_OK && p)
        crti_ring_send(ring, p - bit, 0, all, (size_t)(n - p < bit ? n - p : bit) * bytes,
                       NULL);
    return status;
}

/* Allreduce: the first member sums everybody's values. */
static crt_status_t run_through_first(const crti_ring_job_t *job)
{
    crti_ring_t *ring = job->ring;
    crti_ring_job_t down = *job;
    size_t n = (size_t)ring->size, bytes = job->count * job->element;
    size_t values = (n * bytes + 63) / 64 * 64;
    unsigned char *all = crti_ring_scratch(ring, 1, values + n * sizeof(void *));
    unsigned char here = 1, there;
    crti_incoming_t in;

    if (all == NULL)
        return crti_group_failed(ring->group);
    /* Neighbours tell each other that they are here: in the tree they may never meet. */
    crti_ring_receive(ring, &in, crti_ring_member(ring, -1), 0, &there, sizeof(there));
    crti_ring_send(ring, crti_ring_member(ring, 1), 0, &here, sizeof(here), NULL);
    CRT_TRY(gather_up(job, all));
    if (ring->rank == 0)
        sum_gathered(job, all, (void *)(all + values));
    down.kind = CRT_COLLECTIVE_BROADCAST;
    down.root = 0;
    down.input = job->output;
    CRT_TRY(run_tree(&down));
    CRT_TRY(crti_exchange_wait(ring->exchange, &in));
    return crti_exchange_wait_sent_all(ring->exchange);
}

/* Members call, and nothing else: each hears of each in log2(n) rounds. */
static crt_status_t run_barrier(const crti_ring_job_t *job)
{
    crti_ring_t *ring = job->ring;

    crti_exchange_check(ring->exchange, ring->ranks, ring->size, ring->rank);
    return CRT_OK;
}

/* ---------------------------------------------------------------- algorithms */

static double barrier_cost(const crti_ring_job_t *job)
{
    return crti_cost_rounds(job) * crti_cost_step(job);
}

/* A step of a tree: some have a message on its way, some half as many as there are members. */
static double tree_step(const crti_ring_job_t *job)
{
    return (crti_cost_step(job) + job->ring->costs.lone_step_ns) / 2;
}

static double tree_cost(const crti_ring_job_t *job)
{
    const crti_ring_costs_t *c = &job->ring->costs;

    return crti_cost_rounds(job) *
           (tree_step(job) + crti_cost_bytes(job) * c->lone_byte_ns);
}

/* The values go into temporary memory and out of it. */
static double bruck_cost(const crti_ring_job_t *job)
{
    double n = job->ring->size, bytes = crti_cost_bytes(job);

    return crti_cost_rounds(job) * crti_cost_step(job) +
           crti_cost_link(job, (n - 1) * bytes) + 2 * n * bytes * CRTI_COPY_NS;
}

static double bruck_gathered_cost(const crti_ring_job_t *job)
{
    return bruck_cost(job) + job->ring->size * crti_cost_bytes(job) * CRTI_COPY_NS;
}

static double all_gathered_cost(const crti_ring_job_t *job)
{
    double n = job->ring->size, bytes = crti_cost_bytes(job);
    const crti_ring_costs_t *c = &job->ring->costs;

    return c->hop_ns + (n - 1) * c->message_ns + crti_cost_crowd(job, bytes) +
           (n + 1) * bytes * CRTI_COPY_NS;
}

const crti_algorithm_t crti_algorithm_allreduce_bruck = {
    .kind = CRT_COLLECTIVE_ALLREDUCE,
    .name = "bruck",
    .description = "all values to all in log2(n) steps, each sums",
    .cost = bruck_gathered_cost,
    .run = run_bruck_gathered};

/* All values come to the first member, in log2(n) messages; then the tree. */
static double through_first_cost(const crti_ring_job_t *job)
{
    const crti_ring_costs_t *c = &job->ring->costs;
    double n = job->ring->size, bytes = crti_cost_bytes(job);

    return crti_cost_rounds(job) * tree_step(job) + (n - 1) * bytes * c->lone_byte_ns +
           n * bytes * CRTI_COPY_NS + tree_cost(job);
}

const crti_algorithm_t crti_algorithm_allreduce_tree = {
    .kind = CRT_COLLECTIVE_ALLREDUCE,
    .name = "tree",
    .description = "all values up a binomial tree, the sum down it",
    .cost = through_first_cost,
    .run = run_through_first};

const crti_algorithm_t crti_algorithm_allreduce_gather = {
    .kind = CRT_COLLECTIVE_ALLREDUCE,
    .name = "gather",
    .description = "all values from each to all, each sums",
    .cost = all_gathered_cost,
    .run = run_all_gathered};

const crti_algorithm_t crti_algorithm_allgather_bruck = {
    .kind = CRT_COLLECTIVE_ALLGATHER,
    .name = "bruck",
    .description = "log2(n) steps, each with twice the parts",
    .cost = bruck_cost,
    .run = crti_ring_bruck};

const crti_algorithm_t crti_algorithm_broadcast_tree = {.kind = CRT_COLLECTIVE_BROADCAST,
                                                        .name = "tree",
                                                        .description = "a binomial tree",
                                                        .has_check = true,
                                                        .cost = tree_cost,
                                                        .run = run_tree};

const crti_algorithm_t crti_algorithm_barrier_dissemination = {
    .kind = CRT_COLLECTIVE_BARRIER,
    .name = "dissemination",
    .description = "log2(n) rounds of messages without bytes",
    .cost = barrier_cost,
    .run = run_barrier};
