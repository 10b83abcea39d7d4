/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU as a model has it: a stream, handles of the libraries, and what waits to be copied.
 *
 * Where it sits
 *     ml/device.h -> [ device.c, optimizer.c; convolution.c, dense.c, ... ] -> kernels.c, library.c
 * Ownership
 *     Each model has a device of its own, so that models of different threads share nothing.
 * Layout
 *     Outputs of float32 lie channels first: cuDNN is fastest so, and weights can be used as they
 *     lie in the flat buffers; but channels last in a model with layers that compute along the
 *     channels of a place. Outputs of float16 (CRT_PRECISION_MIXED) lie channels last, as tensor
 *     cores want them; pointers to them are float pointers all the same. Nobody outside sees it:
 *     `load`, `store` and flatten turn the places.
 * Scale
 *     Gradients of outputs are `scale` times as large as they are, so that float16 holds the small
 *     ones. Those of parameters are divided by it where they are made.
 * Failure
 *     A call that fails is raised and remembered once; what is queued after it means nothing, until
 *     crti_device_ops_t.failure has taken it.
 */
#ifndef CRTI_ML_CUDA_CUDA_H
#define CRTI_ML_CUDA_CUDA_H

#include "ml/cuda/kernels.h"
#include "ml/cuda/shapes.h"
#include "ml/device.h"

#define CRTI_CUDA_SLOTS 4

/* Host memory that the GPU copies from: numbers of the caller on their way. */
typedef struct crti_cuda_slot {
    void *memory;
    size_t bytes;
    cudaEvent_t copied;
} crti_cuda_slot_t;

typedef struct crti_cuda {
    crti_device_t device;
    const crti_cuda_api_t *api;
    crt_precision_t precision;
    bool mixed;  /* outputs are float16 */
    float scale; /* of their gradients */
    int channels_first;
    cudaStream_t stream;
    cublasHandle_t blas;
    cudnnHandle_t dnn;
    CUmodule module;
    CUfunction kernels[CRTI_CUDA_KERNEL_COUNT];
    int blocks; /* at most, of kernels that go over numbers */
    crt_status_t failed;

    crti_cuda_slot_t slots[CRTI_CUDA_SLOTS];
    int slot; /* the next one */
    void *staged;
    size_t staged_bytes;

    crti_cuda_range_t *sequences; /* of each row of this pass ... */
    size_t sequence_bytes;
    bool has_sequences; /* ... when a layer asked for them */

    void *parser_memory; /* parser.c */
    size_t parser_bytes;
    int loss_states; /* whose losses `loss` is the mean of */

    uint8_t *labels;
    float *losses;
    int loss_rows;
    double *loss, *loss_on_host;
    cudaEvent_t loss_is_there;
} crti_cuda_t;

extern const crti_layer_ops_t crti_cuda_dense, crti_cuda_relu, crti_cuda_dropout,
    crti_cuda_gelu, crti_cuda_mish, crti_cuda_layer_norm, crti_cuda_attention,
    crti_cuda_patches, crti_cuda_token, crti_cuda_positions, crti_cuda_concatenate,
    crti_cuda_maxout, crti_cuda_hash_embed, crti_cuda_expand_window, crti_cuda_add,
    crti_cuda_convolution, crti_cuda_max_pool, crti_cuda_average_pool,
    crti_cuda_batch_norm, crti_cuda_flatten, crti_cuda_subsample;

static inline crti_cuda_t *crti_cuda_of(const crti_layer_t *layer)
{
    return (crti_cuda_t *)layer->device;
}

/* True when the call went well. */
bool crti_cuda_did(crti_cuda_t *c, cudaError_t error, const char *what);
bool crti_cuda_did_dnn(crti_cuda_t *c, cudnnStatus_t status, const char *what);
bool crti_cuda_did_blas(crti_cuda_t *c, cublasStatus_t status, const char *what);
bool crti_cuda_did_driver(crti_cuda_t *c, CUresult result, const char *what);

/* A kernel with a thread for each of `count` numbers, or with so many blocks of `threads`. */
void crti_cuda_run(crti_cuda_t *c, crti_cuda_kernel_t kernel, size_t count,
                   void **arguments);
void crti_cuda_run_blocks(crti_cuda_t *c, crti_cuda_kernel_t kernel, size_t blocks,
                          int threads, void **arguments);

/* Bytes of a number of outputs. */
static inline size_t crti_cuda_size(const crti_cuda_t *c)
{
    return c->mixed ? 2 : sizeof(float);
}

/* From (rows, a, b) to (rows, b, a): outputs to outputs, floats to outputs (load), outputs to
 * floats (store); the latter two times `factor`. */
void crti_cuda_turn(crti_cuda_t *c, crti_cuda_kernel_t how, float *to, const float *from,
                    size_t rows, size_t a, size_t b, float factor);
/* A copy in the device's memory. */
void crti_cuda_copy(crti_cuda_t *c, void *to, const void *from, size_t bytes);

/* Host memory to write `bytes` into that crti_cuda_send then copies; NULL when there is none. */
void *crti_cuda_slot(crti_cuda_t *c, size_t bytes);
void crti_cuda_send(crti_cuda_t *c, void *to, size_t bytes);

/* From host memory, which may be changed when it returns. */
void crti_cuda_upload(crti_cuda_t *c, void *to, const void *from, size_t bytes);

/* CRT_ERR_NO_MEMORY: how much was wanted, for what, and who has the rest. The second keeps it as
 * what has failed, too. */
crt_status_t crti_cuda_raise_memory(crti_device_t *device, size_t floats,
                                    const char *what);
void crti_cuda_no_memory(crti_cuda_t *c, size_t bytes, const char *what);

/* `*memory` of the device with room for `bytes`: grown when it has less. */
bool crti_cuda_reserve(crti_cuda_t *c, void **memory, size_t *has, size_t bytes,
                       const char *what);

/* Makes `sequences` those of the pass, unless they are already. */
bool crti_cuda_sequences(crti_cuda_t *c, const crti_layer_pass_t *pass);

crti_cuda_grid_t crti_cuda_grid(const crti_cuda_t *c, int rows, crti_shape_t shape);

/* The type of outputs, for cuDNN. */
static inline cudnnDataType_t crti_cuda_type(const crti_cuda_t *c)
{
    return c->mixed ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT;
}

/* The descriptor of samples of a shape; NULL when that failed. */
cudnnTensorDescriptor_t crti_cuda_describe(crti_cuda_t *c, cudnnDataType_t type, int rows,
                                           crti_shape_t shape);

/* Softmax and its loss: cross_entropy.c. */
void crti_cuda_softmax(crti_device_t *device, int rows, int classes, const float *y,
                       float *probabilities);
void crti_cuda_cross_entropy(crti_device_t *device, int rows, int classes, const float *y,
                             const uint8_t *labels, float *dy);
crt_status_t crti_cuda_read_loss(crti_device_t *device, double *loss_out);

/* The parser of named entities: parser.c. */
extern const struct crti_ner_device_ops crti_cuda_parser;

/* Steps: optimizer.c. */
crt_status_t crti_cuda_open_optimizer(crti_device_t *device, crt_optimizer_t *optimizer);
crt_status_t crti_cuda_update(crti_device_t *device, crt_optimizer_t *optimizer,
                              crt_model_t *model);
void crti_cuda_close_optimizer(crti_device_t *device, crt_optimizer_t *optimizer);

#endif
