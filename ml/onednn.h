/* SPDX-License-Identifier: Apache-2.0 */
/* oneDNN: its primitives as layers call them.
 *
 * Where it sits
 *     convolution.c, batch_norm.c -> [ ml/onednn.c ] -> dnnl_api.c -> oneDNN
 * How
 *     A primitive is made for certain shapes, with a list of arguments; a run says where the data
 *     of each lies. It uses as many threads as matrix products do (ml/matrix.h).
 * Threads
 *     A primitive is used by one thread at a time.
 */
#ifndef CRTI_ML_ONEDNN_H
#define CRTI_ML_ONEDNN_H

#include "ml/dnnl_api.h"
#include "ml/layer.h"

#define CRTI_ONEDNN_ARGUMENTS_MAX 10 /* with the scratch, which is the first */

typedef struct crti_onednn {
    dnnl_primitive_t primitive; /* NULL: there is none */
    dnnl_exec_arg_t arguments[CRTI_ONEDNN_ARGUMENTS_MAX];
    int count;
    size_t scratch; /* floats at the beginning of the workspace that a run writes over */
} crti_onednn_t;

/* Of samples of a shape, channels last. These three: NULL when there is no memory. */
crti_layout_t crti_onednn_places(int rows, crti_shape_t shape);

/* The same with a layout that oneDNN chooses, and the layout that PyTorch has: row major. */
crti_layout_t crti_onednn_any(int rank, const dnnl_dims_t dims);
crti_layout_t crti_onednn_rows(int rank, const dnnl_dims_t dims);

/* A pass of a layer; `hint` is the description of its forward pass, or NULL. The caller destroys
 * `*description_out`, which is NULL after an error. */
crt_status_t crti_onednn_make_convolution(crti_onednn_t *primitive, crti_dnnl_pass_t pass,
                                          const crti_dnnl_convolution_t *convolution,
                                          const_dnnl_primitive_desc_t hint,
                                          dnnl_primitive_desc_t *description_out);
crt_status_t crti_onednn_make_batch_norm(crti_onednn_t *primitive, crti_dnnl_pass_t pass,
                                         crti_layout_t x, double epsilon,
                                         const_dnnl_primitive_desc_t hint,
                                         dnnl_primitive_desc_t *description_out);

/* The next arguments of a run, such as DNNL_ARG_SRC. */
crt_status_t crti_onednn_arguments(crti_onednn_t *primitive, int count,
                                   const int *arguments,
                                   const crti_const_layout_t *layouts);

/* A primitive with two arguments that copies from one layout to another; none when they are
 * equal. */
crt_status_t crti_onednn_make_reorder(crti_onednn_t *primitive, crti_const_layout_t from,
                                      crti_const_layout_t to);

/* The layout of an argument as the primitive wants it; it lives as long as the description. */
crti_const_layout_t crti_onednn_wanted(const_dnnl_primitive_desc_t description,
                                       dnnl_query_t what);

/* Floats that memory of this layout takes, in whole lines of the cache. */
size_t crti_onednn_floats(crti_const_layout_t layout);

/* `data` in the order of the arguments. A failure is left in `step->failed`. The scratch is the
 * library's own by default, but then of the thread that made the primitive. */
void crti_onednn_run(const crti_onednn_t *primitive, const crti_layer_pass_t *step,
                     const void *const *data);

void crti_onednn_free(crti_onednn_t *primitive);

#endif
