/* SPDX-License-Identifier: Apache-2.0 */
/* Building a model, and its flat buffers. See ml/model.h. */
#include "ml/model.h"

#include <stdlib.h>
#include <string.h>

#include "ml/matrix.h"

static const crti_layer_ops_t *ops_of(crt_layer_kind_t kind)
{
    switch (kind) {
    case CRT_LAYER_DENSE: return &crti_layer_dense;
    case CRT_LAYER_RELU: return &crti_layer_relu;
    case CRT_LAYER_DROPOUT: return &crti_layer_dropout;
    }
    return NULL;
}

static crt_status_t check_layer(const crt_layer_t *spec, size_t index)
{
    if (!ops_of(spec->kind))
        return crt_raise(CRT_ERR_INVALID, "layer %zu: no kind has the number %d", index,
                         (int)spec->kind);
    if (spec->kind == CRT_LAYER_DENSE &&
        (spec->width < 1 || spec->width > CRTI_MODEL_WIDTH_MAX))
        return crt_raise(CRT_ERR_INVALID, "layer %zu: %d outputs are not in 1..%d", index,
                         spec->width, CRTI_MODEL_WIDTH_MAX);
    if (spec->kind == CRT_LAYER_DROPOUT && !(spec->rate >= 0 && spec->rate < 1))
        return crt_raise(CRT_ERR_INVALID, "layer %zu: dropout rate %g is not in [0, 1)",
                         index, spec->rate);
    return CRT_OK;
}

static crt_status_t check_layers(int inputs, const crt_layer_t *layers, size_t count)
{
    crt_status_t status = CRT_OK;

    if (inputs < 1 || inputs > CRTI_MODEL_WIDTH_MAX)
        return crt_raise(CRT_ERR_INVALID, "a model with %d inputs", inputs);
    if (count < 1 || count > CRTI_MODEL_LAYERS_MAX)
        return crt_raise(CRT_ERR_INVALID, "a model of %zu layers, not 1..%d", count,
                         CRTI_MODEL_LAYERS_MAX);
    for (size_t i = 0; i < count && status == CRT_OK; i++)
        status = check_layer(&layers[i], i);
    if (status != CRT_OK)
        return status;
    if (layers[count - 1].kind != CRT_LAYER_DENSE || layers[count - 1].width > 256)
        return crt_raise(CRT_ERR_INVALID, "the last layer is not dense with at most 256 "
                                          "outputs");
    return CRT_OK;
}

static void add_array(crt_model_t *model, int rows, int cols)
{
    size_t count = (size_t)rows * (size_t)cols;

    model->arrays[model->array_count++] = (crti_array_t){
        .at = model->parameter_count, .count = count, .rows = rows, .cols = cols};
    model->parameter_count += count;
}

/* Widths and places of all layers; the buffers do not exist yet. */
static crt_status_t lay_out(crt_model_t *model, const crt_layer_t *specs, size_t count)
{
    int width = model->inputs;

    for (size_t i = 0; i < count; i++) {
        crti_layer_t *layer = &model->layers[i];

        layer->ops = ops_of(specs[i].kind);
        layer->spec = specs[i];
        layer->inputs = width;
        layer->outputs = specs[i].kind == CRT_LAYER_DENSE ? specs[i].width : width;
        layer->params_at = model->parameter_count;
        if (layer->ops->has_weights) {
            add_array(model, layer->outputs, layer->inputs);
            add_array(model, 1, layer->outputs);
        }
        if (model->parameter_count > CRTI_MODEL_PARAMETERS_MAX)
            return crt_raise(CRT_ERR_TOO_LARGE, "more than %zu parameters at layer %zu",
                             CRTI_MODEL_PARAMETERS_MAX, i);
        width = layer->outputs;
    }
    model->layer_count = count;
    model->outputs = width;
    return CRT_OK;
}

static crt_status_t make_buffers(crt_model_t *model)
{
    size_t count = model->parameter_count;

    model->weights = calloc(count, sizeof(float));
    model->gradients = calloc(count, sizeof(float));
    if (!model->weights || !model->gradients)
        return crt_raise(CRT_ERR_NO_MEMORY, "model of %zu parameters", count);
    model->weights_view = crt_tensor_floats(model->weights, count);
    model->gradients_view = crt_tensor_floats(model->gradients, count);
    return CRT_OK;
}

static void draw_weights(crt_model_t *model, uint64_t seed)
{
    crti_random_t random = crti_random(seed, CRTI_STREAM_INIT);

    for (size_t i = 0; i < model->layer_count; i++) {
        const crti_layer_t *layer = &model->layers[i];

        if (layer->ops->init)
            layer->ops->init(layer, model->weights + layer->params_at, &random);
    }
}

crt_status_t crt_model_new(int inputs, const crt_layer_t *layers, size_t count,
                           uint64_t seed, crt_model_t **model_out)
{
    crt_status_t status = check_layers(inputs, layers, count);
    crt_model_t *model = NULL;

    if (status != CRT_OK)
        return status;
    model = calloc(1, sizeof(*model));
    if (!model)
        return crt_raise(CRT_ERR_NO_MEMORY, "model");
    model->inputs = inputs;
    model->layers = calloc(count, sizeof(*model->layers));
    model->outputs_of = calloc(count, sizeof(*model->outputs_of));
    model->arrays = calloc(2 * count, sizeof(*model->arrays));
    if (!model->layers || !model->outputs_of || !model->arrays)
        status = crt_raise(CRT_ERR_NO_MEMORY, "model of %zu layers", count);
    if (status == CRT_OK)
        status = lay_out(model, layers, count);
    if (status == CRT_OK)
        status = make_buffers(model);
    if (status != CRT_OK) {
        crt_model_free(model);
        return status;
    }
    draw_weights(model, seed);
    crt_model_set_seed(model, seed);
    *model_out = model;
    return CRT_OK;
}

crt_status_t crt_mlp_new(const int *widths, double dropout, uint64_t seed,
                         crt_model_t **model_out)
{
    crt_layer_t *layers;
    size_t hidden = 0, count = 0;
    crt_status_t status;

    if (!widths || widths[0] == 0 || widths[1] == 0)
        return crt_raise(CRT_ERR_INVALID,
                         "a perceptron needs at least inputs and classes");
    while (widths[hidden + 2] != 0)
        hidden++;
    if (hidden > CRTI_MODEL_LAYERS_MAX / 3)
        return crt_raise(CRT_ERR_INVALID, "%zu hidden layers", hidden);
    layers = calloc(hidden * 3 + 1, sizeof(*layers));
    if (!layers)
        return crt_raise(CRT_ERR_NO_MEMORY, "perceptron");
    for (size_t i = 0; i < hidden; i++) {
        layers[count++] = CRT_DENSE(widths[i + 1]);
        layers[count++] = CRT_RELU();
        if (dropout != 0)
            layers[count++] = CRT_DROPOUT(dropout);
    }
    layers[count++] = CRT_DENSE_ZERO(widths[hidden + 1]);
    status = crt_model_new(widths[0], layers, count, seed, model_out);
    free(layers);
    return status;
}

int crt_model_inputs(const crt_model_t *model)
{
    return model->inputs;
}

int crt_model_outputs(const crt_model_t *model)
{
    return model->outputs;
}

size_t crt_model_parameters(const crt_model_t *model)
{
    return model->parameter_count;
}

size_t crt_model_arrays(const crt_model_t *model)
{
    return model->array_count;
}

void crt_model_watch_gradients(crt_model_t *model, crt_gradients_seen_t *seen,
                               void *context)
{
    model->seen = seen;
    model->seen_context = context;
}

const crt_tensor_t *crt_model_weights(crt_model_t *model)
{
    return &model->weights_view;
}

const crt_tensor_t *crt_model_gradients(crt_model_t *model)
{
    return &model->gradients_view;
}

crt_status_t crti_model_weights(const crt_model_t *model, const crt_tensor_t *weights,
                                const float **weights_out)
{
    crt_status_t status;

    if (!weights) {
        *weights_out = model->weights;
        return CRT_OK;
    }
    status = crti_matrix_check_flat(weights, model->parameter_count, "weights");
    if (status == CRT_OK)
        *weights_out = weights->data;
    return status;
}

crt_status_t crt_model_set_weights(crt_model_t *model, const crt_tensor_t *weights)
{
    const float *from;
    crt_status_t status = crti_model_weights(model, weights, &from);

    if (status == CRT_OK && from != model->weights)
        memmove(model->weights, from, model->parameter_count * sizeof(float));
    return status;
}

crt_status_t crt_model_add_gradients(crt_model_t *model, const crt_tensor_t *gradients)
{
    crt_status_t status =
        crti_matrix_check_flat(gradients, model->parameter_count, "gradients");
    const float *from = gradients->data;

    if (status != CRT_OK)
        return status;
    for (size_t i = 0; i < model->parameter_count; i++)
        model->gradients[i] += from[i];
    model->has_gradients = true;
    return CRT_OK;
}

void crt_model_zero_gradients(crt_model_t *model)
{
    memset(model->gradients, 0, model->parameter_count * sizeof(float));
    model->has_gradients = false;
}

void crt_model_set_seed(crt_model_t *model, uint64_t seed)
{
    model->random = crti_random(seed, CRTI_STREAM_DROPOUT);
}

void crt_model_free(crt_model_t *model)
{
    if (!model)
        return;
    free(model->scratch);
    free(model->gradients);
    free(model->weights);
    free(model->arrays);
    free(model->outputs_of);
    free(model->layers);
    free(model);
}
