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
#define AWAKE_TURNS 64 /* of the token on end without a look at the descriptors */
#define QUIET_NS    (4 * CRTI_MS) /* between waits that are no loop */
#define FUTEX_SLEEP (3600 * CRTI_S)
/* A waiter that sleeps for so long is no short call: another one takes the token from it. */
#define DISPLACE_NS    (200 * CRTI_US)
#define DISPLACED_MAX  4 /* each may cost a wake-up when another one of them is done */
#define DISPLACE_TRIES 2 /* when it comes, and when the holder has slept for so long */

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
    p->spun_at = hit ? p->spin.now : 0;
    crti_spin_learn(&p->spin, hit);
    return hit;
}

uint64_t crti_progress_now(crti_progress_t *p)
{
    uint64_t seen = p->spun_at;

    p->spun_at = 0;
    return seen ? seen : crti_now_ns();
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

static void forget_displaced(crti_progress_t *p, crti_progress_waiter_t *w)
{
    if (crti_list_is_empty(&w->displaced))
        return;
    crti_list_remove(&w->displaced);
    p->displaced_count--;
    if (p->is_letting_out)
        wake_word(&p->token->word);
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

/* Input that needs no descriptors keeps the holder awake; theirs, and deadlines, must not wait for
 * its end. */
static void look_awake(crti_progress_t *p)
{
    struct epoll_event events[EVENTS];

    if (++p->awake_turns < AWAKE_TURNS)
        return;
    p->awake_turns = 0;
    arm(p, p->ops->deadline(p->user));
    dispatch(events, epoll_wait(p->epoll_fd, events, EVENTS, 0));
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
    if (p->ops->pump(p->user) || spin(p, me) || !p->ops->sleep(p->user)) {
        look_awake(p);
        return;
    }
    p->awake_turns = 0;
    arm(p, p->ops->deadline(p->user));
    if (p->early_rests > 0 && p->state == CRTI_PROGRESS_TICKING && me != &p->self)
        crti_progress_rest_early(p);
    if (me->slept_at == 0)
        me->slept_at = crti_now_ns();
    p->sleeping = me;
    pthread_mutex_unlock(&p->lock);
    count = epoll_wait(p->epoll_fd, events, EVENTS, timeout_ms(deadline_ns));
    error = errno;
    pthread_mutex_lock(&p->lock);
    if (p->sleeping == me)
        p->sleeping = NULL;
    forget_displaced(p, me);
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

static bool is_told(const crti_progress_waiter_t *w)
{
    return __atomic_load_n(&w->word, __ATOMIC_RELAXED) != 0; /* the lock orders it */
}

void crti_progress_wake(crti_progress_t *p)
{
    CRTI_LIST_FOREACH (item, &p->waiters) {
        crti_progress_waiter_t *w = CRTI_CONTAINER(item, crti_progress_waiter_t, link);

        if (w == p->token) {
            if (w == p->sleeping && w->done(w->user))
                crti_progress_kick(p);
        } else if (!is_told(w) && w->done(w->user)) {
            wake_word(&w->word);
            if (!crti_list_is_empty(&w->displaced))
                crti_progress_kick(p); /* the holder may receive it: see let_out */
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

/* From now on epoll tells of everything. False: there is input. */
static bool quiesce(crti_progress_t *p)
{
    p->ops->flush(p->user);
    return !p->ops->pump(p->user) && p->ops->sleep(p->user);
}

/* As if it had never been taken. False: there is input. */
static bool give_back(crti_progress_t *p)
{
    if (!quiesce(p))
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

/* ---------------------------------------------------------------- long waits beside short ones */

/* Of those whose token was taken while they slept: one that is done, else the last one, which epoll
 * wakes first. */
static crti_progress_waiter_t *next_displaced(const crti_progress_t *p)
{
    CRTI_LIST_FOREACH (item, &p->displaced)
        if (is_told(CRTI_CONTAINER(item, crti_progress_waiter_t, displaced)))
            return CRTI_CONTAINER(item, crti_progress_waiter_t, displaced);
    return CRTI_CONTAINER(p->displaced.next, crti_progress_waiter_t, displaced);
}

/* It sleeps on, and never learns that it was without, unless it is done or there is input. */
static void return_token(crti_progress_t *p)
{
    bool is_quiet = !p->stopping && quiesce(p);
    crti_progress_waiter_t *w = next_displaced(p);

    forget_displaced(p, w);
    p->token = p->sleeping = w;
    p->turnover++;
    if (is_quiet && !is_told(w))
        crti_progress_need(p, p->ops->deadline(p->user));
    else
        crti_progress_kick(p);
}

static bool has_told_displaced(const crti_progress_t *p)
{
    return p->displaced_count > 0 && is_told(next_displaced(p));
}

/* When `w` may take the token from its holder, which sleeps: 0 for never. Else each event of a
 * short wait would wake the thread of a long one, to be told of it by that: two switches, the first
 * of which is slow where that thread computes much. */
static uint64_t displace_at(const crti_progress_t *p, const crti_progress_waiter_t *w)
{
    const crti_progress_waiter_t *holder = p->token;

    if (w->is_long || w->tries == DISPLACE_TRIES || p->displaced_count == DISPLACED_MAX)
        return 0;
    if (holder->handed_at > 0)
        return holder->handed_at + DISPLACE_NS;
    if (p->sleeping != holder || p->spin.is_on)
        return crti_now_ns() + DISPLACE_NS;
    return holder->slept_at + DISPLACE_NS;
}

/* It sleeps on in epoll. One that was handed the token and is not awake yet sleeps on its word. */
static void displace_holder(crti_progress_t *p)
{
    crti_progress_waiter_t *holder = p->token;

    holder->is_long = true;
    if (holder->handed_at == 0) {
        crti_list_append(p->displaced.next, &holder->displaced);
        p->displaced_count++;
    }
    holder->handed_at = 0;
}

/* One that sleeps in epoll is to end its wait. Epoll wakes the thread that came last, so that the
 * holder would receive what is meant for the other one: until that is awake the holder sleeps
 * elsewhere, and looks now and then. */
static void let_out(crti_progress_t *p, crti_progress_waiter_t *w, uint64_t deadline_ns)
{
    uint64_t at = crti_now_ns() + DISPLACE_NS;

    crti_progress_kick(p);
    p->is_letting_out = true;
    pthread_mutex_unlock(&p->lock);
    sleep_on_word(&w->word, at < deadline_ns ? at : deadline_ns);
    pthread_mutex_lock(&p->lock);
    p->is_letting_out = false;
    if (!has_told_displaced(p))
        return;
    crti_progress_turn(p, w, 0);
    crti_progress_wake(p);
}

/* ---------------------------------------------------------------- waiting */

/* Whichever is awake first takes the token. But one that waits for long, and was woken in epoll, is
 * given it, so that it sleeps there again: it would be woken after each of a loop of short waits,
 * to find the token taken. */
static void wake_next(crti_progress_t *p)
{
    crti_progress_waiter_t *next =
        CRTI_CONTAINER(p->waiters.next, crti_progress_waiter_t, link);

    if (next->is_long) {
        p->token = next;
        next->handed_at = crti_now_ns();
    }
    wake_word(&next->word);
}

/* Hands the token to another waiter, or sees to it that the progress thread looks soon. */
static void leave_token(crti_progress_t *p)
{
    if (p->displaced_count > 0) {
        return_token(p);
        return;
    }
    p->token = NULL;
    p->turnover++;
    if (!crti_list_is_empty(&p->waiters)) {
        wake_next(p);
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

static void hold_token(crti_progress_t *p, crti_progress_waiter_t *w,
                       uint64_t deadline_ns)
{
    take_token(p, w);
    w->handed_at = 0;
    __atomic_store_n(&w->word, 0, __ATOMIC_RELAXED); /* the lock orders it */
    if (has_told_displaced(p)) {
        let_out(p, w, deadline_ns);
        return;
    }
    crti_progress_turn(p, w, deadline_ns);
    if (w->link.next != w->link.prev) /* others wait too */
        crti_progress_wake(p);
}

/* One sleep, with the token if it can be had. */
static void wait_once(crti_progress_t *p, crti_progress_waiter_t *w, uint64_t deadline_ns)
{
    uint64_t at;

    if (!p->token || p->token == &p->self || p->token == w) {
        hold_token(p, w, deadline_ns);
        return;
    }
    at = displace_at(p, w);
    if (at > 0 && at <= crti_now_ns()) {
        displace_holder(p);
        hold_token(p, w, deadline_ns);
        return;
    }
    w->tries += at > 0;
    __atomic_store_n(&w->word, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&p->lock);
    sleep_on_word(&w->word, at > 0 && at < deadline_ns ? at : deadline_ns);
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
    crti_list_init(&w.displaced);
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
    p->spun_at = 0;
    /* A free token was meant for whoever of us woke: one that leaves without taking it passes it
     * on, or the others would sleep with nobody receiving. */
    if (!p->token || p->token == &w) {
        if (status != CRT_OK)
            p->token = NULL; /* nothing more is received for us */
        leave_token(p);
    }
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
    crti_list_init(&p->displaced);
    crti_list_init(&p->self.displaced);
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
