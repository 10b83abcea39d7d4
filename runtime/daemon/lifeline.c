/* SPDX-License-Identifier: Apache-2.0 */
/* Lifeline and log. See lifeline.h. */
#include "runtime/daemon/lifeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/rundir.h"

static void on_ready(void *user, uint32_t events)
{
    crti_lifeline_t *lifeline = user;
    char scrap[64];
    ssize_t n = read(lifeline->watch.fd, scrap, sizeof(scrap));

    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    crti_loop_remove(lifeline->loop, &lifeline->watch);
    lifeline->on_end(lifeline->user);
}

crt_status_t crti_lifeline_watch(crti_lifeline_t *lifeline, crti_loop_t *loop, int fd,
                                 void (*on_end)(void *user), void *user)
{
    if (fd < 0)
        return CRT_OK;
    *lifeline = (crti_lifeline_t){.loop = loop,
                                  .watch = {.on_ready = on_ready, .user = lifeline},
                                  .on_end = on_end,
                                  .user = user};
    crti_wake_with_parent(true);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return crti_loop_add(loop, &lifeline->watch, fd, EPOLLIN);
}

void crti_daemon_log_select(void)
{
    const char *selection = getenv("CRT_LOG");

    crti_log_select(selection && *selection ? selection : "info");
}

void crti_daemon_log_to(const char *path, const char *module)
{
    if (crti_log_to_file(path) != CRT_OK)
        crti_log(CRTI_LOG_WARN, module, "%s; the log goes on here", crt_error_detail());
}
