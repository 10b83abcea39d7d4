/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution by cuDNN. An algorithm is chosen once for each shape; only those that give equal bits
 * for equal inputs, and need no more than WORKSPACE_MAX, are taken.
 *
 * Weights (outputs, inputs, kernel, kernel) are what cuDNN reads channels first. A copy of them, or
 * of their gradient, is made where channels lie last or outputs are float16, and where they do not
 * begin at 16 bytes.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ml/cuda/bias.h"

#define WORKSPACE_MAX ((size_t)1 << 30)
#define ALIGNED       64 /* floats */
#define ALL           16 /* algorithms of a pass: there are fewer */

/* How cuDNN computes a convolution: for each pass. */
typedef struct algorithms {
    int forward, inputs, gradient;
    cudnnMathType_t forward_math, inputs_math, gradient_math;
    size_t workspace; /* bytes */
} algorithms_t;

/* What was chosen for a shape, in this process: so equal models compute equal bits. Never freed. */
typedef struct choice {
    int key[11];
    algorithms_t algorithms;
    struct choice *next;
} choice_t;

typedef struct convolution {
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t forward, inputs, gradient;
    algorithms_t algorithms;
    size_t weights_at; /* in the workspace, behind cuDNN's */
} convolution_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* covers what follows */
static choice_t *choices;

static size_t weights_of(const crti_layer_t *layer)
{
    return (size_t)layer->arrays[0].rows * (size_t)layer->arrays[0].cols;
}

static size_t aligned(size_t floats)
{
    return (floats + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* ---------------------------------------------------------------- choosing */

/* cuDNN knows how fast tensor cores are; of products of float32 its guess takes half as long again
 * as what is found by trying (ResNet-18 on an H100). */
static bool searches(const crti_cuda_t *c)
{
    return c->precision == CRT_PRECISION_FLOAT32;
}

static cudnnMathType_t math_of(const crti_cuda_t *c, cudnnMathType_t chosen)
{
    return c->precision == CRT_PRECISION_FLOAT32 ? CUDNN_FMA_MATH : chosen;
}

/* The results of cuDNN's three searches have equal fields and different types. */
#define IS_FINE(p)                                                                       \
    ((p).status == CUDNN_STATUS_SUCCESS && (p).determinism == CUDNN_DETERMINISTIC &&     \
     (p).memory <= WORKSPACE_MAX)
#define TAKE_BEST(c, results, count, algorithm, math, workspace)                         \
    do {                                                                                 \
        int best = 0;                                                                    \
        while (best < (count) && !IS_FINE((results)[best]))                              \
            best++;                                                                      \
        if (best == (count))                                                             \
            return crt_raise(CRT_ERR_UNSUPPORTED,                                        \
                             "cuDNN has no algorithm for a convolution");                \
        (algorithm) = (int)(results)[best].algo;                                         \
        (math) = math_of(c, (results)[best].mathType);                                   \
        if ((results)[best].memory > (workspace))                                        \
            (workspace) = (results)[best].memory;                                        \
    } while (0)

static crt_status_t choose_forward(crti_cuda_t *c, const convolution_t *own,
                                   algorithms_t *a)
{
    cudnnConvolutionFwdAlgoPerf_t results[ALL];
    int count = 0;

    if (!crti_cuda_did_dnn(
            c,
            (searches(c) ? c->api->cudnnFindConvolutionForwardAlgorithm
                         : c->api->cudnnGetConvolutionForwardAlgorithm_v7)(
                c->dnn, own->x, own->w, own->forward, own->y, ALL, &count, results),
            "choosing a convolution"))
        return c->failed;
    TAKE_BEST(c, results, count, a->forward, a->forward_math, a->workspace);
    return CRT_OK;
}

static crt_status_t choose_inputs(crti_cuda_t *c, const convolution_t *own,
                                  algorithms_t *a)
{
    cudnnConvolutionBwdDataAlgoPerf_t results[ALL];
    int count = 0;

    if (!crti_cuda_did_dnn(
            c,
            (searches(c) ? c->api->cudnnFindConvolutionBackwardDataAlgorithm
                         : c->api->cudnnGetConvolutionBackwardDataAlgorithm_v7)(
                c->dnn, own->w, own->y, own->inputs, own->x, ALL, &count, results),
            "choosing a convolution"))
        return c->failed;
    TAKE_BEST(c, results, count, a->inputs, a->inputs_math, a->workspace);
    return CRT_OK;
}

static crt_status_t choose_gradient(crti_cuda_t *c, const convolution_t *own,
                                    algorithms_t *a)
{
    cudnnConvolutionBwdFilterAlgoPerf_t results[ALL];
    int count = 0;

    if (!crti_cuda_did_dnn(
            c,
            (searches(c) ? c->api->cudnnFindConvolutionBackwardFilterAlgorithm
                         : c->api->cudnnGetConvolutionBackwardFilterAlgorithm_v7)(
                c->dnn, own->x, own->y, own->gradient, own->w, ALL, &count, results),
            "choosing a convolution"))
        return c->failed;
    TAKE_BEST(c, results, count, a->gradient, a->gradient_math, a->workspace);
    return CRT_OK;
}

static crt_status_t choose_all(crti_cuda_t *c, const convolution_t *own, bool training,
                               algorithms_t *algorithms_out)
{
    algorithms_t a = {0};
    crt_status_t status = choose_forward(c, own, &a);

    if (status == CRT_OK && training)
        status = choose_inputs(c, own, &a);
    if (status == CRT_OK && training)
        status = choose_gradient(c, own, &a);
    *algorithms_out = a;
    return status;
}

static crt_status_t choose(crti_cuda_t *c, const convolution_t *own, bool training,
                           const choice_t *wanted, const choice_t **choice_out)
{
    choice_t *found = choices;
    crt_status_t status;

    while (found && memcmp(found->key, wanted->key, sizeof(wanted->key)) != 0)
        found = found->next;
    *choice_out = found;
    if (found)
        return CRT_OK;
    found = malloc(sizeof(*found));
    if (!found)
        return crt_raise(CRT_ERR_NO_MEMORY, "convolution");
    *found = *wanted;
    status = choose_all(c, own, training, &found->algorithms);
    if (status != CRT_OK) {
        free(found);
        return status;
    }
    found->next = choices;
    *choice_out = choices = found;
    return CRT_OK;
}

/* What was chosen before for this shape, or is now. */
static crt_status_t find(crti_cuda_t *c, const crti_layer_t *layer, int rows,
                         bool training, convolution_t *own)
{
    const crt_layer_t *spec = &layer->spec;
    const crti_shape_t *in = &layer->in[0];
    const choice_t wanted = {.key = {c->device.number, (int)c->precision, rows,
                                     in->height, in->width, in->channels, spec->width,
                                     spec->kernel, spec->stride, spec->padding,
                                     training}};
    const choice_t *found;
    crt_status_t status;

    pthread_mutex_lock(&lock);
    status = choose(c, own, training, &wanted, &found);
    if (status == CRT_OK)
        own->algorithms = found->algorithms;
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---------------------------------------------------------------- preparing */

static void describe(crti_cuda_t *c, const crti_layer_t *layer,
                     cudnnConvolutionDescriptor_t *made)
{
    int stride = layer->spec.stride, padding = layer->spec.padding;

    if (!crti_cuda_did_dnn(c, c->api->cudnnCreateConvolutionDescriptor(made), "cuDNN"))
        return;
    crti_cuda_did_dnn(c,
                      c->api->cudnnSetConvolution2dDescriptor(
                          *made, padding, padding, stride, stride, 1, 1,
                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
                      "cuDNN, a convolution");
    crti_cuda_did_dnn(
        c,
        c->api->cudnnSetConvolutionMathType(
            *made, math_of(c, c->mixed ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH)),
        "cuDNN, a convolution");
}

static void describe_all(crti_cuda_t *c, const crti_layer_t *layer, int rows,
                         convolution_t *own)
{
    int kernel = layer->spec.kernel;

    own->x = crti_cuda_describe(c, crti_cuda_type(c), rows, layer->in[0]);
    own->y = crti_cuda_describe(c, crti_cuda_type(c), rows, layer->out);
    describe(c, layer, &own->forward);
    describe(c, layer, &own->inputs);
    describe(c, layer, &own->gradient);
    if (crti_cuda_did_dnn(c, c->api->cudnnCreateFilterDescriptor(&own->w), "cuDNN"))
        crti_cuda_did_dnn(c,
                          c->api->cudnnSetFilter4dDescriptor(
                              own->w, crti_cuda_type(c),
                              c->channels_first ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC,
                              layer->out.channels, layer->in[0].channels, kernel, kernel),
                          "cuDNN, weights");
}

static void release(crti_layer_t *layer)
{
    const crti_cuda_api_t *api = crti_cuda_of(layer)->api;
    convolution_t *own = layer->own;

    if (own->x)
        (void)api->cudnnDestroyTensorDescriptor(own->x);
    if (own->y)
        (void)api->cudnnDestroyTensorDescriptor(own->y);
    if (own->w)
        (void)api->cudnnDestroyFilterDescriptor(own->w);
    if (own->forward)
        (void)api->cudnnDestroyConvolutionDescriptor(own->forward);
    if (own->inputs)
        (void)api->cudnnDestroyConvolutionDescriptor(own->inputs);
    if (own->gradient)
        (void)api->cudnnDestroyConvolutionDescriptor(own->gradient);
    free(own);
    layer->own = NULL;
}

/* cuDNN is told with which kind of products each algorithm was found. */
static void settle(crti_cuda_t *c, const convolution_t *own)
{
    const algorithms_t *a = &own->algorithms;

    crti_cuda_did_dnn(
        c, c->api->cudnnSetConvolutionMathType(own->forward, a->forward_math), "cuDNN");
    crti_cuda_did_dnn(c, c->api->cudnnSetConvolutionMathType(own->inputs, a->inputs_math),
                      "cuDNN");
    crti_cuda_did_dnn(
        c, c->api->cudnnSetConvolutionMathType(own->gradient, a->gradient_math), "cuDNN");
}

static crt_status_t prepare(crti_layer_t *layer, int rows, bool training)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    convolution_t *own;
    crt_status_t status;

    if (layer->own)
        release(layer);
    layer->own = own = calloc(1, sizeof(*own));
    if (!own)
        return crt_raise(CRT_ERR_NO_MEMORY, "convolution");
    describe_all(c, layer, rows, own);
    status = c->failed == CRT_OK ? find(c, layer, rows, training, own) : c->failed;
    if (status == CRT_OK)
        settle(c, own);
    c->device.ops->failure(&c->device);
    own->weights_at = aligned(own->algorithms.workspace / sizeof(float) + 1);
    layer->workspace = own->weights_at + aligned(weights_of(layer));
    return status;
}

/* ---------------------------------------------------------------- passes */

/* Can cuDNN read weights, or write their gradient, where they are? */
static bool is_usable(const crti_cuda_t *c, const crti_layer_t *layer,
                      const float *weights)
{
    return !c->mixed && (c->channels_first || layer->spec.kernel == 1) &&
           (uintptr_t)weights % 16 == 0;
}

/* A copy from the flat buffer (load), or of the gradient to it (store). */
static void copy_weights(const crti_layer_t *layer, crti_cuda_kernel_t how, float *to,
                         const float *from, float factor)
{
    crti_cuda_t *c = crti_cuda_of(layer);
    size_t outs = (size_t)layer->out.channels, ins = (size_t)layer->in[0].channels;
    size_t window = (size_t)layer->spec.kernel * (size_t)layer->spec.kernel;

    if (c->channels_first)
        crti_cuda_turn(c, how, to, from, outs, ins * window, 1, factor);
    else if (how == CRTI_KERNEL_load)
        crti_cuda_turn(c, how, to, from, outs, ins, window, factor);
    else
        crti_cuda_turn(c, how, to, from, outs, window, ins, factor);
}

static const float *weights_for(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const convolution_t *own = layer->own;
    float *copied = s->workspace + own->weights_at;

    if (is_usable(crti_cuda_of(layer), layer, s->params))
        return s->params;
    copy_weights(layer, CRTI_KERNEL_load, copied, s->params, 1);
    return copied;
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const convolution_t *own = layer->own;
    const algorithms_t *a = &own->algorithms;
    crti_cuda_t *c = crti_cuda_of(layer);
    const float *w = weights_for(layer, s), one = 1, none = 0;

    crti_cuda_did_dnn(c,
                      c->api->cudnnConvolutionForward(
                          c->dnn, &one, own->x, s->x[0], own->w, w, own->forward,
                          (cudnnConvolutionFwdAlgo_t)a->forward, s->workspace,
                          a->workspace, &none, own->y, s->y),
                      "a convolution");
    if (!layer->spec.no_bias)
        crti_cuda_add_bias(layer, s, s->params + weights_of(layer));
}

static void make_gradient(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const convolution_t *own = layer->own;
    const algorithms_t *a = &own->algorithms;
    crti_cuda_t *c = crti_cuda_of(layer);
    bool is_direct = is_usable(c, layer, s->dparams);
    float *dw = is_direct ? s->dparams : s->workspace + own->weights_at;
    const float one = 1, none = 0;

    crti_cuda_did_dnn(c,
                      c->api->cudnnConvolutionBackwardFilter(
                          c->dnn, &one, own->x, s->x[0], own->y, s->dy, own->gradient,
                          (cudnnConvolutionBwdFilterAlgo_t)a->gradient, s->workspace,
                          a->workspace, &none, own->w, dw),
                      "the gradient of a convolution");
    if (!is_direct)
        copy_weights(layer, CRTI_KERNEL_store, s->dparams, dw, 1 / c->scale);
    if (!layer->spec.no_bias)
        crti_cuda_bias_gradient(layer, s, s->dparams + weights_of(layer));
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const convolution_t *own = layer->own;
    const algorithms_t *a = &own->algorithms;
    crti_cuda_t *c = crti_cuda_of(layer);
    const float one = 1, none = 0;

    if (s->dparams)
        make_gradient(layer, s);
    if (!s->dx[0])
        return;
    crti_cuda_did_dnn(c,
                      c->api->cudnnConvolutionBackwardData(
                          c->dnn, &one, own->w, weights_for(layer, s), own->y, s->dy,
                          own->inputs, (cudnnConvolutionBwdDataAlgo_t)a->inputs,
                          s->workspace, a->workspace, &none, own->x, s->dx[0]),
                      "the gradient of a convolution's inputs");
}

const crti_layer_ops_t crti_cuda_convolution = {.name = "convolution",
                                                .splits = true,
                                                .prepare = prepare,
                                                .release = release,
                                                .forward = forward,
                                                .backward = backward};
