/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for hiredis. See redis_tls_proxy.h. */
#include "runtime/control/store/redis_tls_proxy.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/log.h"

#define TO(state) (1u << CRTI_TLS_PROXY_##state)
static const struct {
    const char *name;
    unsigned next;
} states[CRTI_TLS_PROXY_STATES] = {
    [CRTI_TLS_PROXY_CLOSED] = {"closed", TO(CONNECTING)},
    [CRTI_TLS_PROXY_CONNECTING] = {"connecting", TO(SHAKING) | TO(CLOSED)},
    [CRTI_TLS_PROXY_SHAKING] = {"shaking hands", TO(OPEN) | TO(CLOSED)},
    [CRTI_TLS_PROXY_OPEN] = {"open", TO(CLOSED)},
};

static void set_state(crti_redis_tls_proxy_t *t, crti_tls_proxy_state_t state)
{
    assert(states[t->state].next & (1u << state));
    crti_log(CRTI_LOG_TRACE, "redis", "proxy %s -> %s", states[t->state].name,
             states[state].name);
    t->state = state;
}

/* The reason that OpenSSL gives for the last failure of this thread. */
static const char *reason_of_openssl(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;

    ERR_clear_error();
    return reason ? reason : "unknown reason";
}

/* ---------------------------------------------------------------- whom to trust */

static crt_status_t make_context(const crti_redis_endpoint_t *endpoint,
                                 SSL_CTX **context_out)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    int done;

    if (context == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "TLS for redis-server");
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(context,
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    done = endpoint->ca_file[0]
               ? SSL_CTX_load_verify_locations(context, endpoint->ca_file, NULL)
               : SSL_CTX_set_default_verify_paths(context);
    if (done == 1) {
        *context_out = context;
        return CRT_OK;
    }
    SSL_CTX_free(context);
    return crt_raise(CRT_ERR_INVALID,
                     "--redis-ca-file %s: no certificates can be read there: %s",
                     endpoint->ca_file, reason_of_openssl());
}

crt_status_t crti_redis_tls_proxy_check(const crti_redis_endpoint_t *endpoint)
{
    SSL_CTX *context = NULL;
    crt_status_t status = make_context(endpoint, &context);

    SSL_CTX_free(context);
    return status;
}

/* The certificate must be made out to what the user named. */
static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char address[16];

    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static crt_status_t make_ssl(crti_redis_tls_proxy_t *t,
                             const crti_redis_endpoint_t *endpoint)
{
    SSL_CTX *context = NULL;
    crt_status_t status = make_context(endpoint, &context);

    if (status != CRT_OK)
        return status;
    t->context = context;
    t->ssl = SSL_new(context);
    if (t->ssl == NULL || !expect_host(t->ssl, endpoint->host) ||
        SSL_set_fd(t->ssl, t->remote) != 1)
        return crt_raise(CRT_ERR_NO_MEMORY, "TLS for redis-server: %s",
                         reason_of_openssl());
    SSL_set_connect_state(t->ssl);
    return CRT_OK;
}

/* ---------------------------------------------------------------- the end */

static void free_ssl(crti_redis_tls_proxy_t *t)
{
    SSL_free(t->ssl);
    SSL_CTX_free(t->context);
    t->ssl = t->context = NULL;
}

static void stop_listening(crti_redis_tls_proxy_t *t)
{
    if (t->listener < 0)
        return;
    close(crti_take_fd(&t->listener));
    unlink(t->path);
}

void crti_redis_tls_proxy_close(crti_redis_tls_proxy_t *t)
{
    if (t->loop) {
        crti_loop_remove(t->loop, &t->local_watch);
        crti_loop_remove(t->loop, &t->remote_watch);
    }
    free_ssl(t);
    stop_listening(t);
    crti_close_auto(&t->local);
    crti_close_auto(&t->remote);
    t->local = t->remote = -1;
    if (t->state != CRTI_TLS_PROXY_CLOSED)
        set_state(t, CRTI_TLS_PROXY_CLOSED);
}

static void fail(crti_redis_tls_proxy_t *t, const char *what, const char *reason)
{
    snprintf(t->problem, sizeof(t->problem), "%s%s%s", what, *reason ? ": " : "", reason);
    crti_redis_tls_proxy_close(t); /* hiredis sees the end of its connection */
}

/* ---------------------------------------------------------------- carrying bytes */

/* False: it failed, or waits for the socket. */
static bool is_done(crti_redis_tls_proxy_t *t, int result, const char *what)
{
    long verified;

    switch (SSL_get_error(t->ssl, result)) {
    case SSL_ERROR_NONE: return true;
    case SSL_ERROR_WANT_READ: return false;
    case SSL_ERROR_WANT_WRITE: t->wants_write = true; return false;
    case SSL_ERROR_ZERO_RETURN: fail(t, "it closed the connection", ""); return false;
    default: break;
    }
    verified = SSL_get_verify_result(t->ssl);
    if (verified != X509_V_OK)
        fail(t, "its certificate is refused", X509_verify_cert_error_string(verified));
    else
        fail(t, what,
             ERR_peek_error() ? reason_of_openssl() : "it closed the connection");
    ERR_clear_error();
    return false;
}

static void connected(crti_redis_tls_proxy_t *t)
{
    struct pollfd waiting = {.fd = t->remote, .events = POLLOUT};
    int error = 0;
    socklen_t size = sizeof(error);

    if (poll(&waiting, 1, 0) != 1)
        return;
    getsockopt(t->remote, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error)
        fail(t, strerror(error), "");
    else
        set_state(t, CRTI_TLS_PROXY_SHAKING);
}

static void shake_hands(crti_redis_tls_proxy_t *t)
{
    if (is_done(t, SSL_do_handshake(t->ssl),
                "TLS fails (is it a TLS port? does it want certificates of clients?)"))
        set_state(t, CRTI_TLS_PROXY_OPEN);
}

/* Each is true when it moved something. */

static bool from_local(crti_redis_tls_proxy_t *t)
{
    ssize_t n = recv(t->local, t->out.bytes, sizeof(t->out.bytes), 0);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        crti_redis_tls_proxy_close(t); /* hiredis has closed it */
    if (n <= 0)
        return false;
    /* hiredis 1.1 and later connects once more to learn that it is connected. Now it knows. */
    stop_listening(t);
    t->out.from = 0;
    t->out.to = (size_t)n;
    return true;
}

static bool to_remote(crti_redis_tls_proxy_t *t)
{
    size_t n = 0;
    int result;

    ERR_clear_error();
    result =
        SSL_write_ex(t->ssl, t->out.bytes + t->out.from, t->out.to - t->out.from, &n);
    if (!is_done(t, result, "TLS fails"))
        return false;
    t->out.from += n;
    return true;
}

static bool from_remote(crti_redis_tls_proxy_t *t)
{
    size_t n = 0;
    int result;

    ERR_clear_error();
    result = SSL_read_ex(t->ssl, t->in.bytes, sizeof(t->in.bytes), &n);
    if (!is_done(t, result, "TLS fails (does it want certificates of clients?)"))
        return false;
    t->in.from = 0;
    t->in.to = n;
    return true;
}

static bool to_local(crti_redis_tls_proxy_t *t)
{
    ssize_t n =
        send(t->local, t->in.bytes + t->in.from, t->in.to - t->in.from, MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        crti_redis_tls_proxy_close(t);
    if (n <= 0)
        return false;
    t->in.from += (size_t)n;
    return true;
}

static bool is_empty(const crti_tls_proxy_bytes_t *side)
{
    return side->from == side->to;
}

static void carry(crti_redis_tls_proxy_t *t)
{
    bool moved = true;

    while (moved) {
        moved = is_empty(&t->out) ? from_local(t) : to_remote(t);
        if (t->state == CRTI_TLS_PROXY_OPEN)
            moved |= is_empty(&t->in) ? from_remote(t) : to_local(t);
        if (t->state != CRTI_TLS_PROXY_OPEN)
            return;
    }
}

void crti_redis_tls_proxy_work(crti_redis_tls_proxy_t *t)
{
    t->wants_write = false;
    if (t->state == CRTI_TLS_PROXY_CONNECTING)
        connected(t);
    if (t->state == CRTI_TLS_PROXY_SHAKING)
        shake_hands(t);
    if (t->state == CRTI_TLS_PROXY_OPEN)
        carry(t);
}

/* ---------------------------------------------------------------- waiting */

static short local_events(const crti_redis_tls_proxy_t *t)
{
    bool is_open = t->state == CRTI_TLS_PROXY_OPEN;

    return (short)((is_open && is_empty(&t->out) ? POLLIN : 0) |
                   (is_open && !is_empty(&t->in) ? POLLOUT : 0));
}

static short remote_events(const crti_redis_tls_proxy_t *t)
{
    bool reads = t->state == CRTI_TLS_PROXY_SHAKING ||
                 (t->state == CRTI_TLS_PROXY_OPEN && is_empty(&t->in));

    return (
        short)((reads ? POLLIN : 0) |
               (t->wants_write || t->state == CRTI_TLS_PROXY_CONNECTING ? POLLOUT : 0));
}

nfds_t crti_redis_tls_proxy_waits(const crti_redis_tls_proxy_t *t, struct pollfd waits[2])
{
    if (t->state == CRTI_TLS_PROXY_CLOSED)
        return 0;
    waits[0] = (struct pollfd){.fd = t->local, .events = local_events(t)};
    waits[1] = (struct pollfd){.fd = t->remote, .events = remote_events(t)};
    return 2;
}

/* The numbers of poll's events are those of epoll. */
static void on_ready(void *user, uint32_t events)
{
    crti_redis_tls_proxy_t *t = user;

    crti_redis_tls_proxy_work(t);
    if (t->state == CRTI_TLS_PROXY_CLOSED)
        return;
    crti_loop_modify(t->loop, &t->local_watch, (uint32_t)local_events(t));
    crti_loop_modify(t->loop, &t->remote_watch, (uint32_t)remote_events(t));
}

/* hiredis may close its end while nothing is read from it. */
static void on_local(void *user, uint32_t events)
{
    crti_redis_tls_proxy_t *t = user;

    if (events & (EPOLLHUP | EPOLLERR))
        crti_redis_tls_proxy_close(t);
    else
        on_ready(t, events);
}

/* ---------------------------------------------------------------- the beginning */

void crti_redis_tls_proxy_init(crti_redis_tls_proxy_t *t, crti_loop_t *loop)
{
    t->loop = loop;
    t->state = CRTI_TLS_PROXY_CLOSED;
    t->listener = t->local = t->remote = -1;
    t->local_watch = (crti_watch_t){.on_ready = on_local, .user = t};
    t->remote_watch = (crti_watch_t){.on_ready = on_ready, .user = t};
    t->context = t->ssl = NULL;
    t->problem[0] = '\0';
}

static crt_status_t connect_remote(crti_redis_tls_proxy_t *t,
                                   const crti_redis_endpoint_t *endpoint)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[16];
    int yes = 1, failed;

    snprintf(port, sizeof(port), "%d", endpoint->port);
    failed = getaddrinfo(endpoint->ip, port, &hints, &found);
    if (failed)
        return crt_raise(CRT_ERR_INVALID, "%s: %s", endpoint->address,
                         gai_strerror(failed));
    t->remote = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    failed =
        t->remote < 0 || (connect(t->remote, found->ai_addr, found->ai_addrlen) < 0 &&
                          errno != EINPROGRESS);
    freeaddrinfo(found);
    if (failed)
        return crt_raise(CRT_ERR_IO, "%s: %s", endpoint->address, strerror(errno));
    setsockopt(t->remote, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    return CRT_OK;
}

static crt_status_t listen_here(crti_redis_tls_proxy_t *t,
                                const crti_redis_endpoint_t *endpoint)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    snprintf(at.sun_path, sizeof(at.sun_path), "%s", endpoint->socket);
    unlink(endpoint->socket); /* of a head that was killed in between */
    t->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    t->path = endpoint->socket;
    if (t->listener < 0 || bind(t->listener, (struct sockaddr *)&at, sizeof(at)) < 0 ||
        listen(t->listener, 1) < 0)
        return crt_raise(CRT_ERR_IO, "%s: %s", endpoint->socket, strerror(errno));
    return CRT_OK;
}

crt_status_t crti_redis_tls_proxy_begin(crti_redis_tls_proxy_t *t,
                                        const crti_redis_endpoint_t *endpoint)
{
    crt_status_t status;

    if (strlen(endpoint->socket) >=
        sizeof(endpoint->socket) - 1) /* and was cut, perhaps */
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "the path %s is too long for a socket: set CRT_RUN_DIR to a "
                         "short one",
                         endpoint->socket);
    crti_redis_tls_proxy_close(t);
    t->problem[0] = '\0';
    t->in.from = t->in.to = t->out.from = t->out.to = 0;
    status = connect_remote(t, endpoint);
    if (status == CRT_OK)
        status = make_ssl(t, endpoint);
    if (status == CRT_OK)
        status = listen_here(t, endpoint);
    if (status != CRT_OK)
        crti_redis_tls_proxy_close(t);
    return status;
}

static bool is_ourselves(int fd)
{
    struct ucred who = {0};
    socklen_t size = sizeof(who);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
           who.pid == getpid();
}

crt_status_t crti_redis_tls_proxy_accept(crti_redis_tls_proxy_t *t,
                                         const crti_redis_endpoint_t *endpoint)
{
    crt_status_t status = CRT_OK;

    t->local = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (t->local < 0 || !is_ourselves(t->local))
        status = crt_raise(CRT_ERR_IO, "%s: somebody else connected", endpoint->socket);
    if (status == CRT_OK && t->loop)
        status = crti_loop_add(t->loop, &t->local_watch, t->local, 0);
    if (status == CRT_OK && t->loop)
        status = crti_loop_add(t->loop, &t->remote_watch, t->remote, EPOLLOUT);
    if (status != CRT_OK) {
        crti_redis_tls_proxy_close(t);
        return status;
    }
    set_state(t, CRTI_TLS_PROXY_CONNECTING);
    return CRT_OK;
}
