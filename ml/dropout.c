/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout: while training, each number is left out with probability `rate` and the others
 * are scaled by 1 / (1 - rate); otherwise it passes everything.
 */
#include "ml/layer.h"

#include <string.h>

/* mask = (u >= rate) / (1 - rate), one u of 32 bits per element. */
static void draw(float *mask, size_t count, double rate, crti_random_t *random)
{
    float keep = (float)(1.0 / (1.0 - rate));
    uint64_t limit = (uint64_t)(rate * 0x1p32);
    uint64_t bits = 0;

    for (size_t i = 0; i < count; i++) {
        bits = i % 2 ? bits >> 32 : crti_random_next(random);
        mask[i] = (bits & 0xffffffffu) >= limit ? keep : 0;
    }
}

static void forward(const crti_layer_t *layer, const float *params, int rows,
                    const float *x, float *y, crti_random_t *random)
{
    size_t count = (size_t)rows * (size_t)layer->outputs;

    (void)params;
    if (!random) {
        memcpy(y, x, count * sizeof(float));
        return;
    }
    draw(layer->mask, count, layer->spec.rate, random);
    for (size_t i = 0; i < count; i++)
        y[i] = x[i] * layer->mask[i];
}

static void backward(const crti_layer_t *layer, const float *params, int rows,
                     const float *x, const float *y, const float *dy, float *dparams,
                     float *dx)
{
    size_t count = dx ? (size_t)rows * (size_t)layer->outputs : 0;

    (void)params;
    (void)x;
    (void)y;
    (void)dparams;
    for (size_t i = 0; i < count; i++)
        dx[i] = dy[i] * layer->mask[i];
}

const crti_layer_ops_t crti_layer_dropout = {
    .name = "dropout", .has_mask = true, .forward = forward, .backward = backward};
