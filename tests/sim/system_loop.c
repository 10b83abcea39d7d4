/* SPDX-License-Identifier: Apache-2.0 */
/* Loops of daemons, and descriptors. See system.h and runtime/net/loop.h. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/sim/system.h"
#include "tests/sim/system_wrap.h"
#undef close
#undef read

#define FDS 200000

struct crti_loop {
    sys_process_t *owner;
    crti_map_t timers; /* order -> crti_timer_t */
    crti_map_t posts;  /* number -> post_t */
};

typedef struct post {
    void (*work)(void *user);
    void *user;
} post_t;

/* ---------------------------------------------------------------- descriptors */

static sys_fd_t *fds;
static int fd_count;

int sys_fd_new(sys_fd_kind_t kind, void *thing)
{
    if (!fds)
        fds = calloc(FDS, sizeof(*fds));
    if (!fds || fd_count == FDS)
        abort();
    fds[fd_count] = (sys_fd_t){.kind = kind, .owner = sys->self, .thing = thing};
    return SYS_FD + fd_count++;
}

sys_fd_t *sys_fd_of(int fd)
{
    sys_fd_t *f = fd >= SYS_FD && fd < SYS_FD + fd_count ? &fds[fd - SYS_FD] : NULL;

    return f && f->kind != SYS_FD_NONE ? f : NULL;
}

static void close_fd(sys_fd_t *f)
{
    sys_fd_kind_t kind = f->kind;

    if (kind == SYS_FD_STORE || kind == SYS_FD_OTHER)
        return; /* handed from one to the other under the same number */
    f->kind = SYS_FD_NONE;
    if (kind == SYS_FD_CHANNEL)
        sys_channel_closed_fd(f->thing);
    else if (kind == SYS_FD_LISTENER)
        sys_listener_closed(f->thing);
}

int sys_close(int fd)
{
    sys_fd_t *f = sys_fd_of(fd);

    if (fd < SYS_FD)
        return close(fd);
    if (f)
        close_fd(f);
    return 0;
}

void sys_fds_close_all(const sys_process_t *owner)
{
    for (int i = 0; i < fd_count; i++)
        if (fds[i].kind != SYS_FD_NONE && fds[i].owner == owner)
            close_fd(&fds[i]);
}

void sys_pidfds_ready(const sys_process_t *dead)
{
    for (int i = 0; i < fd_count; i++)
        if (fds[i].kind == SYS_FD_PIDFD && fds[i].thing == dead)
            sys_fd_ready(SYS_FD + i, sim_between(sys->world, 5000, CRTI_MS));
}

static void call_ready(void *user, uint64_t number)
{
    const sys_fd_t *f = user;

    if (f->watch)
        f->watch->on_ready(f->watch->user, EPOLLIN);
    else if (f->on_ready)
        f->on_ready(f->user, SYS_FD + (int)(f - fds), EPOLLIN);
}

static void on_ready(void *user, uint64_t number)
{
    sys_fd_t *f = sys_fd_of((int)number);

    if (f && (f->watch || f->on_ready))
        sys_run(f->owner, call_ready, f, 0);
}

void sys_fd_ready(int fd, uint64_t delay)
{
    sim_after(sys->world, delay, on_ready, NULL, (uint64_t)fd);
}

ssize_t sys_read(int fd, void *data, size_t size)
{
    if (fd < SYS_FD)
        return read(fd, data, size);
    return (ssize_t)size;
}

/* ---------------------------------------------------------------- timers of cores */

int sys_timer_new(void)
{
    return sys_fd_new(SYS_FD_TIMER, NULL);
}

static void on_timer(void *user, uint64_t number)
{
    const sys_fd_t *f = sys_fd_of((int)(number & 0xffffffff));

    if (f && f->number == number >> 32)
        on_ready(NULL, number & 0xffffffff);
}

int sys_timer_set(int fd, const struct itimerspec *spec)
{
    sys_fd_t *f = sys_fd_of(fd);
    uint64_t at =
        (uint64_t)spec->it_value.tv_sec * CRTI_S + (uint64_t)spec->it_value.tv_nsec;

    if (!f)
        return -1;
    f->number++;
    sim_after(sys->world, at > sys->world->now ? at - sys->world->now : 0, on_timer, NULL,
              f->number << 32 | (uint64_t)fd);
    return 0;
}

/* ---------------------------------------------------------------- a loop */

crt_status_t crti_loop_new(crti_loop_t **loop_out)
{
    crti_loop_t *loop = calloc(1, sizeof(*loop));

    if (!loop)
        abort();
    loop->owner = sys->self;
    crti_map_init(&loop->timers, sizeof(uint64_t));
    crti_map_init(&loop->posts, sizeof(uint64_t));
    sys->self->loop = *loop_out = loop;
    return CRT_OK;
}

void crti_loop_free(crti_loop_t *loop)
{
}

uint64_t crti_loop_now(const crti_loop_t *loop)
{
    return sys->world->now;
}

void crti_loop_stop(crti_loop_t *loop)
{
    if (loop->owner == sys->self)
        sys_exit(0);
}

static void expire(void *user, uint64_t number)
{
    crti_loop_t *loop = user;
    crti_timer_t *timer = crti_map_remove(&loop->timers, &number);

    if (!timer)
        return;
    timer->deadline.place = 0;
    timer->on_expired(timer->user);
}

static void on_expired(void *user, uint64_t number)
{
    const crti_loop_t *loop = user;

    if (crti_map_get(&loop->timers, &number))
        sys_run(loop->owner, expire, user, number);
}

crt_status_t crti_loop_start(crti_loop_t *loop, crti_timer_t *timer, uint64_t deadline_ns)
{
    uint64_t now = sys->world->now;

    crti_loop_cancel(loop, timer);
    timer->deadline.at = deadline_ns;
    timer->deadline.order = sys->world->serial++;
    timer->deadline.place = 1;
    if (crti_map_put(&loop->timers, &timer->deadline.order, timer) != CRT_OK)
        abort();
    if (deadline_ns != UINT64_MAX)
        sim_after(sys->world, deadline_ns > now ? deadline_ns - now : 0, on_expired, loop,
                  timer->deadline.order);
    return CRT_OK;
}

void crti_loop_cancel(crti_loop_t *loop, crti_timer_t *timer)
{
    if (timer->deadline.place)
        crti_map_remove(&loop->timers, &timer->deadline.order);
    timer->deadline.place = 0;
}

crt_status_t crti_loop_add(crti_loop_t *loop, crti_watch_t *watch, int fd,
                           uint32_t events)
{
    sys_fd_t *f = sys_fd_of(fd);

    if (!f)
        return crt_raise(CRT_ERR_IO, "descriptor %d is not open", fd);
    watch->fd = fd;
    watch->events = events;
    watch->added = true;
    f->watch = watch;
    if (f->kind == SYS_FD_PIDFD) {
        sys_process_t *p = f->thing;

        if (!p->is_alive)
            sys_fd_ready(fd, 1000);
    }
    return CRT_OK;
}

/* Descriptors never run out here, which is what it is for. */
crt_status_t crti_loop_modify(crti_loop_t *loop, crti_watch_t *watch, uint32_t events)
{
    watch->events = events;
    return CRT_OK;
}

void crti_loop_remove(crti_loop_t *loop, crti_watch_t *watch)
{
    sys_fd_t *f = watch->added ? sys_fd_of(watch->fd) : NULL;

    watch->added = false;
    if (f && f->watch == watch)
        f->watch = NULL;
}

static void run_post(void *user, uint64_t number)
{
    const post_t *post = user;

    post->work(post->user);
}

static void on_post(void *user, uint64_t number)
{
    crti_loop_t *loop = user;
    post_t *post = crti_map_remove(&loop->posts, &number);

    if (post)
        sys_run(loop->owner, run_post, post, 0);
}

crt_status_t crti_loop_post(crti_loop_t *loop, void (*work)(void *user), void *user)
{
    post_t *post = calloc(1, sizeof(*post));
    uint64_t number = sys->world->serial++;

    if (!post)
        abort();
    *post = (post_t){work, user};
    if (crti_map_put(&loop->posts, &number, post) != CRT_OK)
        abort();
    sim_after(sys->world, 1000, on_post, loop, number);
    return CRT_OK;
}
