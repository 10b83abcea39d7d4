/* SPDX-License-Identifier: Apache-2.0 */
/* Compression: gradients as fewer bytes.
 *
 * Where it sits
 *     gradient -> [ actors/compression.c -> lossless.c, top_k.c, one_bit.c ] -> an object of the
 *     store
 * Invariants
 *     With a method that keeps an error: all that was decoded, and the error, are all gradients
 *     that were encoded.
 */
#include "actors/compression.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/half.h"

#define HEADER    16
#define COUNT_MAX ((size_t)INT32_MAX)
#define KEEP      0.01

struct crt_compressor {
    crt_compression_t method;
    size_t count;
    uint32_t kept; /* top_k: floats that are sent */
    /* NULL: the method loses nothing, or nothing that could be sent later */
    float *error;
};

static const char *const names[] = {"none",     "lz4",   "float16",
                                    "bfloat16", "top_k", "one_bit"};

const char *crt_compression_name(crt_compression_t method)
{
    return (size_t)method < sizeof(names) / sizeof(names[0]) ? names[method] : NULL;
}

crt_status_t crt_compression_parse(const char *name, crt_compression_t *method_out)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0) {
            *method_out = (crt_compression_t)i;
            return CRT_OK;
        }
    return crt_raise(CRT_ERR_INVALID,
                     "no compression is called '%s' (none, lz4, float16, bfloat16, "
                     "top_k, one_bit)",
                     name);
}

crt_status_t crt_compressor_new(crt_compression_t method, size_t count, double keep,
                                crt_compressor_t **compressor_out)
{
    crt_compressor_t *c;

    if (!crt_compression_name(method) || count < 1 || count > COUNT_MAX)
        return crt_raise(CRT_ERR_INVALID, "compression %d of %zu floats", (int)method,
                         count);
    if (!(keep >= 0 && keep <= 1))
        return crt_raise(CRT_ERR_INVALID,
                         "the part of floats to keep is %g, not above 0 and up to 1",
                         keep);
    c = calloc(1, sizeof(*c));
    if (!c)
        return crt_raise(CRT_ERR_NO_MEMORY, "compressor");
    c->method = method;
    c->count = count;
    c->kept = (uint32_t)((double)count * (keep > 0 ? keep : KEEP));
    c->kept = c->kept > 0 ? c->kept : 1;
    if (method == CRT_COMPRESSION_TOP_K || method == CRT_COMPRESSION_ONE_BIT) {
        c->error = calloc(count, sizeof(float));
        if (!c->error) {
            free(c);
            return crt_raise(CRT_ERR_NO_MEMORY, "the error of %zu floats", count);
        }
    }
    *compressor_out = c;
    return CRT_OK;
}

size_t crt_compressor_bound(const crt_compressor_t *c)
{
    switch (c->method) {
    case CRT_COMPRESSION_LZ4: return HEADER + crti_lz4_bound(c->count);
    case CRT_COMPRESSION_FLOAT16:
    case CRT_COMPRESSION_BFLOAT16: return HEADER + 2 * c->count;
    case CRT_COMPRESSION_TOP_K: return HEADER + 8 * (size_t)c->kept;
    case CRT_COMPRESSION_ONE_BIT: return HEADER + crti_one_bit_bound(c->count);
    case CRT_COMPRESSION_NONE: break;
    }
    return HEADER + sizeof(float) * c->count;
}

static size_t encode_halves(const crt_compressor_t *c, const float *values,
                            unsigned char *body)
{
    for (size_t i = 0; i < c->count; i++) {
        uint16_t half = c->method == CRT_COMPRESSION_FLOAT16 ? crti_float16(values[i])
                                                             : crti_bfloat16(values[i]);

        memcpy(body + 2 * i, &half, sizeof(half));
    }
    return 2 * c->count;
}

static bool decode_halves(crt_compression_t method, const unsigned char *body,
                          size_t size, float *values, size_t count)
{
    if (size != 2 * count)
        return false;
    for (size_t i = 0; i < count; i++) {
        uint16_t half;

        memcpy(&half, body + 2 * i, sizeof(half));
        if (method == CRT_COMPRESSION_FLOAT16)
            values[i] = crti_float16_value(half);
        else
            crti_bfloat16_to(&values[i], &half, 1);
    }
    return true;
}

static void write_header(const crt_compressor_t *c, unsigned char *bytes)
{
    const unsigned char start[4] = {'c', 'r', 'g', (unsigned char)c->method};
    uint32_t kept = c->method == CRT_COMPRESSION_TOP_K ? c->kept : 0;
    uint64_t count = c->count;

    memcpy(bytes, start, 4);
    memcpy(bytes + 4, &kept, sizeof(kept));
    memcpy(bytes + 8, &count, sizeof(count));
}

size_t crt_compressor_encode(crt_compressor_t *c, const float *values, void *bytes)
{
    unsigned char *body = (unsigned char *)bytes + HEADER;

    write_header(c, bytes);
    for (size_t i = 0; c->error && i < c->count; i++)
        c->error[i] += values[i];
    switch (c->method) {
    case CRT_COMPRESSION_LZ4: return HEADER + crti_lz4_encode(values, c->count, body);
    case CRT_COMPRESSION_FLOAT16:
    case CRT_COMPRESSION_BFLOAT16: return HEADER + encode_halves(c, values, body);
    case CRT_COMPRESSION_TOP_K:
        return HEADER + crti_top_k_encode(c->error, c->count, c->kept, body);
    case CRT_COMPRESSION_ONE_BIT:
        return HEADER + crti_one_bit_encode(c->error, c->count, body);
    case CRT_COMPRESSION_NONE: break;
    }
    memcpy(body, values, c->count * sizeof(float));
    return HEADER + c->count * sizeof(float);
}

float *crt_compressor_error(crt_compressor_t *c)
{
    return c->error;
}

void crt_compressor_drop(crt_compressor_t **dropped)
{
    crt_compressor_t *c = *dropped;

    if (!c)
        return;
    free(c->error);
    free(c);
    *dropped = NULL;
}

static bool decode_none(const unsigned char *body, size_t size, float *values,
                        size_t count)
{
    if (size != count * sizeof(float))
        return false;
    memcpy(values, body, size);
    return true;
}

static bool decode_body(crt_compression_t method, uint32_t kept,
                        const unsigned char *body, size_t size, float *values,
                        size_t count)
{
    switch (method) {
    case CRT_COMPRESSION_NONE: return decode_none(body, size, values, count);
    case CRT_COMPRESSION_LZ4: return crti_lz4_decode(body, size, values, count);
    case CRT_COMPRESSION_FLOAT16:
    case CRT_COMPRESSION_BFLOAT16:
        return decode_halves(method, body, size, values, count);
    case CRT_COMPRESSION_TOP_K: return crti_top_k_decode(body, size, kept, values, count);
    case CRT_COMPRESSION_ONE_BIT: return crti_one_bit_decode(body, size, values, count);
    }
    return false;
}

crt_status_t crt_compression_decode(const void *bytes, size_t size, float *values,
                                    size_t count)
{
    const unsigned char *at = bytes;
    uint64_t named;
    uint32_t kept;

    if (size < HEADER || memcmp(at, "crg", 3) != 0)
        return crt_raise(CRT_ERR_CORRUPT, "%zu bytes that are no encoded gradient", size);
    memcpy(&kept, at + 4, sizeof(kept));
    memcpy(&named, at + 8, sizeof(named));
    if (named != count)
        return crt_raise(CRT_ERR_CORRUPT, "an encoded gradient of %llu floats, not %zu",
                         (unsigned long long)named, count);
    if (!decode_body((crt_compression_t)at[3], kept, at + HEADER, size - HEADER, values,
                     count))
        return crt_raise(CRT_ERR_CORRUPT,
                         "an encoded gradient of %zu floats is damaged (%s, %zu bytes)",
                         count,
                         crt_compression_name((crt_compression_t)at[3])
                             ? crt_compression_name((crt_compression_t)at[3])
                             : "no method",
                         size);
    return CRT_OK;
}
