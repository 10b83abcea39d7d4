/* SPDX-License-Identifier: Apache-2.0 */
/* Compiling the kernels. See ml/cuda/kernels.h. */
#include "ml/cuda/kernels.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define LOG_SHOWN 600 /* letters of what the compiler says */

/* Of each kind of GPU that was asked for: few, never freed. */
typedef struct compiled {
    int capability;
    bool mixed;
    char *code;
    struct compiled *next;
} compiled_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* covers what follows */
static compiled_t *all;

static crt_status_t refuse(const crti_cuda_api_t *api, nvrtcProgram program,
                           nvrtcResult result)
{
    size_t size = 0;
    char *log = NULL;
    crt_status_t status;

    if (program && api->nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS &&
        (log = calloc(size + 1, 1)) != NULL)
        (void)api->nvrtcGetProgramLog(program, log);
    status = crt_raise(CRT_ERR_UNSUPPORTED, "NVRTC compiles no kernels: %s: %.*s",
                       api->nvrtcGetErrorString(result), LOG_SHOWN, log ? log : "");
    free(log);
    return status;
}

static crt_status_t compile(const crti_cuda_api_t *api, int capability, bool mixed,
                            char **code_out)
{
    char target[48];
    const char *options[] = {target, "--std=c++17", "-DMIXED"};
    nvrtcProgram program = NULL;
    size_t size = 0;
    char *code = NULL;
    nvrtcResult result =
        api->nvrtcCreateProgram(&program, crti_cuda_source, "kernels.cu", 0, NULL, NULL);
    crt_status_t status = CRT_OK;

    snprintf(target, sizeof(target), "--gpu-architecture=sm_%d", capability);
    if (result == NVRTC_SUCCESS)
        result = api->nvrtcCompileProgram(program, mixed ? 3 : 2, options);
    if (result == NVRTC_SUCCESS)
        result = api->nvrtcGetCUBINSize(program, &size);
    if (result == NVRTC_SUCCESS && (code = malloc(size)) != NULL)
        result = api->nvrtcGetCUBIN(program, code);
    if (result != NVRTC_SUCCESS)
        status = refuse(api, program, result);
    else if (!code)
        status = crt_raise(CRT_ERR_NO_MEMORY, "kernels of %zu bytes", size);
    if (program)
        (void)api->nvrtcDestroyProgram(&program);
    if (status != CRT_OK)
        free(code);
    else
        *code_out = code;
    return status;
}

static compiled_t *find(int capability, bool mixed)
{
    compiled_t *found = all;

    while (found && (found->capability != capability || found->mixed != mixed))
        found = found->next;
    return found;
}

static crt_status_t find_or_compile(const crti_cuda_api_t *api, int capability,
                                    bool mixed, const void **code_out)
{
    compiled_t *found = find(capability, mixed);
    crt_status_t status;

    if (found) {
        *code_out = found->code;
        return CRT_OK;
    }
    found = calloc(1, sizeof(*found));
    if (!found)
        return crt_raise(CRT_ERR_NO_MEMORY, "kernels");
    status = compile(api, capability, mixed, &found->code);
    if (status != CRT_OK) {
        free(found);
        return status;
    }
    found->capability = capability;
    found->mixed = mixed;
    found->next = all;
    all = found;
    *code_out = found->code;
    return CRT_OK;
}

crt_status_t crti_cuda_compile(const crti_cuda_api_t *api, int capability, bool mixed,
                               const void **code_out)
{
    crt_status_t status;

    pthread_mutex_lock(&lock);
    status = find_or_compile(api, capability, mixed, code_out);
    pthread_mutex_unlock(&lock);
    return status;
}

const char *crti_cuda_kernel_name(crti_cuda_kernel_t kernel)
{
    static const char *const names[] = {
#define NAME(name) #name,
        CRTI_CUDA_KERNELS(NAME)
#undef NAME
    };

    return names[kernel];
}
