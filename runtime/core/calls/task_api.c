/* SPDX-License-Identifier: Apache-2.0 */
/* Submitting tasks.
 *
 * Where it sits
 *     crt_submit -> [ task_api.c ] -> given.c (arguments), submit.c (the pool), outgoing.c (the call)
 */
#include "runtime/core/calls/scheduling.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/core.h"

static crt_status_t make_shape(const crt_task_options_t *o, crti_task_shape_t *shape)
{
    const crt_task_options_t none = {.struct_size = sizeof(none)};
    crt_status_t status;

    o = o ? o : &none;
    *shape = (crti_task_shape_t){.if_infeasible = CRTI_INFEASIBLE_DEFAULT};
    if (o->struct_size < sizeof(*o))
        return crt_raise(CRT_ERR_INVALID, "make task options with CRT_TASK_OPTIONS");
    status = crti_scheduling_resources(o->num_cpus, 1, o->num_gpus, o->resources,
                                       &shape->resources);
    return status == CRT_OK
               ? crti_scheduling_infeasible(o->fail_if_infeasible, &shape->if_infeasible)
               : status;
}

static crt_ref_t *submit(crti_core_t *core, const crt_task_t *task,
                         const crt_task_options_t *options, const crti_given_t *given)
{
    crti_target_t target = {.actor = NULL,
                            .max_retries = options ? options->max_retries : 0,
                            .try_only = options && options->try_only};
    crti_task_shape_t shape;
    crt_status_t status = crti_program_task(&core->program, task, &target.function);

    if (status == CRT_OK)
        status = make_shape(options, &shape);
    if (status == CRT_OK && options && options->max_retries < -1)
        status =
            crt_raise(CRT_ERR_INVALID, "max_retries is -1 (without limit), 0 or more");
    if (status == CRT_OK)
        status = crti_task_pool(core, &shape, &target.pool);
    return status == CRT_OK ? crti_call_out(core, &target, given)
                            : crti_ref_failed(core, status);
}

crt_ref_t *crt_submit_v(const crt_task_t *task, const crt_task_options_t *options,
                        const crt_arg_t *args, size_t count)
{
    crti_core_t *core = crti_enter_unlocked();
    crti_given_t given;
    crt_status_t status;
    crt_ref_t *ref;

    if (!core)
        return crti_given_refused(args, count);
    status = crti_given_take(core, args, count, &given);
    crti_net_lock(core->net);
    ref = status == CRT_OK ? submit(core, task, options, &given)
                           : crti_ref_failed(core, status);
    ref->handles++;
    crti_net_unlock(core->net);
    crti_given_end(core, &given);
    crti_leave_unlocked(core);
    return ref;
}
