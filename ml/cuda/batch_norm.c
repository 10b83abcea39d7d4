/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm: by cuDNN, or where channels lie last by kernels of ours. `kept` are the means and,
 * unlike on the host, one over the deviations. */
#include <stdlib.h>

#include "ml/cuda/cuda.h"

#define ALIGNED       64  /* floats */
#define BLOCKS        256 /* of the first step of a sum */
#define THREADS       256 /* as in kernels.cu ... */
#define CHANNELS      32
#define MINIMUM(a, b) ((a) < (b) ? (a) : (b))

typedef struct batch_norm {
    cudnnTensorDescriptor_t x, channels;
    /* in the workspace: for a gradient of the inputs that nobody wants */
    size_t spare_at;
} batch_norm_t;

static void release(crti_layer_t *layer)
{
    const crti_cuda_api_t *api = crti_cuda_of(layer)->api;
    batch_norm_t *own = layer->own;

    if (own->x)
        (void)api->cudnnDestroyTensorDescriptor(own->x);
    if (own->channels)
        (void)api->cudnnDestroyTensorDescriptor(own->channels);
    free(own);
    layer->own = NULL;
}

static crt_status_t prepare(crti_layer_t *layer, int rows, bool training)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    size_t channels = (size_t)layer->out.channels;
    batch_norm_t *own;

    (void)training;
    if (layer->own)
        release(layer);
    layer->own = own = calloc(1, sizeof(*own));
    if (!own)
        return crt_raise(CRT_ERR_NO_MEMORY, "batch norm");
    if (c->channels_first) {
        own->x = crti_cuda_describe(c, CUDNN_DATA_FLOAT, rows, layer->out);
        own->channels = crti_cuda_describe(c, CUDNN_DATA_FLOAT, 1,
                                           (crti_shape_t){1, 1, layer->out.channels});
    }
    /* Sums of blocks, then means. */
    own->spare_at = !c->channels_first
                        ? (2 * (BLOCKS + 1) * channels + ALIGNED - 1) / ALIGNED * ALIGNED
                        : 0;
    layer->workspace =
        own->spare_at +
        (layer->sources[0] < 0 ? (size_t)rows * crti_shape_size(layer->in[0]) : 0);
    return c->device.ops->failure(&c->device);
}

static float *inputs_of(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const batch_norm_t *own = layer->own;

    return s->dx[0] ? s->dx[0] : s->workspace + own->spare_at;
}

/* ---------------------------------------------------------------- channels last */

static crti_cuda_norm_t norm_of(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int rows = crti_layer_rows(layer, s);

    return (crti_cuda_norm_t){.rows = rows,
                              .channels = layer->out.channels,
                              .blocks = MINIMUM(rows, BLOCKS),
                              .epsilon = (float)layer->spec.epsilon,
                              .momentum = (float)layer->spec.momentum,
                              .factor = 1 / crti_cuda_of(layer)->scale};
}

/* The second step of a sum. */
static void run_channels(crti_cuda_t *c, crti_cuda_kernel_t kernel, int channels,
                         void **arguments)
{
    crti_cuda_run_blocks(c, kernel, (size_t)((channels + CHANNELS - 1) / CHANNELS),
                         THREADS, arguments);
}

static void forward_last(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    crti_cuda_norm_t n = norm_of(layer, s);
    const float *means = s->random ? s->kept : s->statistics;
    const float *scales = means + n.channels;
    int is_variance = !s->random;

    if (s->random) {
        crti_cuda_run_blocks(c, CRTI_KERNEL_norm_measure, (size_t)n.blocks, THREADS,
                             (void *[]){(void *)&s->workspace, (void *)&s->x[0], &n});
        run_channels(c, CRTI_KERNEL_norm_keep, n.channels,
                     (void *[]){(void *)&s->kept, (void *)&s->statistics,
                                (void *)&s->workspace, (void *)&s->x[0], &n});
    }
    crti_cuda_run(c, CRTI_KERNEL_norm_forward,
                  (size_t)s->rows * crti_shape_size(layer->out),
                  (void *[]){(void *)&s->y, (void *)&s->x[0], (void *)&s->params, &means,
                             &scales, &is_variance, &n});
}

static void backward_last(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    crti_cuda_norm_t n = norm_of(layer, s);
    float *means = s->workspace + 2 * BLOCKS * (size_t)n.channels;
    float *dx = inputs_of(layer, s);

    crti_cuda_run_blocks(c, CRTI_KERNEL_norm_measure_back, (size_t)n.blocks, THREADS,
                         (void *[]){(void *)&s->workspace, (void *)&s->dy,
                                    (void *)&s->x[0], (void *)&s->kept, &n});
    run_channels(c, CRTI_KERNEL_norm_gradients, n.channels,
                 (void *[]){(void *)&s->dparams, &means, (void *)&s->workspace, &n});
    crti_cuda_run(c, CRTI_KERNEL_norm_backward,
                  (size_t)s->rows * crti_shape_size(layer->out),
                  (void *[]){&dx, (void *)&s->dy, (void *)&s->x[0], (void *)&s->params,
                             (void *)&s->kept, &means, &n});
}

/* ---------------------------------------------------------------- channels first */

static void forward_first(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const batch_norm_t *own = layer->own;
    crti_cuda_t *c = crti_cuda_of(layer);
    const float *bias = s->params + layer->out.channels, one = 1, none = 0;
    float *variances = s->statistics + layer->out.channels;
    cudnnStatus_t status =
        s->random ? c->api->cudnnBatchNormalizationForwardTraining(
                        c->dnn, CUDNN_BATCHNORM_SPATIAL, &one, &none, own->x, s->x[0],
                        own->x, s->y, own->channels, s->params, bias,
                        layer->spec.momentum, s->statistics, variances,
                        layer->spec.epsilon, s->kept, s->kept + layer->out.channels)
                  : c->api->cudnnBatchNormalizationForwardInference(
                        c->dnn, CUDNN_BATCHNORM_SPATIAL, &one, &none, own->x, s->x[0],
                        own->x, s->y, own->channels, s->params, bias, s->statistics,
                        variances, layer->spec.epsilon);

    crti_cuda_did_dnn(c, status, "a batch norm");
}

static void backward_first(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const batch_norm_t *own = layer->own;
    crti_cuda_t *c = crti_cuda_of(layer);
    const float one = 1, none = 0;

    crti_cuda_did_dnn(c,
                      c->api->cudnnBatchNormalizationBackward(
                          c->dnn, CUDNN_BATCHNORM_SPATIAL, &one, &none, &one, &none,
                          own->x, s->x[0], own->x, s->dy, own->x, inputs_of(layer, s),
                          own->channels, s->params, s->dparams,
                          s->dparams + layer->out.channels, layer->spec.epsilon, s->kept,
                          s->kept + layer->out.channels),
                      "the gradient of a batch norm");
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    if (!crti_cuda_of(layer)->channels_first)
        forward_last(layer, s);
    else
        forward_first(layer, s);
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    if (!crti_cuda_of(layer)->channels_first)
        backward_last(layer, s);
    else
        backward_first(layer, s);
}

const crti_layer_ops_t crti_cuda_batch_norm = {.name = "batch_norm",
                                               .dx_in_place = true,
                                               .prepare = prepare,
                                               .release = release,
                                               .forward = forward,
                                               .backward = backward};
