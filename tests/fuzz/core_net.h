/* SPDX-License-Identifier: Apache-2.0 */
/* A net (runtime/net/net.h) without sockets and threads, for fuzz_core.c: the target says what the
 * peers send, when they are lost, and is told what was sent to them. */
#ifndef CRTI_TESTS_FUZZ_CORE_NET_H
#define CRTI_TESTS_FUZZ_CORE_NET_H

#include "runtime/base/buffer.h"
#include "runtime/net/net.h"

#define CORE_PEERS 64

struct crti_peer {
    crti_net_t *net;
    crti_id_t process, node;
    uint64_t incarnation;
    bool is_initiator, is_closing, is_lost;
    bool is_full, was_refused; /* its window; something since it is */
    void *user;
    unsigned refs; /* of the library, and one of the net until it is lost */
    uint64_t sent, acked;
    size_t held;
    int64_t watched;
};

struct crti_net {
    crti_net_config_t config;
    crti_address_t address;
    bool is_locked;
    crti_peer_t *peers[CORE_PEERS]; /* not lost */
    unsigned peer_count;
    crti_id_t aborted; /* the process of the last session that the library ended, and */
    char why_aborted[480];
    size_t existing; /* with those that are lost and still referred to */
    /* What the library says must be understood by others; `user` may be NULL. */
    void (*on_sent)(void *user, crti_peer_t *to, const void *data, size_t size);
    void *user;
    /* What happens while the library waits, lock held; NULL: nothing. */
    void (*on_wait)(crti_net_t *net);
};

/* A process connects to us. NULL: there are too many. */
crti_peer_t *core_net_accept(crti_net_t *net, crti_id_t process, uint64_t incarnation,
                             crti_id_t node);
/* The session with that process, in that direction; NULL: there is none. */
crti_peer_t *core_net_find(crti_net_t *net, crti_id_t process, bool is_initiator);
void core_net_record(crti_peer_t *peer, const void *data, size_t size);
/* It has taken nothing for a while; or everything, lock held. */
void core_net_fill(crti_peer_t *peer);
void core_net_make_room(crti_peer_t *peer);
/* It is over: the library hears it, and lets go. Lock held. */
void core_net_lose(crti_peer_t *peer, const crti_net_loss_t *loss);
/* Those that were closed are. */
void core_net_end_closed(crti_net_t *net);

#endif
