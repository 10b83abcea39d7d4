/* SPDX-License-Identifier: Apache-2.0 */
/* The bare ZeroMQ echo that calls are measured beside: a ROUTER that sends every message back, and
 * a DEALER. No high-water mark, nothing of crt. */
#ifndef CRTI_TESTS_BENCH_BARE_ECHO_H
#define CRTI_TESTS_BENCH_BARE_ECHO_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <zmq.h>

#define ECHO_BATCH  1000 /* in flight at one time when pipelined */
#define ECHO_RECORD 8

#define ECHO_CHECK(x)                                                                    \
    do {                                                                                 \
        if (!(x)) {                                                                      \
            fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #x,            \
                    zmq_strerror(errno));                                                \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

/* Where an echo server is, as it is told to the client. */
typedef struct echo_place {
    char endpoint[128];
    char key[41]; /* of the server; empty: without CURVE */
} echo_place_t;

/* Binds (an ipc path or a tcp address with port `*`) and tells where. */
void *echo_bind(void *context, const char *endpoint, bool curve, echo_place_t *place_out);

/* Serves for ever. */
void echo_serve(void *router);

void *echo_dial(void *context, const echo_place_t *place);

/* One message after the other. */
void echo_calls(void *dealer, int count);

/* ECHO_BATCH messages are sent, then as many received; `count` in all. */
void echo_batches(void *dealer, int count);

#endif
