/* SPDX-License-Identifier: Apache-2.0 */
/* What is said when a GPU has too little memory, its driver is too old, or a library is: on the
 * stand-in of fake_cuda/, which does as its variables say. */
#include "ml_test.h"

#include <crt_ml_gpu.h>
#include <crt_networks.h>

#include "ml/model.h"

static crt_model_t *new_model(const char *name)
{
    crt_model_t *model;

    assert_ok(crt_network_by_name(name, NULL, 10, 5, &model));
    return model;
}

/* Finds it the first time that a model moves, so it comes first. */
static void a_library_without_a_function_is_too_old(void **state)
{
    crt_model_t *model = new_model("mlp");
    char *right = strdup(getenv("CRT_CUBLAS_LIBRARY"));

    setenv("CRT_CUBLAS_LIBRARY", "libc.so.6", 1);
    assert_fails(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32), CRT_ERR_UNSUPPORTED,
                 "cuBLAS is too old: it has no function cublasCreate_v2");
    assert_non_null(strstr(crt_error_detail(), "CRT_CUBLAS_LIBRARY"));
    setenv("CRT_CUBLAS_LIBRARY", right, 1);
    assert_ok(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32));
    crt_model_drop(&model);
    free(right);
}

static void a_driver_that_is_older_than_the_runtime_is_told(void **state)
{
    crt_model_t *model = new_model("mlp");

    setenv("FAKE_CUDA_DRIVER", "11080", 1);
    assert_fails(
        crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32), CRT_ERR_UNSUPPORTED,
        "its driver is made for CUDA 11.8, and the CUDA runtime is 12.4; update the "
        "driver, or set CRT_CUDART_LIBRARY to the file of a libcudart.so.11");
    unsetenv("FAKE_CUDA_DRIVER");
    assert_int_equal(crt_model_gpu(model), -1);
    crt_model_drop(&model);
}

static void without_a_gpu_cuda_says_why(void **state)
{
    crt_model_t *model = new_model("mlp");

    setenv("FAKE_GPU_COUNT", "0", 1);
    assert_fails(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32), CRT_ERR_UNSUPPORTED,
                 "no GPU can be used: CUDA says: no CUDA-capable device is detected");
    unsetenv("FAKE_GPU_COUNT");
    crt_model_drop(&model);
}

/* 118,282 parameters are 0.5 MiB: with their gradients they fit in, with what Adam keeps not. */
static void memory_that_is_not_there_is_told_with_those_who_hold_it(void **state)
{
    crt_model_t *model = new_model("mlp");
    crt_optimizer_t *o;

    setenv("FAKE_GPU_MIB", "100", 1);
    setenv("FAKE_GPU_OTHERS_MIB", "98", 1);
    assert_ok(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32));
    setenv("FAKE_GPU_OTHERS_MIB", "99", 1);
    assert_fails(
        crt_adam_new(model, 0.01, &o), CRT_ERR_NO_MEMORY,
        "GPU 0 has no memory for an optimizer of 118282 parameters: 0.9 MiB wanted, 0 of "
        "100 MiB are free; process 1 (");
    assert_non_null(
        strstr(crt_error_detail(), ") holds 99 MiB; this process holds 0 MiB"));
    unsetenv("FAKE_GPU_OTHERS_MIB");
    assert_ok(crt_adam_new(model, 0.01, &o));
    crt_optimizer_drop(&o);
    crt_model_drop(&model);
    unsetenv("FAKE_GPU_MIB");
}

static void a_model_that_is_too_large_stays_on_the_host(void **state)
{
    crt_model_t *model = new_model("lenet");

    setenv("FAKE_GPU_MIB", "1", 1);
    setenv("CRT_NVML_LIBRARY", "/nonexistent/libnvidia-ml.so.1", 1);
    assert_fails(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32), CRT_ERR_NO_MEMORY,
                 "GPU 0 has no memory for a model of 431080 parameters: 3.3 MiB wanted");
    assert_null(strstr(crt_error_detail(), "holds"));
    assert_int_equal(crt_model_gpu(model), -1);
    setenv("CRT_NVML_LIBRARY", getenv("CRT_CUDART_LIBRARY"), 1);
    unsetenv("FAKE_GPU_MIB");
    assert_ok(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32));
    crt_model_drop(&model);
}

/* Of a transformer, attention needs the most; a smaller batch fits in afterwards. */
static void a_batch_that_is_too_large_names_the_layer(void **state)
{
    crt_model_t *model = new_model("vit");
    float *x = calloc(64 * 784, sizeof(*x));
    crt_tensor_t in = crt_tensor_view(CRT_DTYPE_FLOAT32, 2, (int64_t[]){64, 784}, x), out;

    assert_non_null(x);
    setenv("FAKE_GPU_MIB", "16", 1);
    assert_ok(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32));
    assert_fails(crt_model_forward(model, NULL, &in, NULL, true, &out), CRT_ERR_NO_MEMORY,
                 "GPU 0 has no memory for outputs of 64 samples, the largest of layer 8 "
                 "(attention): ");
    assert_non_null(strstr(crt_error_detail(), " MiB wanted, "));
    in.shape[0] = 2;
    assert_ok(crt_model_forward(model, NULL, &in, NULL, true, &out));
    crt_model_drop(&model);
    free(x);
    unsetenv("FAKE_GPU_MIB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_without_a_function_is_too_old),
        cmocka_unit_test(a_driver_that_is_older_than_the_runtime_is_told),
        cmocka_unit_test(without_a_gpu_cuda_says_why),
        cmocka_unit_test(memory_that_is_not_there_is_told_with_those_who_hold_it),
        cmocka_unit_test(a_model_that_is_too_large_stays_on_the_host),
        cmocka_unit_test(a_batch_that_is_too_large_names_the_layer),
    };

    return cmocka_run_group_tests_name("gpu limits", tests, NULL, NULL);
}
