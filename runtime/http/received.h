/* SPDX-License-Identifier: Apache-2.0 */
/* How much libwebsockets has read of a connection: by this a request that it read together with the
 * one before is told from one that came later. It keeps such bytes to itself, and of those it takes
 * the wrong ones for a request's body (in all versions from 4.1 to 4.5).
 *
 * Where it sits
 *     http/server.c, http/exchange.c -> [ http/received.c ] -> the kernel
 * Threads: any. Nothing is owned.
 */
#ifndef CRTI_HTTP_RECEIVED_H
#define CRTI_HTTP_RECEIVED_H

#include <stdint.h>

/* Shorter than every request: the kernel counts a connection's end as a byte. */
#define CRTI_RECEIVED_LEAST 14

/* Bytes that came by TCP since it was opened and were read. 0: not known, of a socket file for
 * instance. */
uint64_t crti_received(int fd);

#endif
