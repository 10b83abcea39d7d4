/* SPDX-License-Identifier: Apache-2.0 */
#include "ml/matrix.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <crt_ml.h>

#include <cblas.h>

/* ---------------------------------------------------------------- its kernels */

/* Exported by OpenBLAS where it is built with kernels for many processors, but in none of its
 * headers. */
void gotoblas_dynamic_init(void) __attribute__((weak));
void gotoblas_dynamic_quit(void) __attribute__((weak));

#if defined(__x86_64__)
static const char *kernels_of_processor(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "Haswell"
                                                                           : NULL;
}

/* OpenBLAS knows processors by their model numbers, and takes SSE3 for one that is newer than
 * itself: 0.3.21 on an Emerald Rapids does a product of 512 x 512 at a fifth of the speed that it
 * has with the kernels for AVX-512. What a user asks for by OPENBLAS_CORETYPE is obeyed. Before
 * main, since nobody may compute while the kernels change. */
__attribute__((constructor)) static void choose_kernels(void)
{
    static const char name[] = "OPENBLAS_CORETYPE";
    const char *wanted;

    __builtin_cpu_init();
    wanted = kernels_of_processor();
    if (!wanted || getenv(name) || !gotoblas_dynamic_init || !gotoblas_dynamic_quit ||
        strcmp(openblas_get_corename(), "Prescott") != 0)
        return;
    if (setenv(name, wanted, 1) != 0)
        return;
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    unsetenv(name);
}
#endif

/* ---------------------------------------------------------------- threads and products */

void crt_ml_set_threads(int threads)
{
    openblas_set_num_threads(threads < 1 ? 1 : threads);
}

int crti_matrix_threads(void)
{
    return openblas_get_num_threads();
}

void crti_matrix_affine(int rows, int outs, int ins, const float *x, const float *w,
                        const float *b, float *y)
{
    for (int i = 0; i < rows; i++)
        memcpy(y + (size_t)i * (size_t)outs, b, (size_t)outs * sizeof(float));
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, rows, outs, ins, 1, x, ins, w,
                ins, 1, y, outs);
}

void crti_matrix_affine_gradients(int rows, int outs, int ins, const float *x,
                                  const float *dy, float *dw, float *db)
{
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, outs, ins, rows, 1, dy, outs, x,
                ins, 0, dw, ins);
    memset(db, 0, (size_t)outs * sizeof(float));
    for (int i = 0; i < rows; i++, dy += outs)
        for (int j = 0; j < outs; j++)
            db[j] += dy[j];
}

void crti_matrix_affine_inputs(int rows, int outs, int ins, const float *dy,
                               const float *w, float *dx)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, ins, outs, 1, dy, outs,
                w, ins, 0, dx, ins);
}

void crti_matrix_product(int rows, int cols, int inner, float scale, crti_matrix_view_t a,
                         crti_matrix_view_t b, float *c, int stride)
{
    cblas_sgemm(CblasRowMajor, a.is_turned ? CblasTrans : CblasNoTrans,
                b.is_turned ? CblasTrans : CblasNoTrans, rows, cols, inner, scale, a.data,
                a.stride, b.data, b.stride, 0, c, stride);
}

static crt_status_t check_place(const crt_tensor_t *tensor, int device, const char *what)
{
    if (crt_tensor_gpu(tensor) == device)
        return CRT_OK;
    if (crt_tensor_gpu(tensor) == -1)
        return crt_raise(CRT_ERR_INVALID, "%s lie in host memory, not on GPU %d", what,
                         device);
    return device == -1
               ? crt_raise(CRT_ERR_INVALID, "%s lie on GPU %d, not in host memory", what,
                           crt_tensor_gpu(tensor))
               : crt_raise(CRT_ERR_INVALID, "%s lie on GPU %d, not on GPU %d", what,
                           crt_tensor_gpu(tensor), device);
}

static crt_status_t check_dense(const crt_tensor_t *tensor, int device, crt_dtype_t dtype,
                                const char *what)
{
    if (tensor->dtype != dtype)
        return crt_raise(CRT_ERR_INVALID, "%s are %s, not %s", what,
                         crt_dtype_name(tensor->dtype), crt_dtype_name(dtype));
    if (tensor->rank < 0 || tensor->rank > CRT_TENSOR_DIMS ||
        !crt_tensor_is_dense(tensor))
        return crt_raise(CRT_ERR_INVALID, "%s are not dense", what);
    return check_place(tensor, device, what);
}

crt_status_t crti_matrix_check_flat_at(const crt_tensor_t *tensor, int device,
                                       size_t count, const char *what)
{
    crt_status_t status = check_dense(tensor, device, CRT_DTYPE_FLOAT32, what);

    if (status != CRT_OK)
        return status;
    if (crt_tensor_count(tensor) != count)
        return crt_raise(CRT_ERR_INVALID, "%s have %zu numbers, the model has %zu", what,
                         crt_tensor_count(tensor), count);
    return CRT_OK;
}

crt_status_t crti_matrix_check_flat(const crt_tensor_t *tensor, size_t count,
                                    const char *what)
{
    return crti_matrix_check_flat_at(tensor, -1, count, what);
}

crt_status_t crti_matrix_check_rows_at(const crt_tensor_t *tensor, int device,
                                       crt_dtype_t dtype, size_t cols, const char *what)
{
    int place = crt_tensor_gpu(tensor) == -1 ? -1 : device;
    crt_status_t status = check_dense(tensor, place, dtype, what);
    size_t count = status == CRT_OK ? crt_tensor_count(tensor) : 0;

    if (status != CRT_OK)
        return status;
    if (tensor->rank < 1 || tensor->shape[0] < 1 || tensor->shape[0] > INT_MAX ||
        count != (size_t)tensor->shape[0] * cols)
        return crt_raise(CRT_ERR_INVALID,
                         "%s have %zu numbers in %lld rows, not %zu each", what, count,
                         tensor->rank < 1 ? 0 : (long long)tensor->shape[0], cols);
    return CRT_OK;
}

crt_status_t crti_matrix_check_rows(const crt_tensor_t *tensor, crt_dtype_t dtype,
                                    size_t cols, const char *what)
{
    return crti_matrix_check_rows_at(tensor, -1, dtype, cols, what);
}
