/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowing of one object. See borrow.h. */
#include "runtime/core/refs/borrow.h"

#include <assert.h>

#include "runtime/base/arrow.h"

#define TO(state) (1u << CRTI_BORROW_##state)

static const crti_state_row_t states[CRTI_BORROW_STATES] = {
    [CRTI_BORROW_COVERED] = {"covered",
                             TO(REGISTERING) | TO(HELD) | TO(ORPHANED) | TO(ENDED)},
    [CRTI_BORROW_REGISTERING] = {"registering", TO(HELD) | TO(ORPHANED)},
    [CRTI_BORROW_HELD] = {"held", TO(ORPHANED) | TO(ENDED)},
    [CRTI_BORROW_ORPHANED] = {"orphaned", TO(ENDED)},
    [CRTI_BORROW_ENDED] = {"ended", 0},
};

const char *crti_borrow_state_name(crti_borrow_state_t state)
{
    return state < CRTI_BORROW_STATES ? states[state].name : "unknown";
}

bool crti_borrow_may_follow(crti_borrow_state_t state, crti_borrow_state_t next)
{
    return states[state].next >> next & 1;
}

static void set_state(crti_borrow_t *b, crti_borrow_state_t next)
{
    assert(crti_borrow_may_follow(b->state, next));
    CRTI_ARROW("borrow", states, b->state, next);
    b->state = next;
}

void crti_borrow_init(crti_borrow_t *b)
{
    *b = (crti_borrow_t){.state = CRTI_BORROW_COVERED};
}

/* Nobody here wants it: give back what was registered. While REGISTERING the answer is awaited
 * first, so that the token it gives is known. */
static unsigned check_end(crti_borrow_t *b)
{
    bool is_registered = b->state == CRTI_BORROW_HELD;

    if (b->holds || b->covers || b->state == CRTI_BORROW_REGISTERING ||
        b->state == CRTI_BORROW_ENDED)
        return 0;
    set_state(b, CRTI_BORROW_ENDED);
    return CRTI_BORROW_FORGET | (is_registered ? CRTI_BORROW_RELEASE : 0);
}

unsigned crti_borrow_uncover(crti_borrow_t *b)
{
    assert(b->covers > 0);
    b->covers--;
    if (b->state == CRTI_BORROW_REGISTERING)
        return CRTI_BORROW_WAIT;
    if (b->state != CRTI_BORROW_COVERED || b->covers || !b->holds)
        return check_end(b);
    set_state(b, CRTI_BORROW_REGISTERING);
    return CRTI_BORROW_REGISTER | CRTI_BORROW_WAIT;
}

unsigned crti_borrow_token(crti_borrow_t *b)
{
    b->tokens++;
    if (b->state == CRTI_BORROW_COVERED)
        set_state(b, CRTI_BORROW_HELD);
    return 0;
}

unsigned crti_borrow_drop(crti_borrow_t *b)
{
    assert(b->holds > 0);
    b->holds--;
    return check_end(b);
}

unsigned crti_borrow_answered(crti_borrow_t *b, bool gone)
{
    if (b->state != CRTI_BORROW_REGISTERING)
        return 0; /* the owner's death was faster */
    if (!gone)
        b->tokens++;
    set_state(b, gone && !b->tokens ? CRTI_BORROW_ORPHANED : CRTI_BORROW_HELD);
    return CRTI_BORROW_UNCOVER | check_end(b);
}

unsigned crti_borrow_owner_died(crti_borrow_t *b)
{
    bool waited = b->state == CRTI_BORROW_REGISTERING;

    if (b->state == CRTI_BORROW_ORPHANED || b->state == CRTI_BORROW_ENDED)
        return 0;
    b->tokens = 0;
    set_state(b, CRTI_BORROW_ORPHANED);
    return (waited ? CRTI_BORROW_UNCOVER : 0) | check_end(b);
}
