/* SPDX-License-Identifier: Apache-2.0 */
/* A CUDA runtime and an NCCL that work on host memory: the functions that the nccl backend calls,
 * as far as it uses them, and as unforgiving as their documentation allows:
 *     device memory can't be touched but through them (the host's mapping has no rights),
 *     streams are threads, so that nothing has ended when a call returns,
 *     a communicator that is in progress takes no further call but to ask, revoke or abort it,
 *     operations whose other side does not come never end,
 *     finalizing waits for the other members.
 * FAKE_GPU_COUNT says how many devices there are (default 2), FAKE_NCCL_VERSION which NCCL it is,
 * FAKE_COPY_MS how long a copy to the device takes; with FAKE_NCCL_FAILS operations fail, with
 * FAKE_NCCL_HANGS they do not end. */
#ifndef CRTI_TESTS_FAKE_NCCL_H
#define CRTI_TESTS_FAKE_NCCL_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>

/* Something that a stream does. Freed by `run`. */
typedef struct fake_task fake_task_t;
struct fake_task {
    fake_task_t *next;
    void (*run)(fake_task_t *task);
};

/* To a stream's end; NULL: the default stream. */
void fake_submit(cudaStream_t stream, fake_task_t *task);
/* The memory behind `bytes` of device memory; NULL when they are none. */
void *fake_memory(const void *device, size_t bytes);
/* A moment, in what is polled. */
void fake_nap(void);

#endif
