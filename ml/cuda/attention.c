/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: products of all heads at once by cuBLAS, and a kernel of ours between them.
 *
 * `kept` holds the probabilities as outputs are held, (samples, heads, places, places), and behind
 * room for all of them as floats the masks of the dropout. Products are batches over the samples
 * for each head, or over the heads for each sample, whichever are fewer calls.
 */
#include <math.h>

#include "ml/cuda/affine.h"
#include "ml/random.h"

#define WARP 32

/* What all products of a pass have in common. */
typedef struct heads {
    crti_cuda_t *c;
    int places, width; /* of a head */
    int out, calls, batch;
    size_t call_at, next;         /* of q, k, v: from call to call, within a batch */
    size_t out_call_at, out_next; /* of the outputs */
    size_t square_call_at, square_next; /* of probabilities */
    size_t all;                         /* probabilities */
    bool is_masked;
} heads_t;

static heads_t heads_of(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int heads = layer->spec.heads, places = (int)crti_shape_places(layer->in[0]);
    int out = layer->out.channels, width = out / heads;
    bool by_head = s->rows >= heads;
    size_t square = (size_t)places * (size_t)places, line = (size_t)places * (size_t)out;
    heads_t h = {.c = crti_cuda_of(layer), .places = places, .width = width, .out = out};

    h.calls = by_head ? heads : s->rows;
    h.batch = by_head ? s->rows : heads;
    h.out_call_at = by_head ? (size_t)width : line;
    h.out_next = by_head ? line : (size_t)width;
    h.call_at = by_head ? (size_t)width : 3 * line;
    h.next = by_head ? 3 * line : (size_t)width;
    h.square_call_at = by_head ? square : (size_t)heads * square;
    h.square_next = by_head ? (size_t)heads * square : square;
    h.all = (size_t)s->rows * (size_t)heads * square;
    h.is_masked = s->random && layer->spec.rate > 0;
    return h;
}

/* Twice: what is left of the probabilities, and their gradient. */
static crt_status_t prepare(crti_layer_t *layer, int rows, bool training)
{
    size_t places = crti_shape_places(layer->in[0]);
    size_t all = (size_t)rows * (size_t)layer->spec.heads * places * places;

    layer->workspace = training ? 2 * all : 0;
    return CRT_OK;
}

/* Number `at` of outputs. */
static void *place(const heads_t *h, const float *outputs, size_t at)
{
    return (char *)(uintptr_t)outputs + at * crti_cuda_size(h->c);
}

/* q, k or v (part 0, 1, 2) of the heads of a call, or their gradients. */
static crti_cuda_matrix_t part(const heads_t *h, const float *x, int call, int number)
{
    size_t at = (size_t)call * h->call_at + (size_t)number * (size_t)h->out;

    return (crti_cuda_matrix_t){place(h, x, at), 3 * h->out, false, (long long)h->next};
}

static crti_cuda_matrix_t output(const heads_t *h, const float *y, int call)
{
    return (crti_cuda_matrix_t){place(h, y, (size_t)call * h->out_call_at), h->out, false,
                                (long long)h->out_next};
}

static crti_cuda_matrix_t square(const heads_t *h, const float *p, int call)
{
    return (crti_cuda_matrix_t){place(h, p, (size_t)call * h->square_call_at), h->places,
                                false, (long long)h->square_next};
}

static crti_cuda_matrix_t turned(crti_cuda_matrix_t m)
{
    m.is_turned = true;
    return m;
}

/* to(places, cols) = factor * a b for all heads of a call. */
static void multiply(const heads_t *h, int cols, int inner, float factor,
                     crti_cuda_matrix_t a, crti_cuda_matrix_t b, crti_cuda_matrix_t to)
{
    cudaDataType_t type = crti_cuda_blas_type(h->c);

    crti_cuda_multiply(h->c, &(crti_cuda_product_t){.rows = h->places,
                                                    .cols = cols,
                                                    .inner = inner,
                                                    .factor = factor,
                                                    .a = a,
                                                    .b = b,
                                                    .to = to,
                                                    .from_type = type,
                                                    .to_type = type,
                                                    .count = h->batch});
}

static void run_softmax(const crti_layer_t *layer, const crti_layer_pass_t *s,
                        const heads_t *h, float *left)
{
    unsigned long long rows = h->all / (size_t)h->places, seed = 0, limit = 0;
    float keep = (float)(1.0 / (1.0 - layer->spec.rate));
    float *mask = h->is_masked ? s->kept + h->all : NULL;

    if (h->is_masked) {
        seed = crti_random_next(s->random);
        limit = (unsigned long long)(layer->spec.rate * 0x1p32);
    }
    crti_cuda_run(h->c, CRTI_KERNEL_attention_softmax, rows * WARP,
                  (void *[]){(void *)&s->kept, &left, &mask, &rows, (void *)&h->places,
                             &seed, &limit, &keep});
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    heads_t h = heads_of(layer, s);
    float scale = 1.0f / sqrtf((float)h.width),
          *left = h.is_masked ? s->workspace : s->kept;

    for (int i = 0; i < h.calls; i++)
        multiply(&h, h.places, h.width, scale, part(&h, s->x[0], i, 0),
                 turned(part(&h, s->x[0], i, 1)), square(&h, s->kept, i));
    run_softmax(layer, s, &h, left);
    for (int i = 0; i < h.calls; i++)
        multiply(&h, h.width, h.places, 1, square(&h, left, i), part(&h, s->x[0], i, 2),
                 output(&h, s->y, i));
}

/* What was left of the probabilities, again. */
static const float *masked(const crti_layer_pass_t *s, const heads_t *h, float *room)
{
    unsigned long long count = h->all;
    const float *mask = s->kept + h->all;

    if (!h->is_masked)
        return s->kept;
    crti_cuda_run(h->c, CRTI_KERNEL_multiply, count,
                  (void *[]){&room, (void *)&s->kept, &mask, &count});
    return room;
}

static void run_softmax_back(const crti_layer_pass_t *s, const heads_t *h, float *d)
{
    unsigned long long rows = h->all / (size_t)h->places;
    const float *mask = h->is_masked ? s->kept + h->all : NULL;

    crti_cuda_run(h->c, CRTI_KERNEL_attention_softmax_back, rows * WARP,
                  (void *[]){&d, (void *)&s->kept, &mask, &rows, (void *)&h->places});
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    heads_t h = heads_of(layer, s);
    float scale = 1.0f / sqrtf((float)h.width), *d = s->workspace + h.all;
    const float *x = s->x[0], *left, *dx = s->dx[0];

    if (!dx)
        return;
    left = masked(s, &h, s->workspace);
    for (int i = 0; i < h.calls; i++) {
        multiply(&h, h.width, h.places, 1, turned(square(&h, left, i)),
                 output(&h, s->dy, i), part(&h, dx, i, 2));
        multiply(&h, h.places, h.width, 1, output(&h, s->dy, i),
                 turned(part(&h, x, i, 2)), square(&h, d, i));
    }
    run_softmax_back(s, &h, d);
    for (int i = 0; i < h.calls; i++) {
        multiply(&h, h.width, h.places, scale, square(&h, d, i), part(&h, x, i, 1),
                 part(&h, dx, i, 0));
        multiply(&h, h.width, h.places, scale, turned(square(&h, d, i)),
                 part(&h, x, i, 0), part(&h, dx, i, 1));
    }
}

const crti_layer_ops_t crti_cuda_attention = {
    .name = "attention", .prepare = prepare, .forward = forward, .backward = backward};
