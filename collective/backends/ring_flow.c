/* SPDX-License-Identifier: Apache-2.0 */
/* Along the ring: every member sends to the next one only.
 *
 * Allreduce: part b of the values starts at member b + 1 and is summed on its way round to
 * member b, who has it complete after n - 1 steps (reducescatter); then it goes round once more
 * (allgather). Each member sends 2(n-1)/n of the values, which is the least there is.
 * Broadcast and reduce go along the chain of members from or to the root.
 * All in chunks: a chunk goes on as soon as it was summed, while the next one arrives.
 *
 * Invariant
 *     A chunk that is summed lies in a slot until it was sent on. A member lets a new chunk of its
 *     own into the ring only when one has ended here: at most LAP of each are on their way, and
 *     there are more slots, so that the ring never comes to stand with all slots full.
 */
#include <string.h>

#include "collective/backends/algorithms.h"

#define CHUNK ((size_t)128 << 10) /* bytes */
#define DEPTH 32                  /* chunks that are expected at once; slots */
#define LAP   16                  /* chunks of a member that are in the ring */

/* Chunks on their way through this member: received, worked on, sent on. Items are numbered as
 * they come: by lap (LAP chunks of each part), step and chunk. */
typedef struct flow {
    const crti_ring_job_t *job;
    size_t chunk;         /* elements */
    size_t items, posted; /* items that come here in all; that are expected */
    size_t scatter, lap;  /* of a lap: items that are summed (the first ones); all */
    int from, to;         /* -1: nobody */
    crti_incoming_t incoming[DEPTH];
    unsigned unsent[DEPTH]; /* of `slots` */
    unsigned char *slots;   /* DEPTH chunks to be summed */
} flow_t;

typedef struct chunk {
    size_t at, count; /* elements, in all parts */
} chunk_t;

/* Chunk `j` of part `part`; parts of an allgather and a reducescatter are `count` long. */
static chunk_t chunk_of(const flow_t *f, int part, size_t j)
{
    const crti_ring_job_t *job = f->job;
    int n = job->ring->size;
    size_t from, to;

    if (job->kind == CRT_COLLECTIVE_ALLREDUCE) {
        from = crti_ring_part(job->count, n, part);
        to = crti_ring_part(job->count, n, part + 1);
    } else {
        from = job->count * (size_t)part;
        to = from + job->count;
    }
    from += j * f->chunk;
    if (from > to)
        from = to;
    return (chunk_t){from, to - from < f->chunk ? to - from : f->chunk};
}

static bool is_summed(const flow_t *f, size_t i)
{
    return i % f->lap < f->scatter;
}

static chunk_t item_chunk(const flow_t *f, size_t i)
{
    size_t at = i % f->lap;
    int step = (int)((at < f->scatter ? at : at - f->scatter) / LAP);
    int part = crti_ring_member(f->job->ring, at < f->scatter ? -2 - step : -1 - step);

    return chunk_of(f, part, i / f->lap * LAP + i % LAP);
}

static unsigned char *slot_of(const flow_t *f, size_t i)
{
    return f->slots + i % DEPTH * f->chunk * f->job->element;
}

/* Expects as many items as there is room for. */
static crt_status_t post(flow_t *f, size_t done)
{
    const crti_ring_job_t *job = f->job;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && f->posted < f->items && f->posted < done + DEPTH) {
        size_t i = f->posted;
        chunk_t c = item_chunk(f, i);
        bool has_slot = is_summed(f, i);

        if (has_slot && f->unsent[i % DEPTH]) {
            if (i > done) /* others come first; it is looked at again after them */
                return CRT_OK;
            status = crti_exchange_wait_sent(job->ring->exchange, &f->unsent[i % DEPTH]);
        }
        if (status == CRT_OK)
            crti_ring_receive(job->ring, &f->incoming[i % DEPTH], f->from, i,
                              has_slot ? slot_of(f, i)
                                       : job->output + c.at * job->element,
                              c.count * job->element);
        f->posted++;
    }
    return status;
}

/* A partial sum came: adds ours. The last step of the scatter makes it complete. */
static void sum(flow_t *f, size_t i, chunk_t c)
{
    const crti_ring_job_t *job = f->job;
    bool is_complete = i % f->lap >= f->scatter - LAP;
    unsigned char *slot = slot_of(f, i), *to = slot;

    if (is_complete)
        to = job->kind == CRT_COLLECTIVE_ALLREDUCE
                 ? job->output + c.at * job->element
                 : job->output +
                       (c.at - job->count * (size_t)job->ring->rank) * job->element;
    crti_kernel_reduce(job->dtype, job->reduction, to, slot,
                       job->input + c.at * job->element, c.count);
    if (is_complete && job->reduction == CRT_REDUCE_AVERAGE)
        crti_kernel_scale(job->dtype, to, job->divisor, c.count);
    if (!is_complete)
        crti_ring_send(job->ring, f->to, i + LAP, slot, c.count * job->element,
                       &f->unsent[i % DEPTH]);
    else if (job->kind == CRT_COLLECTIVE_ALLREDUCE)
        crti_ring_send(job->ring, f->to, i + LAP, to, c.count * job->element, NULL);
}

/* One of ours goes into the ring: of the scatter, or, when there is none, of the gather. */
static void send_own(flow_t *f, size_t lap, size_t k)
{
    const crti_ring_job_t *job = f->job;
    const unsigned char *from = f->scatter ? job->input : job->output;
    int part = f->scatter ? crti_ring_member(job->ring, -1) : job->ring->rank;
    chunk_t c = chunk_of(f, part, lap * LAP + k);

    crti_ring_send(job->ring, f->to, lap * f->lap + k, from + c.at * job->element,
                   c.count * job->element, NULL);
}

/* Item `i` is here. */
static void work_on(flow_t *f, size_t i)
{
    const crti_ring_job_t *job = f->job;
    chunk_t c = item_chunk(f, i);

    if (is_summed(f, i) && c.count)
        sum(f, i, c);
    else if (!is_summed(f, i) && i % f->lap + LAP < f->lap)
        crti_ring_send(job->ring, f->to, i + LAP, job->output + c.at * job->element,
                       c.count * job->element, NULL);
    if (i % f->lap + LAP >= f->lap) /* it ends here */
        send_own(f, i / f->lap + 1, i % LAP);
}

static crt_status_t run_items(flow_t *f)
{
    crt_status_t status;

    for (size_t k = 0; k < LAP; k++)
        send_own(f, 0, k);
    status = post(f, 0);
    for (size_t i = 0; i < f->items && status == CRT_OK; i++) {
        if (f->posted == i)
            status = post(f, i);
        if (status == CRT_OK)
            status = crti_exchange_wait(f->job->ring->exchange, &f->incoming[i % DEPTH]);
        if (status != CRT_OK)
            break;
        work_on(f, i);
        status = post(f, i + 1);
    }
    return status;
}

/* The counts of what is unsent are ours. */
static crt_status_t finish(flow_t *f, crt_status_t status)
{
    for (int i = 0; i < DEPTH && status == CRT_OK; i++)
        status = crti_exchange_wait_sent(f->job->ring->exchange, &f->unsent[i]);
    return status;
}

static size_t chunk_elements(const crti_ring_job_t *job)
{
    return CHUNK / job->element;
}

static crt_status_t run_flow(const crti_ring_job_t *job)
{
    crti_ring_t *ring = job->ring;
    size_t steps = (size_t)ring->size - 1, part = job->count, chunks;
    unsigned char *place = job->output + (size_t)ring->rank * job->count * job->element;
    flow_t f = {.job = job,
                .chunk = chunk_elements(job),
                .from = crti_ring_member(ring, -1),
                .to = crti_ring_member(ring, 1)};

    if (job->kind == CRT_COLLECTIVE_ALLREDUCE)
        part = crti_ring_part(job->count, ring->size, 1);
    chunks = (part + f.chunk - 1) / f.chunk;
    if (job->kind != CRT_COLLECTIVE_ALLGATHER)
        f.scatter = steps * LAP;
    f.lap = f.scatter;
    if (job->kind != CRT_COLLECTIVE_REDUCESCATTER)
        f.lap += steps * LAP;
    f.items = (chunks + LAP - 1) / LAP * f.lap;
    if (f.scatter) {
        f.slots = crti_ring_scratch(ring, 0, DEPTH * f.chunk * job->element);
        if (f.slots == NULL)
            return crti_group_failed(ring->group);
    } else if (place != job->input) {
        memcpy(place, job->input, job->count * job->element);
    }
    return finish(&f, run_items(&f));
}

/* ---------------------------------------------------------------- chains */

/* Broadcast: from the member before us to the one behind; reduce: the same, summing. */
static crt_status_t chain_chunks(flow_t *f, bool is_reduce)
{
    const crti_ring_job_t *job = f->job;
    crti_exchange_t *x = job->ring->exchange;
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < f->items && status == CRT_OK; i++) {
        chunk_t c = {i * f->chunk, 0};
        const unsigned char *mine = job->input + c.at * job->element, *from = mine;
        unsigned char *slot =
            is_reduce ? slot_of(f, i) : job->output + c.at * job->element;

        c.count = job->count - c.at < f->chunk ? job->count - c.at : f->chunk;
        for (; f->from >= 0 && f->posted < f->items && f->posted < i + DEPTH;
             f->posted++) {
            size_t at = f->posted * f->chunk, left = job->count - at;
            unsigned *unsent = &f->unsent[f->posted % DEPTH];

            if (is_reduce && *unsent && f->posted > i)
                break;
            if (is_reduce)
                status = crti_exchange_wait_sent(x, unsent);
            if (status != CRT_OK)
                return status;
            crti_ring_receive(
                job->ring, &f->incoming[f->posted % DEPTH], f->from, f->posted,
                is_reduce ? slot_of(f, f->posted) : job->output + at * job->element,
                (left < f->chunk ? left : f->chunk) * job->element);
        }
        if (f->from >= 0) {
            unsigned char *to =
                f->to < 0 && is_reduce ? job->output + c.at * job->element : slot;

            status = crti_exchange_wait(x, &f->incoming[i % DEPTH]);
            if (status == CRT_OK && is_reduce)
                crti_kernel_reduce(job->dtype, job->reduction, to, slot, mine, c.count);
            if (status == CRT_OK && is_reduce && f->to < 0 &&
                job->reduction == CRT_REDUCE_AVERAGE)
                crti_kernel_scale(job->dtype, to, job->divisor, c.count);
            from = to;
        }
        if (f->to >= 0 && status == CRT_OK)
            crti_ring_send(job->ring, f->to, i, from, c.count * job->element,
                           f->from >= 0 && is_reduce ? &f->unsent[i % DEPTH] : NULL);
    }
    return status;
}

static crt_status_t run_chain(const crti_ring_job_t *job)
{
    crti_ring_t *ring = job->ring;
    bool is_reduce = job->kind == CRT_COLLECTIVE_REDUCE;
    /* Steps from the root; of a reduce the first of the chain is the one behind the root. */
    int place = crti_ring_member(ring, -job->root);
    flow_t f = {.job = job,
                .chunk = chunk_elements(job),
                .from = crti_ring_member(ring, -1),
                .to = crti_ring_member(ring, 1)};

    f.items = (job->count + f.chunk - 1) / f.chunk;
    if (place == (is_reduce ? 1 : 0))
        f.from = -1;
    if (place == (is_reduce ? 0 : ring->size - 1))
        f.to = -1;
    if (is_reduce) {
        f.slots = crti_ring_scratch(ring, 0, DEPTH * f.chunk * job->element);
        if (f.slots == NULL)
            return crti_group_failed(ring->group);
    }
    return finish(&f, chain_chunks(&f, is_reduce));
}

/* ---------------------------------------------------------------- algorithms */

static double allreduce_cost(const crti_ring_job_t *job)
{
    double n = job->ring->size;

    return 2 * (n - 1) *
           (crti_cost_step(job) + crti_cost_link(job, crti_cost_bytes(job) / n));
}

/* Reducescatter, allgather. */
static double half_cost(const crti_ring_job_t *job)
{
    return (job->ring->size - 1) *
           (crti_cost_step(job) + crti_cost_link(job, crti_cost_bytes(job)));
}

/* All bytes pass each link; the last member begins when the first chunk has come to it. */
static double chain_cost(const crti_ring_job_t *job)
{
    double n = job->ring->size, bytes = crti_cost_bytes(job);
    double first = bytes < (double)CHUNK ? bytes : (double)CHUNK;

    return (n - 1) * crti_cost_step(job) + crti_cost_link(job, bytes + (n - 2) * first);
}

const crti_algorithm_t crti_algorithm_allreduce_ring = {
    .kind = CRT_COLLECTIVE_ALLREDUCE,
    .name = "ring",
    .description = "parts summed on their way round, then sent round",
    .unfit = crti_unfit_partial_sums_in_parts,
    .cost = allreduce_cost,
    .run = run_flow};

const crti_algorithm_t crti_algorithm_reducescatter_ring = {
    .kind = CRT_COLLECTIVE_REDUCESCATTER,
    .name = "ring",
    .description = "parts summed on their way round",
    .unfit = crti_unfit_partial_sums,
    .cost = half_cost,
    .run = run_flow};

const crti_algorithm_t crti_algorithm_allgather_ring = {.kind = CRT_COLLECTIVE_ALLGATHER,
                                                        .name = "ring",
                                                        .description = "parts sent round",
                                                        .cost = half_cost,
                                                        .run = run_flow};

const crti_algorithm_t crti_algorithm_reduce_chain = {
    .kind = CRT_COLLECTIVE_REDUCE,
    .name = "chain",
    .description = "chunks summed from member to member",
    .has_check = true,
    .unfit = crti_unfit_partial_sums,
    .cost = chain_cost,
    .run = run_chain};

const crti_algorithm_t crti_algorithm_broadcast_chain = {
    .kind = CRT_COLLECTIVE_BROADCAST,
    .name = "chain",
    .description = "chunks sent from member to member",
    .has_check = true,
    .cost = chain_cost,
    .run = run_chain};
