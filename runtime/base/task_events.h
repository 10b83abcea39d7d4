/* SPDX-License-Identifier: Apache-2.0 */
/* Task events: a ring of shared memory in which a process writes what becomes of its calls, attempt
 * by attempt. Its node reads it when somebody asks, and once more when the process has died.
 *
 * Where it sits
 *     core/calls/call_events.c, core/execution/run_events.c -> [ ring, behind the blackboard ] ->
 *     node/process/task_archive.c
 * An entry is one attempt of one call as one process sees it: who made it tells of its arguments,
 * its queue and its end, who runs it of its run. It is changed in place; when the ring is full the
 * oldest goes, one that has ended before one that has not. Threads
 *     One writer at a time. The reader is another process, at any time: each entry has a sequence
 *     number, odd while it is written.
 * Cost
 *     A process that makes more calls than CRTI_TASK_BUDGET in 100 ms records one of 256, chosen by
 *     the call's number, so that both sides choose the same ones. What is not recorded is counted.
 * Trust
 *     The ring belongs to the process: its reader takes any bytes.
 */
#ifndef CRTI_BASE_TASK_EVENTS_H
#define CRTI_BASE_TASK_EVENTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/id.h"

#define CRTI_TASK_NAME         64 /* bytes of a name with its final zero; longer ones are cut */
#define CRTI_TASK_TEXT         96
#define CRTI_TASK_SLOTS_WORKER 128
#define CRTI_TASK_SLOTS_DRIVER 4096
#define CRTI_TASK_BUDGET       1000 /* entries of 100 ms before calls are sampled */
/* The number under which an actor is the owner of its own creation. */
#define CRTI_TASK_CREATION_NUMBER UINT64_C(0xffffffffffffffff)

#define CRTI_TASK_LOG_UNKNOWN UINT64_MAX /* the node did not say where the log ends */

/* How far an attempt has come; each has the time at which it began. */
typedef enum crti_task_state {
    CRTI_TASK_NONE,
    CRTI_TASK_ARGUMENTS, /* waits for refs among its arguments */
    CRTI_TASK_QUEUED,    /* for its actor, or a worker */
    CRTI_TASK_SENT,      /* to the process that runs it */
    CRTI_TASK_RUNNING,
    CRTI_TASK_FINISHED,
    CRTI_TASK_FAILED,
    CRTI_TASK_STATES
} crti_task_state_t;

typedef enum crti_task_kind {
    CRTI_TASK_NORMAL,
    CRTI_TASK_METHOD,
    CRTI_TASK_CREATION,
    CRTI_TASK_COLLECTIVE, /* no call: what a member of a group took part in */
    CRTI_TASK_KINDS
} crti_task_kind_t;

/* Plain words and bytes: copied as a whole. */
typedef struct crti_task_event {
    crti_id_t owner;  /* who made the call; of a creation: the actor */
    uint64_t number;  /* of its result there */
    uint64_t attempt; /* the number that the attempt bears */
    crti_id_t parent_owner;
    uint64_t parent; /* the call that made it; 0: none */
    crti_id_t actor, worker, node;
    uint64_t at_ns[CRTI_TASK_STATES]; /* CLOCK_MONOTONIC, 0: not (seen here) */
    uint32_t attempts;                /* before it */
    int32_t pid;                      /* of the worker, 0: not known */
    int32_t status;                   /* crt_status_t of FAILED */
    /* Where the log of its worker ended when it began, and when it ended, as far as the worker has
     * heard: what it has printed is between. Of who runs it. */
    uint64_t log_from, log_to;
    uint8_t state, kind;
    bool is_run; /* written by who runs it */
    char name[CRTI_TASK_NAME];
    char text[CRTI_TASK_TEXT]; /* of FAILED: why */
} crti_task_event_t;

typedef struct crti_task_slot {
    _Atomic uint64_t sequence; /* odd while it is written */
    _Atomic uint64_t ticket;   /* of the entry, 0: none yet */
    crti_task_event_t event;
} crti_task_slot_t;

typedef struct crti_task_ring {
    _Atomic uint64_t tickets; /* given out: the entry of one is in slot ticket % slots */
    _Atomic uint64_t overwritten; /* entries that made room */
    _Atomic uint64_t skipped;     /* attempts that were not recorded */
    /* Calls of this process, recorded or not, and those of them that have failed. */
    _Atomic uint64_t made, failed;
    _Alignas(64) crti_task_slot_t slot[];
} crti_task_ring_t;

static inline size_t crti_task_ring_bytes(size_t slots)
{
    return sizeof(crti_task_ring_t) + slots * sizeof(crti_task_slot_t);
}

/* ------------------------------------------------------------------ writing */

typedef struct crti_task_writer {
    crti_task_ring_t *ring; /* NULL: nothing is recorded */
    size_t slots;
    uint64_t tickets;
    uint64_t window_ns; /* when the budget was filled last */
    unsigned budget;
} crti_task_writer_t;

/* `bytes` of zeroed memory that is shared with the reader; too few for a slot: nothing is
 * recorded. */
void crti_task_writer_init(crti_task_writer_t *writer, void *memory, size_t bytes);

/* One writer: no atomic addition is needed. */
static inline void crti_task_count(_Atomic uint64_t *counter)
{
    atomic_store_explicit(counter,
                          atomic_load_explicit(counter, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Whether the attempt that bears this number is recorded. */
static inline bool crti_task_is_chosen(crti_task_writer_t *writer, uint64_t attempt)
{
    if (!writer->ring)
        return false;
    if (writer->budget || (attempt * UINT64_C(0x9e3779b97f4a7c15)) >> 56 == 0)
        return true;
    crti_task_count(&writer->ring->skipped);
    return false;
}

/* A new entry, all zero, to be filled and given to crti_task_written. `*ticket_out` is what it is
 * changed by later. */
crti_task_event_t *crti_task_write(crti_task_writer_t *writer, uint64_t now_ns,
                                   uint64_t *ticket_out);
/* The same entry once more; NULL when it is gone. */
crti_task_event_t *crti_task_rewrite(crti_task_writer_t *writer, uint64_t ticket);
void crti_task_written(crti_task_writer_t *writer, crti_task_event_t *event);

/* It is in that state from now on. */
void crti_task_set_state(crti_task_event_t *event, crti_task_state_t state,
                         uint64_t now_ns);
/* Its name, or why it failed; cut to what there is room for. */
void crti_task_set_text(char *to, size_t room, const char *text, size_t size);

/* ------------------------------------------------------------------ reading */

/* The next entry from slot `*cursor` on (0 at first), checked: its enums are what they may be, its
 * texts end and are printable. False at the end of `slots`. `is_dead`: an entry that was never
 * finished counts, too. */
bool crti_task_read(const crti_task_ring_t *ring, size_t slots, bool is_dead,
                    size_t *cursor, crti_task_event_t *event_out);

/* The texts of an entry of strangers end and are printable from now on; false: its enums are not
 * what they may be. */
bool crti_task_make_sound(crti_task_event_t *event);

static inline bool crti_task_has_ended(const crti_task_event_t *event)
{
    return event->state >= CRTI_TASK_FINISHED;
}

/* Words of Ray's state API. */
const char *crti_task_state_name(crti_task_state_t state);
const char *crti_task_kind_name(crti_task_kind_t kind);

#endif
