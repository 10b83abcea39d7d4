/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL backend: operations between GPUs.
 *
 * Where it sits
 *     operation.c -> nccl.c (opening, comparing, order) -> nccl_comm.c (life of a communicator,
 *         waiting), nccl_launch.c (staging, which function), nccl_pair.c (messages between
 *         two) -> nccl_library.c -> libnccl, libcudart
 *     nccl.c -> `control`: the backend that the members would have without GPUs
 * How
 *     NCCL does not compare calls, does not notice deaths and waits for ever. So each operation is
 *     given to NCCL first and then, while the GPU works, compared by a small exchange over
 *     `control`, which also reports members that did not join, left or failed. What NCCL does after
 *     that is polled; a failure of the group ends it: the communicator is revoked, or aborted where
 *     NCCL can't, and the next incarnation makes a new one from a new unique id.
 * Threads
 *     That of operations. The device that is current in it is put back after each call.
 * Invariants
 *     Communicators are non-blocking: no call of NCCL waits for another member, but for the end of
 *     an abort, which waits for no member.
 *     While NCCL reports "in progress" of a communicator it is only polled, or ended.
 *     When run returns, no GPU touches the caller's memory any more.
 */
#ifndef CRTI_COLLECTIVE_BACKENDS_NCCL_INT_H
#define CRTI_COLLECTIVE_BACKENDS_NCCL_INT_H

#include "collective/backends/nccl_library.h"
#include "collective/group.h"
#include "collective/operation_signature.h"

/* The phase of a member, as the others see it. */
/* Device memory for a tensor that lies on the host; grows. */
typedef struct crti_nccl_stage {
    void *memory;
    size_t bytes;
} crti_nccl_stage_t;

typedef struct crti_nccl {
    crt_group_t *group;
    const crti_nccl_api_t *api;
    const crti_backend_t *control;
    void *control_state; /* NULL: not open */
    int size, rank;      /* of the team */
    const int *ranks;
    int device;
    ncclComm_t comm; /* NULL: none, or given up */
    cudaStream_t stream;
    cudaEvent_t before, done; /* the user's work that an operation follows; its own end */
    crti_nccl_stage_t input, output;
    uint64_t exchanges;                /* over control */
    crti_list_t pairs;                 /* crti_pair_t, posted */
    bool is_running;                   /* the GPU may be at work for us */
    crti_operation_signature_t *calls; /* by rank of the team */
    uint64_t deadline_ns;              /* of what runs */
} crti_nccl_t;

/* ------------------------------------------------------------------ nccl.c */

/* Fails the group: two members did not mean the same. */
crt_status_t crti_nccl_mismatch(crti_nccl_t *n, const crti_operation_signature_t *own,
                                int other, const crti_operation_signature_t *theirs);
/* Makes our device current; `*before` is to be put back. */
cudaError_t crti_nccl_enter_device(const crti_nccl_t *n, int *before);
void crti_nccl_leave_device(const crti_nccl_t *n, int before);

/* ------------------------------------------------------------------ nccl_pair.c */

/* Carries out all messages that were posted. */
crt_status_t crti_nccl_run_pairs(crti_nccl_t *n);

/* ------------------------------------------------------------------ nccl_comm.c */

/* Fails the group with what CUDA or NCCL says. */
crt_status_t crti_nccl_cuda_failed(crti_nccl_t *n, const char *what, cudaError_t error);
crt_status_t crti_nccl_failed(crti_nccl_t *n, const char *what, ncclResult_t result);

/* Waits until NCCL has taken the request that returned `result`. */
crt_status_t crti_nccl_settle(crti_nccl_t *n, const char *what, ncclResult_t result);
/* Until the stream has done all. */
crt_status_t crti_nccl_await(crti_nccl_t *n, const char *what);
/* Makes the communicator. */
crt_status_t crti_nccl_connect(crti_nccl_t *n, ncclUniqueId id);
/* Ends what runs on the GPU, whatever the others do. */
void crti_nccl_give_up(crti_nccl_t *n);
/* Ends a communicator on which nothing runs; what the others still need of it is given. */
void crti_nccl_disconnect(crti_nccl_t *n);

/* ------------------------------------------------------------------ nccl_launch.c */

/* NULL, or why NCCL can't do this. */
const char *crti_nccl_refuses(const crti_step_t *step);
/* Brings the input to the device and gives the operation to NCCL; `*result_out` is what NCCL
 * said: crti_nccl_settle takes it. */
crt_status_t crti_nccl_launch(crti_nccl_t *n, const crti_step_t *step,
                              ncclResult_t *result_out);
/* What is only moved may be of any type of that size. */
ncclDataType_t crti_nccl_type(crt_dtype_t dtype);
/* Room of that many bytes on the device. */
crt_status_t crti_nccl_grow(crti_nccl_t *n, crti_nccl_stage_t *stage, size_t bytes);
/* What is launched next follows what the user gave to the stream of the group before. */
crt_status_t crti_nccl_follow(crti_nccl_t *n);
/* After its end: brings the output to where the caller wants it. */
crt_status_t crti_nccl_collect(crti_nccl_t *n, const crti_step_t *step);
void crti_nccl_free_stages(crti_nccl_t *n);

#endif
