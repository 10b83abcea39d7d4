/* SPDX-License-Identifier: Apache-2.0 */
/* Encoded gradients: what comes back, what is made up for later, sizes, damage. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <crt_compression.h>

#include <cmocka.h>

#include "runtime/base/half.h"

#define METHODS 6

static const size_t counts[] = {1, 2, 127, 128, 129, 512, 65536, 65537, 200001};

/* Small numbers around zero, as gradients are, from a fixed seed. */
static float *gradient(size_t count, uint64_t seed)
{
    float *values = malloc(count * sizeof(float));

    for (size_t i = 0; i < count; i++) {
        double size;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size = ldexp(1, -(int)(seed >> 60));
        values[i] = (float)(((double)(seed >> 11 & 0xfffff) / 524288 - 1) * size * 0.01);
    }
    return values;
}

static crt_compressor_t *compressor(crt_compression_t method, size_t count, double keep)
{
    crt_compressor_t *c;

    assert_int_equal(crt_compressor_new(method, count, keep, &c), CRT_OK);
    return c;
}

/* Through bytes and back; returns how many bytes. */
static size_t pass(crt_compressor_t *c, const float *values, size_t count, float *out)
{
    size_t bound = crt_compressor_bound(c), size;
    unsigned char *bytes = malloc(bound);

    size = crt_compressor_encode(c, values, bytes);
    assert_in_range(size, 1, bound);
    assert_int_equal(crt_compression_decode(bytes, size, out, count), CRT_OK);
    free(bytes);
    return size;
}

static void lossless_methods_give_the_same_bits(void **state)
{
    static const crt_compression_t methods[] = {CRT_COMPRESSION_NONE,
                                                CRT_COMPRESSION_LZ4};

    for (size_t m = 0; m < 2; m++)
        for (size_t n = 0; n < sizeof(counts) / sizeof(counts[0]); n++) {
            float *values = gradient(counts[n], n), *out = calloc(counts[n], 4);
            crt_compressor_t *c = compressor(methods[m], counts[n], 0);

            if (n % 2)
                memset(values, 0, counts[n] * 2); /* packs well */
            values[counts[n] / 2] = NAN;
            pass(c, values, counts[n], out);
            assert_memory_equal(values, out, counts[n] * sizeof(float));
            crt_compressor_drop(&c);
            free(values);
            free(out);
        }
}

static void zeros_pack_to_almost_nothing(void **state)
{
    float *values = calloc(100000, sizeof(float)), *out = malloc(100000 * sizeof(float));
    crt_compressor_t *c = compressor(CRT_COMPRESSION_LZ4, 100000, 0);

    assert_in_range(pass(c, values, 100000, out), 1, 8000);
    crt_compressor_drop(&c);
    free(values);
    free(out);
}

static void halves_are_near_and_special_numbers_stay(void **state)
{
    float values[] = {1,    -2.5f,  1e-3f, 6e-8f, -3e-5f, 65504,    65519,      65520,
                      1e6f, -1e30f, 0,     -0.0f, NAN,    INFINITY, 1.0009766f, 1e-9f};
    const size_t count = sizeof(values) / sizeof(values[0]);
    float half[sizeof(values) / sizeof(values[0])],
        brain[sizeof(values) / sizeof(values[0])];
    crt_compressor_t *a = compressor(CRT_COMPRESSION_FLOAT16, count, 0);
    crt_compressor_t *b = compressor(CRT_COMPRESSION_BFLOAT16, count, 0);

    assert_int_equal(pass(a, values, count, half), 16 + 2 * count);
    assert_int_equal(pass(b, values, count, brain), 16 + 2 * count);
    for (size_t i = 0; i < 6; i++) {
        assert_float_equal(half[i], values[i], fabsf(values[i]) / 2048 + 3e-8f);
        assert_float_equal(brain[i], values[i], fabsf(values[i]) / 256);
    }
    assert_true(half[6] == 65504 && isinf(half[7]) && isinf(half[8]));
    assert_true(isinf(half[9]) && half[9] < 0 && fabsf(brain[9] + 1e30f) < 1e28f);
    assert_true(half[10] == 0 && half[11] == 0 && signbit(half[11]));
    assert_true(isnan(half[12]) && isnan(brain[12]) && isinf(half[13]));
    assert_true(half[14] == 1.0009765625f && half[15] == 0);
    crt_compressor_drop(&a);
    crt_compressor_drop(&b);
}

static void every_half_comes_back_as_itself(void **state)
{
    for (uint32_t i = 0; i < 65536; i++) {
        float value = crti_float16_value((uint16_t)i);

        if (!isnan(value))
            assert_int_equal(crti_float16(value), i);
    }
}

static void top_k_sends_the_largest(void **state)
{
    const size_t count = 1000;
    float *values = gradient(count, 3), out[1000];
    crt_compressor_t *c = compressor(CRT_COMPRESSION_TOP_K, count, 0.05);
    float smallest = INFINITY;
    size_t sent = 0;

    assert_int_equal(pass(c, values, count, out), 16 + 8 * 50);
    for (size_t i = 0; i < count; i++)
        if (out[i] != 0) {
            assert_true(out[i] == values[i]);
            smallest = fminf(smallest, fabsf(out[i]));
            sent++;
        }
    assert_int_equal(sent, 50);
    for (size_t i = 0; i < count; i++)
        assert_true(out[i] != 0 || fabsf(values[i]) <= smallest);
    crt_compressor_drop(&c);
    free(values);
}

static void equal_numbers_are_sent_from_the_first_on(void **state)
{
    float values[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 2}, out[10];
    crt_compressor_t *c = compressor(CRT_COMPRESSION_TOP_K, 10, 0.3);

    pass(c, values, 10, out);
    assert_true(out[0] == 1 && out[1] == 1 && out[2] == 0 && out[9] == 2);
    crt_compressor_drop(&c);
}

/* All that arrived and what is kept are all that was given. */
static void check_error(crt_compression_t method)
{
    const size_t count = 3000;
    crt_compressor_t *c = compressor(method, count, 0.02);
    double *given = calloc(count, sizeof(double)),
           *arrived = calloc(count, sizeof(double));
    float *out = malloc(count * sizeof(float));

    for (uint64_t step = 0; step < 30; step++) {
        float *values = gradient(count, step % 4);

        pass(c, values, count, out);
        for (size_t i = 0; i < count; i++) {
            given[i] += (double)values[i];
            arrived[i] += (double)out[i];
        }
        free(values);
    }
    for (size_t i = 0; i < count; i++)
        assert_float_equal(given[i], arrived[i] + (double)crt_compressor_error(c)[i],
                           1e-6);
    crt_compressor_drop(&c);
    free(given);
    free(arrived);
    free(out);
}

static void what_is_not_sent_is_sent_later(void **state)
{
    check_error(CRT_COMPRESSION_TOP_K);
    check_error(CRT_COMPRESSION_ONE_BIT);
}

static void one_bit_has_the_mean_of_each_side(void **state)
{
    float values[] = {1, 3, -2, -4, 0, 0}, out[6];
    crt_compressor_t *c = compressor(CRT_COMPRESSION_ONE_BIT, 6, 0);

    assert_int_equal(pass(c, values, 6, out), 16 + 8 + 1);
    assert_true(out[0] == 1 && out[1] == 1 && out[4] == 1); /* (1 + 3 + 0 + 0) / 4 */
    assert_true(out[2] == -3 && out[3] == -3);
    crt_compressor_drop(&c);
}

static void bytes_cut_short_or_of_another_count_are_refused(void **state)
{
    const size_t count = 1000;
    float *values = gradient(count, 1), out[1001];

    for (int m = 0; m < METHODS; m++) {
        crt_compressor_t *c = compressor((crt_compression_t)m, count, 0);
        unsigned char *bytes = calloc(1, crt_compressor_bound(c) + 1);
        size_t size = crt_compressor_encode(c, values, bytes);

        for (size_t n = 0; n < size; n++) {
            unsigned char *cut = malloc(n ? n : 1); /* so that a byte too far is seen */

            memcpy(cut, bytes, n);
            assert_int_equal(crt_compression_decode(cut, n, out, count), CRT_ERR_CORRUPT);
            free(cut);
        }
        assert_int_equal(crt_compression_decode(bytes, size + 1, out, count),
                         CRT_ERR_CORRUPT);
        assert_int_equal(crt_compression_decode(bytes, size, out, count + 1),
                         CRT_ERR_CORRUPT);
        assert_non_null(strstr(crt_error_detail(), "of 1000 floats, not 1001"));
        bytes[3] = 77;
        assert_int_equal(crt_compression_decode(bytes, size, out, count),
                         CRT_ERR_CORRUPT);
        crt_compressor_drop(&c);
        free(bytes);
    }
    free(values);
}

static void methods_have_names(void **state)
{
    crt_compression_t method;
    crt_compressor_t *c;

    for (int m = 0; m < METHODS; m++) {
        assert_int_equal(
            crt_compression_parse(crt_compression_name((crt_compression_t)m), &method),
            CRT_OK);
        assert_int_equal(method, m);
    }
    assert_null(crt_compression_name((crt_compression_t)METHODS));
    assert_int_equal(crt_compression_parse("zip", &method), CRT_ERR_INVALID);
    assert_non_null(strstr(crt_error_detail(), "top_k"));
    assert_int_equal(crt_compressor_new(CRT_COMPRESSION_TOP_K, 5, 1.5, &c),
                     CRT_ERR_INVALID);
    assert_int_equal(crt_compressor_new(CRT_COMPRESSION_TOP_K, 0, 0.5, &c),
                     CRT_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lossless_methods_give_the_same_bits),
        cmocka_unit_test(zeros_pack_to_almost_nothing),
        cmocka_unit_test(halves_are_near_and_special_numbers_stay),
        cmocka_unit_test(every_half_comes_back_as_itself),
        cmocka_unit_test(top_k_sends_the_largest),
        cmocka_unit_test(equal_numbers_are_sent_from_the_first_on),
        cmocka_unit_test(what_is_not_sent_is_sent_later),
        cmocka_unit_test(one_bit_has_the_mean_of_each_side),
        cmocka_unit_test(bytes_cut_short_or_of_another_count_are_refused),
        cmocka_unit_test(methods_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
