/* SPDX-License-Identifier: Apache-2.0 */
/* Dense layer: y = x W' + b.
 *
 * Parameters: W (outputs, inputs) row major, then b (outputs). Reference numbers:
 * tests/ml/recorded.h.
 */
#include "ml/layer.h"

#include <math.h>
#include <string.h>

#include "ml/matrix.h"

static void init(const crti_layer_t *layer, float *params, crti_random_t *random)
{
    size_t weights = crti_layer_weights(layer);
    float limit = (float)sqrt(6.0 / ((double)layer->outputs + (double)layer->inputs));

    memset(params, 0, (weights + crti_layer_biases(layer)) * sizeof(float));
    if (layer->spec.init == CRT_LAYER_ZERO)
        return;
    for (size_t i = 0; i < weights; i++)
        params[i] = crti_random_between(random, -limit, limit);
}

static void forward(const crti_layer_t *layer, const float *params, int rows,
                    const float *x, float *y, crti_random_t *random)
{
    (void)random;
    crti_matrix_affine(rows, layer->outputs, layer->inputs, x, params,
                       params + crti_layer_weights(layer), y);
}

static void backward(const crti_layer_t *layer, const float *params, int rows,
                     const float *x, const float *y, const float *dy, float *dparams,
                     float *dx)
{
    (void)y;
    if (dparams)
        crti_matrix_affine_gradients(rows, layer->outputs, layer->inputs, x, dy, dparams,
                                     dparams + crti_layer_weights(layer));
    if (dx)
        crti_matrix_affine_inputs(rows, layer->outputs, layer->inputs, dy, params, dx);
}

const crti_layer_ops_t crti_layer_dense = {.name = "dense",
                                           .has_weights = true,
                                           .init = init,
                                           .forward = forward,
                                           .backward = backward};
