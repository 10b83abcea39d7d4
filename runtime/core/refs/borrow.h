/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowing: what a process knows about an object that another process owns.
 *
 * Where it sits
 *     events (refs that arrive, handles, answers of the owner) -> [ borrow ] -> what to do now
 *     runtime/core/refs/refs.c carries it out; tests/sim runs it without sockets.
 * Threads
 *     None; pure: no I/O, no clock, no globals. The caller's lock covers the struct.
 * Idea
 *     A ref arrives inside something (the arguments of a call, the value of another ref): as long
 *     as that cover lasts, somebody else's hold keeps the object, and the owner need not
 *     know of us. When the cover ends and the ref is still held here, we register first and end
 *     the cover when the owner has answered. A ref that arrives in a result was registered
 *     for us by the giver: that is a token.
 * Invariants
 *     A handle never outlives both the covers and the registration.
 *     Every token that the owner gave us is released exactly once, or ends with us.
 */
#ifndef CRTI_CORE_BORROW_H
#define CRTI_CORE_BORROW_H

#include <stdbool.h>
#include <stdint.h>

/*                      token
 *     +------------------------------------------------+
 *     |       last cover ends, held        BORROWED    v
 *  COVERED ------------------> REGISTERING ---------> HELD
 *     |                            |                   |
 *     | owner died                 | owner died, gone  | owner died
 *     +------------> ORPHANED <----+-------------------+
 *
 *  COVERED, HELD and ORPHANED go to ENDED when nothing here holds or covers it; REGISTERING
 *  waits for the answer first.
 */
typedef enum crti_borrow_state {
    CRTI_BORROW_COVERED,
    CRTI_BORROW_REGISTERING,
    CRTI_BORROW_HELD,
    CRTI_BORROW_ORPHANED,
    CRTI_BORROW_ENDED,
    CRTI_BORROW_STATES
} crti_borrow_state_t;

/* What the caller does after an event, as bits. */
enum {
    CRTI_BORROW_REGISTER = 1, /* send BORROW to the owner */
    CRTI_BORROW_WAIT = 2,     /* the cover that just ended must last until BORROWED */
    CRTI_BORROW_UNCOVER = 4,  /* covers that waited may end now */
    CRTI_BORROW_RELEASE = 8,  /* send RELEASE with `tokens` to the owner */
    CRTI_BORROW_FORGET = 16   /* nothing is left of it */
};

typedef struct crti_borrow {
    crti_borrow_state_t state;
    uint32_t holds;  /* handles, calls in flight, containers of this process */
    uint32_t covers; /* calls and values it arrived in, which still last */
    uint64_t tokens; /* registrations at the owner */
} crti_borrow_t;

const char *crti_borrow_state_name(crti_borrow_state_t state);
bool crti_borrow_may_follow(crti_borrow_state_t state, crti_borrow_state_t next);

/* It arrived for the first time; crti_borrow_cover or crti_borrow_token follows. */
void crti_borrow_init(crti_borrow_t *borrow);

/* It arrived inside a call's arguments or another ref's value. */
static inline void crti_borrow_cover(crti_borrow_t *borrow)
{
    borrow->covers++;
}
/* That call or value ends. With CRTI_BORROW_WAIT it must not end yet: it goes on at
 * CRTI_BORROW_UNCOVER. */
unsigned crti_borrow_uncover(crti_borrow_t *borrow);

/* It arrived in a result, registered for us. */
unsigned crti_borrow_token(crti_borrow_t *borrow);

static inline void crti_borrow_hold(crti_borrow_t *borrow)
{
    borrow->holds++;
}
unsigned crti_borrow_drop(crti_borrow_t *borrow);

/* The owner answered BORROW; `gone` when it had freed the object. */
unsigned crti_borrow_answered(crti_borrow_t *borrow, bool gone);

unsigned crti_borrow_owner_died(crti_borrow_t *borrow);

#endif
