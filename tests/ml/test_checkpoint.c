/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints: a training that goes on is the same to the bit; what can be wrong with files and
 * folders. */
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zlib.h>

#include <crt_checkpoint.h>
#include <crt_images.h>

#include "ml_test.h"

typedef struct training {
    crt_dataset_t *set;
    crt_image_batches_t *batches;
    crt_model_t *model;
    crt_optimizer_t *optimizer;
} training_t;

static training_t start(int hidden)
{
    const crt_image_format_t *format = crt_image_format("mnist");
    const int widths[] = {784, hidden, 10, 0};
    training_t t;

    assert_ok(crt_images_open(format, "builtin", CRT_SPLIT_TRAIN, 100, &t.set));
    assert_ok(crt_image_batches_new(
        format, t.set, CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 32, .training = true),
        &t.batches));
    assert_ok(crt_mlp_new(widths, 0.2, 1, &t.model));
    assert_ok(crt_adam_new(t.model, 0.001, &t.optimizer));
    return t;
}

static void finish(training_t *t)
{
    crt_optimizer_drop(&t->optimizer);
    crt_model_drop(&t->model);
    crt_image_batches_drop(&t->batches);
    crt_dataset_drop(&t->set);
}

static void train(training_t *t, uint64_t from, uint64_t to)
{
    crt_image_batches_seek(t->batches, from);
    for (uint64_t step = from; step < to; step++) {
        crt_model_set_seed(t->model, step);
        assert_ok(crt_model_compute_gradients(
            t->model, NULL, crt_image_batches_next(t->batches), NULL, NULL));
        assert_ok(crt_optimizer_apply(t->optimizer, t->model, NULL, 0, NULL));
    }
}

static crt_status_t save(training_t *t, const char *folder, uint64_t step, int keep)
{
    crt_checkpoint_t c =
        CRT_CHECKPOINT(.network = "mlp", .step = step, .seed = 7, .is_last = step == 30);

    return crt_checkpoint_write(folder, &c, t->model, t->optimizer, keep);
}

static int files_in(const char *folder)
{
    DIR *d = opendir(folder);
    int count = 0;

    while (readdir(d))
        count++;
    closedir(d);
    return count - 2;
}

static void empty(char *folder)
{
    char command[4096];

    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
    free(folder);
}

static void training_that_goes_on_is_the_same_to_the_bit(void **state)
{
    char *folder = new_folder(), path[4096];
    training_t whole = start(20), first = start(20), second = start(20);
    size_t bytes = crt_model_parameters(whole.model) * sizeof(float);
    crt_checkpoint_t c;

    train(&whole, 0, 30);
    train(&first, 0, 17);
    assert_ok(save(&first, folder, 17, 0));
    assert_ok(crt_checkpoint_latest(folder, path, sizeof(path)));
    assert_ok(
        crt_checkpoint_read(path, "mlp", second.model, second.optimizer, sizeof(c), &c));
    assert_int_equal(c.step, 17);
    assert_int_equal(c.seed, 7);
    assert_false(c.is_last);
    train(&second, c.step, 30);
    assert_memory_equal(crt_model_weights(whole.model)->data,
                        crt_model_weights(second.model)->data, bytes);
    for (int i = 0; i < 2; i++)
        assert_memory_equal(crt_optimizer_state(whole.optimizer, i)->data,
                            crt_optimizer_state(second.optimizer, i)->data, bytes);
    finish(&whole);
    finish(&first);
    finish(&second);
    empty(folder);
}

static void a_description_is_read_without_a_model(void **state)
{
    char *folder = new_folder(), path[4096];
    training_t t = start(4);
    crt_checkpoint_t c = CRT_CHECKPOINT(.network = "mlp", .step = 3, .seed = 7,
                                        .batches = 12, .batch_size = 32);

    assert_ok(crt_checkpoint_write(folder, &c, t.model, t.optimizer, 0));
    assert_ok(crt_checkpoint_latest(folder, path, sizeof(path)));
    assert_ok(crt_checkpoint_read(path, "mlp", NULL, NULL, sizeof(c), &c));
    assert_int_equal(c.step, 3);
    assert_int_equal(c.seed, 7);
    assert_int_equal(c.batches, 12);
    assert_int_equal(c.batch_size, 32);
    assert_fails(crt_checkpoint_read(path, "lenet", NULL, NULL, sizeof(c), &c),
                 CRT_ERR_INVALID, "not 'lenet'");
    finish(&t);
    empty(folder);
}

/* Files of version 2 have no size of a batch, those of version 1 no batches either. */
static void checkpoints_of_earlier_versions_are_read(void **state)
{
    char *folder = new_folder(), path[4096];
    training_t t = start(4);
    crt_checkpoint_t c =
        CRT_CHECKPOINT(.network = "mlp", .step = 3, .batches = 12, .batch_size = 32);
    unsigned char data[65536];
    size_t size;
    FILE *file;

    assert_ok(crt_checkpoint_write(folder, &c, t.model, t.optimizer, 0));
    assert_ok(crt_checkpoint_latest(folder, path, sizeof(path)));
    file = fopen(path, "rb");
    size = fread(data, 1, sizeof(data), file);
    fclose(file);
    assert_true(size > 1000 && size < sizeof(data));
    for (uint32_t version = 2; version > 0; version--) {
        uint32_t sum;

        memcpy(data + 8, &version, sizeof(version));
        memmove(data + 120 + 8 * version, data + 128 + 8 * version,
                size - 128 - 8 * version);
        size -= 8;
        sum = (uint32_t)crc32(0, data, (uInt)(size - 4));
        memcpy(data + size - 4, &sum, 4);
        write_file(path, data, size);
        assert_ok(crt_checkpoint_read(path, "mlp", t.model, t.optimizer, sizeof(c), &c));
        assert_int_equal(c.batches, version == 2 ? 12 : 0);
        assert_int_equal(c.batch_size, 0);
    }
    finish(&t);
    empty(folder);
}

static void newest_are_kept_and_found_in_order(void **state)
{
    static const uint64_t steps[] = {5, 100, 20, 1000000000000, 30};
    char *folder = new_folder(), path[4096];
    training_t t = start(4);
    crt_checkpoint_t c;

    assert_fails(crt_checkpoint_latest(folder, path, sizeof(path)), CRT_ERR_NOT_FOUND,
                 "no checkpoint in");
    write_file(path_in(folder, "step-7.checkpoint"), "x", 1); /* not one of ours */
    for (size_t i = 0; i < 5; i++)
        assert_ok(save(&t, folder, steps[i], 3));
    assert_int_equal(files_in(folder), 4);
    assert_ok(crt_checkpoint_latest(folder, path, sizeof(path)));
    assert_non_null(strstr(path, "step-1000000000000.checkpoint"));
    assert_ok(crt_checkpoint_after(folder, 0, path, sizeof(path)));
    assert_non_null(strstr(path, "step-000000000030.checkpoint"));
    assert_ok(crt_checkpoint_read(path, "mlp", t.model, NULL, sizeof(c), &c));
    assert_true(c.is_last);
    assert_ok(crt_checkpoint_after(folder, 30, path, sizeof(path)));
    assert_non_null(strstr(path, "step-000000000100"));
    assert_fails(crt_checkpoint_after(folder, 1000000000000, path, sizeof(path)),
                 CRT_ERR_NOT_FOUND, "no checkpoint after step");
    assert_ok(crt_checkpoint_before(folder, 1000000000000, path, sizeof(path)));
    assert_non_null(strstr(path, "step-000000000100"));
    assert_ok(crt_checkpoint_before(folder, 31, path, sizeof(path)));
    assert_non_null(strstr(path, "step-000000000030"));
    assert_fails(crt_checkpoint_before(folder, 30, path, sizeof(path)), CRT_ERR_NOT_FOUND,
                 "no checkpoint before step 30");
    finish(&t);
    empty(folder);
    assert_fails(crt_checkpoint_latest("/nonexistent", path, sizeof(path)),
                 CRT_ERR_NOT_FOUND, "No such file");
}

static void checkpoint_of_another_model_is_refused(void **state)
{
    char *folder = new_folder(), path[4096];
    training_t t = start(4), wider = start(5);
    crt_optimizer_t *sgd;
    crt_checkpoint_t c;

    assert_ok(save(&t, folder, 1, 0));
    assert_ok(crt_checkpoint_latest(folder, path, sizeof(path)));
    assert_fails(crt_checkpoint_read(path, "lenet", t.model, t.optimizer, sizeof(c), &c),
                 CRT_ERR_INVALID, "a checkpoint of network 'mlp', not 'lenet'");
    assert_fails(
        crt_checkpoint_read(path, "mlp", wider.model, wider.optimizer, sizeof(c), &c),
        CRT_ERR_INVALID, "3190 parameters, the model has 3985");
    assert_ok(crt_sgd_new(t.model, 0.1, 0.9, &sgd));
    assert_fails(crt_checkpoint_read(path, "mlp", t.model, sgd, sizeof(c), &c),
                 CRT_ERR_INVALID, "a checkpoint of another optimizer");
    crt_optimizer_drop(&sgd);
    finish(&t);
    finish(&wider);
    empty(folder);
}

static void damaged_checkpoint_is_refused_and_nothing_changes(void **state)
{
    char *folder = new_folder(), path[4096];
    training_t t = start(4), other = start(4);
    size_t bytes = crt_model_parameters(t.model) * sizeof(float);
    float *before = malloc(bytes);
    struct stat info;
    FILE *file;
    crt_checkpoint_t c;

    train(&t, 0, 3);
    memcpy(before, crt_model_weights(other.model)->data, bytes);
    assert_ok(save(&t, folder, 3, 0));
    assert_ok(crt_checkpoint_latest(folder, path, sizeof(path)));
    assert_int_equal(stat(path, &info), 0);
    file = fopen(path, "r+b");
    fseek(file, info.st_size / 2, SEEK_SET);
    fputc(0x55, file);
    fclose(file);
    assert_fails(
        crt_checkpoint_read(path, "mlp", other.model, other.optimizer, sizeof(c), &c),
        CRT_ERR_CORRUPT, "the checksum is wrong");
    assert_int_equal(truncate(path, info.st_size - 1), 0);
    assert_fails(
        crt_checkpoint_read(path, "mlp", other.model, other.optimizer, sizeof(c), &c),
        CRT_ERR_CORRUPT, "cut short");
    assert_int_equal(truncate(path, 3), 0);
    assert_fails(
        crt_checkpoint_read(path, "mlp", other.model, other.optimizer, sizeof(c), &c),
        CRT_ERR_CORRUPT, "not a checkpoint, or cut short (3 bytes)");
    assert_memory_equal(before, crt_model_weights(other.model)->data, bytes);
    free(before);
    finish(&t);
    finish(&other);
    empty(folder);
}

/* A limit on the size of files stands for a disk that is full. */
static void full_disk_leaves_the_older_ones_and_no_half_file(void **state)
{
    char *folder = new_folder(), path[4096];
    training_t t = start(4);
    struct rlimit limit, kept;
    crt_checkpoint_t c;
    crt_status_t status;

    assert_ok(save(&t, folder, 1, 1));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &kept), 0);
    limit = kept;
    limit.rlim_cur = 1000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    status = save(&t, folder, 2, 1);
    setrlimit(RLIMIT_FSIZE, &kept);
    assert_int_equal(status, CRT_ERR_IO);
    assert_non_null(strstr(crt_error_detail(), "File too large"));
    assert_int_equal(files_in(folder), 1);
    assert_ok(crt_checkpoint_latest(folder, path, sizeof(path)));
    assert_ok(crt_checkpoint_read(path, "mlp", t.model, t.optimizer, sizeof(c), &c));
    assert_int_equal(c.step, 1);
    finish(&t);
    empty(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_that_goes_on_is_the_same_to_the_bit),
        cmocka_unit_test(a_description_is_read_without_a_model),
        cmocka_unit_test(checkpoints_of_earlier_versions_are_read),
        cmocka_unit_test(newest_are_kept_and_found_in_order),
        cmocka_unit_test(checkpoint_of_another_model_is_refused),
        cmocka_unit_test(damaged_checkpoint_is_refused_and_nothing_changes),
        cmocka_unit_test(full_disk_leaves_the_older_ones_and_no_half_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
