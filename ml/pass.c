/* SPDX-License-Identifier: Apache-2.0 */
/* Pass: runs a model forward and backward over the rows of a batch.
 *
 * Where it sits
 *     batch -> [ forward through the layers -> softmax -> backward ] -> flat gradient
 * The weights may lie in a read-only mapping: they are read where they are.
 */
#include "ml/model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ml/dataset.h"
#include "ml/matrix.h"

#define EVALUATION_ROWS 512 /* samples of one forward pass while evaluating */

/* Floats of scratch per sample: activations and masks of all layers, two deltas. */
static size_t scratch_per_row(const crt_model_t *model, size_t *widest_out)
{
    size_t sum = 0, widest = (size_t)model->inputs;

    for (size_t i = 0; i < model->layer_count; i++) {
        size_t width = (size_t)model->layers[i].outputs;

        sum += model->layers[i].ops->has_mask ? 2 * width : width;
        widest = width > widest ? width : widest;
    }
    *widest_out = widest;
    return sum + 2 * widest;
}

static crt_status_t make_room(crt_model_t *model, int rows)
{
    size_t widest, per_row = scratch_per_row(model, &widest), n = (size_t)rows;
    float *at;

    if (rows <= model->rows)
        return CRT_OK;
    free(model->scratch);
    model->rows = 0;
    model->scratch = at = calloc(n, per_row * sizeof(float));
    if (!at)
        return crt_raise(CRT_ERR_NO_MEMORY, "scratch of a model for %d samples", rows);
    for (size_t i = 0; i < model->layer_count; i++) {
        crti_layer_t *layer = &model->layers[i];

        model->outputs_of[i] = at;
        at += n * (size_t)layer->outputs;
        layer->mask = layer->ops->has_mask ? at : NULL;
        at += layer->ops->has_mask ? n * (size_t)layer->outputs : 0;
    }
    model->deltas[0] = at;
    model->deltas[1] = at + n * widest;
    model->rows = rows;
    return CRT_OK;
}

/* Probabilities of the rows of `x`; they lie in the last layer's output. */
static float *forward(crt_model_t *model, const float *weights, int rows, const float *x,
                      crti_random_t *random)
{
    for (size_t i = 0; i < model->layer_count; i++) {
        const crti_layer_t *layer = &model->layers[i];

        layer->ops->forward(layer, weights + layer->params_at, rows, x,
                            model->outputs_of[i], random);
        x = model->outputs_of[i];
    }
    crti_softmax(rows, model->outputs, model->outputs_of[model->layer_count - 1]);
    return model->outputs_of[model->layer_count - 1];
}

/* A layer's gradients first and what goes on to the layer before it after that, so that whoever
 * watches has the second half of the work to send the first. */
static void backward_watched(const crt_model_t *model, const crti_layer_t *layer,
                             const float *params, int rows, const float *x,
                             const float *y, const float *dy, float *dparams, float *dx)
{
    layer->ops->backward(layer, params, rows, x, y, dy, dparams, NULL);
    model->seen(model->seen_context, layer->params_at);
    if (dx)
        layer->ops->backward(layer, params, rows, x, y, dy, NULL, dx);
}

/* `delta` is the gradient of the last layer's output. */
static void backward(crt_model_t *model, const float *weights, int rows,
                     const float *inputs, const float *delta, float *gradients)
{
    for (size_t i = model->layer_count; i-- > 0;) {
        const crti_layer_t *layer = &model->layers[i];
        const float *params = weights + layer->params_at;
        const float *x = i ? model->outputs_of[i - 1] : inputs;
        float *dparams = gradients + layer->params_at;
        float *dx = i ? model->deltas[i % 2] : NULL;

        if (model->seen && layer->ops->has_weights)
            backward_watched(model, layer, params, rows, x, model->outputs_of[i], delta,
                             dparams, dx);
        else
            layer->ops->backward(layer, params, rows, x, model->outputs_of[i], delta,
                                 dparams, dx);
        delta = dx;
    }
}

static crt_status_t check_batch(const crt_model_t *model, const crt_batch_t *batch)
{
    crt_status_t status = crti_matrix_check_rows(&batch->inputs, CRT_FLOAT32,
                                                 (size_t)model->inputs, "inputs");

    if (status == CRT_OK)
        status = crti_matrix_check_rows(&batch->labels, CRT_UINT8, 1, "labels");
    if (status == CRT_OK && batch->labels.shape[0] != batch->inputs.shape[0])
        return crt_raise(CRT_ERR_INVALID, "%lld samples with %lld labels",
                         (long long)batch->inputs.shape[0],
                         (long long)batch->labels.shape[0]);
    return status;
}

crt_status_t crt_model_compute_gradients(crt_model_t *model, const crt_tensor_t *weights,
                                         const crt_batch_t *batch,
                                         crt_tensor_t *gradients, double *loss_out)
{
    int rows = (int)batch->inputs.shape[0];
    const float *w, *x = batch->inputs.data;
    float *probabilities, *into = gradients ? gradients->data : model->gradients;
    double loss;
    crt_status_t status = check_batch(model, batch);

    if (status == CRT_OK)
        status = crti_model_weights(model, weights, &w);
    if (status == CRT_OK && gradients)
        status = crti_matrix_check_flat(gradients, model->parameter_count, "gradients");
    if (status == CRT_OK)
        status = make_room(model, rows);
    if (status != CRT_OK)
        return status;
    probabilities = forward(model, w, rows, x, &model->random);
    status = crti_softmax_gradients(rows, model->outputs, probabilities,
                                    batch->labels.data, &loss);
    if (status != CRT_OK)
        return status;
    backward(model, w, rows, x, probabilities, into);
    if (into == model->gradients)
        model->has_gradients = true;
    if (loss_out)
        *loss_out = loss;
    return CRT_OK;
}

crt_status_t crt_model_predict(crt_model_t *model, const crt_tensor_t *weights,
                               const crt_tensor_t *inputs, crt_tensor_t *probabilities)
{
    size_t outputs = (size_t)model->outputs;
    const float *w;
    int rows = (int)inputs->shape[0];
    crt_status_t status =
        crti_matrix_check_rows(inputs, CRT_FLOAT32, (size_t)model->inputs, "inputs");

    if (status == CRT_OK)
        status =
            crti_matrix_check_rows(probabilities, CRT_FLOAT32, outputs, "probabilities");
    if (status == CRT_OK && probabilities->shape[0] != inputs->shape[0])
        return crt_raise(CRT_ERR_INVALID,
                         "%lld inputs, room for %lld rows of probabilities",
                         (long long)inputs->shape[0], (long long)probabilities->shape[0]);
    if (status == CRT_OK)
        status = crti_model_weights(model, weights, &w);
    if (status == CRT_OK)
        status = make_room(model, rows);
    if (status != CRT_OK)
        return status;
    memcpy(probabilities->data, forward(model, w, rows, inputs->data, NULL),
           (size_t)rows * outputs * sizeof(float));
    return CRT_OK;
}

/* How many of the rows have their label as most probable class. */
static size_t count_right(const float *probabilities, int classes, const uint8_t *labels,
                          int rows)
{
    size_t right = 0;

    for (int i = 0; i < rows; i++, probabilities += classes) {
        int best = 0;

        for (int j = 1; j < classes; j++)
            if (probabilities[j] > probabilities[best])
                best = j;
        right += best == labels[i];
    }
    return right;
}

crt_status_t crt_model_accuracy(crt_model_t *model, const crt_tensor_t *weights,
                                const crt_dataset_t *set, double *accuracy_out)
{
    size_t right = 0, count = crt_dataset_count(set);
    const uint8_t *labels = crt_dataset_labels(set)->data;
    const float *w;
    float *x;
    crt_status_t status = crti_model_weights(model, weights, &w);

    if (status != CRT_OK)
        return status;
    if (crt_dataset_width(set) != model->inputs || count == 0)
        return crt_raise(CRT_ERR_INVALID,
                         "%zu samples of %d features, the model has %d inputs", count,
                         crt_dataset_width(set), model->inputs);
    status = make_room(model, EVALUATION_ROWS);
    if (status != CRT_OK)
        return status;
    x = malloc(sizeof(float) * EVALUATION_ROWS * (size_t)model->inputs);
    if (!x)
        return crt_raise(CRT_ERR_NO_MEMORY, "evaluation of %d samples", EVALUATION_ROWS);
    for (size_t i = 0; i < count; i += EVALUATION_ROWS) {
        int rows = count - i < EVALUATION_ROWS ? (int)(count - i) : EVALUATION_ROWS;

        crti_dataset_gather(set, i, (size_t)rows, x);
        right += count_right(forward(model, w, rows, x, NULL), model->outputs, labels + i,
                             rows);
    }
    free(x);
    *accuracy_out = (double)right / (double)count;
    return CRT_OK;
}
