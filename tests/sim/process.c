/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a simulated process. See process.h. */
#include "tests/sim/process.h"

#include <stdlib.h>
#include <string.h>

static void touch(sim_peer_t *peer);

/* ---------------------------------------------------------------- session's actions */

static bool make(void *user, const struct iovec *parts, int count, size_t size,
                 void *message)
{
    *(sim_blob_t **)message = sim_blob_of(parts, count, size);
    return true;
}

static bool send_blob(sim_peer_t *peer, sim_blob_t *blob)
{
    sim_process_t *p = peer->process;
    sim_packet_t packet = {.from = p->place,
                           .to = peer->place,
                           .to_listener = peer->session.initiator,
                           .route = peer->session.config.nonce,
                           .blob = blob};

    if (peer->has_ended)
        sim_fail(p->world, "a session sends after its end");
    return sim_network_send(p->net, packet);
}

static bool transmit(void *user, void *message)
{
    return send_blob(user, *(sim_blob_t **)message);
}

static void drop(void *user, void *message)
{
    sim_blob_unref(*(sim_blob_t **)message);
}

static void transmit_small(void *user, const void *data, size_t size)
{
    sim_blob_t *blob = sim_blob_new(size);

    memcpy(blob->data, data, size);
    send_blob(user, blob);
    sim_blob_unref(blob);
}

static void deliver(void *user, const void *data, size_t size)
{
    sim_peer_t *peer = user;
    sim_process_t *p = peer->process;

    if (peer->has_ended)
        sim_fail(p->world, "a record is delivered after the session's end");
    if (peer->session.id == 0 || peer->session.state < CRTI_SESSION_OPEN)
        sim_fail(p->world, "a record is delivered before both have greeted");
    peer->is_known = true;
    p->ops->on_record(p, peer, data, size);
}

static bool peer_is_idle(void *user)
{
    const sim_peer_t *peer = user;

    return sim_chance(peer->process->world, 5000);
}

static void ended(void *user, crt_status_t status, const char *detail)
{
    sim_peer_t *peer = user;
    sim_process_t *p = peer->process;

    sim_note(p->world, "  place %u: session %04llx with %u ends: %s", p->place,
             (unsigned long long)(peer->session.config.nonce & 0xffff), peer->place,
             detail);
    if (peer->has_ended)
        sim_fail(p->world, "a session ends twice");
    if (status == CRT_ERR_PROTOCOL && p->net->garbled == 0)
        sim_fail(p->world, "a session calls its peer malformed: %s", detail);
    peer->has_ended = true;
    crti_map_remove(peer->session.initiator ? &p->sockets : &p->accepted,
                    &peer->session.config.nonce);
    crti_list_remove(&peer->link);
    crti_list_append(&p->doomed, &peer->link);
    if (p->ops->on_ended)
        p->ops->on_ended(p, peer, status);
    if (peer->is_known)
        p->ops->on_lost(p, peer, status);
}

static const crti_session_ops_t session_ops = {
    .make = make,
    .transmit = transmit,
    .drop = drop,
    .transmit_small = transmit_small,
    .peer_is_idle = peer_is_idle,
    .deliver = deliver,
    .ended = ended,
};

/* ---------------------------------------------------------------- life */

void sim_process_init(sim_process_t *p, sim_network_t *net, unsigned place,
                      const sim_process_ops_t *ops, void *user)
{
    *p = (sim_process_t){.world = net->world,
                         .net = net,
                         .ops = ops,
                         .place = place,
                         .node = net->node_of[place],
                         .window = 64 << 10,
                         .record_max = 1 << 20,
                         .user = user};
    crti_list_init(&p->peers);
    crti_list_init(&p->doomed);
    crti_map_init(&p->sockets, sizeof(uint64_t));
    crti_map_init(&p->accepted, sizeof(uint64_t));
}

static void free_peers(crti_list_t *list)
{
    crti_list_t *item;

    while ((item = crti_list_pop(list))) {
        crti_session_fini(&SIM_PEER_OF(item)->session);
        free(SIM_PEER_OF(item));
    }
}

void sim_process_fini(sim_process_t *p)
{
    free_peers(&p->peers);
    free_peers(&p->doomed);
    crti_map_fini(&p->sockets);
    crti_map_fini(&p->accepted);
    p->is_alive = false;
}

void sim_process_start(sim_process_t *p, crti_id_t id, uint64_t incarnation)
{
    p->id = id;
    p->incarnation = incarnation;
    p->is_alive = true;
}

void sim_process_kill(sim_process_t *p)
{
    sim_note(p->world, "place %u: killed", p->place);
    sim_process_fini(p);
}

/* ---------------------------------------------------------------- peers */

static sim_peer_t *new_peer(sim_process_t *p, unsigned place, crti_id_t id,
                            uint64_t incarnation, uint64_t nonce,
                            crti_session_config_t *config_out)
{
    sim_peer_t *peer = calloc(1, sizeof(*peer));

    if (!peer)
        abort();
    peer->process = p;
    peer->place = place;
    peer->timer_at = CRTI_SESSION_NEVER;
    crti_list_append(&p->peers, &peer->link);
    *config_out = (crti_session_config_t){.ops = &session_ops,
                                          .user = peer,
                                          .counts = &p->counts,
                                          .self = p->id,
                                          .self_node = {1, p->node},
                                          .self_incarnation = p->incarnation,
                                          .peer = id,
                                          .peer_incarnation = incarnation,
                                          .nonce = nonce,
                                          .window = p->window,
                                          .record_max = p->record_max};
    return peer;
}

sim_peer_t *sim_process_find(const sim_process_t *p, crti_id_t id, uint64_t incarnation)
{
    CRTI_LIST_FOREACH (item, &p->peers) {
        sim_peer_t *peer = SIM_PEER_OF(item);

        if (crti_id_equal(peer->session.config.peer, id) &&
            peer->session.config.peer_incarnation == incarnation &&
            (peer->session.state == CRTI_SESSION_OPEN ||
             peer->session.state == CRTI_SESSION_GREETING))
            return peer;
    }
    return NULL;
}

sim_peer_t *sim_process_dial(sim_process_t *p, unsigned place, crti_id_t id,
                             uint64_t incarnation)
{
    crti_session_config_t config;
    sim_peer_t *peer;

    CRTI_LIST_FOREACH (item, &p->peers) {
        peer = SIM_PEER_OF(item);
        if (peer->is_dialed && crti_id_equal(peer->session.config.peer, id) &&
            peer->session.config.peer_incarnation == incarnation)
            return peer;
    }
    peer = new_peer(p, place, id, incarnation, sim_random(p->world) | 1, &config);
    if (crti_map_put(&p->sockets, &config.nonce, peer) != CRT_OK)
        abort();
    peer->is_known = peer->is_dialed = true;
    peer->session.initiator = true; /* its greeting leaves inside start */
    peer->session.config = config;
    if (p->ops->on_peer)
        p->ops->on_peer(p, peer);
    crti_session_start(&peer->session, &config, p->world->now);
    touch(peer);
    return peer;
}

/* ---------------------------------------------------------------- time */

static sim_peer_t *peer_of(const sim_process_t *p, uint64_t nonce)
{
    sim_peer_t *peer = crti_map_get(&p->sockets, &nonce);

    return peer ? peer : crti_map_get(&p->accepted, &nonce);
}

/* Events look a session up by its nonce: it may have ended meanwhile. */
static void on_timer(void *user, uint64_t nonce)
{
    sim_process_t *p = user;
    sim_peer_t *peer = peer_of(p, nonce);

    free_peers(&p->doomed);
    if (!peer || peer->timer_at > p->world->now)
        return;
    peer->timer_at = CRTI_SESSION_NEVER;
    crti_session_tick(&peer->session, p->world->now);
    touch(peer);
}

static void on_flush(void *user, uint64_t nonce)
{
    sim_process_t *p = user;
    sim_peer_t *peer = peer_of(p, nonce);

    free_peers(&p->doomed);
    if (!peer)
        return;
    peer->will_flush = false;
    crti_session_flush(&peer->session, p->world->now);
    touch(peer);
}

static void touch(sim_peer_t *peer)
{
    sim_process_t *p = peer->process;
    sim_world_t *w = p->world;
    uint64_t at = crti_session_deadline(&peer->session);

    if (peer->has_ended)
        return;
    if (at != CRTI_SESSION_NEVER && at < peer->timer_at) {
        peer->timer_at = at > w->now ? at : w->now;
        sim_after(w, peer->timer_at - w->now, on_timer, p, peer->session.config.nonce);
    }
    if (crti_session_is_gathering(&peer->session) && !peer->will_flush &&
        peer->session.state >= CRTI_SESSION_OPEN) {
        peer->will_flush = true;
        sim_after(w, sim_below(w, 2 * CRTI_MS), on_flush, p, peer->session.config.nonce);
    }
}

/* ---------------------------------------------------------------- frames in */

static void answer(sim_process_t *p, const sim_packet_t *packet,
                   const crti_frame_t *frame)
{
    unsigned char bytes[CRTI_FRAME_SMALL];
    sim_packet_t back = {.from = p->place, .to = packet->from, .route = packet->route};

    back.blob = sim_blob_new(crti_frame_encode(frame, bytes));
    memcpy(back.blob->data, bytes, back.blob->size);
    sim_network_send(p->net, back);
    sim_blob_unref(back.blob);
}

static void accept_peer(sim_process_t *p, const sim_packet_t *packet,
                        const crti_frame_t *hello)
{
    const crti_greeting_t *g = &hello->greeting;
    crti_session_config_t config;
    sim_peer_t *peer;
    crt_status_t status = crti_session_check_hello(hello, p->id, p->incarnation);
    crti_frame_t refusal = {.type = CRTI_FRAME_REFUSED, .session = hello->session};

    if (status != CRT_OK) {
        refusal.status = status;
        refusal.body = crti_span(crt_error_detail(), strlen(crt_error_detail()));
        answer(p, packet, &refusal);
        return;
    }
    peer =
        new_peer(p, packet->from, g->from, g->from_incarnation, hello->session, &config);
    if (crti_map_put(&p->accepted, &config.nonce, peer) != CRT_OK)
        abort();
    config.id = sim_random(p->world) | 1;
    peer->session.config = config; /* WELCOME leaves inside accept */
    if (p->ops->on_peer)
        p->ops->on_peer(p, peer);
    crti_session_accept(&peer->session, &config, hello, p->world->now);
    touch(peer);
}

static void take_frame(sim_process_t *p, const sim_packet_t *packet, sim_peer_t *peer,
                       const crti_frame_t *frame)
{
    crti_frame_t reset = {.type = CRTI_FRAME_RESET, .session = frame->session};

    switch (crti_session_judge(peer ? &peer->session : NULL, frame, packet->route)) {
    case CRTI_SESSION_RECEIVE:
        crti_session_receive(&peer->session, frame, p->world->now);
        touch(peer);
        break;
    case CRTI_SESSION_ACCEPT: accept_peer(p, packet, frame); break;
    case CRTI_SESSION_RESET: answer(p, packet, &reset); break;
    case CRTI_SESSION_IGNORE: break;
    case CRTI_SESSION_MALFORMED:
        if (p->net->garbled == 0)
            sim_fail(p->world, "a HELLO by another's route");
        break;
    }
}

void sim_process_receive(sim_process_t *p, const sim_packet_t *packet)
{
    crti_frame_t frame;
    sim_peer_t *peer;

    free_peers(&p->doomed);
    if (!p->is_alive)
        return;
    peer = crti_map_get(packet->to_listener ? &p->accepted : &p->sockets, &packet->route);
    if (!peer && !packet->to_listener) /* its socket was closed */
        return;
    if (crti_frame_decode(packet->blob->data, packet->blob->size, &frame) != CRT_OK) {
        if (p->net->garbled == 0)
            sim_fail(p->world, "a frame of ours is malformed: %s", crt_error_detail());
        else if (peer)
            sim_peer_fail(peer, CRT_ERR_PROTOCOL, "malformed frame");
        return;
    }
    sim_note(p->world, "  %u -> %u %s of %04llx: first %llu count %u ack %llu",
             packet->from, p->place, crti_frame_name(frame.type),
             (unsigned long long)(packet->route & 0xffff),
             (unsigned long long)frame.first, frame.count, (unsigned long long)frame.ack);
    take_frame(p, packet, peer, &frame);
}

/* ---------------------------------------------------------------- use */

crt_status_t sim_peer_send(sim_peer_t *peer, const void *data, size_t size, bool control)
{
    struct iovec part = {(void *)(uintptr_t)data, size};
    sim_process_t *p = peer->process;
    const crti_session_t *s = &peer->session;
    crt_status_t status =
        crti_session_send(&peer->session, &part, 1, control, p->world->now);

    if (status == CRT_OK && !control && p->net->garbled == 0 &&
        s->charged - s->credit > s->config.window && s->charged - s->credit != size)
        sim_fail(p->world, "%llu bytes in flight in a window of %llu",
                 (unsigned long long)(s->charged - s->credit),
                 (unsigned long long)s->config.window);
    touch(peer);
    return status;
}

void sim_peer_release(sim_peer_t *peer, size_t size)
{
    crti_session_release(&peer->session, size, peer->process->world->now);
    touch(peer);
}

void sim_peer_watch(sim_peer_t *peer, int delta)
{
    crti_session_watch(&peer->session, delta, peer->process->world->now);
    touch(peer);
}

void sim_peer_close(sim_peer_t *peer)
{
    crti_session_close(&peer->session, peer->process->world->now);
    touch(peer);
}

void sim_peer_fail(sim_peer_t *peer, crt_status_t status, const char *detail)
{
    crti_session_fail(&peer->session, status, detail);
}

void sim_process_peer_died(sim_process_t *p, crti_id_t id)
{
    crti_list_t *item = p->peers.next;

    while (item != &p->peers) {
        sim_peer_t *peer = SIM_PEER_OF(item);

        item = item->next;
        if (!crti_id_equal(peer->session.config.peer, id))
            continue;
        sim_peer_fail(peer, CRT_ERR_WORKER_DIED, "the process died");
        item = p->peers.next; /* on_lost may have ended others */
    }
}
