/* SPDX-License-Identifier: Apache-2.0 */
/* Net, ports to other nodes: ZeroMQ over tcp with CURVE.
 *
 * Where it sits
 *     net_io (frames) -> [ net_zmq ] -> zmq_link -> libzmq
 * How it begins
 *     A process binds its tcp port at its start and nothing more. libzmq, with its threads, starts
 *     when the first process of another node connects to that port, or is dialed. Before that
 *     connections are taken here: one that does not begin as libzmq's do is closed, and starts
 *     nothing. libzmq can't be given a connection, so the first that does is closed, too, and made
 *     again by the other side's libzmq a few milliseconds later.
 * Threads
 *     Everything under net's lock.
 * Invariants
 *     A socket that was sent on or received from is in net->active until a receive found
 *     nothing: its descriptor is not to be trusted before.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/net/net_int.h"
#include "runtime/net/stream.h"

#define LISTENERS  8 /* sockets that are no session's, and those that are being closed */
#define PORT_STEP  7919 /* an odd step through a port range, so that neighbours differ */
#define GUESSES    4    /* of a free port */
#define GUESS_STEP 97
#define GREETING   10 /* bytes by which each side of ZMTP begins, all at once */
#define ACCEPTS    16 /* of one event */

/* ---------------------------------------------------------------- ports */

static void on_ready(crti_source_t *source, uint32_t events)
{
    crti_port_activate(CRTI_CONTAINER(source, crti_port_t, source));
}

static crt_status_t new_port(crti_net_t *net, const crti_transport_t *transport,
                             crti_socket_t **socket_take, crti_peer_t *peer,
                             crti_port_t **port_out)
{
    CRTI_AUTO(free) crti_port_t *port = calloc(1, sizeof(*port));
    crt_status_t status;

    if (!port)
        return crt_raise(CRT_ERR_NO_MEMORY, "net: a socket");
    *port = (crti_port_t){.transport = transport, .peer = peer, .socket = *socket_take};
    status = crti_port_watch(net, port, crti_socket_fd(port->socket), EPOLLIN | EPOLLET,
                             on_ready);
    if (status != CRT_OK)
        return status;
    *socket_take = NULL;
    crti_port_activate(port); /* connecting and binding consume the signal as well */
    *port_out = CRTI_TAKE(port);
    return CRT_OK;
}

static void close_port(crti_port_t *port)
{
    crti_socket_close(port->socket, port->linger_ms);
    free(port);
}

/* ---------------------------------------------------------------- sending */

/* After a send: if somebody else sleeps on this socket's descriptor, its signal may have been
 * consumed by the send. */
static void sent(crti_port_t *port)
{
    crti_progress_t *p = &port->net->progress;

    crti_port_activate(port);
    if (p->sleeping && crti_zmq_has_input(port->socket))
        crti_progress_kick(p);
}

static bool send_message(crti_port_t *port, const unsigned char *route, void *message)
{
    bool ok = crti_zmq_send(port->socket, route, message);

    sent(port);
    return ok;
}

static void send_bytes(crti_port_t *port, const unsigned char *route, const void *data,
                       size_t size)
{
    crti_zmq_send_bytes(port->socket, route, data, size);
    sent(port);
}

/* ---------------------------------------------------------------- receiving */

/* Who sent it, by the routing id that the ROUTER put before it. */
static void take_input(crti_port_t *port, const crti_zmq_input_t *input)
{
    crti_net_t *net = port->net;
    crti_received_frame_t arrival = {.peer = port->peer,
                                     .data = input->data,
                                     .size = input->size,
                                     .is_single = input->is_single};
    uint64_t nonce;

    if (!port->peer) {
        if (!input->routed || input->route[0] != 'c') {
            net->stats.frames_received++;
            net->stats.frames_malformed++;
            return;
        }
        memcpy(&nonce, input->route + 1, sizeof(nonce));
        arrival.route = input->route;
        arrival.peer = crti_map_get(&net->accepted, &nonce);
    }
    crti_net_receive(port, &arrival);
}

/* Stops when whoever makes progress has what it waits for: the rest is received by the next. */
static bool drain(crti_port_t *port)
{
    crti_net_t *net = port->net;
    crti_zmq_input_t input;
    bool any = false;

    for (int i = 0; i < CRTI_NET_RECEIVE_MAX && !port->source.removed; i++) {
        if (!crti_zmq_receive(port->socket, &input)) {
            crti_list_remove(&port->active);
            return any;
        }
        if (!any)
            net->now = crti_now_ns();
        any = true;
        take_input(port, &input);
        crti_zmq_release(&input);
        if (crti_progress_is_done(&net->progress))
            return true;
    }
    return any;
}

static bool drain_zap(crti_port_t *port)
{
    bool accepted = false, any = false;

    for (int i = 0; i < CRTI_NET_RECEIVE_MAX; i++) {
        if (!crti_zmq_answer_zap(port->socket, &accepted)) {
            crti_list_remove(&port->active);
            return any;
        }
        any = true;
        if (!accepted)
            port->net->stats.handshakes_refused++;
    }
    return any;
}

/* A socket that is still active has to be read first. */
static bool may_sleep(crti_port_t *port)
{
    return false;
}

static bool no_word(crti_port_t *port, crti_progress_word_t *word_out)
{
    return false;
}

const crti_transport_t crti_net_zmq = {
    .make = crti_zmq_make,
    .drop = crti_zmq_drop,
    .send = send_message,
    .send_bytes = send_bytes,
    .drain = drain,
    .sleep = may_sleep,
    .input_word = no_word,
    .close = close_port,
};

static const crti_transport_t zap_transport = {
    .drain = drain_zap,
    .sleep = may_sleep,
    .input_word = no_word,
    .close = close_port,
};

/* ---------------------------------------------------------------- start */

static crt_status_t start_zmq(crti_net_t *net)
{
    size_t message_max = net->config.record_bytes + 2 * CRTI_SESSION_GATHER;

    if (net->zmq)
        return CRT_OK;
    return crti_zmq_new(net->has_key ? &net->key : NULL, message_max,
                        net->config.sessions_max + LISTENERS, &net->zmq);
}

/* ZAP first: without it CURVE lets every key in. */
static crt_status_t serve(crti_net_t *net, int *fd_take)
{
    CRTI_AUTO(crti_socket_drop) crti_socket_t *zap = NULL, *router = NULL;
    crt_status_t status = start_zmq(net);

    if (status == CRT_OK && !net->zap) {
        status = crti_zmq_serve_zap(net->zmq, &zap);
        if (status == CRT_OK)
            status = new_port(net, &zap_transport, &zap, NULL, &net->zap);
    }
    if (status == CRT_OK)
        status = crti_zmq_listen(net->zmq, fd_take, &router);
    if (status == CRT_OK)
        status = new_port(net, &crti_net_zmq, &router, NULL, &net->router);
    return status;
}

static void close_listener(crti_port_t *port)
{
    if (port->fd >= 0)
        close(port->fd);
    free(port);
}

static const crti_transport_t listener = {.close = close_listener};

/* ZMTP's signature: 0xff, eight bytes, 0x7f. The kernel gives us a connection when bytes have come
 * (TCP_DEFER_ACCEPT), and those are sent at once. */
static bool speaks_zmtp(int fd)
{
    unsigned char greeting[GREETING];

    return recv(fd, greeting, sizeof(greeting), MSG_PEEK | MSG_DONTWAIT) == GREETING &&
           greeting[0] == 0xff && greeting[GREETING - 1] == 0x7f;
}

static bool someone_speaks_zmtp(crti_net_t *net, int listen_fd)
{
    for (int i = 0; i < ACCEPTS; i++) {
        int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        bool speaks = fd >= 0 && speaks_zmtp(fd);

        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            crti_net_refuse(net, listen_fd); /* else it would wake us for ever */
        if (fd < 0)
            return false;
        close(fd);
        if (speaks)
            return true;
        net->stats.handshakes_refused++;
    }
    return false;
}

/* Somebody connects for the first time: libzmq takes the socket over. If it can't, nobody of
 * another node can call this process; those who try see a refused connection. */
static void on_first_connection(crti_source_t *source, uint32_t events)
{
    crti_port_t *port = CRTI_CONTAINER(source, crti_port_t, source);
    crti_net_t *net = port->net;

    if (!someone_speaks_zmtp(net, port->fd))
        return;
    crti_port_remove(port, 0);
    if (serve(net, &port->fd) != CRT_OK)
        crti_log(CRTI_LOG_ERROR, "net", "calls of other nodes can't be taken: %s",
                 crt_error_detail());
}

/* The system's range; zero until it was read. A zygote reads it for its workers. */
static unsigned system_low, system_high;

void crti_net_read_port_range(void)
{
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    unsigned low, high;

    if (file && fscanf(file, "%u %u", &low, &high) == 2 && low > 0 && low <= high &&
        high <= UINT16_MAX) {
        system_low = low;
        system_high = high;
    }
    if (file)
        fclose(file);
}

/* A port of the system's range that is most likely free: among thousands of listeners the system
 * itself looks at one after the other. */
static crt_status_t bind_anywhere(const char *ip, int *fd_out, uint16_t *port_out)
{
    unsigned count = system_high - system_low + 1,
             offset = (unsigned)getpid() * PORT_STEP;

    for (unsigned i = 0; system_low && i < GUESSES; i++) {
        uint16_t port = (uint16_t)(system_low + (offset + i * GUESS_STEP) % count);
        crt_status_t status = crti_stream_bind(ip, port, fd_out, port_out);

        if (status == CRT_OK)
            return status;
    }
    return crti_stream_bind(ip, 0, fd_out, port_out);
}

static crt_status_t bind_in_range(const crti_net_config_t *config, int *fd_out,
                                  uint16_t *port_out)
{
    unsigned low = config->port_low, high = config->port_high;
    unsigned count = high - low + 1, offset = (unsigned)getpid() * PORT_STEP;

    if (low == 0 && high == 0)
        return bind_anywhere(config->ip, fd_out, port_out);
    if (high < low)
        return crt_raise(CRT_ERR_INVALID, "port range %u-%u", low, high);
    for (unsigned i = 0; i < count; i++) {
        uint16_t port = (uint16_t)(low + (offset + i) % count);
        crt_status_t status = crti_stream_bind(config->ip, port, fd_out, port_out);

        if (status != CRT_ERR_EXISTS)
            return status;
    }
    return crt_raise(CRT_ERR_IO, "no free port of %u-%u on %s", low, high, config->ip);
}

/* Without printf where it can be: its code and its stack are pages that a new worker has not
 * yet. */
static void write_address(const char *ip, unsigned port, char *text, size_t size)
{
    size_t length = strlen(ip);
    char digits[6] = "";
    int at = 5;

    if (strchr(ip, ':') || length + sizeof(digits) + 1 > size) {
        snprintf(text, size, strchr(ip, ':') ? "[%s]:%u" : "%s:%u", ip, port);
        return;
    }
    for (unsigned rest = port; rest || at == 5; rest /= 10)
        digits[--at] = (char)('0' + rest % 10);
    strcpy(text, ip);
    text[length] = ':';
    strcpy(text + length + 1, digits + at);
}

crt_status_t crti_net_listen_tcp(crti_net_t *net, const crti_net_config_t *config)
{
    CRTI_AUTO(crti_close) int fd = -1;
    CRTI_AUTO(free) crti_port_t *port = calloc(1, sizeof(*port));
    uint16_t number;
    crt_status_t status;

    if (!port)
        return crt_raise(CRT_ERR_NO_MEMORY, "net: a socket");
    status = bind_in_range(config, &fd, &number);
    if (status != CRT_OK)
        return status;
    write_address(config->ip, number, net->address.tcp, sizeof(net->address.tcp));
    *port = (crti_port_t){.transport = &listener, .fd = fd};
    status = crti_port_watch(net, port, fd, EPOLLIN, on_first_connection);
    if (status != CRT_OK)
        return status;
    fd = -1; /* the port has it, and the net the port */
    port = NULL;
    return CRT_OK;
}

crt_status_t crti_peer_dial_zmq(crti_peer_t *peer, const char *tcp)
{
    CRTI_AUTO(crti_socket_drop) crti_socket_t *socket = NULL;
    crt_status_t status = start_zmq(peer->net);

    if (status == CRT_OK)
        status = crti_zmq_dial(peer->net->zmq, tcp, peer->route, &socket);
    if (status == CRT_OK)
        status = new_port(peer->net, &crti_net_zmq, &socket, peer, &peer->port);
    return status;
}
