/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the functions of the CUDA libraries. See ml/cuda/library.h. */
#include "ml/cuda/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 4

typedef struct symbol {
    const char *name;
    size_t offset; /* of its pointer in crti_cuda_api_t */
} symbol_t;

typedef struct library {
    const char *what, *variable;
    const char *names[NAMES_MAX]; /* the version of the headers first */
    const symbol_t *symbols;
    size_t count;
    bool is_open;
} library_t;

#define ENTRY(name)       {#name, offsetof(crti_cuda_api_t, name)},
#define COUNT_OF(a)       (sizeof(a) / sizeof(*(a)))
#define SYMBOLS_OF(table) .symbols = (table), .count = COUNT_OF(table)
static const symbol_t runtime[] = {CRTI_CUDA_RUNTIME(ENTRY)};
static const symbol_t driver[] = {CRTI_CUDA_DRIVER(ENTRY)};
static const symbol_t blas[] = {CRTI_CUDA_BLAS(ENTRY)};
static const symbol_t dnn[] = {CRTI_CUDA_DNN(ENTRY)};
static const symbol_t compiler[] = {CRTI_CUDA_COMPILER(ENTRY)};

/* All that is called is the same in CUDA 12 and 13; of cuDNN the descriptors are those of version
 * 9. */
static library_t libraries[] = {
    {"the CUDA runtime",
     "CRT_CUDART_LIBRARY",
     {"libcudart.so.13", "libcudart.so.12", "libcudart.so"},
     SYMBOLS_OF(runtime)},
    {"the driver of the GPU",
     "CRT_CUDA_DRIVER_LIBRARY",
     {"libcuda.so.1"},
     SYMBOLS_OF(driver)},
    {"cuBLAS",
     "CRT_CUBLAS_LIBRARY",
     {"libcublas.so.13", "libcublas.so.12", "libcublas.so"},
     SYMBOLS_OF(blas)},
    {"cuDNN", "CRT_CUDNN_LIBRARY", {"libcudnn.so.9", "libcudnn.so"}, SYMBOLS_OF(dnn)},
};
static library_t nvrtc = {"NVRTC",
                          "CRT_NVRTC_LIBRARY",
                          {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                          SYMBOLS_OF(compiler)};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* covers what follows */
static crti_cuda_api_t api;

static void *open_any(const library_t *l)
{
    const char *chosen = getenv(l->variable);
    void *found = NULL;

    if (chosen && *chosen)
        return dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < NAMES_MAX && l->names[i] && !found; i++)
        found = dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t i = 0; i < NAMES_MAX && l->names[i] && !found; i++)
        found = dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL);
    return found;
}

static crt_status_t open_library(library_t *l)
{
    void *library = l->is_open ? NULL : open_any(l);
    const char *reason;

    if (l->is_open)
        return CRT_OK;
    if (!library) {
        reason = dlerror();
        return crt_raise(
            CRT_ERR_UNSUPPORTED,
            "%s can't be opened (%.300s); set LD_LIBRARY_PATH, or %s to its file",
            l->what, reason ? reason : l->names[0], l->variable);
    }
    for (size_t i = 0; i < l->count; i++) {
        void *found = dlsym(library, l->symbols[i].name);

        if (!found)
            return crt_raise(
                CRT_ERR_UNSUPPORTED,
                "%s is too old: it has no function %s; set LD_LIBRARY_PATH, or "
                "%s to a newer file",
                l->what, l->symbols[i].name, l->variable);
        memcpy((char *)&api + l->symbols[i].offset, &found, sizeof(found));
    }
    l->is_open = true;
    return CRT_OK;
}

crt_status_t crti_cuda_compiler(const crti_cuda_api_t **api_out)
{
    crt_status_t status;

    pthread_mutex_lock(&lock);
    status = open_library(&nvrtc);
    pthread_mutex_unlock(&lock);
    *api_out = &api;
    return status;
}

crt_status_t crti_cuda_library(const crti_cuda_api_t **api_out)
{
    crt_status_t status = CRT_OK;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < COUNT_OF(libraries) && status == CRT_OK; i++)
        status = open_library(&libraries[i]);
    if (status == CRT_OK)
        status = open_library(&nvrtc);
    pthread_mutex_unlock(&lock);
    *api_out = &api;
    return status;
}
