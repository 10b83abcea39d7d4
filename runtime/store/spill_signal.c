/* SPDX-License-Identifier: Apache-2.0 */
/* Spill signals: how those who want room and the daemon's saver hear of each other.
 *
 * Where it sits
 *     transaction.c (memory was taken below the mark, a saved object is gone), store.c, space.c (no
 *     room), node/objects/spill_threads.c (the saver) -> [ store/spill_signal.c ] -> words of the
 *     header
 * Threads
 *     Any; set, sleep and wake are the daemon's.
 * Sleeping saver
 *     spill_asked = 0, look, sleep on spill_asked. Who wants it to look raises it, and wakes it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/store/arena.h"
#include "runtime/store/futex.h"

void crti_spill_ask(crti_store_t *store, crti_spill_ask_t how, size_t size)
{
    crti_header_t *header = store->header;
    uint32_t asked = atomic_load(&header->spill_asked);

    if (atomic_load_explicit(&header->spill_mark, memory_order_relaxed) == 0)
        return;
    if (size > crti_read(&header->spill_size))
        crti_write(&header->spill_size, size);
    while (asked < (uint32_t)how)
        if (atomic_compare_exchange_weak(&header->spill_asked, &asked, how)) {
            crti_futex_wake(&header->spill_asked, 1);
            return;
        }
}

bool crti_store_spill_sleep(crti_store_t *store, bool rests, uint64_t deadline_ns)
{
    crti_header_t *header = store->header;
    const uint32_t enough = rests ? CRTI_SPILL_WAITED : CRTI_SPILL_ASKED;
    uint32_t asked;
    uint64_t now;

    while ((asked = atomic_load(&header->spill_asked)) < enough &&
           (now = crti_now_ns()) < deadline_ns)
        crti_futex_wait(&header->spill_asked, asked, deadline_ns - now);
    if (!rests)
        asked = atomic_exchange(&header->spill_asked, CRTI_SPILL_NOT_ASKED);
    return asked >= CRTI_SPILL_WAITED;
}

void crti_store_spill_wake(crti_store_t *store)
{
    atomic_store(&store->header->spill_asked, CRTI_SPILL_WAITED);
    crti_futex_wake(&store->header->spill_asked, 1);
}

void crti_store_spill_set(crti_store_t *store, crti_store_spill_t state, int error,
                          uint64_t limit)
{
    crti_header_t *header = store->header;

    crti_write(&header->spill_limit, limit);
    atomic_store(&header->spill_state, (uint32_t)state << 16 | (uint16_t)error);
    if (state != CRTI_STORE_SPILL_OFF && atomic_load(&header->spill_mark) == 0) {
        crti_write(&header->clock_ns, crti_now_ns());
        atomic_store(&header->spill_mark, (uint32_t)(store->geometry.page_count *
                                                     CRTI_LIMIT(spill_store_free) / 100));
    }
}

void crti_store_spill_trouble(const crti_store_t *store, char *text, size_t size)
{
    const crti_header_t *header = store->header;
    uint32_t word = atomic_load(&header->spill_state);

    *text = '\0';
    switch ((crti_store_spill_t)(word >> 16)) {
    case CRTI_STORE_SPILL_ON: break;
    case CRTI_STORE_SPILL_FAILS:
        snprintf(text, size, "spilling to disk fails: %s",
                 strerror((int)(word & 0xffff)));
        break;
    case CRTI_STORE_SPILL_LIMIT:
        snprintf(text, size,
                 "the %" PRIu64 " MiB that may be spilled to disk are in use "
                 "(--spill-limit)",
                 crti_read(&header->spill_limit) >> 20);
        break;
    case CRTI_STORE_SPILL_SHARE:
        snprintf(text, size,
                 "the job whose id ends with %04x has %" PRIu64
                 " MiB on disk: that is as much as one may have, the rest is for others",
                 word & 0xffff, crti_read(&header->spill_limit) >> 20);
        break;
    case CRTI_STORE_SPILL_STALLS:
        snprintf(text, size, "the disk that it spills to does not answer");
        break;
    case CRTI_STORE_SPILL_OFF:
    default: snprintf(text, size, "nothing is spilled to disk here"); break;
    }
}

bool crti_store_spill_is_unheard(const crti_store_t *store)
{
    const crti_header_t *header = store->header;

    return atomic_load(&header->spill_asked) == CRTI_SPILL_WAITED &&
           atomic_load(&header->spill_state) >> 16 == CRTI_STORE_SPILL_ON;
}

uint64_t crti_store_saved_bytes(const crti_store_t *store)
{
    return crti_read(&store->header->spill_saved);
}
