/* SPDX-License-Identifier: Apache-2.0 */
/* Progress: the token, and who sleeps with it. See progress.h.
 *
 * Hot path: crti_progress_wait makes one epoll_wait per sleep, and no other system call unless
 * another thread has to be woken.
 */
#include "runtime/net/progress_int.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

#define EVENTS      64
#define QUIET_NS    (4 * CRTI_MS) /* between waits that are no loop */
#define FUTEX_SLEEP (3600 * CRTI_S)

/* ---------------------------------------------------------------- system calls */

static void wake_word(uint32_t *word)
{
    __atomic_store_n(word, 1,
                     __ATOMIC_RELEASE); /* pairs with the load in sleep_on_word */
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* May come back early, when a signal handler has run or the process was stopped. The timeout is
 * always there: a futex wait without one is restarted after a handler with SA_RESTART, which may
 * have called crt_interrupt. */
static void sleep_on_word(uint32_t *word, uint64_t deadline_ns)
{
    uint64_t now = crti_now_ns(), sleep = FUTEX_SLEEP;
    struct timespec t;

    if (deadline_ns != UINT64_MAX && deadline_ns < now + sleep)
        sleep = deadline_ns > now ? deadline_ns - now : 0;
    t = (struct timespec){(time_t)(sleep / CRTI_S), (long)(sleep % CRTI_S)};
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
}

/* `at` absolute, 0 switches off. */
void crti_progress_set_timer(int fd, uint64_t at, uint64_t interval)
{
    struct itimerspec t = {
        .it_value = {(time_t)(at / CRTI_S), (long)(at % CRTI_S)},
        .it_interval = {(time_t)(interval / CRTI_S), (long)(interval % CRTI_S)},
    };

    timerfd_settime(fd, TFD_TIMER_ABSTIME, &t, NULL);
}

bool crti_progress_read_counter(int fd)
{
    uint64_t count;
    ssize_t n;

    while ((n = read(fd, &count, sizeof(count))) < 0 && errno == EINTR) {
    }
    return n == sizeof(count) || (n < 0 && errno == EAGAIN);
}

/* ---------------------------------------------------------------- sources */

crt_status_t crti_progress_add(crti_progress_t *p, crti_source_t *source, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = source};

    source->may_repeat |= (events & EPOLLET) != 0;
    source->removed = false;
    crti_list_init(&source->in_removed);
    if (epoll_ctl(p->epoll_fd, EPOLL_CTL_ADD, source->fd, &e) != 0)
        return crt_raise(CRT_ERR_IO, "cannot watch descriptor %d: %s", source->fd,
                         strerror(errno));
    return CRT_OK;
}

crt_status_t crti_progress_modify(crti_progress_t *p, crti_source_t *source,
                                  uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = source};

    if (epoll_ctl(p->epoll_fd, EPOLL_CTL_MOD, source->fd, &e) != 0)
        return crt_raise(CRT_ERR_IO, "cannot watch descriptor %d: %s", source->fd,
                         strerror(errno));
    return CRT_OK;
}

void crti_progress_unwatch(crti_progress_t *p, crti_source_t *source)
{
    epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    source->fd = -1;
}

void crti_progress_remove(crti_progress_t *p, crti_source_t *source)
{
    if (source->removed)
        return;
    epoll_ctl(p->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    source->removed = true;
    crti_list_append(&p->removed_sources, &source->in_removed);
}

/* Only the holder of the token, with no events in hand. */
static void free_removed(crti_progress_t *p)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&p->removed_sources))) {
        p->freed_count++;
        CRTI_CONTAINER(item, crti_source_t, in_removed)
            ->on_free(CRTI_CONTAINER(item, crti_source_t, in_removed));
    }
}

static void on_event(crti_source_t *source, uint32_t events)
{
    crti_progress_read_counter(source->fd);
}

static void on_timer(crti_source_t *source, uint32_t events)
{
    crti_progress_t *p = CRTI_CONTAINER(source, crti_progress_t, timer);

    crti_progress_read_counter(source->fd);
    p->armed = UINT64_MAX;
    p->ops->expire(p->user);
}

/* At the first kick: most workers get none. */
static crt_status_t make_event(crti_progress_t *p)
{
    CRTI_AUTO(crti_close) int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    crt_status_t status;

    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "cannot make an event: %s", strerror(errno));
    p->event = (crti_source_t){.fd = fd, .may_repeat = true, .on_ready = on_event};
    status = crti_progress_add(p, &p->event, EPOLLIN);
    if (status == CRT_OK)
        p->event_fd = crti_take_fd(&fd);
    return status;
}

void crti_progress_kick(crti_progress_t *p)
{
    uint64_t one = 1;
    ssize_t n;

    if (p->spin.is_on) {
        __atomic_store_n(&p->spin.stop, 1, __ATOMIC_RELAXED);
        return;
    }
    if (p->event_fd < 0 && make_event(p) != CRT_OK) {
        crti_progress_set_timer(p->timer_fd, 1, 0); /* is there in any case */
        p->armed = 0;
        return;
    }
    n = write(p->event_fd, &one, sizeof(one));
    (void)n; /* it can only fail when it is set already */
}

/* Wakes a sleeper at that time. */
static void arm(crti_progress_t *p, uint64_t at)
{
    if (at >= p->armed)
        return;
    p->armed = at;
    crti_progress_set_timer(p->timer_fd, at ? at : 1, 0);
}

/* Who is awake asks for the next deadline himself before he sleeps. */
void crti_progress_need(crti_progress_t *p, uint64_t at)
{
    if (p->sleeping && !p->spin.is_on)
        arm(p, at);
    else if (!p->token && p->is_late &&
             (p->state == CRTI_PROGRESS_PARKED || p->state == CRTI_PROGRESS_RESTING))
        crti_progress_begin_ticking(p); /* code runs, and its thread looks too rarely */
}

/* ---------------------------------------------------------------- events */

static int timeout_ms(uint64_t deadline_ns)
{
    uint64_t now, ms;

    if (deadline_ns == UINT64_MAX)
        return -1;
    now = crti_now_ns();
    if (deadline_ns <= now)
        return 0;
    ms = (deadline_ns - now + CRTI_MS - 1) / CRTI_MS;
    return ms < 3600000 ? (int)ms : 3600000;
}

static void dispatch(struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++) {
        crti_source_t *source = events[i].data.ptr;

        if (!source->removed)
            source->on_ready(source, events[i].events);
    }
}

bool crti_progress_is_done(const crti_progress_t *p)
{
    const crti_progress_waiter_t *holder = p->token;

    return holder && holder->done && holder->done(holder->user);
}

/* ---------------------------------------------------------------- spinning */

/* True: look again, without having slept. */
static bool spin(crti_progress_t *p, crti_progress_waiter_t *me)
{
    crti_progress_word_t words[CRTI_SPIN_WORDS];
    size_t count;
    bool hit;

    if (p->spin.cores == 1 || me == &p->self)
        return false;
    count = p->ops->words(p->user, words, CRTI_SPIN_WORDS);
    if (count == 0)
        return false;
    if (p->spin.skip > 0) {
        p->spin.skip--;
        return false;
    }
    if (p->spin.cores == 0)
        p->spin.cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (p->spin.cores == 1)
        return false;
    p->spin.is_on = true;
    p->spin.count++;
    p->spin.stop = 0;
    p->sleeping = me;
    pthread_mutex_unlock(&p->lock);
    hit = crti_spin_watch(&p->spin, words, count);
    pthread_mutex_lock(&p->lock);
    p->sleeping = NULL;
    p->spin.is_on = false;
    crti_spin_learn(&p->spin, hit);
    return hit;
}

/* ---------------------------------------------------------------- turns */

/* The token was taken away meanwhile. What is level-triggered the new holder is told of, too; edges
 * only we know. */
static void pass_on(crti_progress_t *p, struct epoll_event *events, int count,
                    uint64_t freed_count)
{
    if (p->freed_count != freed_count)
        p->ops->rescan(p->user);
    for (int i = 0; i < count && p->freed_count == freed_count; i++) {
        crti_source_t *source = events[i].data.ptr;

        if (source->may_repeat && !source->removed)
            source->on_ready(source, events[i].events);
    }
    if (p->sleeping)
        crti_progress_kick(p);
}

void crti_progress_break(crti_progress_t *p)
{
    if (p->stopping)
        return;
    p->stopping = true;
    p->ops->broken(p->user);
    CRTI_LIST_FOREACH (item, &p->waiters)
        wake_word(&CRTI_CONTAINER(item, crti_progress_waiter_t, link)->word);
}

/* The holder of the token receives once, sleeping for it if nothing is there. A signal handler, or
 * a stop of the process, ends the sleep early: whoever waits looks again, and sleeps on. */
void crti_progress_turn(crti_progress_t *p, crti_progress_waiter_t *me,
                        uint64_t deadline_ns)
{
    struct epoll_event events[EVENTS];
    uint64_t turnover = p->turnover, freed_count;
    int count, error;

    free_removed(p);
    freed_count = p->freed_count;
    p->ops->flush(p->user);
    if (p->ops->pump(p->user) || spin(p, me) || !p->ops->sleep(p->user))
        return;
    arm(p, p->ops->deadline(p->user));
    if (p->early_rests > 0 && p->state == CRTI_PROGRESS_TICKING && me != &p->self)
        crti_progress_rest_early(p);
    p->sleeping = me;
    pthread_mutex_unlock(&p->lock);
    count = epoll_wait(p->epoll_fd, events, EVENTS, timeout_ms(deadline_ns));
    error = errno;
    pthread_mutex_lock(&p->lock);
    if (p->sleeping == me)
        p->sleeping = NULL;
    if (p->turnover != turnover) {
        if (count > 0)
            pass_on(p, events, count, freed_count);
        return;
    }
    crti_spin_look_back(&p->spin);
    if (count < 0 && error != EINTR)
        crti_progress_break(p);
    if (count < 0)
        return;
    dispatch(events, count);
    p->ops->pump(p->user);
}

void crti_progress_wake(crti_progress_t *p)
{
    CRTI_LIST_FOREACH (item, &p->waiters) {
        crti_progress_waiter_t *w = CRTI_CONTAINER(item, crti_progress_waiter_t, link);

        if (w == p->token) {
            if (w == p->sleeping && w->done(w->user))
                crti_progress_kick(p);
        } else if (__atomic_load_n(&w->word, __ATOMIC_RELAXED) == 0 && w->done(w->user)) {
            wake_word(&w->word);
        }
    }
}

static void take_token(crti_progress_t *p, crti_progress_waiter_t *w)
{
    if (p->token == w)
        return;
    p->token = w;
    p->sleeping = NULL;
    p->turnover++;
}

/* As if it had never been taken: epoll tells the thread of everything. False: there is input. */
static bool give_back(crti_progress_t *p)
{
    p->ops->flush(p->user);
    if (p->ops->pump(p->user) || !p->ops->sleep(p->user))
        return false;
    p->token = p->sleeping = &p->self;
    crti_progress_need(p, p->ops->deadline(p->user));
    return true;
}

/* The thread sleeps and does not know that the token was taken from it, nor that lanes which are
 * awake will not wake it. */
static void leave_to_sleeper(crti_progress_t *p)
{
    uint64_t now = crti_now_ns(), before = p->left;

    p->left = now;
    if (now - before < QUIET_NS || !give_back(p))
        arm(p, now + CRTI_PROGRESS_TICK_NS);
}

/* Hands the token to another waiter, or sees to it that the progress thread looks soon. */
static void leave_token(crti_progress_t *p)
{
    p->token = NULL;
    p->turnover++;
    if (!crti_list_is_empty(&p->waiters)) {
        wake_word(&CRTI_CONTAINER(p->waiters.next, crti_progress_waiter_t, link)->word);
    } else if (p->state == CRTI_PROGRESS_PARKED) {
        if (!p->is_late) /* else it looks now and then */
            crti_progress_begin_ticking(p);
    } else if (p->state == CRTI_PROGRESS_RESTING) {
        crti_progress_begin_ticking(p);
    } else if (p->state == CRTI_PROGRESS_ABSENT) {
        if (p->busy)
            crti_progress_start_late(p);
    } else if (p->state == CRTI_PROGRESS_POLLING && !p->stopping) {
        leave_to_sleeper(p);
    }
}

/* One sleep, with the token if it can be had. */
static void wait_once(crti_progress_t *p, crti_progress_waiter_t *w, uint64_t deadline_ns)
{
    if (!p->token || p->token == &p->self || p->token == w) {
        take_token(p, w);
        crti_progress_turn(p, w, deadline_ns);
        if (w->link.next != w->link.prev) /* others wait too */
            crti_progress_wake(p);
        return;
    }
    __atomic_store_n(&w->word, 0, __ATOMIC_RELAXED); /* the lock orders it */
    pthread_mutex_unlock(&p->lock);
    sleep_on_word(&w->word, deadline_ns);
    pthread_mutex_lock(&p->lock);
}

crt_status_t crti_progress_wait(crti_progress_t *p, bool (*done)(void *user), void *user,
                                uint64_t deadline_ns)
{
    crti_progress_waiter_t w = {.done = done, .user = user};
    crt_status_t status = CRT_OK;

    /* Nothing is flushed for a wait that does not sleep: a worker with a queue of calls gathers
     * their answers. */
    if (done(user))
        return CRT_OK;
    crti_list_append(&p->waiters, &w.link);
    while (!done(user)) {
        if (p->stopping)
            status = crt_raise(CRT_ERR_CLOSED, "the runtime shuts down");
        else if (deadline_ns != UINT64_MAX && crti_now_ns() >= deadline_ns)
            status = crt_raise(CRT_ERR_TIMED_OUT, "timed out");
        if (status != CRT_OK)
            break;
        wait_once(p, &w, deadline_ns);
    }
    crti_list_remove(&w.link);
    /* A free token was meant for whoever of us woke: one that leaves without taking it passes it
     * on, or the others would sleep with nobody receiving. */
    if (!p->token || p->token == &w)
        leave_token(p);
    return status;
}

/* ---------------------------------------------------------------- start and end */

crt_status_t crti_progress_init(crti_progress_t *p, const crti_progress_ops_t *ops,
                                void *user)
{
    crt_status_t status;

    *p = (crti_progress_t){.ops = ops, .user = user, .armed = UINT64_MAX};
    p->spin = (crti_spin_t){.pause = CRTI_SPIN_PAUSE_MIN};
    pthread_mutex_init(&p->lock, NULL);
    crti_list_init(&p->waiters);
    crti_list_init(&p->removed_sources);
    p->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    p->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    p->event_fd = p->tick_fd = -1;
    if (p->epoll_fd < 0 || p->timer_fd < 0) {
        status =
            crt_raise(CRT_ERR_IO, "cannot make epoll and timers: %s", strerror(errno));
        crti_progress_fini(p);
        return status;
    }
    p->timer =
        (crti_source_t){.fd = p->timer_fd, .may_repeat = true, .on_ready = on_timer};
    status = crti_progress_add(p, &p->timer, EPOLLIN);
    if (status != CRT_OK)
        crti_progress_fini(p);
    return status;
}

crt_status_t crti_progress_start(crti_progress_t *p, bool late)
{
    p->is_late = late;
    if (late) {
        /* Where many begin at once, a spin takes the others' time. */
        p->spin.skip = CRTI_SPIN_PAUSE_MIN;
        p->state = CRTI_PROGRESS_ABSENT;
        return CRT_OK;
    }
    p->token = &p->self;
    return crti_progress_start_thread(p);
}

void crti_progress_busy(crti_progress_t *p, bool begins)
{
    p->busy += begins ? 1 : -1;
    if (begins && p->state == CRTI_PROGRESS_ABSENT)
        crti_progress_start_late(p);
}

void crti_progress_stop(crti_progress_t *p)
{
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    crti_progress_kick(p);
    if (p->tick_fd >= 0)
        crti_progress_set_timer(p->tick_fd, 1, 0);
    CRTI_LIST_FOREACH (item, &p->waiters)
        wake_word(&CRTI_CONTAINER(item, crti_progress_waiter_t, link)->word);
    pthread_mutex_unlock(&p->lock);
    if (p->started)
        pthread_join(p->thread, NULL);
    p->started = p->has_ended = false;
}

void crti_progress_fini(crti_progress_t *p)
{
    int *fds[] = {&p->epoll_fd, &p->event_fd, &p->timer_fd, &p->tick_fd};

    free_removed(p);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (*fds[i] >= 0)
            close(*fds[i]);
    pthread_mutex_destroy(&p->lock);
}
