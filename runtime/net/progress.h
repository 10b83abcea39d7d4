/* SPDX-License-Identifier: Apache-2.0 */
/* Progress: which thread receives. The lock, the progress token, and the thread that holds the
 * token when no other thread wants it.
 *
 * Where it sits
 *     crti_net_wait, and the progress thread -> [ progress ] -> epoll -> ops->pump in net
 * Threads
 *     `lock` covers everything here and in net and core. The holder of the token is the only
 *     one that dispatches events. A thread that waits takes the token if it is free, or takes it
 *     away from the progress thread; else it sleeps until the holder finds its condition true,
 *     or leaves and hands the token on.
 * A long wait beside short ones
 *     A waiter that finds the token with one that has slept for 200 us takes it from there, too:
 *     the other one sleeps on in epoll and is given the token back when the new one leaves, unless
 *     it woke meanwhile. So the thread that came last receives, and an answer to a short wait wakes
 *     the thread that waits for it and no other. Epoll wakes the thread that came last, so one that
 *     sleeps there without the token can't be woken beside the holder: while its condition is true
 *     and it is not awake, the holder sleeps on its word and looks every 200 us.
 * The progress thread
 *     POLLING holds the token and sleeps in epoll: no thread waits. When a waiter took the token
 *     away it goes, at its next wake, to TICKING: once per millisecond it flushes gathered
 *     records, and takes the token only if no waiter was there for a whole tick. If a waiter
 *     held the token for 16 ticks on end it goes to PARKED, where it costs nothing; a waiter
 *     that leaves sets its timer again, which is a system call but no thread switch.
 *     A waiter that leaves while it still sleeps in POLLING gives it the token back, and it never
 *     learns that it was without. If such waits follow each other within QUIET_NS the waiter sets
 *     the other timer instead, by which it finds out.
 *     So a loop of short waits never meets the progress thread on its path, a long computation
 *     is served after two milliseconds, and an idle process sleeps in one place.
 *     While the token is free and a thread waits, a waiter is awake and about to take it or
 *     to pass it on.
 * A late progress thread
 *     A process whose threads do nothing but wait here, as a worker does between calls, needs none:
 *     it is ABSENT until crti_progress_busy announces code that may run long without a wait. It
 *     begins with TICKING, sleeps no longer than LATE_END_NS, and is PARKED after one idle tick: it
 *     polls every LATE_TICK_NS, a waiter that leaves does nothing, and when none left for
 *     LATE_END_NS it ends. Where it was hardly ever needed it is RESTING instead, when no waiter
 *     left between two polls, or when a waiter receives at its very first tick. A waiter that
 *     leaves then sets its timer, which costs more than everything else that the waiter does; if
 *     none does for LATE_END_NS it ends. So a worker that was called once has one thread again,
 *     which woke twice. Rare calls neither set timers nor make new threads.
 * Spinning
 *     Before it sleeps a waiter watches the lanes that are awake for wait_spin, about what a wake
 *     across cores costs: an answer that comes in this time costs no thread switch on either side.
 *     If the sleep after a miss turns out to have been short, the next spin is wait_spin_long: the
 *     other side had to be woken from deep idle. After three misses on end (a long method, no free
 *     core) it sleeps at once for 16 waits, then tries once, and doubles the pause up to 1024 waits
 *     until a try succeeds. The progress thread never spins.
 * Sleeping
 *     One epoll. It wakes the thread that came last, and, for a level-triggered event that is still
 *     there, the thread before it, too. So the descriptors of calls are edge-triggered. Deadlines
 *     are a timerfd: an earlier one can be set while a thread sleeps, without waking it. Lanes that
 *     always have input let nobody sleep: after some turns the holder looks without sleeping.
 * Failure
 *     Taking the token away needs no handshake. The new holder sees level-triggered events, since
 *     only the holder dispatches and a wake consumes nothing. A thread that gets an edge without
 *     the token has all sources with edges checked.
 */
#ifndef CRTI_NET_PROGRESS_H
#define CRTI_NET_PROGRESS_H

#include <pthread.h>
#include <sys/epoll.h>

#include "runtime/base/clock.h"
#include "runtime/base/crt_base.h"
#include "runtime/base/list.h"
#include "runtime/net/spin.h"

#define CRTI_PROGRESS_TICK_NS CRTI_MS

typedef struct crti_progress_ops {
    /* Everything gathered leaves. */
    void (*flush)(void *user);
    /* Does what can be done without sleeping; true: something was done, look again. */
    bool (*pump)(void *user);
    /* Words that change when input comes that pump would find, at most `max`, and what they were
     * when pump looked; returns how many. 0: spinning makes no sense. */
    size_t (*words)(void *user, struct crti_progress_word *words, size_t max);
    /* From now on epoll tells of all input. False: there is some, pump again. */
    bool (*sleep)(void *user);
    /* Somebody was told of edges, by sources that may be gone: all that have edges are looked
     * at. */
    void (*rescan)(void *user);
    /* Does what is due. */
    void (*expire)(void *user);
    /* The earliest deadline, UINT64_MAX for none. */
    uint64_t (*deadline)(void *user);
    /* Other code of the process closed its descriptors: nothing is received any more. The thread
     * ends, and waits return CRT_ERR_CLOSED. At most once, lock held. */
    void (*broken)(void *user);
} crti_progress_ops_t;

/* Something that epoll watches; a member of the owner's struct. */
typedef struct crti_source {
    int fd;
    bool may_repeat; /* on_ready may come too often: edges, which must not be missed */
    bool removed;
    void (*on_ready)(struct crti_source *source, uint32_t events);
    void (*on_free)(
        struct crti_source *source); /* after removal, when no thread uses it */
    crti_list_t in_removed;
} crti_source_t;

typedef struct crti_progress_waiter {
    crti_list_t link;
    bool (*done)(void *user);
    void *user;
    uint32_t word;     /* futex; 1: look again */
    int tries;         /* so often it found the token with one that sleeps or receives */
    bool is_long;      /* its token was taken while it slept: it takes none from others */
    uint64_t slept_at; /* when it slept with the token first, 0 before */
    uint64_t handed_at;    /* when it was handed the token, until it is awake; else 0 */
    crti_list_t displaced; /* while it sleeps in epoll without the token */
} crti_progress_waiter_t;

typedef enum crti_progress_state {
    CRTI_PROGRESS_POLLING,
    CRTI_PROGRESS_TICKING,
    CRTI_PROGRESS_PARKED,
    CRTI_PROGRESS_RESTING, /* late only */
    CRTI_PROGRESS_ABSENT,  /* there is no thread */
} crti_progress_state_t;

/* Members are read by net under the lock, written by progress.c and progress_thread.c alone. */
typedef struct crti_progress {
    pthread_mutex_t lock;
    const crti_progress_ops_t *ops;
    void *user;
    int epoll_fd, timer_fd;
    int event_fd; /* -1 before the first kick */
    int tick_fd;  /* -1 before there is a thread */
    crti_source_t event, timer;
    crti_progress_waiter_t *token;    /* NULL: free; &self: the progress thread */
    crti_progress_waiter_t *sleeping; /* the holder, while it is in epoll_wait or spins */
    crti_spin_t spin;
    uint64_t spun_at; /* when the holder saw input; 0: it did not spin */
    crti_progress_waiter_t self;
    crti_list_t waiters;
    crti_list_t displaced; /* who sleep in epoll without the token: the last one first */
    int displaced_count;
    bool is_letting_out; /* the holder sleeps on its word, until one of these is awake */
    crti_list_t removed_sources;
    uint64_t freed_count; /* how many sources were freed */
    uint64_t armed;       /* what timer_fd is set to, UINT64_MAX: off */
    uint64_t turnover;    /* how often a waiter took or left the token */
    int awake_turns;      /* so often was received without a look at the descriptors */
    uint64_t left;        /* when a waiter left it last while the thread was POLLING */
    crti_progress_state_t state;
    pthread_t thread;
    bool is_late;     /* the thread comes when it is needed, and goes */
    uint64_t ends_at; /* of a thread that is RESTING */
    int early_rests;  /* so often may a waiter still send a thread that ticks to rest */
    bool has_ended;   /* the last one did, and is to be joined */
    int busy;         /* so often was crti_progress_busy told that code begins */
    bool started, stopping;
} crti_progress_t;

crt_status_t crti_progress_init(crti_progress_t *p, const crti_progress_ops_t *ops,
                                void *user);

/* What a zygote can do once for all its workers, while it has one thread; not needed. */
void crti_progress_prepare(void);

/* `late`: the thread starts when it is needed first. */
crt_status_t crti_progress_start(crti_progress_t *p, bool late);

/* Code begins (or ends) that may take long and waits for nothing here: the progress thread has to
 * receive meanwhile. Lock held. */
void crti_progress_busy(crti_progress_t *p, bool begins);

/* Ends the thread; waiters return CRT_ERR_CLOSED. Lock not held. */
void crti_progress_stop(crti_progress_t *p);

/* Frees removed sources and closes everything. After stop. */
void crti_progress_fini(crti_progress_t *p);

/* Lock held at entry and exit. See crti_net_wait. */
crt_status_t crti_progress_wait(crti_progress_t *p, bool (*done)(void *user), void *user,
                                uint64_t deadline_ns);

/* The time for what pump finds: now, or, without a look at the clock, when it was seen. */
uint64_t crti_progress_now(crti_progress_t *p);

/* Wakes the waiters whose condition is true. */
void crti_progress_wake(crti_progress_t *p);

/* Whether the condition of the thread that makes progress is true: it can stop receiving. */
bool crti_progress_is_done(const crti_progress_t *p);

/* The holder sleeps but there is input that its descriptors do not show. */
void crti_progress_kick(crti_progress_t *p);

/* Somebody will look not later than `at`. */
void crti_progress_need(crti_progress_t *p, uint64_t at);

crt_status_t crti_progress_add(crti_progress_t *p, crti_source_t *source,
                               uint32_t events);
crt_status_t crti_progress_modify(crti_progress_t *p, crti_source_t *source,
                                  uint32_t events);

/* Its descriptor is going to be closed, the source stays: no on_ready follows but for an event
 * that was fetched already; the source's fd is -1 then. */
void crti_progress_unwatch(crti_progress_t *p, crti_source_t *source);

/* No on_ready follows; on_free does, later. The descriptor is still open. */
void crti_progress_remove(crti_progress_t *p, crti_source_t *source);

#endif
