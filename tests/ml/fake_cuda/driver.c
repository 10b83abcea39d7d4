/* SPDX-License-Identifier: Apache-2.0 */
/* NVRTC and the driver of the stand-in: which kernels there are, and launches. See fake.h. */
#include <cuda.h>
#include <nvrtc.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

/* ---------------------------------------------------------------- NVRTC */

/* What it makes: which of the two tables. */
typedef struct code {
    char mark[8];
    bool is_mixed;
} code_t;

struct _nvrtcProgram {
    code_t code;
};

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source,
                               const char *name, int headers, const char *const *texts,
                               const char *const *names)
{
    (void)source;
    (void)name;
    (void)headers;
    (void)texts;
    (void)names;
    *program = calloc(1, sizeof(**program));
    strcpy((*program)->code.mark, "fake");
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program)
{
    free(*program);
    *program = NULL;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count,
                                const char *const *options)
{
    for (int i = 0; i < count; i++)
        program->code.is_mixed |= strcmp(options[i], "-DMIXED") == 0;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
    *size = sizeof(program->code);
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *code)
{
    memcpy(code, &program->code, sizeof(program->code));
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
    (void)program;
    *size = 1;
    return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    (void)program;
    *log = '\0';
    return NVRTC_SUCCESS;
}

const char *nvrtcGetErrorString(nvrtcResult result)
{
    return result == NVRTC_SUCCESS ? "NVRTC_SUCCESS" : "NVRTC_ERROR";
}

/* ---------------------------------------------------------------- the driver */

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    const code_t *code = image;

    if (strcmp(code->mark, "fake") != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    *module = (CUmodule)(uintptr_t)(code->is_mixed ? fake_kernels_of_mixed
                                                   : fake_kernels_of_float);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    const fake_kernel_t *k = (const fake_kernel_t *)module;

    while (k->name && strcmp(k->name, name) != 0)
        k++;
    *function = (CUfunction)(uintptr_t)k;
    return k->name ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

typedef struct launch {
    const fake_kernel_t *kernel;
    unsigned blocks, threads;
    void *arguments;
} launch_t;

static void run_launch(void *work)
{
    launch_t *l = work;

    fake_run_grid(l->kernel->name, l->blocks, l->threads, l->kernel->run, l->arguments);
    l->kernel->drop(l->arguments);
    free(l);
}

CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z,
                        unsigned threads, unsigned threads_y, unsigned threads_z,
                        unsigned shared, CUstream stream, void **arguments, void **extra)
{
    launch_t *l;

    if (x < 1 || y != 1 || z != 1 || threads < 1 || threads > FAKE_THREADS_MAX ||
        threads_y != 1 || threads_z != 1 || shared != 0 || extra)
        return CUDA_ERROR_INVALID_VALUE;
    l = calloc(1, sizeof(*l));
    *l = (launch_t){
        .kernel = (const fake_kernel_t *)function, .blocks = x, .threads = threads};
    l->arguments = l->kernel->copy(arguments);
    fake_queue(stream, run_launch, l);
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    *text = error == CUDA_SUCCESS               ? "no error"
            : error == CUDA_ERROR_NOT_FOUND     ? "named symbol not found"
            : error == CUDA_ERROR_INVALID_IMAGE ? "device kernel image is invalid"
                                                : "invalid argument";
    return CUDA_SUCCESS;
}
