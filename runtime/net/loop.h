/* SPDX-License-Identifier: Apache-2.0 */
/* Loop: what a daemon does all day. Descriptors, timers, signals and posted work in one epoll.
 *
 * Where it sits
 *     crt-head, crt-node, crt-http, crt command -> [ net/loop.c ] -> epoll
 * Threads
 *     One thread runs the loop and calls everything here; crti_loop_post and crti_loop_stop
 *     may be called from any thread.
 * Ownership
 *     Watches and timers are members of the caller's structs, zero-initialised or added before;
 *     the loop keeps pointers to them while they are added. They may be removed (and their
 *     memory freed) inside any callback: events that were already fetched are forgotten.
 * Invariants
 *     A callback runs only for what is added at that moment. Timers run in the order of their
 *     deadlines. Posted work runs in order, exactly once, and never inside crti_loop_post.
 */
#ifndef CRTI_NET_LOOP_H
#define CRTI_NET_LOOP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"
#include "runtime/net/deadlines.h"

typedef struct crti_loop crti_loop_t;

/* A descriptor that is watched. Level-triggered. The descriptor stays the caller's. */
typedef struct crti_watch {
    void (*on_ready)(void *user, uint32_t events); /* EPOLLIN, EPOLLOUT, EPOLLHUP, ... */
    void *user;
    int fd;
    uint32_t events; /* as added; 0 events still reports EPOLLHUP and EPOLLERR */
    bool added;
} crti_watch_t;

/* A moment at which something happens, once. */
typedef struct crti_timer {
    void (*on_expired)(void *user);
    void *user;
    crti_deadline_t deadline; /* equal ones expire in the order they were started */
} crti_timer_t;

static inline bool crti_timer_is_started(const crti_timer_t *timer)
{
    return timer->deadline.place != 0;
}

/* Caller owns the result and frees it with crti_loop_free. CRT_ERR_IO. */
crt_status_t crti_loop_new(crti_loop_t **loop_out);

/* Restores the signals that were watched. Whatever is still added is forgotten, posted work
 * that did not run is dropped. NULL is fine. */
void crti_loop_free(crti_loop_t *loop);
CRTI_DEFINE_AUTO(crti_loop_t *, crti_loop_free)

/* Runs callbacks until crti_loop_stop. CRT_ERR_IO when epoll itself fails. */
crt_status_t crti_loop_run(crti_loop_t *loop);

/* One turn: waits for events until `deadline_ns` (UINT64_MAX: as long as it takes, 0: not at all)
 * or the first timer, and runs what is due. For tests and for waiting in a command. */
crt_status_t crti_loop_turn(crti_loop_t *loop, uint64_t deadline_ns);

/* crti_loop_run returns after the callback that runs now. Any thread. */
void crti_loop_stop(crti_loop_t *loop);

/* The time at which this turn began, of crti_now_ns. */
uint64_t crti_loop_now(const crti_loop_t *loop);

/* For how long it had nothing to do, from its start to this turn, in nanoseconds: what did not come
 * in such time was not late for the loop's own sake. */
uint64_t crti_loop_idle(const crti_loop_t *loop);

/* Watches watch->fd for `events`; on_ready and user are set by the caller before. */
crt_status_t crti_loop_add(crti_loop_t *loop, crti_watch_t *watch, int fd,
                           uint32_t events);
crt_status_t crti_loop_modify(crti_loop_t *loop, crti_watch_t *watch, uint32_t events);
/* Fine when it is not added. Call before the descriptor is closed. */
void crti_loop_remove(crti_loop_t *loop, crti_watch_t *watch);

/* Starts the timer, or moves one that is started. CRT_ERR_NO_MEMORY. */
crt_status_t crti_loop_start(crti_loop_t *loop, crti_timer_t *timer,
                             uint64_t deadline_ns);
/* Fine when it is not started. */
void crti_loop_cancel(crti_loop_t *loop, crti_timer_t *timer);

/* Blocks the signal and calls `on_signal` from the loop when it arrives. */
crt_status_t crti_loop_signal(crti_loop_t *loop, int signal_number,
                              void (*on_signal)(void *user, int signal_number),
                              void *user);

/* `work(user)` runs in a later turn of the loop's thread. Any thread. CRT_ERR_NO_MEMORY. */
crt_status_t crti_loop_post(crti_loop_t *loop, void (*work)(void *user), void *user);

#endif
