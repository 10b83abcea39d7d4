/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a row of tokens of an image: patches, a learnt token behind them, a learnt position
 * for each.
 *
 * patches: each square of places becomes one, its rows of places side by side; nothing is computed.
 * token: one place more at the end, the same numbers (1, channels) in every sample. positions: y =
 * x + P (places, channels).
 */
#include <string.h>

#include "ml/layer.h"

/* ---------------------------------------------------------------- patches */

static crt_status_t patches_shape(crti_layer_t *layer, size_t index)
{
    const crti_shape_t *in = &layer->in[0];
    int side = layer->spec.kernel;

    if (side < 1 || in->height % side != 0 || in->width % side != 0)
        return crt_raise(CRT_ERR_INVALID,
                         "layer %zu: %d x %d places are not patches of %d x %d", index,
                         in->height, in->width, side, side);
    layer->out =
        (crti_shape_t){in->height / side, in->width / side, in->channels * side * side};
    return CRT_OK;
}

/* Copies rows of places to where they lie in their patches, or back. */
static void move_patches(const crti_layer_t *layer, int rows, const float *x, float *y,
                         bool back)
{
    const crti_shape_t *in = &layer->in[0];
    size_t side = (size_t)layer->spec.kernel, run = side * (size_t)in->channels;
    size_t across = (size_t)layer->out.width;
    size_t lines = (size_t)rows * (size_t)in->height; /* each a row of `across` runs */

    for (size_t i = 0; i < lines; i++)
        for (size_t j = 0; j < across; j++) {
            size_t image = (i * across + j) * run;
            size_t patch = ((i / side * across + j) * side + i % side) * run;

            memcpy(y + (back ? image : patch), x + (back ? patch : image),
                   run * sizeof(float));
        }
}

static void patches_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    move_patches(layer, s->rows, s->x[0], s->y, false);
}

static void patches_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    if (s->dx[0])
        move_patches(layer, s->rows, s->dy, s->dx[0], true);
}

/* ---------------------------------------------------------------- token */

static void draw_normal(const crti_layer_t *layer, float *params, crti_random_t *random)
{
    for (size_t i = 0; i < layer->params_count; i++)
        params[i] = crti_random_normal(random);
}

static crt_status_t token_shape(crti_layer_t *layer, size_t index)
{
    (void)index;
    layer->out = (crti_shape_t){1, (int)crti_shape_places(layer->in[0]) + 1,
                                layer->in[0].channels};
    crti_layer_add_array(layer, 1, layer->out.channels);
    return CRT_OK;
}

static void token_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t size = crti_shape_size(layer->in[0]), token = layer->params_count;

    for (size_t i = 0; i < (size_t)s->rows; i++) {
        float *y = s->y + i * (size + token);

        memcpy(y, s->x[0] + i * size, size * sizeof(float));
        memcpy(y + size, s->params, token * sizeof(float));
    }
}

static void token_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t size = crti_shape_size(layer->in[0]), token = layer->params_count;

    memset(s->dparams, 0, token * sizeof(float));
    for (size_t i = 0; i < (size_t)s->rows; i++) {
        const float *dy = s->dy + i * (size + token);

        for (size_t j = 0; j < token; j++)
            s->dparams[j] += dy[size + j];
        if (s->dx[0])
            memcpy(s->dx[0] + i * size, dy, size * sizeof(float));
    }
}

/* ---------------------------------------------------------------- positions */

static crt_status_t positions_shape(crti_layer_t *layer, size_t index)
{
    crti_layer_add_array(layer, (int)crti_shape_places(layer->in[0]),
                         layer->in[0].channels);
    return crti_layer_same_shape(layer, index);
}

static void positions_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t size = layer->params_count;

    for (size_t i = 0; i < (size_t)s->rows; i++)
        for (size_t j = 0; j < size; j++)
            s->y[i * size + j] = s->x[0][i * size + j] + s->params[j];
}

static void positions_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t size = layer->params_count;

    memset(s->dparams, 0, size * sizeof(float));
    for (size_t i = 0; i < (size_t)s->rows; i++)
        for (size_t j = 0; j < size; j++)
            s->dparams[j] += s->dy[i * size + j];
    if (s->dx[0] && s->dx[0] != s->dy)
        memcpy(s->dx[0], s->dy, (size_t)s->rows * size * sizeof(float));
}

const crti_layer_ops_t crti_layer_patches = {.name = "patches",
                                             .shape = patches_shape,
                                             .forward = patches_forward,
                                             .backward = patches_backward};
const crti_layer_ops_t crti_layer_token = {.name = "token",
                                           .shape = token_shape,
                                           .init = draw_normal,
                                           .forward = token_forward,
                                           .backward = token_backward};
const crti_layer_ops_t crti_layer_positions = {.name = "positions",
                                               .in_place = true,
                                               .dx_in_place = true,
                                               .shape = positions_shape,
                                               .init = draw_normal,
                                               .forward = positions_forward,
                                               .backward = positions_backward};
