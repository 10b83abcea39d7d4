/* SPDX-License-Identifier: Apache-2.0 */
/* Weights files: a round trip, and every kind of damage. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ml/file.h"
#include "ml/weights.h"

#include "ml_test.h"

static const int widths[] = {3, 4, 2, 0};

static crt_model_t *new_model(const int *shape, uint64_t seed)
{
    crt_model_t *model;

    assert_ok(crt_mlp_new(shape, 0, seed, &model));
    return model;
}

static int files_in(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;

    while (readdir(dir))
        count++;
    closedir(dir);
    return count - 2;
}

static void loaded_weights_are_the_saved_ones(void **state)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "w");
    crt_model_t *a = new_model(widths, 1), *b = new_model(widths, 2);
    size_t size = crt_model_parameters(a) * sizeof(float);
    struct stat info;

    assert_ok(crt_model_save(b, path));
    assert_ok(crt_model_save(a, path)); /* over the other one */
    assert_ok(crt_model_load(b, path));
    assert_memory_equal(crt_model_weights(a)->data, crt_model_weights(b)->data, size);
    assert_int_equal(files_in(folder), 1);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0644);
    unlink(path);
    rmdir(folder);
    free(folder);
    crt_model_drop(&a);
    crt_model_drop(&b);
}

static void each_changed_byte_and_each_cut_is_corrupt_and_changes_nothing(void **state)
{
    crt_model_t *from = new_model(widths, 1), *model = new_model(widths, 2);
    size_t size, bytes = crt_model_parameters(model) * sizeof(float);
    unsigned char *data, *before = malloc(bytes);

    memcpy(before, crt_model_weights(model)->data, bytes);
    assert_ok(crti_weights_encode(from, &data, &size));
    for (size_t i = 0; i < size; i++) {
        data[i] ^= 0x10;
        assert_int_equal(crti_weights_decode(model, "w", data, size), CRT_ERR_CORRUPT);
        data[i] ^= 0x10;
        assert_int_equal(crti_weights_decode(model, "w", data, i), CRT_ERR_CORRUPT);
    }
    assert_memory_equal(before, crt_model_weights(model)->data, bytes);
    assert_ok(crti_weights_decode(model, "w", data, size));
    free(data);
    free(before);
    crt_model_drop(&from);
    crt_model_drop(&model);
}

static void damage_is_told_from_foreign_files_and_other_shapes(void **state)
{
    static const int wider[] = {3, 5, 2, 0}, deeper[] = {3, 4, 4, 2, 0};
    static const char text[] = "this is some other file, long enough to hold a header";
    char *folder = new_folder();
    const char *path = path_in(folder, "w");
    crt_model_t *model = new_model(widths, 1);
    crt_model_t *wide = new_model(wider, 1), *deep = new_model(deeper, 1);

    assert_fails(crt_model_load(model, path), CRT_ERR_NOT_FOUND, "No such file");
    write_file(path, text, sizeof(text));
    assert_fails(crt_model_load(model, path), CRT_ERR_CORRUPT,
                 "not a file of crt weights");
    write_file(path, "", 0);
    assert_fails(crt_model_load(model, path), CRT_ERR_CORRUPT, "0 bytes");
    assert_ok(crt_model_save(model, path));
    assert_fails(crt_model_load(wide, path), CRT_ERR_INVALID,
                 "array 0 is 4 x 3, the model's 5 x 3");
    assert_fails(crt_model_load(deep, path), CRT_ERR_INVALID,
                 "4 arrays, the model has 6");
    assert_int_equal(truncate(path, 60), 0);
    assert_fails(crt_model_load(model, path), CRT_ERR_CORRUPT, "cut short: 60 of");
    unlink(path);
    rmdir(folder);
    free(folder);
    crt_model_drop(&model);
    crt_model_drop(&wide);
    crt_model_drop(&deep);
}

static void failed_save_leaves_nothing_behind(void **state)
{
    char *folder = new_folder();
    const char *path = path_in(folder, "w");
    crt_model_t *model = new_model(widths, 1);

    assert_int_equal(mkdir(path, 0700), 0); /* a file can't replace a folder */
    assert_fails(crt_model_save(model, path), CRT_ERR_IO, "rename");
    assert_int_equal(files_in(folder), 1);
    rmdir(path);
    assert_fails(crt_model_save(model, "/nonexistent/w"), CRT_ERR_NOT_FOUND,
                 "/nonexistent/w: create: No such file");
    rmdir(folder);
    free(folder);
    crt_model_drop(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaded_weights_are_the_saved_ones),
        cmocka_unit_test(each_changed_byte_and_each_cut_is_corrupt_and_changes_nothing),
        cmocka_unit_test(damage_is_told_from_foreign_files_and_other_shapes),
        cmocka_unit_test(failed_save_leaves_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
