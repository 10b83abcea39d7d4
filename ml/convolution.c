/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution: y(i, j, o) = sum of x(i s + u - p, j s + v - p, c) W(o, c, u, v) + b(o).
 *
 * Parameters: W (outputs, inputs, kernel, kernel) row major as in PyTorch, then b (outputs) unless
 * there is none. Inputs and outputs stay channels last; of the weights each pass makes a copy in
 * the layout that oneDNN wants, in the workspace of the model.
 */
#include <stdlib.h>

#include "ml/model.h"
#include "ml/onednn.h"

typedef struct convolution {
    crti_onednn_t weights, forward;
    crti_onednn_t weights_back, inputs; /* the gradient of the inputs */
    crti_onednn_t gradient, weights_out;
    size_t weights_at; /* in the workspace, behind the scratch */
} convolution_t;

/* What all passes are described by. */
typedef struct shapes {
    crti_dnnl_convolution_t spec; /* its weights as oneDNN likes them */
    crti_layout_t w_rows;         /* the weights as they are kept */
} shapes_t;

static size_t weights_of(const crti_layer_t *layer)
{
    return (size_t)layer->arrays[0].rows * (size_t)layer->arrays[0].cols;
}

static crt_status_t shape(crti_layer_t *layer, size_t index)
{
    crt_layer_t *spec = &layer->spec;
    const crti_shape_t *in = &layer->in[0];
    int kernel = spec->kernel;

    spec->stride = spec->stride ? spec->stride : 1;
    if (spec->width < 1 || spec->width > CRTI_MODEL_WIDTH_MAX || kernel < 1 ||
        spec->stride < 1 || spec->padding < 0 || spec->padding >= kernel)
        return crt_raise(CRT_ERR_INVALID,
                         "layer %zu: a convolution to %d channels, kernel %d, stride %d, "
                         "padding %d",
                         index, spec->width, kernel, spec->stride, spec->padding);
    if (in->height + 2 * spec->padding < kernel || in->width + 2 * spec->padding < kernel)
        return crt_raise(CRT_ERR_INVALID, "layer %zu: a kernel of %d over %d x %d places",
                         index, kernel, in->height, in->width);
    if ((size_t)in->channels * (size_t)kernel * (size_t)kernel > CRTI_MODEL_WIDTH_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "layer %zu: a kernel of %d over %d channels",
                         index, kernel, in->channels);
    layer->out.height = (in->height + 2 * spec->padding - kernel) / spec->stride + 1;
    layer->out.width = (in->width + 2 * spec->padding - kernel) / spec->stride + 1;
    layer->out.channels = spec->width;
    crti_layer_add_array(layer, spec->width, in->channels * kernel * kernel);
    if (!spec->no_bias)
        crti_layer_add_array(layer, 1, spec->width);
    return CRT_OK;
}

static void init(const crti_layer_t *layer, float *params, crti_random_t *random)
{
    size_t window = (size_t)layer->spec.kernel * (size_t)layer->spec.kernel;
    size_t outs = (size_t)layer->out.channels;

    crti_layer_draw(layer, params, weights_of(layer),
                    (size_t)layer->in[0].channels * window, outs * window,
                    params + weights_of(layer), layer->spec.no_bias ? 0 : outs, random);
}

/* ---------------------------------------------------------------- primitives */

static void forget(shapes_t *s)
{
    crti_layout_free(s->spec.x);
    crti_layout_free(s->spec.y);
    crti_layout_free(s->spec.w);
    crti_layout_free(s->spec.b);
    crti_layout_free(s->w_rows);
}

static crt_status_t describe(const crti_layer_t *layer, int rows, shapes_t *s)
{
    int kernel = layer->spec.kernel;
    bool biased = !layer->spec.no_bias;
    const dnnl_dims_t w = {layer->out.channels, layer->in[0].channels, kernel, kernel};
    const dnnl_dims_t b = {layer->out.channels};

    *s = (shapes_t){.spec = {.x = crti_onednn_places(rows, layer->in[0]),
                             .y = crti_onednn_places(rows, layer->out),
                             .w = crti_onednn_any(4, w),
                             .b = biased ? crti_onednn_rows(1, b) : NULL,
                             .strides = {layer->spec.stride, layer->spec.stride},
                             .padding = {layer->spec.padding, layer->spec.padding}},
                    .w_rows = crti_onednn_rows(4, w)};
    if (s->spec.x && s->spec.y && s->spec.w && s->w_rows && (s->spec.b || !biased))
        return CRT_OK;
    return crt_raise(CRT_ERR_NO_MEMORY, "convolution");
}

/* The last argument of a primitive that has a bias is the bias. */
static crt_status_t add_arguments(crti_onednn_t *p, const shapes_t *s,
                                  const int arguments[4], crti_const_layout_t first,
                                  crti_const_layout_t second, crti_const_layout_t third)
{
    const crti_const_layout_t layouts[] = {first, second, third, s->spec.b};
    bool biased = s->spec.b && arguments[3];

    return crti_onednn_arguments(p, biased ? 4 : 3, arguments, layouts);
}

static void need(crti_layer_t *layer, crti_const_layout_t w)
{
    size_t floats = crti_onednn_floats(w);

    layer->workspace = floats > layer->workspace ? floats : layer->workspace;
}

/* The workspace: scratch of any primitive, then the weights. */
static void plan_workspace(crti_layer_t *layer)
{
    convolution_t *own = layer->own;
    const crti_onednn_t *const all[] = {&own->weights, &own->forward,  &own->weights_back,
                                        &own->inputs,  &own->gradient, &own->weights_out};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i]->scratch > own->weights_at)
            own->weights_at = all[i]->scratch;
    layer->workspace += own->weights_at;
}

static crt_status_t make_forward(crti_layer_t *layer, const shapes_t *s, bool training,
                                 dnnl_primitive_desc_t *description_out)
{
    static const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                    DNNL_ARG_BIAS};
    convolution_t *own = layer->own;
    crt_status_t status = crti_onednn_make_convolution(
        &own->forward, training ? CRTI_DNNL_TRAINING : CRTI_DNNL_INFERENCE, &s->spec,
        NULL, description_out);
    crti_const_layout_t w;

    if (status != CRT_OK)
        return status;
    w = crti_onednn_wanted(*description_out, dnnl_query_weights_md);
    need(layer, w);
    status = crti_onednn_make_reorder(&own->weights, s->w_rows, w);
    return status == CRT_OK
               ? add_arguments(&own->forward, s, arguments, s->spec.x, w, s->spec.y)
               : status;
}

static crt_status_t make_inputs(crti_layer_t *layer, const shapes_t *s,
                                const_dnnl_primitive_desc_t hint)
{
    static const int arguments[] = {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS,
                                    DNNL_ARG_DIFF_SRC, 0};
    convolution_t *own = layer->own;
    dnnl_primitive_desc_t description;
    crt_status_t status = crti_onednn_make_convolution(
        &own->inputs, CRTI_DNNL_INPUTS_BACK, &s->spec, hint, &description);
    crti_const_layout_t w;

    if (status == CRT_OK) {
        w = crti_onednn_wanted(description, dnnl_query_weights_md);
        need(layer, w);
        status = crti_onednn_make_reorder(&own->weights_back, s->w_rows, w);
        if (status == CRT_OK)
            status = add_arguments(&own->inputs, s, arguments, s->spec.y, w, s->spec.x);
    }
    dnnl_primitive_desc_destroy(description);
    return status;
}

static crt_status_t make_gradient(crti_layer_t *layer, const shapes_t *s,
                                  const_dnnl_primitive_desc_t hint)
{
    static const int arguments[] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST,
                                    DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS};
    convolution_t *own = layer->own;
    dnnl_primitive_desc_t description;
    crt_status_t status = crti_onednn_make_convolution(
        &own->gradient, CRTI_DNNL_WEIGHTS_BACK, &s->spec, hint, &description);
    crti_const_layout_t w;

    if (status == CRT_OK) {
        w = crti_onednn_wanted(description, dnnl_query_diff_weights_md);
        need(layer, w);
        status = crti_onednn_make_reorder(&own->weights_out, w, s->w_rows);
        if (status == CRT_OK)
            status = add_arguments(&own->gradient, s, arguments, s->spec.x, s->spec.y, w);
    }
    dnnl_primitive_desc_destroy(description);
    return status;
}

static void release(crti_layer_t *layer)
{
    convolution_t *own = layer->own;

    crti_onednn_free(&own->weights);
    crti_onednn_free(&own->forward);
    crti_onednn_free(&own->weights_back);
    crti_onednn_free(&own->inputs);
    crti_onednn_free(&own->gradient);
    crti_onednn_free(&own->weights_out);
    free(own);
    layer->own = NULL;
}

static crt_status_t prepare(crti_layer_t *layer, int rows, bool training)
{
    dnnl_primitive_desc_t description = NULL;
    shapes_t shapes;
    crt_status_t status;

    if (layer->own)
        release(layer);
    layer->workspace = 0;
    layer->own = calloc(1, sizeof(convolution_t));
    if (!layer->own)
        return crt_raise(CRT_ERR_NO_MEMORY, "convolution");
    status = describe(layer, rows, &shapes);
    if (status == CRT_OK)
        status = make_forward(layer, &shapes, training, &description);
    if (status == CRT_OK && training)
        status = make_inputs(layer, &shapes, description);
    if (status == CRT_OK && training)
        status = make_gradient(layer, &shapes, description);
    dnnl_primitive_desc_destroy(description);
    forget(&shapes);
    plan_workspace(layer);
    return status;
}

/* ---------------------------------------------------------------- passes */

/* The weights as `reorder` lays them out. */
static const float *laid_out(const convolution_t *own, const crti_onednn_t *reorder,
                             const crti_layer_pass_t *s)
{
    float *weights = s->workspace + own->weights_at;

    if (!reorder->primitive)
        return s->params;
    crti_onednn_run(reorder, s, (const void *const[]){s->params, weights});
    return weights;
}

static void forward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const convolution_t *own = layer->own;
    const float *w = laid_out(own, &own->weights, s);

    crti_onednn_run(
        &own->forward, s,
        (const void *const[]){s->x[0], w, s->y, s->params + weights_of(layer)});
}

static void backward(const crti_layer_t *layer, const crti_layer_pass_t *s)
{
    const convolution_t *own = layer->own;
    bool reorders = own->weights_out.primitive != NULL;
    float *dw = reorders ? s->workspace + own->weights_at : s->dparams;

    if (s->dparams) {
        crti_onednn_run(
            &own->gradient, s,
            (const void *const[]){s->x[0], s->dy, dw, s->dparams + weights_of(layer)});
        if (reorders)
            crti_onednn_run(&own->weights_out, s, (const void *const[]){dw, s->dparams});
    }
    if (s->dx[0])
        crti_onednn_run(
            &own->inputs, s,
            (const void *const[]){s->dy, laid_out(own, &own->weights_back, s), s->dx[0]});
}

const crti_layer_ops_t crti_layer_convolution = {.name = "convolution",
                                                 .splits = true,
                                                 .shape = shape,
                                                 .init = init,
                                                 .prepare = prepare,
                                                 .release = release,
                                                 .forward = forward,
                                                 .backward = backward};
