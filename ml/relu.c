/* SPDX-License-Identifier: Apache-2.0 */
/* ReLU: y = max(x, 0); the gradient passes where y > 0. */
#include "ml/layer.h"

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = (size_t)s->rows * crti_shape_size(layer->out);
    const float *x = s->x[0];

    for (size_t i = 0; i < count; i++)
        s->y[i] = x[i] > 0 ? x[i] : 0;
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = s->dx[0] ? (size_t)s->rows * crti_shape_size(layer->out) : 0;

    for (size_t i = 0; i < count; i++)
        s->dx[0][i] = s->y[i] > 0 ? s->dy[i] : 0;
}

const crti_layer_ops_t crti_layer_relu = {.name = "relu",
                                          .in_place = true,
                                          .dx_in_place = true,
                                          .needs_y = true,
                                          .shape = crti_layer_same_shape,
                                          .forward = forward,
                                          .backward = backward};
