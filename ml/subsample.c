/* SPDX-License-Identifier: Apache-2.0 */
/* Subsample: every so many places of rows and columns, with channels of zeros behind those there
 * are: the shortcut without parameters of He et al. (option A).
 */
#include <string.h>

#include "ml/model.h"

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    const crti_shape_t *in = &layer->in[0];
    int stride = layer->spec.stride, width = layer->spec.width;

    if (stride < 1 || width < in->channels || width > CRTI_MODEL_WIDTH_MAX)
        return crt_raise(CRT_ERR_INVALID,
                         "layer %zu: every %d places, %d channels become %d", index,
                         stride, in->channels, width);
    layer->out = (crti_shape_t){(in->height - 1) / stride + 1,
                                (in->width - 1) / stride + 1, width};
    return CRT_OK;
}

/* Where place `place` of the outputs lies among those of the inputs. */
static size_t place_of(const crti_layer_t *layer, size_t place)
{
    const crti_shape_t *in = &layer->in[0], *out = &layer->out;
    size_t places = crti_shape_places(*out), width = (size_t)out->width;
    size_t sample = place / places, row = place % places / width;
    size_t stride = (size_t)layer->spec.stride;

    return sample * crti_shape_places(*in) + row * stride * (size_t)in->width +
           place % width * stride;
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = (size_t)s->rows * crti_shape_places(layer->out);
    size_t from = (size_t)layer->in[0].channels, to = (size_t)layer->out.channels;

    memset(s->y, 0, count * to * sizeof(float));
    for (size_t i = 0; i < count; i++)
        memcpy(s->y + i * to, s->x[0] + place_of(layer, i) * from, from * sizeof(float));
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = (size_t)s->rows * crti_shape_places(layer->out);
    size_t from = (size_t)layer->in[0].channels, to = (size_t)layer->out.channels;

    if (!s->dx[0])
        return;
    memset(s->dx[0], 0, (size_t)s->rows * crti_shape_size(layer->in[0]) * sizeof(float));
    for (size_t i = 0; i < count; i++)
        memcpy(s->dx[0] + place_of(layer, i) * from, s->dy + i * to,
               from * sizeof(float));
}

const crti_layer_ops_t crti_layer_subsample = {
    .name = "subsample", .shape = shape, .forward = forward, .backward = backward};
