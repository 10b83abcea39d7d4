/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA libraries: the functions of the CUDA runtime, the driver, cuBLAS, cuDNN and NVRTC that
 * models on a GPU are computed with, found when the first model moves there. The library itself
 * links to none of them.
 *
 * Where it sits
 *     device.c, kernels.c and the layers -> [ library ] -> libcudart, libcuda, libcublas, libcudnn,
 *     libnvrtc
 * Which files
 *     CRT_CUDART_LIBRARY, CRT_CUDA_DRIVER_LIBRARY, CRT_CUBLAS_LIBRARY, CRT_CUDNN_LIBRARY and
 *     CRT_NVRTC_LIBRARY name them where the usual names do not find the right ones; otherwise those
 *     that the program has loaded already go first.
 * Invariants
 *     Never closed: they have threads of their own.
 */
#ifndef CRTI_ML_CUDA_LIBRARY_H
#define CRTI_ML_CUDA_LIBRARY_H

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nvrtc.h>

#include <crt_base.h>

#define CRTI_CUDA_RUNTIME(X)                                                             \
    X(cudaGetDeviceCount)                                                                \
    X(cudaDriverGetVersion)                                                              \
    X(cudaRuntimeGetVersion)                                                             \
    X(cudaDeviceGetPCIBusId)                                                             \
    X(cudaMemGetInfo)                                                                    \
    X(cudaSetDevice)                                                                     \
    X(cudaDeviceGetAttribute)                                                            \
    X(cudaStreamCreateWithFlags)                                                         \
    X(cudaStreamDestroy)                                                                 \
    X(cudaStreamSynchronize)                                                             \
    X(cudaEventCreateWithFlags)                                                          \
    X(cudaEventDestroy)                                                                  \
    X(cudaEventRecord)                                                                   \
    X(cudaEventSynchronize)                                                              \
    X(cudaMalloc)                                                                        \
    X(cudaFree)                                                                          \
    X(cudaMallocHost)                                                                    \
    X(cudaFreeHost)                                                                      \
    X(cudaMemcpyAsync)                                                                   \
    X(cudaMemsetAsync)                                                                   \
    X(cudaPointerGetAttributes)                                                          \
    X(cudaGetErrorString)                                                                \
    X(cudaGetLastError)

#define CRTI_CUDA_DRIVER(X)                                                              \
    X(cuModuleLoadData)                                                                  \
    X(cuModuleUnload)                                                                    \
    X(cuModuleGetFunction)                                                               \
    X(cuLaunchKernel)                                                                    \
    X(cuGetErrorString)

#define CRTI_CUDA_BLAS(X)                                                                \
    X(cublasCreate_v2)                                                                   \
    X(cublasDestroy_v2)                                                                  \
    X(cublasSetStream_v2)                                                                \
    X(cublasSetMathMode)                                                                 \
    X(cublasGemmEx)                                                                      \
    X(cublasGemmStridedBatchedEx)                                                        \
    X(cublasGetStatusString)

#define CRTI_CUDA_DNN(X)                                                                 \
    X(cudnnCreate)                                                                       \
    X(cudnnDestroy)                                                                      \
    X(cudnnSetStream)                                                                    \
    X(cudnnGetErrorString)                                                               \
    X(cudnnCreateTensorDescriptor)                                                       \
    X(cudnnDestroyTensorDescriptor)                                                      \
    X(cudnnSetTensor4dDescriptor)                                                        \
    X(cudnnCreateFilterDescriptor)                                                       \
    X(cudnnDestroyFilterDescriptor)                                                      \
    X(cudnnSetFilter4dDescriptor)                                                        \
    X(cudnnCreateConvolutionDescriptor)                                                  \
    X(cudnnDestroyConvolutionDescriptor)                                                 \
    X(cudnnSetConvolution2dDescriptor)                                                   \
    X(cudnnSetConvolutionMathType)                                                       \
    X(cudnnFindConvolutionForwardAlgorithm)                                              \
    X(cudnnGetConvolutionForwardAlgorithm_v7)                                            \
    X(cudnnFindConvolutionBackwardDataAlgorithm)                                         \
    X(cudnnGetConvolutionBackwardDataAlgorithm_v7)                                       \
    X(cudnnFindConvolutionBackwardFilterAlgorithm)                                       \
    X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)                                     \
    X(cudnnConvolutionForward)                                                           \
    X(cudnnConvolutionBackwardData)                                                      \
    X(cudnnConvolutionBackwardFilter)                                                    \
    X(cudnnBatchNormalizationForwardTraining)                                            \
    X(cudnnBatchNormalizationForwardInference)                                           \
    X(cudnnBatchNormalizationBackward)

#define CRTI_CUDA_COMPILER(X)                                                            \
    X(nvrtcCreateProgram)                                                                \
    X(nvrtcDestroyProgram)                                                               \
    X(nvrtcCompileProgram)                                                               \
    X(nvrtcGetCUBINSize)                                                                 \
    X(nvrtcGetCUBIN)                                                                     \
    X(nvrtcGetProgramLogSize)                                                            \
    X(nvrtcGetProgramLog)                                                                \
    X(nvrtcGetErrorString)

typedef struct crti_cuda_api {
#define CRTI_CUDA_FIELD(name) __typeof__(name) *name;
    CRTI_CUDA_RUNTIME(CRTI_CUDA_FIELD)
    CRTI_CUDA_DRIVER(CRTI_CUDA_FIELD)
    CRTI_CUDA_BLAS(CRTI_CUDA_FIELD)
    CRTI_CUDA_DNN(CRTI_CUDA_FIELD)
    CRTI_CUDA_COMPILER(CRTI_CUDA_FIELD)
#undef CRTI_CUDA_FIELD
} crti_cuda_api_t;

/* CRT_ERR_UNSUPPORTED says which library is missing, or without which function. Any thread.
 * Borrowed: valid until the process ends. */
crt_status_t crti_cuda_library(const crti_cuda_api_t **api_out);

/* NVRTC alone: compiles without a GPU and without a driver. The other functions may be NULL. */
crt_status_t crti_cuda_compiler(const crti_cuda_api_t **api_out);

#endif
