/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of streams share: a listener, and a stream to it whose two ends count what
 * happens. */
#ifndef CRTI_TESTS_NET_STREAM_TEST_H
#define CRTI_TESTS_NET_STREAM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/clock.h"
#include "runtime/net/stream.h"

#define PATIENCE (20 * CRTI_S)

/* That of the world's streams, and another. */
extern const crti_key_t world_key, world_other_key;

/* One end of a stream, and what happened at it. */
typedef struct end {
    crti_stream_t *stream;
    int opened, messages, payloads, drained, closed;
    crt_status_t status;
    char text[512];
    uint64_t last_request;
    bool in_order;
    size_t last_size;
    unsigned char *buffer; /* for the next payload, NULL: none */
    bool free_in_message, free_in_payload, free_in_closed, discard, hold, take_group_data;
} end_t;

typedef struct world {
    crti_loop_t *loop;
    crti_stream_context_t *context;
    crti_stream_listener_t *listener;
    char address[CRTI_STREAM_ADDRESS];
    end_t server, client;
} world_t;

/* A listener in a loop of its own, and nobody connected. */
void world_start(world_t *w, bool encrypt);
void world_stop(world_t *w);
/* What the listener does with who comes: it is the server's end. `user` is the world. */
void world_accept(void *user, crti_stream_t *stream);
/* Listens at another port. */
void world_listen(world_t *w);
void world_connect(world_t *w, crti_stream_context_t *context, uint64_t timeout_ms);
/* Connects, and waits until both ends are open. */
void world_join(world_t *w);
crti_stream_handlers_t end_handlers(end_t *end);

#define UNTIL(w, condition)                                                              \
    do {                                                                                 \
        uint64_t until_deadline = crti_now_ns() + PATIENCE;                              \
        while (!(condition) && crti_now_ns() < until_deadline)                           \
            assert_int_equal(crti_loop_turn((w)->loop, until_deadline), CRT_OK);         \
        assert_true(condition);                                                          \
    } while (0)

#endif
