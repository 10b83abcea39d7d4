/* SPDX-License-Identifier: Apache-2.0 */
/* A session on the bench: what its tests put in, and everything that came out of it.
 * Included by one test program each, so its functions are static. */
#ifndef CRTI_TESTS_SESSION_RIG_H
#define CRTI_TESTS_SESSION_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/net/protocol.h"
#include "runtime/net/session.h"

#include <cmocka.h>

#define OUT_MAX 200
#define WINDOW  1000
#define ID      5
#define NONCE   11

/* A session, and everything that came out of it. */
typedef struct rig {
    crti_session_t s;
    crti_session_counts_t counts;
    struct {
        crti_frame_t frame;
        unsigned char *bytes;
    } out[OUT_MAX];
    int out_count, out_read;
    char delivered[4096];
    size_t delivered_size;
    int deliveries, ends;
    size_t hold; /* of each record */
    crt_status_t end_status;
    bool no_route;
    bool peer_is_idle;
    uint64_t now;
} rig_t;

/* ---------------------------------------------------------------- what comes out */

static inline void record_out(rig_t *r, const void *data, size_t size)
{
    assert_true(r->out_count < OUT_MAX);
    r->out[r->out_count].bytes = malloc(size);
    memcpy(r->out[r->out_count].bytes, data, size);
    assert_int_equal(
        crti_frame_decode(r->out[r->out_count].bytes, size, &r->out[r->out_count].frame),
        CRT_OK);
    r->out_count++;
}

static inline bool make(void *user, const struct iovec *parts, int count, size_t size,
                        void *message)
{
    unsigned char *bytes = malloc(size + sizeof(size));
    size_t at = sizeof(size);

    memcpy(bytes, &size, sizeof(size));
    for (int i = 0; i < count; at += parts[i++].iov_len)
        memcpy(bytes + at, parts[i].iov_base, parts[i].iov_len);
    assert_int_equal(at, size + sizeof(size));
    memcpy(message, &bytes, sizeof(bytes));
    return true;
}

static inline bool transmit(void *user, void *message)
{
    rig_t *r = user;
    unsigned char *bytes;
    size_t size;

    memcpy(&bytes, message, sizeof(bytes));
    memcpy(&size, bytes, sizeof(size));
    if (!r->no_route)
        record_out(r, bytes + sizeof(size), size);
    return !r->no_route;
}

static inline void drop(void *user, void *message)
{
    unsigned char *bytes;

    memcpy(&bytes, message, sizeof(bytes));
    free(bytes);
}

static inline void transmit_small(void *user, const void *data, size_t size)
{
    record_out(user, data, size);
}

static inline bool peer_is_idle(void *user)
{
    return ((rig_t *)user)->peer_is_idle;
}

static inline void deliver(void *user, const void *data, size_t size)
{
    rig_t *r = user;

    assert_true(r->delivered_size + size < sizeof(r->delivered));
    memcpy(r->delivered + r->delivered_size, data, size);
    r->delivered_size += size;
    r->deliveries++;
    if (r->hold)
        crti_session_hold(&r->s, size);
}

static inline void ended(void *user, crt_status_t status, const char *detail)
{
    rig_t *r = user;

    r->ends++;
    r->end_status = status;
}

static const crti_session_ops_t ops = {.make = make,
                                       .transmit = transmit,
                                       .drop = drop,
                                       .transmit_small = transmit_small,
                                       .peer_is_idle = peer_is_idle,
                                       .deliver = deliver,
                                       .ended = ended};

/* ---------------------------------------------------------------- what goes in */

static inline crti_session_config_t config_of(rig_t *r, uint64_t id)
{
    return (crti_session_config_t){.ops = &ops,
                                   .user = r,
                                   .counts = &r->counts,
                                   .self = {1, 1},
                                   .peer = {2, 2},
                                   .self_incarnation = 1,
                                   .peer_incarnation = 3,
                                   .nonce = NONCE,
                                   .id = id,
                                   .window = WINDOW,
                                   .record_max = 20000};
}

static inline void start(rig_t *r)
{
    crti_session_config_t config = config_of(r, 0);

    *r = (rig_t){.now = CRTI_S};
    crti_session_start(&r->s, &config, r->now);
}

static inline void accept(rig_t *r)
{
    crti_session_config_t config = config_of(r, ID);
    crti_frame_t hello = {.type = CRTI_FRAME_HELLO, .session = NONCE};

    *r = (rig_t){.now = CRTI_S};
    hello.greeting.window = WINDOW;
    crti_session_accept(&r->s, &config, &hello, r->now);
}

static inline void finish(rig_t *r)
{
    crti_session_fini(&r->s);
    for (int i = 0; i < r->out_count; i++)
        free(r->out[i].bytes);
}

static inline crt_status_t give(rig_t *r, crti_frame_t frame)
{
    return crti_session_receive(&r->s, &frame, r->now);
}

static inline crti_frame_t welcome(uint64_t id)
{
    crti_frame_t frame = {.type = CRTI_FRAME_WELCOME, .session = NONCE};

    frame.greeting = (crti_greeting_t){.protocol = CRTI_PROTOCOL_VERSION,
                                       .window = WINDOW,
                                       .from = {2, 2},
                                       .from_incarnation = 3,
                                       .session = id};
    return frame;
}

static inline crti_frame_t plain(crti_frame_type_t type, uint64_t ack)
{
    return (crti_frame_t){.type = type, .session = ID, .ack = ack};
}

static inline void open_initiator(rig_t *r)
{
    start(r);
    give(r, welcome(ID));
    r->out_read = r->out_count;
}

static inline void open_acceptor(rig_t *r)
{
    accept(r);
    give(r, plain(CRTI_FRAME_ACK, 0));
    r->out_read = r->out_count;
}

/* One DATA frame with records of one letter each, numbered from `first`. */
static inline crt_status_t give_data(rig_t *r, uint64_t first, const char *letters)
{
    unsigned char body[500];
    crti_frame_t frame = {.type = CRTI_FRAME_DATA,
                          .session = ID,
                          .first = first,
                          .count = (uint32_t)strlen(letters)};

    for (uint32_t i = 0; i < frame.count; i++) {
        crti_frame_encode_size(1, false, body + 5 * i);
        body[5 * i + 4] = (unsigned char)letters[i];
    }
    frame.body = crti_span(body, 5 * (size_t)frame.count);
    return give(r, frame);
}

static inline crt_status_t send_text(rig_t *r, const char *text)
{
    struct iovec part = {(void *)(uintptr_t)text, strlen(text)};

    return crti_session_send(&r->s, &part, 1, false, r->now);
}

static inline crt_status_t send_size(rig_t *r, size_t size, bool control)
{
    static char bytes[30000];
    struct iovec part = {bytes, size};

    return crti_session_send(&r->s, &part, 1, control, r->now);
}

/* The next frame that came out; it must be of that type. */
static const crti_frame_t *expect(rig_t *r, crti_frame_type_t type)
{
    assert_true(r->out_read < r->out_count);
    assert_string_equal(crti_frame_name(r->out[r->out_read].frame.type),
                        crti_frame_name(type));
    return &r->out[r->out_read++].frame;
}

static inline void expect_nothing(const rig_t *r)
{
    assert_int_equal(r->out_read, r->out_count);
}

/* Time passes, and the timers that come due run. */
static inline void pass(rig_t *r, uint64_t ns)
{
    uint64_t until = r->now + ns;

    while (crti_session_deadline(&r->s) <= until) {
        r->now =
            crti_session_deadline(&r->s) > r->now ? crti_session_deadline(&r->s) : r->now;
        crti_session_tick(&r->s, r->now);
    }
    r->now = until;
}

static inline void expect_end(const rig_t *r, crti_session_state_t state,
                              crt_status_t status)
{
    assert_string_equal(crti_session_state_name(r->s.state),
                        crti_session_state_name(state));
    assert_int_equal(r->ends, 1);
    assert_int_equal(r->end_status, status);
    assert_int_equal(crti_session_deadline(&r->s), CRTI_SESSION_NEVER);
}

#endif
