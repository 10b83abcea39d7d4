/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TO_DEVICE 1
#define TO_HOST   2

static struct {
    int (*count)(int *count);
    int (*allocate)(void **memory, size_t bytes);
    int (*release)(void *memory);
    int (*copy)(void *to, const void *from, size_t bytes, int kind);
    int (*start_copy)(void *to, const void *from, size_t bytes, int kind, void *stream);
} cuda;

static void *open_first(const char *variable, const char *const *names)
{
    const char *chosen = getenv(variable);
    void *library = NULL;

    if (chosen && *chosen)
        return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    for (; *names && !library; names++)
        library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    return library;
}

static bool open_cuda(void)
{
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12",
                                        "libcudart.so.11.0", "libcudart.so", NULL};
    void *library, *symbols[5];

    if (cuda.copy)
        return true;
    library = open_first("CRT_CUDART_LIBRARY", names);
    if (!library)
        return false;
    symbols[0] = dlsym(library, "cudaGetDeviceCount");
    symbols[1] = dlsym(library, "cudaMalloc");
    symbols[2] = dlsym(library, "cudaFree");
    symbols[3] = dlsym(library, "cudaMemcpy");
    symbols[4] = dlsym(library, "cudaMemcpyAsync");
    memcpy(&cuda, symbols, sizeof(cuda));
    return cuda.count && cuda.allocate && cuda.release && cuda.copy && cuda.start_copy;
}

bool device_is_there(const char **why_out)
{
    static const char *const nccl[] = {"libnccl.so.2", "libnccl.so", NULL};
    int count = 0;

    if (!open_cuda())
        *why_out = "no CUDA runtime (libcudart)";
    else if (cuda.count(&count) != 0 || count == 0)
        *why_out = "no GPU";
    else if (!open_first("CRT_NCCL_LIBRARY", nccl))
        *why_out = "no NCCL (libnccl)";
    else
        return true;
    return false;
}

void *device_copy_of(const void *host, size_t bytes)
{
    void *memory = NULL;

    if (!open_cuda() || cuda.allocate(&memory, bytes) != 0)
        return NULL;
    if (cuda.copy(memory, host, bytes, TO_DEVICE) == 0)
        return memory;
    cuda.release(memory);
    return NULL;
}

bool device_fill_later(void *device, const void *host, size_t bytes)
{
    return cuda.start_copy(device, host, bytes, TO_DEVICE, NULL) == 0;
}

bool device_take_back(void *host, void *device, size_t bytes)
{
    bool copied = device && cuda.copy(host, device, bytes, TO_HOST) == 0;

    return device && cuda.release(device) == 0 && copied;
}
