/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of net share; private to them.
 *
 *     net.c       the interface
 *     net_peer.c  the life of a peer
 *     net_io.c    frames to sessions and back, time, the round through all ports
 *     net_lane.c  ports to processes of this node
 *     net_zmq.c   ports to processes of other nodes
 *
 * Ownership: net->peers holds one reference to each peer that has not ended. A port (one
 * descriptor that epoll watches) belongs to net (the listeners) or to its peer until it is
 * removed from epoll; then it closes itself.
 */
#ifndef CRTI_NET_NET_INT_H
#define CRTI_NET_NET_INT_H

#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/net/deadlines.h"
#include "runtime/net/lane.h"
#include "runtime/net/net.h"
#include "runtime/net/progress.h"
#include "runtime/net/session.h"
#include "runtime/net/zmq_link.h"

#define CRTI_NET_LINGER_MS   100 /* what is on its way at a clean end */
#define CRTI_NET_RECEIVE_MAX 64  /* frames of one port before the next one has its turn */

typedef struct crti_port crti_port_t;
typedef struct crti_doorbell crti_doorbell_t;

/* What carries frames. `route` says for which of its peers a shared port is used: NULL when it
 * has one only. */
typedef struct crti_transport {
    /* Those of crti_session_ops_t, for the messages that `send` takes. */
    bool (*make)(const struct iovec *parts, int count, size_t size, void *message);
    void (*drop)(void *message);
    bool (*send)(crti_port_t *port, const unsigned char *route, void *message);
    void (*send_bytes)(crti_port_t *port, const unsigned char *route, const void *data,
                       size_t size);
    /* Whether the peer waits for what is sent next. NULL: the transport does not know. */
    bool (*is_idle)(crti_port_t *port);
    /* Receives what is there; true: there was something. The port leaves net->active when its
     * descriptor tells of the next input. */
    bool (*drain)(crti_port_t *port);
    /* The process is going to sleep: false when input came that nothing tells of. */
    bool (*sleep)(crti_port_t *port);
    /* The word that changes when input comes; false when there is none. From now on the holder of
     * the token looks itself. */
    bool (*input_word)(crti_port_t *port, crti_progress_word_t *word_out);
    void (*close)(crti_port_t *port);
} crti_transport_t;

extern const crti_transport_t crti_net_zmq, crti_net_lane;

struct crti_port {
    crti_source_t source;
    const crti_transport_t *transport; /* NULL: a listener that receives no frames */
    crti_list_t link;                  /* net->ports, until it is removed */
    /* in net->active while input may be there that epoll won't tell */
    crti_list_t active;
    /* in net->expecting: an answer may come soon, but a thread slept */
    crti_list_t expecting;
    /* in net->unproven: an accepted lane without its first message */
    crti_list_t unproven;
    crti_net_t *net;
    crti_peer_t *peer; /* the one that it serves; NULL: none yet, or many */
    crti_socket_t *socket;
    crti_lane_t *lane;
    crti_doorbell_t *doorbell; /* of the lane */
    int fd;                    /* of a listener */
    int linger_ms;
    int idle_looks; /* how often a lane was found empty since it had something */
};

struct crti_peer {
    crti_net_t *net;
    int refs;       /* net's lock; no lock once the net is gone */
    bool is_known;  /* core has it: it will hear of the end */
    bool is_dialed; /* in net->dialed */
    /* bytes of the last record there was no room for; 0: none since on_room */
    size_t refused;
    crti_id_t node;
    crti_session_t session;
    const crti_transport_t *transport;
    crti_port_t *port; /* NULL: no way to it at the moment, or for ever */
    char *path;     /* of the socket that a lane is dialed to; NULL: accepted, or zmq */
    bool is_routed; /* in net->accepted */
    unsigned char route[CRTI_ZMQ_ROUTE];
    crti_deadline_t deadline;
    crti_list_t link;       /* net->peers */
    crti_list_t gathering;  /* net->gathering */
    crti_list_t in_failing; /* while a death notice is worked off */
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
    crti_key_t key; /* for libzmq, which starts when it is needed */
    bool has_key;
    crti_zmq_t *zmq;          /* NULL until then */
    crti_lane_end_t lane_end; /* ours */
    uint64_t lanes_accepted;
    int unproven_count;
    crti_port_t *router, *zap; /* when libzmq serves */
    int spare; /* a descriptor to refuse lanes with when there is none left */
    crti_list_t peers, ports, doorbells, active, expecting, gathering, watches;
    crti_list_t unproven; /* the oldest first */
    crti_map_t dialed;    /* crti_peer_key_t -> peer that this process initiated */
    crti_map_t accepted;  /* u64 nonce -> peer that came by the router */
    crti_deadlines_t deadlines;
    crti_session_counts_t counts;
    crti_net_stats_t stats;
    uint64_t now; /* of the last pump or send that looked */
    /* the net is being freed: until when lanes may empty outboxes */
    uint64_t linger_until;
    int in_handler; /* depth: handlers may end peers, which calls handlers */
};

extern const crti_progress_ops_t crti_net_progress_ops;
extern const crti_session_ops_t crti_net_session_ops;

/* ---------------------------------------------------------------- net_io.c */

/* Fills in what all ports have in common. */
void crti_port_add(crti_net_t *net, crti_port_t *port, int fd,
                   void (*on_ready)(crti_source_t *source, uint32_t events));

/* The same, and lets epoll watch it. */
crt_status_t crti_port_watch(crti_net_t *net, crti_port_t *port, int fd, uint32_t events,
                             void (*on_ready)(crti_source_t *source, uint32_t events));

/* No more input from it; it is closed a little later. NULL is fine. */
void crti_port_remove(crti_port_t *port, int linger_ms);

/* Input may be there. */
void crti_port_activate(crti_port_t *port);

/* One frame that came in by `port`: by the peer that it serves, or by that of `route`. */
typedef struct crti_received_frame {
    const unsigned char *route;
    crti_peer_t *peer; /* NULL: an unknown process */
    const void *data;
    size_t size;
    bool is_single; /* not one of several parts */
} crti_received_frame_t;
void crti_net_receive(crti_port_t *port, const crti_received_frame_t *arrival);

/* The session's deadline may have come nearer, or it has begun to gather. */
void crti_peer_touch(crti_peer_t *peer);

/* The time for events of this peer: read again only when it is going to be used. */
uint64_t crti_net_now(crti_net_t *net, const crti_peer_t *peer);

/* ---------------------------------------------------------------- net_lane.c */

/* Listens at `path`. */
crt_status_t crti_net_listen_local(crti_net_t *net, const char *path);

/* Connects to peer->path. A process that is not there (any more) is no failure: the session's
 * next HELLO tries again. */
crt_status_t crti_peer_dial_lane(crti_peer_t *peer);

/* It has shown the key, or is removed. */
void crti_port_prove(crti_port_t *port);

/* As if all of them had rung. */
void crti_net_check_doorbells(crti_net_t *net);

/* No descriptor is left: the connection that waits at `listen_fd` is taken with a spare one, and
 * closed. */
void crti_net_refuse(crti_net_t *net, int listen_fd);

/* At the end, after all ports. */
void crti_net_remove_doorbells(crti_net_t *net);

/* ---------------------------------------------------------------- net_peer.c */

/* Allocates a peer, fills the config of its session, and links it into the net. */
crt_status_t crti_peer_new(crti_net_t *net, crti_id_t process, uint64_t incarnation,
                           crti_id_t node, uint64_t nonce, crti_peer_t **peer_out,
                           crti_session_config_t *config_out);

/* Undoes crti_peer_new for a session that was never started. */
void crti_peer_forget(crti_peer_t *peer);
/* Nobody holds it. */
void crti_peer_free(crti_peer_t *peer);

/* crti_peer_ref and crti_peer_unref, in the path of each frame. */
static inline void crti_peer_hold(crti_peer_t *peer)
{
    peer->refs++;
}

static inline void crti_peer_release(crti_peer_t *peer)
{
    if (--peer->refs <= 0)
        crti_peer_free(peer);
}

/* Not 0. */
static inline uint64_t crti_net_random(void)
{
    uint64_t number;

    do
        number = crti_id_random().low;
    while (number == 0);
    return number;
}

/* ---------------------------------------------------------------- net_zmq.c */

/* Binds a tcp port of the config's range. libzmq starts with the first connection to it. */
crt_status_t crti_net_listen_tcp(crti_net_t *net, const crti_net_config_t *config);

crt_status_t crti_peer_dial_zmq(crti_peer_t *peer, const char *tcp);

/* Reads the range of ports of the system, once for a zygote and its workers. */
void crti_net_read_port_range(void);

#endif
