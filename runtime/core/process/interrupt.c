/* SPDX-License-Identifier: Apache-2.0 */
/* A signal handler ends waits. See interrupt.h. */
#include "runtime/core/process/interrupt.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/thread_local.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"

static atomic_uint_fast64_t count;
static atomic_int event_fd =
    -1; /* made once, under a lock; open until the process ends */
static CRTI_THREAD_LOCAL uint64_t told;
static CRTI_THREAD_LOCAL bool is_begun;

void crt_interrupt(void)
{
    int error = errno, fd;
    uint64_t one = 1;
    ssize_t n;

    if (crti_is_forked())
        return; /* the event is the parent's, too */
    atomic_fetch_add(&count, 1);
    fd = atomic_load(&event_fd);
    n = fd >= 0 ? write(fd, &one, sizeof(one)) : 0;
    (void)n; /* it can only fail when it is set already */
    errno = error;
}

uint64_t crti_interrupts(void)
{
    return atomic_load(&count);
}

/* What came before a thread's first wait is for threads that were there: the main one was. */
static void begin(void)
{
    is_begun = true;
    if (gettid() != getpid())
        told = atomic_load(&count);
}

uint64_t crti_interrupts_told(void)
{
    if (!is_begun)
        begin();
    return told;
}

void crti_interrupts_tell(void)
{
    told = atomic_load(&count);
}

static void on_event(void *user, int fd, uint32_t events)
{
    const crti_core_t *core = user;
    uint64_t written;
    ssize_t n = read(fd, &written, sizeof(written));

    (void)n;
    crti_net_wake(core->net);
}

void crti_interrupts_watch(crti_core_t *core)
{
    int fd = atomic_load(&event_fd);

    if (fd < 0) {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        atomic_store(&event_fd, fd);
    }
    if (fd < 0 || crti_net_add_fd(core->net, fd, EPOLLIN, on_event, core) != CRT_OK)
        crti_log(CRTI_LOG_DEBUG, "core", "crt_interrupt wakes no other thread");
}
