/* SPDX-License-Identifier: Apache-2.0 */
/* ZeroMQ link: sockets, messages and ZAP. See zmq_link.h.
 *
 * Hot path: crti_zmq_make, _send and _receive.
 */
#include "runtime/net/zmq_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <sodium.h>

#include "runtime/base/limit.h"
#include "runtime/net/zmq_library.h"

#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#    define ZMQ_ZAP_ENFORCE_DOMAIN 93 /* zmq.h 4.3 hides it, the library has it */
#endif
#define ZAP_ENDPOINT  "inproc://zeromq.zap.01"
#define ZAP_DOMAIN    "crt"
#define CONTEXT_FILES 16 /* what a context and its first sockets open, and some more */
#define ZAP_PARTS     7

_Static_assert(sizeof(zmq_msg_t) <= CRTI_ZMQ_MESSAGE, "a message handle fits");

static const crti_zmq_api_t *const api = &crti_zmq_api;

struct crti_zmq {
    void *context;
    bool has_key;
    crti_key_pair_t server, client;
    int64_t message_max;
};

struct crti_socket {
    void *zmq;
    crti_zmq_t *owner;
    int fd;
    bool is_router;
};

static crt_status_t failed(const char *what, const char *where)
{
    int e = api->error();

    return crt_raise(e == ENOMEM ? CRT_ERR_NO_MEMORY : CRT_ERR_IO, "zeromq: %s %s: %s",
                     what, where, api->error_text(e));
}

/* A signal that comes while libzmq looks for its commands makes it give up, also where it waits for
 * nothing. Whoever took that for "nothing is there" would sleep over a message, and whoever sent a
 * part would go on with the next message in the midst of this one. */
static bool is_interrupted(int result)
{
    return result < 0 && api->error() == EINTR;
}

static int receive_part(crti_socket_t *s, zmq_msg_t *part)
{
    int result;

    do
        result = api->msg_recv(part, s->zmq, ZMQ_DONTWAIT);
    while (is_interrupted(result));
    return result;
}

static int send_message(crti_socket_t *s, zmq_msg_t *message)
{
    int result;

    do
        result = api->msg_send(message, s->zmq, ZMQ_DONTWAIT);
    while (is_interrupted(result));
    return result;
}

static int send_part(crti_socket_t *s, const void *data, size_t size, int flags)
{
    int result;

    do
        result = api->send_bytes(s->zmq, data, size, flags | ZMQ_DONTWAIT);
    while (is_interrupted(result));
    return result;
}

/* To `endpoint`, or at it. */
static int attach(crti_socket_t *s, int (*way)(void *zmq, const char *endpoint),
                  const char *endpoint)
{
    int result;

    do
        result = way(s->zmq, endpoint);
    while (is_interrupted(result));
    return result;
}

/* libzmq aborts the process when it finds no descriptor for its threads: look before. */
static crt_status_t check_files(void)
{
    int fds[CONTEXT_FILES], count = 0;
    struct rlimit limit = {0};

    while (count < CONTEXT_FILES && (fds[count] = eventfd(0, EFD_CLOEXEC)) >= 0)
        count++;
    for (int i = 0; i < count; i++)
        close(fds[i]);
    if (count == CONTEXT_FILES)
        return CRT_OK;
    getrlimit(RLIMIT_NOFILE, &limit);
    return crt_raise(
        CRT_ERR_IO,
        "too many open files: the limit is %llu, %d more are needed (ulimit -n)",
        (unsigned long long)limit.rlim_cur, CONTEXT_FILES);
}

crt_status_t crti_zmq_new(const crti_key_t *key, size_t message_max, int sockets_max,
                          crti_zmq_t **zmq_out)
{
    CRTI_AUTO(crti_zmq_free) crti_zmq_t *self = calloc(1, sizeof(*self));
    crt_status_t status = check_files();

    if (status == CRT_OK)
        status = crti_zmq_library();
    if (status != CRT_OK)
        return status;
    if (!self)
        return crt_raise(CRT_ERR_NO_MEMORY, "zeromq: context");
    self->message_max = (int64_t)message_max;
    if (key) {
        if (!api->has("curve"))
            return crt_raise(CRT_ERR_UNSUPPORTED, "libzmq was built without CURVE");
        crti_key_curve(key, CRTI_KEY_SERVER, &self->server);
        crti_key_curve(key, CRTI_KEY_CLIENT, &self->client);
        self->has_key = true;
    }
    self->context = api->context_new();
    if (!self->context)
        return failed("cannot make", "a context");
    api->context_set(self->context, ZMQ_MAX_SOCKETS, sockets_max);
    *zmq_out = CRTI_TAKE(self);
    return CRT_OK;
}

void crti_zmq_free(crti_zmq_t *zmq)
{
    if (!zmq)
        return;
    if (zmq->context)
        while (api->context_end(zmq->context) != 0 && api->error() == EINTR) {
        }
    crti_key_wipe(&zmq->server, sizeof(zmq->server));
    crti_key_wipe(&zmq->client, sizeof(zmq->client));
    free(zmq);
}

/* ---------------------------------------------------------------- sockets */

static int milliseconds(uint64_t ns)
{
    return (int)(ns / CRTI_MS);
}

static bool set_int(crti_socket_t *s, int option, int value)
{
    return api->set(s->zmq, option, &value, sizeof(value)) == 0;
}

static crt_status_t open_socket(crti_zmq_t *zmq, int type, crti_socket_t **socket_out)
{
    CRTI_AUTO(crti_socket_drop) crti_socket_t *s = calloc(1, sizeof(*s));
    size_t size = sizeof(s->fd);

    if (!s)
        return crt_raise(CRT_ERR_NO_MEMORY, "zeromq: socket");
    s->owner = zmq;
    s->is_router = type == ZMQ_ROUTER;
    s->zmq = api->socket_new(zmq->context, type);
    if (!s->zmq)
        return failed("cannot make", "a socket (limit of open files, or of sessions?)");
    if (!set_int(s, ZMQ_LINGER, 0) || !set_int(s, ZMQ_SNDHWM, 0) ||
        !set_int(s, ZMQ_RCVHWM, 0) ||
        !set_int(s, ZMQ_HANDSHAKE_IVL, milliseconds(CRTI_LIMIT(handshake_timeout))) ||
        api->set(s->zmq, ZMQ_MAXMSGSIZE, &zmq->message_max, sizeof(zmq->message_max)) !=
            0 ||
        api->get(s->zmq, ZMQ_FD, &s->fd, &size) != 0)
        return failed("cannot set up", "a socket");
    *socket_out = CRTI_TAKE(s);
    return CRT_OK;
}

static bool set_router(crti_socket_t *s)
{
    return set_int(s, ZMQ_ROUTER_MANDATORY, 1) && set_int(s, ZMQ_ROUTER_HANDOVER, 1);
}

/* Of the dialing side alone; its TTL is what the other side watches. libzmq 4.3 aborts the process
 * when a heartbeat of a ROUTER comes due on a connection that was handed over, had bytes after
 * that, and was closed. */
static bool set_heartbeat(crti_socket_t *s)
{
    int interval_ms = milliseconds(CRTI_LIMIT(tcp_heartbeat));

    return set_int(s, ZMQ_HEARTBEAT_IVL, interval_ms) &&
           set_int(s, ZMQ_HEARTBEAT_TIMEOUT, 3 * interval_ms) &&
           set_int(s, ZMQ_HEARTBEAT_TTL, 3 * interval_ms);
}

void crti_socket_close(crti_socket_t *s, int linger_ms)
{
    if (!s)
        return;
    if (s->zmq) {
        set_int(s, ZMQ_LINGER, linger_ms);
        api->socket_close(s->zmq);
    }
    free(s);
}

void crti_socket_drop(crti_socket_t *s)
{
    crti_socket_close(s, 0);
}

int crti_socket_fd(const crti_socket_t *s)
{
    return s->fd;
}

bool crti_zmq_has_input(crti_socket_t *s)
{
    int events = 0, result;
    size_t size = sizeof(events);

    do
        result = api->get(s->zmq, ZMQ_EVENTS, &events, &size);
    while (is_interrupted(result));
    return result == 0 && (events & ZMQ_POLLIN) != 0;
}

static bool set_curve_server(crti_socket_t *s)
{
    return api->set(s->zmq, ZMQ_ZAP_DOMAIN, ZAP_DOMAIN, strlen(ZAP_DOMAIN)) == 0 &&
           set_int(s, ZMQ_ZAP_ENFORCE_DOMAIN, 1) && set_int(s, ZMQ_CURVE_SERVER, 1) &&
           api->set(s->zmq, ZMQ_CURVE_SECRETKEY, s->owner->server.secret_key, 32) == 0;
}

crt_status_t crti_zmq_listen(crti_zmq_t *zmq, int *fd_take, crti_socket_t **socket_out)
{
    CRTI_AUTO(crti_socket_drop) crti_socket_t *s = NULL;
    crt_status_t status;

    if (!zmq->has_key)
        return crt_raise(CRT_ERR_PERMISSION, "no tcp endpoint without a cluster key");
    status = open_socket(zmq, ZMQ_ROUTER, &s);
    if (status != CRT_OK)
        return status;
    /* With a socket of ours libzmq takes no notice of the address. */
    if (!set_router(s) || !set_curve_server(s) || !set_int(s, ZMQ_USE_FD, *fd_take) ||
        attach(s, api->bind_to, "tcp://127.0.0.1:*") != 0)
        return failed("cannot serve", "the tcp endpoint");
    *fd_take = -1;
    *socket_out = CRTI_TAKE(s);
    return CRT_OK;
}

static bool set_curve_client(crti_socket_t *s)
{
    const crti_zmq_t *zmq = s->owner;

    return api->set(s->zmq, ZMQ_CURVE_SERVERKEY, zmq->server.public_key, 32) == 0 &&
           api->set(s->zmq, ZMQ_CURVE_PUBLICKEY, zmq->client.public_key, 32) == 0 &&
           api->set(s->zmq, ZMQ_CURVE_SECRETKEY, zmq->client.secret_key, 32) == 0;
}

crt_status_t crti_zmq_dial(crti_zmq_t *zmq, const char *tcp,
                           const unsigned char route[CRTI_ZMQ_ROUTE],
                           crti_socket_t **socket_out)
{
    CRTI_AUTO(crti_socket_drop) crti_socket_t *s = NULL;
    char endpoint[128];
    crt_status_t status;

    if (!zmq->has_key)
        return crt_raise(CRT_ERR_PERMISSION, "no tcp without a cluster key");
    status = open_socket(zmq, ZMQ_DEALER, &s);
    if (status != CRT_OK)
        return status;
    snprintf(endpoint, sizeof(endpoint), "tcp://%s", tcp);
    if (!set_int(s, ZMQ_RECONNECT_IVL, milliseconds(CRTI_LIMIT(tcp_reconnect))) ||
        !set_int(s, ZMQ_RECONNECT_IVL_MAX, milliseconds(CRTI_LIMIT(tcp_reconnect_max))) ||
        api->set(s->zmq, ZMQ_ROUTING_ID, route, CRTI_ZMQ_ROUTE) != 0 ||
        !set_int(s, ZMQ_IPV6, tcp[0] == '[') || !set_heartbeat(s) ||
        !set_curve_client(s) || attach(s, api->connect_to, endpoint) != 0)
        return failed("cannot connect to", endpoint);
    *socket_out = CRTI_TAKE(s);
    return CRT_OK;
}

/* ---------------------------------------------------------------- ZAP */

crt_status_t crti_zmq_serve_zap(crti_zmq_t *zmq, crti_socket_t **socket_out)
{
    CRTI_AUTO(crti_socket_drop) crti_socket_t *s = NULL;
    crt_status_t status = open_socket(zmq, ZMQ_REP, &s);

    if (status != CRT_OK)
        return status;
    if (attach(s, api->bind_to, ZAP_ENDPOINT) != 0)
        return failed("cannot bind", ZAP_ENDPOINT);
    *socket_out = CRTI_TAKE(s);
    return CRT_OK;
}

static bool part_is(zmq_msg_t *part, const char *text)
{
    return api->msg_size(part) == strlen(text) &&
           memcmp(api->msg_data(part), text, strlen(text)) == 0;
}

/* version, request id, domain, address, identity, mechanism, credentials */
static bool zap_accepts(const crti_zmq_t *zmq, zmq_msg_t part[ZAP_PARTS], int count)
{
    return count == ZAP_PARTS && part_is(&part[0], "1.0") &&
           part_is(&part[2], ZAP_DOMAIN) && part_is(&part[5], "CURVE") &&
           api->msg_size(&part[6]) == 32 &&
           sodium_memcmp(api->msg_data(&part[6]), zmq->client.public_key, 32) == 0;
}

static void zap_reply(crti_socket_t *zap, zmq_msg_t *request_id, bool accepted)
{
    const char *code = accepted ? "200" : "400", *text = accepted ? "OK" : "unknown key";

    send_part(zap, "1.0", 3, ZMQ_SNDMORE);
    send_part(zap, api->msg_data(request_id), api->msg_size(request_id), ZMQ_SNDMORE);
    send_part(zap, code, 3, ZMQ_SNDMORE);
    send_part(zap, text, strlen(text), ZMQ_SNDMORE);
    send_part(zap, "", 0, ZMQ_SNDMORE);
    send_part(zap, "", 0, 0);
}

bool crti_zmq_answer_zap(crti_socket_t *zap, bool *accepted_out)
{
    zmq_msg_t part[ZAP_PARTS], rest;
    int count = 0;
    bool more = true;

    for (int i = 0; i < ZAP_PARTS; i++)
        api->msg_init(&part[i]);
    api->msg_init(&rest);
    for (; more; count++) {
        zmq_msg_t *m = count < ZAP_PARTS ? &part[count] : &rest;

        if (receive_part(zap, m) < 0)
            break;
        more = api->msg_more(m) != 0;
    }
    if (count > 0) {
        *accepted_out = zap_accepts(zap->owner, part, count);
        zap_reply(zap, &part[1], *accepted_out);
    }
    for (int i = 0; i < ZAP_PARTS; i++)
        api->msg_close(&part[i]);
    api->msg_close(&rest);
    return count > 0;
}

/* ---------------------------------------------------------------- messages */

static bool receive_route(crti_socket_t *s, crti_zmq_input_t *input, bool *more_out)
{
    zmq_msg_t route;

    api->msg_init(&route);
    if (receive_part(s, &route) < 0) {
        api->msg_close(&route);
        return false;
    }
    input->routed = api->msg_size(&route) == CRTI_ZMQ_ROUTE;
    if (input->routed)
        memcpy(input->route, api->msg_data(&route), CRTI_ZMQ_ROUTE);
    *more_out = api->msg_more(&route) != 0;
    api->msg_close(&route);
    return true;
}

static void skip_parts(crti_socket_t *s)
{
    zmq_msg_t part;
    bool more = true;

    api->msg_init(&part);
    while (more && receive_part(s, &part) >= 0)
        more = api->msg_more(&part) != 0;
    api->msg_close(&part);
}

bool crti_zmq_receive(crti_socket_t *s, crti_zmq_input_t *input)
{
    zmq_msg_t *m = (zmq_msg_t *)(void *)input->message;
    bool more = true;

    input->routed = false;
    if (s->is_router && !receive_route(s, input, &more))
        return false;
    api->msg_init(m);
    /* All parts of a message arrive together: this fails only when there is no message. */
    if (more && receive_part(s, m) < 0) {
        api->msg_close(m);
        return false;
    }
    input->is_single = more && !api->msg_more(m);
    if (more && api->msg_more(m))
        skip_parts(s);
    input->data = api->msg_data(m);
    input->size = api->msg_size(m);
    return true;
}

void crti_zmq_release(crti_zmq_input_t *input)
{
    api->msg_close((zmq_msg_t *)(void *)input->message);
}

bool crti_zmq_make(const struct iovec *parts, int count, size_t size, void *message)
{
    unsigned char *to;

    if (api->msg_init_size(message, size) != 0)
        return false;
    to = api->msg_data(message);
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len > 0)
            memcpy(to, parts[i].iov_base, parts[i].iov_len);
        to += parts[i].iov_len;
    }
    return true;
}

void crti_zmq_drop(void *message)
{
    api->msg_close(message);
}

static bool send_route(crti_socket_t *s, const unsigned char *route)
{
    return !route || send_part(s, route, CRTI_ZMQ_ROUTE, ZMQ_SNDMORE) >= 0;
}

bool crti_zmq_send(crti_socket_t *s, const unsigned char *route, void *message)
{
    zmq_msg_t copy;

    if (!send_route(s, route))
        return false;
    api->msg_init(&copy);
    /* Shares the bytes; they are freed with the last of both. */
    if (api->msg_copy(&copy, message) == 0 && send_message(s, &copy) >= 0)
        return true;
    api->msg_close(&copy);
    return false;
}

bool crti_zmq_send_bytes(crti_socket_t *s, const unsigned char *route, const void *data,
                         size_t size)
{
    return send_route(s, route) && send_part(s, data, size, 0) >= 0;
}
