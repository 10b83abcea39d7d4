/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of the tables. See check.h. */
#include "tests/store/check.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/store/space.h"

/* What is known of each page that starts a run. */
struct page_facts {
    uint64_t used;   /* slab: units that something refers to; object: 1 */
    uint32_t listed; /* how many lists have it */
    uint32_t entries_index;
};

struct checker {
    crti_store_t *store;
    struct page_facts *pages;
    uint32_t *pins; /* by entry slab and unit: pin units that name it */
    uint32_t slabs, entry_slabs;
    uint32_t free_runs;
    uint64_t free_pages;
};

static crt_status_t broken(const char *what, uint64_t where)
{
    return crt_raise(CRT_ERR_CORRUPT, "object store: %s (%llu)", what,
                     (unsigned long long)where);
}

static uint64_t used_units(uint64_t run, uint64_t bits)
{
    unsigned units = crti_slab_units(crti_run_class(run), crti_run_length(run));

    return ~bits & (units == 64 ? ~0ull : (1ull << units) - 1);
}

static crt_status_t check_locks(struct checker *c)
{
    crti_store_t *store = c->store;

    if (atomic_load(&store->header->heap.lock) != 0)
        return broken("the heap's lock is held", atomic_load(&store->header->heap.lock));
    for (unsigned i = 0; i < store->geometry.slot_count; i++) {
        const crti_arena_slot_t *slot = crti_arena_slot(store, i);

        if (atomic_load(&slot->lock) != 0)
            return broken("a slot's lock is held", i);
        if (crti_read(&slot->log_count) != 0)
            return broken("a transaction was left behind in slot", i);
        for (unsigned k = 0; k < CRTI_TX_LOCKS; k++)
            if (crti_read(&slot->held[k]) != 0)
                return broken("a lock is still listed in slot", i);
    }
    return CRT_OK;
}

static bool is_above_marks(const crti_heap_t *heap, uint64_t page, uint32_t length,
                           bool is_record)
{
    if (is_record)
        return page + length - 1 > crti_read(&heap->record_water);
    return page + length - 1 > crti_read(&heap->high_water) &&
           page < crti_read(&heap->low_water);
}

/* `last` ends the pages of this kind. */
static crt_status_t check_run(struct checker *c, uint64_t page, uint64_t last,
                              bool *was_free)
{
    crti_store_t *store = c->store;
    const crti_heap_t *heap = &store->header->heap;
    uint64_t run = crti_read(&crti_page(store, page)->run);
    crti_page_kind_t kind = crti_run_kind(run);
    uint32_t length = crti_run_length(run);
    uint64_t end;
    bool is_cooling = kind == CRTI_PAGE_COOLING && page == crti_read(&heap->cooling);
    bool is_record = page >= store->geometry.first_record;

    if (kind != CRTI_PAGE_FREE && kind != CRTI_PAGE_OBJECT && kind != CRTI_PAGE_SLAB &&
        !is_cooling)
        return broken("no run starts where one ended, page", page);
    if (length == 0 || length > last - page + 1)
        return broken("a run is too long, page", page);
    end = crti_read(&crti_page(store, page + length - 1)->run);
    if (length > 1 &&
        (crti_run_length(end) != length ||
         crti_run_kind(end) !=
             (kind == CRTI_PAGE_FREE ? CRTI_PAGE_FREE_END : CRTI_PAGE_USED_END)))
        return broken("the ends of a run differ, page", page);
    if (kind == CRTI_PAGE_FREE && *was_free)
        return broken("two free runs touch at page", page);
    if (kind != CRTI_PAGE_FREE && !is_cooling &&
        is_above_marks(heap, page, length, is_record))
        return broken("a used page lies between the water marks", page);
    if (page < crti_read(&heap->floor) && page + length > crti_read(&heap->floor))
        return broken("the slab zone starts within a run, page", page);
    if (kind == CRTI_PAGE_OBJECT && is_record)
        return broken("an object lies among records, page", page);
    *was_free = kind == CRTI_PAGE_FREE;
    c->free_runs += *was_free;
    c->free_pages += *was_free || is_cooling ? length : 0;
    if (kind == CRTI_PAGE_SLAB) {
        if (crti_run_class(run) >= CRTI_CLASSES ||
            !crti_arena_slot(store, crti_run_slot(run)))
            return broken("a slab has no class or slot, page", page);
        if ((crti_run_class(run) < CRTI_CLASS_DATA) != is_record)
            return broken("records and objects are mixed, page", page);
        c->slabs++;
        if (crti_run_class(run) == CRTI_CLASS_ENTRY)
            c->pages[page].entries_index = c->entry_slabs++;
    }
    return CRT_OK;
}

/* All runs from page `first` to page `last`. */
static crt_status_t check_part(struct checker *c, uint64_t first, uint64_t last)
{
    bool was_free = false;
    crt_status_t status = CRT_OK;

    for (uint64_t page = first; page <= last && status == CRT_OK;) {
        status = check_run(c, page, last, &was_free);
        page += crti_run_length(crti_read(&crti_page(c->store, page)->run));
    }
    return status;
}

/* Of objects, or all of records, as many again, are in nobody's use; both are in pages_free. */
static crt_status_t check_runs(struct checker *c)
{
    const crti_geometry_t *g = &c->store->geometry;
    crt_status_t status = check_part(c, 1, g->page_count);

    if (status == CRT_OK)
        status = check_part(c, g->first_record, g->last_record);
    if (status == CRT_OK &&
        c->free_pages !=
            crti_read(&c->store->header->heap.pages_free) + (uint64_t)g->page_count)
        return broken("the number of free pages is wrong by the runs", c->free_pages);
    return status;
}

/* One doubly linked list; `fits` looks at each member. */
static crt_status_t
check_list(struct checker *c, const crti_arena_list_t *list, crti_arena_chain_t chain,
           bool (*fits)(const struct checker *c, uint64_t page, uint64_t what),
           uint64_t what, uint32_t *count)
{
    uint32_t before = 0;
    uint64_t page = crti_read(&list->head);

    while (page != 0) {
        const crti_page_t *p = crti_page_at(c->store, page);
        uint64_t links;

        if (!p)
            return broken("a list leads outside the pages", page);
        links = crti_read(chain == CRTI_ARENA_CHAIN_LINKS ? &p->links : &p->more);
        if (links >> 32 != before)
            return broken("a list's way back is wrong at page", page);
        if (!fits(c, page, what))
            return broken("a page is in the wrong list, page", page);
        if (chain == CRTI_ARENA_CHAIN_LINKS && c->pages[page].listed++ != 0)
            return broken("a page is in two lists, page", page);
        ++*count;
        before = (uint32_t)page;
        page = (uint32_t)links;
    }
    return CRT_OK;
}

static bool fits_bin(const struct checker *c, uint64_t page, uint64_t what)
{
    uint64_t run = crti_read(&crti_page(c->store, page)->run);
    crti_zone_kind_t zone = CRTI_ZONE_OBJECTS;

    if (page >= c->store->geometry.first_record)
        zone = CRTI_ZONE_RECORDS;
    else if (page >= crti_read(&c->store->header->heap.floor))
        zone = CRTI_ZONE_SLABS;
    return crti_run_kind(run) == CRTI_PAGE_FREE &&
           (uint64_t)zone * CRTI_HEAP_BINS + crti_heap_bin(crti_run_length(run)) == what;
}

static bool fits_entries(const struct checker *c, uint64_t page, uint64_t what)
{
    uint64_t run = crti_read(&crti_page(c->store, page)->run);

    return crti_run_kind(run) == CRTI_PAGE_SLAB &&
           crti_run_class(run) == CRTI_CLASS_ENTRY;
}

/* `what`: 1 bit partial, then slot, then class. */
static bool fits_slab(const struct checker *c, uint64_t page, uint64_t what)
{
    uint64_t run = crti_read(&crti_page(c->store, page)->run);
    uint64_t bits = crti_read(&crti_page(c->store, page)->bits);

    return crti_run_kind(run) == CRTI_PAGE_SLAB && crti_run_class(run) == what >> 17 &&
           crti_run_slot(run) == (what >> 1 & 0xffff) && (bits != 0) == (what & 1);
}

static crt_status_t check_bins(struct checker *c)
{
    const crti_heap_t *heap = &c->store->header->heap;
    uint32_t runs = 0;
    crt_status_t status = CRT_OK;

    for (unsigned i = 0; i < CRTI_ZONES * CRTI_HEAP_BINS && status == CRT_OK; i++) {
        const crti_zone_t *zone = &heap->zones[i / CRTI_HEAP_BINS];
        unsigned bin = i % CRTI_HEAP_BINS;
        bool marked = crti_read(&zone->map[bin / 64]) >> (bin % 64) & 1;

        if (marked != (crti_read(&zone->bins[bin].head) != 0))
            return broken("the map of bins is wrong at bin", i);
        status =
            check_list(c, &zone->bins[bin], CRTI_ARENA_CHAIN_LINKS, fits_bin, i, &runs);
    }
    if (status == CRT_OK && runs != c->free_runs)
        return broken("free runs are in no bin; in bins are", runs);
    return status;
}

static crt_status_t check_slabs(struct checker *c)
{
    const crti_heap_t *heap = &c->store->header->heap;
    uint32_t slabs = 0, entry_slabs = 0;
    crt_status_t status = CRT_OK;

    for (uint64_t i = 0; i < c->store->geometry.slot_count && status == CRT_OK; i++) {
        const crti_arena_slot_t *slot = crti_arena_slot(c->store, (unsigned)i);

        for (uint64_t class = 0; class < CRTI_CLASSES && status == CRT_OK; class ++) {
            uint64_t what = class << 17 | i << 1;

            status = check_list(c, &slot->slabs[class].partial, CRTI_ARENA_CHAIN_LINKS,
                                fits_slab, what | 1, &slabs);
            if (status == CRT_OK)
                status = check_list(c, &slot->slabs[class].full, CRTI_ARENA_CHAIN_LINKS,
                                    fits_slab, what, &slabs);
        }
    }
    if (status == CRT_OK && slabs != c->slabs)
        return broken("slabs are in no list; in lists are", slabs);
    if (status == CRT_OK)
        status = check_list(c, &heap->entry_list, CRTI_ARENA_CHAIN_MORE, fits_entries, 0,
                            &entry_slabs);
    if (status == CRT_OK &&
        (entry_slabs != c->entry_slabs || entry_slabs != crti_read(&heap->entry_slabs)))
        return broken("the list of entry slabs has", entry_slabs);
    return status;
}

/* Counts for each entry the pin units that name it. */
static crt_status_t count_pins(struct checker *c, uint64_t page)
{
    uint64_t run = crti_read(&crti_page(c->store, page)->run);
    uint64_t used = used_units(run, crti_read(&crti_page(c->store, page)->bits));

    if (used != 0 && atomic_load(&crti_arena_slot(c->store, crti_run_slot(run))->state) !=
                         CRTI_SLOT_LIVE)
        return broken("a dead process has pins, slot", crti_run_slot(run));
    for (; used != 0; used &= used - 1) {
        uint64_t ref = page << 6 | (unsigned)__builtin_ctzll(used), entry;
        const crti_pin_t *pin = crti_slab_unit(c->store, ref, CRTI_CLASS_PIN, NULL);

        entry = pin ? crti_read(&pin->entry) : 0;
        if (!crti_slab_unit(c->store, entry, CRTI_CLASS_ENTRY, NULL))
            return broken("a pin names no entry", ref);
        c->pins[c->pages[entry >> 6].entries_index * 64 + (entry & 63)]++;
    }
    return CRT_OK;
}

static crt_status_t check_entry(struct checker *c, const crti_bucket_t *bucket,
                                uint64_t ref, const crti_entry_t *entry)
{
    crti_store_t *store = c->store;
    uint64_t state = crti_read(&entry->state), place = crti_read(&entry->place), offset,
             size;
    bool is_writing = crti_state_of(state) == CRTI_ENTRY_WRITING ||
                      crti_state_of(state) == CRTI_ENTRY_UNWANTED;
    struct page_facts *facts = &c->pages[ref >> 6];

    if (facts->used >> (ref & 63) & 1)
        return broken("an entry is in two chains", ref);
    facts->used |= 1ull << (ref & 63);
    if (crti_table_bucket(store, crti_entry_id(entry)) != bucket)
        return broken("an entry is in another id's chain", ref);
    if (crti_state_of(state) == CRTI_ENTRY_GONE ||
        crti_state_of(state) >= CRTI_ENTRY_STATES)
        return broken("an entry has no state", ref);
    if (crti_state_pins(state) != c->pins[facts->entries_index * 64 + (ref & 63)])
        return broken("an entry's pins are not those of the processes", ref);
    if (crti_state_of(state) == CRTI_ENTRY_DOOMED && crti_state_pins(state) == 0)
        return broken("a freed object was not taken away", ref);
    if (is_writing &&
        atomic_load(&crti_arena_slot(store, crti_state_slot(state))->state) !=
            CRTI_SLOT_LIVE)
        return broken("a dead process is writing, slot", crti_state_slot(state));
    if (crti_state_of(state) == CRTI_ENTRY_SPILLED)
        return crti_state_flags(state) & CRTI_ENTRY_SAVED && place == 0
                   ? CRT_OK
                   : broken("a spilled object was not saved, or has memory", ref);
    if (!atomic_load(crti_page_mark(store, ref >> 6)))
        return broken("walks pass by an object that has memory", ref);
    if (crti_table_place(store, entry, &offset, &size) != CRT_OK)
        return CRT_ERR_CORRUPT;
    facts = &c->pages[place >> 32];
    if (facts->used >> (place & 63) & 1)
        return broken("two objects share memory", place);
    facts->used |= 1ull << (place & 63);
    return CRT_OK;
}

static crt_status_t check_chains(struct checker *c)
{
    crti_store_t *store = c->store;
    const crti_bucket_t *bucket =
        (crti_bucket_t *)(store->base + store->geometry.buckets_offset);
    crt_status_t status = CRT_OK;

    for (uint64_t i = 0; i < store->geometry.bucket_count; i++, bucket++) {
        uint64_t ref = crti_read(&bucket->head);

        if (atomic_load(&bucket->lock) != 0)
            return broken("a bucket's lock is held", i);
        while (ref != 0 && status == CRT_OK) {
            const crti_entry_t *entry =
                crti_slab_unit(store, ref, CRTI_CLASS_ENTRY, NULL);

            if (!entry)
                return broken("a chain leads to no entry", ref);
            status = check_entry(c, bucket, ref, entry);
            ref = crti_read(&entry->next);
        }
    }
    return status;
}

/* What is gone and was saved waits for the daemon. */
static crt_status_t check_gone(struct checker *c)
{
    crti_store_t *store = c->store;

    for (uint64_t ref = crti_read(&store->header->heap.gone); ref != 0;) {
        const crti_entry_t *entry = crti_slab_unit(store, ref, CRTI_CLASS_ENTRY, NULL);
        struct page_facts *facts = &c->pages[ref >> 6];

        if (!entry || crti_state_of(crti_read(&entry->state)) != CRTI_ENTRY_GONE)
            return broken("the list of the gone leads to no entry that is", ref);
        if (facts->used >> (ref & 63) & 1)
            return broken("an entry is gone, and in a chain", ref);
        facts->used |= 1ull << (ref & 63);
        ref = crti_read(&entry->next);
    }
    return CRT_OK;
}

/* The first run of all pages, and the next one behind a run; 0: there is none. */
static uint64_t next_run(const struct checker *c, uint64_t page)
{
    const crti_geometry_t *g = &c->store->geometry;
    uint64_t next = page + crti_run_length(crti_read(&crti_page(c->store, page)->run));

    if (page == 0)
        return 1;
    if (next == g->page_count + 1ull)
        return g->first_record;
    return next <= g->last_record ? next : 0;
}

/* Everything that is taken is taken for something. */
static crt_status_t check_uses(struct checker *c)
{
    for (uint64_t page = next_run(c, 0); page != 0; page = next_run(c, page)) {
        const crti_page_t *p = crti_page(c->store, page);
        uint64_t run = crti_read(&p->run);

        if (crti_run_kind(run) == CRTI_PAGE_OBJECT && c->pages[page].used != 1)
            return broken("pages belong to no object, page", page);
        if (crti_run_kind(run) == CRTI_PAGE_SLAB &&
            crti_run_class(run) != CRTI_CLASS_PIN &&
            c->pages[page].used != used_units(run, crti_read(&p->bits)))
            return broken("units belong to no object, page", page);
    }
    return CRT_OK;
}

static crt_status_t check_pins(struct checker *c)
{
    crt_status_t status = CRT_OK;

    for (uint64_t page = next_run(c, 0); page != 0 && status == CRT_OK;
         page = next_run(c, page)) {
        uint64_t run = crti_read(&crti_page(c->store, page)->run);

        if (crti_run_kind(run) == CRTI_PAGE_SLAB && crti_run_class(run) == CRTI_CLASS_PIN)
            status = count_pins(c, page);
    }
    return status;
}

crt_status_t crti_store_check(crti_store_t *store)
{
    struct checker c = {.store = store};
    crt_status_t status;

    c.pages = calloc(store->geometry.last_record + 2ull, sizeof(*c.pages));
    if (!c.pages)
        return crt_raise(CRT_ERR_NO_MEMORY, "object store: check of %u pages",
                         store->geometry.last_record);
    pthread_mutex_lock(&store->mutex);
    status = check_locks(&c);
    if (status == CRT_OK)
        status = check_runs(&c);
    if (status == CRT_OK)
        status = check_bins(&c);
    if (status == CRT_OK)
        status = check_slabs(&c);
    if (status == CRT_OK) {
        c.pins = calloc(c.entry_slabs * 64ull + 1, sizeof(*c.pins));
        status = c.pins ? check_pins(&c) : broken("no memory to check", c.entry_slabs);
    }
    if (status == CRT_OK)
        status = check_chains(&c);
    if (status == CRT_OK)
        status = check_gone(&c);
    if (status == CRT_OK)
        status = check_uses(&c);
    pthread_mutex_unlock(&store->mutex);
    free(c.pins);
    free(c.pages);
    return status;
}
