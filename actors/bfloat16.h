/* SPDX-License-Identifier: Apache-2.0 */
/* bfloat16: the upper half of a float32, rounded to the nearest, ties to even. */
#ifndef CRTI_ACTORS_BFLOAT16_H
#define CRTI_ACTORS_BFLOAT16_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t crti_bfloat16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fffffff) > 0x7f800000) /* not a number, and stays so */
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline void crti_bfloat16_from(uint16_t *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = crti_bfloat16(from[i]);
}

static inline void crti_bfloat16_to(float *to, const uint16_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;

        memcpy(&to[i], &bits, sizeof(bits));
    }
}

#endif
