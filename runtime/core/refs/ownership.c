/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership of one object. See ownership.h. */
#include "runtime/core/refs/ownership.h"

#include <assert.h>
#include <stdlib.h>

#include "runtime/base/arrow.h"
#include "runtime/base/fault.h"

#define TO(state) (1u << CRTI_OWNED_##state)

static const crti_state_row_t states[CRTI_OWNED_STATES] = {
    [CRTI_OWNED_PENDING] = {"pending", TO(INLINE) | TO(STORED) | TO(FAILED)},
    [CRTI_OWNED_INLINE] = {"inline", TO(FREED)},
    [CRTI_OWNED_STORED] = {"stored", TO(MISSING) | TO(FAILED) | TO(FREED)},
    [CRTI_OWNED_MISSING] = {"missing", TO(STORED) | TO(PENDING) | TO(FAILED) | TO(FREED)},
    [CRTI_OWNED_FAILED] = {"failed", TO(FREED)},
    [CRTI_OWNED_FREED] = {"freed", 0},
};

const char *crti_owned_state_name(crti_owned_state_t state)
{
    return state < CRTI_OWNED_STATES ? states[state].name : "unknown";
}

bool crti_owned_may_follow(crti_owned_state_t state, crti_owned_state_t next)
{
    return states[state].next >> next & 1;
}

static void set_state(crti_owned_t *o, crti_owned_state_t next)
{
    assert(crti_owned_may_follow(o->state, next));
    CRTI_ARROW("ownership", states, o->state, next);
    o->state = next;
}

void crti_owned_init(crti_owned_t *o)
{
    *o = (crti_owned_t){.state = CRTI_OWNED_PENDING, .local = 1};
}

void crti_owned_fini(crti_owned_t *o)
{
    if (o->nodes != &o->first_node)
        free(o->nodes);
    free(o->borrowers);
    o->nodes = NULL;
    o->borrowers = NULL;
    o->node_count = o->borrower_count = 0;
}

/* After every event that lets go: the end, if it is one. A pending object waits for its value,
 * which may lie in a store and must be freed there. */
static unsigned check_end(crti_owned_t *o)
{
    if (o->local || o->pins || o->borrower_count || o->state == CRTI_OWNED_PENDING ||
        o->state == CRTI_OWNED_FREED)
        return 0;
    if (o->is_kept)
        return o->state == CRTI_OWNED_STORED ? CRTI_OWNED_SPARE : 0;
    set_state(o, CRTI_OWNED_FREED);
    return CRTI_OWNED_FREE;
}

unsigned crti_owned_drop(crti_owned_t *o)
{
    assert(o->local > 0);
    o->local--;
    return check_end(o);
}

unsigned crti_owned_unpin(crti_owned_t *o)
{
    assert(o->pins > 0);
    o->pins--;
    return check_end(o);
}

void crti_owned_resolve(crti_owned_t *o, crti_owned_state_t state, crti_id_t node)
{
    assert(o->local > 0);
    if (o->state != CRTI_OWNED_PENDING &&
        (state != CRTI_OWNED_FAILED || !crti_owned_may_follow(o->state, state)))
        return;
    set_state(o, state);
    if (state == CRTI_OWNED_STORED && o->node_count == 0) {
        o->first_node = node;
        o->nodes = &o->first_node;
        o->node_count = 1;
    }
}

/* Zero is one. */
static bool is_power_of_two(uint32_t count)
{
    return (count & (count - 1)) == 0;
}

/* ------------------------------------------------------------------ borrowers */

static crti_borrower_t *find_borrower(crti_owned_t *o, crti_id_t process)
{
    for (uint32_t i = 0; i < o->borrower_count; i++)
        if (crti_id_equal(o->borrowers[i].process, process))
            return &o->borrowers[i];
    return NULL;
}

crt_status_t crti_owned_borrow(crti_owned_t *o, crti_id_t process)
{
    crti_borrower_t *borrower = find_borrower(o, process);

    if (o->state == CRTI_OWNED_FREED)
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "the object was freed before it was borrowed");
    if (borrower) {
        borrower->tokens++;
        return CRT_OK;
    }
    if (is_power_of_two(o->borrower_count)) { /* then it may be full */
        uint32_t room = o->borrower_count ? o->borrower_count * 2 : 1;
        crti_borrower_t *grown = realloc(o->borrowers, room * sizeof(*grown));

        if (!grown)
            return crt_raise(CRT_ERR_NO_MEMORY, "%u borrowers of an object", room);
        o->borrowers = grown;
    }
    o->borrowers[o->borrower_count++] = (crti_borrower_t){process, 1};
    return CRT_OK;
}

static unsigned remove_borrower(crti_owned_t *o, crti_borrower_t *borrower)
{
    *borrower = o->borrowers[--o->borrower_count];
    return check_end(o);
}

unsigned crti_owned_release(crti_owned_t *o, crti_id_t process, uint64_t tokens)
{
    crti_borrower_t *borrower = find_borrower(o, process);

    if (!borrower)
        return 0;
    if (tokens < borrower->tokens && !CRTI_FAULT(2)) {
        borrower->tokens -= tokens;
        return 0;
    }
    return remove_borrower(o, borrower);
}

unsigned crti_owned_process_died(crti_owned_t *o, crti_id_t process)
{
    crti_borrower_t *borrower = find_borrower(o, process);

    return borrower ? remove_borrower(o, borrower) : 0;
}

/* ------------------------------------------------------------------ copies */

static bool make_room(crti_owned_t *o)
{
    bool is_first = o->nodes == &o->first_node;
    crti_id_t *grown;

    if (o->node_count == UINT16_MAX)
        return false;

    if (is_first ? o->node_count == 0 : !is_power_of_two(o->node_count))
        return true;
    grown = realloc(is_first ? NULL : o->nodes,
                    (o->node_count ? o->node_count * 2 : 1) * sizeof(*grown));
    if (!grown)
        return false;
    if (is_first)
        grown[0] = o->first_node;
    o->nodes = grown;
    return true;
}

/* Of a lost object the copy is known, too, so that it is freed with it. */
unsigned crti_owned_copy(crti_owned_t *o, crti_id_t node)
{
    if (!o->nodes || o->state == CRTI_OWNED_FREED)
        return 0; /* it was never stored */
    for (uint32_t i = 0; i < o->node_count; i++)
        if (crti_id_equal(o->nodes[i], node))
            return 0;
    if (!make_room(o))
        return 0;
    o->nodes[o->node_count++] = node;
    if (o->state != CRTI_OWNED_MISSING)
        return 0;
    set_state(o, CRTI_OWNED_STORED);
    return CRTI_OWNED_FOUND;
}

static unsigned lose(crti_owned_t *o)
{
    set_state(o, CRTI_OWNED_FAILED);
    return CRTI_OWNED_LOST | check_end(o);
}

unsigned crti_owned_give_up(crti_owned_t *o)
{
    return o->state == CRTI_OWNED_MISSING ? lose(o) : 0;
}

/* Whether that was the last copy of one that is stored. */
static bool forget_copy(crti_owned_t *o, crti_id_t node)
{
    uint32_t i = 0;

    while (i < o->node_count && !crti_id_equal(o->nodes[i], node))
        i++;
    if (i == o->node_count)
        return false;
    o->nodes[i] = o->nodes[--o->node_count];
    return o->node_count == 0 && o->state == CRTI_OWNED_STORED;
}

unsigned crti_owned_abandon(crti_owned_t *o, crti_id_t node)
{
    if (!forget_copy(o, node))
        return 0;
    set_state(o, CRTI_OWNED_MISSING);
    return CRTI_OWNED_MISSED;
}

unsigned crti_owned_node_died(crti_owned_t *o, crti_id_t node)
{
    if (!forget_copy(o, node))
        return 0;
    if ((!o->is_told && !o->is_repeatable) || CRTI_FAULT(8))
        return lose(o);
    set_state(o, CRTI_OWNED_MISSING);
    return CRTI_OWNED_MISSED;
}

/* ------------------------------------------------------------------ made again */

unsigned crti_owned_unkeep(crti_owned_t *o)
{
    o->is_kept = false;
    return check_end(o);
}

void crti_owned_vacate(crti_owned_t *o)
{
    set_state(o, CRTI_OWNED_MISSING);
    o->nodes[0] = (crti_id_t){0, 0};
    o->node_count = 0;
}

void crti_owned_repeat(crti_owned_t *o)
{
    set_state(o, CRTI_OWNED_PENDING);
    if (o->nodes != &o->first_node)
        free(o->nodes);
    o->nodes = NULL;
    o->node_count = 0;
    o->is_told = false;
}

crti_id_t crti_owned_lost_with(const crti_owned_t *o)
{
    bool is_lost = o->state == CRTI_OWNED_MISSING || o->state == CRTI_OWNED_FAILED;

    return is_lost && o->nodes && o->node_count == 0 ? o->nodes[0] : (crti_id_t){0, 0};
}
