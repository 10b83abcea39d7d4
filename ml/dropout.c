/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout: while training, each number is left out with probability `rate` and the others
 * are scaled by 1 / (1 - rate); otherwise it passes everything.
 */
#include "ml/dropout.h"

#include <string.h>

#include "ml/layer.h"

crt_status_t crti_dropout_check(double rate, size_t index)
{
    if (!(rate >= 0 && rate < 1))
        return crt_raise(CRT_ERR_INVALID, "layer %zu: dropout rate %g is not in [0, 1)",
                         index, rate);
    return CRT_OK;
}

/* mask = (u >= rate) / (1 - rate), one u of 32 bits per element. */
void crti_dropout_draw(float *mask, size_t count, double rate, crti_random_t *random)
{
    float keep = (float)(1.0 / (1.0 - rate));
    uint64_t limit = (uint64_t)(rate * 0x1p32);
    uint64_t bits = 0;

    for (size_t i = 0; i < count; i++) {
        bits = i % 2 ? bits >> 32 : crti_random_next(random);
        mask[i] = (bits & 0xffffffffu) >= limit ? keep : 0;
    }
}

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    layer->out = layer->in[0];
    layer->kept_per_row = crti_shape_size(layer->out);
    return crti_dropout_check(layer->spec.rate, index);
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = (size_t)s->rows * crti_shape_size(layer->out);

    if (!s->random) {
        if (s->y != s->x[0])
            memcpy(s->y, s->x[0], count * sizeof(float));
        return;
    }
    crti_dropout_draw(s->kept, count, layer->spec.rate, s->random);
    for (size_t i = 0; i < count; i++)
        s->y[i] = s->x[0][i] * s->kept[i];
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t count = s->dx[0] ? (size_t)s->rows * crti_shape_size(layer->out) : 0;

    for (size_t i = 0; i < count; i++)
        s->dx[0][i] = s->dy[i] * s->kept[i];
}

const crti_layer_ops_t crti_layer_dropout = {.name = "dropout",
                                             .in_place = true,
                                             .dx_in_place = true,
                                             .shape = shape,
                                             .forward = forward,
                                             .backward = backward};
