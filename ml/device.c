/* SPDX-License-Identifier: Apache-2.0 */
/* Moving a model between host and device. See ml/device.h. */
#include "ml/device.h"

#include <stdlib.h>
#include <string.h>

#include "ml/matrix.h"
#include "ml/model.h"

crt_status_t crt_precision_parse(const char *name, crt_precision_t *precision_out)
{
    static const char *const names[] = {"float32", "tf32", "mixed"};

    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *precision_out = (crt_precision_t)i;
            return CRT_OK;
        }
    return crt_raise(CRT_ERR_INVALID,
                     "no precision is called '%s' (float32, tf32, mixed)", name);
}

/* The operations of all layers, or the first layer that has none. */
static crt_status_t find_layers(const crt_model_t *model, const crti_device_t *device,
                                const crti_layer_ops_t **ops)
{
    for (size_t i = 0; i < model->layer_count; i++) {
        ops[i] = device->ops->layer(device, &model->layers[i]);
        if (!ops[i])
            return crt_raise(CRT_ERR_UNSUPPORTED,
                             "layer %zu: %s can't be computed on a GPU", i,
                             model->layers[i].ops->name);
    }
    return CRT_OK;
}

/* Scratch and what layers were prepared for: made anew by the next pass. */
static void forget_passes(crt_model_t *model)
{
    for (size_t i = 0; i < model->delta_count; i++)
        if (model->deltas[i].capacity > 0)
            crti_model_release(model, model->deltas[i].data);
    free(model->deltas);
    model->deltas = NULL;
    model->delta_count = 0;
    for (size_t i = 0; i < model->layer_count; i++)
        if (model->layers[i].own)
            model->layers[i].ops->release(&model->layers[i]);
    crti_model_release_workspace(model);
    crti_model_release(model, model->scratch);
    model->scratch = NULL;
    model->rows = model->prepared_rows = 0;
    model->pass = (crti_layer_pass_t){0};
}

/* The flat buffers: copies, made on the other side. */
typedef struct buffers {
    float *weights, *gradients, *statistics;
} buffers_t;

static void release_buffers(const crt_model_t *where, const buffers_t *b)
{
    crti_model_release(where, b->weights);
    crti_model_release(where, b->gradients);
    crti_model_release(where, b->statistics);
}

/* Copies between host and device are made by the device. */
static crt_status_t copy_all(crti_device_t *device, const buffers_t *to,
                             const crt_model_t *model)
{
    size_t bytes = model->parameter_count * sizeof(float);
    crt_status_t status = device->ops->copy(device, to->weights, model->weights, bytes);

    if (status == CRT_OK)
        status = device->ops->copy(device, to->gradients, model->gradients, bytes);
    if (status == CRT_OK)
        status = device->ops->copy(device, to->statistics, model->statistics,
                                   model->statistics_count * sizeof(float));
    return status;
}

static void show_buffers(crt_model_t *model, const buffers_t *b)
{
    model->weights = b->weights;
    model->gradients = b->gradients;
    model->statistics = b->statistics;
    model->weights_view = crt_tensor_floats(b->weights, model->parameter_count);
    model->gradients_view = crt_tensor_floats(b->gradients, model->parameter_count);
    model->statistics_view = crt_tensor_floats(b->statistics, model->statistics_count);
    crti_place_at(&model->weights_view, crt_model_gpu(model));
    crti_place_at(&model->gradients_view, crt_model_gpu(model));
    crti_place_at(&model->statistics_view, crt_model_gpu(model));
}

/* To `device`, or from the one it is on to the host (NULL). `ops` are those of the layers there. */
static crt_status_t move(crt_model_t *model, crti_device_t *device,
                         const crti_layer_ops_t *const *ops)
{
    crti_device_t *copier = device ? device : model->device;
    crt_model_t there = {.device = device};
    buffers_t old = {model->weights, model->gradients, model->statistics};
    buffers_t b = {crti_model_allocate(&there, model->parameter_count),
                   crti_model_allocate(&there, model->parameter_count),
                   crti_model_allocate(&there, model->statistics_count)};
    crt_status_t status =
        b.weights && b.gradients && b.statistics
            ? copy_all(copier, &b, model)
            : crti_model_no_memory(&there,
                                   2 * model->parameter_count + model->statistics_count,
                                   "a model of %zu parameters", model->parameter_count);

    if (status != CRT_OK) {
        release_buffers(&there, &b);
        return status;
    }
    forget_passes(model);
    release_buffers(model, &old);
    model->device = device;
    for (size_t i = 0; i < model->layer_count; i++)
        model->layers[i].ops = ops[i];
    for (size_t i = 0; i < model->layer_count; i++)
        model->layers[i].device = device;
    crti_model_plan_outputs(model);
    show_buffers(model, &b);
    return CRT_OK;
}

/* They have memory where the model is. */
static crt_status_t check_optimizers(const crt_model_t *model)
{
    return model->optimizers == 0
               ? CRT_OK
               : crt_raise(CRT_ERR_INVALID, "a model moves before it has an optimizer");
}

crt_status_t crt_model_to_gpu(crt_model_t *model, int gpu, crt_precision_t precision)
{
    const crti_layer_ops_t **ops;
    crti_device_t *device;
    crt_status_t status;

    if (model->device)
        return crt_raise(CRT_ERR_INVALID, "the model is on GPU %d already",
                         crt_model_gpu(model));
    status = check_optimizers(model);
    if (status != CRT_OK)
        return status;
    status = crti_device_cuda.open(model, gpu, precision, &device);
    if (status != CRT_OK)
        return status;
    ops = calloc(model->layer_count, sizeof(*ops));
    status =
        ops ? find_layers(model, device, ops)
            : crt_raise(CRT_ERR_NO_MEMORY, "model of %zu layers", model->layer_count);
    if (status == CRT_OK)
        status = move(model, device, ops);
    if (status != CRT_OK)
        device->ops->close(device);
    free(ops);
    return status;
}

crt_status_t crt_model_to_host(crt_model_t *model)
{
    crti_device_t *device = model->device;
    const crti_layer_ops_t **ops;
    crt_status_t status;

    if (!device)
        return CRT_OK;
    status = check_optimizers(model);
    if (status != CRT_OK)
        return status;
    device->ops->enter(device);
    ops = calloc(model->layer_count, sizeof(*ops));
    if (!ops)
        return crt_raise(CRT_ERR_NO_MEMORY, "model of %zu layers", model->layer_count);
    for (size_t i = 0; i < model->layer_count; i++)
        ops[i] = crti_layer_ops_of(model->layers[i].spec.kind);
    status = move(model, NULL, ops);
    free(ops);
    if (status == CRT_OK)
        device->ops->close(device);
    return status;
}
