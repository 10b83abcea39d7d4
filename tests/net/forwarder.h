/* SPDX-License-Identifier: Apache-2.0 */
/* Forwarder: a bad network between two real processes. It listens on a port of its own, carries the
 * bytes of each connection to another port, and, by a seed: holds them back for some milliseconds,
 * cuts connections in the middle of a message, and lets what the cut held back arrive when the next
 * connection is there already. Where it carries to can be changed: then another process has the
 * endpoint.
 *
 * Threads
 *     One of its own; the functions below are for one other.
 */
#ifndef CRTI_TESTS_NET_FORWARDER_H
#define CRTI_TESTS_NET_FORWARDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/net/net.h"

typedef struct forwarder forwarder_t;

typedef struct forwarder_faults {
    uint64_t seed;
    /* so many go between two cuts, on average; 0: no cuts but those asked for */
    size_t cut_bytes;
    unsigned delay_ms; /* most that bytes are held back */
    /* what a cut held back arrives later, by the connection that the server still has */
    bool late;
} forwarder_faults_t;

/* `address_out`: that of `to` by way of the forwarder. */
forwarder_t *forwarder_start(const crti_address_t *to, const forwarder_faults_t *faults,
                             crti_address_t *address_out);

/* Connections from now on go there. Those that are open stay. */
void forwarder_aim(forwarder_t *forwarder, const crti_address_t *to);

/* Cuts what is open, and is done with it when it returns. */
void forwarder_cut(forwarder_t *forwarder);

/* Cuts so far. */
unsigned forwarder_cuts(forwarder_t *forwarder);

void forwarder_stop(forwarder_t *forwarder);

#endif
