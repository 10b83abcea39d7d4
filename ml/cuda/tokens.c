/* SPDX-License-Identifier: Apache-2.0 */
/* Patches, token, positions, and concatenate: what moves numbers, channels last. */
#include "ml/cuda/affine.h"

typedef unsigned long long count_t;

/* Columns from one matrix to another. */
static void copy_columns(crti_cuda_t *c, float *to, const float *from, count_t rows,
                         count_t width, count_t to_stride, count_t to_at,
                         count_t from_stride, count_t from_at)
{
    crti_cuda_run(c, CRTI_KERNEL_copy_columns, rows * width,
                  (void *[]){&to, &from, &rows, &width, &to_stride, &to_at, &from_stride,
                             &from_at});
}

/* ---------------------------------------------------------------- patches */

static void run_patches(const crti_layer_t *layer, int rows, crti_cuda_kernel_t kernel,
                        float *to, const float *from)
{
    count_t count = (count_t)rows * crti_shape_size(layer->out);
    crti_cuda_patches_t patches = {layer->in[0].width, layer->in[0].channels,
                                   layer->spec.kernel};

    crti_cuda_run(crti_cuda_of(layer), kernel, count,
                  (void *[]){&to, &from, &count, &patches});
}

static void patches_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    run_patches(layer, s->rows, CRTI_KERNEL_patches_forward, s->y, s->x[0]);
}

static void patches_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    if (s->dx[0])
        run_patches(layer, s->rows, CRTI_KERNEL_patches_backward, s->dx[0], s->dy);
}

/* ---------------------------------------------------------------- token */

/* Of sums over all samples. */
static crt_status_t prepare_sums(crti_layer_t *layer, int rows, bool training)
{
    (void)training;
    layer->workspace = crti_cuda_partials(rows, layer->params_count);
    return CRT_OK;
}

/* The gradient of the parameters, which each sample has at `at` of its outputs. */
static void sum_samples(const crti_layer_t *layer, const crti_layer_pass_t *s, size_t at)
{
    crti_cuda_t *c = crti_cuda_of(layer);

    crti_cuda_sum_columns(c, s->dparams,
                          &(crti_cuda_columns_t){s->dy, s->rows, (int)layer->params_count,
                                                 (int)crti_shape_size(layer->out),
                                                 (int)at},
                          false, s->workspace, 1 / c->scale);
}

static void token_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    count_t rows = (count_t)s->rows, size = crti_shape_size(layer->in[0]);
    count_t token = layer->params_count;

    crti_cuda_run(crti_cuda_of(layer), CRTI_KERNEL_token_forward, rows * (size + token),
                  (void *[]){(void *)&s->y, (void *)&s->x[0], (void *)&s->params, &rows,
                             &size, &token});
}

static void token_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    size_t size = crti_shape_size(layer->in[0]);

    sum_samples(layer, s, size);
    if (s->dx[0])
        copy_columns(crti_cuda_of(layer), s->dx[0], s->dy, (count_t)s->rows, size, size,
                     0, crti_shape_size(layer->out), 0);
}

/* ---------------------------------------------------------------- positions */

static void positions_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    count_t rows = (count_t)s->rows, size = layer->params_count;

    crti_cuda_run(
        crti_cuda_of(layer), CRTI_KERNEL_positions_forward, rows * size,
        (void *[]){(void *)&s->y, (void *)&s->x[0], (void *)&s->params, &rows, &size});
}

static void positions_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_t *c = crti_cuda_of(layer);

    sum_samples(layer, s, 0);
    if (s->dx[0])
        crti_cuda_copy(c, s->dx[0], s->dy,
                       (size_t)s->rows * layer->params_count * crti_cuda_size(c));
}

/* ---------------------------------------------------------------- concatenate */

static void concatenate_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    count_t rows = (count_t)crti_layer_rows(layer, s),
            span = (count_t)layer->out.channels;
    count_t at = 0;

    for (int k = 0; k < layer->input_count; k++) {
        count_t width = (count_t)layer->in[k].channels;

        copy_columns(crti_cuda_of(layer), s->y, s->x[k], rows, width, span, at, width, 0);
        at += width;
    }
}

static void concatenate_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    count_t rows = (count_t)crti_layer_rows(layer, s),
            span = (count_t)layer->out.channels;
    count_t at = 0;

    for (int k = 0; k < layer->input_count; k++) {
        count_t width = (count_t)layer->in[k].channels;

        if (s->dx[k])
            copy_columns(crti_cuda_of(layer), s->dx[k], s->dy, rows, width, width, 0,
                         span, at);
        at += width;
    }
}

const crti_layer_ops_t crti_cuda_patches = {
    .name = "patches", .forward = patches_forward, .backward = patches_backward};
const crti_layer_ops_t crti_cuda_token = {.name = "token",
                                          .prepare = prepare_sums,
                                          .forward = token_forward,
                                          .backward = token_backward};
const crti_layer_ops_t crti_cuda_positions = {.name = "positions",
                                              .in_place = true,
                                              .dx_in_place = true,
                                              .prepare = prepare_sums,
                                              .forward = positions_forward,
                                              .backward = positions_backward};
const crti_layer_ops_t crti_cuda_concatenate = {.name = "concatenate",
                                                .forward = concatenate_forward,
                                                .backward = concatenate_backward};
