/* SPDX-License-Identifier: Apache-2.0 */
/* Running small models of a few layers, for the tests of layers. Include before cmocka.h. */
#ifndef CRTI_TESTS_LAYER_TEST_H
#define CRTI_TESTS_LAYER_TEST_H

#include "ml/model.h"
#include "ml_test.h"

#define BENCH_MAX 4096 /* numbers of any one buffer */

/* A model with what goes through it, filled with waves (as the record_*.py do). */
typedef struct bench {
    crt_model_t *model;
    int rows, outputs;
    size_t inputs, parameters;
    float x[BENCH_MAX], dy[BENCH_MAX], y[BENCH_MAX], dx[BENCH_MAX], gradients[BENCH_MAX];
    int64_t keys[BENCH_MAX];
    const int32_t *lengths;
    int sequences;
} bench_t;

static inline crt_tensor_t bench_rows(const bench_t *b, void *data, crt_dtype_t dtype,
                                      size_t count)
{
    int64_t shape[2] = {b->rows, (int64_t)count / b->rows};

    return crt_tensor_view(dtype, 2, shape, data);
}

static inline void bench_begin(bench_t *b, crt_input_t input, const crt_layer_t *layers,
                               size_t count, int rows)
{
    crt_tensor_t weights;

    memset(b, 0, sizeof(*b));
    assert_ok(crt_model_new(&input, layers, count, 3, &b->model));
    b->rows = rows;
    b->outputs = crt_model_outputs(b->model);
    b->inputs = (size_t)(rows * crt_model_inputs(b->model));
    b->parameters = crt_model_parameters(b->model);
    assert_true(b->parameters <= BENCH_MAX && b->inputs <= BENCH_MAX &&
                rows * b->outputs <= BENCH_MAX);
    fill_wave(b->gradients, b->parameters, 0.9, 0.5);
    weights = crt_tensor_floats(b->gradients, b->parameters);
    assert_ok(crt_model_set_weights(b->model, &weights));
    fill_wave(b->x, b->inputs, 1.7, 1.0);
    fill_wave(b->dy, (size_t)(rows * b->outputs), 0.6, 1.0);
    for (size_t i = 0; i < b->inputs; i++)
        b->keys[i] = (int64_t)((i + 1) * 0x9e3779b97f4a7c15u);
}

/* Outputs into b->y; the same random numbers each time. */
static inline void bench_forward(bench_t *b, bool training)
{
    bool keys = b->model->input_type == CRT_DTYPE_INT64;
    crt_tensor_t x = keys ? bench_rows(b, b->keys, CRT_DTYPE_INT64, b->inputs)
                          : bench_rows(b, b->x, CRT_DTYPE_FLOAT32, b->inputs);
    int64_t sequences = b->sequences;
    crt_tensor_t y, lengths = crt_tensor_view(CRT_DTYPE_INT32, 1, &sequences,
                                              (void *)(uintptr_t)b->lengths);

    crt_model_set_seed(b->model, 5);
    assert_ok(crt_model_forward(b->model, NULL, &x, b->lengths ? &lengths : NULL,
                                training, &y));
    memcpy(b->y, y.data, (size_t)(b->rows * b->outputs) * sizeof(float));
}

/* Gradients into b->gradients and b->dx. */
static inline void bench_backward(bench_t *b)
{
    bool keys = b->model->input_type == CRT_DTYPE_INT64;
    crt_tensor_t dy =
        bench_rows(b, b->dy, CRT_DTYPE_FLOAT32, (size_t)(b->rows * b->outputs));
    crt_tensor_t dx = bench_rows(b, b->dx, CRT_DTYPE_FLOAT32, b->inputs);
    crt_tensor_t gradients = crt_tensor_floats(b->gradients, b->parameters);

    memset(b->gradients, 0x7f,
           sizeof(b->gradients)); /* must be overwritten, not added to */
    memset(b->dx, 0x7f, sizeof(b->dx));
    assert_ok(crt_model_backward(b->model, NULL, &dy, &gradients, keys ? NULL : &dx));
}

static inline double bench_score(bench_t *b)
{
    double sum = 0;

    bench_forward(b, true);
    for (int i = 0; i < b->rows * b->outputs; i++)
        sum += (double)b->y[i] * (double)b->dy[i];
    return sum;
}

/* The slope of the score along each of `count` numbers in `at`. */
static inline void bench_slopes(bench_t *b, float *at, size_t count, double *slopes_out)
{
    const float step = 1e-3f;

    for (size_t i = 0; i < count; i++) {
        float kept = at[i];
        double high, low;

        at[i] = kept + step;
        high = bench_score(b);
        at[i] = kept - step;
        low = bench_score(b);
        at[i] = kept;
        slopes_out[i] = (high - low) / (2.0 * (double)step);
    }
}

/* All gradients of the model against finite differences. */
static inline void bench_check(bench_t *b, double limit)
{
    static double expected[BENCH_MAX];

    bench_forward(b, true);
    bench_backward(b);
    bench_slopes(b, b->model->weights, b->parameters, expected);
    assert_close("parameters", b->gradients, expected, b->parameters, limit);
    if (b->model->input_type == CRT_DTYPE_INT64)
        return;
    bench_slopes(b, b->x, b->inputs, expected);
    assert_close("inputs", b->dx, expected, b->inputs, limit);
}

static inline void bench_end(bench_t *b)
{
    crt_model_drop(&b->model);
}

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The gradients of these layers match finite differences. */
static inline void check_layers(crt_input_t input, const crt_layer_t *layers,
                                size_t count, int rows, double limit)
{
    static bench_t b;

    bench_begin(&b, input, layers, count, rows);
    bench_check(&b, limit);
    bench_end(&b);
}

#endif
