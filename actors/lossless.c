/* SPDX-License-Identifier: Apache-2.0 */
/* Lossless: the bytes of floats in four planes, packed by LZ4. Signs and exponents of neighbours
 * are alike, so their plane packs well; planes of the mantissa hardly.
 *
 *     for each block of at most 4,096 floats: size (4 bytes; the highest bit: not packed), bytes
 */
#include <lz4.h>

#include "actors/compression.h"

#define BLOCK CRTI_COMPRESSION_BLOCK
#define PLAIN 0x80000000u

size_t crti_lz4_bound(size_t count)
{
    return count * sizeof(float) + (count + BLOCK - 1) / BLOCK * sizeof(uint32_t);
}

static void split(const float *values, size_t count, unsigned char *planes)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, &values[i], sizeof(bits));
        planes[i] = (unsigned char)(bits >> 24);
        planes[count + i] = (unsigned char)(bits >> 16);
        planes[2 * count + i] = (unsigned char)(bits >> 8);
        planes[3 * count + i] = (unsigned char)bits;
    }
}

static void join(const unsigned char *planes, size_t count, float *values)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)planes[i] << 24 | (uint32_t)planes[count + i] << 16 |
                        (uint32_t)planes[2 * count + i] << 8 | planes[3 * count + i];

        memcpy(&values[i], &bits, sizeof(bits));
    }
}

size_t crti_lz4_encode(const float *values, size_t count, unsigned char *body)
{
    unsigned char planes[BLOCK * sizeof(float)];
    unsigned char *at = body;

    for (size_t first = 0; first < count; first += BLOCK) {
        size_t n = count - first < BLOCK ? count - first : BLOCK;
        int plain = (int)(n * sizeof(float)), packed;
        uint32_t size;

        split(values + first, n, planes);
        packed = LZ4_compress_default((const char *)planes, (char *)at + sizeof(size),
                                      plain, plain);
        size = packed > 0 ? (uint32_t)packed : (uint32_t)plain | PLAIN;
        if (packed <= 0)
            memcpy(at + sizeof(size), planes, (size_t)plain);
        memcpy(at, &size, sizeof(size));
        at += sizeof(size) + (size & ~PLAIN);
    }
    return (size_t)(at - body);
}

/* One block of `n` floats; the bytes it took, 0 when it is damaged. */
static size_t decode_block(const unsigned char *body, size_t size, float *values,
                           size_t n, unsigned char *planes)
{
    int plain = (int)(n * sizeof(float));
    uint32_t packed;

    if (size < sizeof(packed))
        return 0;
    memcpy(&packed, body, sizeof(packed));
    size -= sizeof(packed);
    body += sizeof(packed);
    if ((packed & ~PLAIN) > size)
        return 0;
    if (packed & PLAIN) {
        if ((packed & ~PLAIN) != (uint32_t)plain)
            return 0;
        join(body, n, values);
    } else {
        if (packed > (uint32_t)plain ||
            LZ4_decompress_safe((const char *)body, (char *)planes, (int)packed, plain) !=
                plain)
            return 0;
        join(planes, n, values);
    }
    return sizeof(packed) + (packed & ~PLAIN);
}

bool crti_lz4_decode(const unsigned char *body, size_t size, float *values, size_t count)
{
    unsigned char planes[BLOCK * sizeof(float)];

    for (size_t first = 0; first < count; first += BLOCK) {
        size_t n = count - first < BLOCK ? count - first : BLOCK;
        size_t took = decode_block(body, size, values + first, n, planes);

        if (took == 0)
            return false;
        body += took;
        size -= took;
    }
    return size == 0;
}
