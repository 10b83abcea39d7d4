/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of images: files and what can be wrong with them, crops and flips, batches made ahead. */
#include <sys/resource.h>
#include <unistd.h>

#include <crt_images.h>

#include "ml_test.h"

#include <zlib.h>

#define PIXELS 3072

/* Image i of a file has label i and, at (x, y) of channel c, this value. */
static uint8_t pixel(size_t i, size_t c, size_t y, size_t x)
{
    return (uint8_t)(i * 31 + c * 80 + y * 5 + x);
}

static void write_records(const char *path, size_t first, size_t count, size_t labels)
{
    size_t record = labels + PIXELS;
    uint8_t *data = malloc(count * record);

    for (size_t i = 0; i < count; i++) {
        uint8_t *at = data + i * record;

        memset(at, 99, labels);
        at[labels - 1] = (uint8_t)(first + i);
        at += labels;
        for (size_t c = 0; c < 3; c++)
            for (size_t y = 0; y < 32; y++)
                for (size_t x = 0; x < 32; x++)
                    *at++ = pixel(first + i, c, y, x);
    }
    write_file(path, data, count * record);
    free(data);
}

/* Replaces `path` by a file packed by gzip, without its last `cut` bytes. */
static void pack(const char *path, long cut)
{
    char packed[4096];
    static uint8_t data[1 << 16];
    FILE *file = fopen(path, "rb");
    size_t size = fread(data, 1, sizeof(data), file);
    gzFile to;

    fclose(file);
    snprintf(packed, sizeof(packed), "%s.gz", path);
    to = gzopen(packed, "wb");
    assert_int_equal(gzwrite(to, data, (unsigned)size), size);
    assert_int_equal(gzclose(to), Z_OK);
    unlink(path);
    file = fopen(packed, "rb");
    fseek(file, 0, SEEK_END);
    assert_int_equal(truncate(packed, ftell(file) - cut), 0);
    fclose(file);
}

static void empty(char *folder)
{
    static const char *const names[] = {"data_batch_1.bin",
                                        "data_batch_2.bin",
                                        "data_batch_3.bin",
                                        "data_batch_4.bin",
                                        "data_batch_5.bin",
                                        "train.bin",
                                        "train.bin.gz",
                                        "t10k-images-idx3-ubyte",
                                        "t10k-labels-idx1-ubyte",
                                        "test.bin",
                                        "test.bin.gz",
                                        "test_batch.bin",
                                        "data_batch_1",
                                        "test.mat"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unlink(path_in(folder, names[i]));
    assert_int_equal(rmdir(folder), 0);
    free(folder);
}

static crt_status_t open_set(const char *name, const char *source, crt_split_t split,
                             crt_dataset_t **set_out)
{
    return crt_images_open(crt_image_format(name), source, split, 0, set_out);
}

/* ---------------------------------------------------------------- files */

static void planes_become_pixels_and_the_fine_label_counts(void **state)
{
    char *folder = new_folder();
    crt_dataset_t *set;
    const uint8_t *pixels, *labels;

    write_records(path_in(folder, "train.bin"), 0, 5, 2);
    assert_ok(open_set("cifar100", folder, CRT_SPLIT_TRAIN, &set));
    assert_int_equal(crt_dataset_count(set), 5);
    assert_int_equal(crt_dataset_classes(set), 100);
    pixels = crt_dataset_features(set)->data;
    labels = crt_dataset_labels(set)->data;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(labels[i], i);
        for (size_t c = 0; c < 3; c++)
            assert_int_equal(pixels[i * PIXELS + (7 * 32 + 20) * 3 + c],
                             pixel(i, c, 7, 20));
    }
    crt_dataset_drop(&set);
    empty(folder);
}

static void five_batches_are_one_set(void **state)
{
    char *folder = new_folder(), name[32];
    crt_dataset_t *set;

    for (size_t i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "data_batch_%zu.bin", i + 1);
        write_records(path_in(folder, name), 2 * i, 2, 1);
    }
    write_records(path_in(folder, "test_batch.bin"), 3, 1, 1);
    pack(path_in(folder, "data_batch_5.bin"), 0);
    assert_ok(open_set("cifar10", folder, CRT_SPLIT_TRAIN, &set));
    assert_int_equal(crt_dataset_count(set), 10);
    assert_int_equal(((uint8_t *)crt_dataset_labels(set)->data)[9], 9);
    crt_dataset_drop(&set);
    assert_ok(open_set("cifar10", folder, CRT_SPLIT_TEST, &set));
    assert_int_equal(crt_dataset_count(set), 1);
    crt_dataset_drop(&set);
    unlink(path_in(folder, "data_batch_5.bin.gz"));
    assert_fails(open_set("cifar10", folder, CRT_SPLIT_TRAIN, &set), CRT_ERR_NOT_FOUND,
                 "data_batch_5.bin");
    empty(folder);
}

static void other_forms_of_cifar_are_named_with_the_one_that_is_wanted(void **state)
{
    char *folder = new_folder();
    crt_dataset_t *set;

    write_file(path_in(folder, "data_batch_1"), "\x80\x02}", 3);
    write_file(path_in(folder, "test.mat"), "MATLAB", 6);
    assert_fails(
        open_set("cifar10", folder, CRT_SPLIT_TRAIN, &set), CRT_ERR_UNSUPPORTED,
        "data_batch_1: the Python version of CIFAR-10, pickled objects; download its "
        "binary version, cifar-10-binary.tar.gz, which has data_batch_1.bin");
    assert_fails(
        open_set("cifar100", folder, CRT_SPLIT_TEST, &set), CRT_ERR_UNSUPPORTED,
        "test.mat: the Matlab version of CIFAR-100, matrices; download its binary "
        "version, cifar-100-binary.tar.gz, which has test.bin");
    write_records(path_in(folder, "train.bin"), 0, 1, 1);
    assert_ok(open_set("cifar10", folder, CRT_SPLIT_TRAIN, &set));
    crt_dataset_drop(&set);
    empty(folder);
}

static void limit_keeps_the_first_images(void **state)
{
    char *folder = new_folder();
    crt_dataset_t *set;

    write_records(path_in(folder, "test.bin"), 0, 5, 1);
    pack(path_in(folder, "test.bin"), 0);
    assert_ok(crt_images_open(crt_image_format("svhn"), folder, CRT_SPLIT_TEST, 2, &set));
    assert_int_equal(crt_dataset_count(set), 2);
    crt_dataset_drop(&set);
    empty(folder);
}

static void bad_files_are_refused_with_the_reason(void **state)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "train.bin");
    crt_dataset_t *set = NULL;

    assert_fails(open_set("cifar10", folder, CRT_SPLIT_TRAIN, &set), CRT_ERR_NOT_FOUND,
                 "train.bin, plain or .gz");
    write_records(path, 8, 3, 1);
    assert_fails(open_set("cifar10", folder, CRT_SPLIT_TRAIN, &set), CRT_ERR_CORRUPT,
                 "the label of image 2 is 10, not below 10");
    assert_fails(open_set("cifar100", folder, CRT_SPLIT_TRAIN, &set), CRT_ERR_CORRUPT,
                 "9219 bytes, not one or more records of 3074");
    write_records(path, 0, 3, 1);
    assert_int_equal(truncate(path, 9000), 0);
    assert_fails(open_set("cifar10", folder, CRT_SPLIT_TRAIN, &set), CRT_ERR_CORRUPT,
                 "cut short, or not images of 32x32");
    assert_int_equal(truncate(path, 0), 0);
    assert_fails(open_set("cifar10", folder, CRT_SPLIT_TRAIN, &set), CRT_ERR_CORRUPT,
                 "0 bytes");
    write_records(path, 0, 3, 1);
    pack(path, 5);
    assert_fails(open_set("cifar10", folder, CRT_SPLIT_TRAIN, &set), CRT_ERR_CORRUPT,
                 "cut short");
    assert_null(set);
    empty(folder);
}

static void idx_images_of_another_size_are_refused(void **state)
{
    static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0,
                                     2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6},
                         labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 7};
    char *folder = new_folder();
    crt_dataset_t *set;

    write_file(path_in(folder, "t10k-images-idx3-ubyte"), images, sizeof(images));
    write_file(path_in(folder, "t10k-labels-idx1-ubyte"), labels, sizeof(labels));
    assert_fails(open_set("mnist", folder, CRT_SPLIT_TEST, &set), CRT_ERR_CORRUPT,
                 "images of 6 pixels; those of mnist have 28x28");
    empty(folder);
}

static void every_set_can_be_drawn(void **state)
{
    static const char *const names[] = {"mnist", "cifar10", "cifar100", "svhn"};

    for (size_t i = 0; i < 4; i++) {
        const crt_image_format_t *format = crt_image_format(names[i]);
        crt_dataset_t *few, *more;
        size_t size = 20 * (size_t)(format->height * format->width * format->channels);

        assert_ok(crt_images_open(format, "builtin", CRT_SPLIT_TRAIN, 20, &few));
        assert_ok(crt_images_open(format, "builtin", CRT_SPLIT_TRAIN, 30, &more));
        assert_int_equal(crt_dataset_count(few), 20);
        assert_int_equal(crt_dataset_classes(few), format->classes);
        assert_memory_equal(crt_dataset_features(few)->data,
                            crt_dataset_features(more)->data, size);
        assert_memory_equal(crt_dataset_labels(few)->data, crt_dataset_labels(more)->data,
                            20);
        crt_dataset_drop(&few);
        crt_dataset_drop(&more);
    }
    assert_null(crt_image_format("imagenet"));
}

/* ---------------------------------------------------------------- batches */

/* Small images of which every pixel is different. */
static const crt_image_format_t small = {.struct_size = sizeof(crt_image_format_t),
                                         .name = "small",
                                         .height = 5,
                                         .width = 6,
                                         .channels = 2,
                                         .classes = 10,
                                         .mean = {0.5f, 0.25f},
                                         .deviation = {0.5f, 2},
                                         .padding = 2,
                                         .mirrors = true,
                                         .flips = true};

static uint8_t small_pixels[60], small_label[1] = {4};

static crt_dataset_t *one_small_image(void)
{
    int64_t shape[4] = {1, 5, 6, 2};
    crt_tensor_t x = crt_tensor_view(CRT_DTYPE_UINT8, 4, shape, small_pixels);
    crt_tensor_t y = crt_tensor_view(CRT_DTYPE_UINT8, 1, shape, small_label);
    crt_dataset_t *set;

    for (int i = 0; i < 60; i++)
        small_pixels[i] = (uint8_t)(i * 4);
    assert_ok(crt_dataset_new(&x, &y, 10, &set));
    return set;
}

static int within(int at, int size, bool mirrors)
{
    if (mirrors)
        return abs(at) < size ? abs(at) : 2 * (size - 1) - at;
    return at >= 0 && at < size ? at : -1;
}

/* Whether `got` is the image cut at (left, top), perhaps turned. */
static bool is_cut(const crt_image_format_t *f, const float *got, int left, int top,
                   bool turned)
{
    for (int y = 0; y < 5; y++)
        for (int x = 0; x < 6; x++)
            for (int c = 0; c < 2; c++) {
                int row = within(top + y, 5, f->mirrors);
                int column = within(left + (turned ? 5 - x : x), 6, f->mirrors);
                double byte =
                    row < 0 || column < 0 ? 0 : small_pixels[(row * 6 + column) * 2 + c];
                double want = (byte / 255 - (double)f->mean[c]) / (double)f->deviation[c];

                if (fabs((double)got[(y * 6 + x) * 2 + c] - want) > 1e-5)
                    return false;
            }
    return true;
}

/* Every crop is one of the 25 times 2 there can be, and all of these come. */
static void check_crops(bool mirrors)
{
    crt_image_format_t format = small;
    crt_dataset_t *set = one_small_image();
    crt_image_batches_t *batches;
    int seen[50] = {0}, kinds = 0;

    format.mirrors = mirrors;
    assert_ok(crt_image_batches_new(
        &format, set,
        CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 1, .seed = 3, .training = true),
        &batches));
    for (int i = 0; i < 600; i++) {
        const crt_batch_t *batch = crt_image_batches_next(batches);
        int kind = 0;

        while (kind < 50 && !is_cut(&format, batch->inputs.data, kind / 2 % 5 - 2,
                                    kind / 10 - 2, kind % 2))
            kind++;
        assert_true(kind < 50);
        kinds += seen[kind]++ == 0;
    }
    assert_int_equal(kinds, 50);
    crt_image_batches_drop(&batches);
    crt_dataset_drop(&set);
}

static void crops_are_mirrored_at_the_edge_or_black_and_half_are_turned(void **state)
{
    check_crops(true);
    check_crops(false);
}

static void images_for_a_test_are_whole_and_in_order(void **state)
{
    const crt_image_format_t *format = crt_image_format("svhn");
    crt_dataset_t *set;
    crt_image_batches_t *batches;
    const crt_batch_t *batch;
    const uint8_t *pixels;

    assert_ok(crt_images_open(format, "builtin", CRT_SPLIT_TEST, 10, &set));
    pixels = crt_dataset_features(set)->data;
    assert_ok(crt_image_batches_new(
        format, set, CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 4, .ahead = 2), &batches));
    assert_int_equal(crt_image_batches_per_pass(batches), 3);
    for (size_t n = 0; n < 3; n++) {
        batch = crt_image_batches_next(batches);
        assert_int_equal(batch->inputs.shape[0], n < 2 ? 4 : 2);
        assert_memory_equal(batch->labels.data,
                            (uint8_t *)crt_dataset_labels(set)->data + 4 * n,
                            (size_t)batch->labels.shape[0]);
        assert_float_equal(
            ((float *)batch->inputs.data)[100],
            ((float)pixels[4 * n * PIXELS + 100] / 255 - 0.4822f) / 0.1994f, 1e-5f);
    }
    assert_int_equal(crt_image_batches_next(batches)->inputs.shape[0], 4);
    crt_image_batches_drop(&batches);
    crt_dataset_drop(&set);
}

#define BATCHES 23

/* 50 images in batches of 8: 7 in a pass. */
static crt_image_batches_t *training_batches(const crt_dataset_t *set, int ahead)
{
    crt_image_batches_t *batches;

    assert_ok(
        crt_image_batches_new(crt_image_format("cifar10"), set,
                              CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 8, .seed = 5,
                                                        .training = true, .ahead = ahead),
                              &batches));
    return batches;
}

static double sum_of(const crt_batch_t *batch)
{
    const float *x = batch->inputs.data;
    double sum = 0;

    for (int64_t i = 0; i < batch->inputs.shape[0] * batch->inputs.shape[1]; i++)
        sum += (double)x[i] * (double)(i % 1009);
    return sum;
}

static void batch_n_is_the_same_however_it_is_reached(void **state)
{
    crt_dataset_t *set;
    crt_image_batches_t *batches;
    double sums[BATCHES];

    assert_ok(crt_images_open(crt_image_format("cifar10"), "builtin", CRT_SPLIT_TRAIN, 50,
                              &set));
    batches = training_batches(set, 0);
    for (size_t i = 0; i < BATCHES; i++)
        sums[i] = sum_of(crt_image_batches_next(batches));
    crt_image_batches_drop(&batches);
    batches = training_batches(set, 3);
    for (size_t i = 0; i < BATCHES; i++)
        assert_true(sum_of(crt_image_batches_next(batches)) == sums[i]);
    for (size_t i = 0; i < 60; i++) { /* before, after and where it is */
        size_t to = i * 7 % BATCHES;

        crt_image_batches_seek(batches, to);
        assert_int_equal(crt_image_batches_number(batches), to);
        assert_true(sum_of(crt_image_batches_next(batches)) == sums[to]);
    }
    crt_image_batches_drop(&batches);
    assert_true(sums[0] != sums[7]); /* passes differ */
    crt_dataset_drop(&set);
}

static void every_pass_has_every_image_once(void **state)
{
    crt_dataset_t *set;
    crt_image_batches_t *batches;
    uint8_t labels[50];
    const int64_t count = 50;
    crt_tensor_t names = crt_tensor_view(CRT_DTYPE_UINT8, 1, &count, labels), pixels;
    int64_t shape[2] = {50, PIXELS};
    uint8_t *memory = calloc(50, PIXELS);

    for (size_t i = 0; i < 50; i++)
        labels[i] = (uint8_t)i;
    pixels = crt_tensor_view(CRT_DTYPE_UINT8, 2, shape, memory);
    assert_ok(crt_dataset_new(&pixels, &names, 100, &set));
    assert_ok(crt_image_batches_new(
        crt_image_format("cifar100"), set,
        CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 8, .training = true, .ahead = 1),
        &batches));
    for (int pass = 0; pass < 3; pass++) {
        int seen[50] = {0};

        for (int n = 0; n < 7; n++) {
            const crt_batch_t *batch = crt_image_batches_next(batches);

            for (int64_t i = 0; i < batch->labels.shape[0]; i++)
                seen[((uint8_t *)batch->labels.data)[i]]++;
        }
        for (int i = 0; i < 50; i++)
            assert_int_equal(seen[i], 1);
    }
    crt_image_batches_drop(&batches);
    crt_dataset_drop(&set);
    free(memory);
}

static void threads_end_with_their_batches(void **state)
{
    crt_dataset_t *set;

    assert_ok(crt_images_open(crt_image_format("cifar10"), "builtin", CRT_SPLIT_TRAIN, 20,
                              &set));
    for (int i = 0; i < 200; i++) {
        crt_image_batches_t *batches = training_batches(set, 1 + i % 5);

        for (int k = 0; k < i % 3; k++)
            crt_image_batches_next(batches);
        crt_image_batches_drop(&batches);
    }
    crt_dataset_drop(&set);
}

static void images_of_another_shape_are_refused(void **state)
{
    crt_dataset_t *set;
    crt_image_batches_t *batches = NULL;

    assert_ok(
        crt_images_open(crt_image_format("mnist"), "builtin", CRT_SPLIT_TEST, 5, &set));
    assert_fails(crt_image_batches_new(crt_image_format("svhn"), set,
                                       CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 1),
                                       &batches),
                 CRT_ERR_INVALID, "samples of 784 uint8; images of svhn are 32x32x3");
    assert_fails(crt_image_batches_new(crt_image_format("mnist"), set,
                                       CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 0),
                                       &batches),
                 CRT_ERR_INVALID, "batches of 0");
    assert_fails(crt_image_batches_new(
                     crt_image_format("mnist"), set,
                     CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 1, .ahead = 65), &batches),
                 CRT_ERR_INVALID, "65 ahead");
    assert_null(batches);
    crt_dataset_drop(&set);
}

/* The drawings are of use for tests of training: not too hard, and not a matter of colour alone. */
static void drawn_images_can_be_learnt(void **state)
{
    const crt_image_format_t *format = crt_image_format("cifar10");
    const int widths[] = {PIXELS, 64, 10, 0};
    crt_dataset_t *train, *test;
    crt_image_batches_t *batches;
    crt_model_t *model;
    crt_optimizer_t *adam;
    const crt_batch_t *batch;
    float probabilities[500 * 10];
    int64_t shape[2] = {500, 10};
    crt_tensor_t out = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, probabilities);
    int right = 0;

    assert_ok(crt_images_open(format, "builtin", CRT_SPLIT_TRAIN, 1000, &train));
    assert_ok(crt_images_open(format, "builtin", CRT_SPLIT_TEST, 500, &test));
    assert_ok(crt_mlp_new(widths, 0, 1, &model));
    assert_ok(crt_adam_new(model, 0.001, &adam));
    assert_ok(crt_image_batches_new(
        format, train, CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 50, .training = true),
        &batches));
    for (int i = 0; i < 60; i++) {
        assert_ok(crt_model_compute_gradients(
            model, NULL, crt_image_batches_next(batches), NULL, NULL));
        assert_ok(crt_optimizer_apply(adam, model, NULL, 0, NULL));
    }
    crt_image_batches_drop(&batches);
    assert_ok(crt_image_batches_new(
        format, test, CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 500), &batches));
    batch = crt_image_batches_next(batches);
    assert_ok(crt_model_predict(model, NULL, &batch->inputs, &out));
    for (int i = 0; i < 500; i++) {
        const float *p = probabilities + 10 * i;
        int best = 0;

        for (int k = 1; k < 10; k++)
            best = p[k] > p[best] ? k : best;
        right += best == ((uint8_t *)batch->labels.data)[i];
    }
    printf("    %d of 500 after 60 steps\n", right);
    assert_in_range(right, 200, 490);
    crt_image_batches_drop(&batches);
    crt_optimizer_drop(&adam);
    crt_model_drop(&model);
    crt_dataset_drop(&train);
    crt_dataset_drop(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planes_become_pixels_and_the_fine_label_counts),
        cmocka_unit_test(five_batches_are_one_set),
        cmocka_unit_test(other_forms_of_cifar_are_named_with_the_one_that_is_wanted),
        cmocka_unit_test(limit_keeps_the_first_images),
        cmocka_unit_test(bad_files_are_refused_with_the_reason),
        cmocka_unit_test(idx_images_of_another_size_are_refused),
        cmocka_unit_test(every_set_can_be_drawn),
        cmocka_unit_test(crops_are_mirrored_at_the_edge_or_black_and_half_are_turned),
        cmocka_unit_test(images_for_a_test_are_whole_and_in_order),
        cmocka_unit_test(batch_n_is_the_same_however_it_is_reached),
        cmocka_unit_test(every_pass_has_every_image_once),
        cmocka_unit_test(threads_end_with_their_batches),
        cmocka_unit_test(images_of_another_shape_are_refused),
        cmocka_unit_test(drawn_images_can_be_learnt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
