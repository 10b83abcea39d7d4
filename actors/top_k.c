/* SPDX-License-Identifier: Apache-2.0 */
/* Top-k: the largest floats with their places.
 *
 *     for each: place (4 bytes, rising), value (4 bytes)
 *
 * Which are the largest is found by counting: by the upper bits of a magnitude, whose order is that
 * of numbers, then by those below. What is not a number counts as larger than all, and so is sent.
 */
#include "actors/compression.h"

#define VALUES 2048

static uint32_t magnitude(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits & 0x7fffffff;
}

/* The value at which `*wanted` of the largest are reached; takes those above it off. */
static uint32_t reach(const uint32_t *counts, uint32_t *wanted)
{
    uint32_t at = VALUES - 1;

    while (at > 0 && counts[at] < *wanted)
        *wanted -= counts[at--];
    return at;
}

/* The magnitude of the smallest float of the `kept` largest, and how many of that very magnitude
 * belong to them. */
static uint32_t threshold(const float *values, size_t count, uint32_t kept,
                          uint32_t *equal_out)
{
    static const int shifts[] = {20, 10, 0};
    uint32_t counts[VALUES], found = 0, known = 0; /* bits of it, and which */

    for (size_t level = 0; level < 3; level++) {
        memset(counts, 0, sizeof(counts));
        for (size_t i = 0; i < count; i++) {
            uint32_t size = magnitude(values[i]);

            if ((size & known) == found)
                counts[size >> shifts[level] & (VALUES - 1)]++;
        }
        found |= reach(counts, &kept) << shifts[level];
        known |= (uint32_t)(VALUES - 1) << shifts[level];
    }
    *equal_out = kept;
    return found;
}

size_t crti_top_k_encode(float *values, size_t count, uint32_t kept, unsigned char *body)
{
    uint32_t equal, least = threshold(values, count, kept, &equal);
    unsigned char *at = body;

    for (size_t i = 0; i < count; i++) {
        uint32_t place = (uint32_t)i, size = magnitude(values[i]);

        if (size < least || (size == least && equal == 0))
            continue;
        equal -= size == least;
        memcpy(at, &place, sizeof(place));
        memcpy(at + 4, &values[i], sizeof(float));
        at += 8;
        values[i] = 0;
    }
    return (size_t)(at - body);
}

bool crti_top_k_decode(const unsigned char *body, size_t size, uint32_t kept,
                       float *values, size_t count)
{
    size_t next = 0;

    if (size != 8 * (size_t)kept)
        return false;
    memset(values, 0, count * sizeof(float));
    for (; size > 0; size -= 8, body += 8) {
        uint32_t place;

        memcpy(&place, body, sizeof(place));
        if (place < next || place >= count)
            return false;
        memcpy(&values[place], body + 4, sizeof(float));
        next = (size_t)place + 1;
    }
    return true;
}
