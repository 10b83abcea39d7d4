/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines: a binary heap of moments, the earliest first; of equal ones the one that was set
 * first.
 *
 * Where it sits
 *     net_io.c (time of peers), loop.c (timers) -> [ deadlines ]
 * Threads: none of its own; the caller's lock covers it.
 * Ownership: items are members of the caller's structs, zero-initialised; they are removed
 * before their memory goes.
 */
#ifndef CRTI_NET_DEADLINES_H
#define CRTI_NET_DEADLINES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"

typedef struct crti_deadline {
    uint64_t at;    /* of crti_now_ns; written by crti_deadlines_set */
    uint64_t order; /* of the call that set it */
    size_t place;   /* 1 + index in the heap, 0: not in it */
} crti_deadline_t;

typedef struct crti_deadlines {
    crti_deadline_t **items;
    size_t count, capacity;
    uint64_t next_order;
} crti_deadlines_t;

/* Inserts or moves. CRT_ERR_NO_MEMORY leaves it as it was. */
crt_status_t crti_deadlines_set(crti_deadlines_t *heap, crti_deadline_t *item,
                                uint64_t at);

/* Nothing happens when it is not in the heap. */
void crti_deadlines_remove(crti_deadlines_t *heap, crti_deadline_t *item);

/* Frees the heap; no item is in it any more. */
void crti_deadlines_fini(crti_deadlines_t *heap);

/* UINT64_MAX when there is none. */
static inline uint64_t crti_deadlines_first(const crti_deadlines_t *heap)
{
    return heap->count ? heap->items[0]->at : UINT64_MAX;
}

#endif
