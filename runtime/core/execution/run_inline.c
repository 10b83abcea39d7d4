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
    crt_call_t *call = user;

    return call->missing == 0 || call->core->execution->is_ending ||
           call->core->broken != CRT_OK;
}

bool crti_run_inline(crti_core_t *core, crt_ref_t *ref)
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
        status = crti_net_wait(core->net, is_complete, call, CRTI_NET_NO_DEADLINE);
    if (status != CRT_OK && !call) {
        crti_pending_fail(p, status, crt_error_detail(), false);
        return true;
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
