/* SPDX-License-Identifier: Apache-2.0 */
/* A lot: the thread that keeps parked descriptors, and how it and the loop talk.
 *
 * Where it sits
 *     node/park.c <- socket pair (SOCK_SEQPACKET) -> [ node/park_lot.c ]
 * Threads
 *     The lot's own. It touches nothing but its stack, its heap and its table of files.
 * Failure
 *     A descriptor that finds no place in the table is told as LOST.
 */
#ifndef CRTI_NODE_PARK_LOT_H
#define CRTI_NODE_PARK_LOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CRTI_LOT_BLOCK ((size_t)32 << 10)

/* Loop to lot; ADD carries descriptors, in the order of the bits of `places`. */
typedef struct crti_lot_order {
    uint64_t number;
    enum { CRTI_LOT_ADD, CRTI_LOT_KILL, CRTI_LOT_CLOSE } kind;
    uint32_t places;
} crti_lot_order_t;

/* Lot to loop. */
typedef struct crti_lot_message {
    uint64_t number;
    enum { CRTI_LOT_BYTES, CRTI_LOT_ENDED, CRTI_LOT_LOST, CRTI_LOT_CLOSED } kind;
    uint32_t which; /* pipe */
    char data[CRTI_LOT_BLOCK];
} crti_lot_message_t;

#define CRTI_LOT_HEADER offsetof(crti_lot_message_t, data)

/* False with errno. */
bool crti_lot_send(int fd, const crti_lot_order_t *order, const int *fds, unsigned count,
                   int flags);

/* Takes a table of its own, says one byte 1 (else 0, and ends), and serves the socket that it is
 * given until the other end is closed. */
void *crti_lot_main(void *fd);

#endif
