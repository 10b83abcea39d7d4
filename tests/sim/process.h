/* SPDX-License-Identifier: Apache-2.0 */
/* Process: sessions of one simulated process, over the simulated network. What runtime/net/net.c
 * and net_io.c do with sockets, with the same rules, in a few lines.
 *
 * Where it sits
 *     scenario -> [ process ] -> runtime/net/session.c -> frames -> network.c
 * Rules taken from net_io.c
 *     A session that this process began is known by its socket, one that it accepted by the
 *     nonce of its initiator; crti_session_judge says what becomes of a frame. What was
 *     gathered leaves within a millisecond or two.
 * Ownership
 *     A process owns its peers. A peer whose session ended is told to `on_lost` (as net does:
 *     only when somebody dialed it or it delivered something) and freed when the next event
 *     of its process begins.
 * Invariants checked here
 *     `ended` is called once; nothing is called after it; no peer of this process breaks the
 *     protocol; the window is never exceeded but by one record.
 */
#ifndef TESTS_SIM_PROCESS_H
#define TESTS_SIM_PROCESS_H

#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/net/session.h"
#include "tests/sim/network.h"

typedef struct sim_process sim_process_t;

typedef struct sim_peer {
    crti_session_t session;
    sim_process_t *process;
    unsigned place; /* of the other one */
    bool is_known, is_dialed, has_ended;
    uint64_t timer_at; /* when an event looks at the session's deadline; NEVER: none */
    bool will_flush;
    crti_list_t link;
    void *user; /* the scenario's */
} sim_peer_t;

#define SIM_PEER_OF(item) CRTI_CONTAINER(item, sim_peer_t, link)

typedef struct sim_process_ops {
    void (*on_record)(sim_process_t *process, sim_peer_t *peer, const void *data,
                      size_t size);
    /* After it the peer must not be used; session's members can be read. */
    void (*on_lost)(sim_process_t *process, sim_peer_t *peer, crt_status_t status);
    /* May be NULL: a session begins, before its first frame. */
    void (*on_peer)(sim_process_t *process, sim_peer_t *peer);
    /* May be NULL: a session ended, known or not, before on_lost. */
    void (*on_ended)(sim_process_t *process, sim_peer_t *peer, crt_status_t status);
} sim_process_ops_t;

struct sim_process {
    sim_world_t *world;
    sim_network_t *net;
    const sim_process_ops_t *ops;
    unsigned place, node;
    bool is_alive;
    crti_id_t id;
    uint64_t incarnation;
    uint64_t window;
    size_t record_max;
    crti_session_counts_t counts;
    crti_list_t peers, doomed;
    crti_map_t sockets;  /* nonce -> sim_peer_t that this process began */
    crti_map_t accepted; /* nonce -> sim_peer_t */
    void *user;          /* the scenario's */
};

/* Prepares a place; no process lives there yet. */
void sim_process_init(sim_process_t *p, sim_network_t *net, unsigned place,
                      const sim_process_ops_t *ops, void *user);
void sim_process_fini(sim_process_t *p);

void sim_process_start(sim_process_t *p, crti_id_t id, uint64_t incarnation);
/* Dies at once; nobody is told. */
void sim_process_kill(sim_process_t *p);

/* The session that this process has dialed to that process, begun when there is none. */
sim_peer_t *sim_process_dial(sim_process_t *p, unsigned place, crti_id_t id,
                             uint64_t incarnation);
/* Any living session with it, dialed or accepted, that can send; NULL: none. */
sim_peer_t *sim_process_find(const sim_process_t *p, crti_id_t id, uint64_t incarnation);

crt_status_t sim_peer_send(sim_peer_t *peer, const void *data, size_t size, bool control);
void sim_peer_release(sim_peer_t *peer, size_t size);
void sim_peer_watch(sim_peer_t *peer, int delta);
void sim_peer_close(sim_peer_t *peer);
void sim_peer_fail(sim_peer_t *peer, crt_status_t status, const char *detail);

/* All sessions with that process: its death was told. */
void sim_process_peer_died(sim_process_t *p, crti_id_t id);

/* For the network: a packet came to this place. */
void sim_process_receive(sim_process_t *p, const sim_packet_t *packet);

#endif
