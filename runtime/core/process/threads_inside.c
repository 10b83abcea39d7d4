/* SPDX-License-Identifier: Apache-2.0 */
/* Threads inside. See threads_inside.h. */
#include "runtime/core/process/threads_inside.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

CRTI_THREAD_LOCAL crti_thread_inside_t crti_thread_inside;
atomic_bool crti_inside_has_barrier;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static crti_thread_inside_t *threads;
static pthread_key_t at_exit; /* of a thread */
static bool has_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_uint departures; /* counted up for a shutdown that waits */

static void unlist(void *thread)
{
    crti_thread_inside_t *gone = thread;

    pthread_mutex_lock(&lock);
    if (gone->previous)
        gone->previous->next = gone->next;
    else
        threads = gone->next;
    if (gone->next)
        gone->next->previous = gone->previous;
    gone->is_listed = false;
    pthread_mutex_unlock(&lock);
}

static bool membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0) == 0;
}

static void prepare(void)
{
    has_key = pthread_key_create(&at_exit, unlist) == 0;
    atomic_store(&crti_inside_has_barrier,
                 membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
}

void crti_inside_list_thread(crti_thread_inside_t *thread)
{
    pthread_once(&once, prepare);
    pthread_mutex_lock(&lock);
    thread->next = threads;
    thread->previous = NULL;
    if (threads)
        threads->previous = thread;
    threads = thread;
    thread->is_listed = true;
    pthread_mutex_unlock(&lock);
    if (has_key)
        pthread_setspecific(at_exit, thread);
}

unsigned crti_inside_count(void)
{
    unsigned count = 0;

    pthread_mutex_lock(&lock);
    for (const crti_thread_inside_t *t = threads; t; t = t->next)
        count++;
    pthread_mutex_unlock(&lock);
    return count;
}

void crti_inside_forked(void)
{
    crti_thread_inside_t *own = &crti_thread_inside;

    pthread_mutex_init(&lock, NULL); /* another thread may have held it */
    threads = own->is_listed ? own : NULL;
    own->next = own->previous = NULL;
}

void crti_inside_wake(void)
{
    atomic_fetch_add(&departures, 1);
    syscall(SYS_futex, &departures, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static bool is_any_inside(void)
{
    bool is_any = false;

    pthread_mutex_lock(&lock);
    for (crti_thread_inside_t *t = threads; t && !is_any; t = t->next)
        is_any = atomic_load_explicit(&t->depth, memory_order_acquire) > 0;
    pthread_mutex_unlock(&lock);
    return is_any;
}

/* Of all threads. A child of a fork may have to register anew. */
static void barrier(void)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&crti_inside_has_barrier) &&
        !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) &&
        !(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
          membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)))
        membarrier(MEMBARRIER_CMD_GLOBAL);
}

void crti_inside_wait(void)
{
    unsigned seen = atomic_load(&departures);

    barrier();
    while (is_any_inside()) {
        syscall(SYS_futex, &departures, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        seen = atomic_load(&departures);
    }
}
