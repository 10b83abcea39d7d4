/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of a seed: most seeds run with some limits (runtime/base/limit.h) that are not as they
 * were made, so that nothing rests on a number by chance.
 *
 * A seed has the same limits whatever else it does: they have a source of chance of their own.
 * Each is drawn between a fraction and a multiple of its default, in its range, and those that
 * depend on each other go together, as what users set must. */
#ifndef TESTS_SIM_SEED_LIMITS_H
#define TESTS_SIM_SEED_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* Sets the limits of this process to those of the seed. */
void sim_limits_draw(uint64_t seed);
/* Writes those of the seed that are not the default, as "name=value name=value"; "" for none. */
void sim_limits_text(uint64_t seed, char *text, size_t size);
/* How many times as long something may take as with the defaults. */
uint64_t sim_limits_slack(void);

#endif
