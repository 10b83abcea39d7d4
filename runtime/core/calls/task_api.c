/* SPDX-License-Identifier: Apache-2.0 */
/* Submitting tasks.
 *
 * Where it sits
 *     crt_submit -> [ task_api.c ] -> given.c (arguments), submit.c (the pool), outgoing.c (the
 *     call)
 */
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/calls/defaults.h"
#include "runtime/core/calls/environment.h"
#include "runtime/core/calls/placement_group.h"
#include "runtime/core/calls/scheduling.h"
#include "runtime/core/calls/stream.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"

/* `how` has room for what the options say of nodes. The environment is the caller's to drop. */
static crt_status_t make_shape(crti_core_t *core, const crt_task_options_t *o,
                               crti_scheduling_t *how, crti_task_shape_t *shape)
{
    crt_status_t status;
    bool said;

    shape->if_infeasible = CRTI_INFEASIBLE_DEFAULT;
    shape->how = &crti_scheduling_default;
    shape->prefer = shape->avoid = (crti_id_t){0};
    shape->environment = NULL;
    if (o->no_cpus && o->num_cpus != 0)
        return crt_raise(CRT_ERR_INVALID, "num_cpus is %g, and no_cpus is set",
                         o->num_cpus);
    status = crti_scheduling_resources(o->num_cpus, o->no_cpus ? 0 : 1, o->num_gpus,
                                       o->resources, &shape->resources);
    if (status == CRT_OK)
        status = crti_scheduling_infeasible(o->if_infeasible, &shape->if_infeasible);
    said = o->scheduling || o->node_id || o->node_is_soft || o->label_selector ||
           o->fallback_selectors;
    *how = crti_scheduling_default;
    if (status == CRT_OK && said)
        status = crti_scheduling_where(o->scheduling, o->node_id, o->node_is_soft,
                                       o->label_selector, o->fallback_selectors, how);
    if (status == CRT_OK)
        status = crti_placement_group_option(core, o->placement_group, o->bundle_plus_one,
                                             o->capture_child_tasks, how, said,
                                             &shape->captures_children);
    if (said || !crti_id_is_zero(how->group))
        shape->how = how;
    return status == CRT_OK
               ? crti_environment_of_options(core->calls->environment, o->env_vars,
                                             o->working_dir, &shape->environment)
               : status;
}

static crt_status_t take_options(const crt_task_options_t *o, crti_target_t *target)
{
    crt_status_t status = CRT_OK;

    target->try_only = o->try_only;
    target->name = o->name;
    target->timeout_ms = o->limit_ms == CRT_FOREVER ? 0 : o->limit_ms;
    target->retry_exceptions = o->retry_exceptions;
    target->backup_after = o->backup_after;
    target->copies = o->copies;
    if (target->stream)
        status = crti_call_stream_window(o->generator_backpressure_num_objects,
                                         &target->stream->window);
    if (status != CRT_OK)
        return status;
    status = crti_retries(o->max_attempts, CRTI_TASK_RETRIES, &target->max_retries);
    return status == CRT_OK ? crti_backup_check(target) : status;
}

static void submit(crti_core_t *core, const crt_task_t *task,
                   const crt_task_options_t *options, const crti_given_t *given,
                   crt_ref_t **refs, size_t returns, crt_stream_t *stream)
{
    crti_target_t target = {
        .returns = returns, .max_retries = CRTI_TASK_RETRIES, .stream = stream};
    crti_task_shape_t shape = {.environment = NULL};
    crti_scheduling_t how;
    crt_task_options_t o;
    crt_status_t status = crti_program_task(core->program, task, &target.function);

    if (status == CRT_OK)
        status = crti_task_defaults(target.function, options, &o);
    if (status == CRT_OK)
        status = make_shape(core, &o, &how, &shape);
    if (status == CRT_OK)
        status = take_options(&o, &target);
    if (status == CRT_OK)
        status = crti_task_pool(core, &shape, &target.pool);
    if (status == CRT_OK)
        crti_call_out(core, &target, given, refs);
    else
        crti_call_refused(core, status, refs, returns);
    crti_environment_drop(shape.environment); /* the pool keeps it */
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
        submit(core, task, options, &given, refs, returns, NULL);
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

crt_stream_t *crt_submit_stream_v(const crt_task_t *task,
                                  const crt_task_options_t *options,
                                  const crt_arg_t *args, size_t count)
{
    crti_core_t *core = crti_enter_unlocked();
    crt_stream_t *stream;
    crti_given_t given;
    crt_status_t status;

    if (!core)
        return crti_call_stream_refused(args, count);
    status = crti_given_take(core, args, count, &given);
    crti_net_lock(core->net);
    stream = crti_call_stream_new(core);
    if (stream && status == CRT_OK)
        submit(core, task, options, &given, &stream->completed, 1, stream);
    else if (stream)
        crti_call_refused(core, status, &stream->completed, 1);
    crti_net_unlock(core->net);
    crti_given_end(core, &given);
    crti_leave_unlocked(core);
    return stream;
}
