/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN 2 and 3: where their interfaces differ, as one.
 *
 * Where it sits
 *     ml/onednn.c -> [ ml/dnnl_api.c ] -> oneDNN
 * How
 *     In version 2 a layout is a struct and an operation is described twice, in version 3 a layout
 *     is an object and an operation is described once. Here a layout is an object of its caller,
 *     and an operation is described by one call. What both versions call alike is called directly.
 */
#ifndef CRTI_ML_DNNL_API_H
#define CRTI_ML_DNNL_API_H

#include <oneapi/dnnl/dnnl.h>

#include <stdbool.h>

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t crti_layout_t;
typedef const_dnnl_memory_desc_t crti_const_layout_t;
#else
typedef dnnl_memory_desc_t *crti_layout_t;
typedef const dnnl_memory_desc_t *crti_const_layout_t;
#endif

/* Version 2 wants the bias of a batch norm among the arguments of its gradient, version 3 refuses
 * it. */
#define CRTI_DNNL_NORM_BACK_HAS_BIAS (DNNL_VERSION_MAJOR < 3)

/* Floats; NULL when there is no memory. The caller frees it. */
crti_layout_t crti_layout_new(int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag);

void crti_layout_free(crti_layout_t layout); /* NULL is taken */

typedef struct crti_dnnl_context {
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attributes;
    const_dnnl_primitive_desc_t hint; /* the forward pass, for those back; NULL: none */
} crti_dnnl_context_t;

typedef enum crti_dnnl_pass {
    CRTI_DNNL_INFERENCE,
    CRTI_DNNL_TRAINING,
    CRTI_DNNL_INPUTS_BACK,  /* the gradient of the inputs; of a batch norm, of all */
    CRTI_DNNL_WEIGHTS_BACK, /* the gradient of weights and bias */
} crti_dnnl_pass_t;

typedef struct crti_dnnl_convolution {
    crti_layout_t x, y, w;
    crti_layout_t b; /* NULL: none */
    dnnl_dims_t strides, padding;
} crti_dnnl_convolution_t;

/* The caller destroys `*out`. */
dnnl_status_t crti_dnnl_convolution(dnnl_primitive_desc_t *out, crti_dnnl_pass_t pass,
                                    const crti_dnnl_convolution_t *c,
                                    const crti_dnnl_context_t *context);

/* Of a layout `x`, which that of the results and of the gradients is; with a gain and a bias. */
dnnl_status_t crti_dnnl_batch_norm(dnnl_primitive_desc_t *out, crti_dnnl_pass_t pass,
                                   crti_layout_t x, float epsilon,
                                   const crti_dnnl_context_t *context);

#endif
