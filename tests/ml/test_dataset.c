/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets and batches over memory of the caller. */
#include "ml_test.h"

#define COUNT 10
#define WIDTH 3

static float samples[COUNT * WIDTH];
static uint8_t labels[COUNT] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

/* Sample i holds i in its first feature. */
static crt_dataset_t *new_set(void)
{
    int64_t shape[2] = {COUNT, WIDTH};
    crt_tensor_t x = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, samples);
    crt_tensor_t y = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, labels);
    crt_dataset_t *set;

    for (int i = 0; i < COUNT; i++)
        samples[i * WIDTH] = (float)i;
    assert_ok(crt_dataset_new(&x, &y, 10, &set));
    return set;
}

static void set_over_foreign_memory_copies_nothing(void **state)
{
    crt_dataset_t *set = new_set();

    assert_ptr_equal(crt_dataset_features(set)->data, samples);
    assert_ptr_equal(crt_dataset_labels(set)->data, labels);
    assert_int_equal(crt_dataset_width(set), WIDTH);
    crt_dataset_drop(&set);
}

static void shards_cover_every_sample_once(void **state)
{
    crt_dataset_t *set = new_set(), *shard;
    size_t next = 0;

    for (int i = 0; i < 3; i++) {
        assert_ok(crt_dataset_new_shard(set, i, 3, &shard));
        assert_in_range(crt_dataset_count(shard), 3, 4);
        for (size_t k = 0; k < crt_dataset_count(shard); k++, next++) {
            assert_int_equal(((uint8_t *)crt_dataset_labels(shard)->data)[k], next);
            assert_true(((float *)crt_dataset_features(shard)->data)[k * WIDTH] ==
                        (float)next);
        }
        crt_dataset_drop(&shard);
    }
    assert_int_equal(next, COUNT);
    assert_fails(crt_dataset_new_shard(set, 3, 3, &shard), CRT_ERR_INVALID,
                 "part 3 of 3");
    assert_fails(crt_dataset_new_shard(set, 0, 11, &shard), CRT_ERR_INVALID,
                 "10 samples");
    crt_dataset_drop(&set);
}

/* Reads one pass; the order in which samples came. */
static void read_pass(crt_batches_t *batches, int *order)
{
    static const int64_t sizes[] = {4, 4, 2}; /* the last one is short */
    int n = 0;

    for (int i = 0; i < 3; i++) {
        const crt_batch_t *batch = crt_batches_next(batches);

        assert_int_equal(batch->inputs.shape[0], sizes[i]);
        assert_int_equal(batch->labels.shape[0], sizes[i]);
        for (int64_t k = 0; k < sizes[i]; k++) {
            order[n] = ((uint8_t *)batch->labels.data)[k];
            assert_true(((float *)batch->inputs.data)[k * WIDTH] == (float)order[n]);
            n++;
        }
    }
}

static void each_pass_has_every_sample_once_in_a_new_order(void **state)
{
    crt_dataset_t *set = new_set();
    crt_batches_t *batches, *same;
    int order[2][COUNT], again[COUNT];

    assert_ok(crt_batches_new(set, 4, 3, &batches));
    assert_ok(crt_batches_new(set, 4, 3, &same));
    assert_int_equal(crt_batches_epoch(batches), 0);
    for (int pass = 0; pass < 2; pass++) {
        int seen[COUNT] = {0};

        read_pass(batches, order[pass]);
        read_pass(same, again);
        assert_memory_equal(order[pass], again, sizeof(again));
        assert_int_equal(crt_batches_epoch(batches), pass + 1);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(seen[order[pass][i]]++, 0);
    }
    assert_memory_not_equal(order[0], order[1], sizeof(order[0]));
    crt_batches_drop(&batches);
    crt_batches_drop(&same);
    crt_dataset_drop(&set);
}

static void bytes_are_read_as_fractions_of_255(void **state)
{
    uint8_t pixels[4] = {0, 51, 255, 102}, two[2] = {0, 1};
    int64_t shape[3] = {2, 1, 2};
    crt_tensor_t x = crt_tensor_view(CRT_DTYPE_UINT8, 3, shape, pixels);
    crt_tensor_t y = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, two);
    crt_dataset_t *set;
    crt_batches_t *batches;
    const crt_batch_t *batch;

    assert_ok(crt_dataset_new(&x, &y, 2, &set));
    assert_ok(crt_batches_new(set, 1, 0, &batches));
    for (int i = 0; i < 2; i++) {
        const float *got;
        const uint8_t *from;

        batch = crt_batches_next(batches);
        got = batch->inputs.data;
        from = pixels + 2 * ((uint8_t *)batch->labels.data)[0];
        for (int k = 0; k < 2; k++)
            assert_true(fabsf(got[k] - (float)from[k] / 255) < 1e-7f);
    }
    crt_batches_drop(&batches);
    crt_dataset_drop(&set);
}

static void accuracy_counts_the_right_answers_of_all_samples(void **state)
{
    static const int widths[] = {WIDTH, 10, 0};
    crt_dataset_t *set = new_set();
    crt_model_t *model;
    double accuracy;

    assert_ok(crt_mlp_new(widths, 0, 0, &model));
    assert_ok(
        crt_model_accuracy(model, NULL, set, &accuracy)); /* all zero: always class 0 */
    assert_true(fabs(accuracy - 0.1) < 1e-9);
    crt_model_drop(&model);
    assert_ok(crt_mlp_new((const int[]){WIDTH + 1, 10, 0}, 0, 0, &model));
    assert_fails(crt_model_accuracy(model, NULL, set, &accuracy), CRT_ERR_INVALID,
                 "3 features, the model has 4 inputs");
    crt_model_drop(&model);
    crt_dataset_drop(&set);
}

static void wrong_data_is_refused(void **state)
{
    int64_t shape[2] = {COUNT, WIDTH}, fewer = COUNT - 1;
    crt_tensor_t x = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, samples);
    crt_tensor_t y = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, labels), z = y;
    crt_dataset_t *set = NULL;

    assert_fails(crt_dataset_new(&x, &y, 9, &set), CRT_ERR_INVALID,
                 "label 9 of sample 9 is not below 9");
    assert_fails(crt_dataset_new(&x, &y, 1, &set), CRT_ERR_INVALID, "1 classes");
    z.shape[0] = fewer;
    assert_fails(crt_dataset_new(&x, &z, 10, &set), CRT_ERR_INVALID,
                 "10 samples with 9 labels");
    x.dtype = CRT_DTYPE_INT32;
    assert_fails(crt_dataset_new(&x, &y, 10, &set), CRT_ERR_INVALID, "int32");
    x = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, samples);
    x.shape[0] = 0;
    assert_fails(crt_dataset_new(&x, &y, 10, &set), CRT_ERR_INVALID, "without samples");
    assert_fails(crt_dataset_open("/nonexistent", CRT_SPLIT_TRAIN, &set),
                 CRT_ERR_NOT_FOUND, "/nonexistent/train-images-idx3-ubyte");
    assert_null(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_over_foreign_memory_copies_nothing),
        cmocka_unit_test(shards_cover_every_sample_once),
        cmocka_unit_test(each_pass_has_every_sample_once_in_a_new_order),
        cmocka_unit_test(bytes_are_read_as_fractions_of_255),
        cmocka_unit_test(accuracy_counts_the_right_answers_of_all_samples),
        cmocka_unit_test(wrong_data_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
