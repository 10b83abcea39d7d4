/* SPDX-License-Identifier: Apache-2.0 */
/* Dense layer by cuBLAS, which reads matrices by columns: a matrix of ours is to it the same one
 * turned.
 *
 * With outputs of float16 each pass makes a copy of the weights in that type; their gradient is
 * float all the same.
 */
#include "ml/cuda/bias.h"

static size_t weights_of(const crti_layer_t *layer)
{
    return (size_t)layer->out.channels * (size_t)layer->in[0].channels;
}

static crt_status_t prepare(crti_layer_t *layer, int rows, bool training)
{
    (void)rows;
    (void)training;
    layer->workspace = crti_cuda_of(layer)->mixed ? weights_of(layer) : 0;
    return CRT_OK;
}

static const float *weights_for(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_t *c = crti_cuda_of(layer);

    if (!c->mixed)
        return s->params;
    crti_cuda_turn(c, CRTI_KERNEL_load, s->workspace, s->params, 1, weights_of(layer), 1,
                   1);
    return s->workspace;
}

static cudaDataType_t type_of(const crti_cuda_t *c)
{
    return c->mixed ? CUDA_R_16F : CUDA_R_32F;
}

/* A matrix of outputs or weights, as cuBLAS sees it: by columns. */
typedef struct operand {
    const float *data;
    bool is_turned;
} operand_t;

/* c(m, n) = factor * a(m, k) b(k, n) */
static void multiply(crti_cuda_t *c, int m, int n, int k, float factor, operand_t a,
                     operand_t b, float *product, cudaDataType_t product_type)
{
    const float none = 0;

    crti_cuda_did_blas(
        c,
        c->api->cublasGemmEx(c->blas, a.is_turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                             b.is_turned ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &factor,
                             a.data, type_of(c), a.is_turned ? k : m, b.data, type_of(c),
                             b.is_turned ? n : k, &none, product, product_type, m,
                             CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "a product of matrices");
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_t *c = crti_cuda_of(layer);

    multiply(c, layer->out.channels, crti_layer_rows(layer, s), layer->in[0].channels, 1,
             (operand_t){weights_for(layer, s), true}, (operand_t){s->x[0], false}, s->y,
             type_of(c));
    crti_cuda_add_bias(layer, s, s->params + weights_of(layer));
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    int rows = crti_layer_rows(layer, s), outs = layer->out.channels;
    int ins = layer->in[0].channels;

    if (s->dparams) {
        multiply(c, ins, outs, rows, 1 / c->scale, (operand_t){s->x[0], false},
                 (operand_t){s->dy, true}, s->dparams, CUDA_R_32F);
        crti_cuda_bias_gradient(layer, s, s->dparams + weights_of(layer));
    }
    if (s->dx[0])
        multiply(c, ins, rows, outs, 1, (operand_t){weights_for(layer, s), false},
                 (operand_t){s->dy, false}, s->dx[0], type_of(c));
}

const crti_layer_ops_t crti_cuda_dense = {.name = "dense",
                                          .splits = true,
                                          .prepare = prepare,
                                          .forward = forward,
                                          .backward = backward};
