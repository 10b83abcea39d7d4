/* SPDX-License-Identifier: Apache-2.0 */
/* What libraries in a worker find of the CPUs and GPUs that it was given.
 *
 * Where it sits
 *     client.c (ATTACHED of a worker, before anything of the user runs) -> [ worker_environment.c ]
 */
#ifndef CRTI_CORE_CLIENT_WORKER_ENVIRONMENT_H
#define CRTI_CORE_CLIENT_WORKER_ENVIRONMENT_H

#include "runtime/base/crt_base.h"

/* BLAS and OpenMP, where the program has them, compute with as many threads as there are whole CPUs
 * (one else), and OMP_NUM_THREADS says so, unless the user has set it; CUDA sees the GPUs, unless
 * there are none ("": it sees what its driver sees). */
crt_status_t crti_worker_environment(double cpus, const char *gpus);

#endif
