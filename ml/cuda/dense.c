/* SPDX-License-Identifier: Apache-2.0 */
/* Dense layer and maxout: a product by cuBLAS, and kernels of ours. As on the host, the gradient of
 * a maxout goes to the first of its largest pieces; `kept` holds the pieces, without their biases,
 * and the backward pass makes their gradients of them. */
#include "ml/cuda/affine.h"
#include "ml/cuda/bias.h"

static crti_cuda_affine_t shape_of(const crti_layer_t *layer, int samples)
{
    int pieces = layer->spec.kind == CRT_LAYER_MAXOUT ? layer->spec.pieces : 1;

    return (crti_cuda_affine_t){samples * (int)crti_shape_places(layer->in[0]),
                                layer->out.channels * pieces, layer->in[0].channels};
}

static crt_status_t prepare(crti_layer_t *layer, int rows, bool training)
{
    crti_cuda_affine_t shape = shape_of(layer, rows);

    (void)training;
    layer->workspace = crti_cuda_affine_workspace(crti_cuda_of(layer), &shape);
    return CRT_OK;
}

/* ---------------------------------------------------------------- dense */

static void dense_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_affine_t shape = shape_of(layer, s->rows);

    crti_cuda_affine(layer, s, &shape, s->y);
    crti_cuda_add_bias(layer, s, s->params + (size_t)shape.outs * (size_t)shape.ins);
}

static void dense_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_affine_t shape = shape_of(layer, s->rows);

    if (s->dparams)
        crti_cuda_affine_gradients(layer, s, &shape, s->dy);
    if (s->dx[0])
        crti_cuda_affine_inputs(layer, s, &shape, s->dy);
}

/* ---------------------------------------------------------------- maxout */

/* Both kernels go over outputs, and read the pieces with their biases. */
static void run_pieces(const crti_layer_t *layer, const crti_layer_pass_t *s,
                       crti_cuda_kernel_t kernel, void *first, void *second)
{
    crti_cuda_affine_t shape = shape_of(layer, s->rows);
    const float *bias = s->params + (size_t)shape.outs * (size_t)shape.ins;
    unsigned long long count =
        (unsigned long long)shape.rows * (size_t)layer->out.channels;
    int outs = layer->out.channels, pieces = layer->spec.pieces;

    crti_cuda_run(crti_cuda_of(layer), kernel, count,
                  (void *[]){&first, &second, &bias, &count, &outs, &pieces});
}

static void maxout_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_affine_t shape = shape_of(layer, s->rows);

    crti_cuda_affine(layer, s, &shape, s->kept);
    run_pieces(layer, s, CRTI_KERNEL_maxout_forward, s->y, s->kept);
}

static void maxout_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_affine_t shape = shape_of(layer, s->rows);

    if (s->dparams) {
        run_pieces(layer, s, CRTI_KERNEL_maxout_backward, s->kept,
                   (void *)(uintptr_t)s->dy);
        crti_cuda_affine_gradients(layer, s, &shape, s->kept);
    }
    if (s->dx[0])
        crti_cuda_affine_inputs(layer, s, &shape, s->kept);
}

const crti_layer_ops_t crti_cuda_dense = {.name = "dense",
                                          .splits = true,
                                          .prepare = prepare,
                                          .forward = dense_forward,
                                          .backward = dense_backward};
const crti_layer_ops_t crti_cuda_maxout = {.name = "maxout",
                                           .splits = true,
                                           .prepare = prepare,
                                           .forward = maxout_forward,
                                           .backward = maxout_backward};
