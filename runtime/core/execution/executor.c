/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a worker that run calls. See executor.h. */
#include "runtime/core/execution/executor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/backlog.h"
#include "runtime/core/core.h"
#include "runtime/core/execution/queue_figures.h"

/* ------------------------------------------------------------------ the module's state */

static void add_executor(crti_concurrency_group_t *group, crti_executor_t *executor)
{
    executor->group = group;
    executor->next = group->latest;
    group->latest = executor;
    group->executors++;
    group->idle++;
}

void crti_executors_init(crti_executors_t *executors, crti_core_t *core)
{
    executors->main.core = core;
    executors->group_count = 1;
    executors->groups[0].limit = 1;
    crti_list_init(&executors->groups[0].runnable);
    add_executor(&executors->groups[0], &executors->main);
}

void crti_executors_set(crti_executors_t *executors, const crti_class_t *class_,
                        unsigned max_concurrency)
{
    executors->groups[0].limit = max_concurrency ? max_concurrency : 1;
    executors->group_count = class_->group_count + 1;
    for (unsigned i = 1; i < executors->group_count; i++) {
        crti_list_init(&executors->groups[i].runnable);
        executors->groups[i].limit =
            class_->user->concurrency_groups[i - 1]->max_concurrency;
    }
}

void crti_executors_fini(crti_executors_t *executors)
{
    free(executors->main.blocking.deadlock);
    for (unsigned i = 0; i < executors->group_count; i++) {
        crti_executor_t *executor = executors->groups[i].latest;

        while (executor && executor != &executors->main) {
            crti_executor_t *next = executor->next;

            free(executor->blocking.deadlock);
            free(executor);
            executor = next;
        }
    }
}

/* ------------------------------------------------------------------ threads */

static void *run_thread(void *user)
{
    crti_executor_t *executor = user;
    crti_core_t *core = executor->core;

    crti_net_lock(core->net);
    core->execution.executors.run(executor);
    crti_net_unlock(core->net);
    return NULL;
}

/* An errno. Without one more the calls wait for those that there are. */
static int start_executor(crti_core_t *core, crti_concurrency_group_t *group)
{
    crti_executor_t *executor = calloc(1, sizeof(*executor));
    int error;

    if (!executor)
        return ENOMEM;
    executor->core = core;
    error = crti_thread_start(&executor->thread, NULL, run_thread, executor);
    if (error == 0) {
        add_executor(group, executor);
        return 0;
    }
    free(executor);
    crti_log(CRTI_LOG_WARN, "core",
             "an actor that may run %u calls at a time runs %u: %s", group->limit,
             group->executors, strerror(error));
    return error;
}

static bool needs_thread(const crti_core_t *core, const crti_concurrency_group_t *group)
{
    return core->execution.executors.run && group->executors < group->limit &&
           group->queued > group->idle && !core->execution.is_ending;
}

bool crti_executor_queue(crt_call_t *call, int *error_out)
{
    crti_core_t *core = call->core;
    crti_concurrency_group_t *group = &core->execution.executors.groups[call->group];

    *error_out = 0;

    crti_list_append(&group->runnable, &call->link);
    call->is_runnable = true;
    group->queued++;
    if (needs_thread(core, group))
        *error_out = start_executor(core, group);
    crti_queue_entered(call, group->queued > group->idle);
    return group->executors || *error_out == 0;
}

void crti_executor_unqueue(crt_call_t *call)
{
    crti_list_remove(&call->link);
    if (call->is_runnable) {
        call->core->execution.executors.groups[call->group].queued--;
        crti_queue_left(call);
    }
    call->is_runnable = false;
}

crt_call_t *crti_executor_take(crti_executor_t *executor)
{
    crti_list_t *runnable = &executor->group->runnable;
    crt_call_t *call;

    if (crti_list_is_empty(runnable))
        return NULL;
    call = CRTI_CONTAINER(runnable->next, crt_call_t, link);
    crti_executor_unqueue(call);
    executor->group->idle--;
    return call;
}

void crti_executor_idle(crti_executor_t *executor)
{
    executor->group->idle++;
}

void crti_executors_open(crti_core_t *core, void (*run)(crti_executor_t *executor))
{
    crti_executors_t *executors = &core->execution.executors;

    executors->run = run;
    for (unsigned i = 0; i < executors->group_count; i++)
        while (needs_thread(core, &executors->groups[i]))
            if (start_executor(core, &executors->groups[i]) != 0)
                break;
}

void crti_executors_join(crti_core_t *core)
{
    crti_executors_t *executors = &core->execution.executors;

    crti_net_wake(core->net);
    crti_net_busy(core->net, true);
    crti_net_unlock(core->net);
    for (unsigned i = 0; i < executors->group_count; i++)
        for (crti_executor_t *e = executors->groups[i].latest; e && e != &executors->main;
             e = e->next)
            pthread_join(e->thread, NULL);
    crti_net_lock(core->net);
    crti_net_busy(core->net, false);
}

/* ------------------------------------------------------------------ who runs what */

const crti_executor_t *crti_executor_busy(const crti_executors_t *executors)
{
    for (unsigned i = 0; i < executors->group_count; i++)
        for (const crti_executor_t *e = executors->groups[i].latest; e; e = e->next)
            if (e->running)
                return e;
    return NULL;
}

crt_call_t *crti_executors_find(const crti_executors_t *executors,
                                const crti_pending_t *pending)
{
    for (unsigned i = 0; i < executors->group_count; i++)
        for (const crti_executor_t *e = executors->groups[i].latest; e; e = e->next)
            for (crt_call_t *call = e->running; call; call = call->outer)
                if (call->pending == pending)
                    return call;
    return NULL;
}

/* Does it wait for a call that runs in that group of this actor, or will? */
static bool waits_for_group(const crti_executor_t *executor, unsigned group)
{
    const crt_ref_t *ref = executor->blocking.ref;
    const crti_pending_t *p = ref && ref->is_owned ? crti_ref_pending(ref) : NULL;

    return p && p->actor && p->group == group &&
           crti_id_equal(p->actor->id, executor->core->actor_id);
}

bool crti_executor_would_stall(const crti_executor_t *executor, unsigned group)
{
    const crti_concurrency_group_t *g =
        &executor->core->execution.executors.groups[group];

    if (executor->group != g || g->executors < g->limit)
        return false;
    for (const crti_executor_t *e = g->latest; e; e = e->next)
        if (e != executor && !waits_for_group(e, group))
            return false;
    return true;
}
