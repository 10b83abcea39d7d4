/* SPDX-License-Identifier: Apache-2.0 */
/* Trim: memory that nobody needed for minutes goes back to the system.
 *
 * Where it sits
 *     node daemon -> [ thread in store/trim.c ] -> heap.c (takes free pages) -> the kernel
 * What is given back
 *     Each INTERVAL looks at the most that was in use at the same time, in this interval and the
 *     one before. What is there beyond that and a warm reserve is not needed; half of it goes, all
 *     of it when it is little. So an idle store shrinks in steps, and one that fills and empties
 *     within two minutes keeps what it has. The reserve is what the next objects will be given: of
 *     the free runs, which are used from the smallest on and each from its start, the first of it
 *     stays; at both ends of the arena as much as prefault.c makes ready. The rest goes from the
 *     other side: from the end of the longest run.
 * Safety
 *     Pages are taken out of the heap as for an object, then a hole is punched into the file, then
 *     they are freed: nobody else can be given them meanwhile, and who allocates at that moment
 *     finds others. Between the two transactions the pages belong to `cooling` of the heap. Only
 *     the daemon does this, and with the daemon the arena ends, so that nobody has to take them
 *     back. Who has such pages mapped has them no more (`trims` of the header tells; see
 *     prefault.c).
 * Threads
 *     One of the daemon, all signals blocked, of ordinary priority: it holds the heap's lock for
 *     moments.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/store/futex.h"
#include "runtime/store/heap.h"

#define INTERVAL_NS (60 * CRTI_S)
#define LITTLE      ((uint64_t)64 << 20) /* not worth another step */
#define RUNS        1024u                /* of the longest ones */
#define HUGE_PAGES  (CRTI_HUGE_BYTES / CRTI_PAGE_BYTES)
#define PIECE       (4 * HUGE_PAGES) /* taken at once: some 0.2 ms */
#define PAUSE_NS    CRTI_MS          /* between two pieces: others want the locks, too */
#define RETRY_NS    (20 * CRTI_MS)

static bool is_stopped(crti_store_t *store)
{
    return atomic_load(&store->trim_stop) != 0;
}

static void nap(crti_store_t *store, uint64_t ns)
{
    crti_futex_wait(&store->trim_stop, 0, ns);
}

/* Where a page's bytes lie among the data. */
static uint64_t data_at(uint64_t page)
{
    return (page - 1) << CRTI_PAGE_SHIFT;
}

/* Memory of the data that is there. */
static uint64_t resident(const crti_store_t *store)
{
    struct stat file;
    uint64_t bytes;

    if (fstat(store->fd, &file) != 0)
        return 0;
    bytes = (uint64_t)file.st_blocks * 512;
    return bytes > store->geometry.data_offset ? bytes - store->geometry.data_offset : 0;
}

static bool has_memory(const crti_store_t *store, uint32_t first, uint32_t pages)
{
    off_t at = (off_t)(store->geometry.data_offset + data_at(first));
    off_t data = lseek(store->fd, at, SEEK_DATA);

    return data >= 0 && data < at + ((off_t)pages << CRTI_PAGE_SHIFT);
}

static crt_status_t take(crti_store_t *store, uint32_t run, uint32_t first,
                         uint32_t pages)
{
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_heap_cool(store, run, first, pages);
    return crti_tx_end(store, status);
}

/* Whoever is in the way is ended by the daemon within a second. */
static crt_status_t give(crti_store_t *store, uint32_t first)
{
    for (;;) {
        crt_status_t status;

        crti_tx_begin(store);
        status = crti_heap_free(store, first);
        status = crti_tx_end(store, status);
        if (status != CRT_ERR_TIMED_OUT || is_stopped(store))
            return status;
        nap(store, RETRY_NS);
    }
}

/* One piece of a free run; CRT_ERR_NOT_FOUND: it is used by now. */
static crt_status_t punch(crti_store_t *store, uint32_t run, uint32_t first,
                          uint32_t pages)
{
    off_t at = (off_t)(store->geometry.data_offset + data_at(first));
    crt_status_t status = take(store, run, first, pages), given;
    uint64_t size = (uint64_t)pages << CRTI_PAGE_SHIFT;

    if (status != CRT_OK)
        return status;
    if (fallocate(store->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
                  (off_t)size) != 0)
        status = crt_raise(CRT_ERR_IO, "object store: memory can't be given back: %s",
                           strerror(errno));
    atomic_fetch_add(&store->header->trims, 1);
    if (first > crti_read(&store->header->heap.high_water) &&
        first < crti_read(&store->header->heap.low_water))
        crti_prefault_went_cold(store, data_at(first), data_at(first) + size);
    given = give(store, first);
    return status == CRT_OK ? given : status;
}

/* The part of a free run that may go, of whole huge pages; what stays is taken off the reserve for
 * holes. */
typedef struct part {
    uint32_t run, first, last; /* `last` is the first page behind */
} part_t;

static part_t part_of(const crti_store_t *store, const crti_free_run_t *run,
                      uint32_t floor, uint64_t *hole_reserve)
{
    uint64_t all = data_at((uint64_t)store->geometry.page_count + 1);
    uint64_t first = data_at(run->page),
             last = data_at((uint64_t)run->page + run->length);
    part_t part = {.run = run->page};

    if (run->page + run->length == floor) { /* between objects and slabs */
        first += crti_prefault_reserve(store, false, first);
        last -= crti_prefault_reserve(store, true, all - last);
    } else {
        uint64_t stays = *hole_reserve < last - first ? *hole_reserve : last - first;

        *hole_reserve -= stays;
        first += stays;
    }
    first = (first + CRTI_HUGE_BYTES - 1) / CRTI_HUGE_BYTES * CRTI_HUGE_BYTES;
    last = last / CRTI_HUGE_BYTES * CRTI_HUGE_BYTES;
    part.first = (uint32_t)(first >> CRTI_PAGE_SHIFT) + 1;
    part.last = last > first ? (uint32_t)(last >> CRTI_PAGE_SHIFT) + 1 : part.first;
    return part;
}

/* From its end on, up to `budget` bytes. Returns how many. */
static uint64_t trim_part(crti_store_t *store, const part_t *part, uint64_t budget)
{
    uint64_t gone = 0;
    uint32_t at = part->last, pages;

    for (; at > part->first && gone < budget && !is_stopped(store); at -= pages) {
        crt_status_t status;

        pages = at - part->first < PIECE ? at - part->first : PIECE;
        if (!has_memory(store, at - pages, pages))
            continue;
        status = punch(store, part->run, at - pages, pages);
        if (status != CRT_OK && status != CRT_ERR_NOT_FOUND)
            crti_log(CRTI_LOG_WARN, "store", "%s", crt_error_detail());
        if (status != CRT_OK)
            break;
        gone += (uint64_t)pages << CRTI_PAGE_SHIFT;
        nap(store, PAUSE_NS);
    }
    return gone;
}

/* What may go of each run, longest run first; returns how much of what is free stays. */
static uint64_t divide(const crti_store_t *store, const crti_free_run_t *runs,
                       size_t count, uint32_t floor, part_t *parts)
{
    uint64_t hole_reserve = crti_prefault_reserve(store, false, 0), stays = 0;

    for (size_t i = count; i-- > 0;) { /* the shortest are used first */
        parts[i] = part_of(store, &runs[i], floor, &hole_reserve);
        stays += ((uint64_t)runs[i].length - (parts[i].last - parts[i].first))
                 << CRTI_PAGE_SHIFT;
    }
    return stays;
}

uint64_t crti_trim_step(crti_store_t *store, crti_trim_t *trim)
{
    crti_free_run_t *runs = malloc(RUNS * sizeof(*runs));
    part_t *parts = malloc(RUNS * sizeof(*parts));
    uint64_t have = resident(store), need = 0, budget = 0, gone = 0;
    size_t count = 0;
    uint32_t floor = 0;
    crt_status_t status = runs && parts ? CRT_OK : CRT_ERR_NO_MEMORY;

    if (status == CRT_OK) {
        crti_tx_begin(store);
        status = crti_tx_end(store, crti_heap_survey(store, HUGE_PAGES, runs, RUNS,
                                                     &count, &trim->peaks[0], &floor));
    }
    if (status == CRT_OK) {
        need = trim->peaks[0] > trim->peaks[1] ? trim->peaks[0] : trim->peaks[1];
        trim->peaks[1] = trim->peaks[0];
        need = (need << CRTI_PAGE_SHIFT) + divide(store, runs, count, floor, parts);
        budget = have > need ? have - need : 0;
        budget = budget > LITTLE ? budget / 2 : budget;
    }
    for (size_t i = 0; i < count && gone < budget && status == CRT_OK; i++)
        gone += trim_part(store, &parts[i], budget - gone);
    free(runs);
    free(parts);
    return gone;
}

static void *trim_main(void *arg)
{
    crti_store_t *store = arg;
    crti_trim_t trim = {{0}};

    for (;;) {
        uint64_t end = crti_now_ns() + INTERVAL_NS, now = 0;

        while (!is_stopped(store) && (now = crti_now_ns()) < end)
            nap(store, end - now);
        if (is_stopped(store))
            return NULL;
        crti_trim_step(store, &trim);
    }
}

crt_status_t crti_trim_start(crti_store_t *store)
{
    int error = crti_thread_start(&store->trim_thread, NULL, trim_main, store);

    if (error != 0)
        return crt_raise(CRT_ERR_NO_MEMORY, "object store: thread: %s", strerror(error));
    store->trim_running = true;
    return CRT_OK;
}

void crti_trim_stop(crti_store_t *store)
{
    if (!store->trim_running)
        return;
    atomic_store(&store->trim_stop, 1);
    crti_futex_wake(&store->trim_stop, 1);
    pthread_join(store->trim_thread, NULL);
    store->trim_running = false;
    atomic_store(&store->trim_stop, 0);
}
