/* SPDX-License-Identifier: Apache-2.0 */
/* Each layer's backward pass against finite differences of its forward pass. */
#include "ml/layer.h"

#include "ml_test.h"

#define ROWS 4
#define STEP 1e-2f

/* A number that depends on every output: sum of outputs times fixed weights. */
static double score(const crti_layer_t *layer, const float *params, const float *x,
                    const float *dy, bool training)
{
    float y[ROWS * 8];
    crti_random_t random = crti_random(3, 0); /* the same mask each time */
    double sum = 0;

    layer->ops->forward(layer, params, ROWS, x, y, training ? &random : NULL);
    for (int i = 0; i < ROWS * layer->outputs; i++)
        sum += (double)y[i] * (double)dy[i];
    return sum;
}

/* The slope of score along each of `count` numbers in `at`. */
static void slopes(const crti_layer_t *layer, const float *params, const float *x,
                   const float *dy, float *at, size_t count, double *slopes_out)
{
    for (size_t i = 0; i < count; i++) {
        float kept = at[i];
        double high, low;

        at[i] = kept + STEP;
        high = score(layer, params, x, dy, true);
        at[i] = kept - STEP;
        low = score(layer, params, x, dy, true);
        at[i] = kept;
        slopes_out[i] = (high - low) / (2.0 * (double)STEP);
    }
}

static void check_gradients(crti_layer_t *layer)
{
    float params[64], x[ROWS * 8], y[ROWS * 8], dy[ROWS * 8], mask[ROWS * 8];
    float dparams[64], dx[ROWS * 8];
    size_t weights = crti_layer_weights(layer) + crti_layer_biases(layer);
    size_t inputs = (size_t)(ROWS * layer->inputs);
    double expected[64];
    crti_random_t random = crti_random(3, 0);

    layer->mask = mask;
    fill_wave(params, 64, 0.9, 0.5);
    fill_wave(x, inputs, 1.7, 1.0);
    fill_wave(dy, (size_t)(ROWS * layer->outputs), 0.6, 1.0);
    memset(dparams, 0x7f, sizeof(dparams)); /* must be overwritten, not added to */
    layer->ops->forward(layer, params, ROWS, x, y, &random);
    layer->ops->backward(layer, params, ROWS, x, y, dy, dparams, dx);
    slopes(layer, params, x, dy, x, inputs, expected);
    assert_close("inputs", dx, expected, inputs, 2e-4);
    slopes(layer, params, x, dy, params, weights, expected);
    assert_close("parameters", dparams, expected, weights, 2e-4);
}

static void gradients_of_dense_match_finite_differences(void **state)
{
    crti_layer_t layer = {.ops = &crti_layer_dense, .inputs = 7, .outputs = 5};

    check_gradients(&layer);
}

static void gradients_of_relu_match_finite_differences(void **state)
{
    crti_layer_t layer = {.ops = &crti_layer_relu, .inputs = 7, .outputs = 7};

    check_gradients(&layer);
}

static void gradients_of_dropout_match_finite_differences(void **state)
{
    crti_layer_t layer = {
        .ops = &crti_layer_dropout, .inputs = 7, .outputs = 7, .spec = {.rate = 0.4}};

    check_gradients(&layer);
}

static void backward_without_input_gradient_is_the_same_for_the_weights(void **state)
{
    crti_layer_t layer = {.ops = &crti_layer_dense, .inputs = 3, .outputs = 2};
    float params[8], x[ROWS * 3], y[ROWS * 2], dy[ROWS * 2], dx[ROWS * 3], with[8],
        without[8];

    fill_wave(params, 8, 0.9, 0.5);
    fill_wave(x, ROWS * 3, 1.7, 1.0);
    fill_wave(dy, ROWS * 2, 0.6, 1.0);
    layer.ops->forward(&layer, params, ROWS, x, y, NULL);
    layer.ops->backward(&layer, params, ROWS, x, y, dy, with, dx);
    layer.ops->backward(&layer, params, ROWS, x, y, dy, without, NULL);
    assert_memory_equal(with, without, sizeof(with));
}

static void dropout_leaves_out_the_rate_and_scales_the_rest(void **state)
{
    enum { COUNT = 100000 };
    crti_layer_t layer = {.ops = &crti_layer_dropout,
                          .inputs = COUNT,
                          .outputs = COUNT,
                          .spec = {.rate = 0.2}};
    float *x = malloc(COUNT * sizeof(float)), *y = malloc(COUNT * sizeof(float));
    crti_random_t random = crti_random(1, 0);
    int zeros = 0;

    layer.mask = malloc(COUNT * sizeof(float));
    for (int i = 0; i < COUNT; i++)
        x[i] = 1;
    layer.ops->forward(&layer, NULL, 1, x, y, &random);
    for (int i = 0; i < COUNT; i++) {
        zeros += y[i] == 0;
        assert_true(y[i] == 0 || y[i] == 1.25f);
    }
    assert_in_range(zeros, 19500, 20500); /* 3.9 deviations */
    layer.ops->forward(&layer, NULL, 1, x, y, NULL);
    assert_memory_equal(x, y, COUNT * sizeof(float));
    free(layer.mask);
    free(x);
    free(y);
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
        cmocka_unit_test(backward_without_input_gradient_is_the_same_for_the_weights),
        cmocka_unit_test(dropout_leaves_out_the_rate_and_scales_the_rest),
        cmocka_unit_test(softmax_gradient_matches_finite_differences),
        cmocka_unit_test(softmax_of_huge_logits_is_finite),
        cmocka_unit_test(label_that_is_no_class_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
