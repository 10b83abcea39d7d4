/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: of each window and channel the largest number, or the mean. Without a kernel the window is
 * all of a sample. The gradient of a largest number goes to the first of the window that is as
 * large.
 */
#include <math.h>
#include <string.h>

#include "ml/layer.h"

typedef struct window {
    int row, row_end, col, col_end; /* places, those beyond the sample left out */
} window_t;

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    crt_layer_t *spec = &layer->spec;
    const crti_shape_t *in = &layer->in[0];
    int room_y, room_x;

    layer->out = (crti_shape_t){1, 1, in->channels};
    if (spec->kernel == 0)
        return CRT_OK;
    spec->stride = spec->stride ? spec->stride : spec->kernel;
    room_y = in->height + 2 * spec->padding - spec->kernel;
    room_x = in->width + 2 * spec->padding - spec->kernel;
    if (spec->kernel < 1 || spec->stride < 1 || spec->padding < 0 ||
        2 * spec->padding > spec->kernel || room_y < 0 || room_x < 0)
        return crt_raise(CRT_ERR_INVALID,
                         "layer %zu: windows of %d, stride %d, padding %d over %d x %d "
                         "places",
                         index, spec->kernel, spec->stride, spec->padding, in->height,
                         in->width);
    layer->out.height = room_y / spec->stride + 1;
    layer->out.width = room_x / spec->stride + 1;
    return CRT_OK;
}

static crt_status_t average_shape(crti_layer_t *layer, size_t index)
{
    if (layer->spec.padding != 0)
        return crt_raise(CRT_ERR_INVALID, "layer %zu: a mean with padding", index);
    return shape(layer, index);
}

static window_t window_at(const crti_layer_t *layer, int i, int j)
{
    const crt_layer_t *spec = &layer->spec;
    int height = layer->in[0].height, width = layer->in[0].width;
    int row = i * spec->stride - spec->padding, col = j * spec->stride - spec->padding;
    int row_end = row + spec->kernel, col_end = col + spec->kernel;

    if (spec->kernel == 0)
        return (window_t){0, height, 0, width};
    return (window_t){row < 0 ? 0 : row, row_end > height ? height : row_end,
                      col < 0 ? 0 : col, col_end > width ? width : col_end};
}

/* What is done at each place of a window: `x` and `y` are the channels of the place and of the
 * window. */
typedef void at_place_t(int channels, const float *x, float *dx, const float *y,
                        float *out);

/* All places of all windows; x, dx, y and out may be NULL. */
static void walk(const crti_layer_t *layer, int rows, const float *x, float *dx,
                 const float *y, float *out, at_place_t *at)
{
    size_t channels = (size_t)layer->out.channels, width = (size_t)layer->in[0].width;

    for (int n = 0; n < rows; n++) {
        size_t sample = (size_t)n * crti_shape_size(layer->in[0]);

        for (int i = 0; i < layer->out.height; i++)
            for (int j = 0; j < layer->out.width; j++) {
                window_t w = window_at(layer, i, j);

                for (int u = w.row; u < w.row_end; u++)
                    for (int v = w.col; v < w.col_end; v++) {
                        size_t place =
                            sample + ((size_t)u * width + (size_t)v) * channels;

                        at((int)channels, x ? x + place : NULL, dx ? dx + place : NULL, y,
                           out);
                    }
                y = y ? y + channels : NULL;
                out = out ? out + channels : NULL;
            }
    }
}

/* ---------------------------------------------------------------- largest number */

static void take_larger(int channels, const float *x, float *dx, const float *y,
                        float *out)
{
    for (int k = 0; k < channels; k++)
        out[k] = x[k] > out[k] || x[k] != x[k] ? x[k] : out[k];
}

/* `out` is what is left of the window's gradient: it is given away once. */
static void give_to_largest(int channels, const float *x, float *dx, const float *y,
                            float *out)
{
    for (int k = 0; k < channels; k++) {
        float given = x[k] == y[k] ? out[k] : 0;

        dx[k] += given;
        out[k] -= given;
    }
}

static void max_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = (size_t)s->rows * crti_shape_size(layer->out);

    for (size_t i = 0; i < count; i++)
        s->y[i] = -INFINITY;
    walk(layer, s->rows, s->x[0], NULL, NULL, s->y, take_larger);
}

static void max_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = (size_t)s->rows * crti_shape_size(layer->in[0]);

    if (!s->dx[0])
        return;
    memset(s->dx[0], 0, count * sizeof(float));
    memcpy(s->kept, s->dy, (size_t)s->rows * crti_shape_size(layer->out) * sizeof(float));
    walk(layer, s->rows, s->x[0], s->dx[0], s->y, s->kept, give_to_largest);
}

static crt_status_t max_shape(crti_layer_t *layer, size_t index)
{
    crt_status_t status = shape(layer, index);

    layer->kept_per_row = crti_shape_size(layer->out);
    return status;
}

/* ---------------------------------------------------------------- mean */

static void add_to(int channels, const float *x, float *dx, const float *y, float *out)
{
    for (int k = 0; k < channels; k++)
        out[k] += x[k];
}

static void give_to_all(int channels, const float *x, float *dx, const float *y,
                        float *out)
{
    for (int k = 0; k < channels; k++)
        dx[k] += y[k];
}

/* One over the places of a window. */
static float share_of(const crti_layer_t *layer)
{
    size_t window = (size_t)layer->spec.kernel * (size_t)layer->spec.kernel;

    return 1.0f / (float)(window ? window : crti_shape_places(layer->in[0]));
}

static void average_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = (size_t)s->rows * crti_shape_size(layer->out);
    float share = share_of(layer);

    memset(s->y, 0, count * sizeof(float));
    walk(layer, s->rows, s->x[0], NULL, NULL, s->y, add_to);
    for (size_t i = 0; i < count; i++)
        s->y[i] *= share;
}

static void average_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = (size_t)s->rows * crti_shape_size(layer->in[0]);
    float share = share_of(layer);

    if (!s->dx[0])
        return;
    memset(s->dx[0], 0, count * sizeof(float));
    walk(layer, s->rows, NULL, s->dx[0], s->dy, NULL, give_to_all);
    for (size_t i = 0; i < count; i++)
        s->dx[0][i] *= share;
}

const crti_layer_ops_t crti_layer_max_pool = {.name = "max_pool",
                                              .needs_y = true,
                                              .shape = max_shape,
                                              .forward = max_forward,
                                              .backward = max_backward};
const crti_layer_ops_t crti_layer_average_pool = {.name = "average_pool",
                                                  .shape = average_shape,
                                                  .forward = average_forward,
                                                  .backward = average_backward};
