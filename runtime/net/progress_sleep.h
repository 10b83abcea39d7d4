/* SPDX-License-Identifier: Apache-2.0 */
/* The sleep of who makes progress. See progress_sleep.c. */
#ifndef CRTI_NET_PROGRESS_SLEEP_H
#define CRTI_NET_PROGRESS_SLEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

/* Whether the program has signal handlers, as it was seen last. Zero at first. */
typedef struct crti_signal_handlers {
    bool are_there;
    uint64_t looked_ns;
} crti_signal_handlers_t;

/* Before a sleep; costs 2 us once in 10 ms. */
void crti_signal_handlers_look(crti_signal_handlers_t *handlers, uint64_t now_ns);

/* epoll_wait, but a stop of the process does not end it with EINTR: it returns 0 after one, or sleeps on.
 * `handled`: what crti_signal_handlers_look saw. */
int crti_progress_sleep(int epoll_fd, struct epoll_event *events, int count, int timeout,
                        bool handled);

#endif
