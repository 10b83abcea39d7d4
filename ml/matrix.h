/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix: dense, row-major float32 and the few products that layers need.
 *
 * Where it sits
 *     layers -> [ ml/matrix.c ] -> OpenBLAS
 * The only file that knows OpenBLAS. Sizes were checked when the model was built.
 */
#ifndef CRTI_ML_MATRIX_H
#define CRTI_ML_MATRIX_H

#include <crt_base.h>

/* y(rows, outs) = x(rows, ins) * w(outs, ins)' + b(outs) */
void crti_matrix_affine(int rows, int outs, int ins, const float *x, const float *w,
                        const float *b, float *y);

/* dw(outs, ins) = dy(rows, outs)' * x(rows, ins); db(outs) = column sums of dy */
void crti_matrix_affine_gradients(int rows, int outs, int ins, const float *x,
                                  const float *dy, float *dw, float *db);

/* dx(rows, ins) = dy(rows, outs) * w(outs, ins) */
void crti_matrix_affine_inputs(int rows, int outs, int ins, const float *dy,
                               const float *w, float *dx);

/* A matrix of which a row to the next is `stride` floats. */
typedef struct crti_matrix_view {
    const float *data;
    int stride;
    bool is_turned; /* rows lie as columns */
} crti_matrix_view_t;

/* c(rows, cols) = scale * a(rows, inner) * b(inner, cols); a row of c to the next is `stride`
 * floats. */
void crti_matrix_product(int rows, int cols, int inner, float scale, crti_matrix_view_t a,
                         crti_matrix_view_t b, float *c, int stride);

/* What crt_ml_set_threads, or the runtime, has said. */
int crti_matrix_threads(void);

/* CRT_ERR_INVALID, naming `what`, unless `tensor` is dense float32 in host memory with
 * `count` elements. */
crt_status_t crti_matrix_check_flat(const crt_tensor_t *tensor, size_t count,
                                    const char *what);

/* The same for (rows, cols) of `dtype`; rows at least 1. */
crt_status_t crti_matrix_check_rows(const crt_tensor_t *tensor, crt_dtype_t dtype,
                                    size_t cols, const char *what);

/* The same in the memory of GPU `device` (-1: the host); rows may also lie on the host. */
crt_status_t crti_matrix_check_flat_at(const crt_tensor_t *tensor, int device,
                                       size_t count, const char *what);
crt_status_t crti_matrix_check_rows_at(const crt_tensor_t *tensor, int device,
                                       crt_dtype_t dtype, size_t cols, const char *what);

/* `tensor` lies in the memory of GPU `gpu`, or of the host (CRT_NO_GPU). */
static inline void crti_place_at(crt_tensor_t *tensor, int gpu)
{
    tensor->device = gpu == CRT_NO_GPU ? crt_device_host() : crt_device_gpu(gpu);
}

#endif
