/* SPDX-License-Identifier: Apache-2.0 */
/* The timer of the runtime: one, armed for the earliest time that any module wants. What happens
 * then is core->on_tick's. See context.h. */
#include "runtime/core/process/timer.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/core/process/context.h"

void crti_core_timer_init(crti_core_timer_t *timer)
{
    *timer = (crti_core_timer_t){.fd = -1, .at_ns = UINT64_MAX};
}

void crti_core_timer_fini(crti_core_timer_t *timer)
{
    if (timer->fd >= 0)
        close(timer->fd);
    timer->fd = -1;
}

void crti_core_timer_fired(crti_core_t *core, uint64_t now_ns)
{
    core->timer->at_ns = UINT64_MAX;
    core->on_tick(core, now_ns);
}

static void on_timer(void *user, int fd, uint32_t events)
{
    crti_core_t *core = user;
    uint64_t expirations;

    if (read(fd, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN)
        crti_log(CRTI_LOG_WARN, "core", "timer: %s", strerror(errno));
    crti_core_timer_fired(core, crti_now_ns());
}

static crt_status_t make_timer(crti_core_t *core)
{
    crt_status_t status;

    core->timer->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (core->timer->fd < 0)
        return crt_raise(CRT_ERR_IO, "timerfd_create: %s", strerror(errno));
    status = crti_net_add_fd(core->net, core->timer->fd, EPOLLIN, on_timer, core);
    if (status != CRT_OK) {
        close(core->timer->fd);
        core->timer->fd = -1;
    }
    return status;
}

void crti_core_wake_at(crti_core_t *core, uint64_t at_ns)
{
    struct itimerspec spec = {
        .it_value = {(time_t)(at_ns / CRTI_S), (long)(at_ns % CRTI_S)}};

    if (at_ns >= core->timer->at_ns)
        return;
    if (core->timer->fd < 0 && make_timer(core) != CRT_OK) {
        crti_log(CRTI_LOG_WARN, "core", "%s", crt_error_detail());
        return; /* the next request for a tick tries again */
    }
    core->timer->at_ns = at_ns;
    timerfd_settime(core->timer->fd, TFD_TIMER_ABSTIME, &spec, NULL);
}
