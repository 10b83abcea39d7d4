/* SPDX-License-Identifier: Apache-2.0 */
/* Layers over images: their gradients against finite differences, and the numbers of PyTorch
 * (tests/ml/record_torch.py). */
#include <pthread.h>

#include "layer_test.h"
#include "recorded_torch.h"

static bench_t b;

static crt_input_t image(int height, int width, int channels)
{
    return CRT_INPUT(.height = height, .width = width, .channels = channels);
}

/* ---------------------------------------------------------------- finite differences */

static void gradients_of_convolutions_match_finite_differences(void **state)
{
    const crt_layer_t strided[] = {CRT_CONVOLUTION(4, 3, 2, 1)};
    const crt_layer_t two[] = {CRT_CONVOLUTION_PLAIN(3, 3, 1, 1),
                               CRT_CONVOLUTION(2, 2, 1, 0)};

    check_layers(image(6, 5, 2), strided, COUNT_OF(strided), 3, 2e-3);
    check_layers(image(4, 4, 1), two, COUNT_OF(two), 2, 2e-3);
}

static void gradients_of_pools_match_finite_differences(void **state)
{
    const crt_layer_t largest[] = {CRT_MAX_POOL(2, 2)};
    const crt_layer_t overlapping[] = {
        CRT_LAYER(.kind = CRT_LAYER_MAX_POOL, .kernel = 3, .stride = 1, .padding = 1),
        CRT_CONVOLUTION(2, 1, 1, 0)};
    const crt_layer_t mean[] = {CRT_AVERAGE_POOL(2, 1)};
    const crt_layer_t all[] = {CRT_GLOBAL_POOL(), CRT_DENSE(3)};

    check_layers(image(4, 6, 2), largest, COUNT_OF(largest), 2, 1e-3);
    check_layers(image(4, 4, 2), overlapping, COUNT_OF(overlapping), 2, 1e-3);
    check_layers(image(4, 4, 3), mean, COUNT_OF(mean), 2, 1e-3);
    check_layers(image(3, 4, 3), all, COUNT_OF(all), 2, 1e-3);
}

static void gradients_of_batch_norm_match_finite_differences(void **state)
{
    const crt_layer_t one[] = {CRT_BATCH_NORM()};
    const crt_layer_t block[] = {CRT_CONVOLUTION_PLAIN(3, 3, 1, 1),
                                 CRT_BATCH_NORM(),
                                 CRT_CONVOLUTION_PLAIN(3, 3, 1, 1),
                                 CRT_BATCH_NORM(),
                                 CRT_ADD(3),
                                 CRT_RELU()};

    check_layers(image(3, 3, 3), one, COUNT_OF(one), 4, 3e-3);
    check_layers(image(4, 4, 2), block, COUNT_OF(block), 3, 1e-2);
}

static void gradients_of_subsamples_match_finite_differences(void **state)
{
    const crt_layer_t layer =
        CRT_LAYER(.kind = CRT_LAYER_SUBSAMPLE, .stride = 2, .width = 5);

    check_layers(image(5, 4, 3), &layer, 1, 2, 1e-3);
}

static void gradients_of_flattened_images_match_finite_differences(void **state)
{
    const crt_layer_t layers[] = {CRT_CONVOLUTION(2, 3, 1, 0), CRT_MAX_POOL(2, 2),
                                  CRT_RELU(), CRT_FLATTEN(), CRT_DENSE(3)};

    check_layers(image(6, 6, 1), layers, COUNT_OF(layers), 2, 2e-3);
}

/* An encoder with its norms first, of PyTorch's order. */
static size_t encoder(crt_layer_t *layers, int heads, crt_layer_t activation)
{
    crt_layer_t norm = CRT_LAYER_NORM();
    size_t n = 0;

    norm.epsilon = 1e-5;
    layers[n++] = norm;
    layers[n++] = CRT_DENSE(24);
    layers[n++] = CRT_ATTENTION(heads, 0);
    layers[n++] = CRT_DENSE(8);
    layers[n++] = CRT_ADD(5);
    layers[n++] = norm;
    layers[n++] = CRT_DENSE(12);
    layers[n++] = activation;
    layers[n++] = CRT_DENSE(8);
    layers[n++] = CRT_ADD(5);
    return n;
}

static void gradients_of_tokens_match_finite_differences(void **state)
{
    const crt_layer_t layers[] = {CRT_PATCHES(2), CRT_DENSE(3), CRT_TOKEN(),
                                  CRT_POSITIONS()};
    const crt_layer_t patches[] = {CRT_PATCHES(2)};

    check_layers(image(4, 6, 2), layers, COUNT_OF(layers), 2, 1e-3);
    check_layers(image(6, 4, 2), patches, COUNT_OF(patches), 2, 1e-3);
}

static void gradients_of_gelu_match_finite_differences(void **state)
{
    const crt_layer_t layers[] = {CRT_DENSE(4), CRT_GELU(), CRT_DENSE(2)};

    check_layers(image(2, 2, 3), layers, COUNT_OF(layers), 2, 2e-3);
}

static void mish_is_that_of_thinc(void **state)
{
    const crt_layer_t layers[] = {CRT_DENSE(4), CRT_MISH(), CRT_DENSE(2)},
                      one = CRT_MISH();
    static const float x[] = {-5, -1.5f, -0.3f, 0, 0.4f, 2, 19.5f, 25};
    /* Of Thinc 8.3: NumpyOps().mish(x), .backprop_mish(ones, x) */
    static const double y[] = {-0.033576239, -0.29809976, -0.15113318, 0,
                               0.28903055,   1.943959,    19.5,        25};
    static const double dx[] = {-0.026747502, -0.064097807, 0.40851089, 0.6,
                                0.83701748,   1.0693181,    1,          1};

    check_layers(image(2, 2, 3), layers, COUNT_OF(layers), 2, 2e-3);
    bench_begin(&b, image(1, 1, 8), &one, 1, 1);
    memcpy(b.x, x, sizeof(x));
    for (int i = 0; i < 8; i++)
        b.dy[i] = 1;
    bench_forward(&b, true);
    bench_backward(&b);
    for (int i = 0; i < 8; i++) {
        assert_float_equal(b.y[i], y[i], 1e-5);
        assert_float_equal(b.dx[i], dx[i], 1e-5);
    }
    bench_end(&b);
}

static void gradients_of_attention_match_finite_differences(void **state)
{
    const crt_layer_t plain[] = {CRT_ATTENTION(2, 0)};
    const crt_layer_t dropped[] = {CRT_DENSE(12), CRT_ATTENTION(2, 0.3), CRT_DENSE(2)};
    crt_layer_t layers[10];
    size_t count = encoder(layers, 2, CRT_GELU());

    check_layers(image(1, 4, 12), plain, COUNT_OF(plain), 2, 2e-3);
    check_layers(image(2, 2, 3), dropped, COUNT_OF(dropped), 2, 2e-3);
    check_layers(image(1, 3, 8), layers, count, 2, 2e-2);
}

/* ---------------------------------------------------------------- PyTorch */

static void run(crt_input_t input, crt_layer_t layer)
{
    bench_begin(&b, input, &layer, 1, 2);
    bench_forward(&b, true);
    bench_backward(&b);
}

#define CHECK(name)                                                                      \
    do {                                                                                 \
        assert_int_equal(COUNT_OF(torch_##name##_outputs), b.rows *b.outputs);           \
        assert_close("outputs", b.y, torch_##name##_outputs,                             \
                     (size_t)(b.rows * b.outputs), 1e-5);                                \
        assert_close("inputs", b.dx, torch_##name##_d_inputs, b.inputs, 1e-5);           \
    } while (0)

#define CHECK_GRADIENTS(name)                                                            \
    do {                                                                                 \
        assert_int_equal(COUNT_OF(torch_##name##_gradients), b.parameters);              \
        assert_close("gradients", b.gradients, torch_##name##_gradients, b.parameters,   \
                     1e-5);                                                              \
    } while (0)

static void convolutions_are_those_of_pytorch(void **state)
{
    run(image(5, 6, 2), CRT_CONVOLUTION(3, 3, 2, 1));
    CHECK(convolution);
    CHECK_GRADIENTS(convolution);
    bench_end(&b);
    run(image(4, 4, 3), CRT_CONVOLUTION_PLAIN(2, 2, 1, 0));
    CHECK(plain);
    CHECK_GRADIENTS(plain);
    bench_end(&b);
}

static void pools_are_those_of_pytorch(void **state)
{
    run(image(5, 5, 2),
        CRT_LAYER(.kind = CRT_LAYER_MAX_POOL, .kernel = 3, .stride = 2, .padding = 1));
    CHECK(max_pool);
    bench_end(&b);
    run(image(4, 5, 2), CRT_AVERAGE_POOL(2, 2));
    CHECK(average_pool);
    bench_end(&b);
}

static void batch_norm_is_that_of_pytorch(void **state)
{
    run(image(3, 4, 3), CRT_BATCH_NORM());
    CHECK(batch_norm);
    CHECK_GRADIENTS(batch_norm);
    assert_close("statistics", crt_model_statistics(b.model)->data,
                 torch_batch_norm_statistics, COUNT_OF(torch_batch_norm_statistics),
                 1e-6);
    bench_forward(&b, false);
    assert_close("evaluated", b.y, torch_batch_norm_evaluated,
                 (size_t)(b.rows * b.outputs), 1e-5);
    bench_end(&b);
}

static void run_all(crt_input_t input, const crt_layer_t *layers, size_t count)
{
    bench_begin(&b, input, layers, count, 2);
    bench_forward(&b, true);
    bench_backward(&b);
}

static void tokens_are_those_of_pytorch(void **state)
{
    const crt_layer_t tokens[] = {CRT_TOKEN(), CRT_POSITIONS()};

    run(image(4, 6, 3), CRT_PATCHES(2));
    CHECK(patches);
    bench_end(&b);
    run_all(image(2, 3, 3), tokens, COUNT_OF(tokens));
    CHECK(tokens);
    CHECK_GRADIENTS(tokens);
    bench_end(&b);
}

static void gelu_and_layer_norm_are_those_of_pytorch(void **state)
{
    crt_layer_t norm = CRT_LAYER_NORM();

    run(image(3, 4, 2), CRT_GELU());
    CHECK(gelu);
    bench_end(&b);
    norm.epsilon = 1e-5;
    run(image(2, 3, 5), norm);
    CHECK(layer_norm);
    CHECK_GRADIENTS(layer_norm);
    bench_end(&b);
}

static void attention_is_that_of_pytorch(void **state)
{
    crt_layer_t layers[10];

    run(image(1, 5, 12), CRT_ATTENTION(2, 0));
    CHECK(attention);
    bench_end(&b);
    run_all(image(1, 5, 8), layers, encoder(layers, 2, CRT_RELU()));
    CHECK(encoder);
    CHECK_GRADIENTS(encoder);
    bench_end(&b);
    run_all(image(1, 5, 8), layers, encoder(layers, 4, CRT_GELU()));
    CHECK(gelu_encoder);
    CHECK_GRADIENTS(gelu_encoder);
    bench_end(&b);
}

/* ---------------------------------------------------------------- one batch of several */

/* Two threads that add up their numbers. */
typedef struct pair {
    pthread_barrier_t barrier;
    float numbers[2][64];
} pair_t;

typedef struct member {
    pair_t *pair;
    int index;
    bench_t bench;
} member_t;

static crt_status_t sum_of_two(void *context, float *numbers, size_t count)
{
    member_t *m = context;

    assert_true(count <= 64);
    memcpy(m->pair->numbers[m->index], numbers, count * sizeof(float));
    pthread_barrier_wait(&m->pair->barrier);
    for (size_t i = 0; i < count; i++)
        numbers[i] = m->pair->numbers[0][i] + m->pair->numbers[1][i];
    pthread_barrier_wait(&m->pair->barrier);
    return CRT_OK;
}

static void *run_member(void *context)
{
    member_t *m = context;

    bench_forward(&m->bench, true);
    bench_backward(&m->bench);
    return NULL;
}

static void batch_norms_of_two_are_those_of_the_whole_batch(void **state)
{
    const crt_layer_t layers[] = {CRT_CONVOLUTION_PLAIN(3, 3, 1, 1), CRT_BATCH_NORM(),
                                  CRT_RELU(), CRT_CONVOLUTION_PLAIN(2, 3, 1, 1),
                                  CRT_BATCH_NORM()};
    static member_t members[2];
    static pair_t pair;
    pthread_t threads[2];
    size_t half, outputs;

    bench_begin(&b, image(4, 3, 2), layers, COUNT_OF(layers), 6);
    bench_forward(&b, true);
    bench_backward(&b);
    half = b.inputs / 2;
    outputs = (size_t)(b.rows * b.outputs) / 2;
    pthread_barrier_init(&pair.barrier, NULL, 2);
    for (int k = 0; k < 2; k++) {
        member_t *m = &members[k];

        m->pair = &pair;
        m->index = k;
        bench_begin(&m->bench, image(4, 3, 2), layers, COUNT_OF(layers), 3);
        memcpy(m->bench.x, b.x + (size_t)k * half, half * sizeof(float));
        memcpy(m->bench.dy, b.dy + (size_t)k * outputs, outputs * sizeof(float));
        crt_model_sync_norms(m->bench.model, sum_of_two, m);
        assert_int_equal(pthread_create(&threads[k], NULL, run_member, m), 0);
    }
    for (int k = 0; k < 2; k++)
        pthread_join(threads[k], NULL);
    for (int k = 0; k < 2; k++) {
        bench_t *m = &members[k].bench;

        for (size_t i = 0; i < outputs; i++)
            assert_float_equal(m->y[i], b.y[(size_t)k * outputs + i], 1e-5);
        for (size_t i = 0; i < half; i++)
            assert_float_equal(m->dx[i], b.dx[(size_t)k * half + i], 1e-5);
        for (size_t i = 0; i < crt_tensor_count(crt_model_statistics(b.model)); i++)
            assert_float_equal(((float *)crt_model_statistics(m->model)->data)[i],
                               ((float *)crt_model_statistics(b.model)->data)[i], 1e-5);
    }
    for (size_t i = 0; i < b.parameters; i++)
        assert_float_equal(members[0].bench.gradients[i] + members[1].bench.gradients[i],
                           b.gradients[i], 2e-5);
    for (int k = 0; k < 2; k++)
        bench_end(&members[k].bench);
    pthread_barrier_destroy(&pair.barrier);
    bench_end(&b);
}

/* ---------------------------------------------------------------- behaviour */

static void passes_of_other_sizes_follow_each_other(void **state)
{
    const crt_layer_t layers[] = {CRT_CONVOLUTION(4, 3, 1, 1), CRT_BATCH_NORM(),
                                  CRT_RELU(), CRT_GLOBAL_POOL(), CRT_DENSE(2)};
    float y[2 * 2];

    bench_begin(&b, image(4, 4, 2), layers, COUNT_OF(layers), 2);
    bench_forward(&b, true);
    bench_forward(&b, false);
    memcpy(y, b.y, sizeof(y));
    b.rows = 1; /* the first sample alone gives the same */
    b.inputs /= 2;
    bench_forward(&b, false);
    assert_true(fabsf(b.y[0] - y[0]) < 1e-6f && fabsf(b.y[1] - y[1]) < 1e-6f);
    b.rows = 2;
    b.inputs *= 2;
    bench_check(&b, 5e-3);
    bench_end(&b);
}

static void statistics_are_saved_with_the_weights(void **state)
{
    const crt_layer_t layers[] = {CRT_BATCH_NORM(), CRT_FLATTEN(), CRT_DENSE(2)};
    const crt_layer_t plain[] = {CRT_FLATTEN(), CRT_DENSE(2)};
    const crt_input_t input = image(3, 3, 2);
    char *folder = new_folder();
    const char *path = path_in(folder, "model");
    crt_model_t *model, *other;

    bench_begin(&b, input, layers, COUNT_OF(layers), 4);
    assert_int_equal(crt_tensor_count(crt_model_statistics(b.model)), 4);
    bench_forward(&b, true);
    assert_ok(crt_model_save(b.model, path));
    assert_ok(crt_model_new(&input, layers, COUNT_OF(layers), 9, &model));
    assert_ok(crt_model_load(model, path));
    assert_memory_equal(crt_model_statistics(model)->data,
                        crt_model_statistics(b.model)->data, 4 * sizeof(float));
    assert_memory_equal(crt_model_weights(model)->data, crt_model_weights(b.model)->data,
                        b.parameters * sizeof(float));
    assert_ok(crt_model_new(&input, plain, COUNT_OF(plain), 9, &other));
    assert_int_equal(crt_tensor_count(crt_model_statistics(other)), 0);
    assert_fails(crt_model_load(other, path), CRT_ERR_INVALID,
                 "5 arrays, the model has 2");
    crt_model_drop(&model);
    crt_model_drop(&other);
    bench_end(&b);
    unlink(path);
    rmdir(folder);
    free(folder);
}

static void a_pass_without_training_leaves_statistics_alone(void **state)
{
    const crt_layer_t layers[] = {CRT_BATCH_NORM()};
    const float first[4] = {0, 0, 1, 1};

    bench_begin(&b, image(3, 3, 2), layers, 1, 2);
    bench_forward(&b, false);
    assert_memory_equal(crt_model_statistics(b.model)->data, first, sizeof(first));
    for (size_t i = 0; i < b.inputs; i++) /* gain and bias are the bench's */
        assert_true(isfinite(b.y[i]));
    bench_end(&b);
}

static void layers_that_cannot_be_are_named(void **state)
{
    static const struct {
        crt_layer_t layer;
        const char *text;
    } cases[] = {
        {CRT_CONVOLUTION(0, 3, 1, 1), "layer 0: a convolution to 0 channels"},
        {CRT_CONVOLUTION(4, 7, 1, 0), "layer 0: a kernel of 7 over 4 x 5 places"},
        {CRT_CONVOLUTION(4, 3, 1, 3), "padding 3"},
        {CRT_CONVOLUTION(4, 3, -1, 1), "stride -1"},
        {CRT_MAX_POOL(5, 1), "layer 0: windows of 5"},
        {CRT_MAX_POOL(-1, 1), "layer 0: windows of -1"},
        {CRT_LAYER(.kind = CRT_LAYER_AVERAGE_POOL, .kernel = 2, .padding = 1),
         "with padding"},
        {CRT_LAYER(.kind = CRT_LAYER_SUBSAMPLE, .width = 2, .stride = 2),
         "3 channels become 2"},
        {CRT_LAYER(.kind = CRT_LAYER_BATCH_NORM, .epsilon = 0), "layer 0: a batch norm"},
        {CRT_PATCHES(2), "layer 0: 4 x 5 places are not patches of 2 x 2"},
        {CRT_ATTENTION(2, 0), "layer 0: attention of 2 heads over 3 channels"},
        {CRT_ATTENTION(0, 0), "attention of 0 heads"},
        {CRT_ATTENTION(1, 1), "dropout rate 1"},
    };
    const crt_input_t input = image(4, 5, 3);
    crt_model_t *model = NULL;

    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_fails(crt_model_new(&input, &cases[i].layer, 1, 0, &model),
                     CRT_ERR_INVALID, cases[i].text);
    assert_null(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_of_convolutions_match_finite_differences),
        cmocka_unit_test(gradients_of_pools_match_finite_differences),
        cmocka_unit_test(gradients_of_batch_norm_match_finite_differences),
        cmocka_unit_test(gradients_of_subsamples_match_finite_differences),
        cmocka_unit_test(gradients_of_flattened_images_match_finite_differences),
        cmocka_unit_test(gradients_of_tokens_match_finite_differences),
        cmocka_unit_test(gradients_of_gelu_match_finite_differences),
        cmocka_unit_test(mish_is_that_of_thinc),
        cmocka_unit_test(gradients_of_attention_match_finite_differences),
        cmocka_unit_test(convolutions_are_those_of_pytorch),
        cmocka_unit_test(tokens_are_those_of_pytorch),
        cmocka_unit_test(gelu_and_layer_norm_are_those_of_pytorch),
        cmocka_unit_test(attention_is_that_of_pytorch),
        cmocka_unit_test(pools_are_those_of_pytorch),
        cmocka_unit_test(batch_norm_is_that_of_pytorch),
        cmocka_unit_test(batch_norms_of_two_are_those_of_the_whole_batch),
        cmocka_unit_test(passes_of_other_sizes_follow_each_other),
        cmocka_unit_test(statistics_are_saved_with_the_weights),
        cmocka_unit_test(a_pass_without_training_leaves_statistics_alone),
        cmocka_unit_test(layers_that_cannot_be_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
