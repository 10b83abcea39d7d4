/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the items of a stream: its caller, who owns them, hands them out in ranges ahead of
 * their making; both sides keep those of the items that are still to come.
 *
 * Where it sits
 *     calls/stream.c (hands them out) -> CALL, CONSUMED -> execution/yield.c (names items by them)
 * Invariants
 *     They are used in the order of the items. A range is as large as half of what may be out at a
 *     time, or the last one: so there are few.
 */
#ifndef CRTI_CORE_ITEM_NUMBERS_H
#define CRTI_CORE_ITEM_NUMBERS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CRTI_ITEM_RANGES 4

typedef struct crti_item_numbers {
    struct {
        uint64_t first, count;
    } range[CRTI_ITEM_RANGES];
    unsigned used;
} crti_item_numbers_t;

/* False: there are too many ranges. */
static inline bool crti_item_numbers_add(crti_item_numbers_t *n, uint64_t first,
                                         uint64_t count)
{
    unsigned last = n->used - 1;

    if (count == 0)
        return true;
    if (n->used && n->range[last].first + n->range[last].count == first) {
        n->range[last].count += count;
        return true;
    }
    if (n->used == CRTI_ITEM_RANGES)
        return false;
    n->range[n->used].first = first;
    n->range[n->used++].count = count;
    return true;
}

/* That of the next item, which must have one. */
static inline uint64_t crti_item_number(const crti_item_numbers_t *n)
{
    return n->used ? n->range[0].first : 0;
}

/* The next item is made. */
static inline void crti_item_numbers_step(crti_item_numbers_t *n)
{
    if (!n->used)
        return;
    n->range[0].first++;
    if (--n->range[0].count == 0)
        memmove(&n->range[0], &n->range[1], --n->used * sizeof(n->range[0]));
}

#endif
