/* SPDX-License-Identifier: Apache-2.0 */
/* Mish: y = x tanh(log(1 + e^x)); from THRESHOLD on y = x, as Thinc has it. */
#include <math.h>

#include "ml/layer.h"

#define THRESHOLD 20

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = (size_t)s->rows * crti_shape_size(layer->out);
    const float *x = s->x[0];

    for (size_t i = 0; i < count; i++)
        s->y[i] = x[i] < THRESHOLD ? x[i] * tanhf(log1pf(expf(x[i]))) : x[i];
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = s->dx[0] ? (size_t)s->rows * crti_shape_size(layer->out) : 0;
    const float *x = s->x[0];

    for (size_t i = 0; i < count; i++) {
        float e = expf(x[i]), t = tanhf(log1pf(e));

        s->dx[0][i] = x[i] < THRESHOLD ? s->dy[i] * (t + x[i] * (1 - t * t) * e / (1 + e))
                                       : s->dy[i];
    }
}

const crti_layer_ops_t crti_layer_mish = {.name = "mish",
                                          .dx_in_place = true,
                                          .shape = crti_layer_same_shape,
                                          .forward = forward,
                                          .backward = backward};
