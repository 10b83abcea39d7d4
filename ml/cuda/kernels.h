/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: the project's own CUDA code, compiled when the first model moves to a kind of GPU.
 *
 * Where it sits
 *     layers, device.c, optimizer.c -> [ kernels ] -> NVRTC, the driver
 */
#ifndef CRTI_ML_CUDA_KERNELS_H
#define CRTI_ML_CUDA_KERNELS_H

#include <stddef.h>

#include "ml/cuda/kernel_names.h"
#include "ml/cuda/library.h"

typedef enum crti_cuda_kernel {
#define CRTI_CUDA_KERNEL_NUMBER(name) CRTI_KERNEL_##name,
    CRTI_CUDA_KERNELS(CRTI_CUDA_KERNEL_NUMBER)
#undef CRTI_CUDA_KERNEL_NUMBER
        CRTI_CUDA_KERNEL_COUNT
} crti_cuda_kernel_t;

/* shapes.h and kernels.cu; ml/cuda/embed.py makes it. */
extern const char crti_cuda_source[];

/* Machine code of all kernels for GPUs of compute capability `capability`, such as 90; `mixed`:
 * their outputs are float16. CRT_ERR_UNSUPPORTED with the compiler's words. Borrowed: kept until
 * the process ends. Any thread. */
crt_status_t crti_cuda_compile(const crti_cuda_api_t *api, int capability, bool mixed,
                               const void **code_out);

const char *crti_cuda_kernel_name(crti_cuda_kernel_t kernel);

#endif
