/* SPDX-License-Identifier: Apache-2.0 */
/* Object store of one node: objects in shared memory that every process of the node reads in
 * place.
 *
 * Where it sits
 *     core (put, get, refs), node (transfers) -> [ store ] -> one unnamed shared file per node
 *     docs/design/store.md has the layout, the invariants and the rules of recovery.
 * Life of an object
 *     create -> write -> seal -> get ... release -> free
 *     It is made once, never changes after its seal, and is known by its id to every process
 *     of the node. The primary copy stays until its owner frees it, even when the process that
 *     made it has died; a copy (pulled from another node) may be evicted whenever no process
 *     pins it. Freed objects can't be got any more; their memory comes back with the last pin.
 * Threads
 *     Every function may be called from any thread, unless it says "daemon only" (those are
 *     called by the node daemon, from any one thread at a time). No call here ever sends a
 *     message, and only crti_store_wait_space sleeps.
 * Ownership
 *     Blocks and pins belong to the process (its slot) until seal and release. When a process
 *     ends at whatever instruction, the daemon calls crti_store_reclaim and they come back.
 * Failure
 *     A process that is stopped inside a call can hold up others for a moment. They give up
 *     after CRTI_STORE_PATIENCE_NS with CRT_ERR_TIMED_OUT (the daemon after
 *     CRTI_STORE_DAEMON_PATIENCE_NS). Before that crti_store_stalled tells the daemon which process
 *     to end, so that a process that is stopped for good holds up others for less than a second.
 *     Whatever else lies in the shared tables, no call crashes or loops: CRT_ERR_CORRUPT.
 */
#ifndef CRTI_STORE_STORE_H
#define CRTI_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"

#define CRTI_STORE_MIN_BYTES          (8u << 20) /* the smallest store that makes sense */
#define CRTI_STORE_MAX_SLOTS          32768u
#define CRTI_STORE_ALIGNMENT          64u            /* of every object's data */
#define CRTI_STORE_PATIENCE_NS        10000000000ull /* wait for another process's step */
#define CRTI_STORE_DAEMON_PATIENCE_NS 100000000ull
#define CRTI_STORE_USERS              4 /* largest users that stats and errors name */

typedef struct crti_store crti_store_t; /* one process's attachment to its node's arena */

/* What crti_store_get gives: the object in place. Borrowed: valid until crti_store_release of
 * this view. All zero is no view. */
typedef struct crti_store_view {
    /* read only, aligned to CRTI_STORE_ALIGNMENT; never NULL, also for size 0 */
    const void *data;
    size_t size;
    uint64_t pin; /* the store's own mark of this pin; never 0 */
} crti_store_view_t;

/* ---------------------------------------------------------------- making and joining */

/* Daemon only. Makes the arena with room for `bytes` of objects and for processes in slots
 * 0 ... process_slots - 1, and attaches the daemon itself in slot 0. Memory is taken from the
 * host as it is used, so this is fast. CRT_ERR_NO_MEMORY when the host (or the control group)
 * has not that much; CRT_ERR_INVALID for too few bytes or too many slots.
 * Caller owns the result and frees it with crti_store_detach. */
crt_status_t crti_store_new(size_t bytes, unsigned process_slots,
                            crti_store_t **store_out);

/* The shared file, to be handed to processes of this node over a unix socket (SCM_RIGHTS).
 * Borrowed: valid until crti_store_detach. Close-on-exec. */
int crti_store_fd(const crti_store_t *store);

/* Joins the arena behind `fd` (which stays the caller's and may be closed afterwards). `slot`
 * is given by the daemon and unique among living processes (1 or more; reuse the lowest free
 * one first: a slot's memory is reused by the slot's next process); `process` names this process in
 * messages. CRT_ERR_CORRUPT when the file is no arena of this version.
 * Caller owns the result and frees it with crti_store_detach. */
crt_status_t crti_store_attach(int fd, unsigned slot, crti_id_t process,
                               crti_store_t **store_out);

/* Daemon only. What the process in `slot` makes from now on is of this group (0 before): a job
 * that several processes have in common. The group of an object is told when it is to be saved. */
void crti_store_set_group(crti_store_t *store, unsigned slot, uint16_t group);

/* Gives back this process's pins and unsealed blocks and unmaps: every view and every pointer
 * from create is invalid afterwards, but for what is kept. No other thread may be inside a call.
 * NULL is fine. */
void crti_store_detach(crti_store_t *store);
CRTI_DEFINE_AUTO(crti_store_t *, crti_store_detach)

/* The memory of a view that is not released, or of an object that is being written, stays where it
 * is after the detach, as a copy that is the process's own, until crti_kept_drop. NULL: no memory
 * to remember it. */
typedef struct crti_kept crti_kept_t;
crti_kept_t *crti_store_keep(crti_store_t *store, const void *data, size_t size);
void crti_kept_drop(crti_kept_t *kept); /* NULL is fine */

/* ---------------------------------------------------------------- objects */

/* Room for an object of `size` bytes (0 is fine), to be written through *data_out and then
 * sealed or aborted by this process. Evicts unpinned copies when needed, the longest unused first.
 *   CRT_ERR_EXISTS      this node has the object, or a process is writing it
 *   CRT_ERR_STORE_FULL  no room now: crti_store_wait_space, then again
 *   CRT_ERR_TOO_LARGE   there never will be */
crt_status_t crti_store_create(crti_store_t *store, crti_object_id_t id, size_t size,
                               void **data_out);

/* The same in steps, for a caller that must not block for long: pages of large objects that were
 * never used take the host seconds per GB. Before a part of the object is written (from `data` on,
 * `size` bytes) it is prepared. CRT_ERR_NO_MEMORY: the host has no memory for it. */
crt_status_t crti_store_reserve(crti_store_t *store, crti_object_id_t id, size_t size,
                                void **data_out);
crt_status_t crti_store_prepare(crti_store_t *store, void *data, size_t size);

/* Sleeps until an object of `size` bytes has a chance to find room (then CRT_OK: create again;
 * another creator may have been faster) or until `deadline_ns` of crti_now_ns. The deadline
 * gives CRT_ERR_STORE_FULL with the largest users named. */
crt_status_t crti_store_wait_space(crti_store_t *store, size_t size,
                                   uint64_t deadline_ns);

/* The object this process created is complete: all processes see it from now on. `primary`: it
 * stays until crti_store_free; else it is a copy that may be evicted while no process
 * pins it. Don't write to it any more. If the owner freed it meanwhile it is gone, which is not
 * an error. CRT_ERR_NOT_FOUND when this process is not writing such an object. */
crt_status_t crti_store_seal(crti_store_t *store, crti_object_id_t id, bool primary);

/* A copy that is sealed here stays from now on until crti_store_free, like the primary one.
 * CRT_ERR_NOT_FOUND: it is not here (any more). */
crt_status_t crti_store_make_primary(crti_store_t *store, crti_object_id_t id);

/* The object this process created will not be completed; its memory comes back. Unknown or
 * sealed ids are ignored. */
void crti_store_abort(crti_store_t *store, crti_object_id_t id);

/* Pins a sealed object for this process. Each get has its own release, in any order, also when
 * several views show the same object. CRT_ERR_NOT_FOUND when it is not sealed on this node. */
crt_status_t crti_store_get(crti_store_t *store, crti_object_id_t id,
                            crti_store_view_t *view_out);

/* Undoes one get and clears the view. A cleared view is ignored. */
void crti_store_release(crti_store_t *store, crti_store_view_t *view);

/* True when it is sealed on this node. A copy may be evicted right afterwards. */
bool crti_store_contains(crti_store_t *store, crti_object_id_t id);

/* The owner needs the object no more (any process may carry this out, also for an object that
 * another one made or is writing): gone for new gets at once, the memory comes back with the
 * last pin. Unknown ids are ignored. */
void crti_store_free(crti_store_t *store, crti_object_id_t id);

/* memcpy for object data: faster than the C library's for large sizes, and leaves the
 * processor's caches to others. From 8 MiB on a second thread helps while a core is free; it has
 * ended, all its signals blocked, when this returns. The spans must not overlap. */
void crti_store_copy(void *destination, const void *source, size_t size);

/* Why no room is made by saving objects outside; "" when it is. Any process. */
void crti_store_spill_trouble(const crti_store_t *store, char *text, size_t size);

/* Whether somebody waits for room and the daemon has not looked since: it does not run just now.
 * Any process. */
bool crti_store_spill_is_unheard(const crti_store_t *store);

/* Bytes that were saved outside since the arena was made: room is being made while it grows. Any
 * process. */
uint64_t crti_store_saved_bytes(const crti_store_t *store);

/* ---------------------------------------------------------------- node daemon */

/* Spilling, daemon only. Its saver (one thread) saves the coldest primary objects outside, ahead of
 * need; whoever needs memory then evicts them like copies, but they stay known, as spilled. A get
 * does not find them (CRT_ERR_NOT_FOUND) until the daemon has restored them.
 *
 *     choose -> get -> (write the bytes) -> saved -> ... evicted by anybody ...
 *         -> restore -> (read the bytes) -> seal, or abort and lose
 *
 * Where the bytes are the daemon remembers; it drops them when crti_store_spill_gone names the
 * object. */

/* Why no room is made, for the errors of those who want it. */
typedef enum crti_store_spill {
    CRTI_STORE_SPILL_OFF,
    CRTI_STORE_SPILL_ON,
    CRTI_STORE_SPILL_FAILS,  /* the errno of the last try */
    CRTI_STORE_SPILL_LIMIT,  /* the bytes that may be used are used */
    CRTI_STORE_SPILL_SHARE,  /* ... those that one group may use */
    CRTI_STORE_SPILL_STALLS, /* a write takes very long */
} crti_store_spill_t;

/* What it does now; `error` of FAILS, of SHARE the group; `limit` of LIMIT and of SHARE. Begins
 * with the first state other than OFF: from then on the saver is woken when 80 % of the pages are
 * used and when somebody waits. */
void crti_store_spill_set(crti_store_t *store, crti_store_spill_t state, int error,
                          uint64_t limit);

/* The saver sleeps until it is asked or `deadline_ns`; with `rests` until somebody waits. True:
 * somebody waits for room. */
bool crti_store_spill_sleep(crti_store_t *store, bool rests, uint64_t deadline_ns);
/* Wakes it for good. */
void crti_store_spill_wake(crti_store_t *store);

/* An object that is to be saved. */
typedef struct crti_store_cold {
    crti_object_id_t id;
    uint64_t size;
    uint16_t group;
} crti_store_cold_t;

/* Which objects may be saved: all where `may` is NULL. `held`: the group of one that may not, and
 * would be chosen else; `is_held` tells whether there is one. */
typedef struct crti_store_choice {
    bool (*may)(void *user, uint16_t group, uint64_t size);
    void *user;
    bool is_held;
    uint16_t held;
} crti_store_choice_t;

/* The coldest primary objects, unpinned and not saved, as many as it takes to keep a fifth of the
 * store free or evictable, or when somebody waits, as he needs (0 objects: nothing to do). Sorted,
 * the coldest first. Caller frees *cold_out. */
crt_status_t crti_store_spill_choose(crti_store_t *store, bool is_waited,
                                     crti_store_choice_t *choice,
                                     crti_store_cold_t **cold_out, size_t *count_out);

/* Undoes the daemon's get: the bytes of the object are safe outside. False: it was freed
 * meanwhile, and is not saved. */
bool crti_store_saved(crti_store_t *store, crti_store_view_t *view);

/* Room was made: `bytes` more are saved. Wakes those who wait. */
void crti_store_spill_made_room(crti_store_t *store, uint64_t bytes);

/* Memory for a spilled object, to be filled and sealed as primary. An abort makes it spilled again.
 * CRT_ERR_NOT_FOUND: it is not spilled. CRT_ERR_STORE_FULL. */
crt_status_t crti_store_restore(crti_store_t *store, crti_object_id_t id, void **data_out,
                                size_t *size_out);

/* The bytes of a spilled object can't be had: it is gone. Others are left as they are. */
void crti_store_lose(crti_store_t *store, crti_object_id_t id);

/* The next saved object that is gone: the daemon has to drop its bytes. False: there is none. */
bool crti_store_spill_gone(crti_store_t *store, crti_object_id_t *id_out);

/* Daemon only; once for each process. The process in `slot` has ended (it must no longer
 * exist): undoes what it was in the middle of, takes back its pins, unsealed blocks and locks,
 * and frees the slot. Also right for a process that died before it attached. CRT_ERR_TIMED_OUT
 * when another process stalls: the rest is done with later calls here, and the slot is not free
 * until then. */
crt_status_t crti_store_reclaim(crti_store_t *store, unsigned slot);

/* Daemon only. True when the slot can be given to a new process. */
bool crti_store_slot_is_free(const crti_store_t *store, unsigned slot);

/* Daemon only. `owner` has died: frees all its objects. Returns how many. */
size_t crti_store_drop_owner(crti_store_t *store, crti_id_t owner);

/* Daemon only. Asks about each owner of objects once, frees all objects of the owners for which
 * `is_dead` is true, and returns their number. */
size_t crti_store_drop_owners(crti_store_t *store,
                              bool (*is_dead)(void *user, crti_id_t owner), void *user);

/* Daemon only. Frees the objects of `owner` whose numbers are `number` where `mask` has ones.
 * Returns how many. */
size_t crti_store_drop_numbers(crti_store_t *store, crti_id_t owner, uint64_t number,
                               uint64_t mask);

/* Daemon only; call it some times a second. How many calls in a row, this one included, have seen
 * another process wait for the process in *slot_out, which does not move; 0 when none waits. After
 * enough calls (it is stopped, or faulty) end that process, then reclaim its slot. Calls are
 * counted instead of time: while the daemon does not run, other processes may not either. */
unsigned crti_store_stalled(crti_store_t *store, unsigned *slot_out);

struct crti_store_stats {
    size_t capacity;   /* bytes for objects */
    size_t used;       /* bytes taken, with rounding and tables of objects */
    size_t high_water; /* bytes of the arena that were used since memory was given back */
    size_t largest_free; /* about the largest object that finds room without evicting */
    size_t object_bytes; /* sum of the objects' sizes */
    size_t pinned_bytes; /* ... of those that some process has pinned */
    size_t
        evictable_bytes; /* ... of unpinned copies, and of unpinned objects that are saved */
    uint64_t objects;
    uint64_t unsealed;        /* of them, being written */
    uint64_t pins;            /* views in all processes */
    uint64_t evictions;       /* since the arena was made */
    bool huge_pages;          /* the arena lies on a tmpfs with huge pages */
    uint64_t spilled_objects; /* that have no memory here, besides `objects` */
    uint64_t spilled_bytes;
    unsigned user_count;
    struct {
        crti_id_t owner;
        uint32_t pid; /* 0 when the owner is not a process of this node */
        size_t bytes;
        uint64_t objects;
    } users[CRTI_STORE_USERS]; /* largest first, by owner */
};

/* Figures of this moment; walks all objects, so not for hot paths. Any process. */
void crti_store_stats(crti_store_t *store, struct crti_store_stats *stats_out);

#endif
