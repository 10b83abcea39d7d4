/* SPDX-License-Identifier: Apache-2.0 */
/* Transaction: locks, commit and undo. The header has the rules.
 *
 * Where it sits
 *     table.c, slab.c, heap.c -> [ store/transaction.c ] -> shared words
 * Cost (hot path)
 *     begin and end: one private mutex; a lock: one compare-and-swap and one exchange; a set:
 *     four plain stores.
 */
#include "runtime/store/transaction.h"

#include <limits.h>

#include "runtime/base/clock.h"
#include "runtime/store/futex.h"

#define SPINS        200
#define SLICE_NS     (20 * CRTI_MS) /* a sleep: a wake can be lost with the one it was for */
#define COMPLAIN_NS  (50 * CRTI_MS)
#define IMPATIENT_NS CRTI_MS /* while something is put off: somebody stalls, known */

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

CRTI_HOT void crti_tx_begin(crti_store_t *store)
{
    pthread_mutex_lock(&store->mutex);
    store->damaged = false;
    store->freed = store->lacks = false;
    store->marked = 0;
    crti_write(&store->me->sequence, crti_read(&store->me->sequence) + 1);
}

/* True when the lock's value names no process that could ever open it. */
static bool is_orphan(crti_store_t *store, uint32_t value)
{
    unsigned holder = (value & ~CRTI_LOCK_WAITERS) - 1;
    const crti_arena_slot_t *slot = crti_arena_slot(store, holder);

    /* Our own transaction does not have it (crti_tx_lock looked). */
    return !slot || holder == store->slot || atomic_load(&slot->state) == CRTI_SLOT_FREE;
}

static crt_status_t give_up(crti_store_t *store, uint32_t value)
{
    unsigned holder = (value & ~CRTI_LOCK_WAITERS) - 1;
    const crti_arena_slot_t *slot = crti_arena_slot(store, holder);

    atomic_store(&store->header->complaint, holder + 1);
    return crt_raise(
        CRT_ERR_TIMED_OUT,
        "object store: process %u (slot %u) has held a lock for too long; it is "
        "stopped or damaged",
        slot ? atomic_load(&slot->pid) : 0, holder);
}

/* One look at a lock that somebody has, and a nap. CRT_IN_PROGRESS: look again. */
static crt_status_t wait_once(crti_store_t *store, crti_lock_t *lock, uint32_t seen,
                              uint64_t waited, uint64_t patience)
{
    if (is_orphan(store, seen) &&
        atomic_compare_exchange_strong(lock, &seen, store->slot + 1))
        return CRT_OK;
    if (waited >= patience)
        return give_up(store, seen);
    if (waited >= COMPLAIN_NS)
        atomic_store(&store->header->complaint, seen & ~CRTI_LOCK_WAITERS);
    atomic_store(&store->me->waits_for, seen & ~CRTI_LOCK_WAITERS);
    if (!(seen & CRTI_LOCK_WAITERS) &&
        !atomic_compare_exchange_strong(lock, &seen, seen | CRTI_LOCK_WAITERS))
        return CRT_IN_PROGRESS;
    crti_futex_wait(lock, seen | CRTI_LOCK_WAITERS,
                    patience - waited < SLICE_NS ? patience - waited : SLICE_NS);
    return CRT_IN_PROGRESS;
}

static crt_status_t lock_slowly(crti_store_t *store, crti_lock_t *lock)
{
    uint32_t mine = store->slot + 1, seen = 0;
    uint64_t start, patience = store->patience_ns;
    crt_status_t status = CRT_IN_PROGRESS;

    for (unsigned turn = 0; turn < SPINS; turn++) {
        pause_briefly();
        seen = 0;
        if (atomic_compare_exchange_strong(lock, &seen, mine))
            return CRT_OK;
    }
    if (atomic_load(&store->later_count) > 0 && patience > IMPATIENT_NS)
        patience = IMPATIENT_NS;
    start = crti_now_ns();
    while (status == CRT_IN_PROGRESS) {
        seen = 0;
        /* Once asleep we can't know who else sleeps: keep the mark. */
        if (atomic_compare_exchange_strong(lock, &seen, mine | CRTI_LOCK_WAITERS))
            status = CRT_OK;
        else
            status = wait_once(store, lock, seen, crti_now_ns() - start, patience);
    }
    atomic_store(&store->me->waits_for, 0);
    return status;
}

CRTI_HOT crt_status_t crti_tx_lock(crti_store_t *store, crti_lock_t *lock)
{
    const unsigned n = store->lock_count;
    uint32_t free_value = 0;
    crt_status_t status;

    for (unsigned i = 0; i < n; i++)
        if (store->locks[i] == lock)
            return CRT_OK;
    if (n >= CRTI_TX_LOCKS)
        return crti_tx_damaged(store, "one step needs too many locks", n);
    crti_write(&store->me->held[n], (uint64_t)((uint8_t *)lock - store->base));
    atomic_signal_fence(memory_order_seq_cst);
    if (!atomic_compare_exchange_strong(lock, &free_value, store->slot + 1)) {
        status = lock_slowly(store, lock);
        if (status != CRT_OK) {
            crti_write(&store->me->held[n], 0);
            return status;
        }
    }
    store->locks[n] = lock;
    store->lock_count = n + 1;
    return CRT_OK;
}

static void unlock(crti_lock_t *lock)
{
    if (atomic_exchange(lock, 0) & CRTI_LOCK_WAITERS)
        crti_futex_wake(lock, 1);
}

/* Who clears the mark looks at the entries once more then (space.c): it sees what this process has
 * written before it opened its locks, or has cleared the mark by now. */
static void mark(const crti_store_t *store, uint32_t page)
{
    _Atomic uint8_t *mark = crti_page_mark(store, page);

    if (!atomic_load(mark))
        atomic_store(mark, 1);
}

/* An object was on disk for those who looked meanwhile, and has its memory again. */
static void mark_page_of(const crti_store_t *store, uint64_t offset)
{
    const crti_geometry_t *g = &store->geometry;

    atomic_thread_fence(memory_order_seq_cst);
    if (offset >= g->data_offset &&
        (offset - g->data_offset) >> CRTI_PAGE_SHIFT < g->last_record)
        mark(store, (uint32_t)((offset - g->data_offset) >> CRTI_PAGE_SHIFT) + 1);
}

/* Writes the old values back, newest first. The log may be any bytes. */
static void roll_back(crti_store_t *store, crti_arena_slot_t *slot, uint64_t count)
{
    if (count > CRTI_LOG_WORDS)
        count = CRTI_LOG_WORDS;
    while (count-- > 0) {
        uint64_t offset = crti_read(&slot->log[count].offset);

        if (offset % 8 == 0 && offset >= offsetof(crti_header_t, heap) &&
            offset <= store->geometry.file_bytes - 8) {
            crti_write((crti_word_t *)(store->base + offset),
                       crti_read(&slot->log[count].old));
            mark_page_of(store, offset);
        }
    }
    atomic_signal_fence(memory_order_seq_cst);
    crti_write(&slot->log_count, 0);
}

crt_status_t crti_tx_damaged(crti_store_t *store, const char *what, uint64_t value)
{
    store->damaged = true;
    return crt_raise(CRT_ERR_CORRUPT, "object store is damaged: %s (%llu)", what,
                     (unsigned long long)value);
}

void crti_tx_wake_creators(crti_store_t *store)
{
    crti_header_t *header = store->header;

    if (atomic_load(&header->space_wanted) == 0)
        return;
    atomic_store(&header->space_wanted, 0);
    atomic_fetch_add(&header->space_sequence, 1);
    crti_futex_wake(&header->space_sequence, INT_MAX);
}

CRTI_HOT crt_status_t crti_tx_end(crti_store_t *store, crt_status_t status)
{
    bool freed = store->freed, lacks = store->lacks;

    if (store->damaged && status == CRT_OK)
        status = crti_tx_damaged(store, "one step changes too much", store->log_count);
    if (status == CRT_OK) {
        atomic_signal_fence(memory_order_seq_cst);
        crti_write(&store->me->log_count, 0); /* commit */
    } else {
        roll_back(store, store->me, store->log_count);
    }
    store->log_count = 0;
    atomic_signal_fence(memory_order_seq_cst);
    while (store->lock_count > 0) {
        unsigned n = --store->lock_count;

        unlock(store->locks[n]);
        atomic_signal_fence(memory_order_seq_cst);
        crti_write(&store->me->held[n], 0);
    }
    if (store->marked)
        mark(store, store->marked);
    pthread_mutex_unlock(&store->mutex);
    if (freed && status == CRT_OK)
        crti_tx_wake_creators(store);
    if (lacks)
        crti_spill_ask(store, CRTI_SPILL_ASKED, 0);
    return status;
}

void crti_tx_undo(crti_store_t *store, crti_arena_slot_t *slot)
{
    const uint64_t data_end = store->geometry.file_bytes - sizeof(crti_lock_t);
    const uint32_t holder =
        (uint32_t)(slot - crti_arena_slot(store, 0)) + 1; /* as lock words name it */

    roll_back(store, slot, crti_read(&slot->log_count));
    atomic_store(&slot->waits_for, 0);
    for (unsigned i = 0; i < CRTI_TX_LOCKS; i++) {
        uint64_t offset = crti_read(&slot->held[i]);

        if (offset != 0 && offset % sizeof(crti_lock_t) == 0 && offset <= data_end) {
            crti_lock_t *lock = (crti_lock_t *)(store->base + offset);

            if ((atomic_load(lock) & ~CRTI_LOCK_WAITERS) == holder)
                unlock(lock);
        }
        crti_write(&slot->held[i], 0);
    }
}
