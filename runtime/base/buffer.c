/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer of bytes that grows. */
#include "runtime/base/buffer.h"

#include <assert.h>
#include <string.h>

crt_status_t crti_buffer_grow(crti_buffer_t *buffer, size_t extra)
{
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    unsigned char *data;

    if (extra > SIZE_MAX / 4 - buffer->size)
        return crt_raise(CRT_ERR_NO_MEMORY, "buffer of %zu + %zu bytes", buffer->size,
                         extra);
    while (capacity - buffer->size < extra)
        capacity *= 2;
    data = realloc(buffer->data, capacity);
    if (data == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "buffer of %zu bytes", capacity);
    buffer->data = data;
    buffer->capacity = capacity;
    return CRT_OK;
}

crt_status_t crti_buffer_append(crti_buffer_t *buffer, const void *data, size_t size)
{
    crt_status_t status = crti_buffer_reserve(buffer, size);

    if (status != CRT_OK)
        return status;
    if (size)
        memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return CRT_OK;
}

crt_status_t crti_buffer_assign(crti_buffer_t *buffer, const void *data, size_t size)
{
    if (buffer->capacity < size) {
        unsigned char *room = malloc(size);

        if (!room)
            return crt_raise(CRT_ERR_NO_MEMORY, "buffer of %zu bytes", size);
        free(buffer->data);
        buffer->data = room;
        buffer->capacity = size;
    }
    if (size)
        memcpy(buffer->data, data, size);
    buffer->size = size;
    return CRT_OK;
}

void crti_buffer_consume(crti_buffer_t *buffer, size_t count)
{
    assert(count <= buffer->size);
    buffer->size -= count;
    if (buffer->size)
        memmove(buffer->data, buffer->data + count, buffer->size);
}

bool crti_buffer_take(crti_buffer_t *buffer, size_t *done, void *item_out, size_t size)
{
    if (*done == buffer->size) {
        buffer->size = *done = 0;
        return false;
    }
    memcpy(item_out, buffer->data + *done, size);
    *done += size;
    return true;
}

void crti_buffer_fini(crti_buffer_t *buffer)
{
    free(buffer->data);
    *buffer = (crti_buffer_t){0};
}
