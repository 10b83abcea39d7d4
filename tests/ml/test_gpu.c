/* SPDX-License-Identifier: Apache-2.0 */
/* Models on a GPU beside the same models on the host: every layer, whole networks, optimizers. On a
 * stand-in (fake_cuda/), which computes slowly, with CRT_TEST_SMALL, which means small networks.
 *
 * Both compute with float32 and sum in different orders, so numbers differ. Of a few layers the
 * difference is at most LAYER_LIMIT of all numbers' norm; a loss after some steps at most
 * STEP_LIMIT of it. (A sum of n rounded products is off by about sqrt(n) * 6e-8 of their norm; n is
 * 4608 at most here.) With CRT_PRECISION_MIXED each output is rounded to 11 bits, 5e-4 of it:
 * outputs differ by at most MIXED_OUTPUT_LIMIT. Gradients do by up to MIXED_GRADIENT_LIMIT, because
 * a ReLU near zero passes in one what it stops in the other. Exits with 77 where there is no GPU,
 * or a library is missing. An argument chooses tests: a pattern such as '*norms*'.
 */
#include "ml_test.h"

#include <crt_checkpoint.h>
#include <crt_ml_gpu.h>
#include <crt_networks.h>

#include "ml/model.h"

#define SKIPPED              77
#define LAYER_LIMIT          2e-5
#define STEP_LIMIT           1e-3
#define MIXED_OUTPUT_LIMIT   5e-3
#define MIXED_GRADIENT_LIMIT 5e-2
#define MIXED_STEP_LIMIT     1e-2
#define COUNT_OF(a)          (sizeof(a) / sizeof((a)[0]))

static bool is_small;

/* ---------------------------------------------------------------- comparing */

static void assert_near(const char *what, const float *got, const float *expected,
                        size_t count, double limit)
{
    double off = 0, norm = 0;

    for (size_t i = 0; i < count; i++) {
        double d = (double)got[i] - (double)expected[i];

        off += d * d;
        norm += (double)expected[i] * (double)expected[i];
    }
    off = norm > 0 ? sqrt(off / norm) : sqrt(off);
    printf("    %s: %.2e of the norm of %zu numbers\n", what, off, count);
    if (!(off <= limit))
        fail_msg("%s: the GPU is off by %.3e of the norm, not %.1e", what, off, limit);
}

/* What a model has, on the host. */
static float *fetch(crt_model_t *model, const crt_tensor_t *tensor)
{
    size_t bytes = crt_tensor_bytes(tensor);
    float *copy = malloc(bytes + 1);

    assert_non_null(copy);
    assert_ok(crti_model_copy(model, copy, tensor->data, bytes));
    return copy;
}

static void assert_same(const char *what, crt_model_t *gpu, const crt_tensor_t *got,
                        crt_model_t *host, const crt_tensor_t *expected, double limit)
{
    float *a = fetch(gpu, got), *b = fetch(host, expected);

    assert_int_equal(crt_tensor_count(got), crt_tensor_count(expected));
    assert_near(what, a, b, crt_tensor_count(got), limit);
    free(a);
    free(b);
}

/* The same model twice, of which one is on the GPU. */
typedef struct pair {
    crt_model_t *host, *gpu;
    double output_limit, gradient_limit;
    int rows;
    crt_dtype_t dtype;
    void *x;
    float *dy, *host_dx, *gpu_dx; /* keys have no gradient: NULL */
    const int32_t *lengths;       /* of the sequences that the rows are */
    int sequences;
} pair_t;

/* Numbers of 8 bits, so that float16 holds them as they are: else other numbers would be the
 * largest of a window. */
static float *new_wave(size_t count, double step)
{
    float *numbers = malloc(count * sizeof(*numbers));

    assert_non_null(numbers);
    fill_wave(numbers, count, step, 1.0);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, &numbers[i], sizeof(bits));
        bits &= 0xffff0000u;
        memcpy(&numbers[i], &bits, sizeof(bits));
    }
    return numbers;
}

/* A few keys, so that words come again. */
static uint64_t *new_keys(size_t count)
{
    uint64_t *keys = malloc(count * sizeof(*keys));

    assert_non_null(keys);
    for (size_t i = 0; i < count; i++)
        keys[i] = (i * i % 7 + 1) * 0x9e3779b97f4a7c15u;
    return keys;
}

static void pair_begin(pair_t *p, crt_input_t input, const crt_layer_t *layers,
                       size_t count, int rows, crt_precision_t precision)
{
    bool is_mixed = precision == CRT_PRECISION_MIXED,
         are_keys = input.dtype == CRT_DTYPE_INT64;
    size_t inputs, outputs;

    *p = (pair_t){.rows = rows, .dtype = are_keys ? CRT_DTYPE_INT64 : CRT_DTYPE_FLOAT32};
    assert_ok(crt_model_new(&input, layers, count, 3, &p->host));
    assert_ok(crt_model_new(&input, layers, count, 3, &p->gpu));
    fill_wave(crt_model_weights(p->host)->data, crt_model_parameters(p->host), 0.9, 0.5);
    assert_ok(crt_model_set_weights(p->gpu, crt_model_weights(p->host)));
    assert_ok(crt_model_to_gpu(p->gpu, 0, precision));
    assert_int_equal(crt_model_gpu(p->gpu), 0);
    p->output_limit = is_mixed ? MIXED_OUTPUT_LIMIT : LAYER_LIMIT;
    p->gradient_limit = is_mixed ? MIXED_GRADIENT_LIMIT : LAYER_LIMIT;
    inputs = (size_t)(rows * crt_model_inputs(p->host));
    outputs = (size_t)(rows * crt_model_outputs(p->host));
    p->x = are_keys ? (void *)new_keys(inputs) : new_wave(inputs, 1.7);
    p->dy = new_wave(outputs, 0.6);
    p->host_dx = are_keys ? NULL : new_wave(inputs, 1);
    p->gpu_dx = are_keys ? NULL : new_wave(inputs, 2);
}

static void pair_end(pair_t *p)
{
    crt_model_drop(&p->host);
    crt_model_drop(&p->gpu);
    free(p->x);
    free(p->dy);
    free(p->host_dx);
    free(p->gpu_dx);
}

static crt_tensor_t rows_of(const pair_t *p, crt_dtype_t dtype, void *data, int cols)
{
    return crt_tensor_view(dtype, 2, (int64_t[]){p->rows, cols}, data);
}

static void compare_outputs(pair_t *p, bool training)
{
    crt_tensor_t x = rows_of(p, p->dtype, p->x, crt_model_inputs(p->host)), a, b;
    crt_tensor_t lengths = crt_tensor_view(CRT_DTYPE_INT32, 1, (int64_t[]){p->sequences},
                                           (void *)(uintptr_t)p->lengths);
    const crt_tensor_t *given = p->lengths ? &lengths : NULL;

    assert_ok(crt_model_forward(p->host, NULL, &x, given, training, &a));
    assert_ok(crt_model_forward(p->gpu, NULL, &x, given, training, &b));
    assert_int_equal(b.device.type, CRT_DEVICE_GPU);
    assert_same(training ? "outputs" : "outputs without training", p->gpu, &b, p->host,
                &a, p->output_limit);
}

static void compare_gradients(pair_t *p)
{
    int cols = crt_model_inputs(p->host);
    crt_tensor_t dy = rows_of(p, CRT_DTYPE_FLOAT32, p->dy, crt_model_outputs(p->host));
    crt_tensor_t dx = rows_of(p, CRT_DTYPE_FLOAT32, p->host_dx, cols);

    assert_ok(crt_model_backward(p->host, NULL, &dy, NULL, p->host_dx ? &dx : NULL));
    dx.data = p->gpu_dx;
    assert_ok(crt_model_backward(p->gpu, NULL, &dy, NULL, p->host_dx ? &dx : NULL));
    if (p->host_dx)
        assert_near("gradient of the inputs", p->gpu_dx, p->host_dx,
                    (size_t)(p->rows * cols), p->gradient_limit);
    assert_same("gradients", p->gpu, crt_model_gradients(p->gpu), p->host,
                crt_model_gradients(p->host), p->gradient_limit);
}

/* Forward, backward, statistics, and forward without training; again with other rows. */
static void check_with(crt_input_t input, const crt_layer_t *layers, size_t count,
                       crt_precision_t precision)
{
    pair_t p;

    pair_begin(&p, input, layers, count, 6, precision);
    for (int i = 0; i < 2; i++, p.rows = 3) {
        compare_outputs(&p, true);
        compare_gradients(&p);
        compare_outputs(&p, false);
    }
    assert_same("statistics", p.gpu, crt_model_statistics(p.gpu), p.host,
                crt_model_statistics(p.host), p.output_limit);
    pair_end(&p);
}

static void check(crt_input_t input, const crt_layer_t *layers, size_t count)
{
    check_with(input, layers, count, CRT_PRECISION_FLOAT32);
    printf("  mixed:\n");
    check_with(input, layers, count, CRT_PRECISION_MIXED);
}

static const crt_input_t image = CRT_INPUT(.height = 8, .width = 6, .channels = 3);
#define CHECK(input, ...)                                                                \
    check(input, (const crt_layer_t[]){__VA_ARGS__},                                     \
          COUNT_OF(((const crt_layer_t[]){__VA_ARGS__})))

/* ---------------------------------------------------------------- layers */

static void dense_layers_are_those_of_the_host(void **state)
{
    CHECK((CRT_INPUT(.channels = 37)), CRT_DENSE(19), CRT_RELU(), CRT_DENSE(300),
          CRT_RELU(), CRT_DENSE(7));
}

static void convolutions_are_those_of_the_host(void **state)
{
    CHECK(image, CRT_CONVOLUTION(5, 3, 1, 1));
    CHECK(image, CRT_CONVOLUTION_PLAIN(8, 3, 2, 1));
    CHECK(image, CRT_CONVOLUTION(4, 1, 1, 0));
    CHECK(image, CRT_CONVOLUTION_PLAIN(6, 1, 2, 0));
    CHECK(image, CRT_CONVOLUTION(9, 5, 1, 0));
}

/* The last one's weights begin at 278 floats: not at 16 bytes. */
static void convolutions_with_weights_at_odd_places_are_those_of_the_host(void **state)
{
    CHECK(image, CRT_CONVOLUTION(5, 3, 1, 1), CRT_RELU(), CRT_CONVOLUTION(3, 3, 1, 1),
          CRT_RELU(), CRT_CONVOLUTION(4, 3, 2, 1));
}

static void pools_are_those_of_the_host(void **state)
{
    crt_layer_t padded = CRT_MAX_POOL(3, 2);

    padded.padding = 1;
    CHECK(image, CRT_MAX_POOL(2, 2));
    CHECK(image, CRT_MAX_POOL(3, 1));
    CHECK(image, padded);
    CHECK(image, CRT_AVERAGE_POOL(2, 2));
    CHECK(image, CRT_AVERAGE_POOL(3, 2));
    CHECK(image, CRT_GLOBAL_POOL());
}

/* All numbers of many windows are 0 behind a ReLU. */
static void equal_largest_numbers_give_the_gradient_to_the_first(void **state)
{
    CHECK(image, CRT_RELU(), CRT_MAX_POOL(2, 2));
    CHECK(image, CRT_RELU(), CRT_MAX_POOL(3, 1));
}

static void batch_norms_are_those_of_the_host(void **state)
{
    CHECK(image, CRT_BATCH_NORM());
    CHECK(image, CRT_CONVOLUTION_PLAIN(5, 3, 1, 1), CRT_BATCH_NORM(), CRT_RELU());
    CHECK((CRT_INPUT(.channels = 10)), CRT_DENSE(8), CRT_BATCH_NORM());
}

static void residual_blocks_are_those_of_the_host(void **state)
{
    crt_layer_t half = CRT_LAYER(.kind = CRT_LAYER_SUBSAMPLE, .stride = 2, .width = 5);

    CHECK(image, CRT_CONVOLUTION(4, 3, 1, 1), CRT_RELU(), CRT_CONVOLUTION(4, 3, 1, 1),
          CRT_ADD(2), CRT_RELU());
    CHECK(image, half, CRT_RELU());
}

static void flattened_images_are_those_of_the_host(void **state)
{
    CHECK(image, CRT_CONVOLUTION(4, 3, 2, 1), CRT_FLATTEN(), CRT_DENSE(5));
    CHECK(image, CRT_FLATTEN(), CRT_DENSE(5));
    CHECK(image, CRT_GLOBAL_POOL(), CRT_FLATTEN(), CRT_DENSE(5));
}

/* ---------------------------------------------------------------- layers of transformers */

static void layer_norms_are_those_of_the_host(void **state)
{
    CHECK(image, CRT_LAYER_NORM());
    CHECK((CRT_INPUT(.channels = 77)), CRT_LAYER_NORM());
    CHECK((CRT_INPUT(.channels = 10)), CRT_DENSE(300), CRT_LAYER_NORM(), CRT_DENSE(3));
}

static void gelu_and_mish_are_those_of_the_host(void **state)
{
    CHECK(image, CRT_GELU());
    CHECK(image, CRT_MISH());
    CHECK((CRT_INPUT(.channels = 11)), CRT_DENSE(13), CRT_GELU(), CRT_DENSE(7),
          CRT_MISH());
}

/* More samples than heads, and more heads than samples. */
static void attention_is_that_of_the_host(void **state)
{
    CHECK((CRT_INPUT(.width = 9, .channels = 24)), CRT_ATTENTION(2, 0));
    CHECK((CRT_INPUT(.width = 33, .channels = 48)), CRT_ATTENTION(8, 0));
    CHECK((CRT_INPUT(.height = 5, .width = 8, .channels = 6)), CRT_LAYER_NORM(),
          CRT_DENSE(18), CRT_ATTENTION(3, 0), CRT_DENSE(6), CRT_ADD(4));
}

static void tokens_of_images_are_those_of_the_host(void **state)
{
    CHECK(image, CRT_PATCHES(2));
    CHECK(image, CRT_PATCHES(1));
    CHECK(image, CRT_TOKEN());
    CHECK(image, CRT_POSITIONS());
    CHECK(image, CRT_PATCHES(2), CRT_DENSE(7), CRT_TOKEN(), CRT_POSITIONS(),
          CRT_GLOBAL_POOL(), CRT_DENSE(3));
}

/* Layers that want channels first elsewhere. */
static void images_before_transformers_are_those_of_the_host(void **state)
{
    CHECK(image, CRT_CONVOLUTION(8, 3, 1, 1), CRT_BATCH_NORM(), CRT_RELU(),
          CRT_MAX_POOL(2, 2), CRT_LAYER_NORM(), CRT_DENSE(6), CRT_FLATTEN(),
          CRT_DENSE(3));
}

static void concatenated_outputs_are_those_of_the_host(void **state)
{
    CHECK(image, CRT_DENSE(5), CRT_RELU(), CRT_CONCATENATE(2), CRT_DENSE(3));
    CHECK((CRT_INPUT(.channels = 10)), CRT_DENSE(5), CRT_DENSE(7), CRT_GELU(),
          CRT_CONCATENATE(3));
}

/* The mask that the GPU drew, given to the host. */
static void dropout_of_attention_is_that_of_its_mask(void **state)
{
    enum {
        PLACES = 7,
        WIDTH = 4,
        HEADS = 2,
        OUT = WIDTH * HEADS,
        SQUARE = PLACES * PLACES
    };
    crt_layer_t layer = CRT_ATTENTION(HEADS, 0.25);
    crt_tensor_t x, a, b, dy, dx;
    float *kept, *y, *mask, off = 0;
    size_t all;
    pair_t p;

    pair_begin(&p, (crt_input_t)CRT_INPUT(.width = PLACES, .channels = 3 * OUT), &layer,
               1, 6, CRT_PRECISION_FLOAT32);
    all = (size_t)p.rows * HEADS * SQUARE;
    x = rows_of(&p, CRT_DTYPE_FLOAT32, p.x, crt_model_inputs(p.host));
    dy = rows_of(&p, CRT_DTYPE_FLOAT32, p.dy, crt_model_outputs(p.host));
    assert_ok(crt_model_forward(p.host, NULL, &x, NULL, true, &a));
    assert_ok(crt_model_forward(p.gpu, NULL, &x, NULL, true, &b));
    y = fetch(p.gpu, &b);
    kept = p.host->outputs_of[0].kept;
    mask = kept + all;
    assert_ok(crti_model_copy(p.gpu, mask, p.gpu->outputs_of[0].kept + all,
                              all * sizeof(float)));
    for (size_t i = 0; i < all; i++)
        off += mask[i] == 0;
    assert_true(fabs((double)off / (double)all - 0.25) < 0.1);
    for (int i = 0; i < p.rows * PLACES * OUT; i++) {
        int row = i / (PLACES * OUT), place = i / OUT % PLACES, col = i % OUT;
        const float *own = kept + ((row * HEADS + col / WIDTH) * PLACES + place) * PLACES;
        float sum = 0;

        for (int j = 0; j < PLACES; j++)
            sum += own[j] * own[(int)all + j] *
                   ((float *)p.x)[(row * PLACES + j) * 3 * OUT + 2 * OUT + col];
        assert_true(fabsf(sum - y[i]) < 1e-5f);
    }
    dx = rows_of(&p, CRT_DTYPE_FLOAT32, p.host_dx, crt_model_inputs(p.host));
    assert_ok(crt_model_backward(p.host, NULL, &dy, NULL, &dx));
    dx.data = p.gpu_dx;
    assert_ok(crt_model_backward(p.gpu, NULL, &dy, NULL, &dx));
    assert_near("gradient of the inputs", p.gpu_dx, p.host_dx, crt_tensor_count(&dx),
                LAYER_LIMIT);
    free(y);
    pair_end(&p);
}

/* ---------------------------------------------------------------- layers of words */

static void maxout_is_that_of_the_host(void **state)
{
    CHECK((CRT_INPUT(.channels = 37)), CRT_MAXOUT(19, 3));
    CHECK((CRT_INPUT(.channels = 10)), CRT_MAXOUT(8, 2), CRT_LAYER_NORM(),
          CRT_MAXOUT(3, 1));
    CHECK(image, CRT_MAXOUT(5, 4));
}

static const crt_input_t keys = CRT_INPUT(.dtype = CRT_DTYPE_INT64, .channels = 3);

static void embeddings_are_those_of_the_host(void **state)
{
    CHECK(keys, CRT_HASH_EMBED(12, 50, 8, 1, 1));
    CHECK(keys, CRT_HASH_EMBED(96, 5, 8, 2, 1), CRT_DENSE(4));
    CHECK(keys, CRT_HASH_EMBED(300, 20, 8, 0, 1), CRT_HASH_EMBED(7, 9, 9, 1, 2),
          CRT_CONCATENATE(2), CRT_MAXOUT(5, 3));
}

static void check_sequences(const crt_layer_t *layers, size_t count,
                            crt_precision_t precision)
{
    static const int32_t lengths[] = {1, 0, 4, 2};
    pair_t p;

    pair_begin(&p, (crt_input_t)CRT_INPUT(.channels = 5), layers, count, 7, precision);
    p.lengths = lengths;
    p.sequences = COUNT_OF(lengths);
    compare_outputs(&p, true);
    compare_gradients(&p);
    compare_outputs(&p, false);
    pair_end(&p);
}

static void windows_over_sequences_are_those_of_the_host(void **state)
{
    const crt_layer_t one[] = {CRT_EXPAND_WINDOW(1)};
    const crt_layer_t two[] = {CRT_DENSE(4), CRT_EXPAND_WINDOW(2), CRT_MAXOUT(4, 2),
                               CRT_EXPAND_WINDOW(1)};

    CHECK((CRT_INPUT(.channels = 9)), CRT_EXPAND_WINDOW(2));
    check_sequences(one, 1, CRT_PRECISION_FLOAT32);
    check_sequences(one, 1, CRT_PRECISION_MIXED);
    check_sequences(two, 4, CRT_PRECISION_FLOAT32);
    check_sequences(two, 4, CRT_PRECISION_MIXED);
}

static void dropout_of_embeddings_leaves_out_the_same_columns_of_all_words(void **state)
{
    crt_layer_t layer = CRT_HASH_EMBED(40, 11, 8, 0, 1);
    crt_tensor_t x, a, b, dy;
    float *y, *expected, *mask;
    pair_t p;

    layer.rate = 0.25;
    pair_begin(&p, keys, &layer, 1, 6, CRT_PRECISION_FLOAT32);
    x = rows_of(&p, CRT_DTYPE_INT64, p.x, 3);
    dy = rows_of(&p, CRT_DTYPE_FLOAT32, p.dy, 40);
    assert_ok(crt_model_forward(p.host, NULL, &x, NULL, false, &a));
    expected = fetch(p.host, &a);
    assert_ok(crt_model_forward(p.host, NULL, &x, NULL, true, &a));
    assert_ok(crt_model_forward(p.gpu, NULL, &x, NULL, true, &b));
    y = fetch(p.gpu, &b);
    mask = p.host->outputs_of[0].kept;
    assert_ok(
        crti_model_copy(p.gpu, mask, p.gpu->outputs_of[0].kept, 40 * sizeof(float)));
    for (int i = 0; i < 6 * 40; i++) {
        assert_true(mask[i % 40] == 0 || mask[i % 40] == (float)(1 / 0.75));
        expected[i] *= mask[i % 40];
    }
    assert_near("outputs", y, expected, 6 * 40, LAYER_LIMIT);
    assert_ok(crt_model_backward(p.host, NULL, &dy, NULL, NULL));
    assert_ok(crt_model_backward(p.gpu, NULL, &dy, NULL, NULL));
    assert_same("gradients", p.gpu, crt_model_gradients(p.gpu), p.host,
                crt_model_gradients(p.host), LAYER_LIMIT);
    free(y);
    free(expected);
    pair_end(&p);
}

/* ---------------------------------------------------------------- dropout */

static void dropout_leaves_out_its_part_and_passes_the_gradients_of_the_rest(void **state)
{
    enum { COUNT = 40000 };
    crt_input_t input = CRT_INPUT(.channels = COUNT);
    crt_layer_t layer = CRT_DROPOUT(0.25);
    float *x = malloc(COUNT * sizeof(float)), *y, *again, *dx = new_wave(COUNT, 1);
    crt_tensor_t in = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, (int64_t[]){1, COUNT}, x),
                 out;
    crt_tensor_t back = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, (int64_t[]){1, COUNT}, dx);
    crt_model_t *model;
    int left_out = 0;

    assert_non_null(x);
    for (int i = 0; i < COUNT; i++)
        x[i] = 1;
    assert_ok(crt_model_new(&input, &layer, 1, 3, &model));
    assert_ok(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32));
    crt_model_set_seed(model, 9);
    assert_ok(crt_model_forward(model, NULL, &in, NULL, true, &out));
    y = fetch(model, &out);
    for (int i = 0; i < COUNT; i++) {
        left_out += y[i] == 0;
        assert_true(y[i] == 0 || y[i] == (float)(1 / 0.75));
    }
    assert_true(abs(left_out - COUNT / 4) < 5 * 87); /* five deviations */
    assert_ok(crt_model_backward(model, NULL, &in, NULL, &back));
    assert_memory_equal(dx, y, COUNT * sizeof(float));
    crt_model_set_seed(model, 9);
    assert_ok(crt_model_forward(model, NULL, &in, NULL, true, &out));
    again = fetch(model, &out);
    assert_memory_equal(again, y, COUNT * sizeof(float));
    assert_ok(crt_model_forward(model, NULL, &in, NULL, false, &out));
    free(again);
    again = fetch(model, &out);
    assert_memory_equal(again, x, COUNT * sizeof(float));
    crt_model_drop(&model);
    free(x);
    free(y);
    free(again);
    free(dx);
}

static void a_gpu_that_is_not_there_is_named(void **state)
{
    crt_model_t *model;
    float x[8] = {1};
    crt_tensor_t in = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, (int64_t[]){1, 8}, x), out;

    assert_ok(crt_mlp_new((const int[]){8, 3, 2, 0}, 0, 1, &model));
    assert_fails(crt_model_to_gpu(model, 1000, CRT_PRECISION_FLOAT32), CRT_ERR_INVALID,
                 "there is no GPU 1000");
    assert_int_equal(crt_model_gpu(model), -1);
    assert_ok(crt_model_forward(model, NULL, &in, NULL, false, &out));
    assert_true(isfinite(*(float *)out.data));
    crt_model_drop(&model);
}

/* ---------------------------------------------------------------- networks */

static int steps = 4;

/* Without dropout, whose masks differ between the GPU and the host. */
static crt_model_t *new_network(const char *name, uint64_t seed, bool with_dropout)
{
    crt_input_t input = CRT_INPUT(.height = 8, .width = 8, .channels = 3);
    bool shrinks = is_small && strncmp(name, "resnet", 6) == 0;
    crt_model_t *model;

    assert_ok(crt_network_by_name(name, shrinks ? &input : NULL, 10, seed, &model));
    for (size_t i = 0; i < model->layer_count && !with_dropout; i++)
        model->layers[i].spec.rate = 0;
    return model;
}

static crt_batch_t new_batch(const crt_model_t *model, int rows, int step)
{
    size_t inputs = (size_t)crt_model_inputs(model);
    float *x = new_wave((size_t)rows * inputs, 0.7 + 0.01 * step);
    uint8_t *labels = malloc((size_t)rows);

    assert_non_null(labels);
    for (int i = 0; i < rows; i++)
        labels[i] = (uint8_t)((i * 7 + step) % 10);
    return CRT_BATCH(.inputs = crt_tensor_view(CRT_DTYPE_FLOAT32, 2,
                                               (int64_t[]){rows, (int64_t)inputs}, x),
                     .labels =
                         crt_tensor_view(CRT_DTYPE_UINT8, 1, (int64_t[]){rows}, labels));
}

static void free_batch(crt_batch_t *batch)
{
    free(batch->inputs.data);
    free(batch->labels.data);
}

static void step_both(crt_model_t *host, crt_optimizer_t *a, crt_model_t *gpu,
                      crt_optimizer_t *b, int rows, int step, double limit)
{
    crt_batch_t batch = new_batch(host, rows, step);
    double expected, got;

    assert_ok(crt_model_compute_gradients(host, NULL, &batch, NULL, &expected));
    assert_ok(crt_model_compute_gradients(gpu, NULL, &batch, NULL, &got));
    printf("    step %d: loss %.6f, on the host %.6f\n", step, got, expected);
    assert_true(fabs(got / expected - 1) < limit);
    assert_ok(crt_optimizer_step(a, host));
    assert_ok(crt_optimizer_step(b, gpu));
    free_batch(&batch);
}

/* Of deep networks the momentum is not compared: weights moved by 1e-6 of themselves move the
 * gradient of resnet20 by 1e-2 of its norm, as ReLUs near zero change. */
static void train_both(const char *name, int rows, crt_optimizer_options_t options,
                       crt_precision_t precision)
{
    double limit = precision == CRT_PRECISION_MIXED ? MIXED_STEP_LIMIT : STEP_LIMIT;
    bool with_states = strcmp(name, "mlp") == 0 && precision == CRT_PRECISION_FLOAT32;
    crt_model_t *host, *gpu;
    crt_optimizer_t *a, *b;

    printf("  %s%s\n", name, precision == CRT_PRECISION_MIXED ? ", mixed" : "");
    rows = is_small ? (strncmp(name, "resnet", 6) == 0 ? 8 : 2) : rows;
    host = new_network(name, 5, false);
    gpu = new_network(name, 5, false);
    assert_ok(crt_model_to_gpu(gpu, 0, precision));
    assert_ok(crt_optimizer_new(host, &options, &a));
    assert_ok(crt_optimizer_new(gpu, &options, &b));
    for (int i = 0; i < steps; i++)
        step_both(host, a, gpu, b, rows, i, limit);
    assert_int_equal(crt_optimizer_steps(b), steps);
    assert_same("weights", gpu, crt_model_weights(gpu), host, crt_model_weights(host),
                limit);
    for (int i = 0; i < crt_optimizer_states(a) && with_states; i++)
        assert_same("state", gpu, crt_optimizer_state(b, i), host,
                    crt_optimizer_state(a, i), limit);
    crt_optimizer_drop(&a);
    crt_optimizer_drop(&b);
    crt_model_drop(&host);
    crt_model_drop(&gpu);
}

/* What a stand-in has the time for, with either precision, and the rest. */
static void networks_learn_as_on_the_host(void **state)
{
    train_both("mlp", 32, crt_sgd_options(0.01, 0.9), CRT_PRECISION_FLOAT32);
    train_both("lenet", 32, crt_sgd_options(0.01, 0.9), CRT_PRECISION_FLOAT32);
    train_both("resnet20", 16, crt_sgd_options(0.001, 0.9), CRT_PRECISION_FLOAT32);
    train_both("vit", 32, crt_sgd_options(0.01, 0.9), CRT_PRECISION_FLOAT32);
    if (is_small)
        return;
    train_both("vit-gelu", 32, crt_adam_options(0.001), CRT_PRECISION_FLOAT32);
    train_both("convnet", 16, crt_sgd_options(0.01, 0.9), CRT_PRECISION_FLOAT32);
    train_both("resnet18", 16, crt_sgd_options(0.001, 0.9), CRT_PRECISION_FLOAT32);
}

static void networks_of_mixed_precision_learn_nearly_as_on_the_host(void **state)
{
    train_both("mlp", 32, crt_sgd_options(0.01, 0.9), CRT_PRECISION_MIXED);
    train_both("vit-gelu", 32, crt_adam_options(0.001), CRT_PRECISION_MIXED);
    if (is_small)
        return;
    train_both("lenet", 32, crt_sgd_options(0.01, 0.9), CRT_PRECISION_MIXED);
    train_both("resnet20", 16, crt_sgd_options(0.001, 0.9), CRT_PRECISION_MIXED);
    train_both("resnet18", 16, crt_sgd_options(0.001, 0.9), CRT_PRECISION_MIXED);
}

static void optimizers_are_those_of_the_host(void **state)
{
    crt_optimizer_options_t nesterov = crt_sgd_options(0.05, 0.9);
    crt_optimizer_options_t penalty = crt_sgd_options(0.05, 0);
    crt_optimizer_options_t adam = crt_adam_options(0.001), clipped = adam;

    nesterov.nesterov = true;
    nesterov.l2 = 0.01;
    penalty.l2 = 0.1;
    penalty.l2_is_weight_decay = false;
    penalty.grad_clip = 0.01;
    adam.l2 = 0.01;
    clipped.global_clip = 0.05;
    train_both("mlp", 16, nesterov, CRT_PRECISION_FLOAT32);
    train_both("mlp", 16, penalty, CRT_PRECISION_FLOAT32);
    train_both("mlp", 16, adam, CRT_PRECISION_FLOAT32);
    train_both("mlp", 16, clipped, CRT_PRECISION_FLOAT32);
    train_both("mlp", 16, crt_adamw_options(0.001), CRT_PRECISION_FLOAT32);
}

/* Steps enough for RAdam to use its second moment, and for several jumps. */
static void radam_look_ahead_and_averages_are_those_of_the_host(void **state)
{
    crt_optimizer_options_t radam = crt_radam_options(0.001),
                            ahead = crt_sgd_options(0.05, 0.9);
    int usual = steps;

    steps = 8;
    ahead.lookahead_steps = 3;
    ahead.lookahead_rate = 0.5;
    train_both("mlp", 16, ahead, CRT_PRECISION_FLOAT32);
    ahead.use_averages = true;
    train_both("mlp", 16, ahead, CRT_PRECISION_MIXED);
    radam.l2 = 0.01;
    train_both("mlp", 16, radam, CRT_PRECISION_FLOAT32);
    radam.lookahead_steps = 2;
    radam.lookahead_rate = 0.25;
    train_both("mlp", 16, radam, CRT_PRECISION_FLOAT32);
    steps = usual;
}

static void expect_equal_bits(const char *name, crt_precision_t precision)
{
    float *weights[2];
    size_t bytes = 0;

    for (int k = 0; k < 2; k++) {
        crt_model_t *model;
        crt_optimizer_t *o;

        model = new_network(name, 5, true);
        assert_ok(crt_model_to_gpu(model, 0, precision));
        assert_ok(crt_sgd_new(model, 0.01, 0.9, &o));
        for (int i = 0; i < steps; i++) {
            crt_batch_t batch = new_batch(model, is_small ? 2 : 16, i);

            assert_ok(crt_model_compute_gradients(model, NULL, &batch, NULL, NULL));
            assert_ok(crt_optimizer_step(o, model));
            free_batch(&batch);
        }
        bytes = crt_model_parameters(model) * sizeof(float);
        weights[k] = fetch(model, crt_model_weights(model));
        crt_optimizer_drop(&o);
        crt_model_drop(&model);
    }
    assert_memory_equal(weights[0], weights[1], bytes);
    free(weights[0]);
    free(weights[1]);
}

static void equal_steps_give_equal_bits(void **state)
{
    expect_equal_bits("resnet20", CRT_PRECISION_MIXED);
    expect_equal_bits("vit-gelu", CRT_PRECISION_FLOAT32);
    if (is_small)
        return;
    expect_equal_bits("vit-gelu", CRT_PRECISION_MIXED);
    expect_equal_bits("resnet20", CRT_PRECISION_FLOAT32);
    expect_equal_bits("resnet20", CRT_PRECISION_TF32);
}

static void a_gradient_that_is_not_finite_changes_nothing_and_is_told(void **state)
{
    crt_model_t *model;
    crt_optimizer_t *o;
    crt_batch_t batch;
    float *before, *after;

    assert_ok(crt_network_by_name("mlp", NULL, 10, 5, &model));
    assert_ok(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32));
    assert_ok(crt_adam_new(model, 0.01, &o));
    before = fetch(model, crt_model_weights(model));
    batch = new_batch(model, 8, 0);
    ((float *)batch.inputs.data)[3] = NAN;
    assert_ok(crt_model_compute_gradients(model, NULL, &batch, NULL, NULL));
    assert_ok(crt_optimizer_step(o, model));
    free_batch(&batch);
    batch = new_batch(model, 8, 0);
    assert_ok(crt_model_compute_gradients(model, NULL, &batch, NULL, NULL));
    assert_fails(crt_optimizer_step(o, model), CRT_ERR_INVALID,
                 "step 1: the gradient of layer 1 (dense), array 0");
    after = fetch(model, crt_model_weights(model));
    assert_memory_equal(before, after, crt_model_parameters(model) * sizeof(float));
    assert_int_equal(crt_optimizer_steps(o), 0);
    assert_fails(crt_optimizer_step(o, model), CRT_ERR_INVALID, "no gradient since");
    assert_ok(crt_model_compute_gradients(model, NULL, &batch, NULL, NULL));
    assert_ok(crt_optimizer_step(o, model));
    free(after);
    after = fetch(model, crt_model_weights(model));
    assert_memory_not_equal(before, after, crt_model_parameters(model) * sizeof(float));
    free_batch(&batch);
    free(before);
    free(after);
    crt_optimizer_drop(&o);
    crt_model_drop(&model);
}

static void classes_are_those_of_the_host(void **state)
{
    crt_model_t *host, *gpu;
    crt_dataset_t *set, *some;
    double expected, got;

    assert_ok(crt_dataset_open("builtin", CRT_SPLIT_TEST, &set));
    assert_ok(crt_dataset_new_shard(set, 0, is_small ? 100 : 10, &some));
    assert_ok(crt_network_by_name("lenet", NULL, 10, 5, &host));
    assert_ok(crt_network_by_name("lenet", NULL, 10, 5, &gpu));
    assert_ok(crt_model_to_gpu(gpu, 0, CRT_PRECISION_FLOAT32));
    assert_ok(crt_model_accuracy(host, NULL, some, &expected));
    assert_ok(crt_model_accuracy(gpu, NULL, some, &got));
    printf("    accuracy %.4f, on the host %.4f\n", got, expected);
    assert_true(fabs(got - expected) < 0.005);
    crt_dataset_drop(&some);
    crt_dataset_drop(&set);
    crt_model_drop(&host);
    crt_model_drop(&gpu);
}

/* ---------------------------------------------------------------- moving */

static void a_checkpoint_of_the_gpu_goes_on_on_the_host(void **state)
{
    char *folder = new_folder();
    crt_model_t *gpu, *host;
    crt_optimizer_t *a, *b;
    crt_batch_t batch;
    const char *path = path_in(folder, "weights");

    gpu = new_network("resnet20", 5, true);
    host = new_network("resnet20", 6, true);
    assert_ok(crt_model_to_gpu(gpu, 0, CRT_PRECISION_FLOAT32));
    assert_ok(crt_sgd_new(gpu, 0.001, 0.9, &a));
    batch = new_batch(gpu, 8, 0);
    assert_ok(crt_model_compute_gradients(gpu, NULL, &batch, NULL, NULL));
    assert_ok(crt_optimizer_step(a, gpu));
    assert_ok(crt_model_save(gpu, path));
    assert_ok(crt_model_load(host, path));
    assert_same("weights", gpu, crt_model_weights(gpu), host, crt_model_weights(host), 0);
    assert_same("statistics", gpu, crt_model_statistics(gpu), host,
                crt_model_statistics(host), 0);
    crt_optimizer_drop(&a);
    assert_ok(crt_model_to_host(gpu));
    assert_int_equal(crt_model_gpu(gpu), -1);
    assert_same("weights, moved", gpu, crt_model_weights(gpu), host,
                crt_model_weights(host), 0);
    assert_ok(crt_sgd_new(gpu, 0.001, 0.9, &a));
    assert_ok(crt_sgd_new(host, 0.001, 0.9, &b));
    for (int i = 0; i < 2; i++) {
        crt_model_t *model = i ? host : gpu;

        assert_ok(crt_model_compute_gradients(model, NULL, &batch, NULL, NULL));
        assert_ok(crt_optimizer_step(i ? b : a, model));
    }
    assert_same("weights, trained on", gpu, crt_model_weights(gpu), host,
                crt_model_weights(host), 0);
    free_batch(&batch);
    crt_optimizer_drop(&a);
    crt_optimizer_drop(&b);
    crt_model_drop(&host);
    crt_model_drop(&gpu);
    unlink(path);
    rmdir(folder);
    free(folder);
}

static void tensors_on_the_other_side_are_refused(void **state)
{
    crt_model_t *model;
    crt_optimizer_t *o;
    crt_batch_t batch;
    float *numbers;
    crt_tensor_t flat;
    double squares[8];
    crt_part_t all;

    assert_ok(crt_network_by_name("mlp", NULL, 10, 5, &model));
    assert_ok(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32));
    assert_ok(crt_sgd_new(model, 0.1, 0, &o));
    numbers = new_wave(crt_model_parameters(model), 1);
    flat = crt_tensor_floats(numbers, crt_model_parameters(model));
    batch = new_batch(model, 4, 0);
    all = (crt_part_t){0, crt_model_parameters(model)};
    assert_fails(crt_model_compute_gradients(model, NULL, &batch, &flat, NULL),
                 CRT_ERR_INVALID, "gradients lie in host memory, not on GPU 0");
    assert_fails(crt_model_compute_gradients(model, &flat, &batch, NULL, NULL),
                 CRT_ERR_INVALID, "weights lie in host memory, not on GPU 0");
    assert_fails(crt_model_add_gradients(model, &flat), CRT_ERR_INVALID,
                 "gradients lie in host memory, not on GPU 0");
    assert_fails(crt_optimizer_measure(o, model, &flat, &all, 1, squares),
                 CRT_ERR_UNSUPPORTED, "a step on parts of a model on a GPU");
    assert_ok(crt_model_set_weights(model, &flat));
    assert_ok(crt_model_compute_gradients(model, NULL, &batch, NULL, NULL));
    free_batch(&batch);
    free(numbers);
    crt_optimizer_drop(&o);
    crt_model_drop(&model);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_layers_are_those_of_the_host),
        cmocka_unit_test(convolutions_are_those_of_the_host),
        cmocka_unit_test(convolutions_with_weights_at_odd_places_are_those_of_the_host),
        cmocka_unit_test(pools_are_those_of_the_host),
        cmocka_unit_test(equal_largest_numbers_give_the_gradient_to_the_first),
        cmocka_unit_test(batch_norms_are_those_of_the_host),
        cmocka_unit_test(residual_blocks_are_those_of_the_host),
        cmocka_unit_test(flattened_images_are_those_of_the_host),
        cmocka_unit_test(
            dropout_leaves_out_its_part_and_passes_the_gradients_of_the_rest),
        cmocka_unit_test(layer_norms_are_those_of_the_host),
        cmocka_unit_test(gelu_and_mish_are_those_of_the_host),
        cmocka_unit_test(attention_is_that_of_the_host),
        cmocka_unit_test(tokens_of_images_are_those_of_the_host),
        cmocka_unit_test(images_before_transformers_are_those_of_the_host),
        cmocka_unit_test(concatenated_outputs_are_those_of_the_host),
        cmocka_unit_test(dropout_of_attention_is_that_of_its_mask),
        cmocka_unit_test(maxout_is_that_of_the_host),
        cmocka_unit_test(embeddings_are_those_of_the_host),
        cmocka_unit_test(windows_over_sequences_are_those_of_the_host),
        cmocka_unit_test(dropout_of_embeddings_leaves_out_the_same_columns_of_all_words),
        cmocka_unit_test(a_gpu_that_is_not_there_is_named),
        cmocka_unit_test(networks_learn_as_on_the_host),
        cmocka_unit_test(networks_of_mixed_precision_learn_nearly_as_on_the_host),
        cmocka_unit_test(optimizers_are_those_of_the_host),
        cmocka_unit_test(radam_look_ahead_and_averages_are_those_of_the_host),
        cmocka_unit_test(equal_steps_give_equal_bits),
        cmocka_unit_test(a_gradient_that_is_not_finite_changes_nothing_and_is_told),
        cmocka_unit_test(classes_are_those_of_the_host),
        cmocka_unit_test(a_checkpoint_of_the_gpu_goes_on_on_the_host),
        cmocka_unit_test(tensors_on_the_other_side_are_refused),
    };
    crt_model_t *model;
    crt_status_t status;

    is_small = getenv("CRT_TEST_SMALL") != NULL;
    steps = is_small ? 2 : steps;
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (crt_mlp_new((const int[]){4, 3, 2, 0}, 0, 1, &model) != CRT_OK)
        return 1;
    status = crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32);
    if (status == CRT_ERR_UNSUPPORTED) {
        printf("skipped: %s\n", crt_error_detail());
        crt_model_drop(&model);
        return SKIPPED;
    }
    crt_model_drop(&model);
    return cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
