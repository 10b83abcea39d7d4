/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the frames of sessions (net/frame.c), and a session that is given them. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/net/session.h"

static bool make(void *user, const struct iovec *parts, int count, size_t size,
                 void *message)
{
    return true;
}

static bool transmit(void *user, void *message)
{
    return true;
}

static void drop(void *user, void *message)
{
}

static void transmit_small(void *user, const void *data, size_t size)
{
    if (size > CRTI_FRAME_SMALL)
        abort();
}

/* Reads all bytes, so that AddressSanitizer sees a record that lies outside of its frame. */
static void deliver(void *user, const void *data, size_t size)
{
    unsigned char *sum = user;

    for (size_t i = 0; i < size; i++)
        *sum ^= ((const unsigned char *)data)[i];
}

static void ended(void *user, crt_status_t status, const char *detail)
{
    if (status == CRT_OK || !detail[0])
        abort();
}

static const crti_session_ops_t ops = {.make = make,
                                       .transmit = transmit,
                                       .drop = drop,
                                       .transmit_small = transmit_small,
                                       .deliver = deliver,
                                       .ended = ended};

/* The acceptor of the session with id 5 takes the frame as its first, and again after a send. */
static void give(const crti_frame_t *frame)
{
    crti_session_counts_t counts = {0};
    unsigned char sum = 0;
    crti_session_config_t config = {.ops = &ops,
                                    .user = &sum,
                                    .counts = &counts,
                                    .peer = {1, 2},
                                    .nonce = 11,
                                    .id = 5,
                                    .window = 1000,
                                    .record_max = 100000};
    crti_frame_t hello = {.type = CRTI_FRAME_HELLO},
                 ack = {.type = CRTI_FRAME_ACK, .session = 5};
    struct iovec part = {"x", 1};
    crti_session_t s;

    crti_session_accept(&s, &config, &hello, CRTI_S);
    crti_session_receive(&s, frame, CRTI_S);
    crti_session_receive(&s, &ack, CRTI_S);
    crti_session_send(&s, &part, 1, false, CRTI_S);
    crti_session_receive(&s, frame, 2 * CRTI_S);
    crti_session_tick(&s, 3 * CRTI_S);
    crti_session_fini(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    crti_frame_t frame;

    if (crti_frame_decode(data, size, &frame) == CRT_OK)
        give(&frame);
    return 0;
}

static size_t data_frame(uint8_t *out)
{
    crti_frame_t frame = {.type = CRTI_FRAME_DATA, .count = 2, .session = 5, .first = 1};

    crti_frame_encode_header(&frame, out);
    crti_frame_encode_size(3, false, out + 40);
    memcpy(out + 44, "abc", 3);
    crti_frame_encode_size(1, true, out + 47);
    out[51] = 'd';
    return 52;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    crti_frame_t frame = {.type = (crti_frame_type_t)(index + 1), .session = 5};

    if (index >= 9)
        return 0;
    if (frame.type == CRTI_FRAME_DATA)
        return data_frame(out);
    if (frame.type == CRTI_FRAME_REFUSED)
        frame.body = crti_span("another incarnation", 19);
    if (frame.type <= CRTI_FRAME_REFUSED)
        frame.session = 11;
    return crti_frame_encode(&frame, out);
}
