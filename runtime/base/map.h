/* SPDX-License-Identifier: Apache-2.0 */
/* Hash map from a key of fixed size (an id, a number) or a string to a pointer.
 *
 * Open addressing with linear probing and backward-shift deletion: no tombstones, memory
 * follows the number of entries. Keys are hashed with a seed per process, so that a peer that
 * chooses keys can't aim at one bucket. Not thread-safe.
 *
 * Ownership: keys are copied in; values are the caller's.
 */
#ifndef CRTI_BASE_MAP_H
#define CRTI_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"

typedef struct crti_map {
    struct crti_map_slot *slots;
    size_t capacity; /* power of two, 0 before the first entry */
    size_t count;
    size_t key_size; /* 0: keys are strings */
} crti_map_t;

/* `key_size` bytes per key, or 0 for strings ended by a zero. Allocates nothing. */
void crti_map_init(crti_map_t *map, size_t key_size);

/* Frees the table and key copies, not the values. The map is empty and usable again. */
void crti_map_fini(crti_map_t *map);

/* The value of `key`, NULL when there is none. */
void *crti_map_get(const crti_map_t *map, const void *key);

/* Sets or replaces; `value` is not NULL. CRT_ERR_NO_MEMORY leaves the map as it was. */
crt_status_t crti_map_put(crti_map_t *map, const void *key, void *value);

/* Takes the entry out and returns its value, NULL when there was none. */
void *crti_map_remove(crti_map_t *map, const void *key);

/* Walks all entries in no particular order. `*cursor` starts at 0. False at the end. The map
 * must not change during the walk, except by crti_map_fini after it. `key_out` may be NULL;
 * borrowed: valid until the map changes. */
bool crti_map_next(const crti_map_t *map, size_t *cursor, const void **key_out,
                   void **value_out);

/* The same for values of one type; break and continue mean what they do in any loop. */
#define CRTI_MAP_FOREACH(type, item, map)                                                \
    for (struct {                                                                        \
             size_t cursor;                                                              \
             void *value;                                                                \
             bool is_in;                                                                 \
         } item##_walk = {0};                                                            \
         !item##_walk.is_in &&                                                           \
         crti_map_next(map, &item##_walk.cursor, NULL, &item##_walk.value);)             \
        for (type *item = (item##_walk.is_in = true, item##_walk.value);                 \
             item##_walk.is_in; item##_walk.is_in = false)

#endif
