/* SPDX-License-Identifier: Apache-2.0 */
/* Net, peers: their life, and what they are.
 *
 * Where it sits
 *     net.c, net_io.c, net_lane.c -> [ net_peer.c ] -> session
 * Threads
 *     Everything under net's lock.
 */
#include <stdlib.h>

#include "runtime/net/net_int.h"

static void configure_session(crti_net_t *net, crti_id_t process, uint64_t incarnation,
                              uint64_t nonce, crti_peer_t *peer,
                              crti_session_config_t *config_out)
{
    *config_out = (crti_session_config_t){
        .ops = &crti_net_session_ops,
        .user = peer,
        .counts = &net->counts,
        .self = net->config.process,
        .self_node = net->config.node,
        .self_incarnation = net->config.incarnation,
        .peer = process,
        .peer_incarnation = incarnation,
        .nonce = nonce,
        .window = net->config.window_bytes,
        .record_max = net->config.record_bytes,
    };
}

crt_status_t crti_peer_new(crti_net_t *net, crti_id_t process, uint64_t incarnation,
                           crti_id_t node, uint64_t nonce, crti_peer_t **peer_out,
                           crti_session_config_t *config_out)
{
    crti_peer_t *peer = calloc(1, sizeof(*peer));

    if (!peer)
        return crt_raise(CRT_ERR_NO_MEMORY, "net: a peer");
    peer->net = net;
    peer->refs = 1;
    peer->node = node;
    crti_list_append(&net->peers, &peer->link);
    crti_list_init(&peer->gathering);
    crti_list_init(&peer->in_failing);
    configure_session(net, process, incarnation, nonce, peer, config_out);
    *peer_out = peer;
    return CRT_OK;
}

void crti_peer_forget(crti_peer_t *peer)
{
    crti_list_remove(&peer->link);
    free(peer->path);
    free(peer);
}

crti_peer_t *crti_peer_ref(crti_peer_t *peer)
{
    peer->refs++;
    return peer;
}

void crti_peer_free(crti_peer_t *peer)
{
    crti_session_fini(&peer->session);
    free(peer->path);
    free(peer);
}

void crti_peer_unref(crti_peer_t *peer)
{
    if (peer)
        crti_peer_release(peer);
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
    return crti_session_has_ended(&peer->session);
}

uint64_t crti_peer_unacknowledged(const crti_peer_t *peer)
{
    return peer->session.queued - peer->session.acked;
}

uint64_t crti_peer_received(const crti_peer_t *peer)
{
    return peer->session.received;
}

bool crti_peer_is_initiator(const crti_peer_t *peer)
{
    return peer->session.initiator;
}

void *crti_peer_user(const crti_peer_t *peer)
{
    return peer->user;
}

void crti_peer_set_user(crti_peer_t *peer, void *user)
{
    peer->user = user;
}
