/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: what NVIDIA's driver says about the GPUs of this host.
 *
 * Where it sits
 *     options -> [ nvml ] -> libnvidia-ml.so.1 (dlopen, base/late_library.h)
 * Which file
 *     CRT_NVML_LIBRARY names it where the usual name does not find the right one.
 * Threads
 *     One, at the start of the daemon.
 */
#ifndef CRTI_NODE_NVML_H
#define CRTI_NODE_NVML_H

#include <stdbool.h>

#include "runtime/base/crt_base.h"

#define CRTI_NVML_GPUS 64
#define CRTI_NVML_UUID 48 /* bytes with the final zero: "GPU-" and a UUID fit */
#define CRTI_NVML_NAME 96

typedef struct crti_nvml_gpu {
    /* "GPU-..."; "" when it can't be used: lost, or not ours */
    char uuid[CRTI_NVML_UUID];
    char name[CRTI_NVML_NAME]; /* "NVIDIA H100 80GB HBM3" */
    bool is_divided;           /* by MIG: only its parts can be used */
} crti_nvml_gpu_t;

typedef struct crti_nvml {
    unsigned count;
    crti_nvml_gpu_t gpu[CRTI_NVML_GPUS]; /* by NVML's number */
} crti_nvml_t;

/* CRT_ERR_UNSUPPORTED says why nobody can be asked. */
crt_status_t crti_nvml_read(crti_nvml_t *nvml_out);

#endif
