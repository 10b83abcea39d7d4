/* SPDX-License-Identifier: Apache-2.0 */
/* See old_driver.c. */
#include <cuda_runtime_api.h>

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorInsufficientDriver
               ? "CUDA driver version is insufficient for CUDA runtime version"
               : "another error";
}
