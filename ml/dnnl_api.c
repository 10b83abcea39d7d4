/* SPDX-License-Identifier: Apache-2.0 */
/* See ml/dnnl_api.h. */
#include "ml/dnnl_api.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define DIRECT dnnl_convolution_direct

static dnnl_prop_kind_t forward_of(crti_dnnl_pass_t pass)
{
    return pass == CRTI_DNNL_TRAINING ? dnnl_forward_training : dnnl_forward_inference;
}

/* While training the statistics are those of the batch, else they are given. */
static unsigned norm_flags(crti_dnnl_pass_t pass)
{
    unsigned given = pass == CRTI_DNNL_INFERENCE ? dnnl_use_global_stats : 0;

    return dnnl_use_scale | dnnl_use_shift | given;
}

#if DNNL_VERSION_MAJOR >= 3

crti_layout_t crti_layout_new(int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    crti_layout_t layout = NULL;

    return dnnl_memory_desc_create_with_tag(&layout, rank, dims, dnnl_f32, tag) ==
                   dnnl_success
               ? layout
               : NULL;
}

void crti_layout_free(crti_layout_t layout)
{
    if (layout)
        dnnl_memory_desc_destroy(layout);
}

dnnl_status_t crti_dnnl_convolution(dnnl_primitive_desc_t *out, crti_dnnl_pass_t pass,
                                    const crti_dnnl_convolution_t *c,
                                    const crti_dnnl_context_t *context)
{
    const dnnl_dims_t dense = {0};

    switch (pass) {
    case CRTI_DNNL_INPUTS_BACK:
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, context->engine, DIRECT, c->x, c->w, c->y, c->strides, dense, c->padding,
            c->padding, context->hint, context->attributes);
    case CRTI_DNNL_WEIGHTS_BACK:
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, context->engine, DIRECT, c->x, c->w, c->b, c->y, c->strides, dense,
            c->padding, c->padding, context->hint, context->attributes);
    default:
        return dnnl_convolution_forward_primitive_desc_create(
            out, context->engine, forward_of(pass), DIRECT, c->x, c->w, c->b, c->y,
            c->strides, dense, c->padding, c->padding, context->attributes);
    }
}

dnnl_status_t crti_dnnl_batch_norm(dnnl_primitive_desc_t *out, crti_dnnl_pass_t pass,
                                   crti_layout_t x, float epsilon,
                                   const crti_dnnl_context_t *context)
{
    if (pass == CRTI_DNNL_INPUTS_BACK)
        return dnnl_batch_normalization_backward_primitive_desc_create(
            out, context->engine, dnnl_backward, x, x, x, epsilon, norm_flags(pass),
            context->hint, context->attributes);
    return dnnl_batch_normalization_forward_primitive_desc_create(
        out, context->engine, forward_of(pass), x, x, epsilon, norm_flags(pass),
        context->attributes);
}

#else

crti_layout_t crti_layout_new(int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    crti_layout_t layout = malloc(sizeof(*layout));

    if (layout &&
        dnnl_memory_desc_init_by_tag(layout, rank, dims, dnnl_f32, tag) != dnnl_success) {
        free(layout);
        layout = NULL;
    }
    return layout;
}

void crti_layout_free(crti_layout_t layout)
{
    free(layout);
}

static dnnl_status_t describe(dnnl_primitive_desc_t *out, dnnl_status_t described,
                              const_dnnl_op_desc_t operation,
                              const crti_dnnl_context_t *context)
{
    if (described != dnnl_success)
        return described;
    return dnnl_primitive_desc_create(out, operation, context->attributes,
                                      context->engine, context->hint);
}

/* On processors with AVX2 and no more, oneDNN 2.6 computes a wrong gradient of the weights of a
 * convolution 1 x 1 with strides, and writes behind its memory, unless the channels of the input
 * are a multiple of 8. */
static bool is_wrong(const crti_dnnl_convolution_t *c, const_dnnl_primitive_desc_t what)
{
    const char *name = "";

    if (c->strides[0] == 1 || c->w->dims[1] % 8 == 0)
        return false;
    dnnl_primitive_desc_query(what, dnnl_query_impl_info_str, 0, &name);
    return strncmp(name, "jit_1x1", strlen("jit_1x1")) == 0;
}

/* The first way to compute it that is right. */
static dnnl_status_t describe_gradient(dnnl_primitive_desc_t *out,
                                       const_dnnl_op_desc_t operation,
                                       const crti_dnnl_convolution_t *c,
                                       const crti_dnnl_context_t *context)
{
    dnnl_primitive_desc_iterator_t ways;
    dnnl_status_t status = dnnl_primitive_desc_iterator_create(
        &ways, operation, context->attributes, context->engine, context->hint);

    if (status != dnnl_success)
        return status;
    *out = dnnl_primitive_desc_iterator_fetch(ways);
    while (status == dnnl_success && is_wrong(c, *out)) {
        dnnl_primitive_desc_destroy(*out);
        *out = NULL;
        status = dnnl_primitive_desc_iterator_next(ways);
        if (status == dnnl_success)
            *out = dnnl_primitive_desc_iterator_fetch(ways);
    }
    dnnl_primitive_desc_iterator_destroy(ways);
    return status != dnnl_success ? status : *out ? dnnl_success : dnnl_out_of_memory;
}

dnnl_status_t crti_dnnl_convolution(dnnl_primitive_desc_t *out, crti_dnnl_pass_t pass,
                                    const crti_dnnl_convolution_t *c,
                                    const crti_dnnl_context_t *context)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t described;

    switch (pass) {
    case CRTI_DNNL_INPUTS_BACK:
        described = dnnl_convolution_backward_data_desc_init(
            &d, DIRECT, c->x, c->w, c->y, c->strides, c->padding, c->padding);
        break;
    case CRTI_DNNL_WEIGHTS_BACK:
        described = dnnl_convolution_backward_weights_desc_init(
            &d, DIRECT, c->x, c->w, c->b, c->y, c->strides, c->padding, c->padding);
        return described == dnnl_success ? describe_gradient(out, &d, c, context)
                                         : described;
    default:
        described = dnnl_convolution_forward_desc_init(&d, forward_of(pass), DIRECT, c->x,
                                                       c->w, c->b, c->y, c->strides,
                                                       c->padding, c->padding);
    }
    return describe(out, described, &d, context);
}

dnnl_status_t crti_dnnl_batch_norm(dnnl_primitive_desc_t *out, crti_dnnl_pass_t pass,
                                   crti_layout_t x, float epsilon,
                                   const crti_dnnl_context_t *context)
{
    dnnl_batch_normalization_desc_t d;
    dnnl_status_t described =
        pass == CRTI_DNNL_INPUTS_BACK
            ? dnnl_batch_normalization_backward_desc_init(&d, dnnl_backward, x, x,
                                                          epsilon, norm_flags(pass))
            : dnnl_batch_normalization_forward_desc_init(&d, forward_of(pass), x, epsilon,
                                                         norm_flags(pass));

    return describe(out, described, &d, context);
}

#endif
