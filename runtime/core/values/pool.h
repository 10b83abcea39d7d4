/* SPDX-License-Identifier: Apache-2.0 */
/* Pool: structs of one size, kept for reuse, so that a call allocates nothing in the long run.
 * A struct's first bytes link it while it is free. Not thread-safe. */
#ifndef CRTI_CORE_POOL_H
#define CRTI_CORE_POOL_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

#endif
