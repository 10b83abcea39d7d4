/* SPDX-License-Identifier: Apache-2.0 */
/* Layer norm: y = (x - mean) / sqrt(variance + epsilon) * gain + bias over the channels of each
 * place.
 *
 * Parameters: gain (channels), then bias (channels). `kept` holds mean and 1 / deviation of each
 * place.
 */
#include "ml/layer.h"

#include <math.h>
#include <string.h>

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    if (!(layer->spec.epsilon > 0 && layer->spec.epsilon < 1))
        return crt_raise(CRT_ERR_INVALID, "layer %zu: epsilon %g is not in (0, 1)", index,
                         layer->spec.epsilon);
    layer->out = layer->in[0];
    layer->kept_per_row = 2 * crti_shape_places(layer->in[0]);
    crti_layer_add_array(layer, 1, layer->out.channels);
    crti_layer_add_array(layer, 1, layer->out.channels);
    return CRT_OK;
}

static void init(const crti_layer_t *layer, float *params, crti_random_t *random)
{
    (void)random;
    for (int i = 0; i < layer->out.channels; i++) {
        params[i] = 1;
        params[layer->out.channels + i] = 0;
    }
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int width = layer->out.channels, rows = crti_layer_rows(layer, s);
    const float *gain = s->params, *bias = gain + width, *x = s->x[0];
    float *y = s->y;

    for (int i = 0; i < rows; i++, x += width, y += width) {
        float mean = 0, square = 0, scale;

        for (int j = 0; j < width; j++)
            mean += x[j];
        mean /= (float)width;
        for (int j = 0; j < width; j++)
            square += (x[j] - mean) * (x[j] - mean);
        scale = 1.0f / sqrtf(square / (float)width + (float)layer->spec.epsilon);
        for (int j = 0; j < width; j++)
            y[j] = (x[j] - mean) * scale * gain[j] + bias[j];
        s->kept[2 * i] = mean;
        s->kept[2 * i + 1] = scale;
    }
}

/* dx = scale * (g - mean(g) - xhat * mean(g * xhat)), g = dy * gain */
static void backward_row(int width, const float *gain, const float *kept, const float *x,
                         const float *dy, float *dx)
{
    float mean = kept[0], scale = kept[1], sum = 0, dot = 0;

    for (int j = 0; j < width; j++) {
        float g = dy[j] * gain[j];

        sum += g;
        dot += g * (x[j] - mean);
    }
    sum /= (float)width;
    dot *= scale * scale / (float)width;
    for (int j = 0; j < width; j++)
        dx[j] = scale * (dy[j] * gain[j] - sum - (x[j] - mean) * dot);
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int width = layer->out.channels, rows = crti_layer_rows(layer, s);
    float *dgain = s->dparams, *dbias = dgain + width;

    memset(dgain, 0, 2 * (size_t)width * sizeof(float));
    for (int i = 0; i < rows; i++) {
        size_t at = (size_t)i * (size_t)width;
        const float *x = s->x[0] + at, *dy = s->dy + at, *kept = s->kept + 2 * (size_t)i;

        for (int j = 0; j < width; j++) {
            dgain[j] += dy[j] * (x[j] - kept[0]) * kept[1];
            dbias[j] += dy[j];
        }
        if (s->dx[0])
            backward_row(width, s->params, kept, x, dy, s->dx[0] + at);
    }
}

const crti_layer_ops_t crti_layer_norm = {.name = "layer_norm",
                                          .dx_in_place = true,
                                          .shape = shape,
                                          .init = init,
                                          .forward = forward,
                                          .backward = backward};
