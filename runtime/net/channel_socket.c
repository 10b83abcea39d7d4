/* SPDX-License-Identifier: Apache-2.0 */
/* The unix sockets that channels run over: listening, connecting until a deadline, and who is
 * at the other end. Only processes of the same user are let in. */
#include "runtime/net/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"

crt_status_t crti_channel_peer(const crti_channel_t *channel, struct ucred *peer_out)
{
    socklen_t size = sizeof(*peer_out);

    if (getsockopt(crti_channel_fd(channel), SOL_SOCKET, SO_PEERCRED, peer_out, &size) <
        0)
        return crt_raise(CRT_ERR_IO, "channel: peer's credentials: %s", strerror(errno));
    return CRT_OK;
}

crt_status_t crti_channel_address(const char *path, struct sockaddr_un *address,
                                  socklen_t *size_out)
{
    size_t length = strlen(path);

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (length >= sizeof(address->sun_path))
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "socket path \"%s\" has %zu bytes, a socket takes %zu: set "
                         "CRT_RUN_DIR to a shorter directory",
                         path, length, sizeof(address->sun_path) - 1);
    memcpy(address->sun_path, path, length + 1);
    *size_out = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (path[0] == '@')
        address->sun_path[0] = '\0'; /* what follows is its name, to the last byte */
    else
        ++*size_out;
    return CRT_OK;
}

static crt_status_t check_owner(int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return crt_raise(CRT_ERR_IO, "channel: peer's credentials: %s", strerror(errno));
    if (peer.uid != geteuid())
        return crt_raise(CRT_ERR_PERMISSION,
                         "process %d of user %u is at the other end, not one of user %u",
                         (int)peer.pid, peer.uid, geteuid());
    return CRT_OK;
}

/* A unix socket connects at once, or waits while the listener's queue is full: then the send
 * timeout of the (still blocking) socket is the limit. */
static crt_status_t connect_until(int fd, const char *path,
                                  const struct sockaddr_un *address, socklen_t size,
                                  uint64_t deadline_ns)
{
    int failed;

    do {
        uint64_t now = crti_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
        struct timeval limit = {
            .tv_sec = (time_t)(left > 1000000 * CRTI_S ? 1000000 : left / CRTI_S),
            .tv_usec = (suseconds_t)(left % CRTI_S / 1000)};

        if (limit.tv_sec == 0 && limit.tv_usec == 0)
            limit.tv_usec = 1; /* 0 would mean without limit */
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        failed = connect(fd, (const struct sockaddr *)address, size);
    } while (failed && errno == EINTR);
    if (!failed)
        return CRT_OK;
    if (errno == ENOENT || errno == ECONNREFUSED)
        return crt_raise(CRT_ERR_NOT_FOUND, "nobody listens at %s: %s", path,
                         strerror(errno));
    if (errno == EAGAIN)
        return crt_raise(CRT_ERR_TIMED_OUT, "%s does not take connections", path);
    return crt_raise(CRT_ERR_IO, "connect to %s: %s", path, strerror(errno));
}

crt_status_t crti_channel_connect(const char *path, uint64_t deadline_ns,
                                  const crti_channel_handlers_t *handlers,
                                  crti_channel_t **channel_out)
{
    CRTI_AUTO(crti_close) int fd = -1;
    struct sockaddr_un address;
    socklen_t size;
    crt_status_t status = crti_channel_address(path, &address, &size);

    if (status != CRT_OK)
        return status;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "socket: %s", strerror(errno));
    status = connect_until(fd, path, &address, size, deadline_ns);
    if (status == CRT_OK)
        status = check_owner(fd);
    if (status != CRT_OK)
        return status;
    return crti_channel_new(&fd, handlers, 0, channel_out);
}

crt_status_t crti_channel_listen(const char *path, int *fd_out)
{
    CRTI_AUTO(crti_close) int fd = -1;
    struct sockaddr_un address;
    socklen_t size;
    crt_status_t status = crti_channel_address(path, &address, &size);
    mode_t mask;
    int failed;

    if (status != CRT_OK)
        return status;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "socket: %s", strerror(errno));
    mask = umask(0177); /* the socket is made with its final mode */
    failed = bind(fd, (const struct sockaddr *)&address, size);
    umask(mask);
    if (failed < 0)
        return crt_raise(errno == EADDRINUSE ? CRT_ERR_EXISTS : CRT_ERR_IO,
                         "bind to %s: %s", path, strerror(errno));
    if (listen(fd, SOMAXCONN) < 0)
        return crt_raise(CRT_ERR_IO, "listen at %s: %s", path, strerror(errno));
    *fd_out = crti_take_fd(&fd);
    return CRT_OK;
}

crt_status_t crti_channel_accept(int listen_fd, int *fd_out)
{
    CRTI_AUTO(crti_close)
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    crt_status_t status;

    if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
        return CRT_IN_PROGRESS;
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "accept: %s", strerror(errno));
    status = check_owner(fd);
    if (status == CRT_OK)
        *fd_out = crti_take_fd(&fd);
    return status;
}

crt_status_t crti_channel_pair(int fds_out[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_out) < 0)
        return crt_raise(CRT_ERR_IO, "socketpair: %s", strerror(errno));
    return CRT_OK;
}
