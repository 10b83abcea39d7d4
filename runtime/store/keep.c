/* SPDX-License-Identifier: Apache-2.0 */
/* Keep: memory of the arena that the program still points to when its process leaves.
 *
 * Where it sits
 *     core (refs and objects of before a shutdown) -> [ keep.c ] -> attach.c (detach)
 * What becomes of the pages
 *     arena -> a copy that is the process's own, put in their place at once: whoever reads or
 *     writes there meanwhile sees the one or the other, never a hole. Those around them are
 *     unmapped as always. Without memory for a copy the arena's pages stay mapped.
 * Threads
 *     crti_store_keep as the store; crti_kept_drop from any thread.
 * Ownership
 *     What is kept of one attachment lives until its last holder has dropped it: objects share
 *     pages.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/base/buffer.h"
#include "runtime/store/arena.h"

/* Whole pages, of one of the two mappings. */
typedef struct range {
    uintptr_t start, end;
} range_t;

struct crti_kept {
    atomic_size_t holders;
    /* range_t; from the detach on: in order, none touches another */
    crti_buffer_t ranges;
};

static range_t *ranges_of(const crti_kept_t *kept, size_t *count_out)
{
    *count_out = kept->ranges.size / sizeof(range_t);
    return (range_t *)(void *)kept->ranges.data;
}

crti_kept_t *crti_store_keep(crti_store_t *store, const void *data, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)data;
    range_t range = {start & ~(page - 1), (start + size + page) & ~(page - 1)};

    if (!store->kept) {
        store->kept = calloc(1, sizeof(*store->kept));
        if (store->kept)
            atomic_init(&store->kept->holders,
                        1); /* the store itself, until the detach */
    }
    if (!store->kept ||
        crti_buffer_append(&store->kept->ranges, &range, sizeof(range)) != CRT_OK)
        return NULL;
    atomic_fetch_add(&store->kept->holders, 1);
    return store->kept;
}

void crti_kept_drop(crti_kept_t *kept)
{
    size_t count;
    range_t *ranges;

    if (!kept || atomic_fetch_sub(&kept->holders, 1) != 1)
        return;
    ranges = ranges_of(kept, &count);
    for (size_t i = 0; i < count; i++)
        munmap((void *)ranges[i].start, ranges[i].end - ranges[i].start);
    crti_buffer_fini(&kept->ranges);
    free(kept);
}

/* ---------------------------------------------------------------- at the detach */

static int by_start(const void *a, const void *b)
{
    const range_t *x = a, *y = b;

    return x->start < y->start ? -1 : x->start > y->start;
}

static void merge(crti_kept_t *kept)
{
    size_t count, merged = 0;
    range_t *ranges = ranges_of(kept, &count);

    qsort(ranges, count, sizeof(*ranges), by_start);
    for (size_t i = 1; i < count; i++) {
        if (ranges[i].start > ranges[merged].end)
            ranges[++merged] = ranges[i];
        else if (ranges[i].end > ranges[merged].end)
            ranges[merged].end = ranges[i].end;
    }
    kept->ranges.size = (merged + 1) * sizeof(*ranges);
}

static void copy_range(const range_t *range, bool is_read_only)
{
    size_t size = range->end - range->start;
    void *copy =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (copy == MAP_FAILED)
        return;
    crti_store_copy(copy, (const void *)range->start, size);
    if (is_read_only)
        (void)mprotect(copy, size, PROT_READ);
    if (mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)range->start) ==
        MAP_FAILED)
        munmap(copy, size);
}

void crti_store_copy_kept(crti_store_t *store)
{
    uintptr_t base = (uintptr_t)store->base;
    size_t count;
    const range_t *ranges;

    if (!store->kept)
        return;
    merge(store->kept);
    ranges = ranges_of(store->kept, &count);
    for (size_t i = 0; i < count; i++)
        copy_range(&ranges[i], ranges[i].start < base ||
                                   ranges[i].start >= base + store->geometry.file_bytes);
}

void crti_store_unmap_rest(const crti_kept_t *kept, const void *start, size_t size)
{
    uintptr_t from = (uintptr_t)start, end = from + size;
    size_t count = 0;
    const range_t *ranges = kept ? ranges_of(kept, &count) : NULL;

    for (size_t i = 0; i < count; i++) {
        if (ranges[i].end <= from || ranges[i].start >= end)
            continue;
        if (ranges[i].start > from)
            munmap((void *)from, ranges[i].start - from);
        from = ranges[i].end;
    }
    if (from < end)
        munmap((void *)from, end - from);
}
