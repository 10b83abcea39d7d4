/* SPDX-License-Identifier: Apache-2.0 */
/* Silent connections. See stream_silent.h. */
#include "runtime/net/stream_silent.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"

#define HEADER    5    /* of a TLS record: type, version, length */
#define HANDSHAKE 0x16 /* the type that a ClientHello has */
#define HELLO_MAX 4096 /* bytes of one; ours has some 300 */

typedef struct connection {
    crti_list_t link;
    crti_silent_t *silent;
    crti_watch_t watch;
    struct sockaddr_storage from;
    uint64_t since_ns;
    int fd;
} connection_t;

typedef enum progress { WAITS, HAS_SPOKEN, IS_GONE, IS_NO_TLS } progress_t;

/* Looks at what came without taking it, and lets the kernel wake us when the rest is there. */
static progress_t look(int fd)
{
    unsigned char header[HEADER];
    ssize_t got = recv(fd, header, sizeof(header), MSG_PEEK | MSG_DONTWAIT);
    int wanted = HEADER, there = 0;

    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        return IS_GONE;
    if (got > 0 && header[0] != HANDSHAKE)
        return IS_NO_TLS;
    if (got == HEADER)
        wanted += header[3] << 8 | header[4];
    if (wanted > HEADER + HELLO_MAX)
        return IS_NO_TLS;
    if (got == HEADER && ioctl(fd, FIONREAD, &there) == 0 && there >= wanted) {
        wanted = 1;
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted));
        return HAS_SPOKEN;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted));
    return WAITS;
}

static void set_timer(crti_silent_t *silent)
{
    const connection_t *oldest;

    if (crti_list_is_empty(&silent->connections)) {
        crti_loop_cancel(silent->loop, &silent->timer);
        return;
    }
    oldest = CRTI_CONTAINER(silent->connections.next, connection_t, link);
    crti_loop_start(silent->loop, &silent->timer, oldest->since_ns + silent->timeout_ns);
}

/* The descriptor is the caller's now. */
static int release(connection_t *c)
{
    int fd = c->fd;

    crti_loop_remove(c->silent->loop, &c->watch);
    crti_list_remove(&c->link);
    c->silent->count--;
    free(c);
    return fd;
}

static void refuse(crti_silent_t *silent, connection_t *c, const char *why)
{
    struct sockaddr_storage from = c->from;

    close(release(c));
    silent->on_refused(silent->user, &from, why);
}

static void on_ready(void *user, uint32_t events)
{
    connection_t *c = user;
    crti_silent_t *silent = c->silent;
    struct sockaddr_storage from = c->from;
    progress_t progress = look(c->fd);

    if (progress == WAITS && !(events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
        return;
    if (progress == HAS_SPOKEN)
        silent->on_spoken(silent->user, release(c), &from);
    else
        refuse(silent, c, progress == IS_NO_TLS ? "no TLS" : "it left");
}

static connection_t *oldest_of(const crti_silent_t *silent)
{
    return CRTI_CONTAINER(silent->connections.next, connection_t, link);
}

static void on_late(void *user)
{
    crti_silent_t *silent = user;
    uint64_t now = crti_loop_now(silent->loop);

    while (silent->count && oldest_of(silent)->since_ns + silent->timeout_ns <= now)
        refuse(silent, oldest_of(silent), "it said nothing");
    set_timer(silent);
}

static void hold(crti_silent_t *silent, int fd, const struct sockaddr_storage *from)
{
    CRTI_AUTO(crti_close) int owned = fd;
    CRTI_AUTO(free) connection_t *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return;
    *c = (connection_t){.silent = silent,
                        .from = *from,
                        .since_ns = crti_loop_now(silent->loop),
                        .fd = fd};
    c->watch = (crti_watch_t){.on_ready = on_ready, .user = c};
    crti_list_init(&c->link);
    if (crti_loop_add(silent->loop, &c->watch, fd, EPOLLIN | EPOLLRDHUP) != CRT_OK)
        return;
    crti_list_append(&silent->connections, &c->link);
    crti_take_fd(&owned); /* the connection has it, and the list the connection */
    CRTI_TAKE(c);
    if (++silent->count > CRTI_SILENT_MAX)
        refuse(silent, oldest_of(silent), "too many say nothing");
    set_timer(silent);
}

void crti_silent_add(crti_silent_t *silent, int fd, const struct sockaddr_storage *from)
{
    switch (look(fd)) {
    case HAS_SPOKEN: silent->on_spoken(silent->user, fd, from); break;
    case WAITS: hold(silent, fd, from); break;
    case IS_NO_TLS:
        close(fd);
        silent->on_refused(silent->user, from, "no TLS");
        break;
    case IS_GONE:
        close(fd);
        silent->on_refused(silent->user, from, "it left");
        break;
    }
}

void crti_silent_init(crti_silent_t *silent)
{
    silent->timer = (crti_timer_t){.on_expired = on_late, .user = silent};
    crti_list_init(&silent->connections);
    silent->count = 0;
}

void crti_silent_fini(crti_silent_t *silent)
{
    crti_loop_cancel(silent->loop, &silent->timer);
    while (silent->count)
        close(release(oldest_of(silent)));
}
