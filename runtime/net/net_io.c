/* SPDX-License-Identifier: Apache-2.0 */
/* Net, input and output: frames to sessions and back, time, and the round through all ports.
 *
 * Where it sits
 *     progress -> [ net_io: pump ] -> net_lane, net_zmq -> [ net_io: crti_net_receive ] -> frame
 *     -> session -> handlers of core
 * Threads
 *     Everything under net's lock, called by the holder of the progress token (pump, expire), or
 *     by a sender (transmit).
 * Hot path.
 */
#include "runtime/base/log.h"
#include "runtime/net/net_int.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- ports */

static void on_free(crti_source_t *source)
{
    crti_port_t *port = CRTI_CONTAINER(source, crti_port_t, source);

    port->transport->close(port);
}

void crti_port_add(crti_net_t *net, crti_port_t *port, int fd,
                   void (*on_ready)(crti_source_t *source, uint32_t events))
{
    port->net = net;
    port->source = (crti_source_t){.fd = fd, .on_ready = on_ready, .on_free = on_free};
    crti_list_init(&port->source.in_removed);
    crti_list_init(&port->active);
    crti_list_init(&port->expecting);
    crti_list_init(&port->unproven);
    crti_list_append(&net->ports, &port->link);
}

crt_status_t crti_port_watch(crti_net_t *net, crti_port_t *port, int fd, uint32_t events,
                             void (*on_ready)(crti_source_t *source, uint32_t events))
{
    crt_status_t status;

    crti_port_add(net, port, fd, on_ready);
    status = crti_progress_add(&net->progress, &port->source, events);
    if (status != CRT_OK)
        crti_list_remove(&port->link);
    return status;
}

void crti_port_remove(crti_port_t *port, int linger_ms)
{
    if (!port)
        return;
    port->linger_ms = linger_ms;
    port->peer = NULL;
    crti_list_remove(&port->link);
    crti_list_remove(&port->active);
    crti_list_remove(&port->expecting);
    crti_port_prove(port);
    crti_progress_remove(&port->net->progress, &port->source);
}

void crti_port_activate(crti_port_t *port)
{
    if (crti_list_is_empty(&port->active))
        crti_list_append(&port->net->active, &port->active);
}

/* ---------------------------------------------------------------- session's actions */

/* NULL when the port has one peer only. */
static const unsigned char *route_of(const crti_peer_t *peer)
{
    return peer->is_routed ? peer->route : NULL;
}

static bool make(void *user, const struct iovec *parts, int count, size_t size,
                 void *message)
{
    return ((crti_peer_t *)user)->transport->make(parts, count, size, message);
}

static void drop(void *user, void *message)
{
    ((crti_peer_t *)user)->transport->drop(message);
}

static bool transmit(void *user, void *message)
{
    crti_peer_t *peer = user;

    if (!peer->port)
        return false;
    peer->net->stats.frames_sent++;
    return peer->transport->send(peer->port, route_of(peer), message);
}

static bool peer_is_idle(void *user)
{
    crti_peer_t *peer = user;

    return peer->port && peer->transport->is_idle && peer->transport->is_idle(peer->port);
}

/* A HELLO for which there is no way tries to find one. */
static void transmit_small(void *user, const void *data, size_t size)
{
    crti_peer_t *peer = user;

    if (!peer->port && peer->path && peer->session.id == 0 &&
        crti_peer_dial_lane(peer) != CRT_OK)
        crti_log(CRTI_LOG_WARN, "net", "%s", crt_error_detail());
    if (!peer->port)
        return;
    peer->net->stats.frames_sent++;
    peer->transport->send_bytes(peer->port, route_of(peer), data, size);
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

/* A port of its own goes with the session, one that is shared stays. */
static void unlink_peer(crti_peer_t *peer, int linger_ms)
{
    crti_net_t *net = peer->net;
    crti_peer_key_t key = {peer->session.config.peer,
                           peer->session.config.peer_incarnation};

    if (peer->is_dialed && crti_map_get(&net->dialed, &key) == peer)
        crti_map_remove(&net->dialed, &key);
    if (peer->is_routed)
        crti_map_remove(&net->accepted, &peer->session.config.nonce);
    if (peer->port && peer->port->peer == peer)
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
    .peer_is_idle = peer_is_idle,
    .deliver = deliver,
    .ended = ended,
    .changed = changed,
};

/* ---------------------------------------------------------------- frames in */

static void answer(crti_port_t *port, const unsigned char *route,
                   const crti_frame_t *frame)
{
    unsigned char bytes[CRTI_FRAME_SMALL];

    port->net->stats.frames_sent++;
    port->transport->send_bytes(port, route, bytes, crti_frame_encode(frame, bytes));
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

/* A session of another process begins. Without memory the HELLO is forgotten: it comes again. */
static void accept_peer(crti_port_t *port, const unsigned char *route,
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
        refuse(port, route, hello->session, status, crt_error_detail());
        return;
    }
    if (crti_peer_new(net, g->from, g->from_incarnation, g->from_node, hello->session,
                      &peer, &config) != CRT_OK)
        return;
    if (route && crti_map_put(&net->accepted, &config.nonce, peer) != CRT_OK) {
        crti_peer_forget(peer);
        return;
    }
    config.id = crti_net_random();
    config.is_steady = port->transport == &crti_net_lane;
    peer->transport = port->transport;
    peer->port = port;
    peer->is_routed = route != NULL;
    if (route)
        memcpy(peer->route, route, sizeof(peer->route));
    else
        port->peer = peer;
    crti_session_accept(&peer->session, &config, hello, net->now);
    crti_peer_touch(peer);
}

static void tell_of_room(crti_peer_t *peer)
{
    crti_net_t *net = peer->net;
    const crti_net_handlers_t *handlers = &net->config.handlers;

    if (crti_session_has_ended(&peer->session) ||
        !crti_session_has_room(&peer->session, peer->refused))
        return;
    peer->refused = 0;
    if (!handlers->on_room)
        return;
    net->in_handler++;
    handlers->on_room(handlers->user, peer);
    net->in_handler--;
}

static void give_to_session(crti_peer_t *peer, const crti_frame_t *frame)
{
    crti_net_t *net = peer->net;

    crti_peer_hold(peer);
    if (crti_session_receive(&peer->session, frame, net->now) == CRT_ERR_PROTOCOL)
        net->stats.frames_malformed++;
    if (peer->refused)
        tell_of_room(peer);
    crti_peer_touch(peer);
    crti_peer_release(peer);
}

/* Bytes that are no frame of our version. */
static void take_malformed(crti_port_t *port, const crti_received_frame_t *arrival,
                           crt_status_t status, const crti_frame_t *frame)
{
    crti_peer_t *peer = arrival->peer;
    char detail[256];

    snprintf(detail, sizeof(detail), "%s", crt_error_detail());
    port->net->stats.frames_malformed++;
    if (peer) {
        crti_peer_hold(peer);
        crti_session_fail(&peer->session, CRT_ERR_PROTOCOL, detail);
        crti_peer_release(peer);
    } else if (status == CRT_ERR_UNSUPPORTED && frame->type == CRTI_FRAME_HELLO) {
        refuse(port, arrival->route, frame->session, CRT_ERR_PROTOCOL, detail);
    }
}

/* The initiator's nonce, as the route says it, or as the frame does on a port of its own. */
static uint64_t nonce_of(const crti_received_frame_t *arrival, const crti_frame_t *frame)
{
    uint64_t nonce = frame->session;

    if (arrival->route)
        memcpy(&nonce, arrival->route + 1, sizeof(nonce));
    return nonce;
}

static void take_frame(crti_port_t *port, const crti_received_frame_t *arrival,
                       const crti_frame_t *frame)
{
    crti_frame_t reset = {.type = CRTI_FRAME_RESET, .session = frame->session};
    crti_peer_t *peer = arrival->peer;

    switch (crti_session_judge(peer ? &peer->session : NULL, frame,
                               nonce_of(arrival, frame))) {
    case CRTI_SESSION_RECEIVE: give_to_session(peer, frame); break;
    case CRTI_SESSION_ACCEPT: accept_peer(port, arrival->route, frame); break;
    case CRTI_SESSION_RESET: answer(port, arrival->route, &reset); break;
    case CRTI_SESSION_IGNORE: break;
    case CRTI_SESSION_MALFORMED: port->net->stats.frames_malformed++; break;
    }
}

void crti_net_receive(crti_port_t *port, const crti_received_frame_t *arrival)
{
    crti_frame_t frame;
    crt_status_t status = crti_frame_decode(arrival->data, arrival->size, &frame);

    port->net->stats.frames_received++;
    if (status == CRT_OK && !arrival->is_single)
        status = crt_raise(CRT_ERR_PROTOCOL, "malformed frame: more than one part");
    crti_log(CRTI_LOG_TRACE, "net", "<- %s %zu bytes, first %llu count %u ack %llu",
             crti_frame_name(frame.type), arrival->size, (unsigned long long)frame.first,
             frame.count, (unsigned long long)frame.ack);
    if (status != CRT_OK)
        take_malformed(port, arrival, status, &frame);
    else
        take_frame(port, arrival, &frame);
}

/* ---------------------------------------------------------------- the round */

static bool pump(void *user)
{
    crti_net_t *net = user;
    crti_list_t round, *item;
    bool any = false;

    /* One round: ports become active again by what handlers send. */
    crti_list_init(&round);
    crti_list_prepend_all(&round, &net->active);
    while ((item = crti_list_pop(&round))) {
        crti_port_t *port = CRTI_CONTAINER(item, crti_port_t, active);

        crti_list_append(&net->active, item);
        any |= port->transport->drain(port);
        if (any && crti_progress_is_done(&net->progress))
            break;
    }
    /* Those that were not looked at are the first of the next round. */
    crti_list_prepend_all(&net->active, &round);
    return any;
}

static bool prepare_to_sleep(void *user)
{
    crti_net_t *net = user;
    bool may_sleep = true;

    CRTI_LIST_FOREACH_SAFE (item, &net->active) {
        crti_port_t *port = CRTI_CONTAINER(item, crti_port_t, active);

        if (port->transport->sleep(port))
            crti_list_remove(item);
        else
            may_sleep = false;
    }
    return may_sleep;
}

static void rescan(void *user)
{
    crti_net_t *net = user;

    crti_net_check_doorbells(net);
    CRTI_LIST_FOREACH (item, &net->ports) {
        crti_port_t *port = CRTI_CONTAINER(item, crti_port_t, link);

        if (port->socket)
            crti_port_activate(port);
    }
}

/* With more than `max` talking to us there is no point in watching a few. */
static size_t words_to_watch(void *user, crti_progress_word_t *words, size_t max)
{
    crti_net_t *net = user;
    crti_list_t *expecting;
    size_t count = 0;

    while ((expecting = crti_list_pop(&net->expecting)))
        crti_port_activate(CRTI_CONTAINER(expecting, crti_port_t, expecting));
    CRTI_LIST_FOREACH (item, &net->active) {
        crti_port_t *port = CRTI_CONTAINER(item, crti_port_t, active);

        if (count == max)
            return 0;
        count += port->transport->input_word(port, &words[count]);
    }
    return count;
}

/* ---------------------------------------------------------------- time */

void crti_peer_touch(crti_peer_t *peer)
{
    crti_net_t *net = peer->net;
    uint64_t at = crti_session_deadline(&peer->session);

    if (crti_session_has_ended(&peer->session))
        return;
    /* A later deadline is left where it is: the heap looks again when the earlier one comes. */
    if (at == CRTI_SESSION_NEVER) {
        crti_deadlines_remove(&net->deadlines, &peer->deadline);
    } else if (peer->deadline.place == 0 || at < peer->deadline.at) {
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

        crti_peer_hold(peer);
        crti_deadlines_remove(&net->deadlines, &peer->deadline);
        crti_session_tick(&peer->session, net->now);
        crti_peer_touch(peer);
        crti_peer_release(peer);
    }
}

static uint64_t deadline(void *user)
{
    const crti_net_t *net = user;
    uint64_t first = crti_deadlines_first(&net->deadlines), again;

    if (crti_list_is_empty(&net->gathering))
        return first;
    again = crti_now_ns() + CRTI_PROGRESS_TICK_NS; /* there was no memory to flush */
    return first < again ? first : again;
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
            return; /* no memory: again when the next deadline comes */
    }
}

static void broken(void *user)
{
    const crti_net_handlers_t *handlers = &((crti_net_t *)user)->config.handlers;

    if (handlers->on_broken)
        handlers->on_broken(handlers->user);
}

const crti_progress_ops_t crti_net_progress_ops = {
    .flush = flush,
    .pump = pump,
    .words = words_to_watch,
    .sleep = prepare_to_sleep,
    .rescan = rescan,
    .expire = expire,
    .deadline = deadline,
    .broken = broken,
};
