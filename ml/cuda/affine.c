/* SPDX-License-Identifier: Apache-2.0 */
/* Products and sums. See ml/cuda/affine.h. cuBLAS reads matrices by columns: one of ours is to it
 * the same one turned, and so is a product: to' = b' a'.
 *
 * With outputs of float16 each pass makes a copy of the weights in that type; their gradient is
 * float all the same.
 */
#include "ml/cuda/affine.h"

#define PARTIAL_BLOCKS 128 /* at most, of the first step of a sum */
#define STRIP_THREADS  256 /* as in tokens.cu */

/* ---------------------------------------------------------------- products */

static cublasOperation_t operation(const crti_cuda_matrix_t *m)
{
    return m->is_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
}

static cublasStatus_t multiply_many(crti_cuda_t *c, const crti_cuda_product_t *p)
{
    const float none = 0;

    return c->api->cublasGemmStridedBatchedEx(
        c->blas, operation(&p->b), operation(&p->a), p->cols, p->rows, p->inner,
        &p->factor, p->b.data, p->from_type, p->b.stride, p->b.next, p->a.data,
        p->from_type, p->a.stride, p->a.next, &none, (void *)(uintptr_t)p->to.data,
        p->to_type, p->to.stride, p->to.next, p->count, CUBLAS_COMPUTE_32F,
        CUBLAS_GEMM_DEFAULT);
}

void crti_cuda_multiply(crti_cuda_t *c, const crti_cuda_product_t *p)
{
    const float none = 0;
    cublasStatus_t status =
        p->count > 1
            ? multiply_many(c, p)
            : c->api->cublasGemmEx(c->blas, operation(&p->b), operation(&p->a), p->cols,
                                   p->rows, p->inner, &p->factor, p->b.data, p->from_type,
                                   p->b.stride, p->a.data, p->from_type, p->a.stride,
                                   &none, (void *)(uintptr_t)p->to.data, p->to_type,
                                   p->to.stride, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);

    crti_cuda_did_blas(c, status, "a product of matrices");
}

/* ---------------------------------------------------------------- sums */

int crti_cuda_partial_blocks(int rows)
{
    return rows < PARTIAL_BLOCKS ? rows : PARTIAL_BLOCKS;
}

size_t crti_cuda_partials(int rows, size_t sums)
{
    return (size_t)crti_cuda_partial_blocks(rows) * sums;
}

void crti_cuda_sum_partials(crti_cuda_t *c, float *sums, const float *partials,
                            int blocks, int count, float factor)
{
    crti_cuda_run(c, CRTI_KERNEL_sum_partials, (size_t)count,
                  (void *[]){&sums, &partials, &blocks, &count, &factor});
}

void crti_cuda_sum_columns(crti_cuda_t *c, float *sums, const crti_cuda_columns_t *x,
                           bool are_floats, float *partials, float factor)
{
    int blocks = crti_cuda_partial_blocks(x->rows);

    crti_cuda_run_blocks(
        c, are_floats ? CRTI_KERNEL_sum_float_columns : CRTI_KERNEL_sum_columns,
        (size_t)blocks, STRIP_THREADS,
        (void *[]){&partials, (void *)&x->data, (void *)&x->rows, (void *)&x->cols,
                   (void *)&x->stride, (void *)&x->at});
    crti_cuda_sum_partials(c, sums, partials, blocks, x->cols, factor);
}

/* ---------------------------------------------------------------- affine layers */

static size_t weights_of(const crti_cuda_affine_t *shape)
{
    return (size_t)shape->outs * (size_t)shape->ins;
}

size_t crti_cuda_affine_workspace(const crti_cuda_t *c, const crti_cuda_affine_t *shape)
{
    size_t copy = c->mixed ? weights_of(shape) : 0;
    size_t partials = crti_cuda_partials(shape->rows, (size_t)shape->outs);

    return copy > partials ? copy : partials;
}

static const float *weights_for(const crti_layer_t *layer, const crti_layer_pass_t *s,
                                const crti_cuda_affine_t *shape)
{
    crti_cuda_t *c = crti_cuda_of(layer);

    if (!c->mixed)
        return s->params;
    crti_cuda_turn(c, CRTI_KERNEL_load, s->workspace, s->params, 1, weights_of(shape), 1,
                   1);
    return s->workspace;
}

void crti_cuda_affine(const crti_layer_t *layer, const crti_layer_pass_t *s,
                      const crti_cuda_affine_t *shape, float *y)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    cudaDataType_t type = crti_cuda_blas_type(c);

    crti_cuda_multiply(
        c, &(crti_cuda_product_t){.rows = shape->rows,
                                  .cols = shape->outs,
                                  .inner = shape->ins,
                                  .factor = 1,
                                  .a = {.data = s->x[0], .stride = shape->ins},
                                  .b = {.data = weights_for(layer, s, shape),
                                        .stride = shape->ins,
                                        .is_turned = true},
                                  .to = {.data = y, .stride = shape->outs},
                                  .from_type = type,
                                  .to_type = type});
}

void crti_cuda_affine_gradients(const crti_layer_t *layer, const crti_layer_pass_t *s,
                                const crti_cuda_affine_t *shape, const float *dy)
{
    crti_cuda_t *c = crti_cuda_of(layer);

    crti_cuda_multiply(c, &(crti_cuda_product_t){
                              .rows = shape->outs,
                              .cols = shape->ins,
                              .inner = shape->rows,
                              .factor = 1 / c->scale,
                              .a = {.data = dy, .stride = shape->outs, .is_turned = true},
                              .b = {.data = s->x[0], .stride = shape->ins},
                              .to = {.data = s->dparams, .stride = shape->ins},
                              .from_type = crti_cuda_blas_type(c),
                              .to_type = CUDA_R_32F});
    crti_cuda_sum_columns(
        c, s->dparams + weights_of(shape),
        &(crti_cuda_columns_t){dy, shape->rows, shape->outs, shape->outs, 0}, false,
        s->workspace, 1 / c->scale);
}

void crti_cuda_affine_inputs(const crti_layer_t *layer, const crti_layer_pass_t *s,
                             const crti_cuda_affine_t *shape, const float *dy)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    cudaDataType_t type = crti_cuda_blas_type(c);

    crti_cuda_multiply(
        c, &(crti_cuda_product_t){
               .rows = shape->rows,
               .cols = shape->ins,
               .inner = shape->outs,
               .factor = 1,
               .a = {.data = dy, .stride = shape->outs},
               .b = {.data = weights_for(layer, s, shape), .stride = shape->ins},
               .to = {.data = s->dx[0], .stride = shape->ins},
               .from_type = type,
               .to_type = type});
}
