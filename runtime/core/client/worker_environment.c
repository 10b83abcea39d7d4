/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a worker. See worker_environment.h. */
#include "runtime/core/client/worker_environment.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/net/protocol.h"

#define OMP_THREADS "OMP_NUM_THREADS"

/* They were loaded with one thread each, before the worker was forked. Where the user has set a
 * variable of its own for one, that counts. */
static void set_threads(int threads)
{
    static const struct {
        const char *setter, *variable;
    } libraries[] = {{"openblas_set_num_threads", "OPENBLAS_NUM_THREADS"},
                     {"MKL_Set_Num_Threads", "MKL_NUM_THREADS"},
                     {"omp_set_num_threads", ""}};

    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        void (*set)(int threads);
        void *symbol = dlsym(RTLD_DEFAULT, libraries[i].setter);

        if (symbol == NULL || getenv(libraries[i].variable))
            continue;
        memcpy(&set, &symbol, sizeof(set));
        set(threads);
    }
}

/* For what is loaded, and for what is loaded later, or executed. */
static crt_status_t follow_cpus(double cpus)
{
    int threads = cpus < 1 ? 1 : cpus < 1024 ? (int)cpus : 1024;
    char text[16];

    unsetenv(CRTI_NODE_SETS_OMP);
    snprintf(text, sizeof(text), "%d", threads);
    if (setenv(OMP_THREADS, text, 1) != 0)
        return crt_raise(CRT_ERR_NO_MEMORY, OMP_THREADS);
    if (threads > 1)
        set_threads(threads);
    return CRT_OK;
}

crt_status_t crti_worker_environment(double cpus, const char *gpus)
{
    crt_status_t status = getenv(CRTI_NODE_SETS_OMP) ? follow_cpus(cpus) : CRT_OK;

    if (status == CRT_OK && *gpus && setenv(CRTI_VISIBLE_GPUS, gpus, 1) != 0)
        status = crt_raise(CRT_ERR_NO_MEMORY, "the names of GPUs");
    return status;
}
