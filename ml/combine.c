/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that put outputs of others together, and one that only holds parameters.
 *
 * add: y = x0 + x1, the join of a residual block. concatenate: the channels of all inputs, in
 * their order. parameters: its inputs, unchanged; what its array means is known to the caller.
 */
#include "ml/layer.h"

#include <string.h>

#include "ml/model.h"

static crt_status_t add_shape(crti_layer_t *layer, size_t index)
{
    const crti_shape_t *a = &layer->in[0], *b = &layer->in[1];

    if (a->height != b->height || a->width != b->width || a->channels != b->channels)
        return crt_raise(
            CRT_ERR_INVALID, "layer %zu: adds %d x %d x %d and %d x %d x %d numbers",
            index, a->height, a->width, a->channels, b->height, b->width, b->channels);
    layer->out = layer->in[0];
    return CRT_OK;
}

static void add_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = (size_t)s->rows * crti_shape_size(layer->out);

    for (size_t i = 0; i < count; i++)
        s->y[i] = s->x[0][i] + s->x[1][i];
}

static crt_status_t concatenate_shape(crti_layer_t *layer, size_t index)
{
    const crti_shape_t *first = &layer->in[0];

    layer->out = *first;
    for (int k = 1; k < layer->input_count; k++) {
        const crti_shape_t *other = &layer->in[k];

        if (other->height != first->height || other->width != first->width ||
            other->channels > CRTI_MODEL_WIDTH_MAX - layer->out.channels)
            return crt_raise(
                CRT_ERR_INVALID,
                "layer %zu: concatenates samples of %d x %d and %d x %d places", index,
                first->height, first->width, other->height, other->width);
        layer->out.channels += other->channels;
    }
    return CRT_OK;
}

static void concatenate_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t rows = (size_t)crti_layer_rows(layer, s), span = (size_t)layer->out.channels;
    size_t at = 0;

    for (int k = 0; k < layer->input_count; k++) {
        size_t width = (size_t)layer->in[k].channels;

        for (size_t i = 0; i < rows; i++)
            memcpy(s->y + i * span + at, s->x[k] + i * width, width * sizeof(float));
        at += width;
    }
}

static void concatenate_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t rows = (size_t)crti_layer_rows(layer, s), span = (size_t)layer->out.channels;
    size_t at = 0;

    for (int k = 0; k < layer->input_count; k++) {
        size_t width = (size_t)layer->in[k].channels;

        for (size_t i = 0; s->dx[k] && i < rows; i++)
            memcpy(s->dx[k] + i * width, s->dy + i * span + at, width * sizeof(float));
        at += width;
    }
}

static crt_status_t parameters_shape(crti_layer_t *layer, size_t index)
{
    int rows = layer->spec.rows, cols = layer->spec.width;

    if (rows < 1 || cols < 1 || (size_t)rows > CRTI_MODEL_PARAMETERS_MAX / (size_t)cols)
        return crt_raise(CRT_ERR_INVALID, "layer %zu: an array of %d x %d parameters",
                         index, rows, cols);
    layer->out = layer->in[0];
    crti_layer_add_array(layer, rows, cols);
    return CRT_OK;
}

const crti_layer_ops_t crti_layer_add = {.name = "add",
                                         .is_sum = true,
                                         .in_place = true,
                                         .shape = add_shape,
                                         .forward = add_forward};
const crti_layer_ops_t crti_layer_concatenate = {.name = "concatenate",
                                                 .shape = concatenate_shape,
                                                 .forward = concatenate_forward,
                                                 .backward = concatenate_backward};
const crti_layer_ops_t crti_layer_parameters = {
    .name = "parameters", .is_view = true, .shape = parameters_shape};
