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
 *     stays; at both ends of the arena, and of records, as much as prefault.c makes ready. The rest
 *     goes from the other side: from the end of the longest run.
 * What has to be given back
 *     Records have pages besides those of objects, and both together no more than the store may
 *     have (heap.c). When they come to lie on new memory, as much goes elsewhere at once, of what
 *     objects leave free, without a reserve: so the file is hardly ever larger than the store.
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
    return atomic_load(&store->trim_call) == CRTI_TRIM_STOP;
}

static void nap(crti_store_t *store, uint64_t ns)
{
    uint32_t call = atomic_load(&store->trim_call);

    if (call != CRTI_TRIM_STOP)
        crti_futex_wait(&store->trim_call, call, ns);
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
    if (first > crti_read(&store->header->heap.record_water))
        crti_prefault_records_went_cold(store, data_at(first));
    else if (first > crti_read(&store->header->heap.high_water) &&
             first < crti_read(&store->header->heap.low_water))
        crti_prefault_went_cold(store, data_at(first), data_at(first) + size);
    given = give(store, first);
    return status == CRT_OK ? given : status;
}

/* The part of a free run that may go, of whole huge pages. */
typedef struct part {
    uint32_t run, first, last; /* `last` is the first page behind */
} part_t;

/* The free runs, longest first. */
typedef struct survey {
    crti_free_run_t runs[RUNS];
    part_t parts[RUNS];
    size_t count;
    uint32_t floor;
    /* what stays of holes; the shortest, which are used first, take it off */
    uint64_t hole_reserve;
    bool has_reserves;
} survey_t;

/* What stays of a free run at its start and at its end, in bytes of the data. */
static void keep_reserves(const crti_store_t *store, survey_t *survey,
                          const crti_free_run_t *run, uint64_t *first, uint64_t *last)
{
    uint64_t all = data_at((uint64_t)store->geometry.page_count + 1), stays;

    if (run->page + run->length - 1 == store->geometry.last_record) {
        *first +=
            crti_prefault_record_reserve(store); /* else it would come back at once */
    } else if (!survey->has_reserves) {
        return;
    } else if (run->page + run->length == survey->floor) { /* between objects and slabs */
        *first += crti_prefault_reserve(store, false, *first);
        *last -= crti_prefault_reserve(store, true, all - *last);
    } else {
        stays =
            survey->hole_reserve < *last - *first ? survey->hole_reserve : *last - *first;
        survey->hole_reserve -= stays;
        *first += stays;
    }
}

static part_t part_of(const crti_store_t *store, survey_t *survey,
                      const crti_free_run_t *run)
{
    uint64_t first = data_at(run->page),
             last = data_at((uint64_t)run->page + run->length);
    part_t part = {.run = run->page};

    keep_reserves(store, survey, run, &first, &last);
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

/* All free runs, and what may go of each; how much of them stays. False: without memory, or a
 * process stalls. */
static bool look_at_runs(crti_store_t *store, survey_t *survey, uint64_t *stays_out)
{
    crt_status_t status;

    survey->hole_reserve = crti_prefault_reserve(store, false, 0);
    *stays_out = 0;
    crti_tx_begin(store);
    status = crti_tx_end(store, crti_heap_survey(store, HUGE_PAGES, survey->runs, RUNS,
                                                 &survey->count, &survey->floor));
    if (status != CRT_OK)
        return false;
    for (size_t i = survey->count; i-- > 0;) { /* the shortest are used first */
        part_t *part = &survey->parts[i];

        *part = part_of(store, survey, &survey->runs[i]);
        *stays_out += ((uint64_t)survey->runs[i].length - (part->last - part->first))
                      << CRTI_PAGE_SHIFT;
    }
    return true;
}

static uint64_t trim_runs(crti_store_t *store, const survey_t *survey, uint64_t budget)
{
    uint64_t gone = 0;

    for (size_t i = 0; i < survey->count && gone < budget; i++)
        gone += trim_part(store, &survey->parts[i], budget - gone);
    return gone;
}

uint64_t crti_trim_excess(crti_store_t *store)
{
    uint64_t may = data_at((uint64_t)store->geometry.page_count + 1) +
                   crti_prefault_record_reserve(store);
    uint64_t have = resident(store), gone = 0, stays;
    survey_t *survey = have > may ? calloc(1, sizeof(*survey)) : NULL;

    if (survey && look_at_runs(store, survey, &stays))
        gone = trim_runs(store, survey, have - may);
    free(survey);
    return gone;
}

uint64_t crti_trim_step(crti_store_t *store, crti_trim_t *trim)
{
    uint64_t gone = crti_trim_excess(store), have = resident(store), need, budget, stays;
    survey_t *survey = calloc(1, sizeof(*survey));
    crt_status_t status;

    crti_tx_begin(store);
    status = crti_tx_end(store, crti_heap_peak(store, &trim->peaks[0]));
    need = trim->peaks[0] > trim->peaks[1] ? trim->peaks[0] : trim->peaks[1];
    trim->peaks[1] = trim->peaks[0];
    if (survey)
        survey->has_reserves = true;
    if (status == CRT_OK && survey && look_at_runs(store, survey, &stays)) {
        need = (need << CRTI_PAGE_SHIFT) + stays;
        budget = have > need ? have - need : 0;
        gone += trim_runs(store, survey, budget > LITTLE ? budget / 2 : budget);
    }
    free(survey);
    return gone;
}

/* Of an interval, in which it looks whenever it is called. False: this thread is to end. */
static bool wait_for_end(crti_store_t *store, uint64_t end)
{
    while (crti_now_ns() < end && !is_stopped(store)) {
        uint32_t call = CRTI_TRIM_LOOK;
        uint64_t now = crti_now_ns();

        if (atomic_compare_exchange_strong(&store->trim_call, &call, CRTI_TRIM_WAIT))
            crti_trim_excess(store);
        else if (now < end)
            crti_futex_wait(&store->trim_call, CRTI_TRIM_WAIT, end - now);
    }
    return !is_stopped(store);
}

static void *trim_main(void *arg)
{
    crti_store_t *store = arg;
    crti_trim_t trim = {{0}};

    while (wait_for_end(store, crti_now_ns() + INTERVAL_NS))
        crti_trim_step(store, &trim);
    return NULL;
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
    atomic_store(&store->trim_call, CRTI_TRIM_STOP);
    crti_futex_wake(&store->trim_call, 1);
    pthread_join(store->trim_thread, NULL);
    store->trim_running = false;
    atomic_store(&store->trim_call, CRTI_TRIM_WAIT);
}

void crti_trim_look(crti_store_t *store)
{
    uint32_t call = CRTI_TRIM_WAIT;

    if (atomic_compare_exchange_strong(&store->trim_call, &call, CRTI_TRIM_LOOK))
        crti_futex_wake(&store->trim_call, 1);
}
