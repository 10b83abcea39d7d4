/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking: a thread waits until something has come, and what a worker does about its CPU meanwhile.
 *
 * Where it sits
 *     wait.c, actor.c, submit.c, node_ask.c -> [ blocking.c ] -> crti_net_wait (who waits makes progress)
 * A worker's main thread that waits
 *     1 ms        tells the node (its CPUs may be lent), and core->on_blocked: tasks that were not
 *                 started are given back, since what it waits for may depend on them
 *     10 ms       core->on_long_wait, and later at growing intervals, since others may begin to wait
 *                 after us: cycles of waiting processes are looked for
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/core/core.h"

#define BLOCKED_AFTER (1 * CRTI_MS)
#define CHAIN_AFTER   (10 * CRTI_MS)
#define CHAIN_EVERY   (1 * CRTI_S)
#define LONGEST_MS    INT64_C(1000000000000) /* longer is without limit */

typedef struct waiting {
    crti_core_t *core;
    bool (*done)(void *user);
    void *user;
} waiting_t;

static bool is_over(void *user)
{
    waiting_t *w = user;

    return w->done(w->user) || w->core->is_closing || w->core->broken != CRT_OK ||
           ((w->core->blocking.deadlock || w->core->blocking.is_cancelled) &&
            crti_running());
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void set_blocked(crti_core_t *core, bool is_blocked)
{
    core->blocking.is_blocked = is_blocked;
    crti_node_notice(core, is_blocked ? CRTI_MSG_BLOCKED : CRTI_MSG_UNBLOCKED, NULL);
    if (is_blocked)
        core->on_blocked(core);
}

/* The chain is sent at growing intervals for as long as it takes. */
static crt_status_t wait_with_chains(crti_core_t *core, waiting_t *w,
                                     uint64_t deadline_ns, crt_ref_t *ref)
{
    uint64_t interval = CHAIN_AFTER;

    for (;;) {
        uint64_t next = ref ? crti_now_ns() + interval : CRTI_NET_NO_DEADLINE;
        crt_status_t status =
            crti_net_wait(core->net, is_over, w, earlier(deadline_ns, next));

        if (status != CRT_ERR_TIMED_OUT || deadline_ns <= next)
            return status;
        core->on_long_wait(core, ref);
        interval = interval < CHAIN_EVERY ? interval * 2 : CHAIN_EVERY;
    }
}

/* The main thread of a worker; `deadline_ns` is the user's. */
static crt_status_t wait_in_worker(crti_core_t *core, waiting_t *w, uint64_t deadline_ns,
                                   crt_ref_t *ref)
{
    uint64_t start = crti_now_ns();
    bool was_blocked = core->blocking.is_blocked;
    crt_status_t status;

    core->blocking.count++;
    core->blocking.ref = ref;
    status =
        crti_net_wait(core->net, is_over, w, earlier(deadline_ns, start + BLOCKED_AFTER));
    if (status == CRT_ERR_TIMED_OUT && deadline_ns > start + BLOCKED_AFTER) {
        if (!was_blocked)
            set_blocked(core, true);
        status = wait_with_chains(core, w, deadline_ns, ref);
        if (!was_blocked)
            set_blocked(core, false);
    }
    core->blocking.count++;
    core->blocking.ref = NULL;
    return status;
}

crt_status_t crti_wait_for(crti_core_t *core, bool (*done)(void *user), void *user,
                           int64_t timeout_ms, crt_ref_t *ref)
{
    waiting_t w = {core, done, user};
    uint64_t deadline = CRTI_NET_NO_DEADLINE;
    crt_status_t status;

    if (done(user))
        return CRT_OK;
    if (timeout_ms >= 0 && timeout_ms < LONGEST_MS)
        deadline = crti_now_ns() + (uint64_t)timeout_ms * CRTI_MS;
    status = crti_running() ? wait_in_worker(core, &w, deadline, ref)
                            : crti_net_wait(core->net, is_over, &w, deadline);
    if (done(user))
        return CRT_OK;
    if (crti_running() && core->blocking.deadlock) {
        status = crt_raise(CRT_ERR_DEADLOCK, "%s", core->blocking.deadlock);
        free(core->blocking.deadlock);
        core->blocking.deadlock = NULL;
        return status;
    }
    if (crti_running() && core->blocking.is_cancelled)
        return crt_raise(CRT_ERR_CANCELLED, "the call that waits was cancelled");
    if (core->is_closing || core->broken != CRT_OK)
        return crti_core_check(core);
    if (status == CRT_ERR_TIMED_OUT)
        return crt_raise(status, "not ready after %lld ms", (long long)timeout_ms);
    return status;
}

void crti_blocking_cancel(crti_core_t *core, bool is_cancelled)
{
    core->blocking.is_cancelled = is_cancelled;
    if (is_cancelled)
        crti_net_wake(core->net);
}

void crti_blocking_deadlock(crti_core_t *core, const char *text)
{
    free(core->blocking.deadlock);
    core->blocking.deadlock = strdup(text);
    crti_net_wake(core->net);
}
