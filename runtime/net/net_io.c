/* SPDX-License-Identifier: Apache-2.0 */
/* Net, input and output: sockets to sessions and back.
 *
 * Where it sits
 *     progress -> [ net_io: pump ] -> zmq link, frame -> session -> handlers of core
 * Threads
 *     Everything under net's lock, called by the holder of the progress token (pump, expire), or
 *     by a sender (transmit).
 * Invariants
 *     A socket that was sent on or received from is in `dirty` until a receive found nothing:
 *     its descriptor is not to be trusted before.
 * Hot path.
 */
#include "runtime/base/log.h"
#include "runtime/net/net_int.h"

#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#define RECEIVE_MAX 64 /* messages of one socket before the next one has its turn */

/* ---------------------------------------------------------------- ports */

static void mark_dirty(crti_port_t *port)
{
    if (crti_list_is_empty(&port->dirty))
        crti_list_append(&port->net->dirty, &port->dirty);
}

static void on_ready(crti_source_t *source, uint32_t events)
{
    mark_dirty(CRTI_CONTAINER(source, crti_port_t, source));
}

static void on_free(crti_source_t *source)
{
    crti_port_t *port = CRTI_CONTAINER(source, crti_port_t, source);

    crti_socket_close(port->socket, port->linger_ms);
    free(port);
}

crt_status_t crti_port_new(crti_net_t *net, crti_socket_t **socket_take,
                           crti_peer_t *peer, crti_port_t **port_out)
{
    CRTI_AUTO(free) crti_port_t *port = calloc(1, sizeof(*port));
    crt_status_t status;

    if (!port)
        return crt_raise(CRT_ERR_NO_MEMORY, "net: a socket");
    port->net = net;
    port->peer = peer;
    port->socket = *socket_take;
    port->source = (crti_source_t){
        .fd = crti_socket_fd(port->socket), .on_ready = on_ready, .on_free = on_free};
    crti_list_init(&port->dirty);
    status = crti_progress_add(&net->progress, &port->source, EPOLLIN);
    if (status != CRT_OK)
        return status;
    *socket_take = NULL;
    mark_dirty(port); /* connecting and binding consume the signal as well */
    *port_out = CRTI_TAKE(port);
    return CRT_OK;
}

void crti_port_remove(crti_port_t *port, int linger_ms)
{
    if (!port)
        return;
    port->linger_ms = linger_ms;
    port->peer = NULL;
    crti_list_remove(&port->dirty);
    crti_progress_remove(&port->net->progress, &port->source);
}

/* After a send: if somebody else sleeps on this socket's descriptor, its signal may have been
 * consumed by the send. */
static void sent(crti_port_t *port)
{
    crti_progress_t *p = &port->net->progress;

    port->net->stats.frames_sent++;
    mark_dirty(port);
    if (p->sleeping && crti_zmq_has_input(port->socket))
        crti_progress_kick(p);
}

/* ---------------------------------------------------------------- session's actions */

static const unsigned char *route_of(const crti_peer_t *peer)
{
    return peer->session.initiator ? NULL : peer->route;
}

static bool make(void *user, const struct iovec *parts, int count, size_t size,
                 void *message)
{
    return crti_zmq_make(parts, count, size, message);
}

static bool transmit(void *user, void *message)
{
    crti_peer_t *peer = user;
    bool ok;

    if (!peer->port)
        return false;
    ok = crti_zmq_send(peer->port->socket, route_of(peer), message);
    sent(peer->port);
    return ok;
}

static void drop(void *user, void *message)
{
    crti_zmq_drop(message);
}

static void transmit_small(void *user, const void *data, size_t size)
{
    crti_peer_t *peer = user;

    if (!peer->port)
        return;
    crti_zmq_send_bytes(peer->port->socket, route_of(peer), data, size);
    sent(peer->port);
}

static void deliver(void *user, const void *data, size_t size)
{
    crti_peer_t *peer = user;
    crti_net_t *net = peer->net;

    peer->is_known = true;
    net->in_handler++;
    net->config.handlers.on_record(net->config.handlers.user, peer, data, size);
    net->in_handler--;
}

/* A dead initiator's listener stays; a DEALER goes with its session. */
static void unlink_peer(crti_peer_t *peer, int linger_ms)
{
    crti_net_t *net = peer->net;
    crti_peer_key_t key = {peer->session.config.peer,
                           peer->session.config.peer_incarnation};

    if (peer->is_dialed && crti_map_get(&net->dialed, &key) == peer)
        crti_map_remove(&net->dialed, &key);
    if (!peer->session.initiator)
        crti_map_remove(&net->accepted, &peer->session.config.nonce);
    else
        crti_port_remove(peer->port, linger_ms);
    peer->port = NULL;
    crti_list_remove(&peer->link);
    crti_list_remove(&peer->gathering);
    crti_deadlines_remove(&net->deadlines, &peer->deadline);
}

static void ended(void *user, crt_status_t status, const char *detail)
{
    crti_peer_t *peer = user;
    crti_net_t *net = peer->net;
    crti_net_loss_t loss = {.status = status,
                            .detail = detail,
                            .acked = peer->session.acked,
                            .handed = peer->session.handed};

    /* Nobody would read what is still on its way to a peer that never answered. */
    unlink_peer(peer, peer->session.id == 0 || status == CRT_ERR_UNREACHABLE
                          ? 0
                          : CRTI_NET_LINGER_MS);
    if (status != CRT_OK)
        net->stats.sessions_lost++;
    if (peer->is_known) {
        net->in_handler++;
        net->config.handlers.on_peer_lost(net->config.handlers.user, peer, &loss);
        net->in_handler--;
    }
    crti_peer_unref(peer);
}

static void changed(void *user, crti_session_state_t from, crti_session_state_t to)
{
    crti_peer_t *peer = user;
    char id[CRTI_ID_HEX];

    crti_log(CRTI_LOG_DEBUG, "net", "session with %s %s -> %s",
             crti_id_hex(peer->session.config.peer, id), crti_session_state_name(from),
             crti_session_state_name(to));
    if (from < CRTI_SESSION_OPEN && to >= CRTI_SESSION_OPEN &&
        to <= CRTI_SESSION_DRAINING)
        peer->net->stats.sessions_opened++;
}

const crti_session_ops_t crti_net_session_ops = {
    .make = make,
    .transmit = transmit,
    .drop = drop,
    .transmit_small = transmit_small,
    .deliver = deliver,
    .ended = ended,
    .changed = changed,
};

/* ---------------------------------------------------------------- frames in */

static void answer(crti_port_t *port, const unsigned char *route,
                   const crti_frame_t *frame)
{
    unsigned char bytes[CRTI_FRAME_SMALL];

    crti_zmq_send_bytes(port->socket, route, bytes, crti_frame_encode(frame, bytes));
    sent(port);
}

static void refuse(crti_port_t *port, const unsigned char *route, uint64_t nonce,
                   crt_status_t status, const char *text)
{
    crti_frame_t frame = {.type = CRTI_FRAME_REFUSED,
                          .session = nonce,
                          .status = status,
                          .body = crti_span(text, strlen(text))};

    port->net->stats.handshakes_refused++;
    answer(port, route, &frame);
}

static uint64_t random_number(void)
{
    uint64_t n = 0;

    while (n == 0)
        randombytes_buf(&n, sizeof(n));
    return n;
}

/* A session of another process begins. Without memory the HELLO is forgotten: it comes again. */
static void accept_peer(crti_port_t *port, const crti_zmq_input_t *input,
                        const crti_frame_t *hello)
{
    const crti_greeting_t *g = &hello->greeting;
    crti_net_t *net = port->net;
    crti_session_config_t config;
    crti_peer_t *peer;
    crt_status_t status;

    status =
        crti_session_check_hello(hello, net->config.process, net->config.incarnation);
    if (status != CRT_OK) {
        refuse(port, input->route, hello->session, status, crt_error_detail());
        return;
    }
    if (crti_peer_new(net, g->from, g->from_incarnation, g->from_node, hello->session,
                      &peer, &config) != CRT_OK)
        return;
    if (crti_map_put(&net->accepted, &config.nonce, peer) != CRT_OK) {
        crti_peer_forget(peer);
        return;
    }
    config.id = random_number();
    peer->port = port;
    memcpy(peer->route, input->route, sizeof(peer->route));
    crti_session_accept(&peer->session, &config, hello, net->now);
    crti_peer_touch(peer);
}

static void give_to_session(crti_peer_t *peer, const crti_frame_t *frame)
{
    crti_net_t *net = peer->net;

    crti_peer_ref(peer);
    if (crti_session_receive(&peer->session, frame, net->now) == CRT_ERR_PROTOCOL)
        net->stats.frames_malformed++;
    crti_peer_touch(peer);
    crti_peer_unref(peer);
}

/* Bytes that are no frame of our version. */
static void take_malformed(crti_port_t *port, crti_peer_t *peer,
                           const crti_zmq_input_t *input, crt_status_t status,
                           const crti_frame_t *frame)
{
    char detail[256];

    snprintf(detail, sizeof(detail), "%s", crt_error_detail());
    port->net->stats.frames_malformed++;
    if (peer) {
        crti_peer_ref(peer);
        crti_session_fail(&peer->session, CRT_ERR_PROTOCOL, detail);
        crti_peer_unref(peer);
    } else if (status == CRT_ERR_UNSUPPORTED && frame->type == CRTI_FRAME_HELLO) {
        refuse(port, input->route, frame->session, CRT_ERR_PROTOCOL, detail);
    }
}

static void take_frame(crti_port_t *port, crti_peer_t *peer,
                       const crti_zmq_input_t *input, const crti_frame_t *frame,
                       uint64_t nonce)
{
    crti_frame_t reset = {.type = CRTI_FRAME_RESET, .session = frame->session};

    switch (crti_session_judge(peer ? &peer->session : NULL, frame, nonce)) {
    case CRTI_SESSION_RECEIVE: give_to_session(peer, frame); break;
    case CRTI_SESSION_ACCEPT: accept_peer(port, input, frame); break;
    case CRTI_SESSION_RESET: answer(port, input->route, &reset); break;
    case CRTI_SESSION_IGNORE: break;
    case CRTI_SESSION_MALFORMED: port->net->stats.frames_malformed++; break;
    }
}

static void take_input(crti_port_t *port, const crti_zmq_input_t *input)
{
    crti_net_t *net = port->net;
    crti_peer_t *peer = port->peer;
    crti_frame_t frame;
    crt_status_t status;
    uint64_t nonce = 0;

    net->stats.frames_received++;
    if (!peer && input->routed && input->route[0] == 'c') {
        memcpy(&nonce, input->route + 1, sizeof(nonce));
        peer = crti_map_get(&net->accepted, &nonce);
    } else if (!peer) {
        net->stats.frames_malformed++;
        return;
    }
    status = crti_frame_decode(input->data, input->size, &frame);
    if (status == CRT_OK && !input->is_single)
        status = crt_raise(CRT_ERR_PROTOCOL, "malformed frame: more than one part");
    crti_log(CRTI_LOG_TRACE, "net", "<- %s %zu bytes, first %llu count %u ack %llu",
             crti_frame_name(frame.type), input->size, (unsigned long long)frame.first,
             frame.count, (unsigned long long)frame.ack);
    if (status != CRT_OK)
        take_malformed(port, peer, input, status, &frame);
    else
        take_frame(port, peer, input, &frame, nonce);
}

/* True when there was something. The port leaves `dirty` when its socket is empty. */
static bool drain_zap(crti_port_t *port)
{
    bool accepted = false, any = false;

    for (int i = 0; i < RECEIVE_MAX; i++) {
        if (!crti_zmq_answer_zap(port->socket, &accepted)) {
            crti_list_remove(&port->dirty);
            return any;
        }
        any = true;
        if (!accepted)
            port->net->stats.handshakes_refused++;
    }
    return any;
}

/* Stops when whoever makes progress has what it waits for: the rest is received by the next. */
static bool drain(crti_port_t *port)
{
    crti_net_t *net = port->net;
    crti_zmq_input_t input;
    bool any = false;

    for (int i = 0; i < RECEIVE_MAX && !port->source.removed; i++) {
        if (!crti_zmq_receive(port->socket, &input)) {
            crti_list_remove(&port->dirty);
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

static bool pump(void *user)
{
    crti_net_t *net = user;
    crti_list_t round, *item;
    bool any = false;

    /* One round: ports become dirty again by what handlers send. */
    crti_list_init(&round);
    while ((item = crti_list_pop(&net->dirty)))
        crti_list_append(&round, item);
    while ((item = crti_list_pop(&round))) {
        crti_port_t *port = CRTI_CONTAINER(item, crti_port_t, dirty);

        crti_list_append(&net->dirty, item);
        any |= port->is_zap ? drain_zap(port) : drain(port);
        if (any && crti_progress_is_done(&net->progress))
            break;
    }
    while ((item = crti_list_pop(&round)))
        crti_list_append(&net->dirty, item);
    return any;
}

/* ---------------------------------------------------------------- time */

void crti_peer_touch(crti_peer_t *peer)
{
    crti_net_t *net = peer->net;
    uint64_t at = crti_session_deadline(&peer->session);

    if (crti_session_has_ended(&peer->session))
        return;
    /* A later deadline is left where it is: the heap looks again when the earlier one comes. */
    if (at < CRTI_SESSION_NEVER &&
        (peer->deadline.place == 0 || at < peer->deadline.at)) {
        crti_deadlines_set(&net->deadlines, &peer->deadline, at);
        crti_progress_need(&net->progress, at);
    }
    if (crti_session_is_gathering(&peer->session) &&
        peer->session.state >= CRTI_SESSION_OPEN &&
        crti_list_is_empty(&peer->gathering)) {
        if (crti_list_is_empty(&net->gathering))
            crti_progress_need(&net->progress, net->now + CRTI_PROGRESS_TICK_NS);
        crti_list_append(&net->gathering, &peer->gathering);
    }
}

uint64_t crti_net_now(crti_net_t *net, const crti_peer_t *peer)
{
    if (peer->session.probe_at == CRTI_SESSION_NEVER ||
        (peer->session.acked == peer->session.queued))
        net->now = crti_now_ns();
    return net->now;
}

static void expire(void *user)
{
    crti_net_t *net = user;

    net->now = crti_now_ns();
    while (crti_deadlines_first(&net->deadlines) <= net->now) {
        crti_peer_t *peer =
            CRTI_CONTAINER(net->deadlines.items[0], crti_peer_t, deadline);

        crti_peer_ref(peer);
        crti_deadlines_remove(&net->deadlines, &peer->deadline);
        crti_session_tick(&peer->session, net->now);
        crti_peer_touch(peer);
        crti_peer_unref(peer);
    }
}

static uint64_t deadline(void *user)
{
    const crti_net_t *net = user;

    return crti_deadlines_first(&net->deadlines);
}

static void flush(void *user)
{
    crti_net_t *net = user;
    crti_list_t *item;

    while ((item = crti_list_pop(&net->gathering))) {
        crti_peer_t *peer = CRTI_CONTAINER(item, crti_peer_t, gathering);

        crti_session_flush(&peer->session, net->now);
        crti_peer_touch(peer);
        if (!crti_list_is_empty(&peer->gathering))
            return; /* no memory: the timer that touch has set tries again */
    }
}

const crti_progress_ops_t crti_net_progress_ops = {
    .flush = flush,
    .pump = pump,
    .expire = expire,
    .deadline = deadline,
};
