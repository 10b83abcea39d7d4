/* SPDX-License-Identifier: Apache-2.0 */
/* Executors: the threads of a worker that run calls, each for one concurrency group.
 *
 * Where it sits
 *     incoming.c (a call is runnable) -> [ executor.c ] -> execute.c (takes it) -> user code
 * Threads
 *     The core's lock. The first executor of the first group is the process's main thread.
 * States of an executor
 *     idle       it waits
 *     called     it waits, and takes the next call
 *     running    it runs a call; if that takes long it is no longer counted on
 * Which one is called
 *     To wake a thread costs more than to run a short call. So a call that becomes runnable while
 *     an executor runs one is left to it, and the group is watched: when its calls turn out not to
 *     be short, as many executors as there are calls are called at once, and more threads are
 *     started, until there are `limit`. From then on an executor that runs such a call is not
 *     counted on: the next one is called without delay. With nobody to count on, the thread that
 *     makes progress is called, if it is one of the group. Threads end with the process.
 * Invariants
 *     The calls of a group start in the order in which they became runnable, at most `limit` run at
 *     a time. No thread is started before the actor is created. While calls are runnable, an
 *     executor is called or runs, or none could be started; and the group is watched while more
 *     could be called.
 */
#ifndef CRTI_CORE_EXECUTION_EXECUTOR_H
#define CRTI_CORE_EXECUTION_EXECUTOR_H

#include <pthread.h>
#include <stdbool.h>

#include "runtime/base/list.h"
#include "runtime/core/process/blocking.h"
#include "runtime/core/process/program.h"

typedef struct crti_concurrency_group {
    crti_list_t runnable; /* crt_call_t.link */
    unsigned queued;      /* calls in it */
    unsigned limit;       /* executors at most; */
    unsigned executors;   /* that there are; */
    unsigned idle;        /* that run no call; */
    unsigned called;      /* of the idle, that take the next one; */
    unsigned awake; /* that are called, or run a call that is not known to be long */
    crti_executor_t *latest; /* of its executors */
    crti_executor_t *called_last;
    uint64_t taken; /* calls so far */
    /* The group is watched until `watch_at_ns` (0: it is not): then that many had been taken. */
    uint64_t watch_at_ns, watch_ns, watch_taken;
} crti_concurrency_group_t;

struct crti_executor {
    crti_core_t *core;
    crti_concurrency_group_t *group;
    crti_blocking_t blocking;
    crt_call_t *running; /* the innermost */
    bool is_idle, is_called;
    bool is_long;          /* the call that it runs */
    unsigned inline_depth; /* tasks that run inside the one it waits in */
    pthread_t thread;      /* not of the main one */
    crti_executor_t *next; /* of its group, made before it */
};

typedef struct crti_executors {
    crti_executor_t main;
    crti_concurrency_group_t
        groups[CRTI_GROUP_MAX + 1]; /* the first is the actor's own */
    unsigned group_count;
    void (*run)(
        crti_executor_t
            *executor); /* what a thread does, with the lock; NULL: none may start */
} crti_executors_t;

void crti_executors_init(crti_executors_t *executors, crti_core_t *core);
/* What the class declares, and what crt_actor_new asked for. */
void crti_executors_set(crti_executors_t *executors, const crti_class_t *class_,
                        unsigned max_concurrency);
/* The actor is created: more threads may begin. Each takes calls of its group in `run`, with the
 * lock, until the worker ends. */
void crti_executors_open(crti_core_t *core, void (*run)(crti_executor_t *executor));
/* The actor ends: waits, without the lock, until the main thread is the only one. */
void crti_executors_join(crti_core_t *core);
void crti_executors_fini(crti_executors_t *executors);

/* The call may run; it is in no list. False: its group has no thread, and can get none (an errno in
 * `*error_out`). */
bool crti_executor_queue(crt_call_t *call, int *error_out);
/* Of crti_net_wait: an executor that waits, or has run a call, shall take one, or end. */
bool crti_executor_has_work(void *executor);
/* The next call of its group, in no list any more; NULL: none. It is idle again after
 * crti_executor_idle. */
crt_call_t *crti_executor_take(crti_executor_t *executor);
void crti_executor_idle(crti_executor_t *executor);
/* Groups whose calls are not short call more executors; from the timer. */
void crti_executors_tick(crti_core_t *core, uint64_t now_ns);
/* Out of whatever list it is in, before it runs. */
void crti_executor_unqueue(crt_call_t *call);

/* Our own task, in the thread that waits for it; NULL: none runs it yet. */
crt_call_t *crti_executors_find(const crti_executors_t *executors,
                                const crti_pending_t *pending);
/* Some executor that runs a call; NULL: none does. */
const crti_executor_t *crti_executor_busy(const crti_executors_t *executors);
/* Do all executors that the group may have wait for calls of the group itself, were `executor` to
 * do so, too? */
bool crti_executor_would_stall(const crti_executor_t *executor, unsigned group);

#endif
