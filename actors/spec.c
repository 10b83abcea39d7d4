/* SPDX-License-Identifier: Apache-2.0 */
#include "actors/spec.h"

#include <crt_ml_gpu.h>
#include <crt_networks.h>
#include <string.h>

crt_arg_t crti_spec_widths(const crt_mlp_spec_t *spec,
                           crt_arg_t room[CRTI_SPEC_ITEMS_MAX])
{
    size_t count = 0;

    if (spec->network)
        room[count++] = crt_arg_string(spec->network);
    for (size_t i = 0; i <= CRTI_SPEC_WIDTHS_MAX && spec->widths[i] != 0; i++)
        room[count++] = crt_arg_int(spec->widths[i]);
    return crt_list(room, count);
}

/* Name, height, width, channels, classes. */
static crt_status_t named_model(const crt_value_t *list, uint64_t seed,
                                crt_model_t **model_out)
{
    const char *name;
    int numbers[4];
    crt_input_t input;
    crt_status_t status = crt_value_read(crt_value_at(list, 0), &name);

    if (status == CRT_OK && crt_value_count(list) != 5)
        status = crt_raise(CRT_ERR_INVALID,
                           "a network by name with %zu numbers, not height, width, "
                           "channels and classes",
                           crt_value_count(list) - 1);
    for (size_t i = 0; i < 4 && status == CRT_OK; i++)
        status = crt_value_read(crt_value_at(list, i + 1), &numbers[i]);
    if (status != CRT_OK)
        return status;
    input = (crt_input_t){CRT_DTYPE_FLOAT32, numbers[0], numbers[1], numbers[2]};
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
    crt_status_t status =
        crt_object_create(CRT_DTYPE_FLOAT32, 1, &shape, object_out, view_out);

    if (status != CRT_OK)
        return status;
    memcpy((float *)view_out->data + count, statistics->data, more * sizeof(float));
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
} optimizers[] = {{"adam", CRT_ADAM, crt_adam_options},
                  {"sgd", CRT_SGD, plain_sgd},
                  {"adamw", CRT_ADAMW, crt_adamw_options},
                  {"radam", CRT_RADAM, crt_radam_options}};

#define OPTIMIZERS (sizeof(optimizers) / sizeof(optimizers[0]))

static const char *name_of(crt_optimizer_kind_t kind)
{
    for (size_t i = 0; i < OPTIMIZERS; i++)
        if (optimizers[i].kind == kind)
            return optimizers[i].name;
    return "?";
}

void crti_spec_optimizer_items(const crt_optimizer_options_t *o,
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
