/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a worker. See worker_environment.h. */
#include "runtime/core/client/worker_environment.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/net/protocol.h"

/* They were loaded with one thread each, before the worker was forked. */
static void set_threads(int threads)
{
    static const char *const setters[] = {"openblas_set_num_threads",
                                          "MKL_Set_Num_Threads", "omp_set_num_threads"};

    for (size_t i = 0; i < sizeof(setters) / sizeof(setters[0]); i++) {
        void (*set)(int threads);
        void *symbol = dlsym(RTLD_DEFAULT, setters[i]);

        if (symbol == NULL)
            continue;
        memcpy(&set, &symbol, sizeof(set));
        set(threads);
    }
}

crt_status_t crti_worker_environment(double cpus, const char *gpus)
{
    if (cpus >= 2)
        set_threads(cpus < 1024 ? (int)cpus : 1024);
    if (*gpus && setenv(CRTI_VISIBLE_GPUS, gpus, 1) != 0)
        return crt_raise(CRT_ERR_NO_MEMORY, "the names of GPUs");
    return CRT_OK;
}
