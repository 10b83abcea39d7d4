/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a call, a task or an actor: what the caller says, and for each member that the caller
 * leaves zero what the definition of the method, task or class says.
 *
 * Where it sits
 *     client/actor_api.c, task_api.c, actor_create.c -> [ defaults.c ] -> base/copy_struct.h
 * Threads
 *     No state.
 */
#ifndef CRTI_CORE_CALLS_DEFAULTS_H
#define CRTI_CORE_CALLS_DEFAULTS_H

#include "runtime/core/process/program.h"

/* `given` may be NULL. Errors: those of crti_copy_struct. */
crt_status_t crti_call_defaults(const crti_function_t *method,
                                const crt_call_options_t *given,
                                crt_call_options_t *options_out);
crt_status_t crti_task_defaults(const crti_function_t *task,
                                const crt_task_options_t *given,
                                crt_task_options_t *options_out);
/* `class_` may be NULL: no class, no defaults. */
crt_status_t crti_actor_defaults(const crti_class_t *class_,
                                 const crt_actor_options_t *given,
                                 crt_actor_options_t *options_out);

#endif
