/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-fault: makes pages ready before anybody writes to them.
 *
 * Where it sits
 *     node daemon -> [ thread in store/prefault.c ] -> pages beyond the water marks
 *     store.c (a new object) -> crti_prefault_notice, crti_prefault_block
 * Threads
 *     One in the daemon, all signals blocked, low priority. It touches pages only through the
 *     kernel (MADV_POPULATE_WRITE), which changes no byte.
 * How far
 *     As far ahead as was used so far, at least AHEAD_LEAST, at most AHEAD_MOST: a store that is
 *     hardly used costs hardly any memory. What nobody needs for minutes is given back by trim.c,
 *     and made ready anew as the use grows. Objects grow up from the start, slabs of small ones
 *     down from the end, records up from the start of theirs.
 * Small pages
 *     A process has to map what it writes, which takes half as long as writing it when pages are
 *     small. So where the file has no huge pages by itself (a memfd), this thread puts 512 pages
 *     together to one, once they are there (MADV_COLLAPSE). Who has mapped them sees no change.
 */
#include "runtime/store/arena.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/thread.h"
#include "runtime/store/futex.h"
#include "runtime/store/help.h"

#ifndef MADV_POPULATE_READ
#    define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#    define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif
#ifndef MADV_COLLAPSE
#    define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

#define AHEAD_LEAST   (16u << 20)
#define ZONE_LEAST    (4u << 20) /* at the end of the arena, where slabs are */
#define AHEAD_MOST    (512u << 20)
#define RECORDS_LEAST (2u << 20) /* 32,768 objects */
#define RECORDS_MOST  (16u << 20)
/* Between two looks whether to stop. The kernel holds the lock on the mappings of the daemon for as
 * long, and on a busy machine this thread gets little of a processor. */
#define STEP_BYTES   (2u << 20)
#define BLOCK_BYTES  (1u << 20)  /* smaller blocks fault as they are written */
#define HELPED_BYTES (32u << 20) /* of small pages: mapping them takes milliseconds */
#define PAUSE_NS     (10 * CRTI_S)
#define NICER        10 /* than the daemon */

static void wake(crti_store_t *store)
{
    atomic_fetch_add(&store->header->fault_sequence, 1);
    crti_futex_wake(&store->header->fault_sequence, 1);
}

static uint64_t object_bytes(const crti_store_t *store)
{
    return (uint64_t)store->geometry.page_count << CRTI_PAGE_SHIFT;
}

/* Bytes to have ready when `used` bytes were used from one end. */
static uint64_t wanted(const crti_store_t *store, uint64_t used, uint64_t least,
                       uint64_t most)
{
    uint64_t all = object_bytes(store);
    uint64_t ahead = used < least ? least : used > most ? most : used;

    if (ahead > all / 4)
        ahead = all / 4;
    return used + ahead < all ? used + ahead : all;
}

/* Where records begin, in the data, and how many bytes of them are in use up to the mark. */
static uint64_t records_at(const crti_store_t *store)
{
    return (store->geometry.first_record - 1ull) << CRTI_PAGE_SHIFT;
}

static uint64_t records_used(const crti_store_t *store)
{
    uint64_t water = crti_read(&store->header->heap.record_water);
    uint64_t before = store->geometry.first_record - 1ull;

    return water > before ? (water - before) << CRTI_PAGE_SHIFT : 0;
}

uint64_t crti_prefault_reserve(const crti_store_t *store, bool at_end, uint64_t used)
{
    uint64_t all = object_bytes(store);
    uint64_t most = all / 4 < AHEAD_MOST ? all / 4 : AHEAD_MOST;

    return at_end ? wanted(store, used, ZONE_LEAST, AHEAD_MOST) - used : most;
}

uint64_t crti_prefault_record_reserve(const crti_store_t *store)
{
    uint64_t used = records_used(store);

    return wanted(store, used, RECORDS_LEAST, RECORDS_MOST) - used;
}

void crti_prefault_records_went_cold(crti_store_t *store, uint64_t first)
{
    if (first < atomic_load(&store->cold_record))
        atomic_store(&store->cold_record, first);
    wake(store);
}

void crti_prefault_went_cold(crti_store_t *store, uint64_t first, uint64_t last)
{
    if (first < atomic_load(&store->cold_low))
        atomic_store(&store->cold_low, first);
    if (last > atomic_load(&store->cold_high))
        atomic_store(&store->cold_high, last);
    wake(store);
}

/* Bytes that are ready: from both ends of the objects' pages, and of records. */
typedef struct ready {
    uint64_t low, high, records;
} ready_t;

/* What was given back is to be made ready again. */
static void forget_cold(crti_store_t *store, ready_t *ready)
{
    uint64_t all = object_bytes(store), at = records_at(store);
    uint64_t first = atomic_exchange(&store->cold_low, UINT64_MAX);
    uint64_t last = atomic_exchange(&store->cold_high, 0);
    uint64_t record = atomic_exchange(&store->cold_record, UINT64_MAX);

    if (first < ready->low)
        ready->low = first;
    if (last > 0 && all - last < ready->high)
        ready->high = all - last;
    if (record != UINT64_MAX && record - at < ready->records)
        ready->records = record - at;
}

/* The next piece of one end, of whole huge pages where it does not end the arena. */
static uint64_t piece_of(uint64_t all, uint64_t goal, uint64_t ready, bool from_end)
{
    uint64_t step = goal - ready < STEP_BYTES ? goal - ready : STEP_BYTES;

    if (from_end)
        return step + (all - ready - step) % CRTI_HUGE_BYTES;
    step += -(ready + step) % CRTI_HUGE_BYTES;
    return step < all - ready ? step : all - ready;
}

/* Makes the next piece of one end of what begins at `start` of the data ready. False when there is
 * nothing to do, or no more can be done: an old kernel, or no memory, which whoever writes will
 * see. */
static bool advance(crti_store_t *store, uint64_t start, uint64_t goal, uint64_t *ready,
                    bool from_end)
{
    uint64_t all = object_bytes(store), step; /* and as many of records */
    uint8_t *data = store->base + store->geometry.data_offset + start;

    if (goal <= *ready)
        return false;
    step = piece_of(all, goal, *ready, from_end);
    data += from_end ? all - *ready - step : *ready;
    *ready += step;
    if (madvise(data, step, MADV_POPULATE_WRITE) == 0) {
        if (!store->geometry.huge_pages)
            (void)madvise(data, step, MADV_COLLAPSE); /* else they stay small */
        return true;
    }
    if (errno == EINTR)
        return true;
    *ready = all;
    return false;
}

/* High water that will be worth a wake: half of what is ready ahead is used. */
static uint32_t next_mark(uint64_t used, uint64_t ready)
{
    return (uint32_t)((used + (ready - used) / 2) >> CRTI_PAGE_SHIFT);
}

/* How much is in use, up to the water marks. False: damaged. */
static bool look_at_marks(const crti_store_t *store, ready_t *used)
{
    const crti_heap_t *heap = &store->header->heap;
    const uint64_t pages = store->geometry.page_count;
    uint64_t high_water = crti_read(&heap->high_water);
    uint64_t low_water = crti_read(&heap->low_water);

    *used = (ready_t){high_water << CRTI_PAGE_SHIFT,
                      (pages + 1 - low_water) << CRTI_PAGE_SHIFT, records_used(store)};
    return high_water <= pages && low_water <= pages + 1 &&
           used->records <= object_bytes(store);
}

/* The next piece; false when all is ready. Records have what they take of objects' memory: no more
 * of both is made ready than the store may have. */
static bool make_ready(crti_store_t *store, const ready_t *used, ready_t *ready)
{
    uint64_t all = object_bytes(store);
    uint64_t records = wanted(store, used->records, RECORDS_LEAST, RECORDS_MOST);
    uint64_t high = wanted(store, used->high, ZONE_LEAST, AHEAD_MOST);
    uint64_t low = wanted(store, used->low, AHEAD_LEAST, AHEAD_MOST), spare;

    spare = all > high + used->records ? all - high - used->records : 0;
    if (low > spare)
        low = spare > used->low ? spare : used->low;
    if (advance(store, records_at(store), records, &ready->records, false)) {
        crti_trim_look(store);
        return true;
    }
    return advance(store, 0, high, &ready->high, true) ||
           advance(store, 0, low, &ready->low, false);
}

static void *fault_main(void *arg)
{
    crti_store_t *store = arg;
    crti_header_t *header = store->header;
    ready_t ready = {0}, used;

    (void)!nice(NICER); /* on Linux: this thread */
    while (!atomic_load(&store->fault_stop)) {
        uint32_t sequence = atomic_load(&header->fault_sequence);

        forget_cold(store, &ready);
        if (!look_at_marks(store, &used))
            return NULL;
        if (make_ready(store, &used, &ready))
            continue;
        atomic_store(&header->fault_mark, next_mark(used.low, ready.low));
        atomic_store(&header->fault_zone_mark, next_mark(used.high, ready.high));
        atomic_store(&header->fault_record_mark, next_mark(used.records, ready.records));
        crti_futex_wait(&header->fault_sequence, sequence, PAUSE_NS);
    }
    return NULL;
}

crt_status_t crti_prefault_start(crti_store_t *store)
{
    int error = crti_thread_start(&store->fault_thread, NULL, fault_main, store);

    if (error != 0)
        return crt_raise(CRT_ERR_NO_MEMORY, "object store: thread: %s", strerror(error));
    store->fault_running = true;
    return CRT_OK;
}

void crti_prefault_stop(crti_store_t *store)
{
    if (!store->fault_running)
        return;
    atomic_store(&store->fault_stop, true);
    wake(store);
    pthread_join(store->fault_thread, NULL);
    store->fault_running = false;
}

void crti_prefault_notice(crti_store_t *store)
{
    crti_header_t *header = store->header;
    uint64_t low = crti_read(&header->heap.high_water);
    uint64_t high = store->geometry.page_count + 1 - crti_read(&header->heap.low_water);
    uint64_t record =
        crti_read(&header->heap.record_water) - (store->geometry.first_record - 1);

    if (low <= atomic_load_explicit(&header->fault_mark, memory_order_relaxed) &&
        high <= atomic_load_explicit(&header->fault_zone_mark, memory_order_relaxed) &&
        record <= atomic_load_explicit(&header->fault_record_mark, memory_order_relaxed))
        return;
    atomic_store(&header->fault_mark, UINT32_MAX); /* once is enough */
    atomic_store(&header->fault_zone_mark, UINT32_MAX);
    atomic_store(&header->fault_record_mark, UINT32_MAX);
    wake(store);
}

struct mapping {
    crti_store_t *store;
    uint64_t start, size; /* of the block, in the data */
    atomic_int error;     /* errno of what failed */
};

/* Maps what this process has not mapped yet of huge pages first ... last - 1. Small pages are
 * mapped as if they were read: then the kernel maps 16 at a time, for writing too, because nobody
 * counts which pages of such a file were written. */
static void map_piece(void *user, size_t first, size_t last)
{
    struct mapping *m = user;
    crti_store_t *store = m->store;
    const int how = store->geometry.huge_pages ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;

    for (uint64_t i = first + m->start / CRTI_HUGE_BYTES;
         i < last + m->start / CRTI_HUGE_BYTES && atomic_load(&m->error) == 0; i++) {
        uint64_t from = i * CRTI_HUGE_BYTES, to = from + CRTI_HUGE_BYTES;

        if (atomic_load_explicit(&store->touched[i], memory_order_relaxed))
            continue;
        if (from < m->start)
            from = m->start & ~(uint64_t)(CRTI_PAGE_BYTES - 1);
        if (to > m->start + m->size)
            to = m->start + m->size;
        if (madvise(store->base + store->geometry.data_offset + from, to - from, how) !=
            0)
            atomic_store(&m->error, errno);
        else if (to - from == CRTI_HUGE_BYTES)
            atomic_store_explicit(&store->touched[i], 1, memory_order_relaxed);
    }
}

/* What was given back since is mapped no more. Of several threads each may clear it: what they have
 * mapped meanwhile is looked at again. */
static void forget_trimmed(crti_store_t *store)
{
    uint32_t trims = atomic_load(&store->header->trims);
    uint64_t count = crti_arena_huge_count(&store->geometry);

    if (atomic_load(&store->touched_since) == trims)
        return;
    for (uint64_t i = 0; i < count; i++)
        atomic_store_explicit(&store->touched[i], 0, memory_order_relaxed);
    atomic_store(&store->touched_since, trims);
}

crt_status_t crti_prefault_block(crti_store_t *store, void *data, size_t size)
{
    struct mapping mapping = {.store = store,
                              .start = (uint64_t)((uint8_t *)data - store->base) -
                                       store->geometry.data_offset,
                              .size = size};
    uint64_t first = mapping.start / CRTI_HUGE_BYTES, fresh = 0;
    uint64_t count = (mapping.start + size - 1) / CRTI_HUGE_BYTES - first + 1;
    crti_help_t help = {.work = map_piece, .user = &mapping, .size = count, .piece = 1};

    if (size < BLOCK_BYTES)
        return CRT_OK;
    forget_trimmed(store);
    for (uint64_t i = first; i < first + count; i++)
        fresh += !atomic_load_explicit(&store->touched[i], memory_order_relaxed);
    if (!store->geometry.huge_pages && fresh * CRTI_HUGE_BYTES >= HELPED_BYTES)
        crti_help_run(&help);
    else
        map_piece(&mapping, 0, count);
    switch (atomic_load(&mapping.error)) {
    case ENOMEM:
    case EFAULT:
        return crt_raise(CRT_ERR_NO_MEMORY,
                         "this host has no memory for an object of %zu bytes", size);
    default: return CRT_OK; /* an old kernel: pages come as they are written */
    }
}
