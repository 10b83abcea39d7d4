/* SPDX-License-Identifier: Apache-2.0 */
/* The options `env_vars` and `working_dir` of tasks and actors. */
#ifndef CRTI_CORE_CALLS_ENVIRONMENT_H
#define CRTI_CORE_CALLS_ENVIRONMENT_H

#include "runtime/base/environment.h"

/* What they ask for, upon `parent`, that of the process that asks (NULL: the job's): a variable
 * replaces one of the same name. Without either it is the parent's. Caller owns the result.
 * CRT_ERR_INVALID, CRT_ERR_UNSUPPORTED, CRT_ERR_TOO_LARGE: the detail says what to do. */
crt_status_t crti_environment_of_options(crti_environment_t *parent,
                                         const char *const *env_vars,
                                         const char *working_dir,
                                         crti_environment_t **environment_out);

#endif
