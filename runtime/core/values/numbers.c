/* SPDX-License-Identifier: Apache-2.0 */
/* Table of numbers. See numbers.h. */
#include "runtime/core/values/numbers.h"

#include <stdlib.h>

typedef struct crti_number_slot slot_t;

/* Eight neighbours lie side by side, in one or two cache lines; the eights are scattered, so that
 * no long run arises, which every removal in it would have to walk. */
static size_t home_of(uint64_t number)
{
    return (size_t)((number >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 29 << 3 |
                    (number & 7));
}

void crti_numbers_fini(crti_numbers_t *t)
{
    free(t->slots);
    *t = (crti_numbers_t){.slots = NULL};
}

void *crti_numbers_get(const crti_numbers_t *t, uint64_t number)
{
    size_t mask = t->capacity - 1;

    if (t->count == 0 || number == 0)
        return NULL;
    for (size_t i = home_of(number) & mask; t->slots[i].number; i = (i + 1) & mask)
        if (t->slots[i].number == number)
            return t->slots[i].value;
    return NULL;
}

static void place(slot_t *slots, size_t capacity, uint64_t number, void *value)
{
    size_t i = home_of(number) & (capacity - 1);

    while (slots[i].number)
        i = (i + 1) & (capacity - 1);
    slots[i] = (slot_t){number, value};
}

static crt_status_t resize(crti_numbers_t *t, size_t capacity)
{
    slot_t *slots = calloc(capacity, sizeof(*slots));

    if (!slots)
        return crt_raise(CRT_ERR_NO_MEMORY, "a table of %zu objects", capacity);
    for (size_t i = 0; i < t->capacity; i++)
        if (t->slots[i].number)
            place(slots, capacity, t->slots[i].number, t->slots[i].value);
    free(t->slots);
    t->slots = slots;
    t->capacity = capacity;
    return CRT_OK;
}

crt_status_t crti_numbers_add(crti_numbers_t *t, uint64_t number, void *value)
{
    crt_status_t status;

    if ((t->count + 1) * 2 > t->capacity) {
        status = resize(t, t->capacity ? t->capacity * 2 : 64);
        if (status != CRT_OK)
            return status;
    }
    place(t->slots, t->capacity, number, value);
    t->count++;
    return CRT_OK;
}

void **crti_numbers_place(crti_numbers_t *t, uint64_t number)
{
    size_t i, mask;

    if ((t->count + 1) * 2 > t->capacity &&
        resize(t, t->capacity ? t->capacity * 2 : 64) != CRT_OK)
        return NULL;
    mask = t->capacity - 1;
    for (i = home_of(number) & mask; t->slots[i].number; i = (i + 1) & mask)
        if (t->slots[i].number == number)
            return &t->slots[i].value;
    t->slots[i] = (slot_t){number, NULL};
    t->count++;
    return &t->slots[i].value;
}

void crti_numbers_prefetch(const crti_numbers_t *t, uint64_t number)
{
    if (t->count)
        __builtin_prefetch(&t->slots[home_of(number) & (t->capacity - 1)]);
}

void crti_numbers_remove(crti_numbers_t *t, uint64_t number)
{
    size_t mask = t->capacity - 1, hole;

    if (t->count == 0)
        return;
    for (hole = home_of(number) & mask; t->slots[hole].number != number;
         hole = (hole + 1) & mask)
        if (!t->slots[hole].number)
            return;
    for (size_t i = (hole + 1) & mask; t->slots[i].number; i = (i + 1) & mask) {
        size_t home = home_of(t->slots[i].number) & mask;

        if (((i - home) & mask) < ((i - hole) & mask))
            continue; /* it would come before its home */
        t->slots[hole] = t->slots[i];
        hole = i;
    }
    t->slots[hole] = (slot_t){0, NULL};
    t->count--;
    if (t->capacity > 32768 && t->count * 8 < t->capacity)
        (void)resize(t, t->capacity / 4); /* when memory lacks it stays as it is */
}

void *crti_numbers_next(const crti_numbers_t *t, size_t *cursor)
{
    while (*cursor < t->capacity) {
        slot_t *slot = &t->slots[(*cursor)++];

        if (slot->number)
            return slot->value;
    }
    return NULL;
}
