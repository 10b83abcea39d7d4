/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs: small units. The header has the idea.
 *
 * Where it sits
 *     table.c, store.c (pins) -> [ store/slab.c ] -> heap.c
 * Threads
 *     The slot's lock covers its lists and its slabs' `links` and `bits`. Slabs of pins need
 *     none: only the slot's process (or the daemon, after its death) touches them.
 * Invariants
 *     A slab with a free unit is in its slot's `partial` list, else in `full`. At most one slab
 *     of a class without a used unit is kept, and only while the slot has a process and nobody
 *     looks for room in vain.
 * Size
 *     A slot's first slab of a class is small (10,000 processes with one object each must not
 *     take 64 KiB each), later ones hold 64 units or 64 KiB.
 */
#include "runtime/store/slab.h"

#define FULL_SLAB_BYTES  65536u
#define FIRST_SLAB_BYTES 16384u
#define FIRST_SLAB_UNITS 8u
#define SMALL_STEPS      8u    /* classes in steps of 64 bytes; then 4 per doubling */
#define IDLE_LOOKS       1024u /* at slabs of a list that may change meanwhile */

unsigned crti_slab_class(size_t size)
{
    unsigned n = size == 0 ? 1 : (unsigned)((size + 63) / 64), log2;

    if (n <= SMALL_STEPS)
        return CRTI_CLASS_DATA + n - 1;
    log2 = 31u - (unsigned)__builtin_clz(n - 1);
    return CRTI_CLASS_DATA + SMALL_STEPS + (log2 - 3) * 4 + ((n - 1) >> (log2 - 2)) - 4;
}

CRTI_HOT uint32_t crti_slab_unit_bytes(unsigned class)
{
    unsigned c = class - CRTI_CLASS_DATA, log2;

    if (class < CRTI_CLASS_DATA)
        return CRTI_RECORD_BYTES;
    if (c < SMALL_STEPS)
        return (c + 1) * 64;
    log2 = 3 + (c - SMALL_STEPS) / 4;
    return ((5 + (c - SMALL_STEPS) % 4) << (log2 - 2)) * 64;
}

CRTI_HOT unsigned crti_slab_units(unsigned class, uint32_t pages)
{
    uint64_t units = ((uint64_t)pages << CRTI_PAGE_SHIFT) / crti_slab_unit_bytes(class);

    return units < 64 ? (unsigned)units : 64;
}

static uint64_t all_units(unsigned units)
{
    return units == 64 ? ~0ull : (1ull << units) - 1;
}

uint32_t crti_slab_need(const crti_store_t *store, unsigned class)
{
    const crti_arena_slot_t *me = store->me;
    bool first = crti_read(&me->slabs[class].full.head) == 0;
    uint32_t bytes = crti_slab_unit_bytes(class) * (first ? FIRST_SLAB_UNITS : 64);
    uint32_t most = first ? FIRST_SLAB_BYTES : FULL_SLAB_BYTES;

    if (crti_read(&me->slabs[class].partial.head) != 0)
        return 0;
    return (uint32_t)crti_pages_for(bytes < most ? bytes : most);
}

static crt_status_t grow(crti_store_t *store, unsigned class, uint32_t *page_out)
{
    crti_heap_t *heap = &store->header->heap;
    crti_arena_slot_t *me = store->me;
    uint32_t page = 0, pages = crti_slab_need(store, class);
    crt_status_t status = crti_heap_alloc(store, pages, CRTI_PAGE_SLAB, class,
                                          store->slot, class == CRTI_CLASS_PIN, &page);

    if (status != CRT_OK)
        return status;
    crti_tx_set(store, &crti_page(store, page)->bits,
                all_units(crti_slab_units(class, pages)));
    if (class == CRTI_CLASS_ENTRY) {
        status =
            crti_arena_list_push(store, &heap->entry_list, CRTI_ARENA_CHAIN_MORE, page);
        crti_tx_set(store, &heap->entry_slabs, crti_read(&heap->entry_slabs) + 1);
    }
    *page_out = page;
    return status == CRT_OK ? crti_arena_list_push(store, &me->slabs[class].partial,
                                                   CRTI_ARENA_CHAIN_LINKS, page)
                            : status;
}

CRTI_HOT crt_status_t crti_slab_alloc(crti_store_t *store, unsigned class,
                                      uint64_t *ref_out)
{
    crti_arena_slot_t *me = store->me;
    crt_status_t status =
        class == CRTI_CLASS_PIN ? CRT_OK : crti_tx_lock(store, &me->lock);
    uint64_t head, bits, run;
    crti_page_t *slab;
    uint32_t page;

    if (status != CRT_OK)
        return status;
    head = crti_read(&me->slabs[class].partial.head);
    page = (uint32_t)head;
    if (head == 0) {
        status = grow(store, class, &page);
        if (status != CRT_OK)
            return status;
    }
    slab = crti_page_at(store, head == 0 ? page : head);
    if (!slab)
        return crti_tx_damaged(store, "a slot's slab lies outside the pages", head);
    run = crti_read(&slab->run);
    bits = crti_read(&slab->bits);
    if (crti_run_kind(run) != CRTI_PAGE_SLAB || crti_run_class(run) != class ||
        crti_run_slot(run) != store->slot || bits == 0 ||
        (bits & ~all_units(crti_slab_units(class, crti_run_length(run)))) != 0)
        return crti_tx_damaged(store, "a slab is none of its list, at page", page);
    *ref_out = (uint64_t)page << 6 | (unsigned)__builtin_ctzll(bits);
    bits &= bits - 1;
    crti_tx_set(store, &slab->bits, bits);
    if (bits == 0) {
        status = crti_arena_list_unlink(store, &me->slabs[class].partial,
                                        CRTI_ARENA_CHAIN_LINKS, page);
        if (status == CRT_OK)
            status = crti_arena_list_push(store, &me->slabs[class].full,
                                          CRTI_ARENA_CHAIN_LINKS, page);
    }
    return status;
}

CRTI_HOT void crti_slab_fetch_ahead(const crti_store_t *store, unsigned class)
{
    uint64_t page = crti_read(&store->me->slabs[class].partial.head);

    __builtin_prefetch((const void *)((uintptr_t)store->base +
                                      store->geometry.pages_offset +
                                      page * sizeof(crti_page_t)),
                       1);
}

void crti_slab_fetch_unit(const crti_store_t *store, uint64_t ref)
{
    __builtin_prefetch((const void *)((uintptr_t)store->base +
                                      crti_page_offset(store, ref >> 6) +
                                      (ref & 63) * CRTI_RECORD_BYTES),
                       1);
}

/* A slab without used units leaves its partial list and returns to the heap. */
static crt_status_t give_back(crti_store_t *store, crti_arena_slot_t *slot,
                              unsigned class, uint32_t page)
{
    crti_heap_t *heap = &store->header->heap;
    crt_status_t status = crti_arena_list_unlink(store, &slot->slabs[class].partial,
                                                 CRTI_ARENA_CHAIN_LINKS, page);

    if (status == CRT_OK && class == CRTI_CLASS_ENTRY) {
        status = crti_tx_lock(store, &heap->lock);
        if (status == CRT_OK)
            status = crti_arena_list_unlink(store, &heap->entry_list,
                                            CRTI_ARENA_CHAIN_MORE, page);
        crti_tx_set(store, &heap->entry_slabs, crti_read(&heap->entry_slabs) - 1);
    }
    return status == CRT_OK ? crti_heap_free(store, page) : status;
}

crt_status_t crti_slab_free(crti_store_t *store, uint64_t ref)
{
    uint32_t page = (uint32_t)(ref >> 6);
    crti_page_t *slab = crti_page(store, page); /* checked by crti_slab_unit */
    uint64_t run = crti_read(&slab->run), bits, all;
    unsigned class = crti_run_class(run);
    crti_arena_slot_t *slot = crti_arena_slot(store, crti_run_slot(run));
    crt_status_t status;

    if (crti_run_kind(run) != CRTI_PAGE_SLAB || class >= CRTI_CLASSES || !slot)
        return crti_tx_damaged(store, "a freed unit is in no slab, page", page);
    status = class == CRTI_CLASS_PIN ? CRT_OK : crti_tx_lock(store, &slot->lock);
    if (status != CRT_OK)
        return status;
    bits = crti_read(&slab->bits);
    all = all_units(crti_slab_units(class, crti_run_length(run)));
    if ((bits >> (ref & 63) & 1) || !(all >> (ref & 63) & 1))
        return crti_tx_damaged(store, "a unit is freed twice, page", page);
    crti_tx_set(store, &slab->bits, bits | 1ull << (ref & 63));
    store->freed = true;
    if (bits == 0) {
        status = crti_arena_list_unlink(store, &slot->slabs[class].full,
                                        CRTI_ARENA_CHAIN_LINKS, page);
        if (status == CRT_OK)
            status = crti_arena_list_push(store, &slot->slabs[class].partial,
                                          CRTI_ARENA_CHAIN_LINKS, page);
    }
    if (status == CRT_OK && (bits | 1ull << (ref & 63)) == all &&
        (crti_read(&slot->slabs[class].partial.head) != page ||
         (uint32_t)crti_read(&slab->links) != 0 ||
         atomic_load(&slot->state) != CRTI_SLOT_LIVE))
        return give_back(store, slot, class, page);
    return status;
}

/* A slab of that slot and class, without a used unit. */
static bool is_idle(const crti_page_t *slab, unsigned slot, unsigned class)
{
    uint64_t run = crti_read(&slab->run);

    return crti_run_kind(run) == CRTI_PAGE_SLAB && crti_run_slot(run) == slot &&
           crti_run_class(run) == class &&
           crti_read(&slab->bits) ==
               all_units(crti_slab_units(class, crti_run_length(run)));
}

uint32_t crti_slab_idle(const crti_store_t *store, unsigned slot, unsigned class)
{
    uint64_t page = crti_read(&crti_arena_slot(store, slot)->slabs[class].partial.head);

    for (unsigned i = 0; i < IDLE_LOOKS; i++) {
        const crti_page_t *slab = crti_page_at(store, page);

        if (!slab)
            break;
        if (is_idle(slab, slot, class))
            return (uint32_t)page;
        page = (uint32_t)crti_read(&slab->links);
    }
    return 0;
}

crt_status_t crti_slab_drop(crti_store_t *store, uint32_t page, unsigned index,
                            unsigned class)
{
    const crti_page_t *slab = crti_page_at(store, page);
    crti_arena_slot_t *slot = crti_arena_slot(store, index);
    crt_status_t status = crti_tx_lock(store, &slot->lock);

    if (status != CRT_OK)
        return status;
    /* It may have gone since it was listed; only with its slot's lock do we know it is its. */
    if (!slab || !is_idle(slab, index, class))
        return CRT_OK;
    return give_back(store, slot, class, page);
}

CRTI_HOT void *crti_slab_unit(crti_store_t *store, uint64_t ref, unsigned class,
                              unsigned *slot_out)
{
    const crti_page_t *slab = crti_page_at(store, ref >> 6);
    unsigned unit = ref & 63;
    uint64_t run = slab ? crti_read(&slab->run) : 0;
    uint32_t length = crti_run_length(run);

    if (crti_run_kind(run) != CRTI_PAGE_SLAB || crti_run_class(run) != class ||
        length > store->geometry.last_record - (ref >> 6) + 1 ||
        unit >= crti_slab_units(class, length) || (crti_read(&slab->bits) >> unit & 1))
        return NULL;
    if (slot_out)
        *slot_out = crti_run_slot(run);
    return store->base + crti_page_offset(store, ref >> 6) +
           (uint64_t)unit * crti_slab_unit_bytes(class);
}
