/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPUs a host has, and what the options of a node make of them. */
#include "runtime/node/host/gpus.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/node/options.h"

#include <cmocka.h>

static const char *found(const char *visible, const char *root)
{
    static char text[CRTI_GPU_TEXT];
    crti_gpus_t gpus;

    crti_gpus_find(visible, root, NULL, &gpus);
    return crti_gpus_format(&gpus, UINT64_MAX, text);
}

static void what_cuda_may_see_is_found_under_its_own_names(void **state)
{
    assert_string_equal(found("2,0", ""), "2,0");
    assert_string_equal(found("GPU-1a2b-3c,MIG-77/1/0", ""), "GPU-1a2b-3c,MIG-77/1/0");
    assert_string_equal(found("", ""), "");
    assert_string_equal(found("-1", ""), "");
    assert_string_equal(found("1,-1,2", ""), "1"); /* what follows is hidden */
    assert_string_equal(found("1,1", ""), "1");
    assert_string_equal(found("NoDevFiles", ""), "");
    assert_string_equal(found("GPU-a\nb", ""), "");
}

static void make_file(const char *root, const char *name)
{
    char path[200];
    int fd;

    snprintf(path, sizeof(path), "%s/dev/%s", root, name);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void remove_all(const char *root, const char *const *names, size_t count)
{
    char path[200];

    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/dev/%s", root, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    snprintf(path, sizeof(path), "%s/dev", root);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(root), 0);
}

static void each_device_file_is_one_gpu_and_cuda_counts_them_from_0(void **state)
{
    static const char *const names[] = {"nvidia3",    "nvidia5", "nvidiactl",
                                        "nvidia-uvm", "nvidia",  "null"};
    char root[] = "/tmp/crt-gpus-XXXXXX", path[200];

    assert_non_null(mkdtemp(root));
    assert_string_equal(found(NULL, root), "");
    snprintf(path, sizeof(path), "%s/dev", root);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        make_file(root, names[i]);
    assert_string_equal(found(NULL, root), "0,1");
    assert_string_equal(found("7", root), "7");
    remove_all(root, names, sizeof(names) / sizeof(names[0]));
}

/* ---------------------------------------------------------------- NVML */

static crti_nvml_t answer;

/* What the stand-in says of such GPUs. */
static crt_status_t ask(const char *gpus)
{
    setenv("CRT_NVML_LIBRARY", CRTI_TEST_NVML, 1);
    if (gpus)
        setenv("FAKE_NVML", gpus, 1);
    else
        unsetenv("FAKE_NVML");
    return crti_nvml_read(&answer);
}

static void a_library_that_is_missing_or_another_one_is_named(void **state)
{
    setenv("CRT_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
    assert_int_equal(crti_nvml_read(&answer), CRT_ERR_UNSUPPORTED);
    assert_non_null(strstr(crt_error_detail(), "/nonexistent/libnvidia-ml.so.1"));
    setenv("CRT_NVML_LIBRARY", "libc.so.6", 1);
    assert_int_equal(crti_nvml_read(&answer), CRT_ERR_UNSUPPORTED);
    assert_non_null(strstr(crt_error_detail(), "libc.so.6 has no function nvmlInit_v2"));
    assert_int_equal(ask(NULL), CRT_ERR_UNSUPPORTED);
    assert_non_null(strstr(crt_error_detail(), "Driver Not Loaded"));
    assert_int_equal(answer.count, 0);
}

static const char *asked(const char *visible, const char *gpus)
{
    static char text[CRTI_GPU_TEXT];
    crti_gpus_t found;

    assert_int_equal(ask(gpus), CRT_OK);
    crti_gpus_find(visible, "/nonexistent", &answer, &found);
    return crti_gpus_format(&found, UINT64_MAX, text);
}

static void gpus_of_nvml_are_numbered_unless_one_can_not_be_used_whole(void **state)
{
    assert_string_equal(asked(NULL, "NVIDIA H100|NVIDIA H100"), "0,1");
    assert_string_equal(asked("1", "NVIDIA H100|NVIDIA H100"), "1");
    assert_string_equal(asked(NULL, "/NVIDIA A30"), "");
    assert_string_equal(asked(NULL, "NVIDIA A30|/NVIDIA A30|!|NVIDIA A30"),
                        "GPU-00000000-aaaa-bbbb-cccc-000000000000,"
                        "GPU-00000003-aaaa-bbbb-cccc-000000000003");
}

static const char *type_of(const char *visible, const char *gpus)
{
    static char type[CRTI_GPU_TYPE];
    crti_gpus_t found;

    assert_int_equal(ask(gpus), CRT_OK);
    crti_gpus_find(visible, "/nonexistent", &answer, &found);
    return crti_gpus_type(&found, &answer, type);
}

static void the_type_is_that_of_the_first_gpu_and_called_as_in_ray(void **state)
{
    static const char *const types[][2] = {
        {"NVIDIA H100 80GB HBM3", "H100"},
        {"Tesla V100-SXM2-16GB", "V100"},
        {"NVIDIA A10G", "A10G"},
        {"NVIDIA GeForce RTX 3090", "GeForce-RTX-3090"},
        {"NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada-Generation"},
        {"TITAN V (X), 12=GB", "TITAN-V--X---12-GB"},
        {"/NVIDIA A30", "A30"},
        {"!", ""},
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        assert_string_equal(type_of(NULL, types[i][0]), types[i][1]);
    assert_string_equal(type_of("1", "Tesla T4|NVIDIA L4"), "L4");
    assert_string_equal(type_of("GPU-00000001", "Tesla T4|NVIDIA L4"), "L4");
    assert_string_equal(type_of("MIG-7", "Tesla T4|NVIDIA L4"), "T4");
}

/* ---------------------------------------------------------------- options */

static crt_status_t parse(const char *option, const char *value, const char *more,
                          crti_options_t *options)
{
    char *argv[] = {"crt-node",    "--address",   "h:1",        "--key-file",
                    "f",           "--num-cpus",  "1",          (char *)option,
                    (char *)value, "--resources", (char *)more, NULL};

    return crti_options_parse(more ? 11 : 9, argv, options);
}

static int64_t count(const crti_options_t *options)
{
    return crti_resources_get(&options->resources, "GPU");
}

static void options_say_how_many_gpus_a_node_has_and_what_they_are_called(void **state)
{
    char text[CRTI_GPU_TEXT];
    crti_options_t o;

    setenv("CUDA_VISIBLE_DEVICES", "3,5", 1);
    assert_int_equal(parse("--share", "1", NULL, &o), CRT_OK);
    assert_int_equal(count(&o), 20000);
    assert_int_equal(parse("--share", "2", NULL, &o), CRT_OK);
    assert_int_equal(count(&o), 0);
    assert_int_equal(parse("--num-gpus", "1", NULL, &o), CRT_OK);
    assert_string_equal(crti_gpus_format(&o.gpus, 3, text), "3");
    assert_int_equal(parse("--num-gpus", "4", NULL, &o), CRT_OK);
    assert_int_equal(count(&o), 40000);
    assert_string_equal(crti_gpus_format(&o.gpus, 15, text), "3,5,0,1");
    assert_string_equal(crti_gpus_format(&o.gpus, 6, text), "5,0");
    assert_int_equal(parse("--share", "1", "gpu=1,disk=1", &o), CRT_OK);
    assert_int_equal(count(&o), 10000);
    assert_string_equal(crti_gpus_format(&o.gpus, UINT64_MAX, text), "3");
    assert_int_equal(parse("--num-gpus", "0", NULL, &o), CRT_OK);
    assert_int_equal(count(&o), 0);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void the_type_of_the_gpus_is_a_label_of_the_node(void **state)
{
    char long_label[140], labels[CRTI_LABELS_SIZE];
    crti_options_t o;

    ask("NVIDIA L4|NVIDIA L4|NVIDIA L4");
    assert_int_equal(parse("--labels", "zone=a", NULL, &o), CRT_OK);
    assert_int_equal(count(&o), 30000);
    assert_string_equal(o.labels, "zone=a,ray.io/accelerator-type=L4");
    assert_int_equal(parse("--num-gpus", "2", NULL, &o), CRT_OK);
    assert_int_equal(count(&o), 20000);
    assert_string_equal(o.labels, "ray.io/accelerator-type=L4");
    assert_int_equal(parse("--num-gpus", "0", NULL, &o), CRT_OK);
    assert_string_equal(o.labels, "");
    assert_int_equal(parse("--share", "2", NULL, &o), CRT_OK);
    assert_int_equal(count(&o), 0);
    assert_string_equal(o.labels, "");
    assert_int_equal(parse("--labels", "ray.io/accelerator-type=own", NULL, &o), CRT_OK);
    assert_string_equal(o.labels, "ray.io/accelerator-type=own");
    assert_string_equal(o.gpu_trouble, "");
    *labels = '\0';
    for (char c = 'a'; c < 'e'; c++) { /* 4 x 126, with commas 503 of 511 bytes */
        memset(long_label, c, 125);
        long_label[62] = '=';
        long_label[125] = c < 'd' ? ',' : '\0';
        long_label[126] = '\0';
        strcat(labels, long_label);
    }
    assert_int_equal(parse("--labels", labels, NULL, &o), CRT_OK);
    assert_string_equal(o.labels, labels);
}

static void why_nvml_can_not_be_asked_is_kept_and_device_files_count(void **state)
{
    crti_options_t o;

    setenv("CRT_TEST_HOST", "/nonexistent", 1);
    ask(NULL);
    assert_int_equal(parse("--num-gpus", "2", NULL, &o), CRT_OK);
    assert_int_equal(count(&o), 20000);
    assert_non_null(strstr(o.gpu_trouble, "Driver Not Loaded"));
    assert_string_equal(o.labels, "");
    unsetenv("CRT_NVML_LIBRARY"); /* a host that a test plays has no driver */
    assert_int_equal(parse("--share", "1", NULL, &o), CRT_OK);
    assert_int_equal(count(&o), 0);
    assert_string_equal(o.gpu_trouble, "");
    unsetenv("CRT_TEST_HOST");
}

static void gpus_that_can_not_be_are_refused(void **state)
{
    static const char *const wrong[][3] = {
        {"--num-gpus", "65", NULL},   {"--num-gpus", "-1", NULL},
        {"--num-gpus", "0.5", NULL},  {"--num-gpus", "nan", NULL},
        {"--share", "1", "GPU=0.5"},  {"--share", "1", "GPU=65"},
        {"--num-gpus", "1", "gpu=1"},
    };
    crti_options_t o;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(parse(wrong[i][0], wrong[i][1], wrong[i][2], &o),
                         CRT_ERR_INVALID);
        assert_true(strstr(crt_error_detail(), "gpus") ||
                    strstr(crt_error_detail(), "GPU"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cuda_may_see_is_found_under_its_own_names),
        cmocka_unit_test(each_device_file_is_one_gpu_and_cuda_counts_them_from_0),
        cmocka_unit_test(a_library_that_is_missing_or_another_one_is_named),
        cmocka_unit_test(gpus_of_nvml_are_numbered_unless_one_can_not_be_used_whole),
        cmocka_unit_test(the_type_is_that_of_the_first_gpu_and_called_as_in_ray),
        cmocka_unit_test(the_type_of_the_gpus_is_a_label_of_the_node),
        cmocka_unit_test(why_nvml_can_not_be_asked_is_kept_and_device_files_count),
        cmocka_unit_test(options_say_how_many_gpus_a_node_has_and_what_they_are_called),
        cmocka_unit_test(gpus_that_can_not_be_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
