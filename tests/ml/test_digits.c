/* SPDX-License-Identifier: Apache-2.0 */
/* The drawn digits: repeatable, different per seed, and of the intended difficulty. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt_ml.h>

#include <cmocka.h>

#define WORKERS 2
#define BATCH   128

static crt_dataset_t *train, *test;

static int open_sets(void **state)
{
    CRT_CHECK(crt_dataset_open("builtin", CRT_SPLIT_TRAIN, &train));
    CRT_CHECK(crt_dataset_open("builtin", CRT_SPLIT_TEST, &test));
    return 0;
}

static int close_sets(void **state)
{
    crt_dataset_drop(&train);
    crt_dataset_drop(&test);
    return 0;
}

static void sets_have_the_size_of_mnist(void **state)
{
    assert_int_equal(crt_dataset_count(train), 60000);
    assert_int_equal(crt_dataset_count(test), 10000);
    assert_int_equal(crt_dataset_width(train), 784);
    assert_int_equal(crt_dataset_classes(train), 10);
}

static void every_digit_comes_about_equally_often(void **state)
{
    const uint8_t *labels = crt_dataset_labels(train)->data;
    int seen[10] = {0};

    for (size_t i = 0; i < 60000; i++)
        seen[labels[i]]++;
    for (int i = 0; i < 10; i++)
        assert_in_range(seen[i], 5600, 6400);
}

static void image_of_a_seed_does_not_depend_on_the_count(void **state)
{
    crt_dataset_t *few;

    assert_int_equal(crt_dataset_new_digits(100, CRT_SPLIT_TRAIN, &few), CRT_OK);
    assert_memory_equal(crt_dataset_features(few)->data,
                        crt_dataset_features(train)->data, 100 * 784);
    assert_memory_equal(crt_dataset_labels(few)->data, crt_dataset_labels(train)->data,
                        100);
    crt_dataset_drop(&few);
}

static int compare_images(const void *a, const void *b)
{
    return memcmp(*(const uint8_t *const *)a, *(const uint8_t *const *)b, 784);
}

static void no_test_image_is_a_training_image(void **state)
{
    const uint8_t **images = malloc(60000 * sizeof(*images)), *key;

    for (size_t i = 0; i < 60000; i++)
        images[i] = (const uint8_t *)crt_dataset_features(train)->data + i * 784;
    qsort(images, 60000, sizeof(*images), compare_images);
    for (size_t i = 1; i < 60000; i++)
        assert_int_not_equal(memcmp(images[i - 1], images[i], 784), 0);
    for (size_t i = 0; i < 10000; i++) {
        key = (const uint8_t *)crt_dataset_features(test)->data + i * 784;
        assert_null(bsearch(&key, images, 60000, sizeof(*images), compare_images));
    }
    free(images);
}

/* The synchronous training of two workers, one after the other: `iterations` sums of two
 * gradients, each from its own half. */
static void train_sync(crt_model_t *model, crt_optimizer_t *optimizer,
                       crt_batches_t **batches, int iterations)
{
    crt_tensor_t gradients[WORKERS];
    const crt_tensor_t *both[WORKERS] = {&gradients[0], &gradients[1]};
    size_t count = crt_model_parameters(model);

    for (int k = 0; k < WORKERS; k++)
        gradients[k] = crt_tensor_floats(malloc(count * sizeof(float)), count);
    for (int i = 0; i < iterations; i++) {
        for (int k = 0; k < WORKERS; k++)
            assert_int_equal(crt_model_compute_gradients(model, NULL,
                                                         crt_batches_next(batches[k]),
                                                         &gradients[k], NULL),
                             CRT_OK);
        assert_int_equal(crt_optimizer_apply(optimizer, model, both, WORKERS, NULL),
                         CRT_OK);
    }
    for (int k = 0; k < WORKERS; k++)
        free(gradients[k].data);
}

/* Accuracy of the perceptron after 200 iterations, and after four times as many. */
static void train_perceptron(double *early_out, double *late_out)
{
    static const int widths[] = {784, 128, 128, 10, 0};
    crt_model_t *model;
    crt_optimizer_t *adam;
    crt_dataset_t *shards[WORKERS];
    crt_batches_t *batches[WORKERS];

    assert_int_equal(crt_mlp_new(widths, 0.2, 0, &model), CRT_OK);
    assert_int_equal(crt_adam_new(model, 0.001, &adam), CRT_OK);
    for (int k = 0; k < WORKERS; k++) {
        assert_int_equal(crt_dataset_new_shard(train, k, WORKERS, &shards[k]), CRT_OK);
        assert_int_equal(crt_batches_new(shards[k], BATCH, (uint64_t)k, &batches[k]),
                         CRT_OK);
    }
    train_sync(model, adam, batches, 200);
    assert_int_equal(crt_model_accuracy(model, NULL, test, early_out), CRT_OK);
    train_sync(model, adam, batches, 600);
    assert_int_equal(crt_model_accuracy(model, NULL, test, late_out), CRT_OK);
    for (int k = 0; k < WORKERS; k++) {
        crt_batches_drop(&batches[k]);
        crt_dataset_drop(&shards[k]);
    }
    crt_optimizer_drop(&adam);
    crt_model_drop(&model);
}

/* The best test accuracy that three passes of a linear softmax reach at this rate. */
static double train_linear(double learn_rate)
{
    static const int widths[] = {784, 10, 0};
    crt_model_t *model;
    crt_optimizer_t *adam;
    crt_batches_t *batches;
    double accuracy, best = 0;

    assert_int_equal(crt_mlp_new(widths, 0, 0, &model), CRT_OK);
    assert_int_equal(crt_adam_new(model, learn_rate, &adam), CRT_OK);
    assert_int_equal(crt_batches_new(train, BATCH, 0, &batches), CRT_OK);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 60000 / BATCH; k++) {
            assert_int_equal(crt_model_compute_gradients(
                                 model, NULL, crt_batches_next(batches), NULL, NULL),
                             CRT_OK);
            assert_int_equal(crt_optimizer_step(adam, model), CRT_OK);
        }
        assert_int_equal(crt_model_accuracy(model, NULL, test, &accuracy), CRT_OK);
        best = accuracy > best ? accuracy : best;
    }
    crt_batches_drop(&batches);
    crt_optimizer_drop(&adam);
    crt_model_drop(&model);
    return best;
}

static void a_perceptron_learns_them_and_no_linear_model_does(void **state)
{
    static const double rates[] = {0.001, 0.003};
    double early, late, linear = 0;

    train_perceptron(&early, &late);
    for (int i = 0; i < 2; i++) {
        double accuracy = train_linear(rates[i]);

        linear = accuracy > linear ? accuracy : linear;
    }
    printf("perceptron %.4f after 200 iterations, %.4f after 800; best linear %.4f\n",
           early, late, linear);
    assert_true(early >= 0.90);
    assert_true(early >= linear + 0.04);
    assert_true(late > 0.95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_have_the_size_of_mnist),
        cmocka_unit_test(every_digit_comes_about_equally_often),
        cmocka_unit_test(image_of_a_seed_does_not_depend_on_the_count),
        cmocka_unit_test(no_test_image_is_a_training_image),
        cmocka_unit_test(a_perceptron_learns_them_and_no_linear_model_does),
    };

    return cmocka_run_group_tests(tests, open_sets, close_sets);
}
