/* SPDX-License-Identifier: Apache-2.0 */
/* What net.c (the interface) and net_io.c (sockets and frames) share; nobody else includes it.
 *
 * Ownership: net->peers holds one reference to each peer that has not ended. A port (one
 * socket that epoll watches) belongs to net (the listeners) or to its peer (a DEALER) until it
 * is removed from epoll; then it closes itself.
 */
#ifndef CRTI_NET_NET_INT_H
#define CRTI_NET_NET_INT_H

#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/net/deadlines.h"
#include "runtime/net/net.h"
#include "runtime/net/progress.h"
#include "runtime/net/session.h"
#include "runtime/net/zmq_link.h"

#define CRTI_NET_LINGER_MS 100 /* what is on its way at a clean end */

typedef struct crti_port {
    crti_source_t source;
    crti_list_t
        dirty; /* in net->dirty while its socket may have input that was not read */
    crti_net_t *net;
    crti_peer_t *peer; /* whose DEALER this is; NULL on listeners and ZAP */
    crti_socket_t *socket;
    bool is_zap;
    int linger_ms;
} crti_port_t;

struct crti_peer {
    crti_net_t *net;
    int refs;       /* net's lock; no lock once the net is gone */
    bool is_known;  /* core has it: it will hear of the end */
    bool is_dialed; /* in net->dialed */
    crti_id_t node;
    crti_session_t session;
    crti_port_t *port; /* DEALER, or the listener it came by; NULL after the end */
    unsigned char route[CRTI_ZMQ_ROUTE];
    crti_deadline_t deadline;
    crti_list_t link;      /* net->peers */
    crti_list_t gathering; /* net->gathering */
    crti_list_t doomed;    /* while a death notice is worked off */
    void *user;
};

/* Key of net->dialed. */
typedef struct crti_peer_key {
    crti_id_t process;
    uint64_t incarnation;
} crti_peer_key_t;

struct crti_net {
    crti_progress_t progress;
    crti_net_config_t config; /* texts and key are not kept */
    crti_address_t address;
    pid_t pid;
    crti_zmq_t *zmq;
    crti_port_t *ipc, *tcp, *zap;
    crti_list_t peers, dirty, gathering, watches;
    crti_map_t dialed;   /* crti_peer_key_t -> peer that this process initiated */
    crti_map_t accepted; /* u64 nonce -> peer */
    crti_deadlines_t deadlines;
    crti_session_counts_t counts;
    crti_net_stats_t stats;
    uint64_t now;   /* of the last pump or send that looked */
    int in_handler; /* depth: handlers may end peers, which calls handlers */
};

extern const crti_progress_ops_t crti_net_progress_ops;
extern const crti_session_ops_t crti_net_session_ops;

crt_status_t crti_port_new(crti_net_t *net, crti_socket_t **socket_take,
                           crti_peer_t *peer, crti_port_t **port_out);

/* No more input from it; the socket is closed a little later. */
void crti_port_remove(crti_port_t *port, int linger_ms);

/* Allocates a peer, fills the config of its session, and links it into the net. */
crt_status_t crti_peer_new(crti_net_t *net, crti_id_t process, uint64_t incarnation,
                           crti_id_t node, uint64_t nonce, crti_peer_t **peer_out,
                           crti_session_config_t *config_out);

/* Undoes crti_peer_new for a session that was never started. */
void crti_peer_forget(crti_peer_t *peer);

/* The session's deadline may have come nearer, or it has begun to gather. */
void crti_peer_touch(crti_peer_t *peer);

/* The time for events of this peer: read anew only when it is going to be used. */
uint64_t crti_net_now(crti_net_t *net, const crti_peer_t *peer);

#endif
