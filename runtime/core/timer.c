/* SPDX-License-Identifier: Apache-2.0 */
/* The timer of the runtime: one, armed for the earliest time that any module wants. What happens then
 * is core->on_tick's. See core.h. */
#include "runtime/core/core.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"

static void on_timer(void *user, int fd, uint32_t events)
{
    crti_core_t *core = user;
    uint64_t expirations;

    if (read(fd, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN)
        crti_log(CRTI_LOG_WARN, "core", "timer: %s", strerror(errno));
    core->on_tick(core, crti_now_ns());
}

static crt_status_t make_timer(crti_core_t *core)
{
    crt_status_t status;

    core->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (core->timer_fd < 0)
        return crt_raise(CRT_ERR_IO, "timerfd_create: %s", strerror(errno));
    status = crti_net_add_fd(core->net, core->timer_fd, EPOLLIN, on_timer, core);
    if (status != CRT_OK) {
        close(core->timer_fd);
        core->timer_fd = -1;
    }
    return status;
}

void crti_core_wake_at(crti_core_t *core, uint64_t at_ns)
{
    struct itimerspec spec = {
        .it_value = {(time_t)(at_ns / CRTI_S), (long)(at_ns % CRTI_S)}};

    if (at_ns >= core->timer_ns)
        return;
    if (core->timer_fd < 0 && make_timer(core) != CRT_OK) {
        crti_log(CRTI_LOG_WARN, "core", "%s", crt_error_detail());
        return; /* the next request for a tick tries again */
    }
    core->timer_ns = at_ns;
    timerfd_settime(core->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}
