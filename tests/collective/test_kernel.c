/* SPDX-License-Identifier: Apache-2.0 */
/* Every table of loops that this processor runs, against one element at a time. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective/backend.h"
#include "collective/kernel.h"

#include <cmocka.h>

#define COUNT 1037 /* no multiple of any vector, over two blocks of short floats */

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static double half_value(uint16_t bits, int mantissa, int bias)
{
    int exponent = (bits & 0x7fff) >> mantissa, top = 0x7fff >> mantissa;
    double m = bits & ((1 << mantissa) - 1), x;

    if (exponent == top)
        x = m ? (double)NAN : (double)INFINITY;
    else
        x = exponent ? ldexp(m + (1 << mantissa), exponent - bias - mantissa)
                     : ldexp(m, 1 - bias - mantissa);
    return bits & 0x8000 ? -x : x;
}

static void each_table(void (*test)(const crti_kernels_t *k))
{
    const crti_kernels_t *tables[3];
    int count = crti_kernel_tables(tables);

    for (int i = 0; i < count; i++) {
        crti_kernel_use(tables[i]);
        test(tables[i]);
    }
    crti_kernel_use(NULL);
}

/* ---------------------------------------------------------------- conversions */

static void check_halves(const crti_kernels_t *k)
{
    static uint16_t bits[65536], back[65536];
    static float wide[65536];

    for (int which = 0; which < 2; which++) {
        for (unsigned i = 0; i < 65536; i++)
            bits[i] = (uint16_t)i;
        k->widen[which](wide, bits, 65536);
        k->narrow[which](back, wide, 65536);
        for (unsigned i = 0; i < 65536; i++) {
            double wanted =
                which ? half_value(bits[i], 7, 127) : half_value(bits[i], 10, 15);

            if (isnan(wanted)) {
                assert_true(isnan(wide[i]));
                continue;
            }
            if ((double)wide[i] != wanted || back[i] != bits[i])
                fail_msg("%s: %04x is %g, not %g, and back %04x", k->name, i,
                         (double)wide[i], wanted, back[i]);
        }
    }
}

static void short_floats_widen_exactly_and_come_back(void **state)
{
    each_table(check_halves);
}

/* The nearest, the even one of two. */
static uint16_t round_slowly(double x, int which)
{
    uint16_t below = 0, top = which ? 0x7f80 : 0x7c00;
    int mantissa = which ? 7 : 10, bias = which ? 127 : 15;
    double low, high;

    for (uint16_t step = 0x4000; step; step = (uint16_t)(step >> 1))
        if (below + step < top &&
            half_value((uint16_t)(below + step), mantissa, bias) <= fabs(x))
            below = (uint16_t)(below + step);
    low = half_value(below, mantissa, bias);
    high = below + 1 == top ? ldexp(1, bias + 1)
                            : half_value((uint16_t)(below + 1), mantissa, bias);
    if (fabs(x) - low > high - fabs(x) ||
        (fabs(x) - low == high - fabs(x) && below % 2 == 1))
        below++;
    return x < 0 ? (uint16_t)(below | 0x8000) : below;
}

static void check_rounding(const crti_kernels_t *k)
{
    static float wide[20000];
    static uint16_t got[20000];

    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < 20000; i++) {
            uint32_t bits = (uint32_t)next_random();

            if (i % 2) /* halfway cases */
                bits &= which ? 0xffff8000u : 0xfffff000u;
            if (!which) /* within reach of float16, subnormals too */
                bits = (bits & 0x807fffff) | (96 + next_random() % 48) << 23;
            memcpy(&wide[i], &bits, 4);
            if (!isfinite(wide[i]))
                wide[i] = 0;
        }
        k->narrow[which](got, wide, 20000);
        for (int i = 0; i < 20000; i++) {
            uint16_t wanted = round_slowly((double)wide[i], which);

            if (got[i] != wanted && !(wide[i] == 0 && got[i] == 0x8000))
                fail_msg("%s: %a becomes %04x, not %04x", k->name, (double)wide[i],
                         got[i], wanted);
        }
    }
}

static void short_floats_round_to_the_nearest_even(void **state)
{
    each_table(check_rounding);
}

/* ---------------------------------------------------------------- reductions */

static double join(crt_reduction_t r, double a, double b)
{
    switch (r) {
    case CRT_REDUCE_PRODUCT: return a * b;
    case CRT_REDUCE_MIN: return b < a ? b : a;
    case CRT_REDUCE_MAX: return a < b ? b : a;
    default: return a + b;
    }
}

/* Into one, two and three places, of which two are the sources: all get what one alone gets. */
static void check_several(crt_dtype_t dtype, crt_reduction_t r, const void *a,
                          const void *b, size_t size)
{
    static _Alignas(64) unsigned char x[COUNT * 8], y[COUNT * 8], z[COUNT * 8],
        wanted[COUNT * 8];
    const void *sources[] = {x, y};
    void *outs[] = {y, x, z};

    crti_kernel_reduce_many(dtype, r, wanted, (const void *const[]){a, b}, 2, 2, COUNT);
    for (int places = 1; places <= 3; places++) {
        memcpy(x, a, COUNT * size);
        memcpy(y, b, COUNT * size);
        crti_kernel_reduce_to(dtype, r, outs, places, sources, 2, 2, COUNT);
        for (int o = 0; o < places; o++)
            assert_memory_equal(outs[o], wanted, COUNT * size);
    }
}

/* Four in place, against one output that is beside them: the way through blocks. */
static void check_four(crt_dtype_t dtype, crt_reduction_t r, const void *a, const void *b,
                       size_t size)
{
    static _Alignas(64) unsigned char x[4][COUNT * 8], wanted[COUNT * 8];
    const void *sources[] = {x[0], x[1], x[2], x[3]};
    void *outs[] = {x[2], x[0], x[3], x[1]};

    for (int i = 0; i < 4; i++)
        memcpy(x[i], i % 3 ? a : b, COUNT * size);
    crti_kernel_reduce_many(dtype, r, wanted, sources, 4, 4, COUNT);
    crti_kernel_reduce_to(dtype, r, outs, 4, sources, 4, 4, COUNT);
    for (int i = 0; i < 4; i++)
        assert_memory_equal(x[i], wanted, COUNT * size);
}

static void check_several_halves(const crti_kernels_t *k)
{
    static uint16_t a[COUNT], b[COUNT];

    for (int i = 0; i < COUNT; i++) {
        a[i] = (uint16_t)(next_random() & 0xbfff);
        b[i] = (uint16_t)(next_random() & 0xbfff);
    }
    for (int r = CRT_REDUCE_SUM; r <= CRT_REDUCE_AVERAGE; r++) {
        check_several(CRT_DTYPE_FLOAT16, (crt_reduction_t)r, a, b, 2);
        check_several(CRT_DTYPE_BFLOAT16, (crt_reduction_t)r, a, b, 2);
        check_four(CRT_DTYPE_FLOAT16, (crt_reduction_t)r, a, b, 2);
        check_four(CRT_DTYPE_BFLOAT16, (crt_reduction_t)r, a, b, 2);
    }
}

/* Some are below zero. Large unsigned ones would have products that are no int64_t. */
#define BELOW(type) ((double)(type)-1 < 0 || sizeof(type) < 4 ? 100 : 0)

#define CHECK(type, code, wrap)                                                          \
    static void check_##type(const crti_kernels_t *k)                                    \
    {                                                                                    \
        static type a[COUNT], b[COUNT], c[COUNT], out[COUNT];                            \
        const void *sources[] = {a, b, c};                                               \
                                                                                         \
        for (int r = CRT_REDUCE_SUM; r <= CRT_REDUCE_AVERAGE; r++) {                     \
            for (int i = 0; i < COUNT; i++) {                                            \
                a[i] = (type)((int64_t)(next_random() % 200) - BELOW(type));             \
                b[i] = (type)((int64_t)(next_random() % 200) - BELOW(type));             \
                c[i] = (type)((int64_t)(next_random() % 200) - BELOW(type));             \
            }                                                                            \
            crti_kernel_reduce_many(code, (crt_reduction_t)r, out, sources, 3, 3,        \
                                    COUNT);                                              \
            for (int i = 0; i < COUNT; i++) {                                            \
                double x = join((crt_reduction_t)r, (double)a[i], (double)b[i]);         \
                type wanted;                                                             \
                                                                                         \
                x = join((crt_reduction_t)r, (double)(type)(wrap)x, (double)c[i]);       \
                wanted = (type)(wrap)x;                                                  \
                if (r == CRT_REDUCE_AVERAGE)                                             \
                    wanted = (type)(wanted / 3);                                         \
                if (out[i] != wanted)                                                    \
                    fail_msg("%s, reduction %d: element %d is %g, not %g", k->name, r,   \
                             i, (double)out[i], (double)wanted);                         \
            }                                                                            \
            memcpy(out, a, sizeof(out));                                                 \
            sources[0] = out; /* in place */                                             \
            crti_kernel_reduce_many(code, (crt_reduction_t)r, out, sources, 2, 2,        \
                                    COUNT);                                              \
            sources[0] = a;                                                              \
            crti_kernel_reduce_many(code, (crt_reduction_t)r, c, sources, 2, 2, COUNT);  \
            assert_memory_equal(out, c, sizeof(out));                                    \
            check_several(code, (crt_reduction_t)r, a, b, sizeof(type));                 \
            check_four(code, (crt_reduction_t)r, a, b, sizeof(type));                    \
        }                                                                                \
    }
CHECK(float, CRT_DTYPE_FLOAT32, double)
CHECK(double, CRT_DTYPE_FLOAT64, double)
CHECK(int8_t, CRT_DTYPE_INT8, int64_t)
CHECK(int16_t, CRT_DTYPE_INT16, int64_t)
CHECK(int32_t, CRT_DTYPE_INT32, int64_t)
CHECK(int64_t, CRT_DTYPE_INT64, int64_t)
CHECK(uint8_t, CRT_DTYPE_UINT8, int64_t)
CHECK(uint16_t, CRT_DTYPE_UINT16, int64_t)
CHECK(uint32_t, CRT_DTYPE_UINT32, int64_t)
CHECK(uint64_t, CRT_DTYPE_UINT64, int64_t)

static void every_dtype_and_reduction_agrees_with_one_element_at_a_time(void **state)
{
    each_table(check_float);
    each_table(check_double);
    each_table(check_int8_t);
    each_table(check_int16_t);
    each_table(check_int32_t);
    each_table(check_int64_t);
    each_table(check_uint8_t);
    each_table(check_uint16_t);
    each_table(check_uint32_t);
    each_table(check_uint64_t);
    each_table(check_several_halves);
}

/* 1 + 2^-9 + 2^-9 in bfloat16: rounded at each step nothing would be added. */
static void check_one_rounding(const crti_kernels_t *k)
{
    uint16_t one[COUNT], little[COUNT], out[COUNT];
    const void *sources[] = {one, little, little, little, little};

    for (int i = 0; i < COUNT; i++) {
        one[i] = 0x3f80;
        little[i] = 0x3b00; /* 2^-9 */
    }
    crti_kernel_reduce_many(CRT_DTYPE_BFLOAT16, CRT_REDUCE_SUM, out, sources, 5, 5,
                            COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(out[i], 0x3f81); /* 1 + 2^-7 */
}

static void short_floats_are_summed_in_float32_and_rounded_once(void **state)
{
    each_table(check_one_rounding);
}

static void check_copy(const crti_kernels_t *k)
{
    static unsigned char from[3000], to[3002];

    for (int i = 0; i < 3000; i++)
        from[i] = (unsigned char)next_random();
    for (size_t bytes = 0; bytes < 1500; bytes += 7) {
        memset(to, 0xee, sizeof(to));
        crti_kernel_copy(to + 1, from + bytes % 64, bytes);
        assert_memory_equal(to + 1, from + bytes % 64, bytes);
        assert_int_equal(to[0], 0xee);
        assert_int_equal(to[bytes + 1], 0xee);
    }
}

static void copies_touch_nothing_beside_them(void **state)
{
    each_table(check_copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_floats_widen_exactly_and_come_back),
        cmocka_unit_test(short_floats_round_to_the_nearest_even),
        cmocka_unit_test(every_dtype_and_reduction_agrees_with_one_element_at_a_time),
        cmocka_unit_test(short_floats_are_summed_in_float32_and_rounded_once),
        cmocka_unit_test(copies_touch_nothing_beside_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
