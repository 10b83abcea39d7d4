/* SPDX-License-Identifier: Apache-2.0 */
/* The first messages of a lane (net/lane.c), made a second time: what tests send in the place of a
 * process that has the key, or pretends to. */
#ifndef CRT_TESTS_NET_LANE_SETUP_H
#define CRT_TESTS_NET_LANE_SETUP_H

#include <stdint.h>
#include <string.h>

#include <sodium.h>

#include "runtime/net/lane.h"
#include "runtime/net/lane_ring.h"

#define LANE_MEMORY (4096 + 2 * (size_t)CRTI_RING_BYTES)

typedef struct lane_setup {
    uint64_t magic, size;
    unsigned char random[16], proof[16];
} lane_setup_t;

/* `side` is 'd' for who dials, 'a' for who accepts. */
static inline lane_setup_t lane_setup(const crti_lane_end_t *end, char side,
                                      const unsigned char random[16])
{
    lane_setup_t setup = {.magic = CRTI_LANE_MAGIC, .size = LANE_MEMORY};
    unsigned char bytes[1 + 16 + 128];
    size_t length = strlen(end->path);

    bytes[0] = (unsigned char)side;
    memcpy(bytes + 1, random, 16);
    memcpy(bytes + 17, end->path, length);
    memcpy(setup.random, random, 16);
    crypto_generichash(setup.proof, sizeof(setup.proof), bytes, 17 + length, end->key,
                       sizeof(end->key));
    return setup;
}

#endif
