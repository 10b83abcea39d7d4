/* SPDX-License-Identifier: Apache-2.0 */
/* GELU: y = x * Phi(x), Phi the normal distribution's; exact, as PyTorch's is by default. */
#include <math.h>

#include "ml/layer.h"

static float below(float x)
{
    return 0.5f * (1 + erff(x * 0.70710678f));
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = (size_t)s->rows * crti_shape_size(layer->out);
    const float *x = s->x[0];

    for (size_t i = 0; i < count; i++)
        s->y[i] = x[i] * below(x[i]);
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = s->dx[0] ? (size_t)s->rows * crti_shape_size(layer->out) : 0;
    const float *x = s->x[0];

    for (size_t i = 0; i < count; i++)
        s->dx[0][i] =
            s->dy[i] * (below(x[i]) + x[i] * 0.39894228f * expf(-0.5f * x[i] * x[i]));
}

const crti_layer_ops_t crti_layer_gelu = {.name = "gelu",
                                          .dx_in_place = true,
                                          .shape = crti_layer_same_shape,
                                          .forward = forward,
                                          .backward = backward};
