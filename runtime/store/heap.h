/* SPDX-License-Identifier: Apache-2.0 */
/* Heap: runs of pages, for large objects and for slabs. Called inside a transaction; each
 * function takes the heap's lock for it.
 *
 * Free runs hang in 256 bins by length (exact below 8 pages, then 8 bins per doubling), of each
 * zone its own. Both ends of a run carry its kind and length, so that a freed run finds its
 * neighbours and grows together with them at once: two free runs never touch.
 */
#ifndef CRTI_STORE_HEAP_H
#define CRTI_STORE_HEAP_H

#include "runtime/store/transaction.h"

/* Lists of pages, linked through `links` (or `more`), doubly so that any page can leave. */
typedef enum crti_arena_chain {
    CRTI_ARENA_CHAIN_LINKS,
    CRTI_ARENA_CHAIN_MORE
} crti_arena_chain_t;
crt_status_t crti_arena_list_push(crti_store_t *store, crti_arena_list_t *list,
                                  crti_arena_chain_t chain, uint32_t page);
crt_status_t crti_arena_list_unlink(crti_store_t *store, crti_arena_list_t *list,
                                    crti_arena_chain_t chain, uint32_t page);

/* Bin of a run of `pages`. */
unsigned crti_heap_bin(uint32_t pages);

/* Takes a run and gives it kind, class and slot. `for_pins` may use the reserve.
 * CRT_ERR_STORE_FULL. */
crt_status_t crti_heap_alloc(crti_store_t *store, uint32_t pages, crti_page_kind_t kind,
                             unsigned class, unsigned slot, bool for_pins,
                             uint32_t *page_out);

/* Gives back a run in use. */
crt_status_t crti_heap_free(crti_store_t *store, uint32_t page);

/* The length of a free run, and where it starts. */
typedef struct crti_free_run {
    uint32_t page, length;
} crti_free_run_t;

/* Daemon: the free runs of `least` pages or more, longest first, at most `room` of them, and the
 * first page of the slabs' zone. */
crt_status_t crti_heap_survey(crti_store_t *store, uint32_t least, crti_free_run_t *runs,
                              size_t room, size_t *count_out, uint32_t *floor_out);

/* Daemon: the most pages that were in use since the last call. */
crt_status_t crti_heap_peak(crti_store_t *store, uint64_t *peak_out);

/* Daemon: takes `pages` from page `first` on out of the free run `run`, while their memory goes
 * back to the system; crti_heap_free ends it. CRT_ERR_NOT_FOUND: they are free no more. */
crt_status_t crti_heap_cool(crti_store_t *store, uint32_t run, uint32_t first,
                            uint32_t pages);

/* Whether crti_heap_alloc would find `pages` for an object, or for a slab of objects; *page_out is
 * a run that fits or 0. */
crt_status_t crti_heap_find(crti_store_t *store, uint32_t pages, uint32_t *page_out);

/* Lays out the empty heap of a new arena; no other process exists yet. */
void crti_heap_format(crti_store_t *store);

#endif
