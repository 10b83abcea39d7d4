/* SPDX-License-Identifier: Apache-2.0 */
/* float16. See fake.h. */
#include <math.h>
#include <string.h>

#include "fake.h"

static float wide[1 << 16];

static float widen(uint32_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    float x = exponent == 31  ? (fraction ? NAN : INFINITY)
              : exponent == 0 ? ldexpf((float)fraction, -24)
                              : ldexpf((float)(fraction | 1024), exponent - 25);

    return half & 0x8000 ? -x : x;
}

static __attribute__((constructor)) void fill(void)
{
    for (uint32_t half = 0; half < 1 << 16; half++)
        wide[half] = widen(half);
}

float fake_widen(uint16_t half)
{
    return wide[half];
}

/* The halfs of one sign are in order, and so are their bits. */
uint16_t fake_narrow(float x)
{
    uint32_t bits, sign, size;
    float step;

    memcpy(&bits, &x, sizeof(bits));
    sign = bits >> 16 & 0x8000;
    size = bits & 0x7fffffff;
    if (size > 0x7f800000) /* NaN */
        return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000) /* 65520 */
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) { /* 2^-14: steps of 2^-24 */
        memcpy(&step, &size, sizeof(step));
        step += 0.5f; /* whose last bit is 2^-24, so that the sum is rounded to it */
        memcpy(&size, &step, sizeof(size));
        return (uint16_t)(sign | (size - 0x3f000000));
    }
    size += 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | ((size >> 13) - ((127 - 15) << 10)));
}
