/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU that is none: the CUDA runtime, the driver, NVRTC, cuBLAS and cuDNN as far as ml/cuda calls
 * them, computed on the host. The kernels are ml/cuda's own text, compiled as C++ (kernels.cpp).
 *
 * As unforgiving as the real ones may be:
 *     device memory can't be touched but through them (the host's mapping has no rights), is full
 *     of NaN at first, and AddressSanitizer sees what a kernel reads or writes behind its end,
 *     nothing that is queued has begun before somebody waits for it: who does not wait, reads what
 *     was there before,
 *     the threads of a block run one after the other up to the next barrier, in one order or the
 *     reverse one: where a barrier is missing, the results differ from launch to launch,
 *     arguments that CUDA refuses are refused.
 * FAKE_GPU_COUNT says how many devices there are (default 1), FAKE_GPU_MIB how much memory each has
 * (default 2048), FAKE_GPU_OTHERS_MIB how much of it other processes hold, FAKE_CUDA_DRIVER which
 * version of CUDA the driver is made for (such as 12040; default: that of the runtime).
 */
#ifndef CRTI_TESTS_FAKE_CUDA_H
#define CRTI_TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- runtime.c */

/* Something that a stream does when somebody waits for it; `work` is freed by `run`. */
typedef void (*fake_run_t)(void *work);
struct CUstream_st;
void fake_queue(struct CUstream_st *stream, fake_run_t run, void *work);

/* The memory behind device memory with at least `bytes` from there on; NULL: it is none. */
void *fake_memory(const void *device, size_t bytes);

/* Ends the program: CUDA's behaviour would be undefined. */
void fake_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* ---------------------------------------------------------------- threads.c */

#define FAKE_THREADS_MAX 1024
#define FAKE_WARP        32

typedef struct fake_place {
    unsigned x, y, z;
} fake_place_t;

/* Where the running thread is. */
extern fake_place_t fake_thread, fake_block, fake_block_size, fake_grid_size;

/* One thread of a kernel. */
typedef void (*fake_body_t)(void *context);

/* All blocks of a launch. */
void fake_run_grid(const char *kernel, unsigned blocks, unsigned threads,
                   fake_body_t body, void *context);

/* Called by threads: until all of the block, or of the warp, are here. */
void fake_barrier(void);
void fake_warp_barrier(void);

/* What threads of a warp tell each other, 8 bytes of each: told after the next barrier, until the
 * one after that. NULL: the lane had ended. */
void fake_tell(const void *value, size_t bytes);
const void *fake_told(unsigned lane);

/* ---------------------------------------------------------------- kernels.cpp */

typedef struct fake_kernel {
    const char *name;
    void *(*copy)(void **arguments); /* with the memory behind device memory */
    fake_body_t run;
    void (*drop)(void *copied);
} fake_kernel_t;

/* Both end with a name that is NULL. */
extern const fake_kernel_t fake_kernels_of_float[], fake_kernels_of_mixed[];

#ifdef __cplusplus
}
#endif

#endif
