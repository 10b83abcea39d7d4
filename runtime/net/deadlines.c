/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines: binary heap. See deadlines.h. */
#include "runtime/net/deadlines.h"

#include <stdlib.h>

static void put(crti_deadlines_t *heap, size_t index, crti_deadline_t *item)
{
    heap->items[index] = item;
    item->place = index + 1;
}

static bool is_earlier(const crti_deadline_t *a, const crti_deadline_t *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

/* Moves `item`, whose slot is `index`, up or down to where it belongs. */
static void sift(crti_deadlines_t *heap, size_t index, crti_deadline_t *item)
{
    size_t child;

    while (index > 0 && is_earlier(item, heap->items[(index - 1) / 2])) {
        put(heap, index, heap->items[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    while ((child = 2 * index + 1) < heap->count) {
        if (child + 1 < heap->count &&
            is_earlier(heap->items[child + 1], heap->items[child]))
            child++;
        if (!is_earlier(heap->items[child], item))
            break;
        put(heap, index, heap->items[child]);
        index = child;
    }
    put(heap, index, item);
}

static crt_status_t grow(crti_deadlines_t *heap)
{
    size_t capacity = heap->capacity ? 2 * heap->capacity : 16;
    crti_deadline_t **items = realloc(heap->items, capacity * sizeof(*items));

    if (!items)
        return crt_raise(CRT_ERR_NO_MEMORY, "%zu deadlines", capacity);
    heap->items = items;
    heap->capacity = capacity;
    return CRT_OK;
}

crt_status_t crti_deadlines_set(crti_deadlines_t *heap, crti_deadline_t *item,
                                uint64_t at)
{
    if (item->place == 0 && heap->count == heap->capacity) {
        crt_status_t status = grow(heap);

        if (status != CRT_OK)
            return status;
    }
    item->at = at;
    item->order = heap->next_order++;
    if (item->place == 0)
        item->place = ++heap->count;
    sift(heap, item->place - 1, item);
    return CRT_OK;
}

void crti_deadlines_remove(crti_deadlines_t *heap, crti_deadline_t *item)
{
    size_t index = item->place - 1;

    if (item->place == 0)
        return;
    item->place = 0;
    heap->count--;
    if (index < heap->count)
        sift(heap, index, heap->items[heap->count]);
}

void crti_deadlines_fini(crti_deadlines_t *heap)
{
    for (size_t i = 0; i < heap->count; i++)
        heap->items[i]->place = 0;
    free(heap->items);
    *heap = (crti_deadlines_t){0};
}
