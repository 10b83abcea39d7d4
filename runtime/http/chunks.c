/* SPDX-License-Identifier: Apache-2.0 */
/* The framing of a body in chunks (RFC 9112, 7.1). See chunks.h. */
#include "runtime/http/chunks.h"

#include <string.h>

#define DIGITS_MAX 16
#define LINE_MAX   8192 /* of extensions and trailers, which are passed over */

static int digit_of(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static crt_status_t malformed(const char *what)
{
    return crt_raise(CRT_ERR_CORRUPT, "the body's chunks are malformed: %s", what);
}

/* The line that begins a chunk is complete. */
static crt_status_t begin_chunk(crti_chunks_t *self)
{
    if (self->digits == 0)
        return malformed("a chunk without a size");
    self->state = self->left ? CRTI_CHUNKS_DATA : CRTI_CHUNKS_TRAILER;
    self->digits = self->line = 0;
    return CRT_OK;
}

static crt_status_t take_size(crti_chunks_t *self, unsigned char c)
{
    int digit = digit_of(c);

    if (digit >= 0 && self->before != '\r' && self->digits < DIGITS_MAX) {
        self->left = self->left << 4 | (uint64_t)digit;
        self->digits++;
        return CRT_OK;
    }
    if (c == '\n' && self->before == '\r')
        return begin_chunk(self);
    if (c == ';' || c == ' ' || c == '\t') {
        self->state = CRTI_CHUNKS_EXTENSION;
        return CRT_OK;
    }
    return c == '\r' && self->before != '\r' ? CRT_OK
                                             : malformed("a size that is no number");
}

static crt_status_t take_extension(crti_chunks_t *self, unsigned char c)
{
    if (++self->line > LINE_MAX)
        return malformed("too long an extension");
    return c == '\n' ? begin_chunk(self) : CRT_OK;
}

static crt_status_t take_data_end(crti_chunks_t *self, unsigned char c)
{
    if (c == '\r' && self->before != '\r')
        return CRT_OK;
    if (c != '\n' || self->before != '\r')
        return malformed("a chunk that is longer than it says");
    self->state = CRTI_CHUNKS_SIZE;
    return CRT_OK;
}

/* Lines up to an empty one. */
static crt_status_t take_trailer(crti_chunks_t *self, unsigned char c)
{
    if (c == '\n') {
        self->state = self->line == 0 ? CRTI_CHUNKS_DONE : CRTI_CHUNKS_TRAILER;
        self->line = 0;
    } else if (c != '\r' && ++self->line > LINE_MAX) {
        return malformed("too long a trailer");
    }
    return CRT_OK;
}

static crt_status_t take_byte(crti_chunks_t *self, unsigned char c)
{
    crt_status_t status = CRT_OK;

    switch (self->state) {
    case CRTI_CHUNKS_SIZE: status = take_size(self, c); break;
    case CRTI_CHUNKS_EXTENSION: status = take_extension(self, c); break;
    case CRTI_CHUNKS_DATA_END: status = take_data_end(self, c); break;
    case CRTI_CHUNKS_TRAILER: status = take_trailer(self, c); break;
    case CRTI_CHUNKS_DATA:
    case CRTI_CHUNKS_DONE: break;
    }
    self->before = c == '\n' ? 0 : c;
    return status;
}

crt_status_t crti_chunks_next(crti_chunks_t *self, const void *bytes, size_t size,
                              const void **data_out, size_t *size_out, size_t *used_out)
{
    const unsigned char *at = bytes, *end = at + size;
    crt_status_t status = CRT_OK;

    while (at < end && status == CRT_OK && self->state != CRTI_CHUNKS_DATA &&
           self->state != CRTI_CHUNKS_DONE)
        status = take_byte(self, *at++);
    *data_out = at;
    *size_out = 0;
    if (status == CRT_OK && self->state == CRTI_CHUNKS_DATA) {
        *size_out =
            self->left < (uint64_t)(end - at) ? (size_t)self->left : (size_t)(end - at);
        self->left -= *size_out;
        if (self->left == 0)
            self->state = CRTI_CHUNKS_DATA_END;
        at += *size_out;
    }
    *used_out = (size_t)(at - (const unsigned char *)bytes);
    return status;
}
