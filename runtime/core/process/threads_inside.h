/* SPDX-License-Identifier: Apache-2.0 */
/* Threads inside: which threads of the program are in a function of crt.h, so that the runtime is
 * not freed under them.
 *
 * Where it sits
 *     entry.c (functions of crt.h enter and leave) -> [ threads_inside ] <- entry.c (shutdown)
 * How
 *     Each thread counts for itself, in memory that only it writes: to enter and to leave is a
 *     plain store. The shutdown, which is rare, pays for both sides: it makes all threads of the
 *     process execute a full barrier by membarrier(2), and then reads the counts. So either the
 *     shutdown sees that a thread is inside, or that thread sees that the runtime is gone. Where
 *     the kernel has no such barrier, each thread executes one of its own.
 *     (Asymmetric fences: Dice, Huang, Yang, "Asymmetric Dekker Synchronization", 2001.)
 * Threads
 *     Any.
 */
#ifndef CRTI_CORE_PROCESS_THREADS_INSIDE_H
#define CRTI_CORE_PROCESS_THREADS_INSIDE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/base/thread_local.h"

/* Of a thread. */
typedef struct crti_thread_inside {
    atomic_uint depth; /* so many functions of crt.h, one in another */
    bool is_listed;
    struct crti_thread_inside *next, *previous;
} crti_thread_inside_t;

extern CRTI_THREAD_LOCAL crti_thread_inside_t crti_thread_inside;
extern atomic_bool crti_inside_has_barrier; /* membarrier(2) is there */

/* This thread, which enters for the first time. */
void crti_inside_list_thread(crti_thread_inside_t *thread);
/* Threads that have ever been inside, and have not ended. */
unsigned crti_inside_count(void);
/* In the child of a fork, which has this thread only. */
void crti_inside_forked(void);

static inline void crti_inside_fence(void)
{
    if (atomic_load_explicit(&crti_inside_has_barrier, memory_order_relaxed))
        atomic_signal_fence(memory_order_seq_cst);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

/* From now on the runtime is not freed, if it was not taken away before: look after this call. */
static inline void crti_inside_enter(void)
{
    crti_thread_inside_t *thread = &crti_thread_inside;
    unsigned depth = atomic_load_explicit(&thread->depth, memory_order_relaxed);

    if (!thread->is_listed)
        crti_inside_list_thread(thread);
    atomic_store_explicit(&thread->depth, depth + 1, memory_order_relaxed);
    crti_inside_fence();
}

/* The caller looks after this call whether the runtime is taken away, and calls crti_inside_wake
 * then. */
static inline void crti_inside_leave(void)
{
    crti_thread_inside_t *thread = &crti_thread_inside;
    unsigned depth = atomic_load_explicit(&thread->depth, memory_order_relaxed);

    atomic_store_explicit(&thread->depth, depth - 1, memory_order_release);
    crti_inside_fence();
}
void crti_inside_wake(void);

/* Waits until no thread is inside. The runtime has been taken away before. */
void crti_inside_wait(void);

#endif
