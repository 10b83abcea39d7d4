/* SPDX-License-Identifier: Apache-2.0 */
/* A model's flat buffers. See ml/model.h. */
#include "ml/model.h"

#include <stdlib.h>

#include "ml/matrix.h"
#include "runtime/base/copy_struct.h"

crt_status_t crt_mlp_new(const int *widths, double dropout, uint64_t seed,
                         crt_model_t **model_out)
{
    crt_layer_t *layers;
    crt_input_t input;
    size_t hidden = 0, count = 0;
    crt_status_t status;

    if (!widths || widths[0] == 0 || widths[1] == 0)
        return crt_raise(CRT_ERR_INVALID,
                         "a perceptron needs at least inputs and classes");
    while (widths[hidden + 2] != 0)
        hidden++;
    if (hidden > CRTI_MODEL_LAYERS_MAX / 3)
        return crt_raise(CRT_ERR_INVALID, "%zu hidden layers", hidden);
    if (widths[0] < 1 || widths[hidden + 1] > 256)
        return crt_raise(CRT_ERR_INVALID,
                         "a perceptron of %d inputs and %d classes, of "
                         "which there are at most 256",
                         widths[0], widths[hidden + 1]);
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
    input = CRT_INPUT(.channels = widths[0]);
    status = crt_model_new(&input, layers, count, seed, model_out);
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

crt_status_t crt_model_array(const crt_model_t *model, size_t index, size_t array_size,
                             crt_model_array_t *array_out)
{
    const crti_array_t *array;
    crt_model_array_t mine;

    if (array_size < CRTI_SIZE_TO(crt_model_array_t, kind))
        return crt_raise(CRT_ERR_INVALID,
                         "a crt_model_array_t of %zu bytes: give sizeof of it",
                         array_size);
    if (index >= model->array_count)
        return crt_raise(CRT_ERR_INVALID, "array %zu of a model of %zu", index,
                         model->array_count);
    array = &model->arrays[index];
    mine = (crt_model_array_t){.first = array->at,
                               .count = array->count,
                               .rows = array->rows,
                               .cols = array->cols,
                               .layer = array->layer,
                               .kind = model->layers[array->layer].ops->name};
    crti_give_struct(array_out, array_size, &mine, sizeof(mine));
    return CRT_OK;
}

void crt_model_sync_norms(crt_model_t *model, crt_norm_sum_t *sum, void *context)
{
    model->norm_sum = sum;
    model->norm_context = context;
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

const crt_tensor_t *crt_model_statistics(crt_model_t *model)
{
    return &model->statistics_view;
}

crt_status_t crti_model_weights(const crt_model_t *model, const crt_tensor_t *weights,
                                const float **weights_out)
{
    crt_status_t status;

    if (!weights) {
        *weights_out = model->weights;
        return CRT_OK;
    }
    status = crti_model_check_flat(model, weights, "weights");
    if (status == CRT_OK)
        *weights_out = weights->data;
    return status;
}

/* Where `tensor` may lie: on the host, too. */
static int place_of(const crt_model_t *model, const crt_tensor_t *tensor)
{
    return crt_tensor_gpu(tensor) == -1 ? -1 : crt_model_gpu(model);
}

crt_status_t crt_model_set_weights(crt_model_t *model, const crt_tensor_t *weights)
{
    crt_status_t status = crti_matrix_check_flat_at(weights, place_of(model, weights),
                                                    model->parameter_count, "weights");

    if (status == CRT_OK && weights->data != model->weights)
        status = crti_model_copy(model, model->weights, weights->data,
                                 model->parameter_count * sizeof(float));
    return status;
}

crt_status_t crt_model_add_gradients(crt_model_t *model, const crt_tensor_t *gradients)
{
    crt_status_t status = crti_model_check_flat(model, gradients, "gradients");
    const float *from = gradients->data;

    if (status != CRT_OK)
        return status;
    if (model->device)
        model->device->ops->add_floats(model->device, model->gradients, from,
                                       model->parameter_count);
    for (size_t i = 0; !model->device && i < model->parameter_count; i++)
        model->gradients[i] += from[i];
    model->has_gradients = true;
    return CRT_OK;
}

void crt_model_zero_gradients(crt_model_t *model)
{
    crti_model_zero(model, model->gradients, model->parameter_count);
    model->has_gradients = false;
}

void crt_model_set_seed(crt_model_t *model, uint64_t seed)
{
    model->random = crti_random(seed, CRTI_STREAM_DROPOUT);
}

void crt_model_drop(crt_model_t **dropped)
{
    crt_model_t *model = *dropped;

    if (!model)
        return;
    if (model->device)
        model->device->ops->enter(model->device);
    for (size_t i = 0; i < model->delta_count; i++)
        if (model->deltas[i].capacity > 0)
            crti_model_release(model, model->deltas[i].data);
    for (size_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].own)
            model->layers[i].ops->release(&model->layers[i]);
    crti_model_release(model, model->workspace);
    crti_model_release(model, model->scratch);
    crti_model_release(model, model->statistics);
    crti_model_release(model, model->gradients);
    crti_model_release(model, model->weights);
    if (model->device)
        model->device->ops->close(model->device);
    free(model->deltas);
    free(model->delta_of);
    free(model->arrays);
    free(model->outputs_of);
    free(model->layers);
    free(model);
    *dropped = NULL;
}
