/* SPDX-License-Identifier: Apache-2.0 */
/* The backend "ring": any members, over links.
 *
 * Where it sits
 *     operation.c, two_level.c -> [ ring.c ] -> algorithms.h -> ring_flow.c, ... -> exchange
 * The check
 *     Of an operation whose algorithm makes every member depend on every other, the messages
 *     themselves say what was called. The others (`has_check`, nothing to do) have a round of small
 *     messages beside them, so that a difference fails all members and not the next operation. All
 *     first messages go to the next member at least: wherever two neighbours call differently one
 *     of them sees it.
 */
#include <stdlib.h>
#include <string.h>

#include "collective/backends/algorithms.h"

/* ---------------------------------------------------------------- small things */

static uint64_t hash(const int *ranks, int size)
{
    uint64_t h = 1469598103934665603ull;

    for (int i = 0; i < size; i++)
        h = (h ^ (uint64_t)ranks[i]) * 1099511628211ull;
    return h;
}

/* ---------------------------------------------------------------- operations */

/* A team of one: output is input. */
static crt_status_t run_alone(const crti_ring_job_t *job)
{
    const void *source = job->input;

    if (job->count == 0 || job->output == NULL || job->kind == CRT_COLLECTIVE_BARRIER)
        return CRT_OK;
    if (job->reduction)
        crti_kernel_reduce_many(job->dtype, job->reduction, job->output, &source, 1,
                                job->divisor, job->count);
    else if (job->output != job->input)
        memcpy(job->output, job->input, job->count * job->element);
    return CRT_OK;
}

static crti_ring_job_t job_of(crti_ring_t *ring, const crti_step_t *step, int divisor)
{
    crti_ring_job_t job = {.ring = ring,
                           .kind = step->kind,
                           .dtype = step->dtype,
                           .reduction = step->reduction,
                           .element = crt_dtype_size(step->dtype),
                           .count =
                               step->kind == CRT_COLLECTIVE_BARRIER ? 0 : step->count,
                           .divisor = divisor,
                           .root = step->peer,
                           .input = step->input,
                           .output = step->output};

    if (step->kind == CRT_COLLECTIVE_BROADCAST) { /* one tensor */
        const void *tensor = step->output ? step->output : step->input;

        job.output = (unsigned char *)(uintptr_t)tensor;
        job.input = step->input && step->peer == ring->rank ? step->input : tensor;
    }
    return job;
}

crti_exchange_call_t crti_ring_call(const crti_step_t *step, const int *ranks)
{
    bool has_values = step->kind != CRT_COLLECTIVE_BARRIER;
    bool reduces = step->kind == CRT_COLLECTIVE_ALLREDUCE ||
                   step->kind == CRT_COLLECTIVE_REDUCE ||
                   step->kind == CRT_COLLECTIVE_REDUCESCATTER;
    bool has_peer =
        step->kind == CRT_COLLECTIVE_REDUCE || step->kind == CRT_COLLECTIVE_BROADCAST;

    return (crti_exchange_call_t){.kind = step->kind,
                                  .dtype = has_values ? step->dtype : 0,
                                  .reduction = reduces ? step->reduction : 0,
                                  .count = has_values ? step->count : 0,
                                  .peer = has_peer ? ranks[step->peer] : -1,
                                  .before = -1,
                                  .sequence = step->sequence,
                                  .deadline_ns = step->deadline_ns};
}

crt_status_t crti_ring_run(crti_ring_t *ring, const crti_step_t *step,
                           const crti_exchange_call_t *from, int divisor)
{
    crti_ring_job_t job = job_of(ring, step, divisor);
    crti_exchange_call_t call = *from;
    const crti_algorithm_t *algorithm = NULL;
    crt_status_t status = CRT_OK;

    if (ring->size == 1)
        return run_alone(&job);
    call.team = ring->team;
    call.before = ring->ranks[crti_ring_member(ring, -1)];
    crti_exchange_begin(ring->exchange, &call);
    if (job.count || job.kind == CRT_COLLECTIVE_BARRIER)
        status = crti_algorithm_choose(&job, &algorithm);
    if (status == CRT_OK && (!algorithm || algorithm->has_check))
        crti_exchange_check(ring->exchange, ring->ranks, ring->size, ring->rank);
    if (status == CRT_OK && algorithm)
        status = algorithm->run(&job);
    return crti_exchange_end(ring->exchange, status);
}

static crt_status_t run(void *state, const crti_step_t *step)
{
    crti_ring_t *ring = state;
    crti_exchange_call_t call = crti_ring_call(step, ring->ranks);

    return crti_ring_run(ring, step, &call, ring->size);
}

static crt_status_t post(void *state, crti_pair_t *pair)
{
    return crti_exchange_post(((crti_ring_t *)state)->exchange, pair);
}

static crt_status_t progress(void *state)
{
    return crti_exchange_progress(((crti_ring_t *)state)->exchange);
}

static crt_status_t await(void *state, crti_pair_t *const *pairs, int count,
                          uint64_t deadline_ns)
{
    return crti_exchange_await(((crti_ring_t *)state)->exchange, deadline_ns);
}

static void report(void *state)
{
    crti_exchange_report(((crti_ring_t *)state)->exchange);
}

/* ---------------------------------------------------------------- life */

static void close_ring(void *state)
{
    crti_ring_t *ring = state;

    if (ring == NULL)
        return;
    crti_exchange_close(ring->exchange);
    free(ring->scratch[0]);
    free(ring->scratch[1]);
    free(ring->ranks);
    free(ring);
}

/* Small teams: all; else the neighbours, and others when they are needed. */
static crt_status_t connect_team(crti_ring_t *ring, uint64_t deadline_ns)
{
    int near[2] = {ring->ranks[crti_ring_member(ring, -1)],
                   ring->ranks[crti_ring_member(ring, 1)]};

    if (ring->size <= CRTI_RING_MESH)
        return crti_exchange_connect(ring->exchange, ring->ranks, ring->size,
                                     deadline_ns);
    return crti_exchange_connect(ring->exchange, near, 2, deadline_ns);
}

static crt_status_t open_ring(crt_group_t *group, const crti_team_t *team,
                              uint64_t deadline_ns, void **state_out)
{
    crti_ring_t *ring = calloc(1, sizeof(*ring));
    crt_status_t status;

    if (ring)
        ring->ranks = calloc((size_t)team->size, sizeof(int));
    if (ring == NULL || ring->ranks == NULL) {
        free(ring);
        return crt_raise(CRT_ERR_NO_MEMORY, "ring of %d", team->size);
    }
    memcpy(ring->ranks, team->ranks, (size_t)team->size * sizeof(int));
    ring->group = group;
    ring->size = team->size;
    ring->rank = team->rank;
    ring->team = hash(team->ranks, team->size);
    status = crti_exchange_open(group, &ring->exchange);
    if (status == CRT_OK && ring->size > 1)
        status = connect_team(ring, deadline_ns);
    if (status == CRT_OK && ring->size > 1)
        status = crti_ring_measure(ring, deadline_ns);
    if (status != CRT_OK) {
        close_ring(ring);
        return status;
    }
    *state_out = ring;
    return CRT_OK;
}

const crti_backend_t crti_backend_ring = {.name = "ring",
                                          .open = open_ring,
                                          .run = run,
                                          .post = post,
                                          .progress = progress,
                                          .await = await,
                                          .report = report,
                                          .close = close_ring};
