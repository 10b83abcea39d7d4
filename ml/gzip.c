/* SPDX-License-Identifier: Apache-2.0 */
#include "ml/gzip.h"

#include <limits.h>
#include <stdlib.h>

#include <zlib.h>

#define PIECE ((size_t)1 << 20) /* what the result grows by at least */

bool crti_gzip_is_packed(const unsigned char *bytes, size_t size)
{
    return size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

static crt_status_t grow(const char *name, unsigned char **data, size_t *room,
                         size_t limit)
{
    size_t more = *room * 2 + PIECE;
    unsigned char *grown;

    if (*room >= limit)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s: more than %zu bytes unpacked", name,
                         limit);
    more = more > limit ? limit : more;
    grown = realloc(*data, more);
    if (!grown)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: %zu bytes", name, more);
    *data = grown;
    *room = more;
    return CRT_OK;
}

/* Fills `data` up to `room`, or to the end of the packed bytes, which `*ended_out` tells. */
static crt_status_t fill(const char *name, z_stream *z, unsigned char *data, size_t room,
                         size_t *done, bool *ended_out)
{
    while (*done < room) {
        int result;

        z->next_out = data + *done;
        z->avail_out = (uInt)(room - *done > INT_MAX ? INT_MAX : room - *done);
        result = inflate(z, Z_NO_FLUSH);
        *done = (size_t)(z->next_out - data);
        if (result == Z_STREAM_END && z->avail_in == 0) {
            *ended_out = true;
            return CRT_OK;
        }
        if (result == Z_STREAM_END) /* members may follow each other */
            result = inflateReset(z);
        if (result == Z_BUF_ERROR)
            return crt_raise(CRT_ERR_CORRUPT, "%s: cut short", name);
        if (result != Z_OK)
            return crt_raise(CRT_ERR_CORRUPT, "%s: gzip: %s", name,
                             z->msg ? z->msg : "damaged");
    }
    return CRT_OK;
}

crt_status_t crti_gzip_unpack(const char *name, const unsigned char *bytes, size_t size,
                              size_t limit, unsigned char **data_out, size_t *size_out)
{
    /* zlib does not change its input, but its interface has no const. */
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)bytes, .avail_in = (uInt)size};
    unsigned char *data = NULL;
    size_t room = 0, done = 0;
    crt_status_t status = CRT_OK;
    bool ended = false;

    if (size > INT_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s: %zu bytes", name, size);
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: zlib: %s", name, z.msg ? z.msg : "init");
    while (status == CRT_OK && !ended) {
        status = grow(name, &data, &room, limit);
        if (status == CRT_OK)
            status = fill(name, &z, data, room, &done, &ended);
    }
    inflateEnd(&z);
    if (status != CRT_OK) {
        free(data);
        return status;
    }
    *data_out = data;
    *size_out = done;
    return CRT_OK;
}
