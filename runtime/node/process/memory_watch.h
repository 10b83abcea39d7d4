/* SPDX-License-Identifier: Apache-2.0 */
/* Memory watch: when the node runs out of memory, which worker is ended for it. Pure: readings in,
 * verdicts out.
 *
 * Where it sits
 *     node/process/memory.c (reads /proc and control groups) -> [ node/process/memory_watch.c ] ->
 *     verdict -> kill
 * Rules
 *     Below 70 % of the memory only the node is read. From there on each worker is, too, so that it
 *     is known who grows. From the limit (95 %) on one worker is ended, then, when it is gone and
 *     the node is still beyond the limit, the next.
 *     1. The worker that grew most in the call that it is in, when that is at least 1/32 of the
 *        node's memory.
 *     2. Else the worker that grew most since its actor, or its lease, began: it leaks.
 *     A worker that has no memory any more is dying (killed by the kernel, or ended by itself), and
 *     what it had may still be counted: nobody else is ended until it is gone.
 *     Who has grown by less than 1/64 of the memory is not ended: it would not help. Neither is a
 *     driver: it is not among the workers that are read.
 *     The next reading is due before the memory that is left could be filled at 4 GB/s.
 * Ownership
 *     A record lies in the worker's own record (process.h) and is written by these functions alone.
 */
#ifndef CRTI_NODE_MEMORY_WATCH_H
#define CRTI_NODE_MEMORY_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*            70 %               95 %                    nobody grew
 *   CALM <--------> WATCHING ----------> (verdict) -------------------> HELPLESS
 *     ^                 ^                    |  END                         |
 *     |                 |                    v                              |
 *     +-----------------+----- gone ----- ENDING           below the limit  |
 *     +------------------------------------------------------ or somebody did
 */
typedef enum crti_memory_state {
    CRTI_MEMORY_CALM,
    CRTI_MEMORY_WATCHING, /* workers are read */
    CRTI_MEMORY_ENDING,   /* one was ended, or is dying, and is not gone yet */
    CRTI_MEMORY_HELPLESS, /* beyond the limit, and no worker to end; said once */
    CRTI_MEMORY_STATES
} crti_memory_state_t;

/* What is remembered of a worker. */
typedef struct crti_memory_record {
    uint64_t began;  /* bytes when its actor or lease began */
    uint64_t before; /* bytes when its call began, as far as that was seen */
    uint64_t last;   /* bytes at the last reading */
    uint64_t call;   /* number of its call at the last reading */
    uint64_t round;  /* of the last reading, 0: none */
} crti_memory_record_t;

/* One worker, read now. */
typedef struct crti_memory_worker {
    crti_memory_record_t *record;
    uint64_t bytes; /* that are its own */
    uint64_t call;  /* counts its calls */
    bool running;   /* it is in one */
} crti_memory_worker_t;

typedef struct crti_memory_watch {
    crti_memory_state_t state;
    unsigned limit; /* percent; 0: never */
    uint64_t round; /* counts times of watching, from CALM to CALM */
    uint64_t ending_ns;
} crti_memory_watch_t;

typedef enum crti_memory_verb {
    CRTI_MEMORY_NOTHING,
    CRTI_MEMORY_END,   /* end workers[worker] */
    CRTI_MEMORY_AWAIT, /* workers[worker] is dying; others are safe until it is gone */
    CRTI_MEMORY_WARN,  /* the node is beyond the limit and no worker grew: said once */
} crti_memory_verb_t;

typedef struct crti_memory_verdict {
    crti_memory_verb_t verb;
    size_t worker;
    uint64_t grown;   /* bytes ... */
    bool in_call;     /* ... since its call began, else since its actor or lease did */
    uint64_t next_ns; /* when to read again */
} crti_memory_verdict_t;

void crti_memory_watch_init(crti_memory_watch_t *watch, unsigned limit);

/* A worker begins an actor or a lease. */
void crti_memory_watch_began(const crti_memory_watch_t *watch,
                             const crti_memory_worker_t *worker);

/* True when the workers are to be read, too, for a node with `used` of `total` bytes. */
bool crti_memory_watch_wants(const crti_memory_watch_t *watch, uint64_t used,
                             uint64_t total);

/* A reading of the node and, if they were wanted, of all its workers. */
crti_memory_verdict_t crti_memory_watch_read(crti_memory_watch_t *watch, uint64_t now_ns,
                                             uint64_t used, uint64_t total,
                                             const crti_memory_worker_t *workers,
                                             size_t count);

/* The worker that was to be ended, or that was awaited, is gone. */
void crti_memory_watch_gone(crti_memory_watch_t *watch);

#endif
