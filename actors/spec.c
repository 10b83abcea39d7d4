/* SPDX-License-Identifier: Apache-2.0 */
#include "actors/spec.h"
#include "runtime/base/copy_struct.h"

#include <crt_ml_gpu.h>
#include <crt_networks.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

crt_status_t crti_spec_copy(crt_model_spec_t *mine, const crt_model_spec_t *given)
{
    crt_status_t status = CRTI_COPY_STRUCT(mine, given, "CRT_MODEL_SPEC");

    if (status == CRT_OK && mine->layers &&
        (!mine->input || mine->layer_count == 0 || mine->widths || mine->network))
        status = crt_raise(CRT_ERR_INVALID,
                           "a model of layers needs `input` and `layer_count`, and has "
                           "neither widths nor a network");
    if (status == CRT_OK && !mine->layers && !mine->widths)
        status = crt_raise(CRT_ERR_INVALID, "a model without widths");
    return status;
}

crt_status_t crti_spec_data(crt_data_spec_t *mine, const crt_data_spec_t *given)
{
    crt_status_t status = CRTI_COPY_STRUCT(mine, given, "CRT_DATA_SPEC");

    mine->shards = mine->shards ? mine->shards : 1;
    return status;
}

#define LAYERS                                                                           \
    "\x2" /* the first item of a list that has layers; no network is called so */

crt_arg_t crti_spec_widths(const crt_model_spec_t *spec,
                           crt_arg_t room[CRTI_SPEC_ITEMS_MAX])
{
    size_t count = 0;

    if (spec->layers) { /* structs of numbers: their bytes, which say their size */
        room[0] = crt_arg_string(LAYERS);
        room[1] = crt_arg_bytes(crt_bytes(spec->input, spec->input->struct_size));
        room[2] = crt_arg_bytes(
            crt_bytes(spec->layers, spec->layer_count * spec->layers[0].struct_size));
        return crt_list(room, 3);
    }
    if (spec->network)
        room[count++] = crt_arg_string(spec->network);
    for (size_t i = 0; i <= CRTI_SPEC_WIDTHS_MAX && spec->widths[i] != 0; i++)
        room[count++] = crt_arg_int(spec->widths[i]);
    return crt_list(room, count);
}

/* ---------------------------------------------------------------- refusals */

#define REFUSED                                                                          \
    "\x1" /* the first item of such a list of widths; no network is called so */

/* An argument of the kind that stands at `*signature`, which moves on to the next one. */
static crt_arg_t plain_argument(const char **signature, crt_arg_t refusal,
                                crt_ref_t *none)
{
    const char *kind = *signature, *end = strchr(kind, ',');

    *signature = end ? end + strspn(end, ", ") : "";
    if (strncmp(kind, "list", 4) == 0)
        return refusal;
    if (strncmp(kind, "map", 3) == 0)
        return crt_map(NULL, 0);
    if (strncmp(kind, "ref", 3) == 0)
        return crt_arg_ref(none);
    return strncmp(kind, "float", 5) == 0 ? crt_arg_float(0) : crt_arg_int(0);
}

crt_actor_t *crti_spec_refuse(const crt_actor_class_t *actor_class,
                              const crt_actor_options_t *options, crt_status_t status)
{
    char text[1024];
    const crt_arg_t items[] = {crt_arg_string(REFUSED), crt_arg_int(status),
                               crt_arg_string(text)};
    crt_arg_t arguments[16];
    const char *signature = actor_class->signature;
    crt_ref_t *none;
    crt_actor_t *actor;
    size_t count = 0;

    snprintf(text, sizeof(text), "%s", crt_error_detail());
    none = crt_put(0);
    while (*signature && count < 16)
        arguments[count++] = plain_argument(&signature, crt_list(items, 3), none);
    actor = crt_actor_new_v(actor_class, options, arguments, count);
    crt_ref_drop(&none);
    return actor;
}

/* The status that crti_spec_refuse has put into a list of widths. */
static crt_status_t refusal(const crt_value_t *list)
{
    int status = CRT_ERR_INVALID;
    const char *text = "";
    crt_status_t read = crt_value_read(crt_value_at(list, 1), &status);

    if (read == CRT_OK)
        read = crt_value_read(crt_value_at(list, 2), &text);
    return read == CRT_OK ? crt_raise((crt_status_t)status, "%s", text) : read;
}

/* ---------------------------------------------------------------- models */

/* A copy of an item's bytes, where structs may lie; at least one size. The caller frees it. */
static crt_status_t copy_structs(const crt_value_t *list, size_t item, void **copy_out,
                                 size_t *size_out)
{
    crt_bytes_t bytes;
    crt_status_t status = crt_value_read(crt_value_at(list, item), &bytes);

    if (status == CRT_OK && bytes.size < sizeof(size_t))
        status = crt_raise(CRT_ERR_INVALID, "layers of %zu bytes", bytes.size);
    if (status != CRT_OK)
        return status;
    *copy_out = malloc(bytes.size);
    if (!*copy_out)
        return crt_raise(CRT_ERR_NO_MEMORY, "layers of %zu bytes", bytes.size);
    memcpy(*copy_out, bytes.data, bytes.size);
    *size_out = bytes.size;
    return CRT_OK;
}

/* Input and layers. */
static crt_status_t layered_model(const crt_value_t *list, uint64_t seed,
                                  crt_model_t **model_out)
{
    void *input = NULL, *layers = NULL;
    size_t input_size = 0, size = 0, each;
    crt_status_t status = copy_structs(list, 1, &input, &input_size);

    if (status == CRT_OK)
        status = copy_structs(list, 2, &layers, &size);
    if (status == CRT_OK) {
        each = *(size_t *)layers;
        if (*(size_t *)input != input_size || each < sizeof(size_t) || size % each != 0)
            status = crt_raise(CRT_ERR_INVALID,
                               "layers of %zu bytes, each of %zu, for an input of %zu",
                               size, each, input_size);
        else
            status = crt_model_new(input, layers, size / each, seed, model_out);
    }
    free(input);
    free(layers);
    return status;
}

/* Name, height, width, channels, classes. */
static crt_status_t named_model(const crt_value_t *list, uint64_t seed,
                                crt_model_t **model_out)
{
    const char *name;
    int numbers[4];
    crt_input_t input;
    crt_status_t status = crt_value_read(crt_value_at(list, 0), &name);

    if (status == CRT_OK && strcmp(name, REFUSED) == 0)
        return refusal(list);
    if (status == CRT_OK && strcmp(name, LAYERS) == 0)
        return layered_model(list, seed, model_out);
    if (status == CRT_OK && crt_value_count(list) != 5)
        status = crt_raise(CRT_ERR_INVALID,
                           "a network by name with %zu numbers, not height, width, "
                           "channels and classes",
                           crt_value_count(list) - 1);
    for (size_t i = 0; i < 4 && status == CRT_OK; i++)
        status = crt_value_read(crt_value_at(list, i + 1), &numbers[i]);
    if (status != CRT_OK)
        return status;
    input = CRT_INPUT(.height = numbers[0], .width = numbers[1], .channels = numbers[2]);
    return crt_network_by_name(name, &input, numbers[3], seed, model_out);
}

crt_status_t crti_spec_model(const crt_value_t *widths, double dropout, uint64_t seed,
                             crt_model_t **model_out)
{
    size_t count = crt_value_count(widths);
    int list[CRTI_SPEC_WIDTHS_MAX + 1] = {0};

    if (count > 0 && crt_value_kind(crt_value_at(widths, 0)) == CRT_KIND_STRING)
        return named_model(widths, seed, model_out);
    if (count > CRTI_SPEC_WIDTHS_MAX)
        return crt_raise(CRT_ERR_INVALID, "a model of more than %d widths",
                         CRTI_SPEC_WIDTHS_MAX);
    for (size_t i = 0; i < count; i++) {
        crt_status_t status = crt_value_read(crt_value_at(widths, i), &list[i]);

        if (status != CRT_OK)
            return status;
        if (list[i] < 1)
            return crt_raise(CRT_ERR_INVALID, "width %zu of the model is %d", i, list[i]);
    }
    return crt_mlp_new(list, dropout, seed, model_out);
}

crt_status_t crti_spec_object(const crt_model_t *model, crt_object_t **object_out,
                              crt_tensor_t *view_out)
{
    int64_t shape = (int64_t)crt_model_parameters(model);

    return crt_object_create(CRT_DTYPE_FLOAT32, 1, &shape, object_out, view_out);
}

crt_status_t crti_spec_weights(crt_model_t *model, const crt_tensor_t *weights,
                               crt_tensor_t *view_out)
{
    const crt_tensor_t *statistics = crt_model_statistics(model);
    size_t count = crt_model_parameters(model), more = crt_tensor_count(statistics);
    size_t got = crt_tensor_count(weights);
    crt_tensor_t behind, to = *statistics;

    *view_out = *weights;
    if (more == 0 || got == count)
        return CRT_OK; /* whoever computes checks them */
    if (weights->dtype != CRT_DTYPE_FLOAT32 || got != count + more)
        return crt_raise(CRT_ERR_INVALID,
                         "%zu weights of %s; the model has %zu of float32 and %zu "
                         "statistics",
                         got, crt_dtype_name(weights->dtype), count, more);
    behind = crt_tensor_floats((float *)weights->data + count, more);
    *view_out = crt_tensor_floats(weights->data, count);
    return crt_model_copy_tensor(model, &behind, &to);
}

crt_status_t crti_spec_answer(crt_model_t *model, crt_object_t **object_out,
                              crt_tensor_t *view_out)
{
    const crt_tensor_t *statistics = crt_model_statistics(model);
    size_t count = crt_model_parameters(model), more = crt_tensor_count(statistics);
    int64_t shape = (int64_t)(count + more);
    crt_tensor_t behind;
    crt_status_t status =
        crt_object_create(CRT_DTYPE_FLOAT32, 1, &shape, object_out, view_out);

    if (status != CRT_OK)
        return status;
    behind = crt_tensor_floats((float *)view_out->data + count, more);
    if (more > 0)
        status = crt_model_copy_tensor(model, statistics, &behind);
    if (status != CRT_OK) {
        crt_object_abort(object_out);
        return status;
    }
    *view_out = crt_tensor_floats(view_out->data, count);
    return CRT_OK;
}

static crt_optimizer_options_t plain_sgd(double learn_rate)
{
    return crt_sgd_options(learn_rate, 0);
}

static const struct {
    const char *name;
    crt_optimizer_kind_t kind;
    crt_optimizer_options_t (*options)(double learn_rate);
} optimizers[] = {{"adam", CRT_OPTIMIZER_ADAM, crt_adam_options},
                  {"sgd", CRT_OPTIMIZER_SGD, plain_sgd},
                  {"adamw", CRT_OPTIMIZER_ADAMW, crt_adamw_options},
                  {"radam", CRT_OPTIMIZER_RADAM, crt_radam_options}};

#define OPTIMIZERS (sizeof(optimizers) / sizeof(optimizers[0]))

static const char *name_of(crt_optimizer_kind_t kind)
{
    for (size_t i = 0; i < OPTIMIZERS; i++)
        if (optimizers[i].kind == kind)
            return optimizers[i].name;
    return "?";
}

static void list_optimizer(const crt_optimizer_options_t *o,
                           crt_arg_t items[CRTI_SPEC_OPTIMIZER_ITEMS])
{
    const crt_arg_t all[CRTI_SPEC_OPTIMIZER_ITEMS] = {
        crt_arg_string("optimizer"),
        crt_arg_string(name_of(o->kind)),
        crt_arg_string("learn_rate"),
        crt_arg_float(o->learn_rate),
        crt_arg_string("grad_clip"),
        crt_arg_float(o->grad_clip),
        crt_arg_string("l2"),
        crt_arg_float(o->l2),
        crt_arg_string("l2_is_weight_decay"),
        crt_arg_bool(o->l2_is_weight_decay),
        crt_arg_string("beta1"),
        crt_arg_float(o->beta1),
        crt_arg_string("beta2"),
        crt_arg_float(o->beta2),
        crt_arg_string("epsilon"),
        crt_arg_float(o->epsilon),
        crt_arg_string("momentum"),
        crt_arg_float(o->momentum),
        crt_arg_string("nesterov"),
        crt_arg_bool(o->nesterov),
        crt_arg_string("global_clip"),
        crt_arg_float(o->global_clip),
        crt_arg_string("norm_limit"),
        crt_arg_float(o->norm_limit),
        crt_arg_string("lookahead_steps"),
        crt_arg_int(o->lookahead_steps),
        crt_arg_string("lookahead_rate"),
        crt_arg_float(o->lookahead_rate),
        crt_arg_string("use_averages"),
        crt_arg_bool(o->use_averages)};

    memcpy(items, all, sizeof(all));
}

crt_status_t crti_spec_optimizer_items(const crt_optimizer_options_t *options,
                                       crt_arg_t items[CRTI_SPEC_OPTIMIZER_ITEMS])
{
    crt_optimizer_options_t mine = crt_adam_options(0.001);
    crt_status_t status =
        options ? CRTI_COPY_STRUCT(&mine, options, "crt_adam_options and its like")
                : CRT_OK;

    if (status == CRT_OK)
        list_optimizer(&mine, items);
    return status;
}

static crt_status_t named_optimizer(const crt_value_t *map, crt_optimizer_options_t *o)
{
    const char *name = "adam";
    double rate = 0.001;
    crt_status_t status = CRTI_SPEC_READ(map, "optimizer", &name);

    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "learn_rate", &rate);
    if (status != CRT_OK)
        return status;
    for (size_t i = 0; i < OPTIMIZERS; i++)
        if (strcmp(name, optimizers[i].name) == 0) {
            *o = optimizers[i].options(rate);
            return CRT_OK;
        }
    return crt_raise(CRT_ERR_INVALID,
                     "no optimizer is called '%s' (adam, sgd, adamw, radam)", name);
}

crt_status_t crti_spec_optimizer(const crt_value_t *map,
                                 crt_optimizer_options_t *options_out)
{
    crt_optimizer_options_t *o = options_out;
    crt_status_t status = named_optimizer(map, o);
    const struct {
        const char *key;
        double *to;
    } numbers[] = {{"grad_clip", &o->grad_clip},
                   {"l2", &o->l2},
                   {"beta1", &o->beta1},
                   {"beta2", &o->beta2},
                   {"epsilon", &o->epsilon},
                   {"momentum", &o->momentum},
                   {"global_clip", &o->global_clip},
                   {"norm_limit", &o->norm_limit},
                   {"lookahead_rate", &o->lookahead_rate}};
    const struct {
        const char *key;
        bool *to;
    } flags[] = {{"l2_is_weight_decay", &o->l2_is_weight_decay},
                 {"nesterov", &o->nesterov},
                 {"use_averages", &o->use_averages}};

    for (size_t i = 0; status == CRT_OK && i < sizeof(numbers) / sizeof(numbers[0]); i++)
        status = CRTI_SPEC_READ(map, numbers[i].key, numbers[i].to);
    for (size_t i = 0; status == CRT_OK && i < sizeof(flags) / sizeof(flags[0]); i++)
        status = CRTI_SPEC_READ(map, flags[i].key, flags[i].to);
    return status == CRT_OK ? CRTI_SPEC_READ(map, "lookahead_steps", &o->lookahead_steps)
                            : status;
}
