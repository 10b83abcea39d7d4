/* SPDX-License-Identifier: Apache-2.0 */
/* What the links of a team cost: measured when it opens, agreed on by all members.
 *
 * A few rounds in which all hear of all take the time of their steps, with whatever else the hosts
 * do; bytes are timed along the ring, all members at once, as the largest operations move them.
 * Then all tell all what they saw, and the slowest counts: the others wait for it. All compute
 * that from the same numbers, so that all choose the same algorithms.
 */
#include <stdlib.h>
#include <string.h>

#include "collective/backends/algorithms.h"

/* How often each is tried. The first opens TCP's windows and takes what a link lets through at
 * once: it does not count. Other programs disturb some of the others: the least time is taken. */
#define TRIES              6
#define LONG_NS            (20 * CRTI_MS) /* what takes so long is tried once more only */
#define FEW                ((size_t)16 << 10) /* bytes */
#define MANY               ((size_t)256 << 10) /* the rest of its time is that of its bytes */
#define MOST_NS            ((uint64_t)3600 * CRTI_S)
#define SEEN(all, n, what) largest(all, n, offsetof(seen_t, what))

/* As a member saw it, in nanoseconds; in messages, so that it is the same on all. */
typedef struct seen {
    uint64_t rounds, together; /* all hear of all: in log2(n) rounds, from each to each */
    uint64_t few, many;        /* so many bytes to the next member, from the one before */
    uint64_t lone,
        lone_many; /* a few bytes, and many, to one other: the first member's */
} seen_t;

static crti_ring_job_t job_of(crti_ring_t *ring, const seen_t *mine, seen_t *all)
{
    return (crti_ring_job_t){.ring = ring,
                             .kind = CRT_COLLECTIVE_ALLGATHER,
                             .dtype = CRT_DTYPE_UINT8,
                             .element = 1,
                             .count = sizeof(*mine),
                             .root = -1,
                             .input = (const unsigned char *)mine,
                             .output = (unsigned char *)all};
}

/* The least time of a few rounds by which all hear of all. */
static crt_status_t time_rounds(crti_ring_t *ring, const seen_t *mine, seen_t *all,
                                crt_status_t (*run)(const crti_ring_job_t *),
                                uint64_t *least_ns)
{
    crti_ring_job_t job = job_of(ring, mine, all);
    crt_status_t status = CRT_OK;

    *least_ns = UINT64_MAX;
    for (int i = 0; i < TRIES && status == CRT_OK; i++) {
        uint64_t begun = crti_now_ns(), took;

        status = run(&job);
        if (status == CRT_OK) /* what it sent from is used again */
            status = crti_exchange_wait_sent_all(ring->exchange);
        took = crti_now_ns() - begun;
        if (i && took < *least_ns)
            *least_ns = took;
    }
    return status;
}

/* `size` bytes go to the next member while as many come from the one before. The middle of all
 * times, for that is with all at it: in the least some others may have rested. */
static crt_status_t time_bytes(crti_ring_t *ring, unsigned char *memory, size_t size,
                               int tries, uint64_t *middle_ns)
{
    uint64_t times[TRIES]; /* in ascending order */
    crt_status_t status = CRT_OK;

    for (int i = 0, at; i < tries && status == CRT_OK; i++) {
        uint64_t begun = crti_now_ns(), took;
        crti_incoming_t in;

        crti_ring_receive(ring, &in, crti_ring_member(ring, -1), 0, memory, size);
        crti_ring_send(ring, crti_ring_member(ring, 1), 0, memory + size, size, NULL);
        status = crti_exchange_wait(ring->exchange, &in);
        took = crti_now_ns() - begun;
        for (at = i; at && times[at - 1] > took; at--)
            times[at] = times[at - 1];
        times[at] = took;
        *middle_ns = times[i / 2];
        if (status == CRT_OK)
            status = crti_exchange_wait_sent_all(ring->exchange);
    }
    return status;
}

/* The first two members alone: there and back, half of the least time. */
static crt_status_t time_lone(crti_ring_t *ring, unsigned char *memory, size_t size,
                              int tries, uint64_t *least_ns)
{
    crt_status_t status = CRT_OK;

    for (int i = 0; i < tries && ring->rank < 2 && status == CRT_OK; i++) {
        uint64_t begun = crti_now_ns(), took;
        crti_incoming_t in;

        crti_ring_receive(ring, &in, 1 - ring->rank, 0, memory, size);
        if (ring->rank == 0)
            crti_ring_send(ring, 1, 0, memory + size, size, NULL);
        status = crti_exchange_wait(ring->exchange, &in);
        if (ring->rank == 1)
            crti_ring_send(ring, 0, 0, memory + size, size, NULL);
        if (status == CRT_OK)
            status = crti_exchange_wait_sent_all(ring->exchange);
        took = (crti_now_ns() - begun) / 2;
        if (ring->rank == 0 && (i < 2 || took < *least_ns)) /* the first does not count */
            *least_ns = took;
    }
    return status;
}

static uint64_t largest(const seen_t *all, int size, size_t offset)
{
    uint64_t most = 1;

    for (int i = 0; i < size; i++) {
        uint64_t value;

        memcpy(&value, (const char *)&all[i] + offset, sizeof(value));
        most = value > most ? value : most;
    }
    return most < MOST_NS ? most : MOST_NS;
}

/* All tell all what they saw. */
static crt_status_t tell(crti_ring_t *ring, const seen_t *mine, seen_t *all)
{
    crti_ring_job_t job = job_of(ring, mine, all);

    CRT_TRY(crti_ring_bruck(&job));
    return crti_exchange_wait_sent_all(ring->exchange);
}

static crt_status_t measure(crti_ring_t *ring, seen_t *all, unsigned char *memory)
{
    seen_t mine = {0};
    uint64_t first;

    CRT_TRY(time_rounds(ring, &mine, all, crti_ring_bruck, &mine.rounds));
    if (ring->size > 2 && ring->size <= CRTI_RING_MESH)
        CRT_TRY(time_rounds(ring, &mine, all, crti_ring_exchange_all, &mine.together));
    CRT_TRY(time_bytes(ring, memory, MANY, 1, &mine.many));
    CRT_TRY(time_bytes(ring, memory, FEW, TRIES - 1, &mine.few));
    CRT_TRY(tell(ring, &mine, all));
    first = SEEN(all, ring->size, many);
    CRT_TRY(time_bytes(ring, memory, MANY, first > LONG_NS ? 1 : TRIES - 1, &mine.many));
    CRT_TRY(time_lone(ring, memory, sizeof(mine), TRIES, &mine.lone));
    CRT_TRY(
        time_lone(ring, memory, MANY, first > LONG_NS ? 1 : TRIES / 2, &mine.lone_many));
    return tell(ring, &mine, all);
}

static double between(double low, double value, double high)
{
    return value < low ? low : value > high ? high : value;
}

static void agree(crti_ring_t *ring, const seen_t *all)
{
    int n = ring->size;
    crti_ring_job_t job = {.ring = ring};
    double step = (double)SEEN(all, n, rounds) / crti_cost_rounds(&job);
    double together = (double)SEEN(all, n, together);
    double few = (double)SEEN(all, n, few), many = (double)SEEN(all, n, many);
    double lone = (double)SEEN(all, n, lone), lone_many = (double)SEEN(all, n, lone_many);
    double message = n > 2 ? (together - step) / (n - 2) : step / 2;

    ring->costs.message_ns = between(step / 10, message, step * 0.9);
    ring->costs.hop_ns = step - ring->costs.message_ns;
    ring->costs.byte_ns = between(many / 2, many - few, many) / (double)(MANY - FEW);
    /* All together take at most as long as one after the other. */
    ring->costs.lone_step_ns = between(step / n, lone, step);
    ring->costs.lone_byte_ns = between(
        ring->costs.byte_ns / n, (lone_many - lone) / (double)MANY, ring->costs.byte_ns);
}

crt_status_t crti_ring_measure(crti_ring_t *ring, uint64_t deadline_ns)
{
    crti_exchange_call_t call = {.kind = CRT_COLLECTIVE_BARRIER,
                                 .peer = -1,
                                 .before = ring->ranks[crti_ring_member(ring, -1)],
                                 .phase = crti_exchange_uses(ring->exchange),
                                 .team = ring->team,
                                 .deadline_ns = deadline_ns};
    CRTI_AUTO(free) seen_t *all = calloc((size_t)ring->size, sizeof(*all));
    CRTI_AUTO(free) unsigned char *memory = calloc(2, MANY);
    crt_status_t status;

    if (!all || !memory)
        return crti_group_fail(ring->group, CRT_ERR_NO_MEMORY, ring->group->rank,
                               "rank %d: no memory to measure links by",
                               ring->group->rank);
    crti_exchange_begin(ring->exchange, &call);
    status = crti_exchange_end(ring->exchange, measure(ring, all, memory));
    if (status == CRT_OK)
        agree(ring, all);
    return status;
}
