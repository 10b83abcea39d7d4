/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the store's tables after a mad process wrote over them (store/arena.h). An input is
 * a list of words, each 4 bytes of place and 8 of value; then the daemon does all that it does, and
 * must neither touch what is outside nor stay. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/store/reclaim.h"
#include "store_objects.h"
#include "tests/store/check.h"

#define STORE_BYTES ((size_t)8 << 20)
#define ENTRY       12
#define OBJECTS     24

static crti_store_t *daemon_store, *client;
static uint8_t *good;

/* Tables, and records as far as there are any; what objects hold says nothing. */
static void copy(uint8_t *to, const uint8_t *from)
{
    const crti_geometry_t *g = &daemon_store->geometry;
    uint64_t at = crti_page_offset(daemon_store, g->first_record);

    memcpy(to, from, g->data_offset);
    memcpy(to + at, from + at, (uint64_t)OBJECTS << CRTI_PAGE_SHIFT);
}

/* Made once: each input damages a copy of it. */
static void make(void)
{
    crti_store_view_t view;

    if (crti_store_new(STORE_BYTES, 64, &daemon_store) != CRT_OK ||
        crti_store_attach(crti_store_fd(daemon_store), 1, (crti_id_t){1, 1}, &client) !=
            CRT_OK)
        abort();
    crti_store_stop_threads(daemon_store);
    for (uint64_t i = 1; i <= OBJECTS; i++)
        put(client, i, i * 700);
    for (uint64_t i = 1; i <= OBJECTS; i += 3)
        crti_store_get(client, object(i), &view);
    crti_store_free(client, object(4));
    daemon_store->patience_ns = 20000; /* locks may be held by nobody */
    good = malloc(daemon_store->geometry.file_bytes);
    if (!good)
        abort();
    copy(good, daemon_store->base);
}

/* Tables only: what objects hold is the users'. The header's first words are read once, at
 * attach. */
static void damage(const uint8_t *data, size_t size)
{
    size_t from = offsetof(crti_header_t, space_sequence) / 8,
           words = daemon_store->geometry.data_offset / 8 - from;

    for (; size >= ENTRY; data += ENTRY, size -= ENTRY) {
        uint32_t place;

        memcpy(&place, data, sizeof(place));
        memcpy(daemon_store->base + (from + place % words) * 8, data + 4, 8);
    }
}

static void use(void)
{
    struct crti_store_stats stats;
    unsigned slot;

    for (uint64_t i = 1; i <= OBJECTS; i += 5) {
        crti_store_view_t view = {0};

        if (crti_store_get(daemon_store, object(i), &view) == CRT_OK &&
            ((const uint8_t *)view.data < daemon_store->view ||
             (const uint8_t *)view.data + view.size >
                 daemon_store->view + daemon_store->geometry.file_bytes))
            abort();
        put(daemon_store, 100 + i, i * 300);
        crti_store_free(daemon_store, object(i));
        crti_store_release(daemon_store, &view);
    }
    crti_store_stalled(daemon_store, &slot);
    crti_store_reclaim(daemon_store, 1);
    crti_store_drop_owner(daemon_store, object(1).owner);
    crti_store_stats(daemon_store, &stats);
    crti_store_check(daemon_store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t begin;

    if (!good)
        make();
    begin = fuzz_processor_ns();
    copy(daemon_store->base, good);
    damage(data, size);
    use();
    atomic_store(&daemon_store->later_count,
                 0); /* what was put off belongs to this input */
    if (fuzz_processor_ns() - begin > 20 * CRTI_S)
        abort();
    return 0;
}

/* Words of the tables as they are: a mutation of one is near to what is right. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    size_t size = 0;

    if (index >= 32 || room < 8 * ENTRY)
        return 0;
    if (!good)
        make();
    for (uint32_t i = 0; i < 8; i++, size += ENTRY) {
        size_t from = offsetof(crti_header_t, space_sequence) / 8,
               words = daemon_store->geometry.data_offset / 8 - from;
        uint32_t place = (uint32_t)((index * 8 + i) * (words / 256) % words);

        memcpy(out + size, &place, sizeof(place));
        memcpy(out + size + 4, good + (from + place) * 8, 8);
    }
    return size;
}
