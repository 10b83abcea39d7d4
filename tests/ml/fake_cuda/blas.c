/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLAS of the stand-in: products of matrices, which lie by columns. See fake.h. */
#include <cublas_v2.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "runtime/base/half.h"

struct cublasContext {
    cudaStream_t stream;
};

/* op(data) has `rows` rows; a column to the next is `ld` on. */
typedef struct matrix {
    void *data;
    cudaDataType type;
    int ld, rows, cols;
    bool is_turned;
    long long stride; /* to the next of a batch */
} matrix_t;

typedef struct product {
    matrix_t a, b, c;
    float alpha, beta;
    int batches;
} product_t;

static size_t size_of(cudaDataType type)
{
    return type == CUDA_R_16F ? 2 : 4;
}

static float get(const matrix_t *m, size_t i)
{
    return m->type == CUDA_R_16F ? crti_float16_value(((const uint16_t *)m->data)[i])
                                 : ((const float *)m->data)[i];
}

/* op(m), by columns without gaps. */
static float *unpack(const matrix_t *m)
{
    size_t rows = (size_t)m->rows, cols = (size_t)m->cols, ld = (size_t)m->ld;
    float *out = malloc(rows * cols * sizeof(float) + 1);

    for (size_t j = 0; j < cols; j++)
        for (size_t i = 0; i < rows; i++)
            out[j * rows + i] = get(m, m->is_turned ? i * ld + j : j * ld + i);
    return out;
}

static void multiply(const float *a, const float *b, size_t m, size_t n, size_t k,
                     float *c)
{
    memset(c, 0, m * n * sizeof(float));
    for (size_t j = 0; j < n; j++)
        for (size_t p = 0; p < k; p++)
            for (size_t i = 0; i < m; i++)
                c[j * m + i] += a[p * m + i] * b[j * k + p];
}

static void put(const product_t *p, const float *sums)
{
    const matrix_t *c = &p->c;

    for (size_t j = 0; j < (size_t)c->cols; j++)
        for (size_t i = 0; i < (size_t)c->rows; i++) {
            size_t at = j * (size_t)c->ld + i;
            float x = p->alpha * sums[j * (size_t)c->rows + i];

            x += p->beta != 0 ? p->beta * get(c, at) : 0;
            if (c->type == CUDA_R_16F)
                ((uint16_t *)c->data)[at] = crti_float16(x);
            else
                ((float *)c->data)[at] = x;
        }
}

static void advance(matrix_t *m)
{
    m->data = (char *)m->data + m->stride * (long long)size_of(m->type);
}

static void run_product(void *work)
{
    product_t *p = work;
    size_t m = (size_t)p->c.rows, n = (size_t)p->c.cols;
    float *sums = malloc(m * n * sizeof(float) + 1);

    for (int i = 0; i < p->batches; i++) {
        float *a = unpack(&p->a), *b = unpack(&p->b);

        multiply(a, b, m, n, (size_t)p->a.cols, sums);
        put(p, sums);
        free(a);
        free(b);
        advance(&p->a);
        advance(&p->b);
        advance(&p->c);
    }
    free(sums);
    free(p);
}

/* The memory behind a matrix, all of which is device memory. */
static bool resolve(matrix_t *m, int batches)
{
    long long stored = m->is_turned ? m->rows : m->cols;
    long long lines = m->is_turned ? m->cols : m->rows;
    long long last = (batches - 1) * m->stride + (stored - 1) * m->ld + lines;

    if (m->ld < lines || (m->type != CUDA_R_16F && m->type != CUDA_R_32F) ||
        m->stride < 0)
        return false;
    m->data = fake_memory(m->data, (size_t)last * size_of(m->type));
    return m->data != NULL;
}

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t turn_a, cublasOperation_t turn_b, int m,
    int n, int k, const void *alpha, const void *a, cudaDataType a_type, int lda,
    long long a_stride, const void *b, cudaDataType b_type, int ldb, long long b_stride,
    const void *beta, void *c, cudaDataType c_type, int ldc, long long c_stride,
    int batches, cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    product_t *p = calloc(1, sizeof(*p));

    (void)algorithm;
    *p = (product_t){
        .a = {(void *)(uintptr_t)a, a_type, lda, m, k, turn_a == CUBLAS_OP_T, a_stride},
        .b = {(void *)(uintptr_t)b, b_type, ldb, k, n, turn_b == CUBLAS_OP_T, b_stride},
        .c = {c, c_type, ldc, m, n, false, c_stride},
        .alpha = *(const float *)alpha,
        .beta = *(const float *)beta,
        .batches = batches};
    if (m < 1 || n < 1 || k < 1 || batches < 1 || compute != CUBLAS_COMPUTE_32F ||
        a_type != b_type || !resolve(&p->a, batches) || !resolve(&p->b, batches) ||
        !resolve(&p->c, batches)) {
        free(p);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    fake_queue(handle->stream, run_product, p);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t turn_a,
                            cublasOperation_t turn_b, int m, int n, int k,
                            const void *alpha, const void *a, cudaDataType a_type,
                            int lda, const void *b, cudaDataType b_type, int ldb,
                            const void *beta, void *c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    return cublasGemmStridedBatchedEx(handle, turn_a, turn_b, m, n, k, alpha, a, a_type,
                                      lda, 0, b, b_type, ldb, 0, beta, c, c_type, ldc, 0,
                                      1, compute, algorithm);
}

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    *handle = calloc(1, sizeof(**handle));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    (void)handle;
    return mode == CUBLAS_DEFAULT_MATH || mode == CUBLAS_TF32_TENSOR_OP_MATH
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_INVALID_VALUE;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
                                           : "CUBLAS_STATUS_INVALID_VALUE";
}
