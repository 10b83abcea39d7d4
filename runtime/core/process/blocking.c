/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking: a thread waits until something has come, and what a worker does about its CPU
 * meanwhile.
 *
 * Where it sits
 *     wait.c, actor.c, submit.c, node_ask.c -> [ blocking.c ] -> crti_net_wait (who waits makes
 *     progress)
 * A thread that runs a call and waits
 *     1 ms        when all such threads do, the node is told (their CPUs may be lent), and
 *                 core->on_blocked: tasks that were not started are given back, since what it waits
 *                 for may depend on them
 *     10 ms       core->on_long_wait, and later at growing intervals, since others may begin to
 *     wait
 *                 after us: cycles of waiting processes are looked for
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/interrupt.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/timer.h"

#define BLOCKED_AFTER (1 * CRTI_MS)
#define CHAIN_AFTER   (10 * CRTI_MS)
#define CHAIN_EVERY   (1 * CRTI_S)
#define LONGEST_MS    INT64_C(1000000000000) /* longer is without limit */

typedef struct waiting {
    crti_core_t *core;
    bool (*done)(void *user);
    void *user;
    crti_blocking_t *mine; /* NULL: this thread runs no call */
    uint64_t interrupts;   /* of which its thread was told */
    crti_shown_wait_t shown;
} waiting_t;

void crti_blocked_init(crti_blocked_t *blocked)
{
    crti_list_init(&blocked->waiters);
}

/* The kernel is asked once for each thread of a runtime: a worker is forked before its first
 * wait. */
static pid_t thread_number(const crti_core_t *core)
{
    static __thread const crti_core_t *asked_for;
    static __thread pid_t tid;

    if (asked_for != core) {
        asked_for = core;
        tid = gettid();
    }
    return tid;
}

static bool is_over(void *user)
{
    waiting_t *w = user;

    return w->done(w->user) || w->core->is_closing || w->core->broken != CRT_OK ||
           crti_interrupts() != w->interrupts ||
           (w->mine && (w->mine->deadlock || w->mine->is_cancelled));
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Threads began or ended to run, or to wait. */
static void changed(crti_core_t *core)
{
    crti_blocked_t *b = core->blocked;
    bool all_wait = b->waiting && b->waiting == b->running;

    if (all_wait == b->is_told)
        return;
    b->is_told = all_wait;
    crti_node_notice(core, all_wait ? CRTI_MSG_BLOCKED : CRTI_MSG_UNBLOCKED, NULL);
    if (all_wait)
        core->on_blocked(core);
}

void crti_blocking_begin(crti_core_t *core, crti_blocking_t *blocking)
{
    crti_thread_set_blocking(blocking);
    core->blocked->running++;
    changed(core);
}

void crti_blocking_end(crti_core_t *core)
{
    crti_thread_set_blocking(NULL);
    core->blocked->running--;
    changed(core);
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

/* A thread that runs a call; `deadline_ns` is the user's. */
static crt_status_t wait_in_call(crti_core_t *core, waiting_t *w, uint64_t deadline_ns,
                                 crt_ref_t *ref)
{
    crti_blocking_t *mine = w->mine;
    uint64_t start = crti_now_ns();
    crt_status_t status;

    w->shown.since_ns = start;
    mine->wait = ++core->blocked->waits;
    mine->ref = ref;
    status =
        crti_net_wait(core->net, is_over, w, earlier(deadline_ns, start + BLOCKED_AFTER));
    if (status == CRT_ERR_TIMED_OUT && deadline_ns > start + BLOCKED_AFTER) {
        core->blocked->waiting++;
        changed(core);
        status = wait_with_chains(core, w, deadline_ns, ref);
        core->blocked->waiting--;
        changed(core);
    }
    mine->wait = 0;
    mine->ref = NULL;
    return status;
}

/* The clock is read once for many waits. */
static void begin_looks(crti_core_t *core)
{
    core->blocked->look_at_ns = crti_now_ns() + core->blocked->look_ns;
    crti_core_wake_at(core, core->blocked->look_at_ns);
}

static crt_status_t wait_as_shown(crti_core_t *core, bool (*done)(void *user), void *user,
                                  int64_t timeout_ms, const crti_shown_wait_t *shown)
{
    crti_blocking_t *mine = crti_thread_blocking();
    waiting_t w = {core, done, user, mine, 0, *shown};
    uint64_t deadline = CRTI_NET_NO_DEADLINE;
    crt_status_t status;

    w.interrupts = crti_interrupts_told(); /* looked up slowly: variables of the thread */
    w.shown.is_of_call = mine != NULL;
    w.shown.may_end_by_itself |= timeout_ms >= 0;
    w.shown.number = ++core->blocked->all_waits;
    w.shown.user = user;
    if (!mine && core->blocked->look_ns && core->blocked->look_at_ns == 0)
        begin_looks(core);
    if (timeout_ms >= 0 && timeout_ms < LONGEST_MS)
        deadline = crti_now_ns() + (uint64_t)timeout_ms * CRTI_MS;
    if (!core->blocked->are_interrupts_watched) {
        core->blocked->are_interrupts_watched = true;
        crti_interrupts_watch(core);
    }
    w.shown.tid = thread_number(core);
    crti_list_append(&core->blocked->waiters, &w.shown.link);
    status = mine ? wait_in_call(core, &w, deadline, shown->ref)
                  : crti_net_wait(core->net, is_over, &w, deadline);
    crti_list_remove(&w.shown.link);
    if (done(user))
        return CRT_OK;
    if (mine && mine->deadlock) {
        status = crt_raise(CRT_ERR_DEADLOCK, "%s", mine->deadlock);
        free(mine->deadlock);
        mine->deadlock = NULL;
        return status;
    }
    if (mine && mine->is_cancelled)
        return crt_raise(CRT_ERR_CANCELLED, "the call that waits was cancelled");
    if (core->is_closing || core->broken != CRT_OK)
        return crti_core_check(core);
    if (crti_interrupts() != w.interrupts) {
        crti_interrupts_tell();
        return crt_raise(CRT_ERR_INTERRUPTED, "crt_interrupt was called");
    }
    if (status == CRT_ERR_TIMED_OUT)
        return crt_raise(status, "not ready after %lld ms", (long long)timeout_ms);
    return status;
}

crt_status_t crti_wait_for(crti_core_t *core, bool (*done)(void *user), void *user,
                           int64_t timeout_ms, crt_ref_t *ref, const char *what)
{
    crti_shown_wait_t shown = {.ref = ref, .what = what};

    return done(user) ? CRT_OK : wait_as_shown(core, done, user, timeout_ms, &shown);
}

crt_status_t crti_wait_in_detail(crti_core_t *core, bool (*done)(void *user), void *user,
                                 int64_t timeout_ms, const crti_wait_detail_t *detail,
                                 const char *what)
{
    crti_shown_wait_t shown = {.what = what, .detail = detail};

    return done(user) ? CRT_OK : wait_as_shown(core, done, user, timeout_ms, &shown);
}

crt_status_t crti_wait_openly(crti_core_t *core, bool (*done)(void *user), void *user,
                              int64_t timeout_ms, const crti_wait_detail_t *detail,
                              const char *what)
{
    crti_shown_wait_t shown = {
        .what = what, .detail = detail, .may_end_by_itself = true, .is_open = true};

    return done(user) ? CRT_OK : wait_as_shown(core, done, user, timeout_ms, &shown);
}

void crti_blocking_cancel(crti_core_t *core, crti_blocking_t *blocking, bool is_cancelled)
{
    blocking->is_cancelled = is_cancelled;
    if (is_cancelled)
        crti_net_wake(core->net);
}

void crti_blocking_deadlock(crti_core_t *core, crti_blocking_t *blocking,
                            const char *text)
{
    free(blocking->deadlock);
    blocking->deadlock = strdup(text);
    crti_net_wake(core->net);
}
