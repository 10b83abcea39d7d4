/* SPDX-License-Identifier: Apache-2.0 */
/* float16 (IEEE 754 binary16): rounded to the nearest, ties to even; subnormal numbers are kept. */
#ifndef CRTI_ACTORS_FLOAT16_H
#define CRTI_ACTORS_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline uint16_t crti_float16(float value)
{
    const float small =
        0.5f; /* added to a subnormal, it shifts the bits to where they belong */
    uint32_t bits, sign, magnitude;

    memcpy(&bits, &value, sizeof(bits));
    sign = bits >> 16 & 0x8000;
    magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* rounds to 65,536 or more */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) {
        float shifted;

        memcpy(&shifted, &magnitude, sizeof(shifted));
        shifted += small;
        memcpy(&magnitude, &shifted, sizeof(magnitude));
        return (uint16_t)(sign | (magnitude - 0x3f000000));
    }
    magnitude += 0xc8000fff + (magnitude >> 13 & 1); /* exponent - 112, and half a unit */
    return (uint16_t)(sign | magnitude >> 13);
}

static inline float crti_float16_value(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff, bits;
    float value;

    if (magnitude >= 0x7c00) {
        bits = sign | 0x7f800000 | (magnitude & 0x3ff) << 13;
    } else if (magnitude >= 0x400) {
        bits = sign | ((magnitude << 13) + 0x38000000);
    } else { /* subnormal: magnitude x 2^-24 */
        value = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &value, sizeof(bits));
        bits |= sign;
    }
    memcpy(&value, &bits, sizeof(value));
    return value;
}

#endif
