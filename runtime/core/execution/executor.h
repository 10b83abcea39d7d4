/* SPDX-License-Identifier: Apache-2.0 */
/* Executors: the threads of a worker that run calls, each for one concurrency group.
 *
 * Where it sits
 *     incoming.c (a call is runnable) -> [ executor.c ] -> execute.c (takes it) -> user code
 * Threads
 *     The core's lock. The first executor of the first group is the process's main thread.
 * States of a group
 *     It has no thread but the main one at first. It gets one more, until there are `limit`, when more
 *     calls are runnable than executors are idle. They end with the process.
 * Invariants
 *     The calls of a group start in the order in which they became runnable, at most `limit` run at a
 *     time. No thread is started before the actor is created.
 */
#ifndef CRTI_CORE_EXECUTION_EXECUTOR_H
#define CRTI_CORE_EXECUTION_EXECUTOR_H

#include <pthread.h>
#include <stdbool.h>

#include "runtime/base/list.h"
#include "runtime/core/process/blocking.h"
#include "runtime/core/process/program.h"

typedef struct crti_concurrency_group {
    crti_list_t runnable;    /* crt_call_t.link */
    unsigned queued;         /* calls in it */
    unsigned limit;          /* executors at most; */
    unsigned executors;      /* that there are; */
    unsigned idle;           /* that run no call */
    crti_executor_t *latest; /* of its executors */
} crti_concurrency_group_t;

struct crti_executor {
    crti_core_t *core;
    crti_concurrency_group_t *group;
    crti_blocking_t blocking;
    crt_call_t *running;   /* the innermost */
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
/* The actor is created: more threads may begin. Each takes calls of its group in `run`, with the lock,
 * until the worker ends. */
void crti_executors_open(crti_core_t *core, void (*run)(crti_executor_t *executor));
/* The actor ends: waits, without the lock, until the main thread is the only one. */
void crti_executors_join(crti_core_t *core);
void crti_executors_fini(crti_executors_t *executors);

/* The call may run; it is in no list. False: its group has no thread, and can get none (an errno in
 * `*error_out`). */
bool crti_executor_queue(crt_call_t *call, int *error_out);
/* The next call of its group, in no list any more; NULL: none. It is idle again after crti_executor_idle. */
crt_call_t *crti_executor_take(crti_executor_t *executor);
void crti_executor_idle(crti_executor_t *executor);
/* Out of whatever list it is in, before it runs. */
void crti_executor_unqueue(crt_call_t *call);

/* Our own task, in the thread that waits for it; NULL: none runs it yet. */
crt_call_t *crti_executors_find(const crti_executors_t *executors,
                                const crti_pending_t *pending);
/* Some executor that runs a call; NULL: none does. */
const crti_executor_t *crti_executor_busy(const crti_executors_t *executors);
/* Do all executors that the group may have wait for calls of the group itself, were `executor` to do so,
 * too? */
bool crti_executor_would_stall(const crti_executor_t *executor, unsigned group);

#endif
