/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of reductions, compiled once per instruction set. See kernel.h.
 *
 * CRTI_KERNELS names the table that this compilation makes. The loops are plain C that compilers
 * vectorise; integers are computed without sign, since their sums wrap.
 */
#include "collective/kernel.h"

#include <stdint.h>
#include <string.h>
#if defined(__F16C__) || defined(__AVX2__)
#    include <immintrin.h>
#endif

#include "runtime/base/half.h"

#define SUM(a, b)     ((a) + (b))
#define PRODUCT(a, b) ((a) * (b))
#define MIN(a, b)     ((b) < (a) ? (b) : (a))
#define MAX(a, b)     ((a) < (b) ? (b) : (a))

/* `out` may be `a` or `b` but overlaps them in no other way: an element depends on none before. */
#if defined(__clang__)
#    define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#    define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* `compute` is what the operands are converted to, wide enough not to be promoted to int.
 * twice_NAME writes the result to two places, four_NAME that of four operands to four, all as it
 * comes: one pass through the caches. */
#define PAIR(name, type, compute, operation)                                             \
    static void name(void *out, const void *a, const void *b, size_t count)              \
    {                                                                                    \
        type *o = out;                                                                   \
        const type *x = a, *y = b;                                                       \
                                                                                         \
        INDEPENDENT for (size_t i = 0; i < count; i++) o[i] =                            \
            (type)operation((compute)x[i], (compute)y[i]);                               \
    }                                                                                    \
    static void twice_##name(void *out, void *too, const void *a, const void *b,         \
                             size_t count)                                               \
    {                                                                                    \
        type *o = out, *p = too;                                                         \
        const type *x = a, *y = b;                                                       \
                                                                                         \
        INDEPENDENT for (size_t i = 0; i < count; i++) o[i] = p[i] =                     \
            (type)operation((compute)x[i], (compute)y[i]);                               \
    }                                                                                    \
    static void four_##name(void *const outs[4], const void *const from[4],              \
                            size_t count)                                                \
    {                                                                                    \
        type *o = outs[0], *p = outs[1], *q = outs[2], *r = outs[3];                     \
        const type *x = from[0], *y = from[1], *z = from[2], *w = from[3];               \
                                                                                         \
        INDEPENDENT for (size_t i = 0; i < count; i++)                                   \
        {                                                                                \
            compute two = operation((compute)x[i], (compute)y[i]);                       \
            compute three = operation(two, (compute)z[i]);                               \
                                                                                         \
            o[i] = p[i] = q[i] = r[i] = (type)operation(three, (compute)w[i]);           \
        }                                                                                \
    }
#define SCALE(name, type)                                                                \
    static void name(void *values, int divisor, size_t count)                            \
    {                                                                                    \
        type *v = values;                                                                \
                                                                                         \
        for (size_t i = 0; i < count; i++)                                               \
            v[i] = (type)(v[i] / (type)divisor);                                         \
    }
/* Small integers are divided as int: a divisor may not fit into them. */
#define SCALE_SMALL(name, type)                                                          \
    static void name(void *values, int divisor, size_t count)                            \
    {                                                                                    \
        type *v = values;                                                                \
                                                                                         \
        for (size_t i = 0; i < count; i++)                                               \
            v[i] = (type)(v[i] / divisor);                                               \
    }
#define KIND(t, type, wrap)                                                              \
    PAIR(sum_##t, type, wrap, SUM)                                                       \
    PAIR(product_##t, type, wrap, PRODUCT)                                               \
    PAIR(min_##t, type, type, MIN)                                                       \
    PAIR(max_##t, type, type, MAX)

KIND(f32, float, float)
KIND(f64, double, double)
KIND(i8, int8_t, uint32_t)
KIND(i16, int16_t, uint32_t)
KIND(i32, int32_t, uint32_t)
KIND(i64, int64_t, uint64_t)
KIND(u8, uint8_t, uint32_t)
KIND(u16, uint16_t, uint32_t)
KIND(u32, uint32_t, uint32_t)
KIND(u64, uint64_t, uint64_t)
SCALE(scale_f32, float)
SCALE(scale_f64, double)
SCALE_SMALL(scale_i8, int8_t)
SCALE_SMALL(scale_i16, int16_t)
SCALE_SMALL(scale_i32, int32_t)
SCALE_SMALL(scale_i64, int64_t)
SCALE_SMALL(scale_u8, uint8_t)
SCALE_SMALL(scale_u16, uint16_t)
SCALE(scale_u32, uint32_t)
SCALE(scale_u64, uint64_t)

/* ---------------------------------------------------------------- bfloat16 */

static void widen_bf16(float *to, const void *from, size_t count)
{
    crti_bfloat16_to(to, from, count);
}

static void narrow_bf16(void *to, const float *from, size_t count)
{
    crti_bfloat16_from(to, from, count);
}

/* ---------------------------------------------------------------- float16 */

static void widen_f16(float *to, const void *from, size_t count)
{
    const uint16_t *x = from;
    size_t i = 0;

#if defined(__F16C__)
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(
                                     (const __m128i *)(const void *)(x + i))));
#endif
    for (; i < count; i++)
        to[i] = crti_float16_value(x[i]);
}

static void narrow_f16(void *to, const float *from, size_t count)
{
    uint16_t *x = to;
    size_t i = 0;

#if defined(__F16C__)
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128(
            (__m128i *)(void *)(x + i),
            _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < count; i++)
        x[i] = crti_float16(from[i]);
}

/* ---------------------------------------------------------------- copying */

static void copy(void *to, const void *from, size_t bytes)
{
    char *t = to;
    const char *f = from;

#if defined(__AVX512F__)
    for (; bytes >= 256; bytes -= 256, t += 256, f += 256) {
        __m512i a = _mm512_loadu_si512(f), b = _mm512_loadu_si512(f + 64);
        __m512i c = _mm512_loadu_si512(f + 128), d = _mm512_loadu_si512(f + 192);

        _mm512_storeu_si512(t, a);
        _mm512_storeu_si512(t + 64, b);
        _mm512_storeu_si512(t + 128, c);
        _mm512_storeu_si512(t + 192, d);
    }
#elif defined(__AVX2__)
    for (; bytes >= 128; bytes -= 128, t += 128, f += 128) {
        const __m256i *x = (const __m256i *)(const void *)f;
        __m256i *y = (__m256i *)(void *)t;
        __m256i a = _mm256_loadu_si256(x), b = _mm256_loadu_si256(x + 1);
        __m256i c = _mm256_loadu_si256(x + 2), d = _mm256_loadu_si256(x + 3);

        _mm256_storeu_si256(y, a);
        _mm256_storeu_si256(y + 1, b);
        _mm256_storeu_si256(y + 2, c);
        _mm256_storeu_si256(y + 3, d);
    }
#endif
    memcpy(t, f, bytes);
}

/* Two of them: through float32, a block that fits the first cache at a time. */
#define BLOCK 512
#define HALF_PAIR(name, t, operation)                                                    \
    static void name(void *out, const void *a, const void *b, size_t count)              \
    {                                                                                    \
        float x[BLOCK], y[BLOCK];                                                        \
                                                                                         \
        for (size_t i = 0; i < count; i += BLOCK) {                                      \
            size_t n = count - i < BLOCK ? count - i : BLOCK;                            \
                                                                                         \
            widen_##t(x, (const uint16_t *)a + i, n);                                    \
            widen_##t(y, (const uint16_t *)b + i, n);                                    \
            operation##_f32(x, x, y, n);                                                 \
            narrow_##t((uint16_t *)out + i, x, n);                                       \
        }                                                                                \
    }                                                                                    \
    static void twice_##name(void *out, void *too, const void *a, const void *b,         \
                             size_t count)                                               \
    {                                                                                    \
        uint16_t sum[BLOCK];                                                             \
                                                                                         \
        for (size_t i = 0; i < count; i += BLOCK) {                                      \
            size_t n = count - i < BLOCK ? count - i : BLOCK;                            \
                                                                                         \
            name(sum, (const uint16_t *)a + i, (const uint16_t *)b + i, n);              \
            memcpy((uint16_t *)out + i, sum, n * sizeof(*sum));                          \
            memcpy((uint16_t *)too + i, sum, n * sizeof(*sum));                          \
        }                                                                                \
    }
#define HALF(t)                                                                          \
    HALF_PAIR(sum_##t, t, sum)                                                           \
    HALF_PAIR(product_##t, t, product)                                                   \
    HALF_PAIR(min_##t, t, min)                                                           \
    HALF_PAIR(max_##t, t, max)                                                           \
    static void scale_##t(void *values, int divisor, size_t count)                       \
    {                                                                                    \
        float x[BLOCK];                                                                  \
                                                                                         \
        for (size_t i = 0; i < count; i += BLOCK) {                                      \
            size_t n = count - i < BLOCK ? count - i : BLOCK;                            \
                                                                                         \
            widen_##t(x, (uint16_t *)values + i, n);                                     \
            scale_f32(x, divisor, n);                                                    \
            narrow_##t((uint16_t *)values + i, x, n);                                    \
        }                                                                                \
    }
HALF(f16)
HALF(bf16)

#define OF(t)                                                                            \
    {                                                                                    \
        sum_##t, product_##t, min_##t, max_##t                                           \
    }
#define TWICE(t)                                                                         \
    {                                                                                    \
        twice_sum_##t, twice_product_##t, twice_min_##t, twice_max_##t                   \
    }
#define FOUR(t)                                                                          \
    {                                                                                    \
        four_sum_##t, four_product_##t, four_min_##t, four_max_##t                       \
    }
#define TEXT(x)       #x
#define NAME(x)       TEXT(x)
#define JOIN(a, b)    a##b
#define TABLE(suffix) JOIN(crti_kernels_, suffix)

const crti_kernels_t TABLE(CRTI_KERNELS) = {
    .name = NAME(CRTI_KERNELS),
    .pair = {OF(f32),
             OF(f64),
             OF(f16),
             OF(bf16),
             OF(i8),
             OF(i16),
             OF(i32),
             OF(i64),
             OF(u8),
             {NULL},
             OF(u16),
             OF(u32),
             OF(u64)},
    .twice = {TWICE(f32),
              TWICE(f64),
              TWICE(f16),
              TWICE(bf16),
              TWICE(i8),
              TWICE(i16),
              TWICE(i32),
              TWICE(i64),
              TWICE(u8),
              {NULL},
              TWICE(u16),
              TWICE(u32),
              TWICE(u64)},
    .four = {FOUR(f32),
             FOUR(f64),
             {NULL},
             {NULL},
             FOUR(i8),
             FOUR(i16),
             FOUR(i32),
             FOUR(i64),
             FOUR(u8),
             {NULL},
             FOUR(u16),
             FOUR(u32),
             FOUR(u64)},
    .scale = {scale_f32, scale_f64, scale_f16, scale_bf16, scale_i8, scale_i16, scale_i32,
              scale_i64, scale_u8, NULL, scale_u16, scale_u32, scale_u64},
    .copy = copy,
    .widen = {widen_f16, widen_bf16},
    .narrow = {narrow_f16, narrow_bf16},
};
