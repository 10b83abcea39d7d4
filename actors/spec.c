/* SPDX-License-Identifier: Apache-2.0 */
#include "actors/spec.h"

#include <string.h>

crt_arg_t crti_spec_widths(const int *widths, crt_arg_t room[CRTI_SPEC_WIDTHS_MAX + 1])
{
    size_t count = 0;

    while (count <= CRTI_SPEC_WIDTHS_MAX && widths[count] != 0) {
        room[count] = crt_arg_int(widths[count]);
        count++;
    }
    return crt_list(room, count);
}

crt_status_t crti_spec_model(const crt_value_t *widths, double dropout, uint64_t seed,
                             crt_model_t **model_out)
{
    size_t count = crt_value_count(widths);
    int list[CRTI_SPEC_WIDTHS_MAX + 1] = {0};

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

    return crt_object_create(CRT_FLOAT32, 1, &shape, object_out, view_out);
}

const char *crti_spec_optimizer_name(const crt_optimizer_options_t *options)
{
    return options->kind == CRT_ADAM ? "adam" : options->kind == CRT_SGD ? "sgd" : "?";
}

crt_status_t crti_spec_optimizer(const char *name, double rate, double momentum,
                                 crt_optimizer_options_t *options_out)
{
    if (strcmp(name, "adam") == 0)
        *options_out = crt_adam_options(rate);
    else if (strcmp(name, "sgd") == 0)
        *options_out = crt_sgd_options(rate, momentum);
    else
        return crt_raise(CRT_ERR_INVALID, "no optimizer is called '%s' (adam, sgd)",
                         name);
    return CRT_OK;
}
