/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of 16 bits: float16 (IEEE 754 binary16) and bfloat16, the upper half of a float32.
 * Rounded to the nearest, ties to even; subnormal numbers are kept; what is not a number stays so,
 * and is made quiet, as processors do. */
#ifndef CRTI_BASE_HALF_H
#define CRTI_BASE_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t crti_float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float crti_float_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint16_t crti_float16(float x)
{
    uint32_t bits = crti_float_bits(x), sign = bits >> 16 & 0x8000;

    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff));
    if (bits >= 0x477ff000) /* rounds to more than 65504 */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) /* subnormal: an addition rounds at the last bit there is */
        return (uint16_t)(sign | (crti_float_bits(crti_float_of_bits(bits) + 0.5f) -
                                  0x3f000000));
    return (uint16_t)(sign | (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13);
}

static inline float crti_float16_value(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;

    if (rest >= 0x7c00) /* infinite, or not a number */
        return crti_float_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13 |
                                  (rest > 0x7c00 ? 0x400000u : 0));
    /* The exponent is moved by a multiplication, which is right for subnormals, too. */
    return crti_float_of_bits(sign |
                              crti_float_bits(crti_float_of_bits(rest << 13) * 0x1p112f));
}

/* Without branches, so that loops over it become vectors. */
static inline uint16_t crti_bfloat16(float x)
{
    uint32_t bits = crti_float_bits(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t nan = bits >> 16 | 0x40; /* rounding might make it infinite */

    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

static inline void crti_bfloat16_from(uint16_t *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = crti_bfloat16(from[i]);
}

static inline void crti_bfloat16_to(float *to, const uint16_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] = crti_float_of_bits((uint32_t)from[i] << 16);
}

#endif
