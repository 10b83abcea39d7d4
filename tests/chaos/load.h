/* SPDX-License-Identifier: Apache-2.0 */
/* Load: what a driver of the chaos workload does all the time, and how it tells of its end.
 *
 * Where it sits
 *     chaos_program.c -> [ load.c, names.c, variety.c, hoard.c ] -> crt, ledger.c
 * Threads
 *     Each load has a thread; `beat_ns` and `doing` are read by the one that looks for hangs.
 */
#ifndef CHAOS_LOAD_H
#define CHAOS_LOAD_H

#include <stdatomic.h>

#include <crt.h>

#define LOAD_SLOTS  24
#define LOAD_ACTORS 4
#define LOAD_STATUS 100

typedef struct load_slot {
    crt_ref_t *ref; /* NULL: free */
    const char *op;
    uint64_t number, target, began_ns;
    int64_t value, expected;
    bool is_known; /* `expected` is the result */
    bool is_tensor;
    bool is_read; /* the tensor is looked at */
    bool is_slow; /* as was told: it may become a hang */
    int actor;    /* index, -1 a task */
} load_slot_t;

typedef struct load_actor {
    crt_actor_t *handle;
    uint64_t id;
    bool restarts;
} load_actor_t;

typedef struct load {
    const char *role; /* of the driver */
    double rate;      /* calls per second */
    uint64_t random, origin, numbers;
    load_slot_t slots[LOAD_SLOTS];
    load_actor_t actors[LOAD_ACTORS];
    uint64_t ended, failed[LOAD_STATUS];
    _Atomic uint64_t beat_ns;
    const char *_Atomic doing;
} load_t;

/* Set by anyone; the loads then end what they began. */
extern atomic_bool load_is_over;
/* This driver's node or job is gone: nothing can be done any more. */
extern atomic_bool load_is_lost;
/* What must never happen was seen. */
extern atomic_int load_findings;

void *load_main(void *load);    /* calls, objects, actors that come and go */
void *names_main(void *load);   /* named actors and values, kept by the head */
void *variety_main(void *load); /* streams, concurrent actors, placement groups */
void *
hoard_main(void *load); /* more objects than the store holds, when it is asked for */
extern const crt_task_t variety_items, variety_twice;
extern const crt_actor_class_t variety_crowd;
/* Ends the named actors and values; false: one could not be ended. */
bool names_end(void);

void load_beat(load_t *load, const char *doing);
uint64_t load_random(load_t *load, uint64_t below);
/* A line to stdout that counts as a finding. */
void load_finding(const char *format, ...) CRT_PRINTF(1, 2);
/* Counts an outcome; one that no fault explains is a finding. */
void load_count(load_t *load, const char *op, crt_status_t status, const char *text);

#endif
