/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership: what the process that made a ref knows about its object, and when it ends.
 *
 * Where it sits
 *     events (calls, replies, records of borrowers, deaths) -> [ ownership ] -> what to do now
 *     runtime/core/refs/refs.c carries it out, missing.c and copies.c what concerns copies;
 *     tests/sim runs it without sockets.
 * Threads
 *     None; pure: no I/O, no clock, no globals. The caller's lock covers the struct.
 * Ownership
 *     Lists inside the struct are its own until crti_owned_fini.
 * Invariants
 *     While anybody holds the object (a handle here, a call in flight, a borrower that lives),
 *     it is not freed. When nobody does and it is not pending, it is freed at once.
 *     A registration is a token: given once, released once, or ended by the borrower's death.
 *     Nothing follows FREED.
 */
#ifndef CRTI_CORE_OWNERSHIP_H
#define CRTI_CORE_OWNERSHIP_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"

/*             small value            nobody holds it
 *  PENDING -------------> INLINE -----------------------+
 *   ^ |  \  in a store                                  v
 *   | |   +-------------> STORED ---------------------> FREED
 *   | |                   |   ^ |  last copy lost, its  ^
 *   | |  last copy lost,  |   | v  place was told       |
 *   +-|-------------------|-- MISSING ------------------+
 *     |  its task is run  |     | waited for in vain    |
 *     |  once more        v     v                       |
 *     +-----------------> FAILED -----------------------+
 *        error
 *
 *  STORED is FAILED, too, when its bytes can't be brought to the owner that wants to read them.
 *
 *  Whoever was told where an object is may have made a copy, and the word of it (crti_owned_copy)
 *  may come later than that of the death. So the object is MISSING until such word comes, or until
 *  somebody wants it and has waited long enough: only then it is lost, and stays so, whatever
 *  comes later: one reader must not find what another was told to be gone. An object that its task
 *  can make again (is_repeatable) is PENDING then.
 *
 *  A result of a call that is made again before its end is MISSING, too, when what the attempt that
 *  brought it has stored is freed: it is PENDING and STORED when the next one brings it.
 *
 *  An object that nobody holds, but from which others were made that may have to be made again
 *  (is_kept), is not FREED: its bytes are spare, and it is MISSING when they were given up.
 */
typedef enum crti_owned_state {
    CRTI_OWNED_PENDING,
    CRTI_OWNED_INLINE,
    CRTI_OWNED_STORED,
    CRTI_OWNED_MISSING,
    CRTI_OWNED_FAILED,
    CRTI_OWNED_FREED,
    CRTI_OWNED_STATES
} crti_owned_state_t;

/* What the caller does after an event, as bits. */
enum {
    /* the last copy is gone: it has failed with CRT_ERR_OBJECT_LOST */
    CRTI_OWNED_LOST = 2,
    /* nobody needs it: free its bytes on all `nodes`, drop what it refers to, forget it */
    CRTI_OWNED_FREE = 4,
    CRTI_OWNED_MISSED = 8, /* no copy is known any more: whoever wants it waits */
    CRTI_OWNED_FOUND = 16, /* a copy is known again: they go on */
    CRTI_OWNED_SPARE = 32  /* STORED, and only is_kept: its bytes may be given up */
};

typedef struct crti_borrower {
    crti_id_t process;
    uint64_t tokens;
} crti_borrower_t;

typedef struct crti_owned {
    crti_owned_state_t state : 8;
    bool is_told : 1;       /* somebody knows where it is, and may have made a copy */
    bool is_kept : 1;       /* what was made from it may have to be made again */
    bool is_repeatable : 1; /* so may it: its task can be run once more */
    uint16_t node_count;    /* nodes that have its bytes */
    uint32_t local;         /* handles and containers in this process */
    uint32_t pins;          /* calls in flight that it is an argument of */
    uint32_t borrower_count;
    crti_borrower_t *borrowers;
    crti_id_t *nodes;
    crti_id_t first_node; /* `nodes` points here while one is enough */
} crti_owned_t;

const char *crti_owned_state_name(crti_owned_state_t state);
bool crti_owned_may_follow(crti_owned_state_t state, crti_owned_state_t next);

/* A new object, with one local hold. */
void crti_owned_init(crti_owned_t *owned);
void crti_owned_fini(crti_owned_t *owned);

/* Handles and containers of this process. */
static inline void crti_owned_hold(crti_owned_t *owned)
{
    owned->local++;
}
unsigned crti_owned_drop(crti_owned_t *owned);

/* Calls in flight. */
static inline void crti_owned_pin(crti_owned_t *owned)
{
    owned->pins++;
}
unsigned crti_owned_unpin(crti_owned_t *owned);

/* The value came: inline, failed, or stored on `node`; or what was stored can't be had, and has
 * FAILED. Others (a late answer after an error) change nothing. Held meanwhile, until the waiters
 * were told. */
void crti_owned_resolve(crti_owned_t *owned, crti_owned_state_t state, crti_id_t node);

/* Registers a borrower once more. CRT_ERR_NOT_FOUND when the object is freed. */
crt_status_t crti_owned_borrow(crti_owned_t *owned, crti_id_t process);
/* Gives `tokens` of its registrations back; more than it has are ignored. */
unsigned crti_owned_release(crti_owned_t *owned, crti_id_t process, uint64_t tokens);

/* Somebody hears where its bytes are. */
static inline void crti_owned_tell(crti_owned_t *owned)
{
    owned->is_told = true;
}
/* A node has a copy now. Without memory it is not counted, as if it had been evicted. */
unsigned crti_owned_copy(crti_owned_t *owned, crti_id_t node);
/* Somebody wants it, and no word of a copy came: it is lost, if it is MISSING. */
unsigned crti_owned_give_up(crti_owned_t *owned);

/* Others were made from it that may have to be made again; no longer. */
static inline void crti_owned_keep(crti_owned_t *owned)
{
    owned->is_kept = true;
}
unsigned crti_owned_unkeep(crti_owned_t *owned);
static inline void crti_owned_set_repeatable(crti_owned_t *owned, bool is_repeatable)
{
    owned->is_repeatable = is_repeatable;
}
/* Its copies, which are STORED, are given up: MISSING. */
void crti_owned_vacate(crti_owned_t *owned);
/* What is MISSING is made again: PENDING. */
void crti_owned_repeat(crti_owned_t *owned);
/* The node whose death took the last copy of a MISSING or lost one; zero: none did. */
crti_id_t crti_owned_lost_with(const crti_owned_t *owned);

/* Deaths. A process's registrations end; a node's copy is gone. */
unsigned crti_owned_process_died(crti_owned_t *owned, crti_id_t process);
unsigned crti_owned_node_died(crti_owned_t *owned, crti_id_t node);
/* The copy there is freed, and another one comes from the call that has made it. */
unsigned crti_owned_abandon(crti_owned_t *owned, crti_id_t node);

#endif
