/* SPDX-License-Identifier: Apache-2.0 */
/* The net of a process: runtime/net/net.h by the rules of net.c. See system.h, system_session.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/system_net_int.h"

/* ---------------------------------------------------------------- net.h: life */

crt_status_t crti_net_new(const crti_net_config_t *config, crti_net_t **net_out)
{
    crti_net_t *net = calloc(1, sizeof(*net));
    char hex[CRTI_ID_HEX];

    if (!net)
        abort();
    net->owner = sys->self;
    net->config = *config;
    net->address = (crti_address_t){.process = config->process,
                                    .incarnation = config->incarnation,
                                    .node = config->node};
    snprintf(net->address.ipc, sizeof(net->address.ipc), "@%s/p-%s.ipc", config->run_dir,
             crti_id_hex(config->process, hex));
    snprintf(net->address.tcp, sizeof(net->address.tcp), "%s:%u", config->ip,
             sys->self->index);
    crti_map_init(&net->sockets, sizeof(uint64_t));
    crti_map_init(&net->accepted, sizeof(uint64_t));
    sys->self->net = *net_out = net;
    return CRT_OK;
}

void crti_net_free(crti_net_t *net)
{
    if (net)
        net->is_closed = true;
}

const crti_address_t *crti_net_address(const crti_net_t *net)
{
    return &net->address;
}

sys_process_t *sys_net_process(crti_id_t id)
{
    unsigned index = sys_find_process(id);

    return index == SYS_NOWHERE ? NULL : &sys->process[index];
}

void crti_net_lock(crti_net_t *net)
{
    if (sys->self->is_locked)
        sim_fail(sys->world, "pid %d locks twice", (int)sys->self->pid);
    sys->self->is_locked = true;
}

void crti_net_unlock(crti_net_t *net)
{
    sys->self->is_locked = false;
}

crt_status_t crti_net_connect(crti_net_t *net, const crti_address_t *to,
                              crti_peer_t **peer_out)
{
    crti_session_config_t config;
    crti_peer_t *peer;
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&net->sockets, &cursor, NULL, &value)) {
        peer = value;
        if (peer->is_dialed && crti_id_equal(peer->session.config.peer, to->process) &&
            peer->session.config.peer_incarnation == to->incarnation) {
            *peer_out = peer;
            return CRT_OK;
        }
    }
    if (!crti_id_equal(to->node, net->config.node) && !to->tcp[0])
        return crt_raise(CRT_ERR_UNREACHABLE, "no way to the process");
    peer = sys_peer_new(net, sys_find_process(to->process), to->process, to->incarnation,
                        to->node, sim_random(sys->world) | 1, &config);
    if (crti_map_put(&net->sockets, &config.nonce, peer) != CRT_OK)
        abort();
    peer->is_known = peer->is_dialed = true;
    peer->session.initiator = true;
    peer->session.config = config;
    crti_session_start(&peer->session, &config, sys->world->now);
    sys_peer_touch(peer);
    *peer_out = peer;
    return CRT_OK;
}

typedef struct room {
    crti_peer_t *peer;
    size_t size;
} room_t;

static bool has_room(void *user)
{
    const room_t *room = user;

    return room->peer->has_ended ||
           crti_session_has_room(&room->peer->session, room->size);
}

crt_status_t crti_net_send(crti_net_t *net, crti_peer_t *peer, const struct iovec *parts,
                           int count, unsigned flags, uint64_t deadline_ns,
                           uint64_t *sequence_out)
{
    bool control = flags & CRTI_SEND_CONTROL;
    room_t room = {peer, 0};
    crt_status_t status;

    for (int i = 0; i < count; i++)
        room.size += parts[i].iov_len;
    do {
        status =
            crti_session_send(&peer->session, parts, count, control, sys->world->now);
        if (status != CRT_ERR_BACKPRESSURE || flags & CRTI_SEND_TRY || !sys->is_in_fiber)
            break;
        sys->self->is_locked = false;
        status = sys_wait_for(has_room, &room, deadline_ns, true);
        sys->self->is_locked = true;
    } while (status == CRT_OK);
    if (status == CRT_ERR_BACKPRESSURE)
        peer->refused = room.size;
    if (status == CRT_OK && sequence_out)
        *sequence_out = peer->session.queued;
    if (status == CRT_OK && flags & CRTI_SEND_NOW)
        crti_session_flush(&peer->session, sys->world->now);
    sys_peer_touch(peer);
    return status;
}

/* ---------------------------------------------------------------- net.h: use */

void crti_net_flush(crti_net_t *net)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&net->sockets, &cursor, NULL, &value))
        crti_session_flush(&((crti_peer_t *)value)->session, sys->world->now);
    cursor = 0;
    while (crti_map_next(&net->accepted, &cursor, NULL, &value))
        crti_session_flush(&((crti_peer_t *)value)->session, sys->world->now);
}

void crti_net_hold(crti_net_t *net, crti_peer_t *peer, size_t size)
{
    crti_session_hold(&peer->session, size);
}

void crti_net_release(crti_net_t *net, crti_peer_t *peer, size_t size)
{
    if (peer->has_ended)
        return;
    crti_session_release(&peer->session, size, sys->world->now);
    sys_peer_touch(peer);
}

void crti_net_watch(crti_net_t *net, crti_peer_t *peer, int delta)
{
    if (peer->has_ended)
        return;
    crti_session_watch(&peer->session, delta, sys->world->now);
    sys_peer_touch(peer);
}

void crti_net_close(crti_net_t *net, crti_peer_t *peer)
{
    if (peer->has_ended)
        return;
    crti_session_close(&peer->session, sys->world->now);
    sys_peer_touch(peer);
}

void crti_net_abort(crti_net_t *net, crti_peer_t *peer, const char *detail)
{
    if (peer->has_ended)
        return;
    crti_session_fail(&peer->session, CRT_ERR_PROTOCOL, detail);
    sys_peer_touch(peer);
}

crt_status_t crti_net_wait(crti_net_t *net, bool (*done)(void *user), void *user,
                           uint64_t deadline_ns)
{
    crt_status_t status;

    if (done(user))
        return CRT_OK;
    crti_net_flush(net);
    sys->self->is_locked = false;
    status = sys_wait_for(done, user, deadline_ns, true);
    sys->self->is_locked = true;
    return status == CRT_ERR_TIMED_OUT ? crt_raise(status, "not yet") : status;
}

void crti_net_wake(crti_net_t *net)
{
}

crt_status_t crti_net_add_fd(crti_net_t *net, int fd, uint32_t events,
                             crti_net_fd_handler_t *on_ready, void *user)
{
    sys_fd_t *f = sys_fd_of(fd);

    if (!f)
        return crt_raise(CRT_ERR_IO, "descriptor %d is not open", fd);
    f->on_ready = on_ready;
    f->user = user;
    sys_fd_ready(fd, 1000);
    return CRT_OK;
}

crt_status_t crti_net_modify_fd(crti_net_t *net, int fd, uint32_t events)
{
    return CRT_OK;
}

void crti_net_remove_fd(crti_net_t *net, int fd)
{
    sys_fd_t *f = sys_fd_of(fd);

    if (f)
        f->on_ready = NULL;
}

/* Ends all sessions that match; ending one may end others. */
static void fail_all(crti_net_t *net, crti_id_t process, crti_id_t node,
                     crt_status_t status, const char *detail)
{
    crti_map_t *maps[] = {&net->sockets, &net->accepted};

    for (int i = 0; i < 2; i++) {
        size_t cursor = 0;
        void *value;

        while (crti_map_next(maps[i], &cursor, NULL, &value)) {
            crti_peer_t *peer = value;

            if (!(crti_id_is_zero(process)
                      ? crti_id_equal(peer->node, node)
                      : crti_id_equal(peer->session.config.peer, process)))
                continue;
            crti_session_fail(&peer->session, status, detail);
            cursor = 0;
        }
    }
}

void crti_net_peer_died(crti_net_t *net, crti_id_t process, uint64_t incarnation,
                        crt_status_t status, const char *detail)
{
    fail_all(net, process, (crti_id_t){0}, status, detail);
}

void crti_net_node_died(crti_net_t *net, crti_id_t node, crt_status_t status,
                        const char *detail)
{
    fail_all(net, (crti_id_t){0}, node, status, detail);
}

crti_peer_t *crti_peer_ref(crti_peer_t *peer)
{
    return peer;
}

void crti_peer_unref(crti_peer_t *peer)
{
}

crti_id_t crti_peer_process(const crti_peer_t *peer)
{
    return peer->session.config.peer;
}

uint64_t crti_peer_incarnation(const crti_peer_t *peer)
{
    return peer->session.config.peer_incarnation;
}

crti_id_t crti_peer_node(const crti_peer_t *peer)
{
    return peer->node;
}

bool crti_peer_is_lost(const crti_peer_t *peer)
{
    return peer->has_ended;
}

bool crti_peer_is_initiator(const crti_peer_t *peer)
{
    return peer->session.initiator;
}

uint64_t crti_peer_received(const crti_peer_t *peer)
{
    return peer->session.received;
}

uint64_t crti_peer_unacknowledged(const crti_peer_t *peer)
{
    return peer->session.queued - peer->session.acked;
}

void *crti_peer_user(const crti_peer_t *peer)
{
    return peer->user;
}

void crti_peer_set_user(crti_peer_t *peer, void *user)
{
    peer->user = user;
}

void crti_net_stats(crti_net_t *net, crti_net_stats_t *stats_out)
{
    *stats_out = (crti_net_stats_t){0};
}

void *crti_net_receiver(const crti_net_t *net, bool (*done)(void *user))
{
    return NULL;
}

void crti_net_busy(crti_net_t *net, bool begins)
{
}
