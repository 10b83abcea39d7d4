/* SPDX-License-Identifier: Apache-2.0 */
/* Models on a GPU: the same models, batches and optimizers, computed by CUDA.
 *
 *     CRT_TRY(crt_model_to_gpu(model, 0, CRT_PRECISION_FLOAT32));
 *     CRT_TRY(crt_sgd_new(model, 0.1, 0.9, &optimizer));
 *     ... crt_model_compute_gradients and crt_optimizer_step as on the host ...
 *     CRT_TRY(crt_model_to_host(model));
 *
 * Weights, gradients, statistics, the state of an optimizer and the outputs of layers lie in
 * memory of the GPU, in the same flat layout. The tensors of crt_model_weights,
 * crt_model_gradients, crt_model_statistics and crt_optimizer_state have the index of the GPU in
 * their `device`, and groups of the backend "nccl" reduce them there. Flat `weights` and
 * `gradients` of a call must lie there too. Inputs, outputs and their gradients may lie on either
 * side; labels lie on the host; crt_model_forward gives outputs on the GPU.
 *
 * Order: calls return when their work is queued on crt_model_stream, except calls that return
 * numbers to the host, such as a loss. A group that has this stream in its options reduces
 * gradients without a wait on the host. Calls make `gpu` the current device of the thread.
 *
 * All layers and optimizers compute on a GPU, with look-ahead and averages; so do the parser and
 * the network of a model of named entities (crt_ner.h): move crt_ner_model_network. Dropout draws
 * other numbers than on the host, the same ones whenever the seed is the same. On the host remain:
 * data sets, augmentation, text and its keys, the rules by which a parser's documents are cut, and
 * steps on parts of the weights (crt_optimizer_measure, crt_optimizer_update), which fail with
 * CRT_ERR_UNSUPPORTED. Batch norms have no sums with other replicas there.
 *
 * Memory: what does not fit in fails with CRT_ERR_NO_MEMORY; the text says what it was for (such as
 * the layer that needs the most), how much was wanted and is free, and, where NVML knows it, which
 * processes hold the rest. A batch of fewer rows may fit in afterwards.
 *
 * A gradient that is not finite changes no weight, as on the host. crt_optimizer_step reports the
 * gradient one step later, and does not make that step either.
 */
#ifndef CRT_ML_GPU_H
#define CRT_ML_GPU_H

#include "crt_ml.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The precision of the layers. Parameters, their gradients and statistics are always float32. */
typedef enum crt_precision {
    /* float32, as on the host. */
    CRT_PRECISION_FLOAT32 = 0,
    /* Inputs of products are rounded to 10 bits after the binary point. */
    CRT_PRECISION_TF32 = 1,
    /* Outputs, and inputs of products, are float16; sums are float32. */
    CRT_PRECISION_MIXED = 2
} crt_precision_t;

/* Reads the name of a precision: "float32", "tf32" or "mixed". Errors: CRT_ERR_INVALID, when
 * there is no such precision. */
CRT_API crt_status_t crt_precision_parse(const char *name,
                                         crt_precision_t *precision_out);

/* Moves a model to GPU `gpu`, in the numbering of CUDA: of the GPUs that the runtime gave a
 * worker, 0 is the first. Make the optimizers of the model after this call. The first call
 * opens cudart, cuBLAS, cuDNN, NVRTC and the driver. The model stays where it was on failure.
 *
 * Errors: CRT_ERR_UNSUPPORTED, when a library is missing or too old, the driver is older than the
 * CUDA runtime, or there is no GPU; CRT_ERR_INVALID, when there is no such GPU or precision, the
 * model is on a GPU already or has an optimizer; CRT_ERR_NO_MEMORY; CRT_ERR_IO, when CUDA fails. */
CRT_API crt_status_t crt_model_to_gpu(crt_model_t *model, int gpu,
                                      crt_precision_t precision);

/* Moves a model from a GPU to the host, with its weights, gradients and statistics. Free the
 * optimizers of the model before this call. For a model on the host the call does nothing.
 *
 * Errors: CRT_ERR_INVALID, when the model has an optimizer; CRT_ERR_NO_MEMORY; CRT_ERR_IO,
 * when CUDA fails. */
CRT_API crt_status_t crt_model_to_host(crt_model_t *model);

/* The index of the GPU that a model is on; CRT_NO_GPU for the host. */
CRT_API int crt_model_gpu(const crt_model_t *model);

/* The cudaStream_t of a model on a GPU; NULL for a model on the host. Borrowed: valid until
 * the model moves or is freed. */
CRT_API void *crt_model_stream(const crt_model_t *model);

/* Copies `from` to `to`, dense tensors of the same dtype and number of elements. Each lies on
 * the host or on the GPU of the model: weights, gradients, statistics, outputs, or the state
 * of an optimizer. The call waits for the copy if one of them is on the host.
 *
 * Errors: CRT_ERR_INVALID, when the tensors differ in dtype or size, are not dense, or lie on
 * another GPU; CRT_ERR_IO, when CUDA fails. */
CRT_API crt_status_t crt_model_copy_tensor(crt_model_t *model, const crt_tensor_t *from,
                                           crt_tensor_t *to);

#ifdef __cplusplus
}
#endif

#endif
