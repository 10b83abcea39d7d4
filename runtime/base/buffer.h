/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes: a borrowed span, and a buffer that grows. */
#ifndef CRTI_BASE_BUFFER_H
#define CRTI_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"

/* Borrowed bytes; text in it has no final zero. */
typedef struct crti_span {
    const void *data;
    size_t size;
} crti_span_t;

/* Zero-initialised is an empty buffer. */
typedef struct crti_buffer {
    unsigned char *data;
    size_t size;
    size_t capacity;
} crti_buffer_t;

crt_status_t crti_buffer_grow(crti_buffer_t *buffer, size_t extra);

/* Room for `extra` more bytes behind `size`; capacity doubles. */
static inline crt_status_t crti_buffer_reserve(crti_buffer_t *buffer, size_t extra)
{
    return buffer->capacity - buffer->size >= extra ? CRT_OK
                                                    : crti_buffer_grow(buffer, extra);
}

crt_status_t crti_buffer_append(crti_buffer_t *buffer, const void *data, size_t size);

/* Replaces what is in it; takes no more memory than that needs. */
crt_status_t crti_buffer_assign(crti_buffer_t *buffer, const void *data, size_t size);

/* Takes `count` bytes off the front. */
void crti_buffer_consume(crti_buffer_t *buffer, size_t count);

/* For a buffer that is a queue of items of `size` bytes, of which `*done` bytes were taken: copies
 * the next one out. False, and the buffer is empty, when there is none. */
bool crti_buffer_take(crti_buffer_t *buffer, size_t *done, void *item_out, size_t size);

/* Frees the memory; the buffer is empty and usable again. */
void crti_buffer_fini(crti_buffer_t *buffer);

static inline void crti_buffer_fini_auto(crti_buffer_t *buffer)
{
    crti_buffer_fini(buffer);
}

static inline crti_span_t crti_span(const void *data, size_t size)
{
    return (crti_span_t){data, size};
}

/* The bytes of a C string without its zero; NULL gives "". */
static inline crti_span_t crti_str(const char *text)
{
    return crti_span(text, text ? strlen(text) : 0);
}

#endif
