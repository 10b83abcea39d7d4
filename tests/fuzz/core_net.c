/* SPDX-License-Identifier: Apache-2.0 */
/* See core_net.h. What net.h asks of those who call it is checked here. */
#include "core_net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/clock.h"

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

/* ---------------------------------------------------------------- life */

void crti_net_prepare(void)
{
}

crt_status_t crti_net_new(const crti_net_config_t *config, crti_net_t **net_out)
{
    crti_net_t *net = calloc(1, sizeof(*net));

    check(net != NULL);
    net->config = *config;
    net->address = (crti_address_t){.process = config->process,
                                    .incarnation = config->incarnation,
                                    .node = config->node};
    *net_out = net;
    return CRT_OK;
}

void crti_net_free(crti_net_t *net)
{
    free(net);
}

const crti_address_t *crti_net_address(const crti_net_t *net)
{
    return &net->address;
}

void crti_net_lock(crti_net_t *net)
{
    check(!net->is_locked);
    net->is_locked = true;
}

void crti_net_unlock(crti_net_t *net)
{
    check(net->is_locked);
    net->is_locked = false;
}

/* ---------------------------------------------------------------- sessions */

static crti_peer_t *new_peer(crti_net_t *net, crti_id_t process, uint64_t incarnation,
                             crti_id_t node)
{
    crti_peer_t *peer;

    if (net->peer_count == CORE_PEERS)
        return NULL;
    peer = calloc(1, sizeof(*peer));
    check(peer != NULL);
    *peer = (crti_peer_t){.net = net,
                          .process = process,
                          .incarnation = incarnation,
                          .node = node,
                          .refs = 1};
    net->peers[net->peer_count++] = peer;
    net->existing++;
    return peer;
}

crti_peer_t *core_net_find(crti_net_t *net, crti_id_t process, bool is_initiator)
{
    for (unsigned i = 0; i < net->peer_count; i++) {
        crti_peer_t *peer = net->peers[i];

        if (!peer->is_closing && peer->is_initiator == is_initiator &&
            crti_id_equal(peer->process, process))
            return peer;
    }
    return NULL;
}

crti_peer_t *core_net_accept(crti_net_t *net, crti_id_t process, uint64_t incarnation,
                             crti_id_t node)
{
    return new_peer(net, process, incarnation, node);
}

crt_status_t crti_net_connect(crti_net_t *net, const crti_address_t *to,
                              crti_peer_t **peer_out)
{
    crti_peer_t *peer = core_net_find(net, to->process, true);

    check(net->is_locked);
    if (!peer || peer->incarnation != to->incarnation)
        peer = new_peer(net, to->process, to->incarnation, to->node);
    if (!peer)
        return crt_raise(CRT_ERR_UNREACHABLE, "there are enough");
    peer->is_initiator = true;
    *peer_out = crti_peer_ref(peer);
    return CRT_OK;
}

void core_net_record(crti_peer_t *peer, const void *data, size_t size)
{
    const crti_net_handlers_t *h = &peer->net->config.handlers;

    if (!peer->is_closing)
        h->on_record(h->user, peer, data, size);
}

void core_net_lose(crti_peer_t *peer, const crti_net_loss_t *loss)
{
    crti_net_t *net = peer->net;
    const crti_net_handlers_t *h = &net->config.handlers;
    unsigned i = 0;

    while (i < net->peer_count && net->peers[i] != peer)
        i++;
    check(i < net->peer_count);
    net->peers[i] = net->peers[--net->peer_count];
    peer->is_lost = peer->is_closing = true;
    h->on_peer_lost(h->user, peer, loss);
    crti_peer_unref(peer);
}

void core_net_end_closed(crti_net_t *net)
{
    crti_net_loss_t loss = {.status = CRT_OK, .detail = "it was closed"};

    for (unsigned i = 0; i < net->peer_count;) {
        if (net->peers[i]->is_closing) {
            core_net_lose(net->peers[i], &loss);
            i = 0;
        } else {
            i++;
        }
    }
}

void core_net_fill(crti_peer_t *peer)
{
    peer->is_full = true;
}

void core_net_make_room(crti_peer_t *peer)
{
    const crti_net_handlers_t *h = &peer->net->config.handlers;

    peer->is_full = false;
    peer->acked = peer->sent;
    if (!peer->was_refused || peer->is_closing)
        return;
    peer->was_refused = false;
    h->on_room(h->user, peer);
}

void crti_net_abort(crti_net_t *net, crti_peer_t *peer, const char *detail)
{
    crti_net_loss_t loss = {.status = CRT_ERR_PROTOCOL, .detail = detail};

    check(net->is_locked);
    if (peer->is_lost)
        return;
    net->aborted = peer->process;
    snprintf(net->why_aborted, sizeof(net->why_aborted), "%s", detail);
    core_net_lose(peer, &loss);
}

void crti_net_close(crti_net_t *net, crti_peer_t *peer)
{
    check(net->is_locked);
    peer->is_closing = true;
}

crt_status_t crti_net_send(crti_net_t *net, crti_peer_t *peer, const struct iovec *parts,
                           int count, unsigned flags, uint64_t deadline_ns,
                           uint64_t *sequence_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t record = {0};

    check(net->is_locked);
    if (peer->is_closing)
        return crt_raise(CRT_ERR_CLOSED, "the session is over");
    if (peer->is_full && flags & CRTI_SEND_TRY) {
        peer->was_refused = true;
        return crt_raise(CRT_ERR_BACKPRESSURE, "its window is full");
    }
    for (int i = 0; i < count; i++)
        check(crti_buffer_append(&record, parts[i].iov_base, parts[i].iov_len) == CRT_OK);
    check(record.size > 0);
    if (net->on_sent)
        net->on_sent(net->user, peer, record.data, record.size);
    peer->sent++;
    if (sequence_out)
        *sequence_out = peer->sent;
    return CRT_OK;
}

void crti_net_flush(crti_net_t *net)
{
    check(net->is_locked);
}

void crti_net_hold(crti_net_t *net, crti_peer_t *peer, size_t size)
{
    peer->held += size;
}

void crti_net_release(crti_net_t *net, crti_peer_t *peer, size_t size)
{
    check(peer->held >= size);
    peer->held -= size;
}

void crti_net_watch(crti_net_t *net, crti_peer_t *peer, int delta)
{
    peer->watched += delta;
    check(peer->watched >= 0);
}

/* ---------------------------------------------------------------- progress */

/* Nothing comes while somebody waits. Whoever waits without end is told that the runtime ends. */
crt_status_t crti_net_wait(crti_net_t *net, bool (*done)(void *user), void *user,
                           uint64_t deadline_ns)
{
    check(net->is_locked);
    if (net->on_wait)
        net->on_wait(net);
    if (done(user))
        return CRT_OK;
    if (deadline_ns == CRTI_NET_NO_DEADLINE)
        return crt_raise(CRT_ERR_CLOSED, "the runtime shuts down");
    return crt_raise(CRT_ERR_TIMED_OUT, "nothing came");
}

void *crti_net_receiver(const crti_net_t *net, bool (*done)(void *user))
{
    return NULL;
}

void crti_net_busy(crti_net_t *net, bool begins)
{
    check(net->is_locked);
}

void crti_net_wake(crti_net_t *net)
{
}

crt_status_t crti_net_add_fd(crti_net_t *net, int fd, uint32_t events,
                             crti_net_fd_handler_t *on_ready, void *user)
{
    return CRT_OK;
}

crt_status_t crti_net_modify_fd(crti_net_t *net, int fd, uint32_t events)
{
    return CRT_OK;
}

void crti_net_remove_fd(crti_net_t *net, int fd)
{
}

/* ---------------------------------------------------------------- deaths */

static void lose_all(crti_net_t *net, const crti_id_t *process, uint64_t incarnation,
                     const crti_id_t *node, crt_status_t status, const char *detail)
{
    crti_net_loss_t loss = {.status = status, .detail = detail};

    check(net->is_locked);
    for (unsigned i = 0; i < net->peer_count;) {
        crti_peer_t *peer = net->peers[i];

        if (process ? crti_id_equal(peer->process, *process) &&
                          peer->incarnation == incarnation
                    : crti_id_equal(peer->node, *node)) {
            core_net_lose(peer, &loss);
            i = 0;
        } else {
            i++;
        }
    }
}

void crti_net_peer_died(crti_net_t *net, crti_id_t process, uint64_t incarnation,
                        crt_status_t status, const char *detail)
{
    lose_all(net, &process, incarnation, NULL, status, detail);
}

void crti_net_node_died(crti_net_t *net, crti_id_t node, crt_status_t status,
                        const char *detail)
{
    lose_all(net, NULL, 0, &node, status, detail);
}

/* ---------------------------------------------------------------- a peer */

crti_peer_t *crti_peer_ref(crti_peer_t *peer)
{
    peer->refs++;
    return peer;
}

void crti_peer_unref(crti_peer_t *peer)
{
    if (!peer)
        return;
    check(peer->refs > 0);
    if (--peer->refs)
        return;
    check(peer->is_lost && peer->held == 0);
    peer->net->existing--;
    free(peer);
}

crti_id_t crti_peer_process(const crti_peer_t *peer)
{
    return peer->process;
}

uint64_t crti_peer_incarnation(const crti_peer_t *peer)
{
    return peer->incarnation;
}

crti_id_t crti_peer_node(const crti_peer_t *peer)
{
    return peer->node;
}

bool crti_peer_is_lost(const crti_peer_t *peer)
{
    return peer->is_lost;
}

bool crti_peer_is_initiator(const crti_peer_t *peer)
{
    return peer->is_initiator;
}

uint64_t crti_peer_received(const crti_peer_t *peer)
{
    (void)peer;
    return 1;
}

uint64_t crti_peer_unacknowledged(const crti_peer_t *peer)
{
    return peer->sent - peer->acked;
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
