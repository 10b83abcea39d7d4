/* SPDX-License-Identifier: Apache-2.0 */
/* Incoming streams: listening, the cap on strangers, addresses. See stream.h.
 *
 * Invariants
 *     Who has not sent a whole first record is not in its handshake, and keeps nobody waiting
 *     (stream_silent.h). At most CRTI_STREAM_UNAUTHENTICATED connections are in their handshake.
 *     More wait in the kernel until one is over; when none is for PATIENCE_MS, one more makes the
 *     oldest go, so that whoever opens connections and says nothing can't keep the others out, and
 *     a thousand nodes that come at once do not throw each other out. Only time in which the loop
 *     had nothing to do counts, for this and for the whole handshake: on a loaded host it is not
 *     they who are slow. Nothing but the handshake is done for a connection before it is over.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/net/stream_int.h"
#include "runtime/net/stream_silent.h"

#define ACCEPTS_PER_TURN 128
#define DEFER_SECONDS                                                                    \
    10 /* so long the kernel keeps a connection that sends nothing to itself */
#define PAUSE_MS    100  /* after running out of descriptors */
#define PATIENCE_MS 1000 /* a handshake has this for itself */
#define CROWDED_MS  20   /* ... but where its address has more than its share of them */
#define SHARE       (CRTI_STREAM_UNAUTHENTICATED / 4)
#define BACKLOG                                                                          \
    4096 /* silent ones stay with the kernel; net.core.somaxconn may be lower */

struct crti_stream_listener {
    crti_loop_t *loop;
    crti_stream_context_t context; /* holds a reference */
    int fd;
    uint16_t port;
    crti_watch_t watch;
    crti_timer_t pause;
    bool is_paused; /* by its owner */
    bool is_full;   /* nothing is accepted until a handshake is over */
    crti_stream_accept_t *on_accept;
    void *user;
    crti_list_t handshakes; /* oldest first */
    unsigned handshake_count;
    crti_silent_t silent;
    uint64_t refused;
};

/* ---------------------------------------------------------------- addresses */

void crti_stream_tune(int fd)
{
    int one = 1, idle_s = 5, interval_s = 1, probes = 5, user_timeout_ms = 10000;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms,
               sizeof(user_timeout_ms));
}

void crti_stream_prepare(const crti_stream_context_t *context, int fd)
{
    char now[16] = "";
    socklen_t size = sizeof(now) - 1;

    if (!context->is_bursty ||
        getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now, &size) != 0 ||
        strncmp(now, "bbr", 3) != 0)
        return;
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) != 0)
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
}

void crti_stream_allow_stall(crti_stream_t *stream)
{
    int none = 0;

    if (stream->fd >= 0)
        setsockopt(stream->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &none, sizeof(none));
}

crt_status_t crti_stream_resolve(const char *address, char numeric[CRTI_STREAM_ADDRESS])
{
    return crti_address_resolve(address, numeric);
}

crt_status_t crti_stream_local_ip(const crti_stream_t *stream, char *text, size_t size)
{
    struct sockaddr_storage here = {0};
    socklen_t length = sizeof(here);
    const void *ip;

    if (stream->fd < 0 || getsockname(stream->fd, (struct sockaddr *)&here, &length) != 0)
        return crt_raise(CRT_ERR_CLOSED, "stream to %s is closed", stream->address);
    if (here.ss_family == AF_INET6)
        ip = &((const struct sockaddr_in6 *)(const void *)&here)->sin6_addr;
    else
        ip = &((const struct sockaddr_in *)(const void *)&here)->sin_addr;
    if (inet_ntop(here.ss_family, ip, text, (socklen_t)size) == NULL)
        return crt_raise(CRT_ERR_IO, "address: %s", strerror(errno));
    return CRT_OK;
}

/* ---------------------------------------------------------------- accepting */

static void go_on(crti_stream_listener_t *listener)
{
    crti_loop_cancel(listener->loop, &listener->pause);
    listener->is_full = false;
    if (!listener->is_paused && listener->fd >= 0)
        crti_loop_modify(listener->loop, &listener->watch, EPOLLIN);
}

static void stop_for(crti_stream_listener_t *listener, uint64_t until_ns)
{
    crti_loop_modify(listener->loop, &listener->watch, 0);
    crti_loop_start(listener->loop, &listener->pause, until_ns);
}

static void forget(crti_stream_listener_t *listener, crti_stream_t *stream)
{
    crti_list_remove(&stream->link);
    listener->handshake_count--;
    if (listener->is_full)
        go_on(listener);
}

static bool is_same_host(const crti_stream_t *a, const crti_stream_t *b)
{
    size_t length = (size_t)(strrchr(a->address, ':') - a->address);

    return strncmp(a->address, b->address, length + 1) == 0;
}

/* The oldest handshake of the address that has most of them, and how long it is given: who replays
 * what honest peers once said comes from few addresses, and does not answer. */
static crti_stream_t *next_to_go(const crti_stream_listener_t *listener,
                                 uint64_t *patience_out)
{
    crti_stream_t *found = NULL;
    size_t most = 0;

    for (crti_list_t *i = listener->handshakes.next; i != &listener->handshakes;
         i = i->next) {
        crti_stream_t *stream = CRTI_CONTAINER(i, crti_stream_t, link);
        size_t count = 0;

        for (const crti_list_t *j = i; j != &listener->handshakes; j = j->next)
            count += is_same_host(stream, CRTI_CONTAINER(j, crti_stream_t, link));
        if (count > most) {
            most = count;
            found = stream;
        }
    }
    *patience_out = (most > SHARE ? CROWDED_MS : PATIENCE_MS) * CRTI_MS;
    return found;
}

/* True when the next one has to wait. */
static bool wait_for_room(crti_stream_listener_t *listener)
{
    uint64_t idle, patience;

    if (listener->handshake_count < CRTI_STREAM_UNAUTHENTICATED)
        return false;
    idle = crti_loop_idle(listener->loop) - next_to_go(listener, &patience)->since_idle;
    if (idle >= patience)
        return false;
    listener->is_full = true;
    stop_for(listener, crti_loop_now(listener->loop) + patience - idle + CRTI_MS);
    return true;
}

void crti_stream_listener_opened(crti_stream_listener_t *listener, crti_stream_t *stream)
{
    forget(listener, stream);
    listener->on_accept(listener->user, stream);
}

void crti_stream_listener_failed(crti_stream_listener_t *listener, crti_stream_t *stream,
                                 crt_status_t status, const char *text)
{
    forget(listener, stream);
    listener->refused++;
    crti_log(CRTI_LOG_INFO, "stream", "refused: %s (%s)", text, crt_status_text(status));
}

static void drop(crti_stream_listener_t *listener, crti_stream_t *stream)
{
    forget(listener, stream);
    listener->refused++;
    crti_stream_drop(stream);
}

static void on_refused(void *user, const struct sockaddr_storage *from, const char *why)
{
    crti_stream_listener_t *listener = user;
    char address[CRTI_STREAM_ADDRESS];

    crti_address_format(from, address);
    listener->refused++;
    crti_log(CRTI_LOG_DEBUG, "stream", "refused: %s: %s", address, why);
}

/* Its ClientHello is there. */
static void on_spoken(void *user, int fd, const struct sockaddr_storage *from)
{
    crti_stream_listener_t *listener = user;
    CRTI_AUTO(crti_close) int owned = fd;
    crti_stream_t *stream = NULL;
    uint64_t patience;

    if (listener->handshake_count >= CRTI_STREAM_UNAUTHENTICATED)
        drop(listener, next_to_go(listener, &patience));
    if (crti_stream_new(listener->loop, &listener->context, &owned, true,
                        (int)(CRTI_LIMIT(handshake_timeout) / CRTI_MS),
                        &stream) != CRT_OK) {
        crti_log(CRTI_LOG_WARN, "stream", "incoming connection: %s", crt_error_detail());
        return;
    }
    crti_address_format(from, stream->address);
    stream->listener = listener;
    stream->since_ns = crti_loop_now(listener->loop);
    stream->since_idle = crti_loop_idle(listener->loop);
    crti_list_append(&listener->handshakes, &stream->link);
    listener->handshake_count++;
}

static void on_ready(void *user, uint32_t events)
{
    crti_stream_listener_t *listener = user;

    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct sockaddr_storage from = {0};
        socklen_t size = sizeof(from);
        int fd;

        if (wait_for_room(listener))
            return;
        fd = accept4(listener->fd, (struct sockaddr *)&from, &size,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            crti_silent_add(&listener->silent, fd, &from);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            crti_log(CRTI_LOG_WARN, "stream", "port %u: %s; not accepting for %d ms",
                     listener->port, strerror(errno), PAUSE_MS);
            stop_for(listener, crti_loop_now(listener->loop) + PAUSE_MS * CRTI_MS);
        }
        if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

static void on_pause_over(void *user)
{
    go_on(user);
}

/* getaddrinfo is a hundred times the work that most addresses need, and each worker would do it. */
static crt_status_t find_own(const char *ip, uint16_t port,
                             struct sockaddr_storage *here_out, socklen_t *size_out)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    char text[80];

    if (inet_pton(AF_INET, ip, &v4.sin_addr) == 1) {
        memcpy(here_out, &v4, sizeof(v4));
        *size_out = sizeof(v4);
        return CRT_OK;
    }
    snprintf(text, sizeof(text), strchr(ip, ':') ? "[%s]:%u" : "%s:%u", ip, port);
    return crti_address_parse(text, here_out, size_out);
}

crt_status_t crti_stream_bind(const char *ip, uint16_t port, int *fd_out,
                              uint16_t *port_out)
{
    CRTI_AUTO(crti_close) int fd = -1;
    struct sockaddr_storage here;
    socklen_t size;
    int one = 1, defer_s = DEFER_SECONDS;
    crt_status_t status = find_own(ip, port, &here, &size);

    if (status != CRT_OK)
        return status;
    fd = socket(here.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return crt_raise(CRT_ERR_IO, "socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    /* All who connect to us speak first. A kernel that does not know it wakes us earlier, which is
     * all. */
    setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s, sizeof(defer_s));
    if (bind(fd, (struct sockaddr *)&here, size) != 0 || listen(fd, BACKLOG) != 0)
        return errno == EADDRINUSE
                   ? crt_raise(CRT_ERR_EXISTS, "port %u is taken", port)
                   : crt_raise(CRT_ERR_IO, "cannot listen on %s, port %u: %s", ip, port,
                               strerror(errno));
    size = sizeof(here);
    if (getsockname(fd, (struct sockaddr *)&here, &size) != 0)
        return crt_raise(CRT_ERR_IO, "%s, port %u: %s", ip, port, strerror(errno));
    *port_out = ntohs(here.ss_family == AF_INET6
                          ? ((struct sockaddr_in6 *)(void *)&here)->sin6_port
                          : ((struct sockaddr_in *)(void *)&here)->sin_port);
    *fd_out = crti_take_fd(&fd);
    return CRT_OK;
}

crt_status_t crti_stream_listen(crti_loop_t *loop, crti_stream_context_t *context,
                                const char *ip, uint16_t port,
                                crti_stream_accept_t *on_accept, void *user,
                                crti_stream_listener_t **listener_out)
{
    crti_stream_listener_t *listener = calloc(1, sizeof(*listener));
    crt_status_t status;

    if (listener == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "listener");
    listener->loop = loop;
    listener->context = *context;
    crti_tls_context_ref(context->tls);
    listener->fd = -1;
    listener->on_accept = on_accept;
    listener->user = user;
    listener->watch = (crti_watch_t){.on_ready = on_ready, .user = listener};
    listener->pause = (crti_timer_t){.on_expired = on_pause_over, .user = listener};
    crti_list_init(&listener->handshakes);
    listener->silent = (crti_silent_t){.loop = loop,
                                       .timeout_ns = CRTI_LIMIT(handshake_timeout),
                                       .user = listener,
                                       .on_spoken = on_spoken,
                                       .on_refused = on_refused};
    crti_silent_init(&listener->silent);
    status = crti_stream_bind(ip, port, &listener->fd, &listener->port);
    if (status == CRT_OK) {
        crti_stream_prepare(context, listener->fd); /* nobody knows the port yet */
        status = crti_loop_add(loop, &listener->watch, listener->fd, EPOLLIN);
    }
    if (status != CRT_OK) {
        crti_stream_listener_free(listener);
        return status;
    }
    *listener_out = listener;
    return CRT_OK;
}

void crti_stream_listener_free(crti_stream_listener_t *listener)
{
    if (listener == NULL)
        return;
    crti_silent_fini(&listener->silent);
    while (!crti_list_is_empty(&listener->handshakes))
        drop(listener, CRTI_CONTAINER(listener->handshakes.next, crti_stream_t, link));
    crti_loop_cancel(listener->loop, &listener->pause);
    crti_loop_remove(listener->loop, &listener->watch);
    if (listener->fd >= 0)
        close(listener->fd);
    crti_tls_context_unref(listener->context.tls);
    free(listener);
}

void crti_stream_listener_pause(crti_stream_listener_t *listener, bool pause)
{
    listener->is_paused = pause;
    crti_loop_cancel(listener->loop, &listener->pause);
    crti_loop_modify(listener->loop, &listener->watch, pause ? 0 : EPOLLIN);
}

void crti_stream_listener_rekey(crti_stream_listener_t *listener,
                                crti_stream_context_t *context)
{
    crti_tls_context_t *old = listener->context.tls;

    listener->context.tls = crti_tls_context_ref(context->tls);
    crti_tls_context_unref(old);
}

uint16_t crti_stream_listener_port(const crti_stream_listener_t *listener)
{
    return listener->port;
}

uint64_t crti_stream_listener_refused(const crti_stream_listener_t *listener)
{
    return listener->refused;
}
