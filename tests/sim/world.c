/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual time and chance. See world.h. */
#include "tests/sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A binary heap, the earliest first; of one moment, the one scheduled first. */
struct sim_event {
    uint64_t at, serial;
    sim_run_t *run;
    void *user;
    uint64_t number;
};

void sim_world_init(sim_world_t *w, uint64_t seed, bool trace)
{
    *w = (sim_world_t){.seed = seed,
                       .now = SIM_START,
                       .hash = 0xcbf29ce484222325ull,
                       .chance = seed * 0x9e3779b97f4a7c15ull,
                       .serial = 1,
                       .trace = trace};
}

void sim_world_fini(sim_world_t *w)
{
    free(w->queue);
    w->queue = NULL;
    w->queued = w->room = 0;
}

/* ---------------------------------------------------------------- chance */

uint64_t sim_random(sim_world_t *w) /* splitmix64 */
{
    uint64_t z = w->chance += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

uint64_t sim_below(sim_world_t *w, uint64_t limit)
{
    return sim_random(w) % limit;
}

uint64_t sim_between(sim_world_t *w, uint64_t low, uint64_t high)
{
    return low + sim_below(w, high - low + 1);
}

bool sim_chance(sim_world_t *w, unsigned of_10000)
{
    return sim_below(w, 10000) < of_10000;
}

crti_id_t sim_id(sim_world_t *w, uint64_t kind)
{
    return (crti_id_t){kind << 48 | w->serial++, w->seed + 1};
}

/* ---------------------------------------------------------------- events */

static bool is_before(const sim_event_t *a, const sim_event_t *b)
{
    return a->at != b->at ? a->at < b->at : a->serial < b->serial;
}

void sim_after(sim_world_t *w, uint64_t delay, sim_run_t *run, void *user,
               uint64_t number)
{
    sim_event_t event = {w->now + delay, w->serial++, run, user, number};
    size_t at = w->queued++;

    if (w->queued > w->room) {
        w->room = w->room ? w->room * 2 : 256;
        w->queue = realloc(w->queue, w->room * sizeof(*w->queue));
        if (!w->queue)
            abort();
    }
    for (; at > 0 && is_before(&event, &w->queue[(at - 1) / 2]); at = (at - 1) / 2)
        w->queue[at] = w->queue[(at - 1) / 2];
    w->queue[at] = event;
}

static sim_event_t take_first(sim_world_t *w)
{
    sim_event_t first = w->queue[0], last = w->queue[--w->queued];
    size_t at = 0, child;

    while ((child = 2 * at + 1) < w->queued) {
        if (child + 1 < w->queued && is_before(&w->queue[child + 1], &w->queue[child]))
            child++;
        if (!is_before(&w->queue[child], &last))
            break;
        w->queue[at] = w->queue[child];
        at = child;
    }
    w->queue[at] = last;
    return first;
}

bool sim_step(sim_world_t *w)
{
    sim_event_t event;

    if (w->queued == 0 || w->failed)
        return false;
    event = take_first(w);
    if (w->now < event.at) /* else the world stood still, and everything is late */
        w->now = event.at;
    w->events++;
    sim_fold(w, event.at ^ event.serial << 40);
    event.run(event.user, event.number);
    return true;
}

void sim_run_until(sim_world_t *w, uint64_t until, uint64_t most, const char *what)
{
    uint64_t limit = w->events + most;

    while (w->queued && w->queue[0].at <= until && sim_step(w))
        if (w->events >= limit)
            sim_fail(w, "%s: %llu events and no end", what, (unsigned long long)most);
    if (!w->failed && until != UINT64_MAX && w->now < until)
        w->now = until;
}

/* ---------------------------------------------------------------- the record */

void sim_fold(sim_world_t *w, uint64_t value)
{
    w->hash = (w->hash ^ value) * 0x100000001b3ull;
    w->hash ^= w->hash >> 29;
}

void sim_print(const sim_world_t *w, const char *format, ...)
{
    va_list args;

    printf("%10.6f ", (double)(w->now - SIM_START) / 1e9);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
}

void sim_fail(sim_world_t *w, const char *format, ...)
{
    va_list args;

    if (w->failed)
        return;
    w->failed = true;
    va_start(args, format);
    vsnprintf(w->why, sizeof(w->why), format, args);
    va_end(args);
    sim_note(w, "FAILED: %s", w->why);
}
