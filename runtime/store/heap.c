/* SPDX-License-Identifier: Apache-2.0 */
/* Heap: allocation of page runs. The header has the idea.
 *
 * Where it sits
 *     table.c, slab.c -> [ store/heap.c ] -> transaction.c
 * Threads
 *     The heap's lock covers bins, `run` of every page, and links of free runs.
 * Invariants
 *     Runs cover all pages of objects and all of records, each without gap or overlap. A free run
 *     is in its zone's bin of its length. No two free runs touch. pages_free is the sum of the free
 *     runs of objects, with what is cooling, less the records in use: it may be less than one run.
 *     `floor` is where a run ends.
 * Which run
 *     First one of the request's own bin that fits (a short look), then the first run of the
 *     next bin that has any: the smallest classes first, so that warm holes are used before the
 *     untouched end of the arena, and a freed 100 MB hole serves the next 100 MB exactly.
 * What lives for long does not lie between what does not
 *     Slabs of small objects go to the other end: into a hole of their zone, or to the pages below
 *     it, so that it grows down from the end of the arena. In between large objects each would
 *     split a hole for as long as one small object lives.
 *     Entries and pins have pages of their own, behind all objects: an entry outlives the memory of
 *     its object by hours, when that is on disk. They are single pages, so that any hole there will
 *     do; and since pages_free counts them, no more of both kinds are in use than the store may
 *     have. What they take of the host's memory, trim.c takes back from free runs of objects.
 */
#include "runtime/store/heap.h"

#define SHORT_LOOK                                                                       \
    32 /* runs tried in the request's own bin before larger bins are used */

static crti_word_t *chain_word(crti_page_t *page, crti_arena_chain_t chain)
{
    return chain == CRTI_ARENA_CHAIN_LINKS ? &page->links : &page->more;
}

crt_status_t crti_arena_list_push(crti_store_t *store, crti_arena_list_t *list,
                                  crti_arena_chain_t chain, uint32_t page)
{
    uint64_t first = crti_read(&list->head);
    crti_page_t *next = crti_page_at(store, first);

    if (first != 0) {
        crti_word_t *word;

        if (!next)
            return crti_tx_damaged(store, "a list starts outside the pages", first);
        word = chain_word(next, chain);
        crti_tx_set(store, word, crti_pack(page, (uint32_t)crti_read(word)));
    }
    crti_tx_set(store, chain_word(crti_page(store, page), chain),
                crti_pack(0, (uint32_t)first));
    crti_tx_set(store, &list->head, page);
    return CRT_OK;
}

crt_status_t crti_arena_list_unlink(crti_store_t *store, crti_arena_list_t *list,
                                    crti_arena_chain_t chain, uint32_t page)
{
    uint64_t links = crti_read(chain_word(crti_page(store, page), chain));
    uint32_t prev = links >> 32, next = (uint32_t)links;
    crti_page_t *p = crti_page_at(store, prev), *n = crti_page_at(store, next);
    crti_word_t *word;

    if ((prev != 0 && !p) || (next != 0 && !n))
        return crti_tx_damaged(store, "a list leads outside the pages", links);
    if (p) {
        word = chain_word(p, chain);
        if ((uint32_t)crti_read(word) != page)
            return crti_tx_damaged(store, "a list is broken at page", page);
        crti_tx_set(store, word, crti_pack(crti_read(word) >> 32, next));
    } else {
        if (crti_read(&list->head) != page)
            return crti_tx_damaged(store, "a list lost its first page", page);
        crti_tx_set(store, &list->head, next);
    }
    if (n) {
        word = chain_word(n, chain);
        crti_tx_set(store, word, crti_pack(prev, (uint32_t)crti_read(word)));
    }
    return CRT_OK;
}

unsigned crti_heap_bin(uint32_t pages)
{
    unsigned log2;

    if (pages < 8)
        return pages;
    log2 = 31u - (unsigned)__builtin_clz(pages);
    return (log2 - 2) * 8 + (pages >> (log2 - 3) & 7);
}

/* Both ends of a run. */
static void tag(crti_store_t *store, uint32_t page, uint64_t run)
{
    uint32_t length = crti_run_length(run);
    bool is_free = crti_run_kind(run) == CRTI_PAGE_FREE;

    crti_tx_set(store, &crti_page(store, page)->run, run);
    if (length > 1)
        crti_tx_set(store, &crti_page(store, page + length - 1)->run,
                    crti_run_word(is_free ? CRTI_PAGE_FREE_END : CRTI_PAGE_USED_END, 0, 0,
                                  length));
}

/* The zone of a free run; `floor` moves over runs in use only, or with the run that is pushed. */
static crti_zone_t *zone_of(crti_store_t *store, uint32_t page)
{
    crti_heap_t *heap = &store->header->heap;

    if (page >= store->geometry.first_record)
        return &heap->zones[CRTI_ZONE_RECORDS];
    return &heap->zones[page < crti_read(&heap->floor) ? CRTI_ZONE_OBJECTS
                                                       : CRTI_ZONE_SLABS];
}

static crt_status_t push_free(crti_store_t *store, uint32_t page, uint32_t length)
{
    crti_heap_t *heap = &store->header->heap;
    unsigned bin = crti_heap_bin(length);
    uint64_t floor = crti_read(&heap->floor);
    crti_zone_t *zone;
    crti_word_t *map;

    tag(store, page, crti_run_word(CRTI_PAGE_FREE, 0, 0, length));
    if (page <= floor && floor < page + length)
        crti_tx_set(store, &heap->floor, page + length); /* the slabs' zone got smaller */
    zone = zone_of(store, page);
    map = &zone->map[bin / 64];
    if (!(crti_read(map) >> (bin % 64) & 1))
        crti_tx_set(store, map, crti_read(map) | 1ull << (bin % 64));
    return crti_arena_list_push(store, &zone->bins[bin], CRTI_ARENA_CHAIN_LINKS, page);
}

/* A free run leaves its bin. Its length is checked here against the end of the arena. */
static crt_status_t pull_free(crti_store_t *store, uint32_t page, uint32_t *length_out)
{
    crti_zone_t *zone = zone_of(store, page);
    uint64_t run = crti_read(&crti_page(store, page)->run);
    uint32_t length = crti_run_length(run);
    unsigned bin = crti_heap_bin(length);
    crti_word_t *map = &zone->map[bin / 64];
    crt_status_t status;

    if (crti_run_kind(run) != CRTI_PAGE_FREE || length == 0 ||
        length > store->geometry.last_record - page + 1)
        return crti_tx_damaged(store, "a free run is none, at page", page);
    status =
        crti_arena_list_unlink(store, &zone->bins[bin], CRTI_ARENA_CHAIN_LINKS, page);
    if (status != CRT_OK)
        return status;
    if (crti_read(&zone->bins[bin].head) == 0)
        crti_tx_set(store, map, crti_read(map) & ~(1ull << (bin % 64)));
    *length_out = length;
    return CRT_OK;
}

/* The first of at most `steps` runs of a bin that has `pages`; 0 when none. */
static crt_status_t look(crti_store_t *store, const crti_arena_list_t *bin,
                         uint32_t pages, uint32_t steps, uint32_t *page_out)
{
    uint64_t page = crti_read(&bin->head);

    *page_out = 0;
    while (page != 0 && steps-- > 0) {
        const crti_page_t *p = crti_page_at(store, page);

        if (!p)
            return crti_tx_damaged(store, "a bin leads outside the pages", page);
        if (crti_run_length(crti_read(&p->run)) >= pages) {
            *page_out = (uint32_t)page;
            return CRT_OK;
        }
        page = (uint32_t)crti_read(&p->links);
    }
    return CRT_OK;
}

/* The first bin above `bin` that has a run; CRTI_HEAP_BINS when none. */
static unsigned next_bin(const crti_zone_t *zone, unsigned bin)
{
    unsigned word = ++bin / 64;
    uint64_t map;

    if (bin >= CRTI_HEAP_BINS)
        return CRTI_HEAP_BINS;
    map = crti_read(&zone->map[word]) & ~0ull << (bin % 64);
    while (map == 0) {
        if (++word == CRTI_HEAP_BINS / 64)
            return CRTI_HEAP_BINS;
        map = crti_read(&zone->map[word]);
    }
    return word * 64 + (unsigned)__builtin_ctzll(map);
}

/* A run of `pages` or more in a zone; 0 when none. */
static crt_status_t find_in(crti_store_t *store, crti_zone_kind_t kind, uint32_t pages,
                            uint32_t *page_out)
{
    const crti_zone_t *zone = &store->header->heap.zones[kind];
    unsigned own = crti_heap_bin(pages), larger;
    crt_status_t status = look(store, &zone->bins[own], pages, SHORT_LOOK, page_out);

    if (status != CRT_OK || *page_out != 0)
        return status;
    larger = next_bin(zone, own);
    if (larger < CRTI_HEAP_BINS)
        return look(store, &zone->bins[larger], pages, 1, page_out);
    return look(store, &zone->bins[own], pages, store->geometry.page_count, page_out);
}

crt_status_t crti_heap_find(crti_store_t *store, uint32_t pages, uint32_t *page_out)
{
    crt_status_t status = crti_tx_lock(store, &store->header->heap.lock);

    *page_out = 0;
    if (status == CRT_OK)
        status = find_in(store, CRTI_ZONE_OBJECTS, pages, page_out);
    if (status == CRT_OK && *page_out == 0)
        status = find_in(store, CRTI_ZONE_SLABS, pages, page_out);
    return status;
}

/* The free run that ends just before `page`: moves `page` to its start and gives its length,
 * which is 0 when there is none. */
static crt_status_t find_before(crti_store_t *store, uint32_t *page, uint32_t *length_out)
{
    uint64_t end = crti_read(&crti_page(store, *page - 1)->run);
    uint32_t length = crti_run_length(end);

    *length_out = 0;
    if (crti_run_kind(end) == CRTI_PAGE_FREE)
        length = 1;
    else if (crti_run_kind(end) != CRTI_PAGE_FREE_END)
        return CRT_OK;
    if (length == 0 || length >= *page ||
        crti_read(&crti_page(store, *page - length)->run) !=
            crti_run_word(CRTI_PAGE_FREE, 0, 0, length))
        return crti_tx_damaged(store, "the ends of a run differ, before page", *page);
    *page -= length;
    *length_out = length;
    return CRT_OK;
}

/* Takes `pages` from one end of a free run. */
static crt_status_t carve(crti_store_t *store, uint32_t run, uint32_t pages,
                          bool from_end, uint32_t *page_out)
{
    uint32_t length = 0, rest;
    crt_status_t status = pull_free(store, run, &length);

    if (status != CRT_OK)
        return status;
    if (length < pages)
        return crti_tx_damaged(store, "a run is in the wrong bin, at page", run);
    rest = length - pages;
    *page_out = from_end ? run + rest : run;
    return rest > 0 ? push_free(store, from_end ? run : run + pages, rest) : CRT_OK;
}

/* The first page of the slabs' zone, checked. */
static crt_status_t read_floor(crti_store_t *store, uint32_t *floor_out)
{
    uint64_t floor = crti_read(&store->header->heap.floor);

    *floor_out = (uint32_t)floor;
    if (floor < 2 || floor > store->geometry.page_count + 1)
        return crti_tx_damaged(store, "the slabs' zone starts outside the pages, at",
                               floor);
    return CRT_OK;
}

/* A run for a slab of objects: a hole in the slabs' zone, else the next pages below it. *page_out
 * is 0 when there is neither. */
static crt_status_t alloc_for_slab(crti_store_t *store, uint32_t pages,
                                   uint32_t *page_out)
{
    crti_heap_t *heap = &store->header->heap;
    uint32_t hole = 0, run = 0, length = 0;
    crt_status_t status = find_in(store, CRTI_ZONE_SLABS, pages, &hole);

    *page_out = 0;
    if (status != CRT_OK || hole != 0)
        return status == CRT_OK ? carve(store, hole, pages, true, page_out) : status;
    status = read_floor(store, &run);
    if (status == CRT_OK)
        status = find_before(store, &run, &length);
    if (status != CRT_OK || length < pages)
        return status;
    status = carve(store, run, pages, true, page_out);
    crti_tx_set(store, &heap->floor, *page_out);
    if (*page_out < crti_read(&heap->low_water))
        crti_tx_set(store, &heap->low_water, *page_out);
    return status;
}

/* The descriptors of a page with an even number and of the next one share a cache line, which their
 * slots write with each unit that they take or give back. */
_Static_assert(sizeof(crti_page_t) == 32, "two descriptors in a line");

/* It would share the line of a slab of that slot. */
static bool is_beside_own(const crti_store_t *store, uint32_t page, unsigned slot)
{
    uint64_t before = crti_read(&crti_page(store, page - 1)->run);

    return page % 2 == 1 && crti_run_kind(before) == CRTI_PAGE_SLAB &&
           crti_run_slot(before) == slot;
}

/* A free page that was left beside a slab of that slot; 0 when none of the last ones is. */
static crt_status_t find_beside_own(crti_store_t *store, unsigned slot,
                                    uint32_t *page_out)
{
    const crti_zone_t *zone = &store->header->heap.zones[CRTI_ZONE_RECORDS];
    uint64_t page = crti_read(&zone->bins[crti_heap_bin(1)].head);

    *page_out = 0;
    for (int steps = SHORT_LOOK; page != 0 && steps > 0; steps--) {
        const crti_page_t *p = crti_page_at(store, page);

        if (!p)
            return crti_tx_damaged(store, "a bin leads outside the pages", page);
        if (is_beside_own(store, (uint32_t)page, slot)) {
            *page_out = (uint32_t)page;
            return CRT_OK;
        }
        page = (uint32_t)crti_read(&p->links);
    }
    return CRT_OK;
}

/* The second page of a run; the first one stays free. */
static crt_status_t carve_second(crti_store_t *store, uint32_t run, uint32_t *page_out)
{
    crt_status_t status = carve(store, run, 2, false, page_out);

    *page_out = run + 1;
    return status == CRT_OK ? push_free(store, run, 1) : status;
}

/* A page for a slab of records: beside one of its own slot, else, where there is room, in a line of
 * which nobody has the other page. So two processes that work do not wait for each other's lines.
 * Pages that stay free for that cost no room: there are as many of records as of objects. */
static crt_status_t alloc_for_record(crti_store_t *store, unsigned slot,
                                     uint32_t *page_out)
{
    uint32_t run = 0;
    crt_status_t status = find_beside_own(store, slot, &run);

    if (status == CRT_OK && run == 0)
        status = find_in(store, CRTI_ZONE_RECORDS, 2, &run);
    if (status == CRT_OK && run != 0 && run % 2 == 1 && !is_beside_own(store, run, slot))
        return carve_second(store, run, page_out);
    if (status == CRT_OK && run == 0)
        status = find_in(store, CRTI_ZONE_RECORDS, 1, &run);
    if (status != CRT_OK)
        return status;
    return run == 0 ? CRT_ERR_STORE_FULL : carve(store, run, 1, false, page_out);
}

static crt_status_t alloc_anywhere(crti_store_t *store, uint32_t pages,
                                   uint32_t *page_out)
{
    uint32_t run = 0;
    crt_status_t status = crti_heap_find(store, pages, &run);

    if (status != CRT_OK)
        return status;
    return run == 0 ? CRT_ERR_STORE_FULL : carve(store, run, pages, false, page_out);
}

/* Pages `first` ... `last` are in use; `low_water` is told by who moves the floor. */
static void raise_marks(crti_store_t *store, uint32_t first, uint32_t last)
{
    crti_heap_t *heap = &store->header->heap;
    bool is_record = first >= store->geometry.first_record;
    crti_word_t *mark = is_record ? &heap->record_water : &heap->high_water;

    if (last > crti_read(mark) && (is_record || first < crti_read(&heap->low_water)))
        crti_tx_set(store, mark, last);
}

crt_status_t crti_heap_alloc(crti_store_t *store, uint32_t pages, crti_page_kind_t kind,
                             unsigned class, unsigned slot, bool for_pins,
                             uint32_t *page_out)
{
    crti_heap_t *heap = &store->header->heap;
    uint32_t page = 0;
    uint64_t pages_free;
    crt_status_t status = crti_tx_lock(store, &heap->lock);

    if (status != CRT_OK)
        return status;
    pages_free = crti_read(&heap->pages_free);
    if (pages_free < (uint64_t)pages + (for_pins ? 0 : store->geometry.reserve))
        return CRT_ERR_STORE_FULL; /* the caller knows what it was for */
    if (kind == CRTI_PAGE_SLAB)
        status = class < CRTI_CLASS_DATA ? alloc_for_record(store, slot, &page)
                                         : alloc_for_slab(store, pages, &page);
    if (status == CRT_OK && page == 0)
        status = alloc_anywhere(store, pages, &page);
    if (status != CRT_OK)
        return status;
    tag(store, page, crti_run_word(kind, class, slot, pages));
    crti_tx_set(store, &heap->pages_free, pages_free - pages);
    if (pages_free - pages < crti_read(&heap->least_free))
        crti_write(&heap->least_free, pages_free - pages);
    if (pages_free - pages <
        atomic_load_explicit(&store->header->spill_mark, memory_order_relaxed))
        store->lacks = true;
    raise_marks(store, page, page + pages - 1);
    *page_out = page;
    return CRT_OK;
}

crt_status_t crti_heap_free(crti_store_t *store, uint32_t page)
{
    crti_heap_t *heap = &store->header->heap;
    crt_status_t status = crti_tx_lock(store, &heap->lock);
    uint64_t run = crti_read(&crti_page(store, page)->run);
    uint32_t length = crti_run_length(run), after = 0, before = 0;
    bool is_cooling =
        crti_run_kind(run) == CRTI_PAGE_COOLING && crti_read(&heap->cooling) == page;

    if (status != CRT_OK)
        return status;
    if ((crti_run_kind(run) != CRTI_PAGE_OBJECT && crti_run_kind(run) != CRTI_PAGE_SLAB &&
         !is_cooling) ||
        length == 0 || length > store->geometry.last_record - page + 1)
        return crti_tx_damaged(store, "freed pages are not in use, at", page);
    if (is_cooling)
        crti_tx_set(store, &heap->cooling, 0);
    else
        crti_tx_set(store, &heap->pages_free, crti_read(&heap->pages_free) + length);
    if (crti_run_kind(crti_read(&crti_page(store, page + length)->run)) ==
        CRTI_PAGE_FREE) {
        status = pull_free(store, page + length, &after);
        length += after;
    }
    if (status == CRT_OK)
        status = find_before(store, &page, &before);
    if (status == CRT_OK && before > 0)
        status = pull_free(store, page, &before);
    if (status == CRT_OK)
        status = push_free(store, page, length + before);
    store->freed = true;
    return status;
}

static crt_status_t list_runs(crti_store_t *store, const crti_arena_list_t *bin,
                              crti_free_run_t *runs, size_t room, size_t *count)
{
    uint64_t page = crti_read(&bin->head);

    for (; page != 0 && *count < room; ++*count) {
        const crti_page_t *p = crti_page_at(store, page);

        if (!p)
            return crti_tx_damaged(store, "a bin leads outside the pages", page);
        runs[*count] =
            (crti_free_run_t){(uint32_t)page, crti_run_length(crti_read(&p->run))};
        page = (uint32_t)crti_read(&p->links);
    }
    return CRT_OK;
}

crt_status_t crti_heap_survey(crti_store_t *store, uint32_t least, crti_free_run_t *runs,
                              size_t room, size_t *count_out, uint32_t *floor_out)
{
    crti_heap_t *heap = &store->header->heap;
    crt_status_t status = crti_tx_lock(store, &heap->lock);

    *count_out = 0;
    if (status != CRT_OK)
        return status;
    for (unsigned bin = CRTI_HEAP_BINS; bin-- > crti_heap_bin(least);)
        for (unsigned i = 0; i < CRTI_ZONES && status == CRT_OK; i++)
            status = list_runs(store, &heap->zones[i].bins[bin], runs, room, count_out);
    *floor_out = (uint32_t)crti_read(&heap->floor);
    return status;
}

crt_status_t crti_heap_peak(crti_store_t *store, uint64_t *peak_out)
{
    crti_heap_t *heap = &store->header->heap;
    crt_status_t status = crti_tx_lock(store, &heap->lock);

    if (status != CRT_OK)
        return status;
    *peak_out = store->geometry.page_count - crti_read(&heap->least_free);
    crti_write(&heap->least_free, crti_read(&heap->pages_free));
    return CRT_OK;
}

/* The length of the free run at `page`; 0: there is none. What lies inside other runs may look like
 * one, so it is looked for in its bin. */
static uint32_t free_length(crti_store_t *store, uint32_t page)
{
    const crti_page_t *p = crti_page_at(store, page);
    uint64_t run = p ? crti_read(&p->run) : 0, next;
    uint32_t steps = store->geometry.page_count;

    if (crti_run_kind(run) != CRTI_PAGE_FREE)
        return 0;
    next =
        crti_read(&zone_of(store, page)->bins[crti_heap_bin(crti_run_length(run))].head);
    while (next != page && next != 0 && steps-- > 0) {
        p = crti_page_at(store, next);
        next = p ? (uint32_t)crti_read(&p->links) : 0;
    }
    return next == page ? crti_run_length(run) : 0;
}

/* The water marks come down to what is in use now. */
static crt_status_t lower_marks(crti_store_t *store)
{
    crti_heap_t *heap = &store->header->heap;
    uint32_t floor = 0, page, record = store->geometry.last_record + 1, length = 0;
    crt_status_t status = read_floor(store, &floor);

    page = floor;
    if (status == CRT_OK)
        status = find_before(store, &page, &length);
    if (status == CRT_OK)
        status = find_before(store, &record, &length);
    if (status != CRT_OK)
        return status;
    if (page - 1 < crti_read(&heap->high_water))
        crti_tx_set(store, &heap->high_water, page - 1);
    if (floor > crti_read(&heap->low_water))
        crti_tx_set(store, &heap->low_water, floor);
    if (record - 1 < crti_read(&heap->record_water))
        crti_tx_set(store, &heap->record_water, record - 1);
    return CRT_OK;
}

crt_status_t crti_heap_cool(crti_store_t *store, uint32_t run, uint32_t first,
                            uint32_t pages)
{
    crti_heap_t *heap = &store->header->heap;
    uint32_t before = first - run, length = 0;
    crt_status_t status = crti_tx_lock(store, &heap->lock);

    if (status != CRT_OK)
        return status;
    if (free_length(store, run) < before + pages)
        return CRT_ERR_NOT_FOUND; /* the caller goes on */
    status = lower_marks(store);
    if (status == CRT_OK)
        status = pull_free(store, run, &length);
    if (status == CRT_OK && before > 0)
        status = push_free(store, run, before);
    if (status == CRT_OK && length > before + pages)
        status = push_free(store, first + pages, length - before - pages);
    if (status != CRT_OK)
        return status;
    tag(store, first, crti_run_word(CRTI_PAGE_COOLING, 0, store->slot, pages));
    crti_tx_set(store, &heap->cooling, first);
    return CRT_OK;
}

/* Pages from `first` on, with a guard at both ends, are one free run. */
static void format_zone(crti_store_t *store, crti_zone_kind_t kind, uint32_t first)
{
    const uint32_t count = store->geometry.page_count;
    const uint64_t guard = crti_run_word(CRTI_PAGE_GUARD, 0, 0, 1);
    const unsigned bin = crti_heap_bin(count);
    crti_zone_t *zone = &store->header->heap.zones[kind];

    crti_write(&crti_page(store, first - 1)->run, guard);
    crti_write(&crti_page(store, first + count)->run, guard);
    crti_write(&crti_page(store, first)->run, crti_run_word(CRTI_PAGE_FREE, 0, 0, count));
    crti_write(&crti_page(store, first + count - 1)->run,
               crti_run_word(CRTI_PAGE_FREE_END, 0, 0, count));
    crti_write(&zone->bins[bin].head, first);
    crti_write(&zone->map[bin / 64], 1ull << (bin % 64));
}

void crti_heap_format(crti_store_t *store)
{
    const uint32_t count = store->geometry.page_count;
    crti_heap_t *heap = &store->header->heap;

    format_zone(store, CRTI_ZONE_OBJECTS, 1);
    format_zone(store, CRTI_ZONE_RECORDS, store->geometry.first_record);
    crti_write(&heap->pages_free, count);
    crti_write(&heap->least_free, count);
    crti_write(&heap->floor, count + 1ull);
    crti_write(&heap->low_water, count + 1ull);
    crti_write(&heap->record_water, store->geometry.first_record - 1ull);
}
