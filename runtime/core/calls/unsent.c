/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that leave their queue unsent: the worker that waits for one runs it itself, and what
 * nobody can ask for any more never runs.
 *
 * Where it sits
 *     execution/run_inline.c (a wait), wait.c (a handle is dropped) -> [ unsent.c ] -> submit.c,
 *     pending.c
 * Threads
 *     The core's lock.
 */
#include "runtime/base/clock.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/timer.h"

#define UNWANTED_NS CRTI_MS
#define LACKS_NS    CRTI_S
#define TAKE_DEPTH  100 /* of a chain of tasks, looked at for one that can begin */

/* The call behind the first ref that `p` waits for. Thousands may come one by one, and each time it
 * is asked for. */
static crti_pending_t *first_missing(crti_pending_t *p)
{
    for (; p->looked_at < p->slot_count; p->looked_at++) {
        crt_ref_t *ref = p->slots[p->looked_at].ref;

        if (ref && ref->content == CRTI_CONTENT_NONE)
            return ref->is_owned ? crti_ref_call(ref) : NULL;
    }
    p->looked_at = 0; /* one that had a value was lost */
    return NULL;
}

static crti_pending_t *find_takeable(crti_core_t *core, crt_ref_t *ref)
{
    crti_pending_t *p = ref->is_owned ? crti_ref_call(ref) : NULL;
    crti_resources_t mine = {.count = 0};

    /* What it waits for may be one. */
    for (int i = 0; i < TAKE_DEPTH && p && p->attempt.state == CRTI_ATTEMPT_ARGUMENTS;
         i++)
        p = first_missing(p);
    if (!p || !p->pool || p->attempt.state != CRTI_ATTEMPT_QUEUED ||
        p->spec.function->task->max_calls ||
        p->stream ||   /* whoever takes its items is this thread, too */
        p->deadline || /* the thread that waits hears of it */
        !crti_scheduling_is_any(p->pool->shape.how) || p->pool->shape.environment ||
        crti_resources_set(&mine, "CPU",
                           (int64_t)(core->cpus * CRTI_RESOURCE_ONE + 0.5)) != CRT_OK ||
        !crti_resources_fit(&mine, &p->pool->shape.resources))
        return NULL;
    return p;
}

/* What the node said holds for the tasks that follow soon, too: those of a recursion. */
static bool lacks_worker(const crti_task_pool_t *pool)
{
    return pool->lacks_worker_ns && crti_now_ns() - pool->lacks_worker_ns < LACKS_NS;
}

bool crti_task_may_take(crti_core_t *core, crt_ref_t *ref, bool is_late)
{
    const crti_pending_t *p = find_takeable(core, ref);

    return p && (!is_late || lacks_worker(p->pool));
}

crti_pending_t *crti_task_take(crti_core_t *core, crt_ref_t *ref)
{
    crti_pending_t *p = find_takeable(core, ref);

    if (!p)
        return NULL;
    if (p->backup)
        crti_backup_drop(p);
    crti_pending_unlink(p);
    crti_attempt_run_inline(&p->attempt);
    crti_task_pump(p->pool); /* a request for a worker may be too much now */
    return p;
}

/* Whether the call is all that holds one of its results. */
static bool is_forsaken(const crt_ref_t *ref)
{
    return ref->owned.local == 1 && ref->owned.pins == 0 &&
           ref->owned.borrower_count == 0;
}

/* The last one first: of many that are dropped in their order it is held longest. */
static bool is_unwanted(const crti_pending_t *p)
{
    if (!is_forsaken(p->result))
        return false;
    for (unsigned i = p->spec.returns - 1; i > 0; i--)
        if (!is_forsaken(p->more[i - 1]))
            return false;
    return true;
}

void crti_task_forsaken(crt_ref_t *result)
{
    crti_pending_t *p = is_forsaken(result) ? crti_ref_call(result) : NULL;
    crti_task_pool_t *pool = p ? p->pool : NULL;

    if (!pool || p->stream || !crti_attempt_is_waiting(&p->attempt) || !is_unwanted(p))
        return;
    if (p->backup)
        crti_backup_drop(p);
    crti_pending_fail(p, CRT_ERR_CANCELLED, "its result was dropped before it began",
                      p->attempt.may_have_run);
    /* A worker that was asked for may be too many now; but more tasks may follow. */
    crti_core_wake_at(pool->core, crti_now_ns() + UNWANTED_NS);
}
