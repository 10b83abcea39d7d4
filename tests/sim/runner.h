/* SPDX-License-Identifier: Apache-2.0 */
/* Runner: a scenario under many seeds, and one seed again.
 *
 * Options, or the environment
 *     --seed N    CRT_SEED=N    replay seed N with a readable trace, and print its hash
 *     --seeds N   CRT_SEEDS=N   so many seeds instead of the scenario's number
 *     --from N    CRT_FROM=N    beginning with this one instead of 1
 *     --jobs N    CRT_JOBS=N    so many at a time (scenarios whose seeds are processes)
 *     --failures N CRT_FAILURES=N  go on until so many have failed (1)
 *     --limit N   CRT_LIMIT=N   seconds that a seed may compute (300): it fails then, and is named;
 *                               where seeds are not processes the run ends with it. 0: no limit
 *     --draw-limits 0 CRT_DRAW_LIMITS=0  with the default limits (seed_limits.h)
 */
#ifndef TESTS_SIM_RUNNER_H
#define TESTS_SIM_RUNNER_H

#include "tests/sim/world.h"

#define SIM_SEEDS  1000
#define SIM_EVENTS 5000 /* at least, of one seed */

typedef struct sim_scenario {
    const char *name;
    void (*run)(sim_world_t *world); /* until it failed or everything is at rest */
    const char *const *machines;     /* whose arrows must all be taken */
    int machine_count;
    bool forks;     /* each seed runs in a process of its own, and frees nothing */
    unsigned seeds; /* of an ordinary run; 0: SIM_SEEDS */
} sim_scenario_t;

/* main() of a scenario's program: replays CRT_SEED, or runs the tests. */
int sim_main(int argc, char **argv, const sim_scenario_t *scenario);

#endif
