/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a process that joins a store (store/attach.c) whose file a mad process wrote over,
 * header and all, and then uses it. fuzz_arena.c is the daemon's side.
 *
 * First two bytes: by how many pages the file is too short or too long (0x8000: not at all), then a
 * slot; then words, each 4 bytes of place and 8 of value. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/store/reclaim.h"
#include "store_objects.h"

#define STORE_BYTES ((size_t)8 << 20)
#define SLOTS       64
#define HEAD        3
#define ENTRY       12
#define OBJECTS     24
#define AS_IT_IS    0x8000

static uint8_t *good;
static size_t file_bytes, tables_bytes;
static int file; /* a copy of it each time */
static uint8_t *map;

/* Made once: each input damages a copy of it. */
static void make(void)
{
    crti_store_t *daemon_store, *client;
    crti_store_view_t view;

    if (crti_store_new_on(STORE_BYTES, SLOTS, false, &daemon_store) != CRT_OK ||
        crti_store_attach(crti_store_fd(daemon_store), 1, (crti_id_t){1, 1}, &client) !=
            CRT_OK)
        abort();
    crti_store_stop_threads(daemon_store);
    for (uint64_t i = 1; i <= OBJECTS; i++)
        put(client, i, i * 700);
    for (uint64_t i = 1; i <= OBJECTS; i += 3)
        crti_store_get(client, object(i), &view);
    crti_store_free(client, object(4));
    file_bytes = daemon_store->geometry.file_bytes;
    tables_bytes = daemon_store->geometry.data_offset;
    good = malloc(file_bytes);
    file = memfd_create("mad", MFD_CLOEXEC);
    if (good == NULL || file < 0 || ftruncate(file, (off_t)file_bytes) != 0)
        abort();
    memcpy(good, daemon_store->base, file_bytes);
    map = mmap(NULL, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map == MAP_FAILED)
        abort();
    crti_store_detach(client);
    crti_store_detach(daemon_store);
}

static bool is_inside(const crti_store_t *store, const void *data, size_t size)
{
    return (const uint8_t *)data >= store->view && size <= file_bytes &&
           (const uint8_t *)data + size <= store->view + file_bytes;
}

static void use(crti_store_t *store)
{
    crti_object_id_t ours = object(OBJECTS + 200);
    struct crti_store_stats stats;
    void *data;

    for (uint64_t i = 1; i <= OBJECTS; i += 5) {
        crti_store_view_t view = {0};

        if (crti_store_get(store, object(i), &view) == CRT_OK &&
            !is_inside(store, view.data, view.size))
            abort();
        put(store, 100 + i, i * 300);
        crti_store_free(store, object(i));
        crti_store_release(store, &view);
    }
    if (crti_store_create(store, ours, 20000, &data) == CRT_OK)
        crti_store_abort(store, ours);
    crti_store_stats(store, &stats);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t begin = fuzz_processor_ns();
    crti_store_t *store;
    unsigned pages, slot;

    if (!good)
        make();
    if (size < HEAD)
        return 0;
    pages = data[0] | (unsigned)data[1] << 8;
    slot = data[2] % (SLOTS + 2);
    memcpy(map, good, tables_bytes);
    for (data += HEAD, size -= HEAD; size >= ENTRY; data += ENTRY, size -= ENTRY) {
        uint32_t place;

        memcpy(&place, data, sizeof(place));
        memcpy(map + place % (tables_bytes / 8) * 8, data + 4, 8);
    }
    if (pages != AS_IT_IS && ftruncate(file, (off_t)pages << CRTI_PAGE_SHIFT) != 0)
        abort();
    if (crti_store_attach(file, slot, (crti_id_t){2, 2}, &store) == CRT_OK) {
        if (pages != AS_IT_IS && (size_t)pages << CRTI_PAGE_SHIFT != file_bytes)
            abort();                /* what is behind its end would be touched */
        store->patience_ns = 20000; /* locks may be held by nobody */
        use(store);
        crti_store_detach(store);
    } else if (crt_error_detail()[0] == '\0') {
        abort();
    }
    if (pages != AS_IT_IS && ftruncate(file, (off_t)file_bytes) != 0)
        abort();
    if (fuzz_processor_ns() - begin > 20 * CRTI_S)
        abort();
    return 0;
}

/* Words as they are: a mutation of one is near to what is right. First those of the header, which
 * are checked at attach, then those of the tables. */
size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    size_t size = HEAD, words = tables_bytes / 8;

    if (index >= 32 || room < HEAD + 8 * ENTRY)
        return 0;
    if (!good)
        make();
    words = tables_bytes / 8;
    out[0] = (uint8_t)(index % 8 == 7 ? (file_bytes >> CRTI_PAGE_SHIFT) - 1 : 0);
    out[1] = (uint8_t)(index % 8 == 7 ? (file_bytes >> CRTI_PAGE_SHIFT) >> 8 : 0x80);
    out[2] = (uint8_t)(2 + index % 4);
    for (uint32_t i = 0; i < 8; i++, size += ENTRY) {
        uint32_t place = index < 4 ? index * 8 + i
                                   : (uint32_t)((index * 8 + i) * (words / 256) % words);

        memcpy(out + size, &place, sizeof(place));
        memcpy(out + size + 4, good + (size_t)place * 8, 8);
    }
    return size;
}
