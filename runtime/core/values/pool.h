/* SPDX-License-Identifier: Apache-2.0 */
/* Pool: structs of one size, kept for reuse, so that a call allocates nothing in the long run.
 * Slabs: the same for structs of which there may be millions, side by side in blocks of memory,
 * without a word of the heap's for each. A struct's first bytes link it while it is free. Not
 * thread-safe. */
#ifndef CRTI_CORE_POOL_H
#define CRTI_CORE_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/list.h"

/* So many free items are kept: as many calls in flight allocate nothing. */
#define CRTI_POOL_KEEPS 16384

typedef struct crti_pool {
    void *free;
    size_t size;
    bool is_aligned;             /* to 64 bytes: dearer */
    unsigned count, keep;        /* free ones; more than `keep` go back to the heap */
    void (*on_free)(void *item); /* before that; may be NULL */
} crti_pool_t;

static inline void crti_pool_init(crti_pool_t *pool, size_t size, unsigned keep,
                                  void (*on_free)(void *item))
{
    *pool = (crti_pool_t){.size = size, .keep = keep, .on_free = on_free};
}

static inline void *crti_pool_new(const crti_pool_t *pool)
{
    void *item;

    if (!pool->is_aligned)
        return calloc(1, pool->size);
    item = aligned_alloc(64, (pool->size + 63) & ~(size_t)63);
    return item ? memset(item, 0, pool->size) : NULL;
}

/* A new one is all zero, one used before is as it was but for its first bytes: so it may keep
 * buffers for its next use. NULL when out of memory. */
static inline void *crti_pool_get(crti_pool_t *pool)
{
    void *item = pool->free;

    if (!item)
        return crti_pool_new(pool);
    pool->free = *(void **)item;
    pool->count--;
    return item;
}

static inline void crti_pool_put(crti_pool_t *pool, void *item)
{
    if (pool->count >= pool->keep) {
        if (pool->on_free)
            pool->on_free(item);
        free(item);
        return;
    }
    *(void **)item = pool->free;
    pool->free = item;
    pool->count++;
}

static inline void crti_pool_fini(crti_pool_t *pool)
{
    while (pool->free) {
        void *item = pool->free;

        pool->free = *(void **)item;
        if (pool->on_free)
            pool->on_free(item);
        free(item);
    }
    pool->count = 0;
}

/* ------------------------------------------------------------------ slabs */

/* A slab whose structs are all free goes back to the heap, but for a few. Slabs may outlive the
 * crti_slabs_t that they were made for: each is freed with its last struct then. */

#define CRTI_SLAB_BYTES 16384u /* and so they are aligned */
#define CRTI_SLAB_HEAD  64u
#define CRTI_SLAB_HEAP  64u /* of the heap, in front of the next one */

typedef struct crti_slabs {
    crti_list_t partial; /* crti_slab_t.link: those with a free struct */
    crti_list_t full;    /* and those without */
    size_t size;         /* of a struct: a multiple of 16 */
    unsigned most;       /* structs of a slab */
    unsigned idle, keep; /* slabs without a struct in use; so many are kept */
} crti_slabs_t;

typedef struct crti_slab {
    crti_list_t link;
    crti_slabs_t *of; /* NULL: it outlives them */
    void *free;       /* given back */
    unsigned used,
        fresh; /* so many are in use; so many have been given out at least once */
} crti_slab_t;

_Static_assert(sizeof(crti_slab_t) <= CRTI_SLAB_HEAD, "the head of a slab");

static inline void crti_slabs_init(crti_slabs_t *slabs, size_t size, unsigned keep)
{
    crti_list_init(&slabs->partial);
    crti_list_init(&slabs->full);
    slabs->size = size;
    slabs->most = (unsigned)((CRTI_SLAB_BYTES - CRTI_SLAB_HEAP - CRTI_SLAB_HEAD) / size);
    slabs->idle = 0;
    slabs->keep = keep / slabs->most;
}

static inline crti_slab_t *crti_slab_new(crti_slabs_t *slabs)
{
    void *memory;
    crti_slab_t *slab;

    if (posix_memalign(&memory, CRTI_SLAB_BYTES, CRTI_SLAB_BYTES - CRTI_SLAB_HEAP) != 0)
        return NULL;
    slab = memory;
    slab->of = slabs;
    slab->free = NULL;
    slab->used = slab->fresh = 0;
    crti_list_append(&slabs->partial, &slab->link);
    slabs->idle++;
    return slab;
}

/* Its bytes are of any value. NULL when out of memory. */
static inline void *crti_slab_get(crti_slabs_t *slabs)
{
    crti_slab_t *slab = CRTI_CONTAINER(slabs->partial.next, crti_slab_t, link);
    void *item;

    if (crti_list_is_empty(&slabs->partial)) {
        slab = crti_slab_new(slabs);
        if (!slab)
            return NULL;
    }
    if (slab->used++ == 0)
        slabs->idle--;
    item = slab->free;
    if (item)
        slab->free = *(void **)item;
    else
        item = (char *)slab + CRTI_SLAB_HEAD + slabs->size * slab->fresh++;
    if (slab->used == slabs->most) {
        crti_list_remove(&slab->link);
        crti_list_append(&slabs->full, &slab->link);
    }
    return item;
}

static inline void crti_slab_put(void *item)
{
    crti_slab_t *slab = (void *)((uintptr_t)item & ~(uintptr_t)(CRTI_SLAB_BYTES - 1));
    crti_slabs_t *slabs = slab->of;

    *(void **)item = slab->free;
    slab->free = item;
    if (slabs && slab->used == slabs->most) {
        crti_list_remove(&slab->link);
        crti_list_append(&slabs->partial, &slab->link);
    }
    if (--slab->used > 0)
        return;
    if (!slabs || slabs->idle >= slabs->keep) {
        crti_list_remove(&slab->link);
        free(slab);
        return;
    }
    slabs->idle++;
    slab->free = NULL; /* given out in order again, as memory likes it */
    slab->fresh = 0;
}

/* What is in use stays, and may be put back at any time. */
static inline void crti_slabs_leave(crti_slabs_t *slabs)
{
    crti_list_t *lists[] = {&slabs->partial, &slabs->full}, *item;

    for (int i = 0; i < 2; i++)
        while ((item = crti_list_pop(lists[i]))) {
            crti_slab_t *slab = CRTI_CONTAINER(item, crti_slab_t, link);

            slab->of = NULL;
            if (slab->used == 0)
                free(slab);
        }
    slabs->idle = 0;
}

#endif
