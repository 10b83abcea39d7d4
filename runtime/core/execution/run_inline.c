/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that waits for its own task runs it itself, in the thread that waits.
 *
 * Where it sits
 *     client/wait.c -> [ run_inline.c ] -> calls/submit.c (takes the task back), execute.c
 * Threads
 *     An executor of a worker; the core's lock.
 */
#include "runtime/core/calls/tasks.h"
#include "runtime/core/execution/execution_int.h"
#include "runtime/core/process/entry.h"

#define INLINE_MAX 2000 /* tasks within tasks on one stack */

static bool is_complete(void *user)
{
    const crt_call_t *call = user;

    return call->missing == 0 || call->pending->attempt.cancel ||
           call->core->execution->is_ending;
}

/* An argument without a value: all of them are waited for, so a cycle through one is one. NULL:
 * their values are only brought here. */
static crt_ref_t *first_missing(const crt_call_t *call)
{
    for (unsigned i = 0; call->missing && i < call->arg_count; i++)
        if (call->args[i].ref && call->args[i].ref->content == CRTI_CONTENT_NONE)
            return call->args[i].ref;
    return NULL;
}

/* What ends the wait of this thread is no end of a task that it has not begun. */
static bool is_of_wait(crt_status_t status)
{
    return status == CRT_ERR_CANCELLED || status == CRT_ERR_INTERRUPTED;
}

bool crti_may_run_inline(const crti_executor_t *executor, crt_ref_t *ref, bool is_late)
{
    return executor->inline_depth < INLINE_MAX &&
           crti_task_may_take(executor->core, ref, is_late);
}

bool crti_run_inline(crti_core_t *core, crt_ref_t *ref, crt_status_t *status_out)
{
    crti_executor_t *executor = crti_running()->executor;
    crti_pending_t *p;
    crt_call_t *call = NULL;
    crt_status_t status;

    if (executor->inline_depth >= INLINE_MAX)
        return false;
    p = crti_task_take(core, ref);
    if (!p)
        return false;
    status = crti_incoming_own(p, &call);
    if (status == CRT_OK)
        status = crti_wait_for(core, is_complete, call, -1, first_missing(call),
                               "the arguments of a task that it runs itself");
    if (status != CRT_OK && !call) {
        crti_pending_fail(p, status, crt_error_detail(), false);
        return true;
    }
    if (p->attempt.cancel || is_of_wait(status)) {
        crti_incoming_give_back_call(call);
        *status_out = status;
        return status == CRT_OK;
    }
    executor->inline_depth++;
    if (status != CRT_OK) {
        crti_call_set_error(call, status, crt_error_detail());
        crti_call_finish(call, true);
    } else {
        crti_execute(executor, call);
    }
    executor->inline_depth--;
    return true;
}
