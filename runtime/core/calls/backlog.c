/* SPDX-License-Identifier: Apache-2.0 */
/* Backlog. See backlog.h. */
#include "runtime/core/calls/backlog.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/core/calls/tasks.h"

#define CHUNK_BYTES                                                                      \
    ((size_t)64 << 10) /* of a chunk, and what its address is a multiple of */
#define ENTRY_MAX (CHUNK_BYTES / 4)

typedef struct chunk {
    crti_list_t link;
    crti_task_pool_t *pool;
    size_t begin,
        end;      /* of its bytes, the header too: entries that it was not the turn of */
    size_t count; /* those among them that are not gone */
} chunk_t;

/* Of few: who made the call, and its entry among the task events. */
typedef struct origin {
    uint64_t parent, event;
} origin_t;

/* Followed by its origin if it has one, the refs it needs and its record; as long as a multiple of
 * 8. */
struct crti_backlog_entry {
    crt_ref_t *result; /* held; NULL: it is gone */
    const crti_function_t *function;
    int32_t max_retries;
    uint16_t record_size;
    uint16_t pin_count : 15, has_origin : 1;
    uint64_t rest[];
};
typedef struct crti_backlog_entry entry_t;

void crti_backlog_init(crti_backlog_t *b)
{
    crti_list_init(&b->chunks);
    b->count = 0;
}

void crti_backlog_fini(crti_backlog_t *b)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&b->chunks)))
        free(CRTI_CONTAINER(item, chunk_t, link));
    b->count = 0;
}

/* ------------------------------------------------------------------ entries */

static size_t entry_bytes(bool has_origin, size_t pins, size_t record)
{
    return (sizeof(entry_t) + has_origin * sizeof(origin_t) + pins * sizeof(crt_ref_t *) +
            record + 7) &
           ~(size_t)7;
}

static origin_t *origin_of(const entry_t *entry)
{
    return (origin_t *)(uintptr_t)entry->rest;
}

static crt_ref_t **pins_of(const entry_t *entry)
{
    return (crt_ref_t **)(uintptr_t)(origin_of(entry) + entry->has_origin);
}

static entry_t *entry_at(chunk_t *chunk, size_t at)
{
    return (entry_t *)(void *)((char *)chunk + at);
}

static chunk_t *chunk_of(const entry_t *entry)
{
    return (chunk_t *)((uintptr_t)entry & ~(uintptr_t)(CHUNK_BYTES - 1));
}

static void free_chunk(chunk_t *chunk)
{
    crti_list_remove(&chunk->link);
    free(chunk);
}

static entry_t *new_entry(crti_backlog_t *b, crti_task_pool_t *pool, size_t bytes)
{
    chunk_t *chunk = CRTI_CONTAINER(b->chunks.prev, chunk_t, link);

    if (bytes > ENTRY_MAX)
        return NULL;
    if (crti_list_is_empty(&b->chunks) || CHUNK_BYTES - chunk->end < bytes) {
        chunk = aligned_alloc(CHUNK_BYTES, CHUNK_BYTES);
        if (!chunk)
            return NULL;
        *chunk = (chunk_t){.pool = pool, .begin = sizeof(*chunk), .end = sizeof(*chunk)};
        crti_list_append(&b->chunks, &chunk->link);
    }
    chunk->end += bytes;
    chunk->count++;
    b->count++;
    return entry_at(chunk, chunk->end - bytes);
}

/* Nothing but its function, arguments and number: no other results, no options, no attempt
 * before. */
static bool is_plain(const crti_pending_t *p)
{
    return p->spec.returns == 1 && !p->spec.options && !p->stream &&
           !p->attempt.retries && !p->slots && !p->lease && !p->remote &&
           !p->attempt.cancel && !p->attempt.may_have_run &&
           p->number == p->result->number &&
           p->spec.max_retries == (int32_t)p->spec.max_retries;
}

bool crti_backlog_put(crti_backlog_t *b, crti_pending_t *p)
{
    bool has_origin = p->parent || p->event;
    size_t bytes = entry_bytes(has_origin, p->spec.pin_count, p->spec.record.size);
    entry_t *entry = is_plain(p) ? new_entry(b, p->pool, bytes) : NULL;

    if (!entry)
        return false;
    *entry = (entry_t){.result = p->result,
                       .function = p->spec.function,
                       .max_retries = (int32_t)p->spec.max_retries,
                       .record_size = (uint16_t)p->spec.record.size,
                       .pin_count = (uint16_t)p->spec.pin_count & 0x7fff,
                       .has_origin = has_origin};
    if (has_origin)
        *origin_of(entry) = (origin_t){p->parent, p->event};
    if (p->spec.pin_count)
        memcpy(pins_of(entry), p->spec.pins, p->spec.pin_count * sizeof(crt_ref_t *));
    memcpy(pins_of(entry) + p->spec.pin_count, p->spec.record.data, p->spec.record.size);
    p->result->in_backlog = true;
    p->result->entry = entry;
    crti_pending_free(p);
    return true;
}

/* ------------------------------------------------------------------ calls again */

static crti_pending_t *restore(crti_backlog_t *b, entry_t *entry)
{
    chunk_t *chunk = chunk_of(entry);
    crt_ref_t **pins = pins_of(entry);
    crti_pending_t *p = crti_pending_restore(
        chunk->pool, entry->result, entry->function, pins, entry->pin_count,
        crti_span(pins + entry->pin_count, entry->record_size));

    if (!p)
        return NULL;
    p->spec.max_retries = entry->max_retries;
    if (entry->has_origin) {
        p->parent = origin_of(entry)->parent;
        p->event = origin_of(entry)->event;
    }
    entry->result = NULL;
    chunk->count--;
    b->count--;
    return p;
}

crti_pending_t *crti_backlog_next(crti_backlog_t *b)
{
    while (!crti_list_is_empty(&b->chunks)) {
        chunk_t *chunk = CRTI_CONTAINER(b->chunks.next, chunk_t, link);

        while (chunk->begin < chunk->end) {
            entry_t *entry = entry_at(chunk, chunk->begin);
            crti_pending_t *p = entry->result ? restore(b, entry) : NULL;

            if (entry->result)
                return NULL; /* no memory */
            chunk->begin +=
                entry_bytes(entry->has_origin, entry->pin_count, entry->record_size);
            if (p)
                return p;
        }
        free_chunk(chunk);
    }
    return NULL;
}

crti_pending_t *crti_backlog_take(crt_ref_t *ref)
{
    chunk_t *chunk = chunk_of(ref->entry);
    crti_task_pool_t *pool = chunk->pool;
    crti_pending_t *p = restore(&pool->backlog, ref->entry);

    if (!p)
        return NULL;
    if (chunk->count == 0)
        free_chunk(chunk);
    crti_list_append(&pool->queue, &p->link);
    return p;
}

uint64_t crti_backlog_parent(const crt_ref_t *ref)
{
    return ref->entry->has_origin ? origin_of(ref->entry)->parent : 0;
}
