/* SPDX-License-Identifier: Apache-2.0 */
/* The side of call_path that calls through net. The server works as a worker does: the handler
 * queues a copy of the record, the main thread takes it after the wait and sends the answer. */
#ifndef CRTI_TESTS_BENCH_CALL_PATH_NET_H
#define CRTI_TESTS_BENCH_CALL_PATH_NET_H

#include "runtime/net/net.h"

/* `tcp`: over ZeroMQ with CURVE, as between nodes; else by a lane. Serves for ever, and writes its
 * address to `ready` first. */
void net_serve(const char *dir, bool tcp, int ready);

void net_dial(const char *dir, const crti_address_t *server);
void net_hang_up(void);

/* As echo_calls and echo_batches. */
void net_calls(int count);
void net_batches(int count);

/* Nobody calls: outside of net's waits the lock is free, as in a user's program. */
void net_pause_ms(int ms);

#endif
