/* SPDX-License-Identifier: Apache-2.0 */
/* Finding the functions of NCCL and of the CUDA runtime. See nccl_library.h. */
#include "collective/backends/nccl_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(a) (sizeof(a) / sizeof(*(a)))

typedef struct symbol {
    const char *name;
    size_t offset; /* of its pointer in crti_nccl_api_t */
} symbol_t;

#define ENTRY(field, symbol) {#symbol, offsetof(crti_nccl_api_t, field)},
static const symbol_t cuda_symbols[] = {CRTI_CUDA_SYMBOLS(ENTRY)};
static const symbol_t nccl_symbols[] = {CRTI_NCCL_SYMBOLS(ENTRY)};
#undef ENTRY

/* The version of the headers first, then what may be there, too: the functions used here are the
 * same in all of them. */
#if CUDART_VERSION >= 13000
static const char *const cuda_names[] = {"libcudart.so.13", "libcudart.so.12",
                                         "libcudart.so.11.0", "libcudart.so"};
#else
static const char *const cuda_names[] = {"libcudart.so.12", "libcudart.so.13",
                                         "libcudart.so.11.0", "libcudart.so"};
#endif
static const char *const nccl_names[] = {"libnccl.so.2", "libnccl.so"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* covers what follows */
static bool was_tried;
static crt_status_t outcome;
static char why[600];
static crti_nccl_api_t api;

const char *crti_nccl_version_text(int version, char *text, size_t size)
{
    int major = version / (version < 10000 ? 1000 : 10000);
    int rest = version % (version < 10000 ? 1000 : 10000);

    snprintf(text, size, "%d.%d.%d", major, rest / 100, rest % 100);
    return text;
}

static void *open_library(const char *what, const char *variable,
                          const char *const *names, size_t count)
{
    const char *chosen = getenv(variable);
    void *library = NULL;
    const char *reason;

    if (chosen && *chosen) {
        library = dlopen(chosen, RTLD_NOW | RTLD_LOCAL);
    } else {
        for (size_t i = 0; i < count && !library; i++)
            library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        for (size_t i = 0; i < count && !library; i++)
            library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    if (library)
        return library;
    reason = dlerror();
    snprintf(why, sizeof(why),
             "%s can't be opened (%.300s); set LD_LIBRARY_PATH, or %s to its file", what,
             reason ? reason : names[0], variable);
    return NULL;
}

static void *find(void *library, const char *name)
{
    return library ? dlsym(library, name) : NULL;
}

static bool find_all(void *library, const char *what, const symbol_t *symbols,
                     size_t count)
{
    for (size_t i = 0; i < count; i++) {
        void *found = find(library, symbols[i].name);

        if (!found) {
            snprintf(why, sizeof(why), "%s has no function %s: it is too old", what,
                     symbols[i].name);
            return false;
        }
        memcpy((char *)&api + symbols[i].offset, &found, sizeof(found));
    }
    return true;
}

static bool load(void)
{
    char text[32], oldest[32];
    void *cuda = open_library("the CUDA runtime", "CRT_CUDART_LIBRARY", cuda_names,
                              COUNT_OF(cuda_names));
    void *nccl =
        cuda ? open_library("NCCL", "CRT_NCCL_LIBRARY", nccl_names, COUNT_OF(nccl_names))
             : NULL;
    void *optional;

    if (!cuda || !nccl ||
        !find_all(cuda, "the CUDA runtime", cuda_symbols, COUNT_OF(cuda_symbols)))
        return false;
    api.get_version = NULL;
    optional = find(nccl, "ncclGetVersion");
    memcpy(&api.get_version, &optional, sizeof(optional));
    if (api.get_version && api.get_version(&api.version) == ncclSuccess &&
        api.version < CRTI_NCCL_OLDEST) {
        snprintf(why, sizeof(why), "NCCL %s is too old, %s is needed",
                 crti_nccl_version_text(api.version, text, sizeof(text)),
                 crti_nccl_version_text(CRTI_NCCL_OLDEST, oldest, sizeof(oldest)));
        return false;
    }
    if (!find_all(nccl, "NCCL", nccl_symbols, COUNT_OF(nccl_symbols)))
        return false;
    optional = find(nccl, "ncclCommRevoke");
    memcpy(&api.revoke, &optional, sizeof(optional));
    optional = find(nccl, "ncclGetLastError");
    memcpy(&api.nccl_detail, &optional, sizeof(optional));
    return true;
}

crt_status_t crti_nccl_library(const crti_nccl_api_t **api_out)
{
    crt_status_t status;

    pthread_mutex_lock(&lock);
    if (!was_tried)
        outcome = load() ? CRT_OK : CRT_ERR_UNSUPPORTED;
    was_tried = true;
    status = outcome;
    pthread_mutex_unlock(&lock);
    /* `why` does not change any more. */
    if (status != CRT_OK)
        return crt_raise(status, "%s", why);
    *api_out = &api;
    return CRT_OK;
}
