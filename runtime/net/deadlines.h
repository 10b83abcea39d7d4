/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines: a binary heap of moments, the earliest first.
 *
 * Threads: none of its own; net's lock covers it.
 * Ownership: items are members of the caller's structs, zero-initialised; they are removed
 * before their memory goes.
 */
#ifndef CRTI_NET_DEADLINES_H
#define CRTI_NET_DEADLINES_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"

typedef struct crti_deadline {
    uint64_t at;  /* written by crti_deadlines_set */
    size_t place; /* 1 + index in the heap, 0: not in it */
} crti_deadline_t;

typedef struct crti_deadlines {
    crti_deadline_t **items;
    size_t count, capacity;
} crti_deadlines_t;

/* Inserts or moves. CRT_ERR_NO_MEMORY leaves it as it was. */
crt_status_t crti_deadlines_set(crti_deadlines_t *heap, crti_deadline_t *item,
                                uint64_t at);

/* Nothing happens when it is not in the heap. */
void crti_deadlines_remove(crti_deadlines_t *heap, crti_deadline_t *item);

/* Frees the table; the items are forgotten. */
void crti_deadlines_fini(crti_deadlines_t *heap);

/* UINT64_MAX when there is none. */
static inline uint64_t crti_deadlines_first(const crti_deadlines_t *heap)
{
    return heap->count ? heap->items[0]->at : UINT64_MAX;
}

#endif
