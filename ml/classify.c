/* SPDX-License-Identifier: Apache-2.0 */
/* A model as a classifier: softmax and cross-entropy after its last layer.
 *
 * Where it sits
 *     batch -> [ forward.c -> softmax -> backward.c ] -> flat gradient
 */
#include "ml/model.h"

#include <stdlib.h>
#include <string.h>

#include "ml/dataset.h"
#include "ml/matrix.h"

static crt_status_t check_classes(const crt_model_t *model)
{
    if (model->input_type != CRT_FLOAT32 || model->outputs > 256)
        return crt_raise(CRT_ERR_INVALID,
                         "a model with inputs of %s and %d outputs is no classifier",
                         crt_dtype_name(model->input_type), model->outputs);
    return CRT_OK;
}

/* Runs the model and makes model->probabilities of its outputs. */
static crt_status_t forward(crt_model_t *model, const float *weights, const float *x,
                            int rows, bool training)
{
    const float *outputs;
    crt_status_t status =
        crti_model_run(model, weights, x, rows, NULL, 0, training, &outputs);

    if (status != CRT_OK)
        return status;
    memcpy(model->probabilities, outputs,
           (size_t)rows * (size_t)model->outputs * sizeof(float));
    crti_softmax(rows, model->outputs, model->probabilities);
    return CRT_OK;
}

static crt_status_t check_batch(const crt_model_t *model, const crt_batch_t *batch)
{
    crt_status_t status = check_classes(model);

    if (status == CRT_OK)
        status = crti_matrix_check_rows(&batch->inputs, CRT_FLOAT32,
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
    float *into = gradients ? gradients->data : model->gradients;
    double loss;
    crt_status_t status = check_batch(model, batch);

    if (status == CRT_OK)
        status = crti_model_weights(model, weights, &w);
    if (status == CRT_OK && gradients)
        status = crti_matrix_check_flat(gradients, model->parameter_count, "gradients");
    if (status == CRT_OK)
        status = forward(model, w, x, rows, true);
    if (status == CRT_OK)
        status = crti_softmax_gradients(rows, model->outputs, model->probabilities,
                                        batch->labels.data, &loss);
    if (status == CRT_OK)
        status = crti_model_run_back(model, w, model->probabilities, into, NULL);
    if (status != CRT_OK)
        return status;
    if (into == model->gradients)
        model->has_gradients = true;
    if (loss_out)
        *loss_out = loss;
    return CRT_OK;
}

static crt_status_t check_predict(const crt_model_t *model, const crt_tensor_t *inputs,
                                  const crt_tensor_t *probabilities)
{
    crt_status_t status = check_classes(model);

    if (status == CRT_OK)
        status =
            crti_matrix_check_rows(inputs, CRT_FLOAT32, (size_t)model->inputs, "inputs");
    if (status == CRT_OK)
        status = crti_matrix_check_rows(probabilities, CRT_FLOAT32,
                                        (size_t)model->outputs, "probabilities");
    if (status == CRT_OK && probabilities->shape[0] != inputs->shape[0])
        return crt_raise(CRT_ERR_INVALID,
                         "%lld inputs, room for %lld rows of probabilities",
                         (long long)inputs->shape[0], (long long)probabilities->shape[0]);
    return status;
}

crt_status_t crt_model_predict(crt_model_t *model, const crt_tensor_t *weights,
                               const crt_tensor_t *inputs, crt_tensor_t *probabilities)
{
    size_t outputs = (size_t)model->outputs;
    const float *w, *x = inputs->data;
    float *out = probabilities->data;
    crt_status_t status = check_predict(model, inputs, probabilities);

    if (status == CRT_OK)
        status = crti_model_weights(model, weights, &w);
    for (int64_t left = status == CRT_OK ? inputs->shape[0] : 0;
         left > 0 && status == CRT_OK;) {
        int most = crti_model_evaluation_rows(model);
        int rows = left < most ? (int)left : most;

        status = forward(model, w, x, rows, false);
        if (status == CRT_OK)
            memcpy(out, model->probabilities, (size_t)rows * outputs * sizeof(float));
        x += (size_t)rows * (size_t)model->inputs;
        out += (size_t)rows * outputs;
        left -= rows;
    }
    return status;
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
    int step = crti_model_evaluation_rows(model);
    const uint8_t *labels = crt_dataset_labels(set)->data;
    const float *w;
    float *x;
    crt_status_t status = check_classes(model);

    if (status == CRT_OK)
        status = crti_model_weights(model, weights, &w);
    if (status != CRT_OK)
        return status;
    if (crt_dataset_width(set) != model->inputs || count == 0)
        return crt_raise(CRT_ERR_INVALID,
                         "%zu samples of %d features, the model has %d inputs", count,
                         crt_dataset_width(set), model->inputs);
    x = malloc(sizeof(float) * (size_t)step * (size_t)model->inputs);
    if (!x)
        return crt_raise(CRT_ERR_NO_MEMORY, "evaluation of %d samples", step);
    for (size_t i = 0; i < count && status == CRT_OK; i += (size_t)step) {
        int rows = count - i < (size_t)step ? (int)(count - i) : step;

        crti_dataset_gather(set, i, (size_t)rows, x);
        status = forward(model, w, x, rows, false);
        if (status == CRT_OK)
            right += count_right(model->probabilities, model->outputs, labels + i, rows);
    }
    free(x);
    *accuracy_out = (double)right / (double)count;
    return status;
}
