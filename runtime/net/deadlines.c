/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines: binary heap. See deadlines.h. */
#include "runtime/net/deadlines.h"

#include <stdlib.h>

static void put(crti_deadlines_t *heap, size_t index, crti_deadline_t *item)
{
    heap->items[index] = item;
    item->place = index + 1;
}

static void sift_up(crti_deadlines_t *heap, size_t index, crti_deadline_t *item)
{
    for (; index > 0; index = (index - 1) / 2) {
        crti_deadline_t *parent = heap->items[(index - 1) / 2];

        if (parent->at <= item->at)
            break;
        put(heap, index, parent);
    }
    put(heap, index, item);
}

static void sift_down(crti_deadlines_t *heap, size_t index, crti_deadline_t *item)
{
    for (size_t child = 2 * index + 1; child < heap->count; child = 2 * index + 1) {
        if (child + 1 < heap->count &&
            heap->items[child + 1]->at < heap->items[child]->at)
            child++;
        if (heap->items[child]->at >= item->at)
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
    crt_status_t status;

    if (item->place != 0) {
        uint64_t before = item->at;

        item->at = at;
        if (at < before)
            sift_up(heap, item->place - 1, item);
        else
            sift_down(heap, item->place - 1, item);
        return CRT_OK;
    }
    if (heap->count == heap->capacity) {
        status = grow(heap);
        if (status != CRT_OK)
            return status;
    }
    item->at = at;
    heap->count++;
    sift_up(heap, heap->count - 1, item);
    return CRT_OK;
}

void crti_deadlines_remove(crti_deadlines_t *heap, crti_deadline_t *item)
{
    size_t index = item->place - 1;
    crti_deadline_t *last;

    if (item->place == 0)
        return;
    item->place = 0;
    last = heap->items[--heap->count];
    if (last == item)
        return;
    if (index > 0 && heap->items[(index - 1) / 2]->at > last->at)
        sift_up(heap, index, last);
    else
        sift_down(heap, index, last);
}

void crti_deadlines_fini(crti_deadlines_t *heap)
{
    free(heap->items);
    *heap = (crti_deadlines_t){0};
}
