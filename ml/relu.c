/* SPDX-License-Identifier: Apache-2.0 */
/* ReLU: y = max(x, 0); the gradient passes where y > 0. */
#include "ml/layer.h"

static void forward(const crti_layer_t *layer, const float *params, int rows,
                    const float *x, float *y, crti_random_t *random)
{
    size_t count = (size_t)rows * (size_t)layer->outputs;

    (void)params;
    (void)random;
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

static void backward(const crti_layer_t *layer, const float *params, int rows,
                     const float *x, const float *y, const float *dy, float *dparams,
                     float *dx)
{
    size_t count = dx ? (size_t)rows * (size_t)layer->outputs : 0;

    (void)params;
    (void)x;
    (void)dparams;
    for (size_t i = 0; i < count; i++)
        dx[i] = y[i] > 0 ? dy[i] : 0;
}

const crti_layer_ops_t crti_layer_relu = {
    .name = "relu", .forward = forward, .backward = backward};
