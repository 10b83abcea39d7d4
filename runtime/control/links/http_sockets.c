/* SPDX-License-Identifier: Apache-2.0 */
/* Listening sockets of the dashboard. See http_sockets.h. */
#include "runtime/control/links/http_sockets.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

#define BACKLOG       4096 /* the system's own limit may be lower */
#define DEFER_SECONDS 1    /* for who says nothing, before he is accepted */

static crt_status_t listen_at(const struct addrinfo *at, const char *host, uint16_t port,
                              int *fd_out)
{
    CRTI_AUTO(crti_close)
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    at->ai_protocol);
    int one = 1, seconds = DEFER_SECONDS;

    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "dashboard: socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof(seconds));
    if (bind(fd, at->ai_addr, at->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)
        return errno == EADDRINUSE
                   ? crt_raise(CRT_ERR_EXISTS,
                               "port %u of %s is taken; choose another with "
                               "--dashboard-port",
                               port, host)
                   : crt_raise(CRT_ERR_IO, "dashboard: can't listen on %s:%u: %s", host,
                               port, strerror(errno));
    *fd_out = crti_take_fd(&fd);
    return CRT_OK;
}

static crt_status_t listen_tcp(const char *host, uint16_t port, int *fd_out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list;
    char service[16];
    crt_status_t status;
    int error;

    snprintf(service, sizeof(service), "%u", port);
    error = getaddrinfo(host, service, &hints, &list);
    if (error)
        return crt_raise(CRT_ERR_INVALID, "dashboard: no such host %s: %s", host,
                         gai_strerror(error));
    status = listen_at(list, host, port, fd_out);
    freeaddrinfo(list);
    return status;
}

static crt_status_t look(crti_http_sockets_t *sockets)
{
    struct sockaddr_storage bound = {0};
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&bound;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&bound;
    socklen_t size = sizeof(bound);

    if (getsockname(sockets->tcp_fd, (struct sockaddr *)&bound, &size) != 0)
        return crt_raise(CRT_ERR_IO, "dashboard: %s", strerror(errno));
    if (bound.ss_family == AF_INET6) {
        sockets->port = ntohs(v6->sin6_port);
        sockets->is_loopback = IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
        sockets->is_any = IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
    } else {
        sockets->port = ntohs(v4->sin_port);
        sockets->is_loopback = ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
        sockets->is_any = v4->sin_addr.s_addr == htonl(INADDR_ANY);
    }
    return CRT_OK;
}

static crt_status_t listen_local(const char *path, int *fd_out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CRTI_AUTO(crti_close)
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "dashboard: socket: %s", strerror(errno));
    if (strlen(path) >= sizeof(address.sun_path))
        return crt_raise(CRT_ERR_INVALID,
                         "the path %s is too long for a socket: set CRT_RUN_DIR to a "
                         "shorter one",
                         path);
    strcpy(address.sun_path, path);
    unlink(path);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        chmod(path, 0600) != 0 || listen(fd, BACKLOG) != 0)
        return crt_raise(CRT_ERR_IO, "dashboard: can't listen on %s: %s", path,
                         strerror(errno));
    *fd_out = crti_take_fd(&fd);
    return CRT_OK;
}

crt_status_t crti_http_sockets_open(const char *host, uint16_t port, const char *path,
                                    crti_http_sockets_t *sockets_out)
{
    crti_http_sockets_t sockets = {.tcp_fd = -1, .local_fd = -1};
    crt_status_t status = listen_tcp(host, port, &sockets.tcp_fd);

    if (status == CRT_OK)
        status = look(&sockets);
    if (status == CRT_OK)
        status = listen_local(path, &sockets.local_fd);
    if (status == CRT_OK)
        *sockets_out = sockets;
    else
        crti_http_sockets_close(&sockets);
    return status;
}

void crti_http_sockets_close(crti_http_sockets_t *sockets)
{
    crti_close_auto(&sockets->tcp_fd);
    crti_close_auto(&sockets->local_fd);
    *sockets = (crti_http_sockets_t){.tcp_fd = -1, .local_fd = -1};
}
