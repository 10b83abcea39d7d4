/* SPDX-License-Identifier: Apache-2.0 */
/* Window: each row becomes itself with its neighbours, [x(i-w), ..., x(i), ..., x(i+w)].
 *
 * Rows are members of sequences; beyond the ends of a sequence there are zeros.
 */
#include "ml/layer.h"

#include <string.h>

#include "ml/model.h"

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    int window = layer->spec.window, limit = CRTI_MODEL_WIDTH_MAX / 2 - 1;

    if (crti_shape_places(layer->in[0]) != 1)
        return crt_raise(CRT_ERR_INVALID,
                         "layer %zu: a window over samples of %d x %d places", index,
                         layer->in[0].height, layer->in[0].width);
    if (window < 1 || window > limit / layer->in[0].channels)
        return crt_raise(CRT_ERR_INVALID, "layer %zu: a window of %d rows on each side",
                         index, window);
    layer->out = layer->in[0];
    layer->out.channels *= 2 * window + 1;
    return CRT_OK;
}

/* Where the rows around row `i` that exist begin and end; [first, end) is its sequence. */
static void bounds(int i, int first, int end, int window, int *low_out, int *high_out)
{
    *low_out = i - window < first ? first : i - window;
    *high_out = i + window >= end ? end - 1 : i + window;
}

static void expand(const float *x, float *y, int width, int first, int end, int window)
{
    size_t span = (size_t)(2 * window + 1) * (size_t)width;

    for (int i = first; i < end; i++) {
        float *row = y + (size_t)i * span;
        int low, high;

        bounds(i, first, end, window, &low, &high);
        memset(row, 0, (size_t)(low - (i - window)) * (size_t)width * sizeof(float));
        memcpy(row + (size_t)(low - (i - window)) * (size_t)width,
               x + (size_t)low * (size_t)width,
               (size_t)(high - low + 1) * (size_t)width * sizeof(float));
        memset(row + (size_t)(high + 1 - (i - window)) * (size_t)width, 0,
               (size_t)(i + window - high) * (size_t)width * sizeof(float));
    }
}

/* dx[j] = sum of what the rows around j have of it. */
static void collect(const float *dy, float *dx, int width, int first, int end, int window)
{
    size_t span = (size_t)(2 * window + 1) * (size_t)width;

    memset(dx + (size_t)first * (size_t)width, 0,
           (size_t)(end - first) * (size_t)width * sizeof(float));
    for (int i = first; i < end; i++) {
        int low, high;

        bounds(i, first, end, window, &low, &high);
        for (int j = low; j <= high; j++) {
            const float *from =
                dy + (size_t)i * span + (size_t)(j - i + window) * (size_t)width;
            float *to = dx + (size_t)j * (size_t)width;

            for (int c = 0; c < width; c++)
                to[c] += from[c];
        }
    }
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int first = 0;

    for (size_t k = 0; k < s->sequences; first += s->lengths[k++])
        expand(s->x[0], s->y, layer->in[0].channels, first, first + s->lengths[k],
               layer->spec.window);
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int first = 0;

    for (size_t k = 0; s->dx[0] && k < s->sequences; first += s->lengths[k++])
        collect(s->dy, s->dx[0], layer->in[0].channels, first, first + s->lengths[k],
                layer->spec.window);
}

const crti_layer_ops_t crti_layer_expand_window = {
    .name = "expand_window", .shape = shape, .forward = forward, .backward = backward};
