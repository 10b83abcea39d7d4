/* SPDX-License-Identifier: Apache-2.0 */
/* Table: entries and their states (picture in arena.h).
 *
 * Where it sits
 *     store.c, space.c, reclaim.c -> [ store/table.c ] -> slab.c, heap.c
 * Threads
 *     The bucket's lock covers the chain and every word of its entries. Locks are taken in the
 *     order bucket, slot, heap.
 * Invariants
 *     Every used unit of an entry slab is in exactly one chain, that of its id. At most one
 *     entry of an id is not doomed. An entry's pins are the pin units that name it. Each block
 *     of data belongs to exactly one entry. An entry that is gone and was saved is in the heap's
 *     list `gone` instead.
 */
#include "runtime/store/table.h"

#include "runtime/base/clock.h"
#include "runtime/net/protocol.h"

#define ARROW(state) (1u << CRTI_ENTRY_##state)

static const unsigned next[CRTI_ENTRY_STATES] = {
    [CRTI_ENTRY_GONE] = 0,
    [CRTI_ENTRY_WRITING] = ARROW(SEALED) | ARROW(UNWANTED) | ARROW(SPILLED) | ARROW(GONE),
    [CRTI_ENTRY_UNWANTED] = ARROW(GONE),
    [CRTI_ENTRY_SEALED] = ARROW(SEALED) | ARROW(DOOMED) | ARROW(SPILLED) | ARROW(GONE),
    [CRTI_ENTRY_DOOMED] = ARROW(DOOMED) | ARROW(GONE),
    [CRTI_ENTRY_SPILLED] = ARROW(WRITING) | ARROW(GONE),
};

/* Numbers of one owner lie side by side (near in the cache), owners lie apart; and so do the many
 * results of one call, whose numbers differ in what is above CRTI_NUMBER_BITS only. */
CRTI_HOT crti_bucket_t *crti_table_bucket(const crti_store_t *store, crti_object_id_t id)
{
    uint64_t h = id.owner.high ^ (id.owner.low << 32 | id.owner.low >> 32);

    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ h >> 27) * 0x94d049bb133111ebull;
    h = (h ^ h >> 31) + id.number;
    h += (id.number >> CRTI_NUMBER_BITS) * 0x9e3779b97f4a7c15ull;
    return (crti_bucket_t *)(store->base + store->geometry.buckets_offset) +
           (h & (store->geometry.bucket_count - 1));
}

CRTI_HOT crt_status_t crti_table_find(crti_store_t *store, crti_object_id_t id,
                                      crti_found_t *found_out)
{
    crti_bucket_t *bucket = crti_table_bucket(store, id);
    crt_status_t status = crti_tx_lock(store, &bucket->lock);
    uint64_t ref, steps = 0;

    *found_out = (crti_found_t){.bucket = bucket};
    if (status != CRT_OK)
        return status;
    for (ref = crti_read(&bucket->head); ref != 0;) {
        crti_entry_t *entry;
        uint64_t state;

        crti_slab_fetch_unit(store, ref); /* beside its page's descriptor */
        entry = crti_slab_unit(store, ref, CRTI_CLASS_ENTRY, NULL);
        if (!entry || ++steps > store->geometry.page_count)
            return crti_tx_damaged(store, "a chain of entries is broken at", ref);
        state = crti_read(&entry->state);
        if (crti_object_id_equal(crti_entry_id(entry), id) &&
            crti_state_of(state) != CRTI_ENTRY_DOOMED) {
            *found_out = (crti_found_t){bucket, entry, ref, state};
            return CRT_OK;
        }
        ref = crti_read(&entry->next);
    }
    return CRT_OK;
}

crt_status_t crti_table_at(crti_store_t *store, uint64_t ref, crti_found_t *found_out)
{
    crti_entry_t *entry = crti_slab_unit(store, ref, CRTI_CLASS_ENTRY, NULL);
    crti_bucket_t *bucket;
    crt_status_t status;

    if (!entry)
        return crti_tx_damaged(store, "a pin names no entry", ref);
    bucket = crti_table_bucket(store, crti_entry_id(entry));
    status = crti_tx_lock(store, &bucket->lock);
    if (status == CRT_OK)
        *found_out = (crti_found_t){bucket, entry, ref, crti_read(&entry->state)};
    return status;
}

/* Room for the data: a unit of a slab, or pages. */
static crt_status_t take_block(crti_store_t *store, size_t size, uint64_t *place_out)
{
    uint32_t page = 0;
    uint64_t ref = 0;
    crt_status_t status;

    if (size <= CRTI_SMALL_BYTES) {
        status = crti_slab_alloc(store, crti_slab_class(size), &ref);
        *place_out = crti_pack((uint32_t)(ref >> 6), ref & 63);
        return status;
    }
    status = crti_heap_alloc(store, (uint32_t)crti_pages_for(size), CRTI_PAGE_OBJECT, 0,
                             store->slot, false, &page);
    *place_out = crti_pack(page, 0);
    return status;
}

crt_status_t crti_table_add(crti_store_t *store, crti_object_id_t id, size_t size,
                            crti_found_t *found)
{
    uint64_t ref = 0, place = 0;
    crti_entry_t *entry;
    crt_status_t status = crti_tx_lock(store, &store->me->lock);

    if (status == CRT_OK)
        status = take_block(store, size, &place);
    if (status == CRT_OK)
        status = crti_slab_alloc(store, CRTI_CLASS_ENTRY, &ref);
    if (status != CRT_OK)
        return status;
    entry = crti_slab_unit(store, ref, CRTI_CLASS_ENTRY, NULL);
    if (!entry)
        return crti_tx_damaged(store, "a new entry lies outside its slab", ref);
    /* Nobody finds it before the chain leads to it: no undo needed. */
    crti_write(&entry->next, crti_read(&found->bucket->head));
    crti_write(&entry->owner_high, id.owner.high);
    crti_write(&entry->owner_low, id.owner.low);
    crti_write(&entry->number, id.number);
    crti_write(&entry->size, size);
    crti_write(&entry->place, place);
    crti_write(&entry->stamp, 0);
    found->state = crti_state_word(CRTI_ENTRY_WRITING, 0, store->slot, 0);
    crti_write(&entry->state, found->state);
    store->marked = (uint32_t)(ref >> 6);
    crti_tx_set(store, &found->bucket->head, ref);
    found->entry = entry;
    found->ref = ref;
    return CRT_OK;
}

static crt_status_t unlink_entry(crti_store_t *store, const crti_found_t *found)
{
    crti_word_t *from = &found->bucket->head;
    uint64_t ref, steps = 0;

    while ((ref = crti_read(from)) != found->ref) {
        crti_entry_t *entry = crti_slab_unit(store, ref, CRTI_CLASS_ENTRY, NULL);

        if (!entry || ++steps > store->geometry.page_count)
            return crti_tx_damaged(store, "an entry is in no chain", found->ref);
        from = &entry->next;
    }
    crti_tx_set(store, from, crti_read(&found->entry->next));
    return CRT_OK;
}

static crt_status_t give_block(crti_store_t *store, const crti_entry_t *entry)
{
    uint64_t place = crti_read(&entry->place), ref;
    const crti_page_t *page = crti_page_at(store, place >> 32);
    uint64_t run = page ? crti_read(&page->run) : 0;
    unsigned class = crti_run_class(run);

    if (crti_run_kind(run) == CRTI_PAGE_OBJECT)
        return crti_heap_free(store, (uint32_t)(place >> 32));
    ref = place >> 32 << 6 | (place & 63);
    if (class < CRTI_CLASS_DATA || class >= CRTI_CLASSES ||
        !crti_slab_unit(store, ref, class, NULL))
        return crti_tx_damaged(store, "an object has no memory, place", place);
    return crti_slab_free(store, ref);
}

CRTI_HOT crt_status_t crti_table_move(crti_store_t *store, crti_found_t *found,
                                      crti_entry_state_t state, unsigned flags,
                                      uint32_t pins)
{
    crti_entry_state_t old = crti_state_of(found->state);

    if (old >= CRTI_ENTRY_STATES || !(next[old] >> state & 1))
        return crti_tx_damaged(store, "an entry can't go on from its state",
                               found->state);
    found->state = crti_state_word(state, flags, crti_state_slot(found->state), pins);
    crti_tx_set(store, &found->entry->state, found->state);
    return CRT_OK;
}

/* Only the memory goes here: the entry's slab may be of another slot than the memory, and a
 * transaction has the lock of one. */
static crt_status_t remove_saved(crti_store_t *store, const crti_found_t *found,
                                 bool has_block)
{
    crti_heap_t *heap = &store->header->heap;
    crt_status_t status = has_block ? give_block(store, found->entry) : CRT_OK;

    if (status == CRT_OK)
        status = crti_tx_lock(store, &heap->lock);
    if (status != CRT_OK)
        return status;
    crti_tx_set(store, &found->entry->next, crti_read(&heap->gone));
    crti_tx_set(store, &heap->gone, found->ref);
    store->lacks = true; /* the saver takes it from there */
    return CRT_OK;
}

crt_status_t crti_table_remove(crti_store_t *store, crti_found_t *found)
{
    unsigned home;
    crti_arena_slot_t *slot;
    bool is_saved = crti_state_flags(found->state) & CRTI_ENTRY_SAVED;
    bool has_block = crti_state_of(found->state) != CRTI_ENTRY_SPILLED;
    crt_status_t status = crti_table_move(store, found, CRTI_ENTRY_GONE, 0, 0);

    if (status == CRT_OK)
        status = unlink_entry(store, found);
    if (status != CRT_OK)
        return status;
    if (is_saved)
        return remove_saved(store, found, has_block);
    /* The slot's lock before the heap's, also when only the entry needs it. */
    if (!crti_slab_unit(store, found->ref, CRTI_CLASS_ENTRY, &home) ||
        !(slot = crti_arena_slot(store, home)))
        return crti_tx_damaged(store, "an entry's slab has no slot", found->ref);
    status = crti_tx_lock(store, &slot->lock);
    if (status == CRT_OK)
        status = give_block(store, found->entry);
    if (status == CRT_OK)
        status = crti_slab_free(store, found->ref);
    return status;
}

/* Of a primary object a clock that costs nothing will do: they are let go by the million. */
CRTI_HOT void crti_table_stamp(crti_store_t *store, const crti_found_t *found)
{
    crti_write(&found->entry->stamp, crti_state_flags(found->state) & CRTI_ENTRY_PRIMARY
                                         ? crti_read(&store->header->clock_ns)
                                         : crti_now_ns());
}

crt_status_t crti_table_spill(crti_store_t *store, crti_found_t *found)
{
    crt_status_t status = crti_table_move(store, found, CRTI_ENTRY_SPILLED,
                                          crti_state_flags(found->state), 0);

    if (status == CRT_OK)
        status = give_block(store, found->entry);
    if (status == CRT_OK)
        crti_tx_set(store, &found->entry->place, 0);
    return status;
}

crt_status_t crti_table_restore(crti_store_t *store, crti_found_t *found)
{
    uint64_t place = 0, size = crti_read(&found->entry->size);
    crt_status_t status =
        size > store->geometry.capacity
            ? crti_tx_damaged(store, "a spilled object is too large", size)
            : take_block(store, size, &place);

    if (status != CRT_OK)
        return status;
    crti_tx_set(store, &found->entry->place, place);
    store->marked = (uint32_t)(found->ref >> 6);
    /* Written by the daemon from now on: a slot that ends has nothing to do with it. */
    found->state = crti_state_word(crti_state_of(found->state),
                                   crti_state_flags(found->state), store->slot, 0);
    return crti_table_move(store, found, CRTI_ENTRY_WRITING,
                           crti_state_flags(found->state), 0);
}

crt_status_t crti_table_take_gone(crti_store_t *store, crti_object_id_t *id_out)
{
    crti_heap_t *heap = &store->header->heap;
    uint64_t ref = crti_read(&heap->gone);
    crti_entry_t *entry = crti_slab_unit(store, ref, CRTI_CLASS_ENTRY, NULL);
    unsigned home = 0;
    crti_arena_slot_t *slot;
    crt_status_t status;

    if (ref == 0)
        return CRT_ERR_NOT_FOUND;
    if (!entry || !crti_slab_unit(store, ref, CRTI_CLASS_ENTRY, &home) ||
        !(slot = crti_arena_slot(store, home)))
        return crti_tx_damaged(store, "the list of objects that are gone", ref);
    status = crti_tx_lock(store, &slot->lock);
    if (status == CRT_OK)
        status = crti_tx_lock(store, &heap->lock);
    if (status != CRT_OK)
        return status;
    /* Others only put before it: what was first is still in the list, maybe as a later one. */
    if (crti_read(&heap->gone) != ref)
        return CRT_IN_PROGRESS;
    if (crti_state_of(crti_read(&entry->state)) != CRTI_ENTRY_GONE)
        return crti_tx_damaged(store,
                               "an object that is there is in the list of the gone", ref);
    *id_out = crti_entry_id(entry);
    crti_tx_set(store, &heap->gone, crti_read(&entry->next));
    return crti_slab_free(store, ref);
}

crt_status_t crti_table_unpin(crti_store_t *store, crti_found_t *found)
{
    uint32_t pins = crti_state_pins(found->state);
    crti_entry_state_t state = crti_state_of(found->state);

    if (pins == 0 || (state != CRTI_ENTRY_SEALED && state != CRTI_ENTRY_DOOMED))
        return crti_tx_damaged(store, "a pinned entry has no pins", found->state);
    if (pins == 1 && state == CRTI_ENTRY_DOOMED)
        return crti_table_remove(store, found);
    return crti_table_move(store, found, state, crti_state_flags(found->state), pins - 1);
}

CRTI_HOT crt_status_t crti_table_place(crti_store_t *store, const crti_entry_t *entry,
                                       uint64_t *offset_out, uint64_t *size_out)
{
    uint64_t place = crti_read(&entry->place), size = crti_read(&entry->size), room;
    uint64_t page = place >> 32, unit = (uint32_t)place;
    const crti_page_t *p = crti_page_at(store, page);
    uint64_t run = p ? crti_read(&p->run) : 0, start = 0;
    uint32_t length = crti_run_length(run);
    unsigned class = crti_run_class(run);

    if (!p || length > store->geometry.last_record - page + 1)
        return crti_tx_damaged(store, "an object lies outside the pages, place", place);
    if (crti_run_kind(run) == CRTI_PAGE_OBJECT) {
        room = (uint64_t)length << CRTI_PAGE_SHIFT;
    } else if (crti_run_kind(run) == CRTI_PAGE_SLAB && class >= CRTI_CLASS_DATA &&
               class < CRTI_CLASSES && unit < crti_slab_units(class, length)) {
        room = crti_slab_unit_bytes(class);
        start = unit * room;
    } else {
        return crti_tx_damaged(store, "an object has no memory, place", place);
    }
    if (size > room)
        return crti_tx_damaged(store, "an object is larger than its memory", size);
    *offset_out = crti_page_offset(store, page) + start;
    *size_out = size;
    return CRT_OK;
}

CRTI_HOT crt_status_t crti_table_span(crti_store_t *store, const crti_entry_t *entry,
                                      uint64_t *offset_out, uint64_t *size_out)
{
    uint64_t place = crti_read(&entry->place), size = crti_read(&entry->size);
    uint64_t page = place >> 32, unit = (uint32_t)place, start = 0, end;

    if (page == 0 || page > store->geometry.last_record)
        return crti_tx_damaged(store, "an object lies outside the pages, place", place);
    if (size <= CRTI_SMALL_BYTES)
        start = unit * crti_slab_unit_bytes(crti_slab_class(size));
    end = (uint64_t)(store->geometry.last_record - page + 1) << CRTI_PAGE_SHIFT;
    if (start > end || size > end - start)
        return crti_tx_damaged(store, "an object is larger than its memory", size);
    *offset_out = crti_page_offset(store, page) + start;
    *size_out = size;
    return CRT_OK;
}
