/* SPDX-License-Identifier: Apache-2.0 */
/* One bit: signs, and for each 128 floats the mean of those below zero and of the others, which
 * stand for them (Seide and others, 2014).
 *
 *     for each block: mean below zero, mean of the others (4 bytes each), bits (1: below zero)
 */
#include "actors/compression.h"

#define BLOCK CRTI_COMPRESSION_ONE_BITS
#define MEANS (2 * sizeof(float))

static size_t bytes_of(size_t n)
{
    return MEANS + (n + 7) / 8;
}

size_t crti_one_bit_bound(size_t count)
{
    return count / BLOCK * bytes_of(BLOCK) +
           (count % BLOCK ? bytes_of(count % BLOCK) : 0);
}

static void encode_block(float *values, size_t n, unsigned char *to)
{
    double sum[2] = {0, 0};
    size_t many[2] = {0, 0};
    float mean[2];

    memset(to + MEANS, 0, (n + 7) / 8);
    for (size_t i = 0; i < n; i++) {
        int side = values[i] < 0 ? 0 : 1;

        sum[side] += (double)values[i];
        many[side]++;
        if (side == 0)
            to[MEANS + i / 8] |= (unsigned char)(1 << i % 8);
    }
    for (int side = 0; side < 2; side++)
        mean[side] = many[side] ? (float)(sum[side] / (double)many[side]) : 0;
    memcpy(to, mean, sizeof(mean));
    for (size_t i = 0; i < n; i++)
        values[i] -= mean[values[i] < 0 ? 0 : 1];
}

size_t crti_one_bit_encode(float *values, size_t count, unsigned char *body)
{
    unsigned char *at = body;

    for (size_t first = 0; first < count; first += BLOCK) {
        size_t n = count - first < BLOCK ? count - first : BLOCK;

        encode_block(values + first, n, at);
        at += bytes_of(n);
    }
    return (size_t)(at - body);
}

bool crti_one_bit_decode(const unsigned char *body, size_t size, float *values,
                         size_t count)
{
    if (size != crti_one_bit_bound(count))
        return false;
    for (size_t first = 0; first < count; first += BLOCK) {
        size_t n = count - first < BLOCK ? count - first : BLOCK;
        float mean[2];

        memcpy(mean, body, sizeof(mean));
        for (size_t i = 0; i < n; i++)
            values[first + i] = mean[body[MEANS + i / 8] >> i % 8 & 1 ? 0 : 1];
        body += bytes_of(n);
    }
    return true;
}
