/* SPDX-License-Identifier: Apache-2.0 */
/* Thread: one that gets no signal of the process. */
#ifndef CRTI_BASE_THREAD_H
#define CRTI_BASE_THREAD_H

#include <pthread.h>
#include <signal.h>

/* As pthread_create: an errno, 0 when it runs. */
static inline int crti_thread_start(pthread_t *thread, const pthread_attr_t *attributes,
                                    void *(*run)(void *user), void *user)
{
    sigset_t all, before;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, attributes, run, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

#endif
