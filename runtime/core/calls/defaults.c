/* SPDX-License-Identifier: Apache-2.0 */
/* Defaults of options. See defaults.h. */
#include "runtime/core/calls/defaults.h"

#include "runtime/base/copy_struct.h"
#include "runtime/core/types.h"

#define TAKE(member)                                                                     \
    if (!mine->member)                                                                   \
    mine->member = defaults->member

crt_status_t crti_call_defaults(const crti_function_t *method,
                                const crt_call_options_t *given, crt_call_options_t *mine)
{
    crt_status_t status = CRTI_COPY_STRUCT(mine, given, "CRT_CALL_OPTIONS");
    const crt_call_options_t *defaults = method->call_defaults;

    if (status != CRT_OK || !defaults)
        return status;
    TAKE(try_only);
    TAKE(concurrency_group);
    TAKE(name);
    TAKE(limit_ms);
    TAKE(max_attempts);
    TAKE(retry_exceptions);
    TAKE(generator_backpressure_num_objects);
    TAKE(copies);
    return status;
}

/* Members that two kinds of options have, and that belong together: a caller that says one of them
 * says all. */
#define TAKE_PLACE()                                                                     \
    do {                                                                                 \
        if (!mine->scheduling && !mine->node_id && !mine->node_is_soft) {                \
            mine->scheduling = defaults->scheduling;                                     \
            mine->node_id = defaults->node_id;                                           \
            mine->node_is_soft = defaults->node_is_soft;                                 \
        }                                                                                \
        if (!mine->label_selector && !mine->fallback_selectors) {                        \
            mine->label_selector = defaults->label_selector;                             \
            mine->fallback_selectors = defaults->fallback_selectors;                     \
        }                                                                                \
    } while (0)

crt_status_t crti_task_defaults(const crti_function_t *task,
                                const crt_task_options_t *given, crt_task_options_t *mine)
{
    crt_status_t status = CRTI_COPY_STRUCT(mine, given, "CRT_TASK_OPTIONS");
    const crt_task_options_t *defaults = task->task_defaults;

    if (status != CRT_OK || !defaults)
        return status;
    if (mine->num_cpus == 0 && !mine->no_cpus) {
        mine->num_cpus = defaults->num_cpus;
        mine->no_cpus = defaults->no_cpus;
    }
    TAKE(num_gpus);
    TAKE(resources);
    TAKE(try_only);
    TAKE(max_attempts);
    TAKE(if_infeasible);
    TAKE_PLACE();
    TAKE(name);
    TAKE(limit_ms);
    TAKE(retry_exceptions);
    TAKE(generator_backpressure_num_objects);
    TAKE(backup_after);
    TAKE(copies);
    TAKE(env_vars);
    TAKE(working_dir);
    return status;
}

crt_status_t crti_actor_defaults(const crti_class_t *class_,
                                 const crt_actor_options_t *given,
                                 crt_actor_options_t *mine)
{
    crt_status_t status = CRTI_COPY_STRUCT(mine, given, "CRT_ACTOR_OPTIONS");
    const crt_actor_options_t *defaults = class_ ? class_->defaults : NULL;

    if (status != CRT_OK || !defaults)
        return status;
    TAKE(num_cpus);
    TAKE(num_gpus);
    TAKE(resources);
    TAKE(max_restarts);
    TAKE(max_task_retries);
    TAKE(fenced);
    TAKE(max_concurrency);
    TAKE(max_pending_calls);
    TAKE(if_infeasible);
    TAKE_PLACE();
    TAKE(name_space);
    TAKE(allow_out_of_order_execution);
    TAKE(env_vars);
    TAKE(working_dir);
    return status;
}
