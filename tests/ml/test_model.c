/* SPDX-License-Identifier: Apache-2.0 */
/* Models: reference numbers, finite differences of the whole, flat buffers, wrong
 * arguments. */
#include <sys/mman.h>

#include "ml/model.h"

#include "ml_test.h"
#include "recorded.h"

static const uint8_t recorded_labels[RECORDED_ROWS] = {0, 1, 2, 0, 1, 2};

static crt_batch_t recorded_batch(float *x)
{
    int64_t shape[2] = {RECORDED_ROWS, recorded_widths[0]};

    fill_wave(x, (size_t)(RECORDED_ROWS * recorded_widths[0]), 1.3, 1.0);
    return CRT_BATCH(.inputs = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, x),
                     .labels = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape,
                                               (uint8_t *)(uintptr_t)recorded_labels));
}

static crt_model_t *recorded_model(double dropout)
{
    crt_model_t *model;
    float w[RECORDED_PARAMETERS];
    crt_tensor_t view = crt_tensor_floats(w, RECORDED_PARAMETERS);

    assert_ok(crt_mlp_new(recorded_widths, dropout, 7, &model));
    assert_int_equal(crt_model_parameters(model), RECORDED_PARAMETERS);
    fill_wave(w, RECORDED_PARAMETERS, 0.7, 0.9);
    assert_ok(crt_model_set_weights(model, &view));
    return model;
}

static void probabilities_loss_and_gradient_are_the_recorded_ones(void **state)
{
    crt_model_t *model = recorded_model(0);
    float x[RECORDED_ROWS * 5], p[RECORDED_ROWS * 3];
    crt_batch_t batch = recorded_batch(x);
    int64_t shape[2] = {RECORDED_ROWS, 3};
    crt_tensor_t probabilities = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, p);
    double loss;

    assert_ok(crt_model_predict(model, NULL, &batch.inputs, &probabilities));
    assert_close("probabilities", p, recorded_probabilities, RECORDED_ROWS * 3, 1e-6);
    assert_ok(crt_model_compute_gradients(model, NULL, &batch, NULL, &loss));
    assert_true(fabs(loss - recorded_loss[0]) < 1e-6);
    assert_close("gradient", crt_model_gradients(model)->data, recorded_gradient,
                 RECORDED_PARAMETERS, 1e-6);
    crt_model_drop(&model);
}

static double loss_at(crt_model_t *model, const crt_tensor_t *weights,
                      const crt_batch_t *batch)
{
    float unused[RECORDED_PARAMETERS];
    crt_tensor_t gradients = crt_tensor_floats(unused, RECORDED_PARAMETERS);
    double loss;

    crt_model_set_seed(model, 5); /* the same dropout each time */
    assert_ok(crt_model_compute_gradients(model, weights, batch, &gradients, &loss));
    return loss;
}

static void gradient_of_the_whole_model_matches_finite_differences(void **state)
{
    const float step = 2e-3f;
    crt_model_t *model = recorded_model(0.3);
    float x[RECORDED_ROWS * 5], w[RECORDED_PARAMETERS], g[RECORDED_PARAMETERS];
    crt_batch_t batch = recorded_batch(x);
    crt_tensor_t weights = crt_tensor_floats(w, RECORDED_PARAMETERS);
    crt_tensor_t gradients = crt_tensor_floats(g, RECORDED_PARAMETERS);
    double expected[RECORDED_PARAMETERS];

    memcpy(w, crt_model_weights(model)->data, sizeof(w));
    for (int i = 0; i < RECORDED_PARAMETERS; i++) {
        float kept = w[i];
        double high, low;

        w[i] = kept + step;
        high = loss_at(model, &weights, &batch);
        w[i] = kept - step;
        low = loss_at(model, &weights, &batch);
        w[i] = kept;
        expected[i] = (high - low) / (2.0 * (double)step);
    }
    crt_model_set_seed(model, 5);
    assert_ok(crt_model_compute_gradients(model, &weights, &batch, &gradients, NULL));
    assert_close("gradient", g, expected, RECORDED_PARAMETERS, 5e-4);
    crt_model_drop(&model);
}

static void gradients_are_overwritten_on_every_call(void **state)
{
    crt_model_t *model = recorded_model(0);
    float x[RECORDED_ROWS * 5];
    crt_batch_t batch = recorded_batch(x);

    for (int i = 0; i < 3; i++)
        assert_ok(crt_model_compute_gradients(model, NULL, &batch, NULL, NULL));
    assert_close("gradient", crt_model_gradients(model)->data, recorded_gradient,
                 RECORDED_PARAMETERS, 1e-6);
    crt_model_drop(&model);
}

static void weights_are_read_in_place_from_a_read_only_mapping(void **state)
{
    crt_model_t *model = recorded_model(0);
    float x[RECORDED_ROWS * 5], g[RECORDED_PARAMETERS];
    crt_batch_t batch = recorded_batch(x);
    crt_tensor_t gradients = crt_tensor_floats(g, RECORDED_PARAMETERS);
    size_t size = RECORDED_PARAMETERS * sizeof(float);
    void *map =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    crt_tensor_t weights = crt_tensor_floats(map, RECORDED_PARAMETERS);
    crt_model_t *other;

    assert_true(map != MAP_FAILED);
    memcpy(map, crt_model_weights(model)->data, size);
    assert_int_equal(mprotect(map, size, PROT_READ), 0);
    assert_ok(
        crt_mlp_new(recorded_widths, 0, 1, &other)); /* has other weights of its own */
    assert_ok(crt_model_compute_gradients(other, &weights, &batch, &gradients, NULL));
    assert_close("gradient", g, recorded_gradient, RECORDED_PARAMETERS, 1e-6);
    munmap(map, size);
    crt_model_drop(&other);
    crt_model_drop(&model);
}

static void first_weights_are_glorot_uniform_and_the_last_layer_is_zero(void **state)
{
    static const int widths[] = {784, 128, 128, 10, 0};
    const double limit = sqrt(6.0 / (784 + 128));
    crt_model_t *model;
    const float *w;
    double sum = 0, squares = 0, largest = 0;

    assert_ok(crt_mlp_new(widths, 0.2, 0, &model));
    assert_int_equal(crt_model_parameters(model), 118282);
    assert_int_equal(crt_model_inputs(model), 784);
    assert_int_equal(crt_model_outputs(model), 10);
    w = crt_model_weights(model)->data;
    for (int i = 0; i < 784 * 128; i++) {
        sum += (double)w[i];
        squares += (double)w[i] * (double)w[i];
        largest = fmax(largest, fabs((double)w[i]));
    }
    assert_true(largest <= limit && largest > 0.999 * limit);
    assert_true(fabs(sum / (784 * 128)) < 0.01 * limit);
    assert_true(fabs(squares / (784 * 128) / (limit * limit / 3) - 1) < 0.02);
    for (int i = 784 * 128; i < 784 * 128 + 128; i++)
        assert_true(w[i] == 0); /* biases of the first layer */
    for (int i = 118282 - 1290; i < 118282; i++)
        assert_true(w[i] == 0); /* the softmax layer */
    crt_model_drop(&model);
}

static void equal_seeds_give_equal_models_and_others_do_not(void **state)
{
    crt_model_t *a, *b, *c;
    size_t size = RECORDED_PARAMETERS * sizeof(float);

    assert_ok(crt_mlp_new(recorded_widths, 0, 4, &a));
    assert_ok(crt_mlp_new(recorded_widths, 0, 4, &b));
    assert_ok(crt_mlp_new(recorded_widths, 0, 5, &c));
    assert_memory_equal(crt_model_weights(a)->data, crt_model_weights(b)->data, size);
    assert_memory_not_equal(crt_model_weights(a)->data, crt_model_weights(c)->data, size);
    crt_model_drop(&a);
    crt_model_drop(&b);
    crt_model_drop(&c);
}

static void batches_of_growing_and_shrinking_size_work(void **state)
{
    crt_model_t *model = recorded_model(0.5);
    float x[20 * 5];
    uint8_t labels[20] = {0};

    fill_wave(x, 100, 1.3, 1.0);
    for (int64_t rows = 1; rows <= 20; rows = rows < 20 ? rows + 19 : 21) {
        int64_t shape[2] = {rows, 5};
        crt_batch_t batch =
            CRT_BATCH(.inputs = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, x),
                      .labels = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, labels));

        assert_ok(crt_model_compute_gradients(model, NULL, &batch, NULL, NULL));
    }
    crt_model_drop(&model);
}

static void added_gradients_sum_up(void **state)
{
    crt_model_t *model = recorded_model(0);
    float g[RECORDED_PARAMETERS];
    const float *sum = crt_model_gradients(model)->data;
    crt_tensor_t view = crt_tensor_floats(g, RECORDED_PARAMETERS);

    fill_wave(g, RECORDED_PARAMETERS, 0.4, 1.0);
    for (int i = 0; i < 3; i++)
        assert_ok(crt_model_add_gradients(model, &view));
    for (int i = 0; i < RECORDED_PARAMETERS; i++)
        assert_true(fabsf(sum[i] - 3 * g[i]) < 1e-6f);
    crt_model_zero_gradients(model);
    for (int i = 0; i < RECORDED_PARAMETERS; i++)
        assert_true(sum[i] == 0);
    crt_model_drop(&model);
}

static void layers_that_can_not_be_are_named(void **state)
{
    static const int narrow[] = {5, 0}, negative[] = {5, -3, 2, 0}, wide[] = {5, 300, 0};
    crt_layer_t layers[2] = {CRT_LAYER(.kind = (crt_layer_kind_t)99), CRT_RELU()};
    crt_input_t five = CRT_INPUT(.channels = 5), none = CRT_INPUT(.height = 1);
    crt_input_t many = CRT_INPUT(.channels = 1 << 24);
    crt_model_t *model = NULL;

    assert_fails(crt_mlp_new(narrow, 0, 0, &model), CRT_ERR_INVALID,
                 "inputs and classes");
    assert_fails(crt_mlp_new(negative, 0, 0, &model), CRT_ERR_INVALID,
                 "layer 0: -3 outputs");
    assert_fails(crt_mlp_new(wide, 0, 0, &model), CRT_ERR_INVALID, "at most 256");
    assert_fails(crt_mlp_new(recorded_widths, 1.0, 0, &model), CRT_ERR_INVALID,
                 "dropout rate 1");
    assert_fails(crt_mlp_new(recorded_widths, NAN, 0, &model), CRT_ERR_INVALID, "rate");
    assert_fails(crt_model_new(&five, layers, 2, 0, &model), CRT_ERR_INVALID,
                 "layer 0: no kind");
    layers[0] = CRT_DENSE(4);
    assert_fails(crt_model_new(&none, layers, 1, 0, &model), CRT_ERR_INVALID, "0 inputs");
    assert_fails(crt_model_new(&five, layers, 0, 0, &model), CRT_ERR_INVALID, "0 layers");
    layers[0] = CRT_DENSE(1 << 24);
    layers[1] = CRT_DENSE(2);
    assert_fails(crt_model_new(&many, layers, 2, 0, &model), CRT_ERR_TOO_LARGE,
                 "parameters at layer 0");
    assert_null(model);
}

static void tensors_of_a_wrong_kind_are_refused(void **state)
{
    crt_model_t *model = recorded_model(0);
    float x[RECORDED_ROWS * 5], g[RECORDED_PARAMETERS + 1] = {0};
    crt_batch_t batch = recorded_batch(x), wrong;
    crt_tensor_t flat = crt_tensor_floats(g, RECORDED_PARAMETERS + 1);

    assert_fails(crt_model_set_weights(model, &flat), CRT_ERR_INVALID,
                 "weights have 52 numbers, the model has 51");
    assert_fails(crt_model_add_gradients(model, &flat), CRT_ERR_INVALID,
                 "gradients have 52");
    flat = crt_tensor_floats(g, RECORDED_PARAMETERS);
    flat.dtype = CRT_DTYPE_FLOAT64;
    assert_fails(crt_model_set_weights(model, &flat), CRT_ERR_INVALID, "float64");
    flat.dtype = CRT_DTYPE_FLOAT32;
    flat.device = crt_device_gpu(0);
    assert_fails(crt_model_set_weights(model, &flat), CRT_ERR_INVALID, "GPU 0");
    flat.device = crt_device_host();
    flat.strides[0] = 2;
    assert_fails(crt_model_set_weights(model, &flat), CRT_ERR_INVALID, "dense");
    wrong = batch;
    wrong.labels.shape[0] = 5;
    assert_fails(crt_model_compute_gradients(model, NULL, &wrong, NULL, NULL),
                 CRT_ERR_INVALID, "6 samples with 5 labels");
    wrong = batch;
    wrong.inputs.shape[1] = 4;
    wrong.inputs.strides[0] = 4;
    assert_fails(crt_model_compute_gradients(model, NULL, &wrong, NULL, NULL),
                 CRT_ERR_INVALID, "not 5 each");
    crt_model_drop(&model);
}

typedef struct watch {
    const float *gradients;
    size_t parameters;
    size_t first[8];
    int calls;
    float final[8]; /* the float at `first`, as it was then */
} watch_t;

static void watch(void *context, size_t first)
{
    watch_t *w = context;

    assert_true(w->calls < 8);
    w->first[w->calls] = first;
    w->final[w->calls++] = w->gradients[first];
}

static void whoever_watches_gradients_sees_each_layer_when_it_is_final(void **state)
{
    static const int widths[] = {5, 4, 4, 3, 0};
    crt_model_t *model;
    float x[10] = {0.3f, 0.1f, -0.4f, 0.9f, 0.2f, -0.1f, 0.5f, 0.8f, -0.6f, 0.7f};
    uint8_t y[2] = {2, 0};
    int64_t shape[2] = {2, 5};
    crt_batch_t batch =
        CRT_BATCH(.inputs = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, x),
                  .labels = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, y));
    watch_t w = {.calls = 0};

    assert_ok(crt_mlp_new(widths, 0.2, 1, &model));
    assert_int_equal(crt_model_arrays(model), 6);
    w.gradients = crt_model_gradients(model)->data;
    crt_model_watch_gradients(model, watch, &w);
    assert_ok(crt_model_compute_gradients(model, NULL, &batch, NULL, NULL));
    assert_int_equal(w.calls, 3);
    assert_int_equal(w.first[0], 5 * 4 + 4 + 4 * 4 + 4);
    assert_int_equal(w.first[1], 5 * 4 + 4);
    assert_int_equal(w.first[2], 0);
    for (int i = 0; i < 3; i++)
        assert_true(w.final[i] == w.gradients[w.first[i]]);
    crt_model_watch_gradients(model, NULL, NULL);
    assert_ok(crt_model_compute_gradients(model, NULL, &batch, NULL, NULL));
    assert_int_equal(w.calls, 3);
    crt_model_drop(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(probabilities_loss_and_gradient_are_the_recorded_ones),
        cmocka_unit_test(gradient_of_the_whole_model_matches_finite_differences),
        cmocka_unit_test(gradients_are_overwritten_on_every_call),
        cmocka_unit_test(weights_are_read_in_place_from_a_read_only_mapping),
        cmocka_unit_test(first_weights_are_glorot_uniform_and_the_last_layer_is_zero),
        cmocka_unit_test(equal_seeds_give_equal_models_and_others_do_not),
        cmocka_unit_test(batches_of_growing_and_shrinking_size_work),
        cmocka_unit_test(added_gradients_sum_up),
        cmocka_unit_test(layers_that_can_not_be_are_named),
        cmocka_unit_test(tensors_of_a_wrong_kind_are_refused),
        cmocka_unit_test(whoever_watches_gradients_sees_each_layer_when_it_is_final),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
