/* SPDX-License-Identifier: Apache-2.0 */
/* Space: looking at all objects, and making room when there is none.
 *
 * Where it sits
 *     store.c (create on a full store), figures.c, reclaim.c -> [ store/space.c ]
 *         -> table.c, heap.c
 * Threads
 *     Any. Walks copy the list of entry slabs under the heap's lock, then read entries without
 *     locks: what they see are hints, and each action finds its object again by id.
 * Sleeping creators
 *     space_wanted = 1, look for room, sleep on space_sequence. Whoever commits a transaction
 *     that freed something sees space_wanted after its unlock (a full barrier), clears it,
 *     counts the sequence up and wakes all. A wake that dies with its process is made up for by
 *     reclaim and by the slices of the sleep.
 */
#include "runtime/store/space.h"

#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/store/futex.h"

#define SLEEP_SLICE_NS (100 * CRTI_MS)
#define COOLING_LOOKS  100 /* at pieces that the daemon takes one after the other */
#define COOLING_NS     (20 * CRTI_MS)
#define EVICT_SHARE    64 /* evict at least that part of the store at once: walks are long */

crt_status_t crti_space_slabs(crti_store_t *store, const crti_arena_list_t *list,
                              crti_arena_chain_t chain, crti_buffer_t *pages)
{
    uint64_t before = 0;

    for (uint64_t page = crti_read(&list->head); page != 0;) {
        const crti_page_t *p = crti_page_at(store, page);
        const uint32_t first = (uint32_t)page;
        uint64_t links;

        if (!p)
            return crti_tx_damaged(store, "a list of slabs leaves the pages at", page);
        links = crti_read(chain == CRTI_ARENA_CHAIN_LINKS ? &p->links : &p->more);
        if (links >> 32 != before) /* a list whose ways back are right has no circle */
            return crti_tx_damaged(store, "a list of slabs is broken at page", page);
        if (crti_buffer_append(pages, &first, sizeof(first)) != CRT_OK)
            return CRT_ERR_NO_MEMORY;
        before = page;
        page = (uint32_t)links;
    }
    return CRT_OK;
}

typedef struct walk {
    void (*look)(void *user, const crti_seen_t *seen); /* may be NULL */
    void *user;
    bool only_memory; /* what has no memory is passed by */
} walk_t;

/* True when one of its objects has memory. */
static bool look_at_slab(crti_store_t *store, uint32_t page, const walk_t *walk)
{
    bool has_memory = false;

    for (uint64_t unit = 0; unit < CRTI_PAGE_BYTES / CRTI_RECORD_BYTES; unit++) {
        uint64_t ref = (uint64_t)page << 6 | unit;
        const crti_entry_t *entry = crti_slab_unit(store, ref, CRTI_CLASS_ENTRY, NULL);
        crti_seen_t seen;
        bool is_on_disk;

        if (!entry)
            continue;
        seen = (crti_seen_t){crti_entry_id(entry), crti_read(&entry->size),
                             crti_read(&entry->state), crti_read(&entry->stamp)};
        if (crti_state_of(seen.state) == CRTI_ENTRY_GONE ||
            crti_state_of(seen.state) >= CRTI_ENTRY_STATES)
            continue;
        is_on_disk = crti_state_of(seen.state) == CRTI_ENTRY_SPILLED;
        has_memory = has_memory || !is_on_disk;
        if (walk->look && !(is_on_disk && walk->only_memory))
            walk->look(walk->user, &seen);
    }
    return has_memory;
}

/* It is passed by until one of its objects is given memory: also by who does so just now, and has
 * not seen that the mark is gone. */
static void clear_mark(crti_store_t *store, uint32_t page)
{
    _Atomic uint8_t *mark = crti_page_mark(store, page);

    atomic_store(mark, 0);
    atomic_thread_fence(memory_order_seq_cst);
    if (look_at_slab(store, page, &(walk_t){.only_memory = true}))
        atomic_store(mark, 1);
}

static crt_status_t walk_slabs(crti_store_t *store, const walk_t *walk)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t slabs = {0};
    crti_heap_t *heap = &store->header->heap;
    const uint32_t *pages;
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_tx_lock(store, &heap->lock);
    if (status == CRT_OK)
        status =
            crti_space_slabs(store, &heap->entry_list, CRTI_ARENA_CHAIN_MORE, &slabs);
    status = crti_tx_end(store, status);
    pages = (const uint32_t *)(const void *)slabs.data;
    for (size_t i = 0; status == CRT_OK && i < slabs.size / sizeof(*pages); i++) {
        if (walk->only_memory && !atomic_load(crti_page_mark(store, pages[i])))
            continue;
        if (!look_at_slab(store, pages[i], walk) && walk->only_memory)
            clear_mark(store, pages[i]);
    }
    return status;
}

crt_status_t crti_space_walk(crti_store_t *store,
                             void (*look)(void *user, const crti_seen_t *seen),
                             void *user)
{
    return walk_slabs(store, &(walk_t){look, user, false});
}

crt_status_t crti_space_walk_memory(crti_store_t *store,
                                    void (*look)(void *user, const crti_seen_t *seen),
                                    void *user)
{
    return walk_slabs(store, &(walk_t){look, user, true});
}

struct gathering {
    crti_buffer_t *list;
    bool (*wanted)(void *user, const crti_seen_t *seen);
    void *user;
};

static void gather(void *user, const crti_seen_t *seen)
{
    struct gathering *g = user;

    if (g->wanted(g->user, seen)) /* without memory those found so far will do */
        (void)crti_buffer_append(g->list, seen, sizeof(*seen));
}

void crti_space_gather(crti_store_t *store,
                       bool (*wanted)(void *user, const crti_seen_t *seen), void *user,
                       crti_buffer_t *list)
{
    struct gathering g = {list, wanted, user};

    (void)crti_space_walk(store, gather, &g); /* damaged: what could be seen */
}

/* ---------------------------------------------------------------- eviction */

static bool is_primary(uint64_t state)
{
    return crti_state_flags(state) & CRTI_ENTRY_PRIMARY;
}

bool crti_space_is_evictable(uint64_t state)
{
    return crti_state_of(state) == CRTI_ENTRY_SEALED && crti_state_pins(state) == 0 &&
           (!is_primary(state) || crti_state_flags(state) & CRTI_ENTRY_SAVED);
}

/* Without memory those found so far will do. */
static void gather_evictable(void *list, const crti_seen_t *seen)
{
    if (crti_space_is_evictable(seen->state))
        (void)crti_buffer_append(list, seen, sizeof(*seen));
}

/* Copies first: another node has them. */
static int by_stamp(const void *a, const void *b)
{
    const crti_seen_t *x = a, *y = b;

    if (is_primary(x->state) != is_primary(y->state))
        return is_primary(x->state) ? 1 : -1;
    return x->stamp < y->stamp ? -1 : x->stamp > y->stamp;
}

static crt_status_t evict(crti_store_t *store, crti_object_id_t id, bool *evicted_out)
{
    crti_found_t found;
    crt_status_t status;

    crti_tx_begin(store);
    *evicted_out = false;
    status = crti_table_find(store, id, &found);
    if (status == CRT_OK && found.entry && crti_space_is_evictable(found.state)) {
        status = is_primary(found.state) ? crti_table_spill(store, &found)
                                         : crti_table_remove(store, &found);
        *evicted_out = status == CRT_OK;
    }
    status = crti_tx_end(store, status);
    if (status == CRT_OK && *evicted_out)
        atomic_fetch_add_explicit(&store->header->evictions, 1, memory_order_relaxed);
    return status;
}

/* Room for an entry and for the data, exactly as crti_table_add looks for it: records find theirs
 * wherever the number of free pages allows it. */
static crt_status_t has_room(crti_store_t *store, size_t size, bool *room_out)
{
    const crti_heap_t *heap = &store->header->heap;
    uint32_t page = 0, data, entry;
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_tx_lock(store, &store->me->lock);
    data = size <= CRTI_SMALL_BYTES ? crti_slab_need(store, crti_slab_class(size))
                                    : (uint32_t)crti_pages_for(size);
    entry = crti_slab_need(store, CRTI_CLASS_ENTRY);
    if (status == CRT_OK && data > 0)
        status = crti_heap_find(store, data, &page);
    *room_out =
        data + entry == 0 || ((data == 0 || page != 0) &&
                              crti_read(&heap->pages_free) >=
                                  (uint64_t)data + entry + store->geometry.reserve);
    return crti_tx_end(store, status);
}

static crt_status_t drop_idle_of(crti_store_t *store, unsigned slot, unsigned class)
{
    uint32_t page = crti_slab_idle(store, slot, class);

    if (page == 0)
        return CRT_OK;
    crti_tx_begin(store);
    return crti_tx_end(store, crti_slab_drop(store, page, slot, class));
}

/* Slabs without a used unit, of which each process keeps one of each class at hand: they split what
 * is free. Whether a slab is one is looked at again with its slot's lock. Those of pins stay: they
 * belong to their process alone, and lie nowhere between objects. */
static crt_status_t drop_idle_slabs(crti_store_t *store)
{
    crt_status_t status = CRT_OK;

    for (unsigned i = 0; i < store->geometry.slot_count && status == CRT_OK; i++)
        for (unsigned class = 0; class < CRTI_CLASSES && status == CRT_OK; class ++)
            if (class != CRTI_CLASS_PIN)
                status = drop_idle_of(store, i, class);
    return status;
}

/* What the daemon has taken to give its memory back, or had taken when it was looked: free again in
 * a moment. */
typedef struct cooling {
    uint32_t page, trims;
} cooling_t;

static cooling_t look_at_cooling(const crti_store_t *store)
{
    return (cooling_t){.trims = atomic_load(&store->header->trims),
                       .page = crti_read(&store->header->heap.cooling)};
}

/* False: nothing was taken since `before`. */
static bool wait_for_cooling(crti_store_t *store, cooling_t before)
{
    crti_header_t *header = store->header;
    uint32_t sequence = atomic_load(&header->space_sequence);
    cooling_t now = look_at_cooling(store);

    if (now.page == 0)
        return before.page != 0 || now.trims != before.trims;
    atomic_store(&header->space_wanted, 1);
    if (crti_read(&header->heap.cooling) != 0) /* else its end was not told here */
        crti_futex_wait(&header->space_sequence, sequence, COOLING_NS);
    return true;
}

/* has_room; what is only being given back does not count as used. */
static crt_status_t has_room_soon(crti_store_t *store, size_t size, bool *room_out)
{
    crt_status_t status = CRT_OK;

    *room_out = false;
    for (int i = 0; i < COOLING_LOOKS && status == CRT_OK && !*room_out; i++) {
        cooling_t before = look_at_cooling(store);

        status = has_room(store, size, room_out);
        if (status == CRT_OK && !*room_out && !wait_for_cooling(store, before))
            break;
    }
    return status;
}

crt_status_t crti_space_make(crti_store_t *store, size_t size, bool *room_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t found = {0};
    crti_seen_t *copies;
    size_t least = store->geometry.capacity / EVICT_SHARE, gone = 0, count;
    crt_status_t status = has_room_soon(store, size, room_out);

    if (status == CRT_OK && !*room_out)
        status = drop_idle_slabs(store);
    if (status == CRT_OK && !*room_out)
        status = has_room(store, size, room_out);
    if (status != CRT_OK || *room_out)
        return status;
    (void)crti_space_walk_memory(store, gather_evictable, &found);
    copies = (crti_seen_t *)(void *)found.data;
    count = found.size / sizeof(*copies);
    if (count > 0)
        qsort(copies, count, sizeof(*copies), by_stamp);
    for (size_t i = 0; status == CRT_OK && !*room_out && i < count; i++) {
        bool evicted;

        status = evict(store, copies[i].id, &evicted);
        if (!evicted)
            continue;
        gone += copies[i].size;
        if (status == CRT_OK && (i + 1 == count || (gone >= least && gone >= size)))
            status = has_room(store, size, room_out);
    }
    return status;
}

crt_status_t crti_store_wait_space(crti_store_t *store, size_t size, uint64_t deadline_ns)
{
    crti_header_t *header = store->header;
    char text[512];

    if (size > store->geometry.capacity)
        return crt_raise(CRT_ERR_TOO_LARGE, "an object of %zu bytes; the store holds %zu",
                         size, (size_t)store->geometry.capacity);
    for (;;) {
        uint32_t sequence = atomic_load(&header->space_sequence);
        uint64_t now;
        bool room;
        crt_status_t status;

        atomic_store(&header->space_wanted, 1);
        status = crti_space_make(store, size, &room);
        if (status != CRT_OK || room)
            return status;
        now = crti_now_ns();
        if (now >= deadline_ns)
            break;
        crti_spill_ask(store, CRTI_SPILL_WAITED, size);
        now = deadline_ns - now;
        crti_futex_wait(&header->space_sequence, sequence,
                        now < SLEEP_SLICE_NS ? now : SLEEP_SLICE_NS);
    }
    crti_space_describe(store, text, sizeof(text));
    return crt_raise(CRT_ERR_STORE_FULL, "no room for %zu bytes: %s", size, text);
}
