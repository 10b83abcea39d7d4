/* SPDX-License-Identifier: Apache-2.0 */
/* How many calls wait in an actor's process, and for how long: for `crt list actors --detail`.
 *
 * Where it sits
 *     executor.c (queues) -> [ queue_figures.c ] -> blackboard.h -> node/dispatch/state.c -> the
 *     head, when somebody asks
 * Idea
 *     A clock for each call would cost more than a call. One call at a time is watched: the first
 *     that has to wait when none is.
 * Threads
 *     The core's lock.
 */
#include "runtime/core/execution/queue_figures.h"

#include "runtime/base/clock.h"
#include "runtime/core/execution/execution_int.h"

static void put(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

void crti_queue_entered(crt_call_t *call, bool waits)
{
    crti_core_t *core = call->core;
    crti_queue_figures_t *figures = &core->execution->queue_figures;

    if (!core->blackboard || !core->execution->class_)
        return;
    put(&core->blackboard->queued, ++figures->queued);
    if (!waits || figures->watched)
        return;
    figures->watched = call;
    put(&core->blackboard->waits_since_ns, crti_now_ns());
}

void crti_queue_left(crt_call_t *call)
{
    crti_core_t *core = call->core;
    crti_queue_figures_t *figures = &core->execution->queue_figures;
    uint64_t since;

    if (!core->blackboard || !core->execution->class_)
        return;
    put(&core->blackboard->queued, --figures->queued);
    if (figures->watched != call)
        return;
    figures->watched = NULL;
    since = atomic_load_explicit(&core->blackboard->waits_since_ns, memory_order_relaxed);
    put(&core->blackboard->waited_ns, crti_now_ns() - since);
    put(&core->blackboard->waits_since_ns, 0);
}
