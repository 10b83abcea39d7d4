/* SPDX-License-Identifier: Apache-2.0 */
/* cuDNN of the stand-in: convolutions and batch norms, each computed as its definition says; the
 * former on copies of float32. See fake.h. */
#include <cudnn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "runtime/base/half.h"

#define WORKSPACE 1024 /* bytes that each convolution asks for */

struct cudnnContext {
    cudaStream_t stream;
};

/* Samples, or filters: n x c x h x w. */
struct cudnnTensorStruct {
    int n, c, h, w;
    bool is_half, is_last;
};

struct cudnnFilterStruct {
    struct cudnnTensorStruct t;
};

struct cudnnConvolutionStruct {
    int padding, stride;
};

typedef struct cudnnTensorStruct shape_t;

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = calloc(1, sizeof(**handle));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS"
                                          : "CUDNN_STATUS_BAD_PARAM";
}

/* ---------------------------------------------------------------- descriptors */

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *made)
{
    *made = calloc(1, sizeof(**made));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t)
{
    free(t);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t,
                                         cudnnTensorFormat_t format, cudnnDataType_t type,
                                         int n, int c, int h, int w)
{
    if (n < 1 || c < 1 || h < 1 || w < 1)
        return CUDNN_STATUS_BAD_PARAM;
    *t = (shape_t){n, c, h, w, type == CUDNN_DATA_HALF, format == CUDNN_TENSOR_NHWC};
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *made)
{
    *made = calloc(1, sizeof(**made));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t t)
{
    free(t);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t f, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int n, int c, int h,
                                         int w)
{
    return cudnnSetTensor4dDescriptor(&f->t, format, type, n, c, h, w);
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *made)
{
    *made = calloc(1, sizeof(**made));
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c)
{
    free(c);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t c, int pad_h,
                                              int pad_w, int stride_h, int stride_w,
                                              int dilation_h, int dilation_w,
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute)
{
    *c = (struct cudnnConvolutionStruct){pad_h, stride_h};
    return pad_h == pad_w && stride_h == stride_w && dilation_h == 1 && dilation_w == 1 &&
                   mode == CUDNN_CROSS_CORRELATION && compute == CUDNN_DATA_FLOAT
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_BAD_PARAM;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c,
                                          cudnnMathType_t math)
{
    (void)c;
    (void)math;
    return CUDNN_STATUS_SUCCESS;
}

/* ---------------------------------------------------------------- copies */

static size_t count_of(const shape_t *s)
{
    return (size_t)s->n * (size_t)s->c * (size_t)s->h * (size_t)s->w;
}

/* Where number (n, c, place) lies. */
static size_t place_of(const shape_t *s, size_t n, size_t c, size_t place)
{
    size_t places = (size_t)s->h * (size_t)s->w, channels = (size_t)s->c;

    return s->is_last ? (n * places + place) * channels + c
                      : (n * channels + c) * places + place;
}

/* Copies, as (n, place, c); of filters, as (place, c, n). */
#define EACH_NUMBER(s, n, c, place)                                                      \
    for (size_t n = 0; n < (size_t)(s)->n; n++)                                          \
        for (size_t c = 0; c < (size_t)(s)->c; c++)                                      \
            for (size_t place = 0; place < (size_t)(s)->h * (size_t)(s)->w; place++)

static size_t copied_to(const shape_t *s, bool is_filter, size_t n, size_t c,
                        size_t place)
{
    size_t places = (size_t)s->h * (size_t)s->w;

    return is_filter ? (place * (size_t)s->c + c) * (size_t)s->n + n
                     : (n * places + place) * (size_t)s->c + c;
}

static float *unpack(const shape_t *s, const void *data, bool is_filter)
{
    float *out = malloc(count_of(s) * sizeof(float));

    EACH_NUMBER(s, n, c, place)
    {
        size_t from = place_of(s, n, c, place);

        out[copied_to(s, is_filter, n, c, place)] =
            s->is_half ? crti_float16_value(((const uint16_t *)data)[from])
                       : ((const float *)data)[from];
    }
    return out;
}

static void pack(const shape_t *s, const float *copy, void *data, bool is_filter)
{
    EACH_NUMBER(s, n, c, place)
    {
        size_t to = place_of(s, n, c, place);
        float x = copy[copied_to(s, is_filter, n, c, place)];

        if (s->is_half)
            ((uint16_t *)data)[to] = crti_float16(x);
        else
            ((float *)data)[to] = x;
    }
}

static void *memory_of(const shape_t *s, const void *data)
{
    return fake_memory(data, count_of(s) * (s->is_half ? 2 : 4));
}

/* ---------------------------------------------------------------- convolutions */

typedef enum pass { FORWARD, INPUTS, FILTER } pass_t;

typedef struct convolution {
    pass_t pass;
    shape_t x, w, y;
    void *x_data, *w_data, *y_data;
    int padding, stride;
} convolution_t;

/* One place of x and one of y, and the weights between them: (inputs, outputs). */
static void pass_place(const convolution_t *c, float *x, float *w, float *y)
{
    for (int in = 0; in < c->x.c; in++) {
        float *row = w + in * c->y.c, sum = 0;

        for (int out = 0; c->pass == FORWARD && out < c->y.c; out++)
            y[out] += x[in] * row[out];
        for (int out = 0; c->pass == INPUTS && out < c->y.c; out++)
            sum += y[out] * row[out];
        for (int out = 0; c->pass == FILTER && out < c->y.c; out++)
            row[out] += x[in] * y[out];
        if (c->pass == INPUTS)
            x[in] += sum;
    }
}

/* All places of x that one of y reads. */
static void pass_window(const convolution_t *c, float *x, float *w, float *y, int i,
                        int j)
{
    for (int k = 0; k < c->w.h * c->w.w; k++) {
        int row = i * c->stride - c->padding + k / c->w.w;
        int col = j * c->stride - c->padding + k % c->w.w;

        if (row >= 0 && row < c->x.h && col >= 0 && col < c->x.w)
            pass_place(c, x + (row * c->x.w + col) * c->x.c, w + k * c->x.c * c->y.c, y);
    }
}

static void compute(const convolution_t *c, float *x, float *w, float *y)
{
    for (int n = 0; n < c->y.n; n++)
        for (int place = 0; place < c->y.h * c->y.w; place++)
            pass_window(c, x + n * c->x.h * c->x.w * c->x.c, w,
                        y + (n * c->y.h * c->y.w + place) * c->y.c, place / c->y.w,
                        place % c->y.w);
}

static void run_convolution(void *work)
{
    convolution_t *c = work;
    float *x = unpack(&c->x, c->x_data, false), *w = unpack(&c->w, c->w_data, true);
    float *y = unpack(&c->y, c->y_data, false);
    const shape_t *made = c->pass == FORWARD ? &c->y : c->pass == INPUTS ? &c->x : &c->w;
    float *out = c->pass == FORWARD ? y : c->pass == INPUTS ? x : w;

    memset(out, 0, count_of(made) * sizeof(float));
    compute(c, x, w, y);
    pack(made, out,
         c->pass == FORWARD  ? c->y_data
         : c->pass == INPUTS ? c->x_data
                             : c->w_data,
         c->pass == FILTER);
    free(x);
    free(w);
    free(y);
    free(c);
}

static bool fits(const shape_t *x, const shape_t *w, const shape_t *y,
                 cudnnConvolutionDescriptor_t d)
{
    return x->n == y->n && x->c == w->c && y->c == w->n &&
           y->h == (x->h + 2 * d->padding - w->h) / d->stride + 1 &&
           y->w == (x->w + 2 * d->padding - w->w) / d->stride + 1 &&
           x->is_half == w->is_half && x->is_half == y->is_half;
}

static cudnnStatus_t convolve(cudnnHandle_t handle, pass_t pass, const shape_t *x,
                              const void *x_data, const shape_t *w, const void *w_data,
                              const shape_t *y, const void *y_data,
                              cudnnConvolutionDescriptor_t d, int algorithm,
                              void *workspace, size_t bytes)
{
    convolution_t *c = calloc(1, sizeof(*c));

    *c = (convolution_t){pass,
                         *x,
                         *w,
                         *y,
                         memory_of(x, x_data),
                         memory_of(w, w_data),
                         memory_of(y, y_data),
                         d->padding,
                         d->stride};
    if (!c->x_data || !c->w_data || !c->y_data || !fits(x, w, y, d) || algorithm != 1 ||
        bytes < WORKSPACE || !fake_memory(workspace, bytes)) {
        free(c);
        return CUDNN_STATUS_BAD_PARAM;
    }
    fake_queue(handle->stream, run_convolution, c);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha,
                                      const cudnnTensorDescriptor_t x, const void *x_data,
                                      const cudnnFilterDescriptor_t w, const void *w_data,
                                      const cudnnConvolutionDescriptor_t d,
                                      cudnnConvolutionFwdAlgo_t algorithm,
                                      void *workspace, size_t bytes, const void *beta,
                                      const cudnnTensorDescriptor_t y, void *y_data)
{
    (void)alpha;
    (void)beta;
    return convolve(handle, FORWARD, x, x_data, &w->t, w_data, y, y_data, d,
                    (int)algorithm, workspace, bytes);
}

cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t w,
    const void *w_data, const cudnnTensorDescriptor_t y, const void *y_data,
    const cudnnConvolutionDescriptor_t d, cudnnConvolutionBwdDataAlgo_t algorithm,
    void *workspace, size_t bytes, const void *beta, const cudnnTensorDescriptor_t x,
    void *x_data)
{
    (void)alpha;
    (void)beta;
    return convolve(handle, INPUTS, x, x_data, &w->t, w_data, y, y_data, d,
                    (int)algorithm, workspace, bytes);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x,
    const void *x_data, const cudnnTensorDescriptor_t y, const void *y_data,
    const cudnnConvolutionDescriptor_t d, cudnnConvolutionBwdFilterAlgo_t algorithm,
    void *workspace, size_t bytes, const void *beta, const cudnnFilterDescriptor_t w,
    void *w_data)
{
    (void)alpha;
    (void)beta;
    return convolve(handle, FILTER, x, x_data, &w->t, w_data, y, y_data, d,
                    (int)algorithm, workspace, bytes);
}

/* Each search finds an algorithm that need not give equal bits, and then one that does. */
#define SEARCH(name, performance, first, second)                                         \
    cudnnStatus_t name(cudnnHandle_t handle, first a, second b,                          \
                       const cudnnConvolutionDescriptor_t d, SEARCH_THIRD c,             \
                       const int most, int *count, performance *found)                   \
    {                                                                                    \
        (void)handle;                                                                    \
        (void)a;                                                                         \
        (void)b;                                                                         \
        (void)c;                                                                         \
        (void)d;                                                                         \
        if (most < 2)                                                                    \
            return CUDNN_STATUS_BAD_PARAM;                                               \
        memset(found, 0, 2 * sizeof(*found));                                            \
        found[0].determinism = CUDNN_NON_DETERMINISTIC;                                  \
        found[1].determinism = CUDNN_DETERMINISTIC;                                      \
        found[1].memory = WORKSPACE;                                                     \
        found[1].algo = 1;                                                               \
        *count = 2;                                                                      \
        return CUDNN_STATUS_SUCCESS;                                                     \
    }
typedef const cudnnTensorDescriptor_t tensor_t;
typedef const cudnnFilterDescriptor_t filter_t;
#define SEARCH_THIRD tensor_t
SEARCH(cudnnFindConvolutionForwardAlgorithm, cudnnConvolutionFwdAlgoPerf_t, tensor_t,
       filter_t)
SEARCH(cudnnGetConvolutionForwardAlgorithm_v7, cudnnConvolutionFwdAlgoPerf_t, tensor_t,
       filter_t)
SEARCH(cudnnFindConvolutionBackwardDataAlgorithm, cudnnConvolutionBwdDataAlgoPerf_t,
       filter_t, tensor_t)
SEARCH(cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnConvolutionBwdDataAlgoPerf_t,
       filter_t, tensor_t)
#undef SEARCH_THIRD
#define SEARCH_THIRD filter_t
SEARCH(cudnnFindConvolutionBackwardFilterAlgorithm, cudnnConvolutionBwdFilterAlgoPerf_t,
       tensor_t, tensor_t)
SEARCH(cudnnGetConvolutionBackwardFilterAlgorithm_v7, cudnnConvolutionBwdFilterAlgoPerf_t,
       tensor_t, tensor_t)
#undef SEARCH_THIRD

/* ---------------------------------------------------------------- batch norms */

typedef enum norm_pass { TRAIN, INFER, BACK } norm_pass_t;

typedef struct norm {
    norm_pass_t pass;
    shape_t shape;
    const float *x, *dy, *gain, *bias;
    float *y, *dx, *mean, *variance, *kept_mean, *kept_scale, *dgain, *dbias;
    double factor, epsilon;
} norm_t;

/* A channel's numbers lie in runs of `size`, one for each sample, `step` apart. */
typedef struct runs {
    size_t samples, size, step;
} runs_t;

#define EACH(i, r)                                                                       \
    for (size_t n_ = 0; n_ < (r).samples; n_++)                                          \
        for (size_t i = n_ * (r).step; i < n_ * (r).step + (r).size; i++)

static void measure(const norm_t *b, int channel, runs_t r, const float *x)
{
    double count = (double)(r.samples * r.size), mean = 0, square = 0, unbiased;

    EACH(i, r)
    mean += (double)x[i];
    mean /= count;
    EACH(i, r)
    square += ((double)x[i] - mean) * ((double)x[i] - mean);
    square /= count;
    unbiased = count > 1 ? square * count / (count - 1) : square;
    b->kept_mean[channel] = (float)mean;
    b->kept_scale[channel] = (float)(1 / sqrt(square + b->epsilon));
    b->mean[channel] =
        (float)((1 - b->factor) * (double)b->mean[channel] + b->factor * mean);
    b->variance[channel] =
        (float)((1 - b->factor) * (double)b->variance[channel] + b->factor * unbiased);
}

static void normalize(const norm_t *b, int channel, runs_t r, const float *x, float *y)
{
    float mean = b->pass == TRAIN ? b->kept_mean[channel] : b->mean[channel];
    float scale = b->pass == TRAIN
                      ? b->kept_scale[channel]
                      : (float)(1 / sqrt((double)b->variance[channel] + b->epsilon));

    EACH(i, r)
    y[i] = (x[i] - mean) * scale * b->gain[channel] + b->bias[channel];
}

static void go_back(const norm_t *b, int channel, runs_t r, const float *x,
                    const float *dy, float *dx)
{
    double count = (double)(r.samples * r.size), sum = 0, dot = 0;
    double mean = (double)b->kept_mean[channel], scale = (double)b->kept_scale[channel];

    EACH(i, r)
    {
        sum += (double)dy[i];
        dot += (double)dy[i] * ((double)x[i] - mean) * scale;
    }
    b->dgain[channel] = (float)dot;
    b->dbias[channel] = (float)sum;
    EACH(i, r)
    dx[i] = (float)((double)b->gain[channel] * scale *
                    ((double)dy[i] - sum / count -
                     ((double)x[i] - mean) * scale * dot / count));
}

static void run_norm(void *work)
{
    norm_t *b = work;
    size_t size = (size_t)b->shape.h * (size_t)b->shape.w;
    runs_t r = {(size_t)b->shape.n, size, size * (size_t)b->shape.c};

    for (int channel = 0; channel < b->shape.c; channel++) {
        size_t at = (size_t)channel * size;

        if (b->pass == TRAIN)
            measure(b, channel, r, b->x + at);
        if (b->pass == BACK)
            go_back(b, channel, r, b->x + at, b->dy + at, b->dx + at);
        else
            normalize(b, channel, r, b->x + at, b->y + at);
    }
    free(b);
}

static void *channels(const shape_t *s, const void *data)
{
    return fake_memory(data, (size_t)s->c * sizeof(float));
}

static cudnnStatus_t queue_norm(cudnnHandle_t handle, const norm_t *norm)
{
    norm_t *b = malloc(sizeof(*b));

    *b = *norm;
    if (!b->x || !b->gain || b->shape.is_half || b->shape.is_last ||
        (b->pass == BACK ? !b->dx || !b->dy || !b->dgain || !b->dbias || !b->kept_mean ||
                               !b->kept_scale
                         : !b->y || !b->bias || !b->mean || !b->variance)) {
        free(b);
        return CUDNN_STATUS_BAD_PARAM;
    }
    fake_queue(handle->stream, run_norm, b);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    const cudnnTensorDescriptor_t x, const void *x_data, const cudnnTensorDescriptor_t y,
    void *y_data, const cudnnTensorDescriptor_t of_channels, const void *gain,
    const void *bias, double factor, void *mean, void *variance, double epsilon,
    void *kept_mean, void *kept_scale)
{
    norm_t b = {
        .pass = TRAIN, .shape = *x, .x = memory_of(x, x_data), .y = memory_of(y, y_data)};

    (void)mode;
    (void)alpha;
    (void)beta;
    (void)of_channels;
    b.gain = channels(x, gain);
    b.bias = channels(x, bias);
    b.mean = channels(x, mean);
    b.variance = channels(x, variance);
    b.kept_mean = channels(x, kept_mean);
    b.kept_scale = channels(x, kept_scale);
    b.factor = factor;
    b.epsilon = epsilon;
    return queue_norm(handle, &b);
}

cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    const cudnnTensorDescriptor_t x, const void *x_data, const cudnnTensorDescriptor_t y,
    void *y_data, const cudnnTensorDescriptor_t of_channels, const void *gain,
    const void *bias, const void *mean, const void *variance, double epsilon)
{
    norm_t b = {
        .pass = INFER, .shape = *x, .x = memory_of(x, x_data), .y = memory_of(y, y_data)};

    (void)mode;
    (void)alpha;
    (void)beta;
    (void)of_channels;
    b.gain = channels(x, gain);
    b.bias = channels(x, bias);
    b.mean = channels(x, mean);
    b.variance = channels(x, variance);
    b.epsilon = epsilon;
    return queue_norm(handle, &b);
}

cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void *alpha, const void *beta,
    const void *alpha_params, const void *beta_params, const cudnnTensorDescriptor_t x,
    const void *x_data, const cudnnTensorDescriptor_t dy, const void *dy_data,
    const cudnnTensorDescriptor_t dx, void *dx_data,
    const cudnnTensorDescriptor_t of_channels, const void *gain, void *dgain, void *dbias,
    double epsilon, const void *kept_mean, const void *kept_scale)
{
    norm_t b = {.pass = BACK,
                .shape = *x,
                .x = memory_of(x, x_data),
                .dy = memory_of(dy, dy_data)};

    (void)mode;
    (void)alpha;
    (void)beta;
    (void)alpha_params;
    (void)beta_params;
    (void)of_channels;
    b.dx = memory_of(dx, dx_data);
    b.gain = channels(x, gain);
    b.dgain = channels(x, dgain);
    b.dbias = channels(x, dbias);
    b.kept_mean = channels(x, kept_mean);
    b.kept_scale = channels(x, kept_scale);
    b.epsilon = epsilon;
    return queue_norm(handle, &b);
}
