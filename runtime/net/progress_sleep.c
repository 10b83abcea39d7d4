/* SPDX-License-Identifier: Apache-2.0 */
/* The sleep of who makes progress: it ends when a signal handler has run, but not when the process was stopped.
 *
 * Where it sits
 *     progress.c (the holder of the token) -> [ progress_sleep.c ] -> epoll
 * Idea
 *     epoll_wait ends with EINTR after a handler and after a stop (job control, a debugger, crt stack): nobody
 *     can tell them apart afterwards. poll is taken up again by the kernel after a stop, but says nothing of
 *     which descriptor is ready, and a second system call in each sleep is felt in a loop of short calls. So
 *     only a program that has handlers sleeps in poll. In any other one EINTR is always a stop.
 */
#include "runtime/net/progress_sleep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>

#include "runtime/base/clock.h"

#define LOOK_EVERY_NS (10 * CRTI_MS)

/* What the thread does to itself: handlers of these (those of a sanitizer, say) end no sleep. */
static bool is_fault(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE ||
           number == SIGILL || number == SIGTRAP || number == SIGABRT || number == SIGSYS;
}

static bool has_handlers(void)
{
    for (int number = 1; number <= SIGRTMAX; number++) {
        struct sigaction action;

        if (is_fault(number) || sigaction(number, NULL, &action) != 0)
            continue;
        if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)
            return true;
    }
    return false;
}

void crti_signal_handlers_look(crti_signal_handlers_t *handlers, uint64_t now_ns)
{
    if (handlers->looked_ns && now_ns - handlers->looked_ns < LOOK_EVERY_NS)
        return;
    handlers->looked_ns = now_ns;
    handlers->are_there = has_handlers();
}

int crti_progress_sleep(int epoll_fd, struct epoll_event *events, int count, int timeout,
                        bool handled)
{
    struct pollfd ready = {.fd = epoll_fd, .events = POLLIN};
    int n;

    if (handled && timeout != 0) {
        n = poll(&ready, 1, timeout);
        return n > 0 ? epoll_wait(epoll_fd, events, count, 0) : n;
    }
    n = epoll_wait(epoll_fd, events, count, timeout);
    if (n >= 0 || errno != EINTR)
        return n;
    if (!has_handlers()) /* one may have been installed after the look */
        return 0;
    errno = EINTR;
    return -1;
}
