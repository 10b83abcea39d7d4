/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm: y = (x - mean) / sqrt(variance + epsilon) * gain + bias, of each channel.
 *
 * Parameters: gain (channels), then bias (channels). While training, mean and variance are those of
 * all places of all samples of the pass, and are `kept`; the statistics (means, then variances) move to
 * them by `momentum`, the variance with n - 1 under the sum, as in PyTorch. Else the statistics are used.
 */
#include <stdlib.h>
#include <string.h>

#include "ml/onednn.h"

typedef struct batch_norm {
    crti_onednn_t forward, backward;
    size_t
        spare_at; /* in the workspace: for a gradient of the inputs that nobody wants */
} batch_norm_t;

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    double epsilon = layer->spec.epsilon, momentum = layer->spec.momentum;

    if (!(epsilon > 0 && epsilon < 1) || !(momentum >= 0 && momentum <= 1))
        return crt_raise(CRT_ERR_INVALID,
                         "layer %zu: a batch norm with epsilon %g and momentum %g", index,
                         epsilon, momentum);
    layer->out = layer->in[0];
    layer->kept_fixed = layer->statistics_count = 2 * (size_t)layer->out.channels;
    crti_layer_add_array(layer, 1, layer->out.channels);
    crti_layer_add_array(layer, 1, layer->out.channels);
    return CRT_OK;
}

/* Zeros, then ones. */
static void fill(const crti_layer_t *layer, float *zeros, float *ones)
{
    for (int i = 0; i < layer->out.channels; i++) {
        zeros[i] = 0;
        ones[i] = 1;
    }
}

static void init(const crti_layer_t *layer, float *params, crti_random_t *random)
{
    (void)random;
    fill(layer, params + layer->out.channels, params);
}

static void init_statistics(const crti_layer_t *layer, float *statistics)
{
    fill(layer, statistics, statistics + layer->out.channels);
}

/* ---------------------------------------------------------------- primitives */

static crt_status_t add_all(crti_onednn_t *p, int count, const int *arguments,
                            const dnnl_memory_desc_t *const *memories)
{
    crt_status_t status = CRT_OK;

    for (int i = 0; i < count && status == CRT_OK; i++)
        status = crti_onednn_argument(p, arguments[i], memories[i]);
    return status;
}

static crt_status_t make_forward(const crti_layer_t *layer, const dnnl_memory_desc_t *x,
                                 bool training, dnnl_primitive_desc_t *description_out)
{
    static const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_DST, DNNL_ARG_SCALE_SHIFT,
                                    DNNL_ARG_MEAN, DNNL_ARG_VARIANCE};
    batch_norm_t *own = layer->own;
    unsigned flags = dnnl_use_scaleshift | (training ? 0 : dnnl_use_global_stats);
    const dnnl_dims_t channels = {layer->out.channels}, both = {2, layer->out.channels};
    dnnl_memory_desc_t one = crti_onednn_rows(1, channels);
    dnnl_memory_desc_t two = crti_onednn_rows(2, both);
    dnnl_batch_normalization_desc_t d;
    dnnl_status_t described = dnnl_batch_normalization_forward_desc_init(
        &d, training ? dnnl_forward_training : dnnl_forward_inference, x,
        (float)layer->spec.epsilon, flags);
    crt_status_t status = crti_onednn_make(&own->forward, described, &d, NULL,
                                           "batch norm", description_out);

    if (status != CRT_OK)
        return status;
    return add_all(&own->forward, 5, arguments,
                   (const dnnl_memory_desc_t *const[]){x, x, &two, &one, &one});
}

static crt_status_t make_backward(const crti_layer_t *layer, const dnnl_memory_desc_t *x,
                                  const_dnnl_primitive_desc_t hint)
{
    static const int arguments[] = {
        DNNL_ARG_SRC,      DNNL_ARG_DIFF_DST,    DNNL_ARG_DIFF_SRC,        DNNL_ARG_MEAN,
        DNNL_ARG_VARIANCE, DNNL_ARG_SCALE_SHIFT, DNNL_ARG_DIFF_SCALE_SHIFT};
    batch_norm_t *own = layer->own;
    const dnnl_dims_t channels = {layer->out.channels}, both = {2, layer->out.channels};
    dnnl_memory_desc_t one = crti_onednn_rows(1, channels);
    dnnl_memory_desc_t two = crti_onednn_rows(2, both);
    dnnl_primitive_desc_t description;
    dnnl_batch_normalization_desc_t d;
    dnnl_status_t described = dnnl_batch_normalization_backward_desc_init(
        &d, dnnl_backward, x, x, (float)layer->spec.epsilon, dnnl_use_scaleshift);
    crt_status_t status = crti_onednn_make(&own->backward, described, &d, hint,
                                           "gradient of a batch norm", &description);

    dnnl_primitive_desc_destroy(description);
    if (status != CRT_OK)
        return status;
    return add_all(&own->backward, 7, arguments,
                   (const dnnl_memory_desc_t *const[]){x, x, x, &one, &one, &two, &two});
}

static void release(crti_layer_t *layer)
{
    batch_norm_t *own = layer->own;

    crti_onednn_free(&own->forward);
    crti_onednn_free(&own->backward);
    free(own);
    layer->own = NULL;
}

static crt_status_t prepare(crti_layer_t *layer, int rows, bool training)
{
    dnnl_memory_desc_t x = crti_onednn_places(rows, layer->in[0]);
    dnnl_primitive_desc_t description;
    batch_norm_t *own;
    crt_status_t status;

    if (layer->own)
        release(layer);
    layer->own = calloc(1, sizeof(batch_norm_t));
    if (!layer->own)
        return crt_raise(CRT_ERR_NO_MEMORY, "batch norm");
    status = make_forward(layer, &x, training, &description);
    if (status == CRT_OK && training)
        status = make_backward(layer, &x, description);
    dnnl_primitive_desc_destroy(description);
    own = layer->own;
    own->spare_at = own->forward.scratch > own->backward.scratch ? own->forward.scratch
                                                                 : own->backward.scratch;
    layer->workspace =
        own->spare_at + (layer->sources[0] < 0 ? crti_onednn_floats(&x) : 0);
    return status;
}

/* ---------------------------------------------------------------- passes */

/* Statistics follow those of a batch of n places. */
static void follow(const crti_layer_t *layer, const float *kept, float *statistics,
                   size_t n)
{
    int channels = layer->out.channels;
    float rate = (float)layer->spec.momentum;
    float unbiased = n > 1 ? (float)n / (float)(n - 1) : 1;

    for (int i = 0; i < channels; i++) {
        float *mean = statistics + i, *variance = mean + channels;

        *mean += rate * (kept[i] - *mean);
        *variance += rate * (kept[channels + i] * unbiased - *variance);
    }
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const batch_norm_t *own = layer->own;
    const float *statistics = s->random ? s->kept : s->statistics;

    crti_onednn_run(&own->forward, s,
                    (const void *const[]){s->x[0], s->y, s->params, statistics,
                                          statistics + layer->out.channels});
    if (s->random)
        follow(layer, s->kept, s->statistics, (size_t)crti_layer_rows(layer, s));
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const batch_norm_t *own = layer->own;
    float *dx = s->dx[0] ? s->dx[0] : s->workspace + own->spare_at;

    crti_onednn_run(&own->backward, s,
                    (const void *const[]){s->x[0], s->dy, dx, s->kept,
                                          s->kept + layer->out.channels, s->params,
                                          s->dparams});
}

const crti_layer_ops_t crti_layer_batch_norm = {.name = "batch_norm",
                                                .dx_in_place = true,
                                                .shape = shape,
                                                .init = init,
                                                .init_statistics = init_statistics,
                                                .prepare = prepare,
                                                .release = release,
                                                .forward = forward,
                                                .backward = backward};
