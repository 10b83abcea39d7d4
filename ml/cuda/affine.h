/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices by cuBLAS, sums of columns, and what dense layers and maxout are made of.
 *
 * Where it sits
 *     dense.c, maxout.c, attention.c, parser.c -> [ affine ] -> cuBLAS, tokens.cu
 */
#ifndef CRTI_ML_CUDA_AFFINE_H
#define CRTI_ML_CUDA_AFFINE_H

#include "ml/cuda/cuda.h"

/* A matrix as it lies in memory, row after row, `stride` numbers from one to the next. A turned one
 * is used with rows for columns. */
typedef struct crti_cuda_matrix {
    const void *data;
    int stride;
    bool is_turned;
    long long next; /* numbers to the next matrix of a batch */
} crti_cuda_matrix_t;

/* to(rows, cols) = factor * a(rows, inner) b(inner, cols), for each of a batch. */
typedef struct crti_cuda_product {
    int rows, cols, inner;
    float factor;
    crti_cuda_matrix_t a, b, to;
    cudaDataType_t from_type, to_type;
    int count;
} crti_cuda_product_t;

void crti_cuda_multiply(crti_cuda_t *c, const crti_cuda_product_t *product);

/* The type of outputs, for cuBLAS. */
static inline cudaDataType_t crti_cuda_blas_type(const crti_cuda_t *c)
{
    return c->mixed ? CUDA_R_16F : CUDA_R_32F;
}

/* Columns [at, at + cols) of rows of `stride` numbers. */
typedef struct crti_cuda_columns {
    const void *data;
    int rows, cols, stride, at;
} crti_cuda_columns_t;

/* Floats that sums of `sums` numbers from so many rows need on the way. */
size_t crti_cuda_partials(int rows, size_t sums);

/* sums[i] = factor times the sum of column i, of outputs or of floats. */
void crti_cuda_sum_columns(crti_cuda_t *c, float *sums, const crti_cuda_columns_t *x,
                           bool are_floats, float *partials, float factor);

/* How many blocks make partial sums of so many rows; and their sums. */
int crti_cuda_partial_blocks(int rows);
void crti_cuda_sum_partials(crti_cuda_t *c, float *sums, const float *partials,
                            int blocks, int count, float factor);

/* A layer's y(rows, outs) = x(rows, ins) W'(outs, ins) + b, without b; x is the layer's, y may be
 * something else. The first `outs` * `ins` parameters are W, then comes b. */
typedef struct crti_cuda_affine {
    int rows, outs, ins;
} crti_cuda_affine_t;

/* Floats of workspace for any of these. */
size_t crti_cuda_affine_workspace(const crti_cuda_t *c, const crti_cuda_affine_t *shape);
void crti_cuda_affine(const crti_layer_t *layer, const crti_layer_pass_t *s,
                      const crti_cuda_affine_t *shape, float *y);
void crti_cuda_affine_gradients(const crti_layer_t *layer, const crti_layer_pass_t *s,
                                const crti_cuda_affine_t *shape, const float *dy);
void crti_cuda_affine_inputs(const crti_layer_t *layer, const crti_layer_pass_t *s,
                             const crti_cuda_affine_t *shape, const float *dy);

#endif
