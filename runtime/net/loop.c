/* SPDX-License-Identifier: Apache-2.0 */
/* Loop: epoll, timers (deadlines.h), signalfd and a list of posted work. See loop.h.
 *
 * The batch of fetched events is kept in the loop: crti_loop_remove clears what is left of it
 * for that watch, so that no callback sees a removed watch.
 */
#include "runtime/net/loop.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>

#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"

#define BATCH 64

typedef struct post {
    struct post *next;
    void (*work)(void *user);
    void *user;
} post_t;

typedef struct handler {
    void (*on_signal)(void *user, int signal_number);
    void *user;
} handler_t;

struct crti_loop {
    int epoll;
    int wake; /* eventfd: posted work or stop */
    crti_watch_t wake_watch;
    atomic_bool stopped;
    uint64_t now, idle;

    struct epoll_event batch[BATCH]; /* events fetched in this turn */
    int batch_count;
    int batch_next;

    crti_deadlines_t timers;

    int signals; /* signalfd, -1 before the first signal */
    crti_watch_t signal_watch;
    sigset_t watched;
    sigset_t before; /* the mask that crti_loop_free restores */
    handler_t handlers[NSIG];

    pthread_mutex_t lock; /* covers first and last */
    post_t *first, **last;
};

/* ---------------------------------------------------------------- posted work */

static void ring(crti_loop_t *loop)
{
    uint64_t one = 1;

    /* Fails only when the counter is full: then it is readable anyway. */
    if (write(loop->wake, &one, sizeof(one)) < 0)
        return;
}

static void on_wake(void *user, uint32_t events)
{
    crti_loop_t *loop = user;
    uint64_t count;
    post_t *post;

    if (read(loop->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
        crti_log(CRTI_LOG_ERROR, "loop", "eventfd: %s", strerror(errno));
    pthread_mutex_lock(&loop->lock);
    post = loop->first;
    loop->first = NULL;
    loop->last = &loop->first;
    pthread_mutex_unlock(&loop->lock);
    while (post) {
        post_t *next = post->next;

        post->work(post->user);
        free(post);
        post = next;
    }
}

crt_status_t crti_loop_post(crti_loop_t *loop, void (*work)(void *user), void *user)
{
    post_t *post = malloc(sizeof(*post));

    if (post == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "loop: posted work");
    *post = (post_t){.work = work, .user = user};
    pthread_mutex_lock(&loop->lock);
    *loop->last = post;
    loop->last = &post->next;
    pthread_mutex_unlock(&loop->lock);
    ring(loop);
    return CRT_OK;
}

void crti_loop_stop(crti_loop_t *loop)
{
    atomic_store(&loop->stopped, true);
    ring(loop);
}

/* ---------------------------------------------------------------- life */

crt_status_t crti_loop_new(crti_loop_t **loop_out)
{
    crti_loop_t *loop = calloc(1, sizeof(*loop));
    crt_status_t status;

    if (loop == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "loop: %zu bytes", sizeof(*loop));
    loop->signals = -1;
    loop->last = &loop->first;
    sigemptyset(&loop->watched);
    pthread_mutex_init(&loop->lock, NULL);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll < 0 || loop->wake < 0) {
        status = crt_raise(CRT_ERR_IO, "loop: epoll or eventfd: %s", strerror(errno));
        goto fail;
    }
    loop->wake_watch = (crti_watch_t){.on_ready = on_wake, .user = loop};
    status = crti_loop_add(loop, &loop->wake_watch, loop->wake, EPOLLIN);
    if (status != CRT_OK)
        goto fail;
    loop->now = crti_now_ns();
    *loop_out = loop;
    return CRT_OK;

fail:
    crti_loop_free(loop);
    return status;
}

void crti_loop_free(crti_loop_t *loop)
{
    if (loop == NULL)
        return;
    crti_deadlines_fini(&loop->timers);
    while (loop->first) {
        post_t *post = loop->first;

        loop->first = post->next;
        free(post);
    }
    if (loop->signals >= 0) {
        close(loop->signals);
        pthread_sigmask(SIG_SETMASK, &loop->before, NULL);
    }
    if (loop->wake >= 0)
        close(loop->wake);
    if (loop->epoll >= 0)
        close(loop->epoll);
    pthread_mutex_destroy(&loop->lock);
    free(loop);
}

uint64_t crti_loop_idle(const crti_loop_t *loop)
{
    return loop->idle;
}

uint64_t crti_loop_now(const crti_loop_t *loop)
{
    return loop->now;
}

/* ---------------------------------------------------------------- descriptors */

crt_status_t crti_loop_add(crti_loop_t *loop, crti_watch_t *watch, int fd,
                           uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        return crt_raise(CRT_ERR_IO, "loop: epoll add of descriptor %d: %s", fd,
                         strerror(errno));
    watch->fd = fd;
    watch->events = events;
    watch->added = true;
    return CRT_OK;
}

crt_status_t crti_loop_modify(crti_loop_t *loop, crti_watch_t *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    if (watch->events == events)
        return CRT_OK;
    if (epoll_ctl(loop->epoll, EPOLL_CTL_MOD, watch->fd, &event) < 0)
        return crt_raise(CRT_ERR_IO, "loop: epoll change of descriptor %d: %s", watch->fd,
                         strerror(errno));
    watch->events = events;
    return CRT_OK;
}

void crti_loop_remove(crti_loop_t *loop, crti_watch_t *watch)
{
    if (!watch->added)
        return;
    watch->added = false;
    epoll_ctl(loop->epoll, EPOLL_CTL_DEL, watch->fd, NULL);
    for (int i = loop->batch_next; i < loop->batch_count; i++)
        if (loop->batch[i].data.ptr == watch)
            loop->batch[i].data.ptr = NULL;
}

/* ---------------------------------------------------------------- timers */

void crti_loop_cancel(crti_loop_t *loop, crti_timer_t *timer)
{
    crti_deadlines_remove(&loop->timers, &timer->deadline);
}

crt_status_t crti_loop_start(crti_loop_t *loop, crti_timer_t *timer, uint64_t deadline_ns)
{
    return crti_deadlines_set(&loop->timers, &timer->deadline, deadline_ns);
}

/* Timers started by a callback run in the next turn at the earliest, so that a timer of 0 can't
 * starve the descriptors. */
static void run_timers(crti_loop_t *loop)
{
    uint64_t limit = loop->timers.next_order;

    while (crti_deadlines_first(&loop->timers) <= loop->now &&
           loop->timers.items[0]->order < limit) {
        crti_timer_t *timer =
            CRTI_CONTAINER(loop->timers.items[0], crti_timer_t, deadline);

        crti_loop_cancel(loop, timer);
        timer->on_expired(timer->user);
    }
}

/* ---------------------------------------------------------------- signals */

static void on_signals(void *user, uint32_t events)
{
    crti_loop_t *loop = user;
    struct signalfd_siginfo info;

    while (read(loop->signals, &info, sizeof(info)) == sizeof(info)) {
        const handler_t *handler = &loop->handlers[info.ssi_signo % NSIG];

        if (handler->on_signal)
            handler->on_signal(handler->user, (int)info.ssi_signo);
    }
}

crt_status_t crti_loop_signal(crti_loop_t *loop, int signal_number,
                              void (*on_signal)(void *user, int signal_number),
                              void *user)
{
    bool first = loop->signals < 0;
    int fd;

    if (signal_number <= 0 || signal_number >= NSIG)
        return crt_raise(CRT_ERR_INVALID, "loop: no signal %d", signal_number);
    sigaddset(&loop->watched, signal_number);
    if (first)
        pthread_sigmask(SIG_BLOCK, NULL, &loop->before);
    fd = signalfd(loop->signals, &loop->watched, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "loop: signalfd: %s", strerror(errno));
    loop->signals = fd;
    loop->handlers[signal_number] = (handler_t){on_signal, user};
    pthread_sigmask(SIG_BLOCK, &loop->watched, NULL);
    if (!first)
        return CRT_OK;
    loop->signal_watch = (crti_watch_t){.on_ready = on_signals, .user = loop};
    return crti_loop_add(loop, &loop->signal_watch, fd, EPOLLIN);
}

/* ---------------------------------------------------------------- turns */

static int wait_ms(const crti_loop_t *loop, uint64_t now, uint64_t deadline_ns)
{
    uint64_t until = crti_deadlines_first(&loop->timers), ms;

    if (deadline_ns < until)
        until = deadline_ns;
    if (until == UINT64_MAX)
        return -1;
    if (until <= now)
        return 0;
    ms = (until - now + CRTI_MS - 1) / CRTI_MS; /* never too early */
    return ms > 1u << 30 ? 1 << 30 : (int)ms;
}

crt_status_t crti_loop_turn(crti_loop_t *loop, uint64_t deadline_ns)
{
    uint64_t before = crti_now_ns();
    int wait = wait_ms(loop, before, deadline_ns);
    int count = epoll_wait(loop->epoll, loop->batch, BATCH, wait);

    if (count < 0 && errno != EINTR)
        return crt_raise(CRT_ERR_IO, "loop: epoll: %s", strerror(errno));
    loop->now = crti_now_ns();
    if (wait)
        loop->idle += loop->now - before;
    loop->batch_count = count < 0 ? 0 : count;
    for (loop->batch_next = 0; loop->batch_next < loop->batch_count;) {
        struct epoll_event event = loop->batch[loop->batch_next++];
        crti_watch_t *watch = event.data.ptr;

        if (watch)
            watch->on_ready(watch->user, event.events);
    }
    loop->batch_count = 0;
    run_timers(loop);
    return CRT_OK;
}

crt_status_t crti_loop_run(crti_loop_t *loop)
{
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && !atomic_load(&loop->stopped))
        status = crti_loop_turn(loop, UINT64_MAX);
    atomic_store(&loop->stopped, false);
    return status;
}
