/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass: from the gradient of the outputs to that of the parameters.
 *
 * Where it sits
 *     last forward pass, gradient of its outputs -> [ ml/backward.c ] -> flat gradient
 * How
 *     Layers run in the reverse order. The gradient of an output ("delta") is the sum of what its
 *     readers make of theirs; all of them come later, so it is whole when its layer's turn comes.
 *     Deltas lie in memory that is taken and given back: several outputs may share one as long
 *     as nobody writes, and a layer that may writes its own delta over what it got.
 */
#include <stdlib.h>
#include <string.h>

#include "ml/matrix.h"
#include "ml/model.h"

#define NONE (-1)

static crt_status_t new_delta(crt_model_t *model, int *index_out)
{
    crti_delta_t *more =
        realloc(model->deltas, (model->delta_count + 1) * sizeof(*model->deltas));

    if (!more)
        return crt_raise(CRT_ERR_NO_MEMORY, "gradients of outputs");
    model->deltas = more;
    *index_out = (int)model->delta_count;
    model->deltas[model->delta_count++] = (crti_delta_t){0};
    return CRT_OK;
}

/* Not zeroed on the host, where that takes time. */
static float *new_numbers(const crt_model_t *model, size_t floats)
{
    return model->device ? crti_model_allocate(model, floats)
                         : malloc(floats * sizeof(float));
}

/* The free memory that fits best; else the largest free one grows. Number 0 is the caller's;
 * `layer` is for the error text. */
static crt_status_t take(crt_model_t *model, size_t layer, size_t floats, int *index_out)
{
    int best = NONE, largest = NONE;
    crt_status_t status = CRT_OK;
    crti_delta_t *delta;

    for (int i = 1; i < (int)model->delta_count; i++) {
        const crti_delta_t *d = &model->deltas[i];

        if (d->uses > 0)
            continue;
        if (d->capacity >= floats &&
            (best < 0 || d->capacity < model->deltas[best].capacity))
            best = i;
        if (largest < 0 || d->capacity > model->deltas[largest].capacity)
            largest = i;
    }
    best = best >= 0 ? best : largest;
    if (best < 0)
        status = new_delta(model, &best);
    if (status != CRT_OK)
        return status;
    delta = &model->deltas[best];
    if (delta->capacity < floats) {
        crti_model_release(model, delta->data);
        delta->data = new_numbers(model, floats);
        delta->capacity = delta->data ? floats : 0;
    }
    if (!delta->data)
        return crti_model_no_memory(model, floats,
                                    "the gradients of outputs, at layer %zu (%s)", layer,
                                    model->layers[layer].ops->name);
    delta->uses = 1;
    *index_out = best;
    return CRT_OK;
}

static void add(const crt_model_t *model, float *to, const float *a, const float *b,
                size_t count)
{
    if (model->device)
        model->device->ops->add(model->device, to, a, b, count);
    for (size_t i = 0; !model->device && i < count; i++)
        to[i] = a[i] + b[i];
}

/* Adds a delta to that of layer `source`'s output; takes over one use of it. */
static crt_status_t give(crt_model_t *model, int source, int index)
{
    int *place = &model->delta_of[source + 1], old = *place, sum = NONE;
    size_t count =
        (size_t)model->pass.rows *
        (source < 0 ? (size_t)model->inputs : crti_shape_size(model->layers[source].out));
    crt_status_t status = CRT_OK;

    if (old == NONE) {
        *place = index;
        return CRT_OK;
    }
    if (old > 0 && model->deltas[old].uses == 1)
        sum = old;
    else if (index > 0 && model->deltas[index].uses == 1)
        sum = index;
    else
        status = take(model, source < 0 ? 0 : (size_t)source, count, &sum);
    if (status != CRT_OK)
        return status;
    add(model, model->deltas[sum].data, model->deltas[old].data,
        model->deltas[index].data, count);
    model->deltas[old].uses -= old != sum;
    model->deltas[index].uses -= index != sum;
    *place = sum;
    return CRT_OK;
}

/* The gradient of a layer's output is that of its inputs, too. */
static crt_status_t pass_on(crt_model_t *model, const crti_layer_t *layer, int own,
                            bool wants_input)
{
    crt_status_t status = CRT_OK;

    for (int k = 0; k < layer->input_count && status == CRT_OK; k++) {
        if (layer->sources[k] < 0 && !wants_input)
            continue;
        model->deltas[own].uses++;
        status = give(model, layer->sources[k], own);
    }
    model->deltas[own].uses--;
    return status;
}

/* A layer's gradients first and what goes on to the layer before it after that, so that whoever
 * watches has the second half of the work to send the first. */
static void call_backward(const crt_model_t *model, const crti_layer_t *layer,
                          crti_layer_pass_t *step)
{
    float *dx[CRTI_LAYER_INPUTS_MAX];
    bool watched = model->seen && layer->params_count > 0;

    if (!watched || !layer->ops->splits || !step->dx[0]) {
        layer->ops->backward(layer, step);
        if (watched)
            model->seen(model->seen_context, layer->params_at);
        return;
    }
    memcpy(dx, step->dx, sizeof(dx));
    memset(step->dx, 0, sizeof(dx));
    layer->ops->backward(layer, step);
    model->seen(model->seen_context, layer->params_at);
    step->dparams = NULL;
    memcpy(step->dx, dx, sizeof(dx));
    layer->ops->backward(layer, step);
}

/* Memory for the gradients of a layer's inputs: `made` are their numbers, NONE where not wanted. */
static crt_status_t take_all(crt_model_t *model, const crti_layer_t *layer, int own,
                             bool wants_input, int *made)
{
    crt_status_t status = CRT_OK;
    bool in_place = layer->ops->dx_in_place && own > 0 && model->deltas[own].uses == 1;

    for (int k = 0; k < layer->input_count; k++) {
        made[k] = NONE;
        if (status != CRT_OK || layer->ops->reads_keys ||
            (layer->sources[k] < 0 && !wants_input))
            continue;
        if (k == 0 && in_place) {
            model->deltas[own].uses++;
            made[k] = own;
        } else {
            status =
                take(model, (size_t)(layer - model->layers),
                     (size_t)model->pass.rows * crti_shape_size(layer->in[k]), &made[k]);
        }
    }
    return status;
}

static crt_status_t run_back(crt_model_t *model, const float *weights, float *gradients,
                             size_t index, bool wants_input)
{
    const crti_layer_t *layer = &model->layers[index];
    int own = model->delta_of[index + 1], made[CRTI_LAYER_INPUTS_MAX];
    crti_layer_pass_t step = model->pass;
    crt_status_t status = take_all(model, layer, own, wants_input, made);

    if (status != CRT_OK)
        return status;
    for (int k = 0; k < layer->input_count; k++) {
        step.x[k] = layer->sources[k] < 0 ? model->pass.x[0]
                                          : model->outputs_of[layer->sources[k]].y;
        step.dx[k] = made[k] == NONE ? NULL : model->deltas[made[k]].data;
    }
    step.params = weights + layer->params_at;
    step.dparams = gradients + layer->params_at;
    step.y = model->outputs_of[index].y;
    step.kept = model->outputs_of[index].kept;
    step.dy = model->deltas[own].data;
    call_backward(model, layer, &step);
    status = model->failed;
    model->deltas[own].uses--;
    for (int k = 0; k < layer->input_count && status == CRT_OK; k++)
        if (made[k] != NONE)
            status = give(model, layer->sources[k], made[k]);
    return status;
}

/* A layer whose output nobody read. */
static void skip(const crt_model_t *model, const crti_layer_t *layer, float *gradients)
{
    float *own = gradients + layer->params_at;

    crti_model_zero(model, own, layer->params_count);
    if (model->seen && layer->params_count > 0)
        model->seen(model->seen_context, layer->params_at);
}

static crt_status_t begin(crt_model_t *model, const float *d_outputs)
{
    int caller = 0;
    crt_status_t status = model->delta_count ? CRT_OK : new_delta(model, &caller);

    if (status != CRT_OK)
        return status;
    for (size_t i = 0; i <= model->layer_count; i++)
        model->delta_of[i] = NONE;
    for (size_t i = 0; i < model->delta_count; i++)
        model->deltas[i].uses = 0;
    model->deltas[0].data = (float *)(uintptr_t)d_outputs; /* never written */
    model->deltas[0].uses = 1;
    model->delta_of[model->layer_count] = 0;
    return CRT_OK;
}

static void put_inputs(const crt_model_t *model, float *d_inputs)
{
    size_t size = (size_t)model->pass.rows * (size_t)model->inputs * sizeof(float);
    crti_device_t *device = model->device;

    if (device && model->delta_of[0] == NONE)
        device->ops->zero(device, d_inputs, size / sizeof(float));
    else if (device)
        device->ops->store(device, d_inputs, model->deltas[model->delta_of[0]].data,
                           model->pass.rows, model->input, true);
    else if (model->delta_of[0] == NONE)
        memset(d_inputs, 0, size);
    else
        memcpy(d_inputs, model->deltas[model->delta_of[0]].data, size);
}

static crt_status_t check_rows(const crt_model_t *model, const crt_tensor_t *tensor,
                               int cols, const char *what)
{
    int rows = model->pass.rows;
    crt_status_t status = crti_matrix_check_rows_at(
        tensor, crt_model_gpu(model), CRT_DTYPE_FLOAT32, (size_t)cols, what);

    if (status == CRT_OK && tensor->shape[0] != rows)
        return crt_raise(CRT_ERR_INVALID, "%s have %lld rows, the pass had %d", what,
                         (long long)tensor->shape[0], rows);
    return status;
}

crt_status_t crti_model_run_back(crt_model_t *model, const float *weights,
                                 const float *d_outputs, float *gradients,
                                 float *d_inputs)
{
    crt_status_t status = begin(model, d_outputs);

    for (size_t i = model->layer_count; i-- > 0 && status == CRT_OK;) {
        const crti_layer_t *layer = &model->layers[i];
        int own = model->delta_of[i + 1];

        if (own == NONE) {
            if (!layer->ops->is_view)
                skip(model, layer, gradients);
        } else if (layer->ops->is_view || layer->ops->is_sum) {
            status = pass_on(model, layer, own, d_inputs != NULL);
            if (model->seen && layer->params_count > 0)
                model->seen(model->seen_context, layer->params_at);
        } else {
            status = run_back(model, weights, gradients, i, d_inputs != NULL);
        }
    }
    if (status == CRT_OK && d_inputs)
        put_inputs(model, d_inputs);
    if (status == CRT_OK && model->device)
        status = model->device->ops->failure(model->device);
    model->pass = (crti_layer_pass_t){0};
    return status;
}

/* The gradient of the outputs as layers compute with it. */
static const float *load(const crt_model_t *model, const float *d_outputs)
{
    crti_device_t *device = model->device;

    if (!device)
        return d_outputs;
    device->ops->enter(device);
    device->ops->load(device, model->dy, d_outputs, model->pass.rows,
                      model->layers[model->layer_count - 1].out, true);
    return model->dy;
}

crt_status_t crt_model_backward(crt_model_t *model, const crt_tensor_t *weights,
                                const crt_tensor_t *d_outputs, crt_tensor_t *gradients,
                                crt_tensor_t *d_inputs)
{
    bool is_fetched = d_inputs && crt_tensor_gpu(d_inputs) != crt_model_gpu(model);
    const float *w;
    float *dx;
    crt_status_t status;

    if (model->pass.rows == 0)
        return crt_raise(CRT_ERR_INVALID,
                         "a backward pass without a forward pass of training");
    if (d_inputs && model->input_type != CRT_DTYPE_FLOAT32)
        return crt_raise(CRT_ERR_INVALID, "keys have no gradient");
    status = crti_model_weights(model, weights, &w);
    if (status == CRT_OK)
        status = check_rows(model, d_outputs, model->outputs, "gradients of the outputs");
    if (status == CRT_OK && d_inputs)
        status = check_rows(model, d_inputs, model->inputs, "gradients of the inputs");
    if (status == CRT_OK && gradients)
        status = crti_model_check_flat(model, gradients, "gradients");
    if (status != CRT_OK)
        return status;
    /* Nobody reads the inputs any more when their gradient is there. */
    dx = is_fetched ? model->x : d_inputs ? d_inputs->data : NULL;
    status = crti_model_run_back(model, w, load(model, d_outputs->data),
                                 gradients ? gradients->data : model->gradients, dx);
    if (status == CRT_OK && !gradients)
        model->has_gradients = true;
    return status == CRT_OK && is_fetched
               ? crti_model_copy(model, d_inputs->data, dx, crt_tensor_bytes(d_inputs))
               : status;
}
