/* SPDX-License-Identifier: Apache-2.0 */
/* Dense layer: y = x W' + b, at each place.
 *
 * Parameters: W (outputs, inputs) row major, then b (outputs). Reference numbers:
 * tests/ml/recorded.h.
 */
#include "ml/layer.h"

#include "ml/matrix.h"
#include "ml/model.h"

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    if (layer->spec.width < 1 || layer->spec.width > CRTI_MODEL_WIDTH_MAX)
        return crt_raise(CRT_ERR_INVALID, "layer %zu: %d outputs are not in 1..%d", index,
                         layer->spec.width, CRTI_MODEL_WIDTH_MAX);
    layer->out = layer->in[0];
    layer->out.channels = layer->spec.width;
    crti_layer_add_array(layer, layer->out.channels, layer->in[0].channels);
    crti_layer_add_array(layer, 1, layer->out.channels);
    return CRT_OK;
}

static size_t weights_of(const crti_layer_t *layer)
{
    return (size_t)layer->out.channels * (size_t)layer->in[0].channels;
}

static void init(const crti_layer_t *layer, float *params, crti_random_t *random)
{
    size_t ins = (size_t)layer->in[0].channels, outs = (size_t)layer->out.channels;

    crti_layer_draw(layer, params, ins * outs, ins, outs, params + ins * outs, outs,
                    random);
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_matrix_affine(crti_layer_rows(layer, s), layer->out.channels,
                       layer->in[0].channels, s->x[0], s->params,
                       s->params + weights_of(layer), s->y);
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int rows = crti_layer_rows(layer, s), outs = layer->out.channels;
    int ins = layer->in[0].channels;

    if (s->dparams)
        crti_matrix_affine_gradients(rows, outs, ins, s->x[0], s->dy, s->dparams,
                                     s->dparams + weights_of(layer));
    if (s->dx[0])
        crti_matrix_affine_inputs(rows, outs, ins, s->dy, s->params, s->dx[0]);
}

const crti_layer_ops_t crti_layer_dense = {.name = "dense",
                                           .splits = true,
                                           .shape = shape,
                                           .init = init,
                                           .forward = forward,
                                           .backward = backward};
