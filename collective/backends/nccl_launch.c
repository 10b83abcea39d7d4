/* SPDX-License-Identifier: Apache-2.0 */
/* Giving an operation to NCCL. See nccl_int.h.
 *
 * Tensors on the host are copied to device memory of the group and back; the copy back begins
 * after NCCL has ended, for it may wait inside CUDA for all before it.
 */
#include <string.h>

#include "collective/backends/nccl_int.h"

/* ---------------------------------------------------------------- types */

static bool is_reduced(crt_collective_kind_t kind)
{
    return kind == CRT_COLLECTIVE_ALLREDUCE || kind == CRT_COLLECTIVE_REDUCE ||
           kind == CRT_COLLECTIVE_REDUCESCATTER;
}

const char *crti_nccl_refuses(const crti_step_t *step)
{
    if (is_reduced(step->kind) && step->dtype == CRT_DTYPE_INT16)
        return "NCCL can't reduce int16; use int32, or a backend for the host";
    if (is_reduced(step->kind) && step->dtype == CRT_DTYPE_UINT16)
        return "NCCL can't reduce uint16; use uint32, or a backend for the host";
    return NULL;
}

/* What is only moved may be of any type of that size. */
ncclDataType_t crti_nccl_type(crt_dtype_t dtype)
{
    switch (dtype) {
    case CRT_DTYPE_FLOAT32: return ncclFloat32;
    case CRT_DTYPE_FLOAT64: return ncclFloat64;
    case CRT_DTYPE_FLOAT16: return ncclFloat16;
    case CRT_DTYPE_BFLOAT16: return ncclBfloat16;
    case CRT_DTYPE_INT8: return ncclInt8;
    case CRT_DTYPE_UINT16:
    case CRT_DTYPE_INT16: return ncclFloat16; /* moved only: crti_nccl_refuses */
    case CRT_DTYPE_UINT32: return ncclUint32;
    case CRT_DTYPE_UINT64: return ncclUint64;
    case CRT_DTYPE_INT32: return ncclInt32;
    case CRT_DTYPE_INT64: return ncclInt64;
    default: return ncclUint8;
    }
}

static ncclRedOp_t operation_of(crt_reduction_t reduction)
{
    switch (reduction) {
    case CRT_REDUCE_PRODUCT: return ncclProd;
    case CRT_REDUCE_MIN: return ncclMin;
    case CRT_REDUCE_MAX: return ncclMax;
    case CRT_REDUCE_AVERAGE: return ncclAvg;
    default: return ncclSum;
    }
}

/* ---------------------------------------------------------------- staging */

static size_t input_bytes(const crti_nccl_t *n, const crti_step_t *step)
{
    size_t each = step->count * crt_dtype_size(step->dtype);

    switch (step->kind) {
    case CRT_COLLECTIVE_REDUCESCATTER:
    case CRT_COLLECTIVE_ALLTOALL: return each * (size_t)n->size;
    case CRT_COLLECTIVE_BROADCAST: return n->rank == step->peer ? each : 0;
    default: return each;
    }
}

static size_t output_bytes(const crti_nccl_t *n, const crti_step_t *step)
{
    size_t each = step->count * crt_dtype_size(step->dtype);

    switch (step->kind) {
    case CRT_COLLECTIVE_ALLGATHER:
    case CRT_COLLECTIVE_ALLTOALL: return each * (size_t)n->size;
    case CRT_COLLECTIVE_REDUCE: return n->rank == step->peer ? each : 0;
    case CRT_COLLECTIVE_BROADCAST: return n->rank == step->peer ? 0 : each;
    default: return each;
    }
}

crt_status_t crti_nccl_grow(crti_nccl_t *n, crti_nccl_stage_t *stage, size_t bytes)
{
    size_t wanted = stage->bytes ? stage->bytes : 64 << 10;
    cudaError_t error;

    if (bytes <= stage->bytes)
        return CRT_OK;
    while (wanted < bytes)
        wanted = wanted <= SIZE_MAX / 2 ? wanted * 2 : bytes;
    (void)n->api->release(stage->memory);
    *stage = (crti_nccl_stage_t){0};
    error = n->api->allocate(&stage->memory, wanted);
    if (error != cudaSuccess)
        return crti_nccl_cuda_failed(n, "device memory for tensors on the host", error);
    stage->bytes = wanted;
    return CRT_OK;
}

void crti_nccl_free_stages(crti_nccl_t *n)
{
    (void)n->api->release(n->input.memory);
    (void)n->api->release(n->output.memory);
    n->input = n->output = (crti_nccl_stage_t){0};
}

static crt_status_t stage(crti_nccl_t *n, const crti_step_t *step, const void **in,
                          void **out)
{
    size_t given = input_bytes(n, step), taken = output_bytes(n, step);
    crt_status_t status = crti_nccl_grow(n, &n->input, given);
    cudaError_t error = cudaSuccess;

    if (status == CRT_OK)
        status = crti_nccl_grow(n, &n->output, taken);
    if (status == CRT_OK && given)
        error = n->api->copy(n->input.memory, step->input, given, cudaMemcpyHostToDevice,
                             n->stream);
    if (error != cudaSuccess)
        status = crti_nccl_cuda_failed(n, "copying a tensor to the device", error);
    *in = n->input.memory;
    *out = n->output.memory;
    if (step->kind == CRT_COLLECTIVE_BROADCAST && given)
        *out = n->input.memory;
    return status;
}

crt_status_t crti_nccl_collect(crti_nccl_t *n, const crti_step_t *step)
{
    size_t taken = output_bytes(n, step);
    cudaError_t error;

    if (step->is_on_device || taken == 0)
        return CRT_OK;
    error = n->api->copy(step->output, n->output.memory, taken, cudaMemcpyDeviceToHost,
                         n->stream);
    if (error != cudaSuccess)
        return crti_nccl_cuda_failed(n, "copying a tensor from the device", error);
    return crti_nccl_await(n, "copying a tensor from the device");
}

/* ---------------------------------------------------------------- launching */

/* The operation follows what the user gave to its stream before. */
crt_status_t crti_nccl_follow(crti_nccl_t *n)
{
    cudaError_t error =
        n->api->event_record(n->before, (cudaStream_t)n->group->gpu_stream);

    if (error == cudaSuccess)
        error = n->api->stream_wait(n->stream, n->before, 0);
    return error == cudaSuccess
               ? CRT_OK
               : crti_nccl_cuda_failed(n, "waiting for the stream of the group", error);
}

static ncclResult_t exchange_parts(crti_nccl_t *n, const crti_step_t *step,
                                   const void *in, void *out)
{
    size_t bytes = step->count * crt_dtype_size(step->dtype);
    ncclDataType_t type = crti_nccl_type(step->dtype);
    ncclResult_t result = n->api->group_start(), ended;

    if (result != ncclSuccess)
        return result;
    for (int i = 0; i < n->size && (result == ncclSuccess || result == ncclInProgress);
         i++) {
        result = n->api->send((const char *)in + (size_t)i * bytes, step->count, type, i,
                              n->comm, n->stream);
        if (result == ncclSuccess || result == ncclInProgress)
            result = n->api->recv((char *)out + (size_t)i * bytes, step->count, type, i,
                                  n->comm, n->stream);
    }
    ended = n->api->group_end();
    return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

static ncclResult_t give_to_nccl(crti_nccl_t *n, const crti_step_t *step, const void *in,
                                 void *out)
{
    const crti_nccl_api_t *api = n->api;
    size_t count = step->count;
    ncclDataType_t type = crti_nccl_type(step->dtype);
    ncclRedOp_t op = operation_of(step->reduction);

    switch (step->kind) {
    case CRT_COLLECTIVE_ALLREDUCE:
        return api->allreduce(in, out, count, type, op, n->comm, n->stream);
    case CRT_COLLECTIVE_REDUCE:
        return api->reduce(in, out, count, type, op, step->peer, n->comm, n->stream);
    case CRT_COLLECTIVE_BROADCAST:
        return api->broadcast(n->rank == step->peer ? in : out, out, count, type,
                              step->peer, n->comm, n->stream);
    case CRT_COLLECTIVE_ALLGATHER:
        return api->allgather(in, out, count, type, n->comm, n->stream);
    case CRT_COLLECTIVE_REDUCESCATTER:
        return api->reducescatter(in, out, count, type, op, n->comm, n->stream);
    default: return exchange_parts(n, step, in, out);
    }
}

crt_status_t crti_nccl_launch(crti_nccl_t *n, const crti_step_t *step,
                              ncclResult_t *result_out)
{
    const void *in = step->input;
    void *out = step->output;
    crt_status_t status =
        step->is_on_device ? crti_nccl_follow(n) : stage(n, step, &in, &out);

    if (status == CRT_OK)
        *result_out = give_to_nccl(n, step, in, out);
    return status;
}
