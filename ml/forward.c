/* SPDX-License-Identifier: Apache-2.0 */
/* The forward pass: through the layers in their order.
 *
 * Where it sits
 *     inputs -> [ ml/forward.c ] -> outputs, and what backward.c needs
 * The weights may lie in a read-only mapping: they are read where they are.
 */
#include <stdlib.h>

#include "ml/matrix.h"
#include "ml/model.h"

#define ALIGNED 64 /* floats: what GPUs read at once */

#define EVALUATION_ROWS  512 /* samples of one forward pass while evaluating ... */
#define EVALUATION_BYTES ((size_t)64 << 20) /* ... as long as that needs no more memory */

/* Floats of scratch: for each sample, and for a pass. */
static size_t scratch_per_row(const crt_model_t *model, size_t *fixed_out)
{
    size_t sum = (size_t)model->outputs, fixed = 0;

    for (size_t i = 0; i < model->layer_count; i++) {
        const crti_layer_t *layer = &model->layers[i];

        sum += layer->kept_per_row;
        sum += model->outputs_of[i].is_alias ? 0 : crti_shape_size(layer->out);
        fixed += layer->kept_fixed;
    }
    *fixed_out = fixed;
    return sum;
}

int crti_model_evaluation_rows(const crt_model_t *model)
{
    size_t fixed,
        rows = EVALUATION_BYTES / sizeof(float) / scratch_per_row(model, &fixed);

    return rows < 1 ? 1 : rows > EVALUATION_ROWS ? EVALUATION_ROWS : (int)rows;
}

/* The next `floats` of the scratch; they begin where `base` is aligned for all who compute with
 * them. */
static float *cut(float *base, size_t *at, size_t floats)
{
    float *here = base ? base + *at : NULL;

    *at += (floats + ALIGNED - 1) / ALIGNED * ALIGNED;
    return here;
}

/* Keys are twice as large. */
static size_t input_floats(const crt_model_t *model)
{
    return crt_dtype_size(model->input_type) / sizeof(float);
}

/* Where everything lies from `base` on (NULL: not known yet); returns the floats that it takes. */
static size_t lay_out(crt_model_t *model, size_t rows, float *base)
{
    size_t at = 0;

    model->probabilities = cut(base, &at, rows * (size_t)model->outputs);
    if (model->device) {
        model->x = cut(base, &at, rows * (size_t)model->inputs * input_floats(model));
        model->dy = cut(base, &at, rows * (size_t)model->outputs);
    }
    for (size_t i = 0; i < model->layer_count; i++) {
        const crti_layer_t *layer = &model->layers[i];
        crti_activation_t *out = &model->outputs_of[i];

        out->kept = cut(base, &at, rows * layer->kept_per_row + layer->kept_fixed);
        if (!out->is_alias)
            out->y = cut(base, &at, rows * crti_shape_size(layer->out));
    }
    return at;
}

/* Whose outputs, and what is kept for its gradient, are the largest. */
static size_t largest_layer(const crt_model_t *model)
{
    size_t found = 0, most = 0;

    for (size_t i = 0; i < model->layer_count; i++) {
        const crti_layer_t *layer = &model->layers[i];
        size_t own = crti_shape_size(layer->out) + layer->kept_per_row;

        found = own > most ? i : found;
        most = own > most ? own : most;
    }
    return found;
}

static crt_status_t make_room(crt_model_t *model, int rows)
{
    size_t largest = largest_layer(model);

    if (rows <= model->rows)
        return CRT_OK;
    crti_model_release(model, model->scratch);
    model->rows = 0;
    model->scratch = crti_model_allocate(model, lay_out(model, (size_t)rows, NULL));
    if (!model->scratch)
        return crti_model_no_memory(
            model, lay_out(model, (size_t)rows, NULL),
            "outputs of %d samples, the largest of layer %zu (%s)", rows, largest,
            model->layers[largest].ops->name);
    lay_out(model, (size_t)rows, model->scratch);
    model->rows = rows;
    return CRT_OK;
}

/* On the host in whole lines of the cache. */
static float *new_workspace(const crt_model_t *model, size_t floats)
{
    floats = (floats + ALIGNED - 1) / ALIGNED * ALIGNED;
    return model->device ? crti_model_allocate(model, floats)
                         : aligned_alloc(64, floats * sizeof(float));
}

void crti_model_release_workspace(crt_model_t *model)
{
    crti_model_release(model, model->workspace);
    model->workspace = NULL;
}

static crt_status_t prepare(crt_model_t *model, int rows, bool training)
{
    crt_status_t status = CRT_OK;
    size_t most = 0, largest = 0;

    if (model->prepared_rows == rows && model->prepared_training == training)
        return CRT_OK;
    model->prepared_rows = 0;
    for (size_t i = 0; i < model->layer_count && status == CRT_OK; i++) {
        crti_layer_t *layer = &model->layers[i];

        if (layer->ops->prepare)
            status = layer->ops->prepare(layer, rows, training);
        largest = layer->workspace > most ? i : largest;
        most = layer->workspace > most ? layer->workspace : most;
    }
    if (status != CRT_OK)
        return status;
    crti_model_release_workspace(model);
    model->workspace = most ? new_workspace(model, most) : NULL;
    if (most && !model->workspace)
        return crti_model_no_memory(model, most, "the workspace of layer %zu (%s)",
                                    largest, model->layers[largest].ops->name);
    model->prepared_rows = rows;
    model->prepared_training = training;
    return CRT_OK;
}

static void run_layer(crt_model_t *model, const float *weights,
                      const crti_layer_pass_t *pass, size_t index)
{
    const crti_layer_t *layer = &model->layers[index];
    crti_activation_t *out = &model->outputs_of[index];
    crti_layer_pass_t step = *pass;

    for (int k = 0; k < layer->input_count; k++)
        if (layer->sources[k] >= 0)
            step.x[k] = model->outputs_of[layer->sources[k]].y;
        else
            step.x[k] = pass->x[0];
    step.params = weights + layer->params_at;
    step.kept = out->kept;
    step.statistics = model->statistics + layer->statistics_at;
    if (out->is_alias)
        out->y =
            (float *)(uintptr_t)step.x[0]; /* a view of the model's input is only read */
    step.y = out->y;
    if (!layer->ops->is_view)
        layer->ops->forward(layer, &step);
}

/* What the first layers read. */
static crt_status_t load(crt_model_t *model, crti_layer_pass_t *pass)
{
    crti_device_t *device = model->device;

    if (!device)
        return CRT_OK;
    if (pass->norm_sum)
        return crt_raise(CRT_ERR_UNSUPPORTED, "batch norms of a model on a GPU have no "
                                              "sums with others");
    device->ops->begin(device);
    if (pass->keys)
        device->ops->load_keys(device, model->x, pass->keys,
                               (size_t)pass->rows * (size_t)model->inputs *
                                   sizeof(*pass->keys));
    else
        device->ops->load(device, model->x, pass->x[0], pass->rows, model->input, false);
    pass->x[0] = model->x;
    pass->keys = pass->keys ? (const uint64_t *)(const void *)model->x : NULL;
    return CRT_OK;
}

/* How the layers that were queued have gone so far. */
static crt_status_t outcome(const crt_model_t *model)
{
    if (model->failed != CRT_OK)
        return model->failed;
    return model->device ? model->device->ops->failure(model->device) : CRT_OK;
}

crt_status_t crti_model_run(crt_model_t *model, const float *weights, const void *inputs,
                            int rows, const int32_t *lengths, size_t sequences,
                            bool training, const float **outputs_out)
{
    crt_status_t status;
    crti_layer_pass_t pass = {.rows = rows,
                              .failed = &model->failed,
                              .norm_sum = training ? model->norm_sum : NULL,
                              .norm_context = model->norm_context,
                              .random = training ? &model->random : NULL,
                              .lengths = lengths ? lengths : &model->whole,
                              .sequences = lengths ? sequences : 1,
                              .x = {inputs},
                              .keys =
                                  model->input_type == CRT_DTYPE_INT64 ? inputs : NULL};

    model->pass = (crti_layer_pass_t){0};
    model->failed = CRT_OK;
    if (model->device)
        model->device->ops->enter(model->device);
    status = make_room(model, rows);
    if (status == CRT_OK)
        status = load(model, &pass);
    if (status == CRT_OK)
        status = prepare(model, rows, training);
    if (status != CRT_OK)
        return status;
    pass.workspace = model->workspace;
    model->whole = rows;
    for (size_t i = 0; i < model->layer_count; i++)
        run_layer(model, weights, &pass, i);
    status = outcome(model);
    if (status != CRT_OK)
        return status;
    if (training)
        model->pass = pass;
    *outputs_out = model->outputs_of[model->layer_count - 1].y;
    return CRT_OK;
}

static crt_status_t check_lengths(const crt_tensor_t *lengths, int rows)
{
    crt_status_t status = crti_matrix_check_rows(lengths, CRT_DTYPE_INT32, 1, "lengths");
    const int32_t *length = lengths->data;
    int64_t sum = 0;

    if (status != CRT_OK)
        return status;
    for (int64_t i = 0; i < lengths->shape[0]; i++) {
        if (length[i] < 0)
            return crt_raise(CRT_ERR_INVALID, "sequence %lld has the length %d",
                             (long long)i, (int)length[i]);
        sum += length[i];
    }
    if (sum != rows)
        return crt_raise(CRT_ERR_INVALID, "sequences of %lld rows, there are %d",
                         (long long)sum, rows);
    return CRT_OK;
}

crt_status_t crt_model_forward(crt_model_t *model, const crt_tensor_t *weights,
                               const crt_tensor_t *inputs, const crt_tensor_t *lengths,
                               bool training, crt_tensor_t *outputs_out)
{
    crt_status_t status = crti_matrix_check_rows_at(
        inputs, crt_model_gpu(model), model->input_type, (size_t)model->inputs, "inputs");
    const float *w, *outputs;
    int64_t shape[2];

    if (status == CRT_OK && lengths)
        status = check_lengths(lengths, (int)inputs->shape[0]);
    if (status == CRT_OK)
        status = crti_model_weights(model, weights, &w);
    if (status == CRT_OK)
        status = crti_model_run(
            model, w, inputs->data, (int)inputs->shape[0], lengths ? lengths->data : NULL,
            lengths ? (size_t)lengths->shape[0] : 0, training, &outputs);
    if (status != CRT_OK)
        return status;
    shape[0] = inputs->shape[0];
    shape[1] = model->outputs;
    *outputs_out =
        crt_tensor_view(CRT_DTYPE_FLOAT32, 2, shape, (float *)(uintptr_t)outputs);
    if (!model->device)
        return CRT_OK;
    crti_place_at(outputs_out, crt_model_gpu(model));
    outputs_out->data = model->probabilities;
    model->device->ops->store(model->device, model->probabilities, outputs,
                              (int)inputs->shape[0],
                              model->layers[model->layer_count - 1].out, false);
    return model->device->ops->failure(model->device);
}
