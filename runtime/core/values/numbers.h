/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers: a table from the numbers that this process counts up (of its objects) to pointers.
 *
 * Open addressing with linear probing and backward-shift deletion. Not thread-safe. Tier: message
 * path.
 */
#ifndef CRTI_CORE_NUMBERS_H
#define CRTI_CORE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"

typedef struct crti_numbers {
    struct crti_number_slot {
        uint64_t number; /* 0: free */
        void *value;
    } * slots;
    size_t capacity; /* power of two */
    size_t count;
} crti_numbers_t;

void crti_numbers_fini(crti_numbers_t *table);

/* NULL when there is none. */
void *crti_numbers_get(const crti_numbers_t *table, uint64_t number);

/* Its place, with NULL in it when the number (not 0) is new: the caller puts something there at
 * once. NULL without memory. */
void **crti_numbers_place(crti_numbers_t *table, uint64_t number);

/* Soon it will be looked for. */
void crti_numbers_prefetch(const crti_numbers_t *table, uint64_t number);

/* The number (not 0) is new. */
crt_status_t crti_numbers_add(crti_numbers_t *table, uint64_t number, void *value);
void crti_numbers_remove(crti_numbers_t *table, uint64_t number);

/* Walks all; `*cursor` starts at 0; NULL at the end. The table must not change meanwhile. */
void *crti_numbers_next(const crti_numbers_t *table, size_t *cursor);

#endif
