/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes: little-endian numbers, ids and short texts written to a buffer and read back.
 *
 * Where it sits
 *     core/values/value.h, core/values/record.c -> [ bytes ] -> crti_buffer_t
 * Trust
 *     A reader never goes beyond its end: a read that does not fit gives zero and sets `bad`, so
 *     that a decoder checks once, at the end of a group of fields. Tier: message path.
 */
#ifndef CRTI_CORE_BYTES_H
#define CRTI_CORE_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "runtime/base/buffer.h"
#include "runtime/base/id.h"

typedef struct crti_reader {
    const unsigned char *at;
    const unsigned char *end;
    bool bad; /* something did not fit */
} crti_reader_t;

/* `data` may be NULL when `size` is 0. */
static inline crti_reader_t crti_reader(const void *data, size_t size)
{
    return (crti_reader_t){data, size ? (const unsigned char *)data + size : data, false};
}

static inline size_t crti_reader_left(const crti_reader_t *r)
{
    return (size_t)(r->end - r->at);
}

/* The next `size` bytes, borrowed; NULL and `bad` when there are not so many. */
static inline const void *crti_read_bytes(crti_reader_t *r, size_t size)
{
    const unsigned char *p = r->at;

    if (size > crti_reader_left(r)) {
        r->bad = true;
        r->at = r->end;
        return NULL;
    }
    r->at += size;
    return p;
}

#define CRTI_READ(name, type)                                                            \
    static inline type crti_read_##name(crti_reader_t *r)                                \
    {                                                                                    \
        type value = 0;                                                                  \
        const void *p = crti_read_bytes(r, sizeof(value));                               \
                                                                                         \
        if (p)                                                                           \
            memcpy(&value, p, sizeof(value));                                            \
        return value;                                                                    \
    }
CRTI_READ(u8, uint8_t)
CRTI_READ(u16, uint16_t)
CRTI_READ(u32, uint32_t)
CRTI_READ(u64, uint64_t)
#undef CRTI_READ

static inline crti_id_t crti_read_id(crti_reader_t *r)
{
    crti_id_t id;

    id.high = crti_read_u64(r);
    id.low = crti_read_u64(r);
    return id;
}

/* A text behind its 16-bit length; a zero byte inside makes it bad. */
static inline crti_span_t crti_read_text(crti_reader_t *r)
{
    size_t size = crti_read_u16(r);
    const void *data = crti_read_bytes(r, size);

    if (!data)
        return crti_span("", 0);
    if (size && memchr(data, 0, size))
        r->bad = true;
    return crti_span(data, size);
}

/* Bytes behind their 32-bit length. */
static inline crti_span_t crti_read_blob(crti_reader_t *r)
{
    size_t size = crti_read_u32(r);
    const void *data = crti_read_bytes(r, size);

    return data ? crti_span(data, size) : crti_span("", 0);
}

/* ------------------------------------------------------------------ writing */

/* Room for `size` bytes, made first; then the crti_put_* below write without checks. */
static inline unsigned char *crti_put_bytes(unsigned char *to, const void *data,
                                            size_t size)
{
    if (size)
        memcpy(to, data, size);
    return to + size;
}

static inline unsigned char *crti_put_u8(unsigned char *to, uint8_t value)
{
    *to = value;
    return to + 1;
}

static inline unsigned char *crti_put_u16(unsigned char *to, uint16_t value)
{
    return crti_put_bytes(to, &value, sizeof(value));
}

static inline unsigned char *crti_put_u32(unsigned char *to, uint32_t value)
{
    return crti_put_bytes(to, &value, sizeof(value));
}

static inline unsigned char *crti_put_u64(unsigned char *to, uint64_t value)
{
    return crti_put_bytes(to, &value, sizeof(value));
}

static inline unsigned char *crti_put_id(unsigned char *to, crti_id_t id)
{
    return crti_put_u64(crti_put_u64(to, id.high), id.low);
}

/* Texts above 65535 bytes are cut. */
static inline unsigned char *crti_put_text(unsigned char *to, crti_span_t text)
{
    size_t size = text.size > UINT16_MAX ? UINT16_MAX : text.size;

    return crti_put_bytes(crti_put_u16(to, (uint16_t)size), text.data, size);
}

static inline unsigned char *crti_put_blob(unsigned char *to, crti_span_t blob)
{
    return crti_put_bytes(crti_put_u32(to, (uint32_t)blob.size), blob.data, blob.size);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are little endian");

#endif
