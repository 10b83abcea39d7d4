/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm: a warp for each place. `kept` is as on the host: means, and one over the
 * deviations. */
#include "ml/cuda/affine.h"

#define WARP    32
#define THREADS 256 /* of sums: as in tokens.cu */

static crt_status_t prepare(crti_layer_t *layer, int rows, bool training)
{
    (void)training;
    layer->workspace = crti_cuda_partials(rows * (int)crti_shape_places(layer->in[0]),
                                          2 * (size_t)layer->out.channels);
    return CRT_OK;
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int rows = crti_layer_rows(layer, s), width = layer->out.channels;
    float epsilon = (float)layer->spec.epsilon;

    crti_cuda_run(crti_cuda_of(layer), CRTI_KERNEL_layer_norm_forward,
                  (size_t)rows * WARP,
                  (void *[]){(void *)&s->y, (void *)&s->kept, (void *)&s->x[0],
                             (void *)&s->params, &rows, &width, &epsilon});
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    int rows = crti_layer_rows(layer, s), width = layer->out.channels;
    int blocks = crti_cuda_partial_blocks(rows);

    crti_cuda_run_blocks(c, CRTI_KERNEL_layer_norm_sums, (size_t)blocks, THREADS,
                         (void *[]){(void *)&s->workspace, (void *)&s->dy,
                                    (void *)&s->x[0], (void *)&s->kept, &rows, &width});
    crti_cuda_sum_partials(c, s->dparams, s->workspace, blocks, 2 * width, 1 / c->scale);
    if (s->dx[0])
        crti_cuda_run(c, CRTI_KERNEL_layer_norm_backward, (size_t)rows * WARP,
                      (void *[]){(void *)&s->dx[0], (void *)&s->dy, (void *)&s->x[0],
                                 (void *)&s->params, (void *)&s->kept, &rows, &width});
}

const crti_layer_ops_t crti_cuda_layer_norm = {.name = "layer_norm",
                                               .dx_in_place = true,
                                               .prepare = prepare,
                                               .forward = forward,
                                               .backward = backward};
