/* SPDX-License-Identifier: Apache-2.0 */
/* Processes, their ends, and the kernel's few words: time, chance, pids. See system.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/sim/system.h"
#include "tests/sim/system_wrap.h"
#undef syscall

sys_t *sys;

/* ---------------------------------------------------------------- time and chance */

/* The whole program's: the files of runtime/ read them through the C library. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
    uint64_t now = sys ? sys->world->now : 0;

    if (!sys)
        return (int)syscall(SYS_clock_gettime, clock, t);
    t->tv_sec = (time_t)(now / CRTI_S);
    t->tv_nsec = (long)(now % CRTI_S);
    return 0;
}

ssize_t getrandom(void *data, size_t size, unsigned flags)
{
    unsigned char *at = data;

    for (size_t i = 0; i < size; i++)
        at[i] = sys ? (unsigned char)(sim_random(sys->world) >> 24) : (unsigned char)i;
    return (ssize_t)size;
}

/* ---------------------------------------------------------------- who runs */

void sys_start(sim_world_t *world, unsigned hosts)
{
    sys = calloc(1, sizeof(*sys));
    if (!sys)
        abort();
    sys->world = world;
    sys->hosts = hosts;
    for (unsigned i = 0; i < SYS_PLACES; i++)
        sys->host_of[i] = i;
    sim_network_init(&sys->net, world, SYS_PLACES, SYS_PLACES, sys->host_of,
                     sys_net_receive, sys);
}

static void first_step(void *user, uint64_t number);

sys_process_t *sys_process_new(sys_kind_t kind, unsigned host, sys_process_t *parent,
                               void (*run)(sys_process_t *self))
{
    sys_process_t *p = &sys->process[sys->processes];

    if (sys->processes == SYS_PROCESSES) {
        sim_fail(sys->world, "more than %d processes", SYS_PROCESSES);
        return p - 1;
    }
    *p = (sys_process_t){.index = sys->processes,
                         .pid = SYS_FIRST_PID + (pid_t)sys->processes,
                         .kind = kind,
                         .host = host,
                         .parent = parent,
                         .is_alive = true,
                         .run = run};
    sys->processes++;
    if (kind == SYS_WORKER || kind == SYS_DRIVER)
        p->globals = sys_globals_new();
    sim_after(sys->world, 1000, first_step, p, 0);
    return p;
}

sys_process_t *sys_process_find(pid_t pid)
{
    unsigned index = (unsigned)(pid - SYS_FIRST_PID);

    return pid >= SYS_FIRST_PID && index < sys->processes ? &sys->process[index] : NULL;
}

static void switch_to(sys_process_t *to, bool is_main_thread)
{
    sys_globals_switch(sys->self ? sys->self->globals : NULL, to ? to->globals : NULL,
                       is_main_thread);
    sys->self = to;
}

static void resume(sys_process_t *p)
{
    p->wait.is_waiting = false;
    switch_to(p, true);
    sys->is_in_fiber = true;
    sys_fiber_resume(p->fiber);
    sys->is_in_fiber = false;
    switch_to(NULL, false);
}

static bool may_go_on(sys_process_t *p)
{
    bool may;

    if (!p->is_alive || !p->wait.is_waiting)
        return false;
    if (sys->world->now >= p->wait.deadline)
        return true;
    switch_to(p, true);
    may = p->wait.done(p->wait.user);
    switch_to(NULL, false);
    return may;
}

static void go_on(sys_process_t *p)
{
    for (int turns = 0; may_go_on(p); turns++) {
        if (turns == 100000) {
            sim_fail(sys->world, "pid %d spins: %s", (int)p->pid, p->doing);
            return;
        }
        resume(p);
    }
}

void sys_run(sys_process_t *p, void (*act)(void *user, uint64_t number), void *user,
             uint64_t number)
{
    if (!p->is_alive || sys->world->failed)
        return;
    if (p->is_locked)
        sim_fail(sys->world, "pid %d sleeps with the lock held: %s", (int)p->pid,
                 p->doing);
    switch_to(p, p->wait.is_waiting && p->wait.is_in_net);
    if (setjmp(sys->exit_jump) == 0)
        act(user, number);
    if (sys->self)
        switch_to(NULL, false);
    if (p->fiber)
        go_on(p);
}

static void run_main(void *user)
{
    sys_process_t *p = user;

    p->run(p);
    sys_exit(0);
}

static void first_step(void *user, uint64_t number)
{
    sys_process_t *p = user;

    if (!p->is_alive)
        return;
    if (p->kind == SYS_WORKER || p->kind == SYS_DRIVER) {
        p->fiber = sys_fiber_new(run_main, p);
        resume(p);
        go_on(p);
        return;
    }
    switch_to(p, true);
    if (p->run && setjmp(sys->exit_jump) == 0)
        p->run(p);
    switch_to(NULL, false);
}

/* ---------------------------------------------------------------- waiting */

static void on_deadline(void *user, uint64_t number)
{
    sys_process_t *p = user;

    if (p->wait.is_waiting && p->wait.number == number)
        go_on(p);
}

crt_status_t sys_wait_for(bool (*done)(void *user), void *user, uint64_t deadline,
                          bool is_in_net)
{
    sys_process_t *p = sys->self;
    uint64_t now = sys->world->now;

    for (;;) {
        if (done(user))
            return CRT_OK;
        if (sys->world->now >= deadline)
            return CRT_ERR_TIMED_OUT;
        if (!sys->is_in_fiber) {
            sim_fail(sys->world, "pid %d waits inside a handler", (int)p->pid);
            return CRT_ERR_TIMED_OUT;
        }
        p->wait = (sys_wait_t){.is_waiting = true,
                               .is_in_net = is_in_net,
                               .done = done,
                               .user = user,
                               .deadline = deadline,
                               .number = sys->world->serial++};
        if (deadline != UINT64_MAX)
            sim_after(sys->world, deadline > now ? deadline - now : 0, on_deadline, p,
                      p->wait.number);
        sys_fiber_yield();
        now = sys->world->now;
    }
}

static bool never(void *user)
{
    return false;
}

void sys_sleep(uint64_t time)
{
    (void)sys_wait_for(never, NULL, sys->world->now + time, false);
}

/* ---------------------------------------------------------------- the end */

static void on_exit_told(void *user, uint64_t number)
{
    sys_kill(user, (int)number);
}

void sys_exit(int code)
{
    sys_process_t *p = sys->self;

    sim_note(sys->world, "pid %d exits with %d", (int)p->pid, code);
    if (sys->is_in_fiber) {
        p->wait = (sys_wait_t){.is_waiting = false};
        sim_after(sys->world, 1, on_exit_told, p, (uint64_t)(code & 255) << 8);
        for (;;)
            sys_fiber_yield();
    }
    sys_kill(p, (code & 255) << 8);
    longjmp(sys->exit_jump, 1);
}

static void on_child_of_dead(void *user, uint64_t number)
{
    sys_kill(user, SIGKILL);
}

static void on_reaped(void *user, uint64_t number)
{
    sys_process_t *p = user, *zygote = p->parent;
    crti_msg_reaped_t reaped = {.pid = p->pid, .wait_status = p->wait_status};

    if (zygote->is_alive && zygote->link) {
        p->is_reaped = true;
        crti_channel_send(zygote->link, CRTI_MSG_REAPED, 0, &reaped);
    }
}

void sys_kill(sys_process_t *p, int wait_status)
{
    sim_world_t *w = sys->world;

    if (!p->is_alive)
        return;
    sim_note(w, "pid %d on %u is dead (%d)", (int)p->pid, p->host, wait_status);
    p->is_alive = false;
    p->is_locked = false;
    p->wait_status = wait_status;
    p->died_at = w->now;
    p->wait.is_waiting = false;
    if (p->kind == SYS_NODE && sys->node[p->host] == p)
        sys->node[p->host] = NULL;
    sys_channel_owner_died(p);
    sys_stream_owner_died(p);
    sys_fds_close_all(p);
    sys_pidfds_ready(p);
    for (unsigned i = 0; i < sys->processes; i++) {
        sys_process_t *other = &sys->process[i];

        if (other->parent == p && other->is_alive) /* its parent-death signal */
            sim_after(w, sim_below(w, 200000), on_child_of_dead, other, 0);
    }
    if (p->parent && p->parent->kind == SYS_ZYGOTE)
        sim_after(w, sim_between(w, 20000, 2 * CRTI_MS), on_reaped, p, 0);
}

/* ---------------------------------------------------------------- system calls */

pid_t sys_getpid(void)
{
    return sys->self ? sys->self->pid : 1;
}

static void on_signal(void *user, uint64_t number)
{
    sys_kill(user, SIGKILL);
}

int sys_kill_pid(pid_t pid)
{
    sys_process_t *p = sys_process_find(pid < 0 ? -pid : pid);

    if (p && p->is_alive)
        sim_after(sys->world, sim_between(sys->world, 1000, 300000), on_signal, p, 0);
    return 0;
}

/* SYS_pidfd_open, SYS_pidfd_send_signal, SYS_futex. */
long sys_syscall(long number, long argument)
{
    if (number == SYS_pidfd_open) {
        sys_process_t *p = sys_process_find((pid_t)argument);
        int fd;

        if (!p || p->is_reaped) {
            errno = ESRCH;
            return -1;
        }
        fd = sys_fd_new(SYS_FD_PIDFD, p);
        if (!p->is_alive)
            sys_fd_ready(fd, 1000);
        return fd;
    }
    if (number == SYS_pidfd_send_signal) {
        const sys_fd_t *f = sys_fd_of((int)argument);

        return f ? sys_kill_pid(((sys_process_t *)f->thing)->pid) : -1;
    }
    return 0;
}

/* A daemon waits for its children, and for what its dead children left. */
int sys_waitid(int fd, siginfo_t *info)
{
    const sys_fd_t *f = sys_fd_of(fd);
    sys_process_t *p = f ? f->thing : NULL;

    if (!p || p->is_reaped ||
        (p->parent && p->parent->kind == SYS_ZYGOTE && p->parent->is_alive)) {
        errno = ECHILD;
        return -1;
    }
    if (p->is_alive)
        return 0;
    p->is_reaped = true;
    info->si_pid = p->pid;
    info->si_code = WIFSIGNALED(p->wait_status) ? CLD_KILLED : CLD_EXITED;
    info->si_status = WIFSIGNALED(p->wait_status) ? WTERMSIG(p->wait_status)
                                                  : WEXITSTATUS(p->wait_status);
    return 0;
}

/* Shared by all who map the descriptor, also after it was closed. */
void *sys_page(int fd)
{
    static crti_map_t pages;
    uint64_t key = (uint64_t)fd;
    void *page;

    if (!pages.key_size)
        crti_map_init(&pages, sizeof(key));
    page = crti_map_get(&pages, &key);
    if (!page) {
        page = calloc(1, 4096);
        if (!page || crti_map_put(&pages, &key, page) != CRT_OK)
            abort();
    }
    return page;
}

int sys_other_fd(void)
{
    return sys_fd_new(SYS_FD_OTHER, NULL);
}

int sys_open(const char *path)
{
    return sys_other_fd();
}

#undef fopen
FILE *sys_fopen(const char *path)
{
    return fopen("/dev/null", "re");
}
