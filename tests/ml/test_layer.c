/* SPDX-License-Identifier: Apache-2.0 */
/* Each layer's backward pass against finite differences of its forward pass, and how layers read
 * each other. */
#include "layer_test.h"

#define ROWS 4
#define STEP 1e-2f

static const crt_input_t numbers = CRT_INPUT(.channels = 7);
static const crt_input_t two_keys = CRT_INPUT(.dtype = CRT_DTYPE_INT64, .channels = 2);

static void gradients_of_dense_match_finite_differences(void **state)
{
    const crt_layer_t layers[] = {CRT_DENSE(5)};

    check_layers(numbers, layers, COUNT_OF(layers), ROWS, 1e-3);
}

static void gradients_of_relu_match_finite_differences(void **state)
{
    const crt_layer_t layers[] = {CRT_RELU(), CRT_DENSE(3), CRT_RELU()};

    check_layers(numbers, layers, COUNT_OF(layers), ROWS, 1e-3);
}

static void gradients_of_dropout_match_finite_differences(void **state)
{
    const crt_layer_t layers[] = {CRT_DROPOUT(0.4), CRT_DENSE(6), CRT_DROPOUT(0.4)};

    check_layers(numbers, layers, COUNT_OF(layers), ROWS, 1e-3);
}

static void gradients_of_maxout_match_finite_differences(void **state)
{
    const crt_layer_t layers[] = {CRT_MAXOUT(4, 2), CRT_DENSE(3)};

    check_layers(numbers, layers, COUNT_OF(layers), ROWS, 1e-3);
}

static void gradients_of_layer_norm_match_finite_differences(void **state)
{
    const crt_layer_t layers[] = {CRT_LAYER_NORM()};

    check_layers(numbers, layers, COUNT_OF(layers), ROWS, 1e-3);
}

static void gradients_of_hash_embed_match_finite_differences(void **state)
{
    const crt_layer_t layers[] = {CRT_HASH_EMBED(3, 5, 8, 1, 1),
                                  CRT_HASH_EMBED(2, 4, 9, 0, 2), CRT_CONCATENATE(2),
                                  CRT_DENSE(2)};

    check_layers(two_keys, layers, COUNT_OF(layers), ROWS, 1e-3);
}

static void dropout_of_hash_embed_is_the_same_for_all_rows(void **state)
{
    const crt_layer_t layer =
        CRT_LAYER(.kind = CRT_LAYER_HASH_EMBED, .width = 8, .rows = 50, .rate = 0.5);
    static bench_t b;
    int zeros = 0;

    bench_begin(&b, two_keys, &layer, 1, ROWS);
    bench_forward(&b, true);
    for (int j = 0; j < 8; j++) {
        zeros += b.y[j] == 0;
        for (int i = 1; i < ROWS; i++)
            assert_int_equal(b.y[i * 8 + j] == 0, b.y[j] == 0);
    }
    assert_in_range(zeros, 1, 7);
    bench_check(&b, 1e-3);
    bench_end(&b);
}

static void gradients_of_windows_match_finite_differences(void **state)
{
    static const int32_t lengths[] = {1, 3, 0, 2};
    const crt_layer_t layers[] = {CRT_EXPAND_WINDOW(2), CRT_DENSE(3)};
    static bench_t b;

    bench_begin(&b, numbers, layers, COUNT_OF(layers), 6);
    b.lengths = lengths;
    b.sequences = 4;
    bench_check(&b, 1e-3);
    bench_end(&b);
}

static void windows_do_not_reach_into_other_sequences(void **state)
{
    static const int32_t lengths[] = {1, 2};
    const crt_layer_t layers[] = {CRT_EXPAND_WINDOW(1)};
    static bench_t b;

    bench_begin(&b, CRT_INPUT(.channels = 1), layers, COUNT_OF(layers), 3);
    b.lengths = lengths;
    b.sequences = 2;
    for (int i = 0; i < 3; i++)
        b.x[i] = (float)(i + 1);
    bench_forward(&b, false);
    assert_memory_equal(b.y, ((const float[9]){0, 1, 0, 0, 2, 3, 2, 3, 0}),
                        9 * sizeof(float));
    b.lengths = NULL; /* one sequence */
    bench_forward(&b, false);
    assert_memory_equal(b.y, ((const float[9]){0, 1, 2, 1, 2, 3, 2, 3, 0}),
                        9 * sizeof(float));
    bench_end(&b);
}

/* One output with three readers, sums over sums, views and outputs written in place. */
static void gradients_through_branches_match_finite_differences(void **state)
{
    const crt_layer_t layers[] = {
        CRT_DENSE(4),         CRT_RELU(), CRT_DENSE(4), CRT_DROPOUT(0.3), CRT_ADD(3),
        CRT_PARAMETERS(2, 3), CRT_RELU(), CRT_DENSE(4), CRT_ADD(7),       CRT_ADD(3),
        CRT_CONCATENATE(3),   CRT_ADD(1), CRT_DENSE(3),
    };
    static bench_t b;
    static double expected[BENCH_MAX];
    crt_model_array_t own;

    bench_begin(&b, numbers, layers, COUNT_OF(layers), ROWS);
    bench_forward(&b, true);
    bench_backward(&b);
    bench_slopes(&b, b.x, b.inputs, expected);
    assert_close("inputs", b.dx, expected, b.inputs, 3e-3);
    bench_slopes(&b, b.model->weights, b.parameters, expected);
    assert_ok(crt_model_array(b.model, 4, sizeof(own), &own));
    assert_string_equal(own.kind, "parameters");
    assert_int_equal(own.count, 6);
    for (size_t i = 0; i < own.count; i++) { /* the caller's gradients are left alone */
        assert_true(b.gradients[own.first + i] > 1e38f);
        b.gradients[own.first + i] = 0;
    }
    assert_close("parameters", b.gradients, expected, b.parameters, 3e-3);
    bench_end(&b);
}

static void an_output_that_nobody_reads_has_no_gradient(void **state)
{
    const crt_layer_t unread = CRT_DENSE(4);
    crt_layer_t last = CRT_DENSE(2);
    static bench_t b;

    last.from = 2;
    bench_begin(&b, numbers, (const crt_layer_t[]){unread, last}, 2, ROWS);
    bench_forward(&b, true);
    bench_backward(&b);
    for (int i = 0; i < 7 * 4 + 4; i++)
        assert_true(b.gradients[i] == 0);
    bench_check(&b, 1e-3);
    bench_end(&b);
}

static void layers_that_cannot_be_are_named(void **state)
{
    crt_model_t *model;
    crt_layer_t far = CRT_RELU();

    far.from = 3;
    assert_fails(
        crt_model_new(&numbers, (const crt_layer_t[]){CRT_RELU(), far}, 2, 1, &model),
        CRT_ERR_INVALID, "layer 1: reads what is 3 layers back; there are 1 before it");
    assert_fails(crt_model_new(&numbers, (const crt_layer_t[]){CRT_DENSE(3), CRT_ADD(2)},
                               2, 1, &model),
                 CRT_ERR_INVALID, "layer 1: adds 1 x 1 x 3 and 1 x 1 x 7 numbers");
    assert_fails(
        crt_model_new(&two_keys, (const crt_layer_t[]){CRT_DENSE(3)}, 1, 1, &model),
        CRT_ERR_INVALID, "layer 0: dense does not read keys");
    assert_fails(crt_model_new(&numbers,
                               (const crt_layer_t[]){CRT_HASH_EMBED(3, 5, 8, 0, 1)}, 1, 1,
                               &model),
                 CRT_ERR_INVALID, "layer 0: hash_embed reads keys, not numbers");
    assert_fails(crt_model_new(&two_keys,
                               (const crt_layer_t[]){CRT_HASH_EMBED(3, 5, 8, 2, 1)}, 1, 1,
                               &model),
                 CRT_ERR_INVALID, "layer 0: column 2 of samples with 2 keys");
    assert_fails(
        crt_model_new(&numbers, (const crt_layer_t[]){CRT_MAXOUT(3, 0)}, 1, 1, &model),
        CRT_ERR_INVALID, "layer 0: maxout of 0 pieces");
    assert_fails(crt_model_new(&numbers, (const crt_layer_t[]){CRT_EXPAND_WINDOW(0)}, 1,
                               1, &model),
                 CRT_ERR_INVALID, "layer 0: a window of 0 rows");
    assert_fails(
        crt_model_new(&numbers, (const crt_layer_t[]){CRT_CONCATENATE(2)}, 1, 1, &model),
        CRT_ERR_INVALID, "layer 0: reads what is 2 layers back");
}

static void passes_that_cannot_be_are_refused(void **state)
{
    static const int32_t lengths[] = {3, 2};
    const crt_layer_t layers[] = {CRT_EXPAND_WINDOW(1)};
    static bench_t b;
    int64_t two = 2;
    crt_tensor_t x, y,
        part = crt_tensor_view(CRT_DTYPE_INT32, 1, &two, (void *)(uintptr_t)lengths);

    bench_begin(&b, numbers, layers, COUNT_OF(layers), ROWS);
    x = bench_rows(&b, b.x, CRT_DTYPE_FLOAT32, b.inputs);
    assert_fails(crt_model_forward(b.model, NULL, &x, &part, true, &y), CRT_ERR_INVALID,
                 "sequences of 5 rows, there are 4");
    y = bench_rows(&b, b.dy, CRT_DTYPE_FLOAT32, (size_t)(ROWS * b.outputs));
    assert_fails(crt_model_backward(b.model, NULL, &y, NULL, NULL), CRT_ERR_INVALID,
                 "without a forward pass of training");
    bench_forward(&b, false);
    assert_fails(crt_model_backward(b.model, NULL, &y, NULL, NULL), CRT_ERR_INVALID,
                 "without a forward pass of training");
    bench_end(&b);
}

static void dropout_leaves_out_the_rate_and_scales_the_rest(void **state)
{
    enum { COUNT = 4096 };
    const crt_layer_t layers[] = {CRT_DROPOUT(0.2)};
    static bench_t b;
    int zeros = 0;

    bench_begin(&b, CRT_INPUT(.channels = COUNT), layers, 1, 1);
    for (int i = 0; i < COUNT; i++)
        b.x[i] = 1;
    bench_forward(&b, true);
    for (int i = 0; i < COUNT; i++) {
        zeros += b.y[i] == 0;
        assert_true(b.y[i] == 0 || b.y[i] == 1.25f);
    }
    assert_in_range(zeros, 719, 919); /* 3.9 deviations */
    bench_forward(&b, false);
    assert_memory_equal(b.x, b.y, COUNT * sizeof(float));
    bench_end(&b);
}

static void softmax_gradient_matches_finite_differences(void **state)
{
    static const uint8_t labels[ROWS] = {0, 4, 2, 2};
    float logits[ROWS * 5], p[ROWS * 5], moved[ROWS * 5];
    double expected[ROWS * 5], loss, high, low;

    fill_wave(logits, ROWS * 5, 1.1, 2.0);
    memcpy(p, logits, sizeof(p));
    crti_softmax(ROWS, 5, p);
    assert_ok(crti_softmax_gradients(ROWS, 5, p, labels, &loss));
    for (int i = 0; i < ROWS * 5; i++) {
        memcpy(moved, logits, sizeof(moved));
        moved[i] += STEP;
        crti_softmax(ROWS, 5, moved);
        assert_ok(crti_softmax_gradients(ROWS, 5, moved, labels, &high));
        memcpy(moved, logits, sizeof(moved));
        moved[i] -= STEP;
        crti_softmax(ROWS, 5, moved);
        assert_ok(crti_softmax_gradients(ROWS, 5, moved, labels, &low));
        expected[i] = (high - low) / (2.0 * (double)STEP);
    }
    assert_close("logits", p, expected, ROWS * 5, 1e-4);
}

static void softmax_of_huge_logits_is_finite(void **state)
{
    static const uint8_t label = 1;
    float logits[3] = {3e38f, -3e38f, 0};
    double loss;

    crti_softmax(1, 3, logits);
    assert_true(logits[0] == 1 && logits[1] == 0 && logits[2] == 0);
    assert_ok(crti_softmax_gradients(1, 3, logits, &label, &loss));
    assert_true(isfinite(loss) && loss > 80);
}

static void label_that_is_no_class_is_refused(void **state)
{
    static const uint8_t labels[2] = {1, 3};
    float p[6] = {0.2f, 0.3f, 0.5f, 0.1f, 0.1f, 0.8f}, kept[6];
    double loss;

    memcpy(kept, p, sizeof(p));
    assert_fails(crti_softmax_gradients(2, 3, p, labels, &loss), CRT_ERR_INVALID,
                 "label 3 of sample 1, the model has 3 classes");
    assert_memory_equal(p, kept, sizeof(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_dense_match_finite_differences),
        cmocka_unit_test(gradients_of_relu_match_finite_differences),
        cmocka_unit_test(gradients_of_dropout_match_finite_differences),
        cmocka_unit_test(gradients_of_maxout_match_finite_differences),
        cmocka_unit_test(gradients_of_layer_norm_match_finite_differences),
        cmocka_unit_test(gradients_of_hash_embed_match_finite_differences),
        cmocka_unit_test(dropout_of_hash_embed_is_the_same_for_all_rows),
        cmocka_unit_test(gradients_of_windows_match_finite_differences),
        cmocka_unit_test(windows_do_not_reach_into_other_sequences),
        cmocka_unit_test(gradients_through_branches_match_finite_differences),
        cmocka_unit_test(an_output_that_nobody_reads_has_no_gradient),
        cmocka_unit_test(layers_that_cannot_be_are_named),
        cmocka_unit_test(passes_that_cannot_be_are_refused),
        cmocka_unit_test(dropout_leaves_out_the_rate_and_scales_the_rest),
        cmocka_unit_test(softmax_gradient_matches_finite_differences),
        cmocka_unit_test(softmax_of_huge_logits_is_finite),
        cmocka_unit_test(label_that_is_no_class_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
