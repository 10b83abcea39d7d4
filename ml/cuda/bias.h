/* SPDX-License-Identifier: Apache-2.0 */
/* Bias: the b of dense layers and convolutions. */
#ifndef CRTI_ML_CUDA_BIAS_H
#define CRTI_ML_CUDA_BIAS_H

#include "ml/cuda/cuda.h"

/* y += b of each channel */
static inline void crti_cuda_add_bias(const crti_layer_t *layer,
                                      const crti_layer_pass_t *s, const float *bias)
{
    crti_cuda_grid_t grid = crti_cuda_grid(crti_cuda_of(layer), s->rows, layer->out);

    crti_cuda_run(crti_cuda_of(layer), CRTI_KERNEL_add_bias,
                  (size_t)s->rows * crti_shape_size(layer->out),
                  (void *[]){(void *)&s->y, &bias, &grid});
}

/* Its gradient: the sums of each channel. */
static inline void crti_cuda_bias_gradient(const crti_layer_t *layer,
                                           const crti_layer_pass_t *s, float *gradient)
{
    crti_cuda_grid_t grid = crti_cuda_grid(crti_cuda_of(layer), s->rows, layer->out);
    float factor = 1 / crti_cuda_of(layer)->scale;

    crti_cuda_run_blocks(crti_cuda_of(layer), CRTI_KERNEL_sum_channels,
                         (size_t)layer->out.channels, 128,
                         (void *[]){&gradient, (void *)&s->dy, &grid, &factor});
}

#endif
