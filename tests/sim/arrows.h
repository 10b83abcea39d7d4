/* SPDX-License-Identifier: Apache-2.0 */
/* Arrows: which steps of the state machines a run has taken.
 *
 * Where it sits
 *     set_state of each machine -> CRTI_ARROW (runtime/base/arrow.h) -> [ arrows ] -> runner.c
 * Idea
 *     The machines are compiled for the simulation with CRT_SIM, which makes CRTI_ARROW call
 *     crti_arrow_taken with the machine's own table. So the registry needs no list of arrows: it
 *     learns a machine with its first arrow, and the table says which others there are.
 */
#ifndef TESTS_SIM_ARROWS_H
#define TESTS_SIM_ARROWS_H

#include "tests/sim/world.h"

/* Arrows from now on belong to this world's hash and trace; NULL: to none. */
void sim_arrows_watch(sim_world_t *world);

/* Prints the arrows of each of the `count` machines, and which were never taken. Returns how
 * many are missing; a machine that was not met at all counts as one. */
int sim_arrows_report(const char *const *machines, int count);

/* For seeds that run in a process of their own: what it has counted is written to `memory` there,
 * and added here. The tables lie where they lay before the fork. */
size_t sim_arrows_size(void);
void sim_arrows_forget(void); /* in the new process: it begins to count */
void sim_arrows_export(void *memory);
void sim_arrows_add(const void *memory);

#endif
