/* SPDX-License-Identifier: Apache-2.0 */
/* What all files of a GPU do with it: memory, copies, launches, and what failed. See
 * ml/cuda/cuda.h. */
#include <string.h>

#include "ml/cuda/cuda.h"
#include "ml/cuda/holders.h"

#define THREADS             256 /* of a block that goes over numbers */
#define SLOT_BYTES_AT_LEAST 4096

static bool did(crti_cuda_t *c, bool is_good, const char *what, const char *text)
{
    if (!is_good && c->failed == CRT_OK)
        c->failed = crt_raise(CRT_ERR_IO, "GPU %d: %s: %s", c->device.number, what, text);
    return is_good;
}

bool crti_cuda_did(crti_cuda_t *c, cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        (void)c->api->cudaGetLastError(); /* so that it is not told again */
    return did(c, error == cudaSuccess, what, c->api->cudaGetErrorString(error));
}

bool crti_cuda_did_dnn(crti_cuda_t *c, cudnnStatus_t status, const char *what)
{
    return did(c, status == CUDNN_STATUS_SUCCESS, what,
               c->api->cudnnGetErrorString(status));
}

bool crti_cuda_did_blas(crti_cuda_t *c, cublasStatus_t status, const char *what)
{
    return did(c, status == CUBLAS_STATUS_SUCCESS, what,
               c->api->cublasGetStatusString(status));
}

bool crti_cuda_did_driver(crti_cuda_t *c, CUresult result, const char *what)
{
    const char *text = NULL;

    if (result != CUDA_SUCCESS)
        (void)c->api->cuGetErrorString(result, &text);
    return did(c, result == CUDA_SUCCESS, what, text ? text : "unknown error");
}

crt_status_t crti_cuda_raise_memory(crti_device_t *device, size_t floats,
                                    const char *what)
{
    crti_cuda_t *c = (crti_cuda_t *)device;
    char held[400];

    crti_cuda_tell_memory(c->api, device->number, held, sizeof(held));
    return crt_raise(CRT_ERR_NO_MEMORY,
                     "GPU %d has no memory for %s: %.1f MiB wanted, %s", device->number,
                     what, (double)floats * sizeof(float) / (1 << 20), held);
}

void crti_cuda_no_memory(crti_cuda_t *c, size_t bytes, const char *what)
{
    crt_status_t status = crti_cuda_raise_memory(&c->device, bytes / sizeof(float), what);

    if (c->failed == CRT_OK)
        c->failed = status;
}

bool crti_cuda_reserve(crti_cuda_t *c, void **memory, size_t *has, size_t bytes,
                       const char *what)
{
    cudaError_t error;

    if (bytes <= *has)
        return true;
    (void)c->api->cudaFree(*memory);
    *memory = NULL;
    *has = 0;
    error = c->api->cudaMalloc(memory, bytes);
    if (error == cudaErrorMemoryAllocation) {
        (void)c->api->cudaGetLastError();
        crti_cuda_no_memory(c, bytes, what);
    } else if (crti_cuda_did(c, error, what)) {
        *has = bytes;
    }
    return error == cudaSuccess;
}

void crti_cuda_copy(crti_cuda_t *c, void *to, const void *from, size_t bytes)
{
    if (to != from && bytes > 0)
        crti_cuda_did(
            c, c->api->cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, c->stream),
            "a copy");
}

/* Waits for the copy that the slot was used for before. */
static bool prepare_slot(crti_cuda_t *c, crti_cuda_slot_t *s, size_t bytes)
{
    size_t size = bytes < SLOT_BYTES_AT_LEAST ? SLOT_BYTES_AT_LEAST : bytes;

    if (!crti_cuda_did(c, c->api->cudaEventSynchronize(s->copied), "waiting for a copy"))
        return false;
    if (s->bytes >= bytes)
        return true;
    (void)c->api->cudaFreeHost(s->memory);
    *s = (crti_cuda_slot_t){.copied = s->copied};
    if (!crti_cuda_did(c, c->api->cudaMallocHost(&s->memory, size), "host memory"))
        return false;
    s->bytes = size;
    return true;
}

void *crti_cuda_slot(crti_cuda_t *c, size_t bytes)
{
    crti_cuda_slot_t *s = &c->slots[c->slot];

    return prepare_slot(c, s, bytes) ? s->memory : NULL;
}

void crti_cuda_send(crti_cuda_t *c, void *to, size_t bytes)
{
    crti_cuda_slot_t *s = &c->slots[c->slot];

    c->slot = (c->slot + 1) % CRTI_CUDA_SLOTS;
    crti_cuda_copy(c, to, s->memory, bytes);
    crti_cuda_did(c, c->api->cudaEventRecord(s->copied, c->stream), "an event");
}

void crti_cuda_upload(crti_cuda_t *c, void *to, const void *from, size_t bytes)
{
    void *memory = crti_cuda_slot(c, bytes);

    if (!memory)
        return;
    memcpy(memory, from, bytes);
    crti_cuda_send(c, to, bytes);
}

void crti_cuda_run_blocks(crti_cuda_t *c, crti_cuda_kernel_t kernel, size_t blocks,
                          int threads, void **arguments)
{
    if (blocks > 0)
        crti_cuda_did_driver(c,
                             c->api->cuLaunchKernel(c->kernels[kernel], (unsigned)blocks,
                                                    1, 1, (unsigned)threads, 1, 1, 0,
                                                    (CUstream)c->stream, arguments, NULL),
                             crti_cuda_kernel_name(kernel));
}

void crti_cuda_run(crti_cuda_t *c, crti_cuda_kernel_t kernel, size_t count,
                   void **arguments)
{
    size_t blocks = (count + THREADS - 1) / THREADS;

    crti_cuda_run_blocks(c, kernel,
                         blocks < (size_t)c->blocks ? blocks : (size_t)c->blocks, THREADS,
                         arguments);
}
