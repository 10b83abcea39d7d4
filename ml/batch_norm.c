/* SPDX-License-Identifier: Apache-2.0 */
/* Batch norm: y = (x - mean) / sqrt(variance + epsilon) * gain + bias, of each channel.
 *
 * Parameters: gain (channels), then bias (channels). While training, mean and variance are those of
 * all places of all samples of the pass, and are `kept`; the statistics (means, then variances)
 * move to them by `momentum`, the variance with n - 1 under the sum, as in PyTorch. Else the
 * statistics are used. With others who have more of the batch (crt_model_sync_norms) the sums are
 * theirs, too: oneDNN, which knows no others, is not asked then.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ml/onednn.h"

#define SUMS 8 /* floats of workspace for each channel: 2 doubles, 3 floats, rounded up */

typedef struct batch_norm {
    crti_onednn_t forward, backward;
    /* in the workspace: for a gradient of the inputs that nobody wants */
    size_t spare_at;
} batch_norm_t;

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    double epsilon = layer->spec.epsilon, momentum = layer->spec.momentum;

    if (!(epsilon > 0 && epsilon < 1) || !(momentum >= 0 && momentum <= 1))
        return crt_raise(CRT_ERR_INVALID,
                         "layer %zu: a batch norm with epsilon %g and momentum %g", index,
                         epsilon, momentum);
    layer->out = layer->in[0];
    layer->statistics_count = 2 * (size_t)layer->out.channels;
    layer->kept_fixed = layer->statistics_count + 1; /* places, if others have some */
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

static crt_status_t make_forward(const crti_layer_t *layer, crti_layout_t x,
                                 crti_layout_t one, bool training,
                                 dnnl_primitive_desc_t *description_out)
{
    static const int arguments[] = {DNNL_ARG_SRC,   DNNL_ARG_DST,  DNNL_ARG_SCALE,
                                    DNNL_ARG_SHIFT, DNNL_ARG_MEAN, DNNL_ARG_VARIANCE};
    batch_norm_t *own = layer->own;
    crt_status_t status = crti_onednn_make_batch_norm(
        &own->forward, training ? CRTI_DNNL_TRAINING : CRTI_DNNL_INFERENCE, x,
        layer->spec.epsilon, NULL, description_out);

    if (status != CRT_OK)
        return status;
    return crti_onednn_arguments(&own->forward, 6, arguments,
                                 (const crti_const_layout_t[]){x, x, one, one, one, one});
}

static crt_status_t make_backward(const crti_layer_t *layer, crti_layout_t x,
                                  crti_layout_t one, const_dnnl_primitive_desc_t hint)
{
    static const int arguments[] = {
        DNNL_ARG_SRC,        DNNL_ARG_DIFF_DST,   DNNL_ARG_DIFF_SRC,
        DNNL_ARG_MEAN,       DNNL_ARG_VARIANCE,   DNNL_ARG_SCALE,
        DNNL_ARG_DIFF_SCALE, DNNL_ARG_DIFF_SHIFT, DNNL_ARG_SHIFT};
    int count = CRTI_DNNL_NORM_BACK_HAS_BIAS ? 9 : 8;
    batch_norm_t *own = layer->own;
    dnnl_primitive_desc_t description;
    crt_status_t status =
        crti_onednn_make_batch_norm(&own->backward, CRTI_DNNL_INPUTS_BACK, x,
                                    layer->spec.epsilon, hint, &description);

    dnnl_primitive_desc_destroy(description);
    if (status != CRT_OK)
        return status;
    return crti_onednn_arguments(
        &own->backward, count, arguments,
        (const crti_const_layout_t[]){x, x, x, one, one, one, one, one, one});
}

static crt_status_t make_passes(crti_layer_t *layer, crti_layout_t x, crti_layout_t one,
                                bool training)
{
    dnnl_primitive_desc_t description = NULL;
    crt_status_t status;

    if (!x || !one)
        return crt_raise(CRT_ERR_NO_MEMORY, "batch norm");
    status = make_forward(layer, x, one, training, &description);
    if (status == CRT_OK && training)
        status = make_backward(layer, x, one, description);
    dnnl_primitive_desc_destroy(description);
    return status;
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
    const dnnl_dims_t channels = {layer->out.channels};
    crti_layout_t x, one;
    batch_norm_t *own;
    crt_status_t status;

    if (layer->own)
        release(layer);
    own = layer->own = calloc(1, sizeof(batch_norm_t));
    if (!own)
        return crt_raise(CRT_ERR_NO_MEMORY, "batch norm");
    x = crti_onednn_places(rows, layer->in[0]);
    one = crti_onednn_rows(1, channels);
    status = make_passes(layer, x, one, training);
    own->spare_at = own->forward.scratch > own->backward.scratch ? own->forward.scratch
                                                                 : own->backward.scratch;
    layer->workspace = own->spare_at;
    if (status == CRT_OK && layer->sources[0] < 0)
        layer->workspace += crti_onednn_floats(x);
    if (layer->workspace < SUMS * (size_t)layer->out.channels)
        layer->workspace = SUMS * (size_t)layer->out.channels;
    crti_layout_free(x);
    crti_layout_free(one);
    return status;
}

/* ---------------------------------------------------------------- with others */

/* Adds up numbers of all who have parts of the batch; false when that failed. */
static bool sum_up(const crti_layer_pass_t *s, const double *own, float *numbers,
                   int count)
{
    crt_status_t status;

    for (int i = 0; i < count; i++)
        numbers[i] = (float)own[i];
    status = s->norm_sum(s->norm_context, numbers, (size_t)count);
    if (status != CRT_OK)
        *s->failed = status;
    return status == CRT_OK;
}

/* Mean and variance of all places, which are kept with their number. */
static bool measure(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int n = crti_layer_rows(layer, s), channels = layer->out.channels;
    float *mean = s->kept, *variance = mean + channels, *places = variance + channels;
    double *sums = (double *)s->workspace, own = n;
    const float *x = s->x[0];

    memset(sums, 0, (size_t)channels * sizeof(*sums));
    for (int i = 0; i < n; i++, x += channels)
        for (int c = 0; c < channels; c++)
            sums[c] += (double)x[c];
    if (!sum_up(s, &own, places, 1) || !sum_up(s, sums, mean, channels))
        return false;
    memset(sums, 0, (size_t)channels * sizeof(*sums));
    for (int c = 0; c < channels; c++)
        mean[c] /= *places;
    x = s->x[0];
    for (int i = 0; i < n; i++, x += channels)
        for (int c = 0; c < channels; c++)
            sums[c] += (double)((x[c] - mean[c]) * (x[c] - mean[c]));
    if (!sum_up(s, sums, variance, channels))
        return false;
    for (int c = 0; c < channels; c++)
        variance[c] /= *places;
    return true;
}

static float deviation(const crti_layer_t *layer, const crti_layer_pass_t *s, int channel)
{
    return sqrtf(s->kept[layer->out.channels + channel] + (float)layer->spec.epsilon);
}

static void normalize(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int channels = layer->out.channels, n = crti_layer_rows(layer, s);
    float *scale = s->workspace;

    for (int c = 0; c < channels; c++)
        scale[c] = s->params[c] / deviation(layer, s, c);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < channels; c++) {
            size_t at = (size_t)i * (size_t)channels + (size_t)c;

            s->y[at] = (s->x[0][at] - s->kept[c]) * scale[c] + s->params[channels + c];
        }
}

/* dx = gain / deviation * (dy - mean(dy) - xhat * mean(dy * xhat)), the means over all places. */
static void backward_with_others(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    int channels = layer->out.channels, n = crti_layer_rows(layer, s);
    double *sums = (double *)s->workspace; /* dy * xhat, then dy */
    float *all = (float *)(sums + 2 * channels), *scale = all + 2 * channels;

    memset(sums, 0, 2 * (size_t)channels * sizeof(*sums));
    for (int c = 0; c < channels; c++)
        scale[c] = 1 / deviation(layer, s, c);
    for (int i = 0; i < n; i++)
        for (int c = 0; c < channels; c++) {
            size_t at = (size_t)i * (size_t)channels + (size_t)c;

            sums[c] += (double)(s->dy[at] * (s->x[0][at] - s->kept[c]) * scale[c]);
            sums[channels + c] += (double)s->dy[at];
        }
    for (int c = 0; c < 2 * channels; c++)
        s->dparams[c] = (float)sums[c];
    if (!sum_up(s, sums, all, 2 * channels))
        return;
    for (int i = 0; s->dx[0] && i < n; i++)
        for (int c = 0; c < channels; c++) {
            size_t at = (size_t)i * (size_t)channels + (size_t)c;
            float hat = (s->x[0][at] - s->kept[c]) * scale[c];
            float share = 1 / s->kept[2 * channels];

            s->dx[0][at] = s->params[c] * scale[c] *
                           (s->dy[at] - all[channels + c] * share - hat * all[c] * share);
        }
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

    if (s->norm_sum) {
        if (!measure(layer, s))
            return;
        normalize(layer, s);
        follow(layer, s->kept, s->statistics, (size_t)s->kept[2 * layer->out.channels]);
        return;
    }
    crti_onednn_run(&own->forward, s,
                    (const void *const[]){s->x[0], s->y, s->params,
                                          s->params + layer->out.channels, statistics,
                                          statistics + layer->out.channels});
    if (s->random)
        follow(layer, s->kept, s->statistics, (size_t)crti_layer_rows(layer, s));
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const batch_norm_t *own = layer->own;
    int channels = layer->out.channels;
    float *dx = s->dx[0] ? s->dx[0] : s->workspace + own->spare_at;

    if (s->norm_sum) {
        backward_with_others(layer, s);
        return;
    }
    crti_onednn_run(&own->backward, s,
                    (const void *const[]){s->x[0], s->dy, dx, s->kept, s->kept + channels,
                                          s->params, s->dparams, s->dparams + channels,
                                          s->params + channels});
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
