/* SPDX-License-Identifier: Apache-2.0 */
/* Network: carries packets between places, late, twice, in another order, or not at all.
 *
 * Where it sits
 *     process.c (sessions' frames) -> [ network ] -> receive of whoever is at the place then
 * Idea
 *     A place is an endpoint on a node. A process lives there; when it is killed, another one
 *     may follow at the same place, and gets what was still on its way, as a socket does that
 *     connects again. Between two nodes packets may be cut off for a while; between two places
 *     a silent reconnect loses what is under way.
 * Ownership
 *     Packets in flight are the network's. A blob is shared by reference count.
 */
#ifndef TESTS_SIM_NETWORK_H
#define TESTS_SIM_NETWORK_H

#include <sys/uio.h>

#include "tests/sim/world.h"

typedef struct sim_blob {
    unsigned refs;
    size_t size;
    unsigned char data[];
} sim_blob_t;

sim_blob_t *sim_blob_new(size_t size);
/* One with the bytes of `count` parts, `size` in all. */
sim_blob_t *sim_blob_of(const struct iovec *parts, int count, size_t size);
void sim_blob_unref(sim_blob_t *blob);

typedef struct sim_packet {
    unsigned from, to;
    bool to_listener; /* else to the socket that the initiator of `route` has */
    uint64_t route;   /* nonce of the initiator */
    sim_blob_t *blob;
    uint64_t epoch;
    bool is_used;
} sim_packet_t;

typedef void sim_receive_t(void *user, const sim_packet_t *packet);

/* How bad it is, of 10000. */
typedef struct sim_law {
    unsigned loss, duplicate, garble;
    bool is_ordered;        /* packets between two places don't pass each other */
    uint64_t delay, jitter; /* between nodes; a tenth of it within one */
} sim_law_t;

typedef struct sim_pair {
    uint64_t epoch;   /* counts silent reconnects */
    uint64_t arrival; /* of the last packet, when ordered */
    uint64_t cut_at;  /* when a packet was last lost to a cut */
} sim_pair_t;

typedef struct sim_network {
    sim_world_t *world;
    sim_law_t law;
    unsigned nodes, places;
    const unsigned *node_of; /* of a place; the caller's */
    uint64_t *cut_until;     /* nodes x nodes */
    sim_pair_t *pairs;       /* places x places */
    sim_packet_t *packets;
    size_t packet_count, *free_packets, free_count;
    sim_receive_t *receive;
    void *user;
    uint64_t sent, lost, duplicated, garbled;
} sim_network_t;

void sim_network_init(sim_network_t *net, sim_world_t *world, unsigned nodes,
                      unsigned places, const unsigned *node_of, sim_receive_t *receive,
                      void *user);
void sim_network_fini(sim_network_t *net);

/* False: it certainly does not leave; the packet is gone all the same. */
bool sim_network_send(sim_network_t *net, sim_packet_t packet);

/* Cuts two nodes off from each other for a time; one node from all others. */
void sim_network_cut(sim_network_t *net, unsigned a, unsigned b, uint64_t time);
void sim_network_isolate(sim_network_t *net, unsigned node, uint64_t time);
bool sim_network_is_cut(const sim_network_t *net, unsigned a, unsigned b);

/* What is under way between two places, both ways, is lost. */
void sim_network_reconnect(sim_network_t *net, unsigned a, unsigned b);

/* From now on nothing is lost, repeated, damaged or cut. */
void sim_network_heal(sim_network_t *net);

/* When a packet between the two was last lost to a cut, 0 never. */
uint64_t sim_network_cut_at(const sim_network_t *net, unsigned a, unsigned b);

#endif
