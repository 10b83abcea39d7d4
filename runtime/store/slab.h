/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs: runs of pages cut into up to 64 equal units, for small objects and for the store's own
 * records (entries, pins). Each slot has its own slabs (its sub-arena), so that processes do not
 * meet; another process that frees a unit takes the lock of the slot it came from. Called
 * inside a transaction.
 *
 * A unit's reference is page << 6 | unit; 0 is none.
 */
#ifndef CRTI_STORE_SLAB_H
#define CRTI_STORE_SLAB_H

#include "runtime/store/heap.h"

/* The class of a small object (at most CRTI_SMALL_BYTES), and the bytes of a class's units. */
unsigned crti_slab_class(size_t size);
uint32_t crti_slab_unit_bytes(unsigned class);

/* Units in a slab of that many pages. */
unsigned crti_slab_units(unsigned class, uint32_t pages);

/* Takes a unit of the own slot. CRT_ERR_STORE_FULL. */
crt_status_t crti_slab_alloc(crti_store_t *store, unsigned class, uint64_t *ref_out);

/* Of what the next crti_slab_alloc of the class reads first, and of a record (a unit of entries or
 * pins): on their way to this processor while something else is waited for. The numbers may be
 * any. */
void crti_slab_fetch_ahead(const crti_store_t *store, unsigned class);
void crti_slab_fetch_unit(const crti_store_t *store, uint64_t ref);

/* Gives a unit back to the slab of whatever slot. */
crt_status_t crti_slab_free(crti_store_t *store, uint64_t ref);

/* Pages that the own slot would take from the heap for its next unit of the class; 0 when it has
 * one at hand. */
uint32_t crti_slab_need(const crti_store_t *store, unsigned class);

/* A slab without a used unit that the slot keeps at hand; 0: none. A hint, no lock is taken. */
uint32_t crti_slab_idle(const crti_store_t *store, unsigned slot, unsigned class);

/* A slab of that slot and class goes back to the heap when it has no used unit. */
crt_status_t crti_slab_drop(crti_store_t *store, uint32_t page, unsigned slot,
                            unsigned class);

/* The unit behind a reference when it is one of that class and in use, else NULL; its slot in
 * *slot_out unless NULL. */
void *crti_slab_unit(crti_store_t *store, uint64_t ref, unsigned class,
                     unsigned *slot_out);

#endif
