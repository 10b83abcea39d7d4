/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that compute each number by itself: ReLU, GELU, Mish, dropout, add; and flatten, which
 * only turns the places.
 *
 * Dropout draws its mask on the GPU, from one number of the model's generator for each pass: other
 * masks than on the host, the same ones whenever the seed is the same.
 */
#include "ml/cuda/cuda.h"
#include "ml/random.h"

typedef unsigned long long count_t;

static count_t count_of(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    return (count_t)s->rows * crti_shape_size(layer->out);
}

/* ---------------------------------------------------------------- ReLU */

static void relu_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    count_t count = count_of(layer, s);

    crti_cuda_run(crti_cuda_of(layer), CRTI_KERNEL_relu_forward, (count + 3) / 4,
                  (void *[]){(void *)&s->y, (void *)&s->x[0], &count});
}

static void relu_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    count_t count = count_of(layer, s);

    if (s->dx[0])
        crti_cuda_run(
            crti_cuda_of(layer), CRTI_KERNEL_relu_backward, (count + 3) / 4,
            (void *[]){(void *)&s->dx[0], (void *)&s->dy, (void *)&s->y, &count});
}

/* ---------------------------------------------------------------- GELU and Mish */

static void map(const crti_layer_t *layer, const crti_layer_pass_t *s,
                crti_cuda_kernel_t kernel)
{
    count_t count = count_of(layer, s);

    crti_cuda_run(crti_cuda_of(layer), kernel, (count + 3) / 4,
                  (void *[]){(void *)&s->y, (void *)&s->x[0], &count});
}

static void map_back(const crti_layer_t *layer, const crti_layer_pass_t *s,
                     crti_cuda_kernel_t kernel)
{
    count_t count = count_of(layer, s);

    if (s->dx[0])
        crti_cuda_run(
            crti_cuda_of(layer), kernel, (count + 3) / 4,
            (void *[]){(void *)&s->dx[0], (void *)&s->dy, (void *)&s->x[0], &count});
}

static void gelu_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    map(layer, s, CRTI_KERNEL_gelu_forward);
}

static void gelu_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    map_back(layer, s, CRTI_KERNEL_gelu_backward);
}

static void mish_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    map(layer, s, CRTI_KERNEL_mish_forward);
}

static void mish_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    map_back(layer, s, CRTI_KERNEL_mish_backward);
}

/* ---------------------------------------------------------------- dropout */

static void dropout_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    count_t count = count_of(layer, s), seed, limit;
    float keep = (float)(1.0 / (1.0 - layer->spec.rate));

    if (!s->random) {
        crti_cuda_copy(c, s->y, s->x[0], count * crti_cuda_size(c));
        return;
    }
    seed = crti_random_next(s->random);
    limit = (count_t)(layer->spec.rate * 0x1p32);
    crti_cuda_run(c, CRTI_KERNEL_dropout, count,
                  (void *[]){(void *)&s->y, (void *)&s->x[0], (void *)&s->kept, &count,
                             &seed, &limit, &keep});
}

static void dropout_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    count_t count = count_of(layer, s);

    if (s->dx[0])
        crti_cuda_run(
            crti_cuda_of(layer), CRTI_KERNEL_multiply, count,
            (void *[]){(void *)&s->dx[0], (void *)&s->dy, (void *)&s->kept, &count});
}

/* ---------------------------------------------------------------- add */

static void add_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    count_t count = count_of(layer, s);

    crti_cuda_run(crti_cuda_of(layer), CRTI_KERNEL_add, (count + 3) / 4,
                  (void *[]){(void *)&s->y, (void *)&s->x[0], (void *)&s->x[1], &count});
}

/* ---------------------------------------------------------------- flatten */

static void flatten_forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_turn(crti_cuda_of(layer), CRTI_KERNEL_turn, s->y, s->x[0], (size_t)s->rows,
                   (size_t)layer->in[0].channels, crti_shape_places(layer->in[0]), 1);
}

static void flatten_backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    if (s->dx[0])
        crti_cuda_turn(crti_cuda_of(layer), CRTI_KERNEL_turn, s->dx[0], s->dy,
                       (size_t)s->rows, crti_shape_places(layer->in[0]),
                       (size_t)layer->in[0].channels, 1);
}

const crti_layer_ops_t crti_cuda_relu = {.name = "relu",
                                         .in_place = true,
                                         .dx_in_place = true,
                                         .needs_y = true,
                                         .forward = relu_forward,
                                         .backward = relu_backward};
const crti_layer_ops_t crti_cuda_gelu = {.name = "gelu",
                                         .dx_in_place = true,
                                         .forward = gelu_forward,
                                         .backward = gelu_backward};
const crti_layer_ops_t crti_cuda_mish = {.name = "mish",
                                         .dx_in_place = true,
                                         .forward = mish_forward,
                                         .backward = mish_backward};
const crti_layer_ops_t crti_cuda_dropout = {.name = "dropout",
                                            .in_place = true,
                                            .dx_in_place = true,
                                            .forward = dropout_forward,
                                            .backward = dropout_backward};
const crti_layer_ops_t crti_cuda_add = {
    .name = "add", .is_sum = true, .in_place = true, .forward = add_forward};
const crti_layer_ops_t crti_cuda_flatten = {
    .name = "flatten", .forward = flatten_forward, .backward = flatten_backward};
