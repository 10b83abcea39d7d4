/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a worker that run calls. See executor.h. */
#include "runtime/core/execution/executor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/backlog.h"
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/execution/queue_figures.h"
#include "runtime/core/process/timer.h"

/* About what it takes to wake a thread, and how far the watch of a group of short calls is drawn
 * out: a call that waits for a long one is begun after that time. */
#define WATCH_NS     (50 * CRTI_US)
#define WATCH_MAX_NS (400 * CRTI_US)
#define SHORT_CALLS  16 /* that an executor runs in WATCH_NS: another thread is no help */

/* ------------------------------------------------------------------ the module's state */

static void call_executor(crti_executor_t *executor)
{
    executor->is_called = true;
    executor->group->called_last = executor;
    executor->group->called++;
    executor->group->awake++;
}

/* It takes a call, or there is none for it. */
static void end_called(crti_executor_t *executor)
{
    if (!executor->is_called)
        return;
    executor->is_called = false;
    executor->group->called--;
    executor->group->awake--;
}

static void add_executor(crti_concurrency_group_t *group, crti_executor_t *executor)
{
    executor->group = group;
    executor->next = group->latest;
    executor->is_idle = true;
    group->latest = executor;
    group->executors++;
    group->idle++;
    call_executor(executor);
}

void crti_executors_init(crti_executors_t *executors, crti_core_t *core)
{
    executors->main.core = core;
    executors->group_count = 1;
    executors->groups[0].limit = 1;
    executors->groups[0].watch_ns = WATCH_NS;
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
        executors->groups[i].watch_ns = WATCH_NS;
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
    core->execution->executors.run(executor);
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

static bool may_start(const crti_core_t *core, const crti_concurrency_group_t *group)
{
    return core->execution->executors.run && group->executors < group->limit &&
           !core->execution->is_ending;
}

/* ------------------------------------------------------------------ which one is called */

bool crti_executor_has_work(void *user)
{
    const crti_executor_t *executor = user;
    const crti_execution_t *execution = executor->core->execution;

    return execution->is_ending ||
           (executor->is_called && executor->group->queued && !execution->is_exiting);
}

/* Who receives needs not be woken. */
static crti_executor_t *idle_receiver(const crti_core_t *core,
                                      const crti_concurrency_group_t *group)
{
    crti_executor_t *e = crti_net_receiver(core->net, crti_executor_has_work);

    return e && e->group == group && !e->is_called ? e : NULL;
}

static crti_executor_t *find_idle(const crti_core_t *core,
                                  const crti_concurrency_group_t *group)
{
    crti_executor_t *e = idle_receiver(core, group);

    if (!e)
        for (e = group->latest; !e->is_idle || e->is_called;)
            e = e->next;
    return e;
}

/* The one that was called has not been woken yet. */
static void prefer_receiver(crti_core_t *core, crti_concurrency_group_t *group)
{
    crti_executor_t *receiver = idle_receiver(core, group);

    if (!receiver)
        return;
    end_called(group->called_last);
    call_executor(receiver);
}

/* So many more, if there can be; an errno if there is none at all. */
static int call_more(crti_core_t *core, crti_concurrency_group_t *group, unsigned count)
{
    int error = 0;

    for (; count && group->called < group->idle; count--)
        call_executor(find_idle(core, group));
    for (; count && error == 0 && may_start(core, group); count--)
        error = start_executor(core, group);
    return group->executors ? 0 : error;
}

static void watch(crti_core_t *core, crti_concurrency_group_t *group, uint64_t now_ns)
{
    group->watch_taken = group->taken;
    group->watch_at_ns = now_ns + group->watch_ns;
    crti_core_wake_at(core, group->watch_at_ns);
}

static bool may_call(const crti_core_t *core, const crti_concurrency_group_t *group)
{
    return group->called < group->idle || may_start(core, group);
}

/* Those that run now have for longer than a thread needs to wake. */
static void count_on_none(crti_concurrency_group_t *group)
{
    for (crti_executor_t *e = group->latest; e; e = e->next)
        if (!e->is_idle && !e->is_long) {
            e->is_long = true;
            group->awake--;
        }
}

static void end_watch(crti_core_t *core, crti_concurrency_group_t *group, uint64_t now_ns)
{
    unsigned running = group->executors - group->idle;
    uint64_t taken = group->taken - group->watch_taken;

    group->watch_at_ns = 0;
    if (group->queued && taken >= (uint64_t)SHORT_CALLS * running) {
        group->watch_ns =
            group->watch_ns < WATCH_MAX_NS ? 2 * group->watch_ns : WATCH_MAX_NS;
        watch(core, group, now_ns);
        return;
    }
    group->watch_ns = WATCH_NS;
    if (taken == 0)
        count_on_none(group);
    if (group->queued <= group->called)
        return;
    call_more(core, group, group->queued - group->called);
    crti_net_wake(core->net);
}

void crti_executors_tick(crti_core_t *core, uint64_t now_ns)
{
    crti_executors_t *executors = &core->execution->executors;

    for (unsigned i = 0; i < executors->group_count; i++) {
        crti_concurrency_group_t *group = &executors->groups[i];

        if (group->watch_at_ns && group->watch_at_ns <= now_ns)
            end_watch(core, group, now_ns);
        else if (group->watch_at_ns)
            crti_core_wake_at(core, group->watch_at_ns);
    }
}

bool crti_executor_queue(crt_call_t *call, int *error_out)
{
    crti_core_t *core = call->core;
    crti_concurrency_group_t *group = &core->execution->executors.groups[call->group];

    *error_out = 0;
    crti_list_append(&group->runnable, &call->link);
    call->is_runnable = true;
    group->queued++;
    if (group->awake == 0)
        *error_out = call_more(core, group, 1);
    else if (group->queued == 1 && group->called == 1 && group->executors > 1)
        prefer_receiver(core, group);
    else if (!group->watch_at_ns && group->queued > group->called &&
             may_call(core, group))
        watch(core, group, crti_now_ns());
    crti_queue_entered(call, group->queued > group->idle);
    return group->executors || *error_out == 0;
}

void crti_executor_unqueue(crt_call_t *call)
{
    crti_list_remove(&call->link);
    if (call->is_runnable) {
        call->core->execution->executors.groups[call->group].queued--;
        crti_queue_left(call);
    }
    call->is_runnable = false;
}

crt_call_t *crti_executor_take(crti_executor_t *executor)
{
    crti_concurrency_group_t *group = executor->group;
    crt_call_t *call;

    if (group->queued == 0)
        return NULL;
    call = CRTI_CONTAINER(group->runnable.next, crt_call_t, link);
    crti_executor_unqueue(call);
    end_called(executor);
    executor->is_idle = false;
    group->idle--;
    group->awake++;
    group->taken++;
    if (group->queued == 0 && group->called)
        for (crti_executor_t *e = group->latest; e; e = e->next)
            end_called(e);
    return call;
}

void crti_executor_idle(crti_executor_t *executor)
{
    crti_concurrency_group_t *group = executor->group;

    if (!executor->is_long)
        group->awake--;
    executor->is_long = false;
    executor->is_idle = true;
    group->idle++;
    if (group->queued || group->awake == 0)
        call_executor(executor);
}

void crti_executors_open(crti_core_t *core, void (*run)(crti_executor_t *executor))
{
    crti_executors_t *executors = &core->execution->executors;

    executors->run = run;
    for (unsigned i = 0; i < executors->group_count; i++) {
        crti_concurrency_group_t *group = &executors->groups[i];

        if (group->queued > group->called)
            call_more(core, group, group->queued - group->called);
    }
}

void crti_executors_join(crti_core_t *core)
{
    crti_executors_t *executors = &core->execution->executors;

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

    return p && p->spec.actor && p->spec.group == group &&
           crti_id_equal(p->spec.actor->id, executor->core->actor_id);
}

bool crti_executor_would_stall(const crti_executor_t *executor, unsigned group)
{
    const crti_concurrency_group_t *g =
        &executor->core->execution->executors.groups[group];

    if (executor->group != g || g->executors < g->limit)
        return false;
    for (const crti_executor_t *e = g->latest; e; e = e->next)
        if (e != executor && !waits_for_group(e, group))
            return false;
    return true;
}
