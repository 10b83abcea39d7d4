/* SPDX-License-Identifier: Apache-2.0 */
/* Layers give the numbers that Thinc gives (tests/ml/record_thinc.py). */
#include "layer_test.h"
#include "recorded_thinc.h"

static bench_t b;

#define CHECK(name)                                                                      \
    do {                                                                                 \
        assert_int_equal(COUNT_OF(thinc_##name##_outputs), b.rows *b.outputs);           \
        assert_int_equal(COUNT_OF(thinc_##name##_gradients), b.parameters);              \
        assert_close("outputs", b.y, thinc_##name##_outputs,                             \
                     (size_t)(b.rows * b.outputs), 1e-5);                                \
        assert_close("gradients", b.gradients, thinc_##name##_gradients, b.parameters,   \
                     1e-4);                                                              \
    } while (0)

static void run(crt_input_t input, const crt_layer_t *layers, size_t count,
                const int32_t *lengths, int sequences)
{
    bench_begin(&b, input, layers, count, 6);
    b.lengths = lengths;
    b.sequences = sequences;
    bench_forward(&b, true);
    bench_backward(&b);
}

static void maxout_is_that_of_thinc(void **state)
{
    run(CRT_INPUT(.channels = 4), (const crt_layer_t[]){CRT_MAXOUT(3, 3)}, 1, NULL, 0);
    CHECK(maxout);
    assert_close("inputs", b.dx, thinc_maxout_d_inputs, b.inputs, 1e-5);
    bench_end(&b);
}

static void layer_norm_is_that_of_thinc(void **state)
{
    run(CRT_INPUT(.channels = 4), (const crt_layer_t[]){CRT_LAYER_NORM()}, 1, NULL, 0);
    CHECK(norm);
    assert_close("inputs", b.dx, thinc_norm_d_inputs, b.inputs, 1e-4);
    bench_end(&b);
}

static void hash_embed_is_that_of_thinc(void **state)
{
    run(CRT_INPUT(.dtype = CRT_DTYPE_INT64, .channels = 2),
        (const crt_layer_t[]){CRT_HASH_EMBED(5, 7, 8, 1, 1)}, 1, NULL, 0);
    CHECK(embed);
    bench_end(&b);
}

static void a_residual_window_encoder_is_that_of_thinc(void **state)
{
    static const int32_t lengths[] = {4, 2};
    const crt_layer_t layers[] = {CRT_EXPAND_WINDOW(1), CRT_MAXOUT(4, 2),
                                  CRT_LAYER_NORM(), CRT_ADD(4)};

    run(CRT_INPUT(.channels = 4), layers, COUNT_OF(layers), lengths, 2);
    CHECK(block);
    assert_close("inputs", b.dx, thinc_block_d_inputs, b.inputs, 1e-4);
    bench_end(&b);
}

static void embeddings_of_several_keys_are_those_of_thinc(void **state)
{
    const crt_layer_t layers[] = {CRT_HASH_EMBED(3, 5, 8, 0, 1),
                                  CRT_HASH_EMBED(3, 4, 9, 1, 2), CRT_CONCATENATE(2),
                                  CRT_MAXOUT(4, 2), CRT_LAYER_NORM()};

    run(CRT_INPUT(.dtype = CRT_DTYPE_INT64, .channels = 2), layers, COUNT_OF(layers),
        NULL, 0);
    CHECK(mixed);
    bench_end(&b);
}

static void hashes_are_those_of_spacy_and_thinc(void **state)
{
    static const uint32_t coffee[4] = {2399055680, 1118310852, 3598583520, 1677466278};
    static const uint32_t one[4] = {4211459146, 4457399, 3547175942, 1032506804};
    uint32_t rows[4];

    assert_true(crt_hash_string("", 0) == 0);
    assert_true(crt_hash_string("coffee", 6) == 3197928453018144401u);
    assert_true(crt_hash_string("apple", 5) == 8566208034543834098u);
    assert_true(crt_hash_string("London", 6) == 5392354317538386956u);
    crt_hash_key(crt_hash_string("coffee", 6), 8, rows);
    assert_memory_equal(rows, coffee, sizeof(rows));
    crt_hash_key(1, 0, rows);
    assert_memory_equal(rows, one, sizeof(rows));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maxout_is_that_of_thinc),
        cmocka_unit_test(layer_norm_is_that_of_thinc),
        cmocka_unit_test(hash_embed_is_that_of_thinc),
        cmocka_unit_test(a_residual_window_encoder_is_that_of_thinc),
        cmocka_unit_test(embeddings_of_several_keys_are_those_of_thinc),
        cmocka_unit_test(hashes_are_those_of_spacy_and_thinc),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
