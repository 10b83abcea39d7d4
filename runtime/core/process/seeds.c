/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers that can be drawn again. See seeds.h. */
#include "runtime/core/process/seeds.h"

#include "runtime/base/thread_local.h"
#include "runtime/core/process/entry.h"

enum { FOR_CALLS = 1, FOR_PROGRAM = 2 };

static CRTI_THREAD_LOCAL crti_seeds_t *running;

void crti_seeds_run(crti_seeds_t *seeds)
{
    running = seeds;
}

/* The finalizer of SplitMix64: each bit of the result depends on all of `x`. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Number `n` of those for `purpose`; never 0. */
static uint64_t derive(uint64_t seed, unsigned purpose, uint64_t n)
{
    uint64_t derived = mix(mix(seed ^ mix(purpose)) + n);

    return derived ? derived : 1;
}

uint64_t crti_seed_next(crti_core_t *core)
{
    crti_seeds_t *seeds = running ? running : core->seeds;

    return seeds->seed ? derive(seeds->seed, FOR_CALLS, ++seeds->calls) : 0;
}

static uint64_t draw(crti_seeds_t *seeds)
{
    return derive(seeds->seed, FOR_PROGRAM, ++seeds->drawn);
}

uint64_t crt_random_seed(void)
{
    crti_core_t *core = running || crti_is_forked() ? NULL : crti_enter_quiet();
    uint64_t seed = 0;

    if (running && running->seed)
        return draw(running);
    if (core && core->seeds->seed)
        seed = draw(core->seeds);
    if (core)
        crti_leave(core);
    return seed ? seed : derive(crti_id_random().low, FOR_PROGRAM, 0);
}
