/* SPDX-License-Identifier: Apache-2.0 */
/* Submitting tasks.
 *
 * Where it sits
 *     crt_submit -> [ task_api.c ] -> given.c (arguments), submit.c (the pool), outgoing.c (the call)
 */
#include "runtime/core/calls/scheduling.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/core.h"

/* `how` has room for what the options say of nodes. */
static crt_status_t make_shape(const crt_task_options_t *o, crti_scheduling_t *how,
                               crti_task_shape_t *shape)
{
    const crt_task_options_t none = {.struct_size = sizeof(none)};
    crt_status_t status;

    o = o ? o : &none;
    shape->if_infeasible = CRTI_INFEASIBLE_DEFAULT;
    shape->how = &crti_scheduling_default;
    shape->prefer = (crti_id_t){0};
    if (o->struct_size < sizeof(*o))
        return crt_raise(CRT_ERR_INVALID, "make task options with CRT_TASK_OPTIONS");
    status = crti_scheduling_resources(o->num_cpus, 1, o->num_gpus, o->resources,
                                       &shape->resources);
    if (status == CRT_OK)
        status = crti_scheduling_infeasible(o->fail_if_infeasible, &shape->if_infeasible);
    if (status == CRT_OK && (o->scheduling || o->node_id || o->node_is_soft ||
                             o->label_selector || o->fallback_selectors)) {
        shape->how = how;
        status = crti_scheduling_where(o->scheduling, o->node_id, o->node_is_soft,
                                       o->label_selector, o->fallback_selectors, how);
    }
    return status;
}

static void submit(crti_core_t *core, const crt_task_t *task,
                   const crt_task_options_t *options, const crti_given_t *given,
                   crt_ref_t **refs, size_t returns)
{
    crti_target_t target = {.returns = returns,
                            .max_retries = options ? options->max_retries : 0,
                            .try_only = options && options->try_only};
    crti_task_shape_t shape;
    crti_scheduling_t how;
    crt_status_t status = crti_program_task(&core->program, task, &target.function);

    if (status == CRT_OK)
        status = make_shape(options, &how, &shape);
    if (status == CRT_OK && options && options->max_retries < -1)
        status =
            crt_raise(CRT_ERR_INVALID, "max_retries is -1 (without limit), 0 or more");
    if (status == CRT_OK)
        status = crti_task_pool(core, &shape, &target.pool);
    if (status == CRT_OK)
        crti_call_out(core, &target, given, refs);
    else
        crti_call_refused(core, status, refs, returns);
}

void crt_submit_returns_v(crt_ref_t **refs, size_t returns, const crt_task_t *task,
                          const crt_task_options_t *options, const crt_arg_t *args,
                          size_t count)
{
    crti_core_t *core = crti_enter_unlocked();
    crti_given_t given;
    crt_status_t status;

    if (!core) {
        crti_call_without_core(args, count, refs, returns);
        return;
    }
    status = crti_given_take(core, args, count, &given);
    crti_net_lock(core->net);
    if (status == CRT_OK)
        submit(core, task, options, &given, refs, returns);
    else
        crti_call_refused(core, status, refs, returns);
    for (size_t i = 0; i < returns; i++)
        refs[i]->handles++;
    crti_net_unlock(core->net);
    crti_given_end(core, &given);
    crti_leave_unlocked(core);
}

crt_ref_t *crt_submit_v(const crt_task_t *task, const crt_task_options_t *options,
                        const crt_arg_t *args, size_t count)
{
    crt_ref_t *ref;

    crt_submit_returns_v(&ref, 1, task, options, args, count);
    return ref;
}
