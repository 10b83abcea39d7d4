/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that choose places: pools and subsample, with kernels of ours: as on the host, the
 * gradient of a largest number goes to the first of its window that is as large, which cuDNN leaves
 * open. */
#include "ml/cuda/cuda.h"

static crti_cuda_windows_t windows_of(const crti_layer_t *layer,
                                      const crti_layer_pass_t *s)
{
    const crti_cuda_t *c = crti_cuda_of(layer);
    const crt_layer_t *spec = &layer->spec;
    bool is_whole = spec->kernel == 0;

    return (crti_cuda_windows_t){.in = crti_cuda_grid(c, s->rows, layer->in[0]),
                                 .out = crti_cuda_grid(c, s->rows, layer->out),
                                 .height = is_whole ? layer->in[0].height : spec->kernel,
                                 .width = is_whole ? layer->in[0].width : spec->kernel,
                                 .stride = spec->stride ? spec->stride : 1,
                                 .padding = spec->padding};
}

static void run_forward(const crti_layer_t *layer, const crti_layer_pass_t *s,
                        crti_cuda_kernel_t kernel)
{
    crti_cuda_windows_t windows = windows_of(layer, s);

    crti_cuda_run(crti_cuda_of(layer), kernel,
                  (size_t)s->rows * crti_shape_size(layer->out),
                  (void *[]){(void *)&s->y, (void *)&s->x[0], &windows});
}

static void run_backward(const crti_layer_t *layer, const crti_layer_pass_t *s,
                         crti_cuda_kernel_t kernel)
{
    crti_cuda_windows_t windows = windows_of(layer, s);

    if (s->dx[0])
        crti_cuda_run(crti_cuda_of(layer), kernel,
                      (size_t)s->rows * crti_shape_size(layer->in[0]),
                      (void *[]){(void *)&s->dx[0], (void *)&s->dy, &windows});
}

static void max_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    run_forward(layer, s, CRTI_KERNEL_max_pool_forward);
}

static void max_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_windows_t windows = windows_of(layer, s);

    if (s->dx[0])
        crti_cuda_run(crti_cuda_of(layer), CRTI_KERNEL_max_pool_backward,
                      (size_t)s->rows * crti_shape_size(layer->in[0]),
                      (void *[]){(void *)&s->dx[0], (void *)&s->dy, (void *)&s->x[0],
                                 (void *)&s->y, &windows});
}

static void average_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    run_forward(layer, s, CRTI_KERNEL_average_pool_forward);
}

static void average_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    run_backward(layer, s, CRTI_KERNEL_average_pool_backward);
}

static void subsample_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    run_forward(layer, s, CRTI_KERNEL_subsample_forward);
}

static void subsample_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    run_backward(layer, s, CRTI_KERNEL_subsample_backward);
}

const crti_layer_ops_t crti_cuda_max_pool = {.name = "max_pool",
                                             .needs_y = true,
                                             .forward = max_forward,
                                             .backward = max_backward};
const crti_layer_ops_t crti_cuda_average_pool = {
    .name = "average_pool", .forward = average_forward, .backward = average_backward};
const crti_layer_ops_t crti_cuda_subsample = {
    .name = "subsample", .forward = subsample_forward, .backward = subsample_backward};
