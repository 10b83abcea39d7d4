/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a stream's receiving side. First byte even: the rest comes before or instead of a
 * handshake; odd: the rest comes from a peer that has the key, cut into pieces by the second byte.
 * With 2 in it ours is the side that connected: the peer is the server. */
#include "fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/net/stream_int.h"
#include "tests/net/tls_write.h"

enum { INSIDE = 1, CONNECTS = 2 }; /* bits of the first byte */

static const crti_key_t key = {{1}};
static unsigned char payload[1 << 16];

static void on_message(void *user, crti_stream_t *stream, const crti_message_t *message)
{
    bool *receive = user;

    if (message->kind == CRTI_MSG_OBJECT_DATA && *receive &&
        message->object_data.length && message->object_data.length <= sizeof(payload))
        crti_stream_receive(stream, payload);
}

static void on_closed(void *user, crti_stream_t *stream, crt_status_t status,
                      const char *text)
{
    if (status >= 0 || text[0] == '\0')
        abort(); /* every end has a reason */
}

typedef struct bed {
    crti_loop_t *loop;
    crti_stream_context_t *context;
    crti_stream_t *server;
    int fds[2];
    bool receive;
} bed_t;

static void make(bed_t *bed, bool is_server)
{
    crti_stream_handlers_t handlers = {
        .user = &bed->receive, .on_message = on_message, .on_closed = on_closed};

    *bed = (bed_t){.receive = true};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bed->fds) ||
        crti_loop_new(&bed->loop) != CRT_OK ||
        crti_stream_context_new(&key, true, &bed->context) != CRT_OK ||
        crti_stream_new(bed->loop, bed->context, &bed->fds[0], is_server, 3000,
                        &bed->server) != CRT_OK)
        abort();
    crti_stream_set_handlers(bed->server, &handlers);
}

static void end(bed_t *bed)
{
    close(bed->fds[1]);
    for (int i = 0; i < 8; i++)
        crti_loop_turn(bed->loop, 0);
    crti_stream_free(bed->server);
    crti_stream_context_free(bed->context);
    crti_loop_free(bed->loop);
}

static void send_inside(bed_t *bed, bool is_server, const uint8_t *data, size_t size,
                        size_t piece)
{
    crti_tls_t *tls;
    size_t done = 0;

    if (crti_tls_new(bed->context->tls, bed->fds[1], is_server, &tls) != CRT_OK)
        abort();
    while (crti_tls_handshake(tls) == CRT_IN_PROGRESS)
        crti_loop_turn(bed->loop, crti_now_ns() + CRTI_S);
    for (size_t at = 0; at < size; at += done) {
        if (tls_write(tls, data + at, piece < size - at ? piece : size - at, &done) !=
            CRT_OK)
            break;
        crti_loop_turn(bed->loop, 0);
    }
    crti_tls_free(tls);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool ours_is_server;
    bed_t bed;

    if (size < 2)
        return 0;
    ours_is_server = !(data[0] & CONNECTS);
    make(&bed, ours_is_server);
    if (!ours_is_server)
        crti_loop_turn(bed.loop, 0); /* its hello leaves */
    if (data[0] & INSIDE)
        send_inside(&bed, !ours_is_server, data + 2, size - 2, 1 + data[1]);
    else
        (void)!write(bed.fds[1], data + 2, size - 2);
    crti_loop_turn(bed.loop, 0);
    end(&bed);
    return 0;
}

/* Frames of a few kinds; OBJECT_DATA with its payload. */
static size_t seed_inside(uint8_t *out)
{
    crti_message_t message;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    size_t at = 0;

    memset(&message, 0, sizeof(message));
    for (int i = 0; i < 3; i++) {
        crti_message_kind_t kind = i == 1 ? CRTI_MSG_OBJECT_DATA : CRTI_MSG_HEARTBEAT;

        bytes.size = 0;
        message.object_data.length = i == 1 ? 100 : 0;
        if (crti_message_encode(kind, 1, &message.error, &bytes) != CRT_OK)
            abort();
        out[at++] = (uint8_t)bytes.size;
        memset(out + at, 0, 3);
        at += 3;
        memcpy(out + at, bytes.data, bytes.size);
        at += bytes.size;
        if (i == 1) {
            memset(out + at, 'x', 100);
            at += 100;
        }
    }
    return at;
}

/* What a server that has the key says first; to another hello, so the keys do not fit. */
static size_t seed_answer(uint8_t *out, size_t room)
{
    crti_stream_context_t *context;
    crti_tls_t *client, *server;
    ssize_t n;
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) ||
        crti_stream_context_new(&key, true, &context) != CRT_OK ||
        crti_tls_new(context->tls, fds[0], false, &client) != CRT_OK ||
        crti_tls_new(context->tls, fds[1], true, &server) != CRT_OK)
        abort();
    if (crti_tls_handshake(client) != CRT_IN_PROGRESS ||
        crti_tls_handshake(server) != CRT_IN_PROGRESS)
        abort();
    n = recv(fds[0], out, room, 0);
    if (n <= 0)
        abort();
    crti_tls_free(client);
    crti_tls_free(server);
    crti_stream_context_free(context);
    close(fds[0]);
    close(fds[1]);
    return (size_t)n;
}

static size_t seed_outside(unsigned index, uint8_t *out, size_t room)
{
    static const uint8_t hello[] = {0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3};
    static const uint8_t alert[] = {0x15, 3, 3, 0, 2, 2, 0x28};

    switch (index) {
    case 0: memcpy(out, hello, sizeof(hello)); return sizeof(hello);
    case 1: memcpy(out, alert, sizeof(alert)); return sizeof(alert);
    default: return seed_answer(out, room);
    }
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    if (index >= 12 || room < 8192)
        return 0;
    out[0] = (uint8_t)(index & (INSIDE | CONNECTS));
    out[1] = (uint8_t)(index < 4 ? 255 : 3);
    return 2 + (index & INSIDE ? seed_inside(out + 2)
                               : seed_outside(index / 4, out + 2, room - 2));
}
