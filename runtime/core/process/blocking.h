/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking: a thread waits for something that others bring. See blocking.c. */
#ifndef CRTI_CORE_PROCESS_BLOCKING_H
#define CRTI_CORE_PROCESS_BLOCKING_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/list.h"
#include "runtime/core/types.h"

/* The waits of a thread that runs calls. */
typedef struct crti_blocking {
    /* a number of the process: a chain is about one wait; 0: none goes on */
    uint64_t wait;
    crt_ref_t *ref;    /* what it waits for; NULL: nothing, or several */
    bool is_cancelled; /* the call that runs: no wait inside it goes on */
    char *deadlock;    /* the cycle that the wait is part of, found by a chain */
} crti_blocking_t;

/* More of what is waited for, where it is not one ref; each may be NULL. Lock held. */
typedef struct crti_wait_detail {
    /* One that is still awaited, from `*at` on, which it moves to behind that; NULL: none. */
    crt_ref_t *(*pick)(void *user, size_t *at);
    /* The reason, in words; "": not known. */
    void (*describe)(void *user, char *text, size_t size);
    const crt_actor_t *actor; /* whose state it is */
} crti_wait_detail_t;

/* A thread that waits, for who asks (client/told_state.c); on that thread's stack. */
typedef struct crti_shown_wait {
    crti_list_t link; /* core->blocked->waiters */
    pid_t tid;
    uint64_t since_ns; /* 0: it runs no call, and reads no clock for it */
    crt_ref_t *ref;    /* what it waits for; NULL: not one ref */
    const char *what;  /* in words */
    bool is_of_call;   /* the thread runs a call */
    /* it has a limit of time, or what ends it may come from anywhere */
    bool may_end_by_itself;
    bool is_open;    /* for what may come from anywhere: it is no sign of trouble */
    uint64_t number; /* of all waits of the process */
    unsigned looks;  /* at how long it takes (client/slow_waits.c) */
    const crti_wait_detail_t *detail; /* of `user`; NULL: there is none */
    void *user;
} crti_shown_wait_t;

/* A part of crti_core_t. */
struct crti_blocked {
    unsigned running;            /* threads that run calls; */
    unsigned waiting;            /* of those, for longer than 1 ms */
    bool is_told;                /* the node knows that all of them wait */
    bool are_interrupts_watched; /* interrupt.h: from the first wait on */
    uint64_t waits;              /* of threads that run calls: so many have begun; */
    uint64_t all_waits;          /* and of all threads */
    crti_list_t waiters;
    /* Threads that run no call are looked at so often, while some wait; 0: never. */
    uint64_t look_ns;
    uint64_t look_at_ns;   /* the next time; 0: nobody has waited since the last */
    crti_object_id_t told; /* what the last line was about */
};

void crti_blocked_init(crti_blocked_t *blocked);

/* This thread begins to run a call, or ends it. Lock held. */
void crti_blocking_begin(crti_core_t *core, crti_blocking_t *blocking);
void crti_blocking_end(crti_core_t *core);

/* Waits until `done`; a thread that runs a call reports that it is blocked. `what` is told to who
 * asks what is waited for; static text. Lock held. */
crt_status_t crti_wait_for(crti_core_t *core, bool (*done)(void *user), void *user,
                           int64_t timeout_ms, crt_ref_t *ref, const char *what);
/* The same with more to tell. */
crt_status_t crti_wait_in_detail(crti_core_t *core, bool (*done)(void *user), void *user,
                                 int64_t timeout_ms, const crti_wait_detail_t *detail,
                                 const char *what);
/* The same for what may come from anywhere, also when all processes of the job wait; `detail` may
 * be NULL. */
crt_status_t crti_wait_openly(crti_core_t *core, bool (*done)(void *user), void *user,
                              int64_t timeout_ms, const crti_wait_detail_t *detail,
                              const char *what);
/* The call that the thread runs was cancelled; or it runs another one. */
void crti_blocking_cancel(crti_core_t *core, crti_blocking_t *blocking,
                          bool is_cancelled);
/* The wait of that thread is part of a cycle: it ends with CRT_ERR_DEADLOCK and this text. */
void crti_blocking_deadlock(crti_core_t *core, crti_blocking_t *blocking,
                            const char *text);

#endif
