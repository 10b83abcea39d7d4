/* SPDX-License-Identifier: Apache-2.0 */
/* Seeds: random numbers that differ from process to process and from call to call, and are the same
 * in each run of a program that sets a seed.
 *
 * Where it sits
 *     crt_random_seed, calls (a seed for each call that is made) -> [ seeds.c ]
 * Threads
 *     Those of a call: its thread. Those of a driver: the core's lock.
 * Invariants
 *     A call's seed depends on its caller's and on how many calls that has made before, not on
 *     where or how often it runs.
 */
#ifndef CRTI_CORE_PROCESS_SEEDS_H
#define CRTI_CORE_PROCESS_SEEDS_H

#include <stdint.h>

#include "runtime/core/process/context.h"

/* Of a driver, or of a call that runs. */
struct crti_seeds {
    uint64_t seed;  /* 0: the program sets none */
    uint64_t calls; /* so many were made with a seed, */
    uint64_t drawn; /* and so many seeds the program was given */
};

/* This thread runs a call with these from now on; NULL: none. Not needed while no call of the
 * process has a seed. */
void crti_seeds_run(crti_seeds_t *seeds);

uint64_t crti_seed_next(crti_core_t *core);
/* Of a call that is made in this thread; 0: none is set. Lock held. */
static inline uint64_t crti_seed_of_call(crti_core_t *core)
{
    return core->has_seeds ? crti_seed_next(core) : 0;
}

#endif
