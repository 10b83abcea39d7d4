/* SPDX-License-Identifier: Apache-2.0 */
/* Building a model: what each layer reads, where its parameters lie, and which outputs may be
 * written over. See ml/model.h. */
#include <math.h>
#include <stdlib.h>

#include "ml/model.h"
#include "runtime/base/copy_struct.h"

const crti_layer_ops_t *crti_layer_ops_of(crt_layer_kind_t kind)
{
    switch (kind) {
    case CRT_LAYER_DENSE: return &crti_layer_dense;
    case CRT_LAYER_RELU: return &crti_layer_relu;
    case CRT_LAYER_DROPOUT: return &crti_layer_dropout;
    case CRT_LAYER_HASH_EMBED: return &crti_layer_hash_embed;
    case CRT_LAYER_MAXOUT: return &crti_layer_maxout;
    case CRT_LAYER_EXPAND_WINDOW: return &crti_layer_expand_window;
    case CRT_LAYER_LAYER_NORM: return &crti_layer_norm;
    case CRT_LAYER_ADD: return &crti_layer_add;
    case CRT_LAYER_CONCATENATE: return &crti_layer_concatenate;
    case CRT_LAYER_PARAMETERS: return &crti_layer_parameters;
    case CRT_LAYER_CONVOLUTION: return &crti_layer_convolution;
    case CRT_LAYER_MAX_POOL: return &crti_layer_max_pool;
    case CRT_LAYER_AVERAGE_POOL: return &crti_layer_average_pool;
    case CRT_LAYER_BATCH_NORM: return &crti_layer_batch_norm;
    case CRT_LAYER_FLATTEN: return &crti_layer_flatten;
    case CRT_LAYER_SUBSAMPLE: return &crti_layer_subsample;
    case CRT_LAYER_GELU: return &crti_layer_gelu;
    case CRT_LAYER_MISH: return &crti_layer_mish;
    case CRT_LAYER_ATTENTION: return &crti_layer_attention;
    case CRT_LAYER_PATCHES: return &crti_layer_patches;
    case CRT_LAYER_TOKEN: return &crti_layer_token;
    case CRT_LAYER_POSITIONS: return &crti_layer_positions;
    }
    return NULL;
}

crt_status_t crti_layer_same_shape(crti_layer_t *layer, size_t index)
{
    (void)index;
    layer->out = layer->in[0];
    return CRT_OK;
}

void crti_layer_add_array(crti_layer_t *layer, int rows, int cols)
{
    layer->arrays[layer->array_count].rows = rows;
    layer->arrays[layer->array_count++].cols = cols;
    layer->params_count += (size_t)rows * (size_t)cols;
}

static void draw_uniform(float *out, size_t count, double limit, crti_random_t *random)
{
    for (size_t i = 0; i < count; i++)
        out[i] = crti_random_between(random, -(float)limit, (float)limit);
}

void crti_layer_draw(const crti_layer_t *layer, float *weights, size_t count,
                     size_t fan_in, size_t fan_out, float *biases, size_t bias_count,
                     crti_random_t *random)
{
    crt_layer_init_t init = layer->spec.init;
    double limit = init == CRT_INIT_FAN_IN || init == CRT_INIT_FAN_IN_PLAIN
                       ? 1 / sqrt((double)fan_in)
                       : sqrt(6.0 / ((double)fan_out + (double)fan_in));

    for (size_t i = 0; i < bias_count; i++)
        biases[i] = 0;
    switch (init) {
    case CRT_INIT_ZERO:
        for (size_t i = 0; i < count; i++)
            weights[i] = 0;
        break;
    case CRT_INIT_GLOROT:
    case CRT_INIT_FAN_IN_PLAIN: draw_uniform(weights, count, limit, random); break;
    case CRT_INIT_FAN_IN:
        draw_uniform(weights, count, limit, random);
        draw_uniform(biases, bias_count, limit, random);
        break;
    case CRT_INIT_HE:
        for (size_t i = 0; i < count; i++)
            weights[i] = crti_random_normal(random) * (float)sqrt(2.0 / (double)fan_out);
        break;
    }
}

/* Layer `back` layers before layer `index`; -1 is the model's input. */
static crt_status_t source_of(size_t index, int back, int *source_out)
{
    if (back < 1 || (size_t)back > index + 1)
        return crt_raise(
            CRT_ERR_INVALID,
            "layer %zu: reads what is %d layers back; there are %zu before it", index,
            back, index);
    *source_out = (int)index - back;
    return CRT_OK;
}

static crt_status_t find_sources(crti_layer_t *layer, size_t index)
{
    const crt_layer_t *spec = &layer->spec;
    crt_status_t status = CRT_OK;

    if (spec->kind == CRT_LAYER_CONCATENATE) {
        if (spec->count < 1 || spec->count > CRTI_LAYER_INPUTS_MAX)
            return crt_raise(CRT_ERR_INVALID,
                             "layer %zu: concatenates %d layers, not 1..%d", index,
                             spec->count, CRTI_LAYER_INPUTS_MAX);
        layer->input_count = spec->count;
        for (int k = 0; k < spec->count && status == CRT_OK; k++)
            status = source_of(index, spec->count - k, &layer->sources[k]);
        return status;
    }
    layer->input_count = spec->kind == CRT_LAYER_ADD ? 2 : 1;
    status = source_of(index, spec->from ? spec->from : 1, &layer->sources[0]);
    if (status == CRT_OK && layer->input_count == 2)
        status = source_of(index, spec->with, &layer->sources[1]);
    return status;
}

static crt_status_t find_inputs(crt_model_t *model, crti_layer_t *layer, size_t index)
{
    crt_status_t status = find_sources(layer, index);

    for (int k = 0; k < layer->input_count && status == CRT_OK; k++) {
        int source = layer->sources[k];
        bool keys = source < 0 && model->input_type == CRT_DTYPE_INT64;

        if (keys != layer->ops->reads_keys)
            return crt_raise(CRT_ERR_INVALID,
                             keys ? "layer %zu: %s does not read keys"
                                  : "layer %zu: %s reads keys, not numbers",
                             index, layer->ops->name);
        layer->in[k] = source < 0 ? model->input : model->layers[source].out;
        if (source >= 0)
            model->outputs_of[source].readers++;
    }
    return status;
}

static void add_arrays(crt_model_t *model, crti_layer_t *layer, size_t index)
{
    layer->params_at = model->parameter_count;
    for (int k = 0; k < layer->array_count; k++) {
        int rows = layer->arrays[k].rows, cols = layer->arrays[k].cols;
        size_t count = (size_t)rows * (size_t)cols;

        model->arrays[model->array_count++] =
            (crti_array_t){model->parameter_count, count, rows, cols, index};
        model->parameter_count += count;
    }
}

static crt_status_t add_layer(crt_model_t *model, const crt_layer_t *spec)
{
    size_t index = model->layer_count;
    crti_layer_t *layer = &model->layers[index];
    crt_status_t status;

    layer->ops = crti_layer_ops_of(spec->kind);
    layer->spec = *spec;
    if (!layer->ops)
        return crt_raise(CRT_ERR_INVALID, "layer %zu: no kind has the number %d", index,
                         (int)spec->kind);
    status = find_inputs(model, layer, index);
    if (status == CRT_OK)
        status = layer->ops->shape(layer, index);
    if (status != CRT_OK)
        return status;
    if (crti_shape_size(layer->out) > CRTI_MODEL_WIDTH_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "layer %zu: %zu outputs for a sample, not 1..%d", index,
                         crti_shape_size(layer->out), CRTI_MODEL_WIDTH_MAX);
    add_arrays(model, layer, index);
    layer->statistics_at = model->statistics_count;
    model->statistics_count += layer->statistics_count;
    if (model->parameter_count > CRTI_MODEL_PARAMETERS_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "more than %zu parameters at layer %zu",
                         CRTI_MODEL_PARAMETERS_MAX, index);
    model->layer_count++;
    return CRT_OK;
}

/* An output is written over its input's memory when nobody else needs what is there. */
void crti_model_plan_outputs(crt_model_t *model)
{
    for (size_t i = 0; i < model->layer_count; i++) {
        const crti_layer_t *layer = &model->layers[i];
        crti_activation_t *out = &model->outputs_of[i];
        int source = layer->sources[0];
        const crti_activation_t *in = source < 0 ? NULL : &model->outputs_of[source];

        out->is_alias = out->is_shared = false;
        out->is_needed = layer->ops->needs_y;
        if (layer->ops->is_view) {
            out->is_alias = true;
            out->is_shared = !in || in->is_shared || in->readers > 1;
            out->is_needed = in && in->is_needed;
        } else if (layer->ops->in_place && in) {
            out->is_alias = in->readers == 1 && !in->is_shared && !in->is_needed;
        }
    }
}

static crt_status_t make_buffers(crt_model_t *model)
{
    size_t count = model->parameter_count, statistics = model->statistics_count;

    model->weights = calloc(count ? count : 1, sizeof(float));
    model->gradients = calloc(count ? count : 1, sizeof(float));
    model->statistics = calloc(statistics ? statistics : 1, sizeof(float));
    if (!model->weights || !model->gradients || !model->statistics)
        return crt_raise(CRT_ERR_NO_MEMORY, "model of %zu parameters", count);
    model->statistics_view = crt_tensor_floats(model->statistics, statistics);
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
        if (layer->ops->init_statistics)
            layer->ops->init_statistics(layer, model->statistics + layer->statistics_at);
    }
}

/* What the program left out is there afterwards. */
static crt_status_t read_input(const crt_input_t *given, crt_input_t *input)
{
    int limit = CRTI_MODEL_WIDTH_MAX;
    crt_status_t status = CRTI_COPY_STRUCT(input, given, "CRT_INPUT");

    if (status != CRT_OK)
        return status;
    input->dtype = input->dtype ? input->dtype : CRT_DTYPE_FLOAT32;
    input->height = input->height ? input->height : 1;
    input->width = input->width ? input->width : 1;
    if (input->dtype != CRT_DTYPE_FLOAT32 && input->dtype != CRT_DTYPE_INT64)
        return crt_raise(CRT_ERR_INVALID, "a model that reads %s, not float32 or int64",
                         crt_dtype_name(input->dtype));
    if (input->height < 1 || input->width < 1 || input->channels < 1 ||
        input->height > limit / input->width ||
        input->channels > limit / (input->height * input->width))
        return crt_raise(CRT_ERR_INVALID, "a model with %d x %d x %d inputs",
                         input->height, input->width, input->channels);
    if (input->dtype == CRT_DTYPE_INT64 && input->height * input->width != 1)
        return crt_raise(CRT_ERR_INVALID, "keys at %d x %d places", input->height,
                         input->width);
    return CRT_OK;
}

/* In the program's array, whose layers may be smaller or larger than those of this version. */
static const crt_layer_t *layer_at(const crt_layer_t *layers, size_t index)
{
    return (const void *)((const char *)layers + index * layers->struct_size);
}

static crt_status_t build(crt_model_t *model, const crt_layer_t *layers, size_t count)
{
    crt_status_t status = CRT_OK;
    crt_layer_t mine;

    model->layers = calloc(count, sizeof(*model->layers));
    model->outputs_of = calloc(count, sizeof(*model->outputs_of));
    model->delta_of = calloc(count + 1, sizeof(*model->delta_of));
    model->arrays = calloc(CRTI_LAYER_ARRAYS_MAX * count, sizeof(*model->arrays));
    if (!model->layers || !model->outputs_of || !model->delta_of || !model->arrays)
        return crt_raise(CRT_ERR_NO_MEMORY, "model of %zu layers", count);
    for (size_t i = 0; i < count && status == CRT_OK; i++) {
        status = CRTI_COPY_STRUCT(&mine, layer_at(layers, i), "CRT_LAYER");
        if (status == CRT_OK)
            status = add_layer(model, &mine);
    }
    if (status != CRT_OK)
        return status;
    model->outputs = (int)crti_shape_size(model->layers[count - 1].out);
    crti_model_plan_outputs(model);
    return make_buffers(model);
}

crt_status_t crt_model_new(const crt_input_t *input, const crt_layer_t *layers,
                           size_t count, uint64_t seed, crt_model_t **model_out)
{
    crt_input_t mine;
    crt_status_t status = read_input(input, &mine);
    crt_model_t *model;

    if (status != CRT_OK)
        return status;
    if (!layers || count < 1 || count > CRTI_MODEL_LAYERS_MAX)
        return crt_raise(CRT_ERR_INVALID, "a model of %zu layers, not 1..%d", count,
                         CRTI_MODEL_LAYERS_MAX);
    model = calloc(1, sizeof(*model));
    if (!model)
        return crt_raise(CRT_ERR_NO_MEMORY, "model");
    model->input_type = mine.dtype;
    model->input = (crti_shape_t){mine.height, mine.width, mine.channels};
    model->inputs = (int)crti_shape_size(model->input);
    status = build(model, layers, count);
    if (status != CRT_OK) {
        crt_model_drop(&model);
        return status;
    }
    draw_weights(model, seed);
    crt_model_set_seed(model, seed);
    *model_out = model;
    return CRT_OK;
}
