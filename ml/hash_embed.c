/* SPDX-License-Identifier: Apache-2.0 */
/* Hash embedding: a key's vector is the sum of four rows of a table that its hash names.
 *
 * Parameters: the table (rows, outputs). Dropout leaves out the same columns of all rows of a
 * batch, as Thinc has it; `kept` is that mask.
 */
#include <string.h>

#include "ml/dropout.h"
#include "ml/layer.h"
#include "ml/model.h"

#define HASHES 4

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    const crt_layer_t *spec = &layer->spec;

    if (spec->column < 0 || spec->column >= layer->in[0].channels)
        return crt_raise(CRT_ERR_INVALID, "layer %zu: column %d of samples with %d keys",
                         index, spec->column, layer->in[0].channels);
    if (spec->width < 1 || spec->width > CRTI_MODEL_WIDTH_MAX || spec->rows < 1 ||
        (size_t)spec->rows > CRTI_MODEL_PARAMETERS_MAX / (size_t)spec->width)
        return crt_raise(CRT_ERR_INVALID, "layer %zu: a table of %d rows of %d numbers",
                         index, spec->rows, spec->width);
    layer->out = (crti_shape_t){1, 1, spec->width};
    layer->kept_fixed = (size_t)spec->width;
    crti_layer_add_array(layer, spec->rows, spec->width);
    return crti_dropout_check(spec->rate, index);
}

static void init(const crti_layer_t *layer, float *params, crti_random_t *random)
{
    for (size_t i = 0; i < layer->params_count; i++)
        params[i] = crti_random_between(random, -0.1f, 0.1f);
}

/* The places of a key's rows in the table. */
static void places(const crti_layer_t *layer, uint64_t key, size_t places_out[HASHES])
{
    uint32_t hashes[HASHES];

    crt_hash_key(key, layer->spec.seed, hashes);
    for (int k = 0; k < HASHES; k++)
        places_out[k] =
            (size_t)(hashes[k] % (uint32_t)layer->spec.rows) * (size_t)layer->spec.width;
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int width = layer->spec.width;
    const float *table = s->params;
    bool drops = s->random && layer->spec.rate > 0;

    if (drops)
        crti_dropout_draw(s->kept, (size_t)width, layer->spec.rate, s->random);
    for (int i = 0; i < s->rows; i++) {
        float *y = s->y + (size_t)i * (size_t)width;
        size_t at[HASHES];

        places(layer,
               s->keys[(size_t)i * (size_t)layer->in[0].channels +
                       (size_t)layer->spec.column],
               at);
        for (int j = 0; j < width; j++)
            y[j] = table[at[0] + (size_t)j] + table[at[1] + (size_t)j] +
                   table[at[2] + (size_t)j] + table[at[3] + (size_t)j];
        for (int j = 0; drops && j < width; j++)
            y[j] *= s->kept[j];
    }
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int width = layer->spec.width;
    bool drops = layer->spec.rate > 0;

    memset(s->dparams, 0, layer->params_count * sizeof(float));
    for (int i = 0; i < s->rows; i++) {
        const float *dy = s->dy + (size_t)i * (size_t)width;
        size_t at[HASHES];

        places(layer,
               s->keys[(size_t)i * (size_t)layer->in[0].channels +
                       (size_t)layer->spec.column],
               at);
        for (int k = 0; k < HASHES; k++) {
            float *row = s->dparams + at[k];

            if (drops)
                for (int j = 0; j < width; j++)
                    row[j] += dy[j] * s->kept[j];
            else
                for (int j = 0; j < width; j++)
                    row[j] += dy[j];
        }
    }
}

const crti_layer_ops_t crti_layer_hash_embed = {.name = "hash_embed",
                                                .reads_keys = true,
                                                .shape = shape,
                                                .init = init,
                                                .forward = forward,
                                                .backward = backward};
