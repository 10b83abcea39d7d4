/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that may begin a task only so often (crt_task_t.max_calls): before the last time it says
 * so.
 *
 * Where it sits
 *     execute.c (a task begins), incoming.c (one comes) -> [ max_calls.c ] -> RETIRING
 * The end of such a worker
 *     Callers send nothing more after RETIRING, and what they had sent goes back to them. They
 *     return their lease as one of a worker that retires; its node tells it to end when it has
 *     answered (crti_execution_retire).
 * Threads
 *     The core's lock.
 */
#include <stdlib.h>

#include "runtime/core/execution/execution_int.h"
#include "runtime/core/process/remotes.h"

static bool is_last(crti_core_t *core, const crti_function_t *function)
{
    unsigned **runs = &core->execution->runs;

    if (!*runs)
        *runs = calloc(core->program->task_count, sizeof(**runs));
    return !*runs || /* better too early than never */
           ++(*runs)[function->index] >= (unsigned)function->task->max_calls;
}

void crti_max_calls_begin(crt_call_t *call)
{
    crti_core_t *core = call->core;

    if (core->execution->is_spent || !is_last(core, call->function))
        return;
    core->execution->is_spent = true;
    call->is_started = true; /* this one goes on */
    CRTI_LIST_FOREACH_SAFE (item, &core->remotes->clients) {
        crti_client_t *client =
            crti_client_ref(CRTI_CONTAINER(item, crti_client_t, link));

        crti_incoming_refuse_more(client);
        crti_incoming_give_back(client);
        crti_client_unref(client);
    }
    crti_net_flush(core->net);
}
