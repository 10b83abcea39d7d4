/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL library: the functions of NCCL and of the CUDA runtime that the nccl backend calls, found
 * when the first group needs them. The library itself links to neither.
 *
 * Where it sits
 *     nccl.c, nccl_comm.c, nccl_launch.c -> [ nccl_library ] -> libcudart, libnccl (dlopen)
 * Which files
 *     CRT_CUDART_LIBRARY and CRT_NCCL_LIBRARY name them where the usual names do not find the right
 *     ones; otherwise those that the program has loaded already go first.
 * Invariants
 *     Never closed: both have threads of their own.
 */
#ifndef CRTI_COLLECTIVE_BACKENDS_NCCL_LIBRARY_H
#define CRTI_COLLECTIVE_BACKENDS_NCCL_LIBRARY_H

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "runtime/base/crt_base.h"

#define CRTI_NCCL_OLDEST 21403 /* non-blocking communicators */

#define CRTI_CUDA_SYMBOLS(X)                                                             \
    X(device_count, cudaGetDeviceCount)                                                  \
    X(get_device, cudaGetDevice)                                                         \
    X(set_device, cudaSetDevice)                                                         \
    X(stream_create, cudaStreamCreateWithFlags)                                          \
    X(stream_destroy, cudaStreamDestroy)                                                 \
    X(stream_query, cudaStreamQuery)                                                     \
    X(stream_wait, cudaStreamWaitEvent)                                                  \
    X(event_create, cudaEventCreateWithFlags)                                            \
    X(event_destroy, cudaEventDestroy)                                                   \
    X(event_record, cudaEventRecord)                                                     \
    X(event_query, cudaEventQuery)                                                       \
    X(allocate, cudaMalloc)                                                              \
    X(release, cudaFree)                                                                 \
    X(copy, cudaMemcpyAsync)                                                             \
    X(cuda_text, cudaGetErrorString)                                                     \
    X(last_error, cudaGetLastError)

#define CRTI_NCCL_SYMBOLS(X)                                                             \
    X(get_version, ncclGetVersion)                                                       \
    X(unique_id, ncclGetUniqueId)                                                        \
    X(init, ncclCommInitRankConfig)                                                      \
    X(async_error, ncclCommGetAsyncError)                                                \
    X(finalize, ncclCommFinalize)                                                        \
    X(destroy, ncclCommDestroy)                                                          \
    X(abort, ncclCommAbort)                                                              \
    X(nccl_text, ncclGetErrorString)                                                     \
    X(group_start, ncclGroupStart)                                                       \
    X(group_end, ncclGroupEnd)                                                           \
    X(allreduce, ncclAllReduce)                                                          \
    X(reduce, ncclReduce)                                                                \
    X(broadcast, ncclBroadcast)                                                          \
    X(allgather, ncclAllGather)                                                          \
    X(reducescatter, ncclReduceScatter)                                                  \
    X(send, ncclSend)                                                                    \
    X(recv, ncclRecv)

typedef struct crti_nccl_api {
#define CRTI_NCCL_FIELD(field, symbol) __typeof__(symbol) *field;
    CRTI_CUDA_SYMBOLS(CRTI_NCCL_FIELD)
    CRTI_NCCL_SYMBOLS(CRTI_NCCL_FIELD)
#undef CRTI_NCCL_FIELD
    /* NULL where the library is older than the function. */
    ncclResult_t (*revoke)(ncclComm_t comm, int flags); /* 2.28.7 */
    const char *(*nccl_detail)(ncclComm_t comm);        /* ncclGetLastError */
    int version;                                        /* as ncclGetVersion says */
} crti_nccl_api_t;

/* CRT_ERR_UNSUPPORTED says which library is missing, too old or without which function. Any
 * thread. Borrowed: valid until the process ends. */
crt_status_t crti_nccl_library(const crti_nccl_api_t **api_out);

/* "2.28.9". */
const char *crti_nccl_version_text(int version, char *text, size_t size);

#endif
