/* SPDX-License-Identifier: Apache-2.0 */
/* Models where there is no GPU, or not the libraries: what is said, and that they stay on the
 * host. */
#include "ml_test.h"

#include <crt_ml_gpu.h>

#include "crt_config.h"
#include "ml/model.h"

#if CRT_HAVE_CUDA_MODELS
#    include "ml/cuda/kernels.h"
#endif

static crt_model_t *new_model(void)
{
    crt_model_t *model;

    assert_ok(crt_mlp_new((const int[]){4, 3, 2, 0}, 0, 1, &model));
    return model;
}

static void without_its_libraries_a_model_stays_on_the_host(void **state)
{
    crt_model_t *model = new_model();
    const void *weights = crt_model_weights(model)->data;

    assert_fails(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32), CRT_ERR_UNSUPPORTED,
                 CRT_HAVE_CUDA_MODELS ? "the CUDA runtime can't be opened"
                                      : "this build has no models on GPUs");
    assert_int_equal(crt_model_gpu(model), -1);
    assert_null(crt_model_stream(model));
    assert_ptr_equal(crt_model_weights(model)->data, weights);
    assert_int_equal(crt_model_weights(model)->device.type, CRT_DEVICE_HOST);
    assert_ok(crt_model_to_host(model));
    crt_model_drop(&model);
}

static void precisions_are_found_by_their_names(void **state)
{
    crt_precision_t precision = CRT_PRECISION_FLOAT32;

    assert_ok(crt_precision_parse("mixed", &precision));
    assert_int_equal(precision, CRT_PRECISION_MIXED);
    assert_ok(crt_precision_parse("tf32", &precision));
    assert_int_equal(precision, CRT_PRECISION_TF32);
    assert_ok(crt_precision_parse("float32", &precision));
    assert_int_equal(precision, CRT_PRECISION_FLOAT32);
    assert_fails(crt_precision_parse("half", &precision), CRT_ERR_INVALID,
                 "no precision is called 'half' (float32, tf32, mixed)");
}

static void weights_of_a_model_on_the_host_are_copied_out(void **state)
{
    crt_model_t *model = new_model();
    size_t count = crt_model_parameters(model);
    float *copy = calloc(count, sizeof(*copy));
    crt_tensor_t out = crt_tensor_floats(copy, count);

    assert_ok(crt_model_copy_tensor(model, crt_model_weights(model), &out));
    assert_memory_equal(copy, crt_model_weights(model)->data, count * sizeof(*copy));
    out.device = crt_device_gpu(0);
    assert_fails(crt_model_copy_tensor(model, crt_model_weights(model), &out),
                 CRT_ERR_INVALID, "a copy from GPU -1 to GPU 0, the model is on GPU -1");
    out = crt_tensor_floats(copy, count - 1);
    assert_fails(crt_model_copy_tensor(model, crt_model_weights(model), &out),
                 CRT_ERR_INVALID, "dense numbers of float32");
    free(copy);
    crt_model_drop(&model);
}

static void a_model_does_not_move_while_it_has_an_optimizer(void **state)
{
    crt_model_t *model = new_model();
    crt_optimizer_t *optimizer;

    assert_ok(crt_sgd_new(model, 0.1, 0, &optimizer));
    assert_fails(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32), CRT_ERR_INVALID,
                 "a model moves before it has an optimizer");
    crt_optimizer_drop(&optimizer);
    crt_model_drop(&model);
}

/* NVRTC needs no GPU. What it does not compile here, it compiles nowhere. */
static void kernels_compile(void **state)
{
#if CRT_HAVE_CUDA_MODELS
    const crti_cuda_api_t *api;
    const void *code, *again;

    if (crti_cuda_compiler(&api) != CRT_OK) {
        printf("    skipped: %s\n", crt_error_detail());
        skip();
    }
    assert_ok(crti_cuda_compile(api, 80, false, &code));
    assert_ok(crti_cuda_compile(api, 80, false, &again));
    assert_ptr_equal(code, again);
    assert_ok(crti_cuda_compile(api, 80, true, &again));
    assert_ptr_not_equal(code, again);
    for (int i = 0; i < CRTI_CUDA_KERNEL_COUNT; i++)
        assert_non_null(
            strstr(crti_cuda_source, crti_cuda_kernel_name((crti_cuda_kernel_t)i)));
    assert_fails(crti_cuda_compile(api, 1, false, &code), CRT_ERR_UNSUPPORTED,
                 "NVRTC compiles no kernels");
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_its_libraries_a_model_stays_on_the_host),
        cmocka_unit_test(precisions_are_found_by_their_names),
        cmocka_unit_test(weights_of_a_model_on_the_host_are_copied_out),
        cmocka_unit_test(a_model_does_not_move_while_it_has_an_optimizer),
        cmocka_unit_test(kernels_compile),
    };

    setenv("CRT_CUDART_LIBRARY", "/nonexistent/libcudart.so", 1);
    return cmocka_run_group_tests_name("gpu refused", tests, NULL, NULL);
}
