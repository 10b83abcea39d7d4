/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of simulated processes: their frames, lost, late, doubled, and their time, by the rules
 * of runtime/net/net_io.c. See system.h.
 *
 * Between processes of one host nothing is lost (a lane); between hosts network.c carries
 * frames. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "tests/sim/system_net_int.h"

/* ---------------------------------------------------------------- frames out */

/* A frame on its way; `route` is the initiator's nonce. */
typedef struct sys_frame {
    unsigned from, to;
    bool to_listener;
    uint64_t route;
    size_t size;
    unsigned char data[];
} sys_frame_t;

static void on_lane(void *user, uint64_t number);

static bool send_frame(crti_net_t *net, unsigned to, bool to_listener, uint64_t route,
                       const void *data, size_t size)
{
    sim_world_t *w = sys->world;
    sim_blob_t *blob;
    sys_frame_t *f;
    unsigned from_host = net->owner->host, to_host;
    uint64_t at = w->now + sim_between(w, 1000, 20000);
    sim_packet_t packet;
    bool left = true;

    if (to == SYS_NOWHERE)
        return false;
    to_host = sys->process[to].host;
    blob = sim_blob_new(sizeof(sys_frame_t) + size);
    f = (void *)blob->data;
    packet = (sim_packet_t){.from = from_host, .to = to_host, .blob = blob};

    *f = (sys_frame_t){net->owner->index, to, to_listener, route, size};
    memcpy(f->data, data, size);
    if (from_host != to_host) {
        left = sim_network_send(&sys->net, packet);
        sim_blob_unref(blob);
        return left;
    }
    at = at < net->lane_arrival[to] ? net->lane_arrival[to] : at;
    net->lane_arrival[to] = at;
    sim_after(w, at - w->now, on_lane, blob, 0);
    return true;
}

/* Which process is meant: the one that has this id and incarnation, or had it. */
unsigned sys_find_process(crti_id_t id)
{
    for (unsigned i = sys->processes; i-- > 0;) {
        const sys_process_t *p = &sys->process[i];

        if (p->net && crti_id_equal(p->net->config.process, id))
            return i;
    }
    return SYS_NOWHERE;
}

static bool make(void *user, const struct iovec *parts, int count, size_t size,
                 void *message)
{
    *(sim_blob_t **)message = sim_blob_of(parts, count, size);
    return true;
}

static bool transmit(void *user, void *message)
{
    crti_peer_t *peer = user;
    const sim_blob_t *blob = *(sim_blob_t **)message;

    return send_frame(peer->net, peer->to, peer->session.initiator,
                      peer->session.config.nonce, blob->data, blob->size);
}

static void drop(void *user, void *message)
{
    sim_blob_unref(*(sim_blob_t **)message);
}

static void transmit_small(void *user, const void *data, size_t size)
{
    crti_peer_t *peer = user;

    if (peer->to == SYS_NOWHERE)
        peer->to = sys_find_process(peer->session.config.peer);
    send_frame(peer->net, peer->to, peer->session.initiator, peer->session.config.nonce,
               data, size);
}

static void deliver(void *user, const void *data, size_t size)
{
    crti_peer_t *peer = user;
    crti_net_t *net = peer->net;

    peer->is_known = true;
    net->config.handlers.on_record(net->config.handlers.user, peer, data, size);
}

static bool peer_is_idle(void *user)
{
    return sim_chance(sys->world, 5000);
}

static void ended(void *user, crt_status_t status, const char *detail)
{
    crti_peer_t *peer = user;
    crti_net_t *net = peer->net;
    crti_net_loss_t loss = {.status = status,
                            .detail = detail,
                            .acked = peer->session.acked,
                            .handed = peer->session.handed};

    peer->has_ended = true;
    crti_map_remove(peer->session.initiator ? &net->sockets : &net->accepted,
                    &peer->session.config.nonce);
    sim_note(sys->world, "  pid %d: session with %d ends: %s", (int)net->owner->pid,
             peer->to == SYS_NOWHERE ? 0 : (int)sys->process[peer->to].pid, detail);
    if (status == CRT_ERR_PROTOCOL)
        sim_fail(sys->world, "a session calls its peer malformed: %s", detail);
    if (peer->is_known)
        net->config.handlers.on_peer_lost(net->config.handlers.user, peer, &loss);
}

static const crti_session_ops_t session_ops = {.make = make,
                                               .transmit = transmit,
                                               .drop = drop,
                                               .transmit_small = transmit_small,
                                               .peer_is_idle = peer_is_idle,
                                               .deliver = deliver,
                                               .ended = ended};

/* ---------------------------------------------------------------- time */

static crti_peer_t *find(const crti_net_t *net, uint64_t nonce)
{
    crti_peer_t *peer = crti_map_get(&net->sockets, &nonce);

    return peer ? peer : crti_map_get(&net->accepted, &nonce);
}

static void tick(void *user, uint64_t nonce)
{
    crti_peer_t *peer = find(user, nonce);

    if (!peer || peer->timer_at > sys->world->now)
        return;
    peer->timer_at = CRTI_SESSION_NEVER;
    crti_session_tick(&peer->session, sys->world->now);
    sys_peer_touch(peer);
}

static void on_tick(void *user, uint64_t nonce)
{
    sys_run(((crti_net_t *)user)->owner, tick, user, nonce);
}

static void flush_one(void *user, uint64_t nonce)
{
    crti_peer_t *peer = find(user, nonce);

    if (!peer)
        return;
    peer->will_flush = false;
    crti_session_flush(&peer->session, sys->world->now);
    sys_peer_touch(peer);
}

static void on_flush(void *user, uint64_t nonce)
{
    sys_run(((crti_net_t *)user)->owner, flush_one, user, nonce);
}

void sys_peer_touch(crti_peer_t *peer)
{
    sim_world_t *w = sys->world;
    uint64_t at = crti_session_deadline(&peer->session);

    if (peer->has_ended)
        return;
    if (at != CRTI_SESSION_NEVER && at < peer->timer_at) {
        peer->timer_at = at > w->now ? at : w->now;
        sim_after(w, peer->timer_at - w->now, on_tick, peer->net,
                  peer->session.config.nonce);
    }
    if (crti_session_is_gathering(&peer->session) && !peer->will_flush &&
        peer->session.state >= CRTI_SESSION_OPEN) {
        peer->will_flush = true;
        sim_after(w, sim_below(w, CRTI_MS), on_flush, peer->net,
                  peer->session.config.nonce);
    }
}

/* ---------------------------------------------------------------- frames in */

crti_peer_t *sys_peer_new(crti_net_t *net, unsigned to, crti_id_t id,
                          uint64_t incarnation, crti_id_t node, uint64_t nonce,
                          crti_session_config_t *config_out)
{
    crti_peer_t *peer = calloc(1, sizeof(*peer));

    if (!peer)
        abort();
    peer->net = net;
    peer->to = to;
    peer->node = node;
    peer->timer_at = CRTI_SESSION_NEVER;
    *config_out = (crti_session_config_t){.ops = &session_ops,
                                          .user = peer,
                                          .counts = &net->counts,
                                          .self = net->config.process,
                                          .self_node = net->config.node,
                                          .self_incarnation = net->config.incarnation,
                                          .peer = id,
                                          .peer_incarnation = incarnation,
                                          .nonce = nonce,
                                          .window = CRTI_LIMIT(session_window),
                                          .record_max = CRTI_LIMIT(record_limit)};
    return peer;
}

static void answer(crti_net_t *net, const sys_frame_t *f, const crti_frame_t *frame)
{
    unsigned char bytes[CRTI_FRAME_SMALL];
    size_t size = crti_frame_encode(frame, bytes);

    send_frame(net, f->from, false, f->route, bytes, size);
}

static void accept_peer(crti_net_t *net, const sys_frame_t *f, const crti_frame_t *hello)
{
    const crti_greeting_t *g = &hello->greeting;
    crti_frame_t refusal = {.type = CRTI_FRAME_REFUSED, .session = hello->session};
    crti_session_config_t config;
    crti_peer_t *peer;
    crt_status_t status =
        crti_session_check_hello(hello, net->config.process, net->config.incarnation);

    if (status != CRT_OK) {
        refusal.status = status;
        refusal.body = crti_span(crt_error_detail(), strlen(crt_error_detail()));
        answer(net, f, &refusal);
        return;
    }
    peer = sys_peer_new(net, f->from, g->from, g->from_incarnation, g->from_node,
                        hello->session, &config);
    if (crti_map_put(&net->accepted, &config.nonce, peer) != CRT_OK)
        abort();
    config.id = sim_random(sys->world) | 1;
    crti_session_accept(&peer->session, &config, hello, sys->world->now);
    sys_peer_touch(peer);
}

static void tell_of_room(crti_peer_t *peer)
{
    const crti_net_handlers_t *handlers = &peer->net->config.handlers;

    if (!peer->refused || peer->has_ended ||
        !crti_session_has_room(&peer->session, peer->refused))
        return;
    peer->refused = 0;
    handlers->on_room(handlers->user, peer);
}

static void take(void *user, uint64_t number)
{
    const sys_frame_t *f = user;
    crti_net_t *net = sys->self->net;
    crti_frame_t frame, reset;
    crti_peer_t *peer =
        crti_map_get(f->to_listener ? &net->accepted : &net->sockets, &f->route);

    if (!peer && !f->to_listener)
        return; /* its socket was closed */
    if (crti_frame_decode(f->data, f->size, &frame) != CRT_OK) {
        sim_fail(sys->world, "a frame of ours is malformed: %s", crt_error_detail());
        return;
    }
    reset = (crti_frame_t){.type = CRTI_FRAME_RESET, .session = frame.session};
    switch (crti_session_judge(peer ? &peer->session : NULL, &frame, f->route)) {
    case CRTI_SESSION_RECEIVE:
        crti_session_receive(&peer->session, &frame, sys->world->now);
        tell_of_room(peer);
        sys_peer_touch(peer);
        break;
    case CRTI_SESSION_ACCEPT: accept_peer(net, f, &frame); break;
    case CRTI_SESSION_RESET: answer(net, f, &reset); break;
    case CRTI_SESSION_IGNORE:
    case CRTI_SESSION_MALFORMED: break;
    }
}

static void receive(const sim_blob_t *blob)
{
    const sys_frame_t *f = (const void *)blob->data;
    sys_process_t *p = &sys->process[f->to];

    if (p->is_alive && p->net && !p->net->is_closed)
        sys_run(p, take, (void *)(uintptr_t)f, 0);
}

void sys_net_receive(void *user, const sim_packet_t *packet)
{
    receive(packet->blob);
}

static void on_lane(void *user, uint64_t number)
{
    receive(user);
    sim_blob_unref(user);
}
