/* SPDX-License-Identifier: Apache-2.0 */
/* Runner: a scenario under many seeds, and one seed again.
 *
 * Environment
 *     CRT_SEED=N    replay seed N with a readable trace, and print its hash
 *     CRT_SEEDS=N   so many seeds instead of SIM_SEEDS
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
} sim_scenario_t;

/* main() of a scenario's program: replays CRT_SEED, or runs the tests. */
int sim_main(int argc, char **argv, const sim_scenario_t *scenario);

#endif
