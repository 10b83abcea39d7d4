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
#include "runtime/base/copy_struct.h"

static crt_status_t check_classes(const crt_model_t *model)
{
    if (model->input_type != CRT_DTYPE_FLOAT32 || model->outputs > 256)
        return crt_raise(CRT_ERR_INVALID,
                         "a model with inputs of %s and %d outputs is no classifier",
                         crt_dtype_name(model->input_type), model->outputs);
    return CRT_OK;
}

static crt_status_t make_probabilities(crt_model_t *model, const float *outputs, int rows)
{
    crti_device_t *device = model->device;

    if (device) {
        device->ops->softmax(device, rows, model->outputs, outputs, model->probabilities);
        return device->ops->failure(device);
    }
    memcpy(model->probabilities, outputs,
           (size_t)rows * (size_t)model->outputs * sizeof(float));
    crti_softmax(rows, model->outputs, model->probabilities);
    return CRT_OK;
}

/* Runs the model and makes model->probabilities of its outputs. */
static crt_status_t forward(crt_model_t *model, const float *weights, const float *x,
                            int rows)
{
    const float *outputs;
    crt_status_t status =
        crti_model_run(model, weights, x, rows, NULL, 0, false, &outputs);

    if (status != CRT_OK)
        return status;
    return make_probabilities(model, outputs, rows);
}

static crt_status_t check_batch(const crt_model_t *model, const crt_batch_t *batch)
{
    crt_status_t status = check_classes(model);

    if (status == CRT_OK)
        status =
            crti_matrix_check_rows_at(&batch->inputs, crt_model_gpu(model),
                                      CRT_DTYPE_FLOAT32, (size_t)model->inputs, "inputs");
    if (status == CRT_OK)
        status = crti_matrix_check_rows(&batch->labels, CRT_DTYPE_UINT8, 1, "labels");
    if (status == CRT_OK && batch->labels.shape[0] != batch->inputs.shape[0])
        return crt_raise(CRT_ERR_INVALID, "%lld samples with %lld labels",
                         (long long)batch->inputs.shape[0],
                         (long long)batch->labels.shape[0]);
    return status;
}

/* Makes the gradient of the outputs, in model->probabilities, and the loss; a device gives that
 * later. */
static crt_status_t compare(crt_model_t *model, const float *outputs, int rows,
                            const uint8_t *labels, double *loss_out)
{
    crti_device_t *device = model->device;
    crt_status_t status = crti_softmax_check(rows, model->outputs, labels);

    if (status == CRT_OK && device) {
        device->ops->cross_entropy(device, rows, model->outputs, outputs, labels,
                                   model->probabilities);
        return device->ops->failure(device);
    }
    if (status == CRT_OK)
        status = make_probabilities(model, outputs, rows);
    return status == CRT_OK
               ? crti_softmax_gradients(rows, model->outputs, model->probabilities,
                                        labels, loss_out)
               : status;
}

crt_status_t crt_model_compute_gradients(crt_model_t *model, const crt_tensor_t *weights,
                                         const crt_batch_t *batch,
                                         crt_tensor_t *gradients, double *loss_out)
{
    crt_batch_t mine;
    const float *w, *outputs;
    float *into = gradients ? gradients->data : model->gradients;
    double loss = 0;
    crt_status_t status = CRTI_COPY_STRUCT(&mine, batch, "CRT_BATCH");
    int rows = (int)mine.inputs.shape[0];

    if (status == CRT_OK)
        status = check_batch(model, &mine);
    if (status == CRT_OK)
        status = crti_model_weights(model, weights, &w);
    if (status == CRT_OK && gradients)
        status = crti_model_check_flat(model, gradients, "gradients");
    if (status == CRT_OK)
        status =
            crti_model_run(model, w, mine.inputs.data, rows, NULL, 0, true, &outputs);
    if (status == CRT_OK)
        status = compare(model, outputs, rows, mine.labels.data, &loss);
    if (status == CRT_OK)
        status = crti_model_run_back(model, w, model->probabilities, into, NULL);
    if (status == CRT_OK && model->device && loss_out)
        status = model->device->ops->read_loss(model->device, &loss);
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
    int gpu = crt_model_gpu(model);
    crt_status_t status = check_classes(model);

    if (status == CRT_OK)
        status = crti_matrix_check_rows_at(inputs, gpu, CRT_DTYPE_FLOAT32,
                                           (size_t)model->inputs, "inputs");
    if (status == CRT_OK)
        status = crti_matrix_check_rows_at(probabilities, gpu, CRT_DTYPE_FLOAT32,
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

        status = forward(model, w, x, rows);
        if (status == CRT_OK)
            status = crti_model_copy(model, out, model->probabilities,
                                     (size_t)rows * outputs * sizeof(float));
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

/* Of the samples from `first` on; `x` and `p` have room for their features and their
 * probabilities. */
static crt_status_t judge(crt_model_t *model, const float *weights,
                          const crt_dataset_t *set, size_t first, int rows, float *x,
                          float *p, size_t *right)
{
    const uint8_t *labels = crt_dataset_labels(set)->data;
    crt_status_t status;

    crti_dataset_gather(set, first, (size_t)rows, x);
    status = forward(model, weights, x, rows);
    if (status == CRT_OK)
        status = crti_model_copy(model, p, model->probabilities,
                                 (size_t)rows * (size_t)model->outputs * sizeof(float));
    if (status == CRT_OK)
        *right += count_right(p, model->outputs, labels + first, rows);
    return status;
}

crt_status_t crt_model_accuracy(crt_model_t *model, const crt_tensor_t *weights,
                                const crt_dataset_t *set, double *accuracy_out)
{
    size_t right = 0, count = crt_dataset_count(set);
    size_t step = (size_t)crti_model_evaluation_rows(model);
    size_t inputs = (size_t)model->inputs, outputs = (size_t)model->outputs;
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
    x = malloc(sizeof(float) * step * (inputs + outputs));
    if (!x)
        return crt_raise(CRT_ERR_NO_MEMORY, "evaluation of %zu samples", step);
    for (size_t i = 0; i < count && status == CRT_OK; i += step)
        status = judge(model, w, set, i, (int)(count - i < step ? count - i : step), x,
                       x + step * inputs, &right);
    free(x);
    *accuracy_out = (double)right / (double)count;
    return status;
}
