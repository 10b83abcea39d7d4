/* SPDX-License-Identifier: Apache-2.0 */
/* Attention among the places of a sample: of each head y = softmax(q k' / sqrt(d)) v.
 *
 * Inputs are q, k and v of each place side by side, as a dense layer in front makes them (in_proj
 * of PyTorch's MultiheadAttention), each divided among the heads. No parameters. `kept` holds the
 * probabilities of every head, and behind those of all heads the masks of the dropout, if there is
 * one.
 */
#include <math.h>
#include <string.h>

#include "ml/dropout.h"
#include "ml/layer.h"
#include "ml/matrix.h"
#include "ml/model.h"

/* One head of one sample. */
typedef struct head {
    int places,
        width; /* of it; a place to the next is `stride` floats in x, `out` in y */
    int stride, out;
    size_t at;     /* of q in x; k and v are `out` and 2 `out` floats on */
    size_t out_at; /* in y */
    size_t square; /* places * places */
    float scale;   /* 1 / sqrt(width) */
    float *probabilities;
    const float *mask; /* NULL: nothing is left out */
} head_t;

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    int heads = layer->spec.heads, channels = layer->in[0].channels;
    size_t places = crti_shape_places(layer->in[0]);

    if (heads < 1 || channels % 3 != 0 || channels / 3 % heads != 0)
        return crt_raise(CRT_ERR_INVALID,
                         "layer %zu: attention of %d heads over %d channels, which are "
                         "not queries, keys and values for each",
                         index, heads, channels);
    if (places * places > (size_t)CRTI_MODEL_WIDTH_MAX / (size_t)heads)
        return crt_raise(CRT_ERR_TOO_LARGE, "layer %zu: attention among %zu places",
                         index, places);
    layer->out = layer->in[0];
    layer->out.channels = channels / 3;
    layer->kept_per_row =
        places * places * (size_t)heads * (layer->spec.rate > 0 ? 2 : 1);
    return crti_dropout_check(layer->spec.rate, index);
}

static crt_status_t prepare(crti_layer_t *layer, int rows, bool training)
{
    size_t places = crti_shape_places(layer->in[0]);

    (void)rows;
    (void)training;
    layer->workspace = 2 * places * places;
    return CRT_OK;
}

static head_t head_of(const crti_layer_t *layer, const crti_layer_pass_t *s, int number)
{
    int heads = layer->spec.heads, row = number / heads, index = number % heads;
    int places = (int)crti_shape_places(layer->in[0]), out = layer->out.channels;
    head_t h = {.places = places, .width = out / heads, .stride = 3 * out, .out = out};
    size_t all;

    h.square = (size_t)places * (size_t)places;
    h.scale = 1.0f / sqrtf((float)h.width);
    h.at = (size_t)row * (size_t)places * (size_t)h.stride + (size_t)(index * h.width);
    h.out_at = (size_t)row * (size_t)places * (size_t)out + (size_t)(index * h.width);
    h.probabilities = s->kept + (size_t)number * h.square;
    all = (size_t)s->rows * (size_t)heads * h.square;
    h.mask = s->random && layer->spec.rate > 0 ? h.probabilities + all : NULL;
    return h;
}

static crti_matrix_view_t view(const float *data, int stride)
{
    return (crti_matrix_view_t){data, stride, false};
}

static crti_matrix_view_t turned(const float *data, int stride)
{
    return (crti_matrix_view_t){data, stride, true};
}

/* What is left of the probabilities, in `room` if something is left out. */
static const float *masked(const head_t *h, float *room)
{
    if (!h->mask)
        return h->probabilities;
    for (size_t i = 0; i < h->square; i++)
        room[i] = h->probabilities[i] * h->mask[i];
    return room;
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int heads = s->rows * layer->spec.heads, n = (int)crti_shape_places(layer->in[0]);
    size_t all = (size_t)heads * (size_t)n * (size_t)n;

    if (s->random && layer->spec.rate > 0)
        crti_dropout_draw(s->kept + all, all, layer->spec.rate, s->random);
    for (int i = 0; i < heads; i++) {
        head_t h = head_of(layer, s, i);
        const float *q = s->x[0] + h.at, *k = q + h.out, *v = k + h.out;

        crti_matrix_product(n, n, h.width, h.scale, view(q, h.stride),
                            turned(k, h.stride), h.probabilities, n);
        crti_softmax(n, n, h.probabilities);
        crti_matrix_product(n, h.width, n, 1, view(masked(&h, s->workspace), n),
                            view(v, h.stride), s->y + h.out_at, h.out);
    }
}

/* From the gradient of what is left of the probabilities to that of q k', in place. */
static void through_softmax(const head_t *h, float *d)
{
    const float *p = h->probabilities, *mask = h->mask;

    for (int i = 0; i < h->places; i++) {
        float sum = 0;

        for (int j = 0; j < h->places; j++) {
            d[j] *= mask ? mask[j] : 1;
            sum += d[j] * p[j];
        }
        for (int j = 0; j < h->places; j++)
            d[j] = p[j] * (d[j] - sum);
        d += h->places;
        p += h->places;
        mask = mask ? mask + h->places : NULL;
    }
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int heads = s->rows * layer->spec.heads, n = (int)crti_shape_places(layer->in[0]);
    float *room = s->workspace, *d = room + (size_t)n * (size_t)n;

    for (int i = 0; s->dx[0] && i < heads; i++) {
        head_t h = head_of(layer, s, i);
        const float *q = s->x[0] + h.at, *k = q + h.out, *v = k + h.out;
        const float *dy = s->dy + h.out_at;
        float *dq = s->dx[0] + h.at, *dk = dq + h.out, *dv = dk + h.out;

        crti_matrix_product(n, h.width, n, 1, turned(masked(&h, room), n),
                            view(dy, h.out), dv, h.stride);
        crti_matrix_product(n, n, h.width, 1, view(dy, h.out), turned(v, h.stride), d, n);
        through_softmax(&h, d);
        crti_matrix_product(n, h.width, n, h.scale, view(d, n), view(k, h.stride), dq,
                            h.stride);
        crti_matrix_product(n, h.width, n, h.scale, turned(d, n), view(q, h.stride), dk,
                            h.stride);
    }
}

const crti_layer_ops_t crti_layer_attention = {.name = "attention",
                                               .shape = shape,
                                               .prepare = prepare,
                                               .forward = forward,
                                               .backward = backward};
