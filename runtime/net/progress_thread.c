/* SPDX-License-Identifier: Apache-2.0 */
/* The progress thread: when it looks, sleeps, parks, rests and ends. See progress.h.
 *
 * Where it sits
 *     progress.c (the token, who waits) -> [ progress_thread.c ] -> progress.c (a turn with the
 *     token)
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/net/progress_int.h"

#define DEEP_TICKS   16           /* idle ticks before it parks */
#define THREAD_STACK (512 * 1024) /* handlers run on it, user code does not */
#define LATE_END_NS  CRTI_S       /* resting, a late thread ends */
#define LATE_TICK_NS (50 * CRTI_MS)
#define LATE_IDLE    (int)(LATE_END_NS / LATE_TICK_NS)
#define FEW_TURNS    16 /* of the token: not more than some calls */
/* Two system calls each: in a loop of short calls looking costs less. */
#define EARLY_RESTS 4

/* ---------------------------------------------------------------- its timer */

void crti_progress_begin_ticking(crti_progress_t *p)
{
    p->state = CRTI_PROGRESS_TICKING;
    crti_progress_set_timer(p->tick_fd, crti_now_ns() + CRTI_PROGRESS_TICK_NS,
                            CRTI_PROGRESS_TICK_NS);
}

/* Of a late thread that nobody needs. A look takes two thread switches, which thousands of
 * processes that are called once would feel: the next one is its end, unless a waiter leaves
 * before. */
static void rest(crti_progress_t *p)
{
    p->state = CRTI_PROGRESS_RESTING;
    p->ends_at = crti_now_ns() + LATE_END_NS;
    crti_progress_set_timer(p->tick_fd, p->ends_at, 0);
}

void crti_progress_rest_early(crti_progress_t *p)
{
    p->early_rests--;
    rest(p);
}

/* ---------------------------------------------------------------- its life */

/* Costs nothing until a waiter leaves. A late thread looks by itself, since a timer that is set by
 * each waiter who leaves costs more than the rest of his way. */
static void park(crti_progress_t *p)
{
    p->state = CRTI_PROGRESS_PARKED;
    if (p->is_late)
        crti_progress_set_timer(p->tick_fd, crti_now_ns() + LATE_TICK_NS, LATE_TICK_NS);
    else
        crti_progress_set_timer(p->tick_fd, 0, 0);
}

/* What the thread saw of the token. */
typedef struct view {
    uint64_t born, seen; /* turnover at its start, and at the last look */
    int idle;            /* looks since that changed */
} view_t;

/* Code has run, or runs, since the last look; or nobody left for so long that the thread ends. */
static void look_parked(crti_progress_t *p, view_t *v)
{
    bool is_resting = p->state == CRTI_PROGRESS_RESTING;
    bool has_few = p->turnover - v->born <= FEW_TURNS;

    if (!p->token) {
        v->idle = 0;
        crti_progress_begin_ticking(p);
    } else if (is_resting && crti_now_ns() < p->ends_at) {
        return; /* it woke for a tick before it was sent to rest */
    } else if (is_resting ? v->idle == 0 : v->idle > 0 && has_few) {
        rest(p); /* or again: one left, and another took the token at once */
    } else if (is_resting || v->idle >= LATE_IDLE) {
        crti_progress_set_timer(p->tick_fd, 0, 0);
        p->state = CRTI_PROGRESS_ABSENT;
    }
}

/* Sleeps a tick, or until a waiter leaves when parked; then decides what comes next. */
static void tick(crti_progress_t *p, view_t *v)
{
    bool is_sound;

    pthread_mutex_unlock(&p->lock);
    is_sound = crti_progress_read_counter(p->tick_fd);
    pthread_mutex_lock(&p->lock);
    if (!is_sound)
        crti_progress_break(p);
    if (p->state == CRTI_PROGRESS_TICKING)
        p->early_rests = 0;
    if (p->stopping)
        return;
    v->idle = p->turnover == v->seen ? v->idle + 1 : 0;
    v->seen = p->turnover;
    if (p->state == CRTI_PROGRESS_PARKED || p->state == CRTI_PROGRESS_RESTING) {
        look_parked(p, v);
        return;
    }
    if (!p->token)
        p->ops->flush(p->user);
    if (v->idle == 0)
        return;
    if (!p->token && crti_list_is_empty(&p->waiters)) {
        p->token = &p->self;
        p->state = CRTI_PROGRESS_POLLING;
        crti_progress_set_timer(p->tick_fd, 0, 0);
    } else if (v->idle >= (p->is_late ? 1 : DEEP_TICKS)) {
        v->idle = 0;
        park(p);
    }
}

static void *thread_main(void *argument)
{
    crti_progress_t *p = argument;
    view_t v = {.idle = 0};

    prctl(PR_SET_NAME, "crt-progress");
    if (p->is_late) /* whoever made it has the lock, and has armed the timer when it is free */
        crti_progress_read_counter(p->tick_fd);
    pthread_mutex_lock(&p->lock);
    v.born = v.seen = p->turnover;
    v.idle = p->state == CRTI_PROGRESS_RESTING; /* nobody left since it was sent there */
    if (p->state == CRTI_PROGRESS_RESTING)
        look_parked(p, &v);
    else if (p->is_late && p->token && p->state == CRTI_PROGRESS_TICKING)
        rest(p);
    while (!p->stopping && p->state != CRTI_PROGRESS_ABSENT) {
        if (p->token == &p->self) {
            /* A late one looks by itself whether it has lost the token: what wakes it then may be
             * received by the new holder before it is awake. */
            crti_progress_turn(p, &p->self,
                               p->is_late ? crti_now_ns() + LATE_END_NS : UINT64_MAX);
            if (!crti_list_is_empty(&p->waiters))
                crti_progress_wake(p);
            continue;
        }
        if (p->state == CRTI_PROGRESS_POLLING) { /* a waiter took the token */
            crti_progress_begin_ticking(p);
            v.seen = p->turnover;
            v.idle = 0;
        }
        tick(p, &v);
    }
    p->has_ended = true;
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---------------------------------------------------------------- its start */

/* Returns an errno. */
static int make_thread(pthread_t *thread, void *(*body)(void *), void *argument)
{
    pthread_attr_t attr;
    int error;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, THREAD_STACK);
    error = crti_thread_start(thread, &attr, body, argument);
    pthread_attr_destroy(&attr);
    return error;
}

static void *do_nothing(void *argument)
{
    return argument;
}

/* A first thread makes libc look for functions in all libraries, and map a stack, which it keeps;
 * the second one, which gets that stack, for others: the children find all this done. */
void crti_progress_prepare(void)
{
    pthread_t thread;

    for (int i = 0; i < 2; i++)
        if (make_thread(&thread, do_nothing, NULL) == 0)
            pthread_join(thread, NULL);
}

crt_status_t crti_progress_start_thread(crti_progress_t *p)
{
    int error;

    if (p->tick_fd < 0)
        p->tick_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (p->tick_fd < 0)
        return crt_raise(CRT_ERR_IO, "cannot make a timer: %s", strerror(errno));
    if (p->has_ended) /* it holds the lock no more, and does nothing after that */
        pthread_join(p->thread, NULL);
    p->has_ended = p->started = false;
    error = make_thread(&p->thread, thread_main, p);
    if (error)
        return crt_raise(CRT_ERR_IO, "cannot start the progress thread: %s",
                         strerror(error));
    p->started = true;
    return CRT_OK;
}

void crti_progress_start_late(crti_progress_t *p)
{
    if (p->stopping)
        return;
    p->early_rests = EARLY_RESTS;
    if (crti_progress_start_thread(p) == CRT_OK)
        crti_progress_begin_ticking(p);
    else
        crti_log(CRTI_LOG_WARN, "net", "%s", crt_error_detail());
}
