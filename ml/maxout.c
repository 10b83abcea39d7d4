/* SPDX-License-Identifier: Apache-2.0 */
/* Maxout: y[o] = max over p of (x W[o,p]' + b[o,p]), at each place, as Thinc has it.
 *
 * Parameters: W (outputs, pieces, inputs) row major, then b (outputs, pieces).
 * `kept` holds all pieces; the backward pass makes their gradients of them.
 */
#include "ml/layer.h"

#include <math.h>
#include <string.h>

#include "ml/matrix.h"
#include "ml/model.h"

#define PIECES_MAX 64

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    int width = layer->spec.width, pieces = layer->spec.pieces;

    if (pieces < 1 || pieces > PIECES_MAX)
        return crt_raise(CRT_ERR_INVALID, "layer %zu: maxout of %d pieces, not 1..%d",
                         index, pieces, PIECES_MAX);
    if (width < 1 || width > CRTI_MODEL_WIDTH_MAX / pieces)
        return crt_raise(CRT_ERR_INVALID, "layer %zu: %d outputs are not in 1..%d", index,
                         width, CRTI_MODEL_WIDTH_MAX / pieces);
    layer->out = layer->in[0];
    layer->out.channels = width;
    layer->kept_per_row = crti_shape_size(layer->out) * (size_t)pieces;
    crti_layer_add_array(layer, width * pieces, layer->in[0].channels);
    crti_layer_add_array(layer, 1, width * pieces);
    return CRT_OK;
}

static size_t weights_of(const crti_layer_t *layer)
{
    return (size_t)layer->out.channels * (size_t)layer->spec.pieces *
           (size_t)layer->in[0].channels;
}

/* Thinc takes the first two of the three dimensions for inputs and outputs. */
static void init(const crti_layer_t *layer, float *params, crti_random_t *random)
{
    size_t outs = (size_t)layer->out.channels, pieces = (size_t)layer->spec.pieces;
    size_t weights = weights_of(layer);

    crti_layer_draw(layer, params, weights, pieces, outs, params + weights, outs * pieces,
                    random);
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int rows = crti_layer_rows(layer, s), pieces = layer->spec.pieces;
    size_t count = (size_t)rows * (size_t)layer->out.channels;
    const float *piece = s->kept;

    crti_matrix_affine(rows, layer->out.channels * pieces, layer->in[0].channels, s->x[0],
                       s->params, s->params + weights_of(layer), s->kept);
    for (size_t i = 0; i < count; i++, piece += pieces) {
        float best = piece[0];

        for (int p = 1; p < pieces; p++)
            best = piece[p] > best ? piece[p] : best;
        s->y[i] = best;
    }
}

/* The gradient goes to the first of the largest pieces. */
static void spread(float *piece, int pieces, size_t count, const float *dy)
{
    for (size_t i = 0; i < count; i++, piece += pieces) {
        int best = 0;

        for (int p = 1; p < pieces; p++)
            best = piece[p] > piece[best] ? p : best;
        for (int p = 0; p < pieces; p++)
            piece[p] = p == best ? dy[i] : 0;
    }
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int rows = crti_layer_rows(layer, s), ins = layer->in[0].channels;
    int outs = layer->out.channels * layer->spec.pieces;

    if (s->dparams) {
        spread(s->kept, layer->spec.pieces, (size_t)rows * (size_t)layer->out.channels,
               s->dy);
        crti_matrix_affine_gradients(rows, outs, ins, s->x[0], s->kept, s->dparams,
                                     s->dparams + weights_of(layer));
    }
    if (s->dx[0])
        crti_matrix_affine_inputs(rows, outs, ins, s->kept, s->params, s->dx[0]);
}

const crti_layer_ops_t crti_layer_maxout = {.name = "maxout",
                                            .splits = true,
                                            .shape = shape,
                                            .init = init,
                                            .forward = forward,
                                            .backward = backward};
