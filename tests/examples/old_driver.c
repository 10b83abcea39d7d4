/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for the CUDA libraries on a driver that is older than they are: every function is
 * there, and says that. Texts are in old_driver_text.c. */
#include "ml/cuda/library.h"

int old_driver_refuse(void);

int old_driver_refuse(void)
{
    return cudaErrorInsufficientDriver;
}

/* Weak: those of the other file win. */
#define REFUSE(name) __asm__(".weak " #name "\n\t.set " #name ", old_driver_refuse");
CRTI_CUDA_RUNTIME(REFUSE)
CRTI_CUDA_DRIVER(REFUSE)
CRTI_CUDA_BLAS(REFUSE)
CRTI_CUDA_DNN(REFUSE)
CRTI_CUDA_COMPILER(REFUSE)
