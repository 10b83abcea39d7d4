/* SPDX-License-Identifier: Apache-2.0 */
/* World: virtual time, one source of chance, and the record of what happened.
 *
 * Where it sits
 *     scenario (test_session.c, ...) -> network, process -> [ world ];  runner.c makes one per seed
 * Idea
 *     Everything that happens is an event at a moment of virtual time; whoever wants
 *     something later schedules one. All chance comes from the world's seed. What happens is
 *     folded into a hash, so that "the same seed does the same" can be asserted.
 * Threads
 *     One. A world is used from the thread that made it.
 * Ownership
 *     The world owns its queue. What `user` of an event points to must live until the event has
 *     run or the world ends: processes do, sessions do not (they are looked up by number).
 * Failure
 *     sim_fail records the first broken invariant and stops the run; nothing aborts, so that
 *     the runner can print the line to run again.
 */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/clock.h"
#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"

typedef void sim_run_t(void *user, uint64_t number);

#define SIM_START (1000 * CRTI_S) /* of virtual time */

typedef struct sim_event sim_event_t;

typedef struct sim_world {
    uint64_t seed;
    uint64_t now;
    uint64_t events; /* that have run */
    uint64_t hash;
    uint64_t chance; /* state of the source */
    uint64_t serial; /* of the next event, id, nonce */
    sim_event_t *queue;
    size_t queued, room;
    bool trace; /* print what happens */
    bool failed;
    char why[400];
} sim_world_t;

void sim_world_init(sim_world_t *world, uint64_t seed, bool trace);
void sim_world_fini(sim_world_t *world);

/* Chance: 64 bits; below `limit` (> 0); from low to high, both included; true in `of_10000`
 * of 10000 cases. */
uint64_t sim_random(sim_world_t *world);
uint64_t sim_below(sim_world_t *world, uint64_t limit);
uint64_t sim_between(sim_world_t *world, uint64_t low, uint64_t high);
bool sim_chance(sim_world_t *world, unsigned of_10000);

/* An id that no other call gave, readable in a trace. */
crti_id_t sim_id(sim_world_t *world, uint64_t kind);

/* Runs `run(user, number)` after `delay`. */
void sim_after(sim_world_t *world, uint64_t delay, sim_run_t *run, void *user,
               uint64_t number);

/* Runs the next event. False: there is none, or the run has failed. */
bool sim_step(sim_world_t *world);

/* Runs events until the queue is empty, `until` has come, or it failed; fails with `what` after
 * `most` events, which is how a run that never comes to rest ends. */
void sim_run_until(sim_world_t *world, uint64_t until, uint64_t most, const char *what);

/* Folds something that happened into the hash. */
void sim_fold(sim_world_t *world, uint64_t value);

/* Prints one line when the run is traced. Arguments are not evaluated otherwise. */
#define sim_note(world, ...)                                                             \
    do {                                                                                 \
        if ((world)->trace)                                                              \
            sim_print((world), __VA_ARGS__);                                             \
    } while (0)
void sim_print(const sim_world_t *world, const char *format, ...) CRT_PRINTF(2, 3);

/* An invariant is broken. */
void sim_fail(sim_world_t *world, const char *format, ...) CRT_PRINTF(2, 3);

#endif
