/* SPDX-License-Identifier: Apache-2.0 */
/* Offload thread: the thread that keeps offloaded descriptors, and how it and the loop talk.
 *
 * Where it sits
 *     node/host/offload.c <- socket pair (SOCK_SEQPACKET) -> [ node/host/offload_thread.c ]
 * Threads
 *     Its own. It touches nothing but its stack, its heap and its table of files.
 * Failure
 *     A descriptor that finds no place in the table is told as LOST.
 */
#ifndef CRTI_NODE_OFFLOAD_THREAD_H
#define CRTI_NODE_OFFLOAD_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CRTI_OFFLOAD_THREAD_BLOCK ((size_t)32 << 10)

/* Loop to thread; ADD carries descriptors, in the order of the bits of `places`. */
typedef struct crti_offload_thread_order {
    uint64_t number;
    enum {
        CRTI_OFFLOAD_THREAD_ADD,
        CRTI_OFFLOAD_THREAD_KILL,
        CRTI_OFFLOAD_THREAD_CLOSE
    } kind;
    uint32_t places;
} crti_offload_thread_order_t;

/* Lot to loop. */
typedef struct crti_offload_thread_message {
    uint64_t number;
    enum {
        CRTI_OFFLOAD_THREAD_BYTES,
        CRTI_OFFLOAD_THREAD_ENDED,
        CRTI_OFFLOAD_THREAD_LOST,
        CRTI_OFFLOAD_THREAD_CLOSED
    } kind;
    uint32_t which; /* pipe */
    char data[CRTI_OFFLOAD_THREAD_BLOCK];
} crti_offload_thread_message_t;

#define CRTI_OFFLOAD_THREAD_HEADER offsetof(crti_offload_thread_message_t, data)

/* False with errno. */
bool crti_offload_thread_send(int fd, const crti_offload_thread_order_t *order,
                              const int *fds, unsigned count, int flags);

/* Takes a table of its own, says one byte 1 (else 0, and ends), and serves the socket that it is
 * given until the other end is closed. */
void *crti_offload_thread_main(void *fd);

#endif
