/* SPDX-License-Identifier: Apache-2.0 */
/* Embeddings by hashing, and windows over sequences.
 *
 * The gradient of a table is made row by row: each is the sum of what its words give, in their
 * order, so that equal batches give equal bits; atomic sums would not.
 */
#include "ml/cuda/cuda.h"
#include "ml/random.h"

#define WARP        32
#define HASHES      4   /* as in words.cu */
#define THREADS_MAX 256 /* of a row of a table */

/* ---------------------------------------------------------------- embeddings */

static crti_cuda_table_t table_of(const crti_layer_t *layer)
{
    return (crti_cuda_table_t){layer->spec.rows, layer->spec.width, layer->in[0].channels,
                               layer->spec.column, layer->spec.seed};
}

static crt_status_t embed_prepare(crti_layer_t *layer, int rows, bool training)
{
    layer->workspace = training ? (size_t)rows * HASHES : 0;
    return CRT_OK;
}

static void embed_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_table_t table = table_of(layer);
    bool drops = s->random && layer->spec.rate > 0;
    unsigned long long seed = drops ? crti_random_next(s->random) : 0;
    unsigned long long limit = (unsigned long long)(layer->spec.rate * 0x1p32);
    float keep = drops ? (float)(1.0 / (1.0 - layer->spec.rate)) : 1;
    float *mask = drops ? s->kept : NULL;

    crti_cuda_run(crti_cuda_of(layer), CRTI_KERNEL_embed_forward, (size_t)s->rows * WARP,
                  (void *[]){(void *)&s->y, &mask, (void *)&s->params, (void *)&s->keys,
                             (void *)&s->rows, &table, &seed, &limit, &keep});
}

static void embed_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    crti_cuda_table_t table = table_of(layer);
    int threads = (table.width + WARP - 1) / WARP * WARP;
    const float *mask = layer->spec.rate > 0 ? s->kept : NULL;
    float factor = 1 / c->scale;

    crti_cuda_run(
        c, CRTI_KERNEL_embed_places, (size_t)s->rows,
        (void *[]){(void *)&s->workspace, (void *)&s->keys, (void *)&s->rows, &table});
    crti_cuda_run_blocks(c, CRTI_KERNEL_embed_gradients, (size_t)table.rows,
                         threads < THREADS_MAX ? threads : THREADS_MAX,
                         (void *[]){(void *)&s->dparams, (void *)&s->dy, &mask,
                                    (void *)&s->workspace, (void *)&s->rows, &table,
                                    &factor});
}

/* ---------------------------------------------------------------- windows */

static void run_window(const crti_layer_t *layer, const crti_layer_pass_t *s,
                       crti_cuda_kernel_t kernel, size_t count, float *to,
                       const float *from)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    int width = layer->in[0].channels;

    crti_cuda_run(c, kernel, count,
                  (void *[]){&to, &from, &c->sequences, (void *)&s->rows, &width,
                             (void *)&layer->spec.window});
}

static void window_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    if (crti_cuda_sequences(crti_cuda_of(layer), s))
        run_window(layer, s, CRTI_KERNEL_window_forward,
                   (size_t)s->rows * (size_t)layer->out.channels, s->y, s->x[0]);
}

static void window_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    if (s->dx[0])
        run_window(layer, s, CRTI_KERNEL_window_backward,
                   (size_t)s->rows * (size_t)layer->in[0].channels, s->dx[0], s->dy);
}

const crti_layer_ops_t crti_cuda_hash_embed = {.name = "hash_embed",
                                               .reads_keys = true,
                                               .prepare = embed_prepare,
                                               .forward = embed_forward,
                                               .backward = embed_backward};
const crti_layer_ops_t crti_cuda_expand_window = {
    .name = "expand_window", .forward = window_forward, .backward = window_backward};
