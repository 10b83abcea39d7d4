/* SPDX-License-Identifier: Apache-2.0 */
/* Models on a GPU: the same models, batches and optimizers, computed by CUDA.
 *
 *     CRT_TRY(crt_model_to_gpu(model, 0, CRT_FLOAT32_ONLY));
 *     CRT_TRY(crt_sgd_new(model, 0.1, 0.9, &optimizer));
 *     ... crt_model_compute_gradients and crt_optimizer_step as on the host ...
 *     CRT_TRY(crt_model_to_host(model));
 *
 * Weights, gradients, statistics, what an optimizer remembers and all that layers put out lie in memory
 * of the GPU, in the same flat layout: the tensors of crt_model_weights, crt_model_gradients,
 * crt_model_statistics and crt_optimizer_state have its index in their `device`, and groups of
 * backend "nccl" reduce them there. Flat `weights` and `gradients` of a call lie there, too. Inputs,
 * outputs and their gradients may lie on either side, labels lie on the host; crt_model_forward gives
 * outputs on the GPU.
 *
 * Order: calls return when their work is queued on crt_model_stream, except those that give numbers to
 * the host, such as a loss. A group that has this stream in its options reduces gradients without
 * a wait on the host in between. Calls make `gpu` the thread's current device.
 *
 * Layers: dense, ReLU, dropout, add, convolution, pools, batch norm, flatten, subsample. Optimizers: SGD,
 * Adam, AdamW, without look-ahead and averages. What there is not is CRT_ERR_UNSUPPORTED and named, before
 * anything is computed.
 *
 * A gradient that is not finite changes no weight, as on the host; crt_optimizer_step says so one step later,
 * and that step is not made either.
 */
#ifndef CRT_ML_GPU_H
#define CRT_ML_GPU_H

#include "crt_ml.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What layers compute with. Parameters, their gradients and statistics are float32 always. */
typedef enum crt_precision {
    CRT_FLOAT32_ONLY = 0, /* as on the host */
    CRT_TF32 = 1,         /* inputs of products are rounded to 10 bits behind the point */
    CRT_MIXED = 2 /* outputs and inputs of products are float16, sums are float32 */
} crt_precision_t;

/* By its name: "float32", "tf32" or "mixed". CRT_ERR_INVALID: none is called so. */
CRT_API crt_status_t crt_precision_find(const char *name, crt_precision_t *precision_out);

/* Moves a model to GPU `gpu`, counted as CUDA does: of those that the runtime gave a worker, 0 is the first. Optimizers
 * of the model are made afterwards: one that is there is CRT_ERR_INVALID. cudart, cuBLAS, cuDNN, NVRTC and the driver are opened at the first call.
 * CRT_ERR_UNSUPPORTED: a library is missing, there is no GPU, or a layer can't be computed there; CRT_ERR_INVALID: no
 * such GPU. The model stays where it was on failure. */
CRT_API crt_status_t crt_model_to_gpu(crt_model_t *model, int gpu,
                                      crt_precision_t precision);

/* Moves it back, with its weights, gradients and statistics, when its optimizers are freed. Does nothing on the host. */
CRT_API crt_status_t crt_model_to_host(crt_model_t *model);

/* The GPU that a model is on; -1: the host. */
CRT_API int crt_model_gpu(const crt_model_t *model);

/* The cudaStream_t of a model on a GPU; NULL on the host. Borrowed: valid until the model moves or is freed. */
CRT_API void *crt_model_stream(const crt_model_t *model);

/* Copies between tensors of one type and size, of which each lies on the host or on the model's GPU: weights,
 * gradients, statistics, outputs, what an optimizer remembers. Waits where one is on the host. */
CRT_API crt_status_t crt_model_copy_tensor(crt_model_t *model, const crt_tensor_t *from,
                                           crt_tensor_t *to);

#ifdef __cplusplus
}
#endif

#endif
