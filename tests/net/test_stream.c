/* SPDX-License-Identifier: Apache-2.0 */
/* Streams over loopback: what arrives, who is let in, and what a bad peer costs. */
#include "runtime/net/stream.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include <cmocka.h>

#include "runtime/base/clock.h"
#include "runtime/net/stream_int.h"
#include "runtime/net/tls.h"

#define PATIENCE (20 * CRTI_S)

static const crti_key_t key = {{1, 2, 3}}, other_key = {{3, 2, 1}};

/* One end of a stream, and what happened at it. */
typedef struct end {
    crti_stream_t *stream;
    int opened, messages, payloads, closed;
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

static void on_open(void *user, crti_stream_t *stream)
{
    ((end_t *)user)->opened++;
}

static void on_message(void *user, crti_stream_t *stream, const crti_message_t *message)
{
    end_t *end = user;

    end->messages++;
    end->in_order = end->messages == 1 || message->request == end->last_request + 1;
    end->last_request = message->request;
    if (message->kind == CRTI_MSG_KV_VALUE)
        end->last_size = message->kv_value.value.size;
    if (message->kind == CRTI_MSG_OBJECT_DATA && end->buffer)
        crti_stream_receive(stream, end->buffer);
    if (message->kind == CRTI_MSG_GROUP_DATA && end->take_group_data)
        crti_stream_receive(stream, end->buffer);
    if (message->kind == CRTI_MSG_OBJECT_DATA && end->discard)
        crti_stream_discard(stream);
    if (end->hold)
        crti_stream_hold(stream);
    if (end->free_in_message) {
        crti_stream_free(stream);
        end->stream = NULL;
    }
}

static void on_payload(void *user, crti_stream_t *stream, void *buffer, size_t size)
{
    end_t *end = user;

    assert_ptr_equal(buffer, end->buffer);
    end->payloads++;
    end->last_size = size;
    if (end->free_in_payload) {
        crti_stream_free(stream);
        end->stream = NULL;
    }
}

static void on_closed(void *user, crti_stream_t *stream, crt_status_t status,
                      const char *text)
{
    end_t *end = user;

    assert_int_equal(end->closed, 0);
    end->closed++;
    end->status = status;
    snprintf(end->text, sizeof(end->text), "%s", text);
    if (end->free_in_closed) {
        crti_stream_free(stream);
        end->stream = NULL;
    }
}

static crti_stream_handlers_t handlers_of(end_t *end)
{
    return (crti_stream_handlers_t){.user = end,
                                    .on_open = on_open,
                                    .on_message = on_message,
                                    .on_payload = on_payload,
                                    .on_closed = on_closed};
}

static void on_accept(void *user, crti_stream_t *stream)
{
    world_t *w = user;
    crti_stream_handlers_t handlers = handlers_of(&w->server);

    assert_null(w->server.stream);
    w->server.stream = stream;
    w->server.opened++;
    crti_stream_set_handlers(stream, &handlers);
}

static void listen_with(world_t *w)
{
    assert_int_equal(crti_stream_listen(w->loop, w->context, "127.0.0.1", 0, on_accept, w,
                                        &w->listener),
                     CRT_OK);
    snprintf(w->address, sizeof(w->address), "127.0.0.1:%u",
             crti_stream_listener_port(w->listener));
}

static void start(world_t *w, bool encrypt)
{
    *w = (world_t){0};
    assert_int_equal(crti_loop_new(&w->loop), CRT_OK);
    assert_int_equal(crti_stream_context_new(&key, encrypt, &w->context), CRT_OK);
    listen_with(w);
}

static void stop(world_t *w)
{
    crti_stream_free(w->client.stream);
    crti_stream_free(w->server.stream);
    crti_stream_listener_free(w->listener);
    crti_stream_context_free(w->context);
    crti_loop_free(w->loop);
}

static void connect_with(world_t *w, crti_stream_context_t *context, uint64_t timeout_ms)
{
    crti_stream_handlers_t handlers = handlers_of(&w->client);

    assert_int_equal(crti_stream_connect(w->loop, context, w->address, timeout_ms,
                                         &handlers, &w->client.stream),
                     CRT_OK);
}

#define UNTIL(w, condition)                                                              \
    do {                                                                                 \
        uint64_t until_deadline = crti_now_ns() + PATIENCE;                              \
        while (!(condition) && crti_now_ns() < until_deadline)                           \
            assert_int_equal(crti_loop_turn((w)->loop, until_deadline), CRT_OK);         \
        assert_true(condition);                                                          \
    } while (0)

static void join(world_t *w)
{
    connect_with(w, w->context, 5000);
    UNTIL(w, w->client.opened && w->server.opened);
}

/* ---------------------------------------------------------------- how it leaves */

static void congestion_of(int fd, char name[16])
{
    socklen_t size = 15;

    memset(name, 0, 16);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
}

static void bursty_connections_are_without_bbr_from_their_start(void **state)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char usual[16], client[16], server[16];
    world_t w;

    congestion_of(fd, usual);
    close(fd);
    start(&w, true);
    crti_stream_listener_free(w.listener);
    crti_stream_context_be_bursty(w.context);
    listen_with(&w);
    connect_with(&w, w.context, 5000);
    congestion_of(w.client.stream->fd, client);
    UNTIL(&w, w.client.opened && w.server.opened);
    congestion_of(w.server.stream->fd, server);
    if (strncmp(usual, "bbr", 3) != 0) {
        assert_string_equal(client, usual);
        assert_string_equal(server, usual);
    }
    assert_int_not_equal(strncmp(client, "bbr", 3), 0);
    assert_int_not_equal(strncmp(server, "bbr", 3), 0);
    stop(&w);
}

/* ---------------------------------------------------------------- what arrives */

static void messages_go_both_ways(bool encrypt)
{
    crti_msg_kv_put_t put = {.key = crti_str("a"), .value = crti_str("b")};
    world_t w;

    start(&w, encrypt);
    connect_with(&w, w.context, 5000);
    assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_KV_PUT, 1, &put), CRT_OK);
    UNTIL(&w, w.server.messages == 1);
    assert_int_equal(w.client.opened, 1);
    assert_int_equal(crti_stream_send(w.server.stream, CRTI_MSG_DONE, 1, NULL), CRT_OK);
    UNTIL(&w, w.client.messages == 1);
    assert_int_equal(crti_stream_queued(w.client.stream), 0);
    stop(&w);
}

static void messages_go_both_ways_encrypted(void **state)
{
    messages_go_both_ways(true);
}

static void messages_go_both_ways_without_encryption_after_the_handshake(void **state)
{
    messages_go_both_ways(false);
}

static void messages_keep_their_order_whatever_their_size(void **state)
{
    size_t count = 300, sizes[] = {0, 1, 100, 16300, 16384, 65536, 300000};
    char *value = calloc(1, 300000);
    world_t w;

    start(&w, true);
    join(&w);
    for (size_t i = 1; i <= count; i++) {
        crti_msg_kv_value_t body = {.value = crti_span(value, sizes[i % 7])};

        assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_KV_VALUE, i, &body),
                         CRT_OK);
    }
    UNTIL(&w, w.server.messages == (int)count || w.server.closed);
    assert_true(w.server.in_order);
    free(value);
    stop(&w);
}

static void
the_largest_message_arrives_and_a_larger_one_is_refused_at_the_sender(void **state)
{
    crti_msg_kv_value_t body;
    char *value = calloc(1, CRTI_MESSAGE_MAX);
    world_t w;

    start(&w, true);
    join(&w);
    body = (crti_msg_kv_value_t){.value = crti_span(value, CRTI_MESSAGE_MAX)};
    assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_KV_VALUE, 1, &body),
                     CRT_ERR_TOO_LARGE);
    body.value.size -= 64;
    assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_KV_VALUE, 1, &body),
                     CRT_OK);
    UNTIL(&w, w.server.messages == 1);
    assert_int_equal(w.server.last_size, CRTI_MESSAGE_MAX - 64);
    free(value);
    stop(&w);
}

static void count_sent(void *user, crt_status_t status)
{
    int *counts = user;

    counts[status == CRT_OK ? 0 : 1]++;
}

static void send_object(end_t *end, uint64_t request, const void *data, size_t size,
                        int *counts)
{
    crti_msg_object_data_t body = {.length = size, .size = size};

    assert_int_equal(crti_stream_send_payload(end->stream, CRTI_MSG_OBJECT_DATA, request,
                                              &body, data, count_sent, counts),
                     CRT_OK);
}

static void payloads(bool encrypt)
{
    size_t sizes[] = {1, 4096, 65536, 1 << 20, 9000001};
    unsigned char *from = malloc(9000001), *to = malloc(9000001);
    int counts[2] = {0};
    world_t w;

    for (size_t i = 0; i < 9000001; i++)
        from[i] = (unsigned char)(i * 7 + i / 255);
    start(&w, encrypt);
    join(&w);
    w.server.buffer = to;
    for (int i = 0; i < 5; i++) {
        memset(to, 0, sizes[i]);
        send_object(&w.client, (uint64_t)(2 * i), from, sizes[i], counts);
        crti_stream_send(w.client.stream, CRTI_MSG_DONE, (uint64_t)(2 * i + 1), NULL);
        UNTIL(&w, w.server.messages == 2 * i + 2);
        assert_int_equal(w.server.payloads, i + 1);
        assert_int_equal(w.server.last_size, sizes[i]);
        assert_memory_equal(from, to, sizes[i]);
    }
    assert_int_equal(counts[0], 5);
    assert_int_equal(counts[1], 0);
    assert_true(w.server.in_order);
    free(from);
    free(to);
    stop(&w);
}

static void a_payload_lands_in_the_buffer_of_the_receiver(void **state)
{
    payloads(true);
    payloads(false);
}

static void
a_payload_that_nobody_wants_is_thrown_away_and_the_next_message_is_read(void **state)
{
    char *from = calloc(1, 3000000);
    int counts[2] = {0};
    world_t w;

    start(&w, true);
    join(&w);
    send_object(&w.client, 1, from, 3000000, counts);
    send_object(&w.client, 2, from, 0, counts);
    crti_stream_send(w.client.stream, CRTI_MSG_DONE, 3, NULL);
    UNTIL(&w, w.server.messages == 3);
    w.server.buffer = (unsigned char *)from; /* asked for, then given up */
    w.server.discard = true;
    send_object(&w.client, 4, from, 3000000, counts);
    crti_stream_send(w.client.stream, CRTI_MSG_DONE, 5, NULL);
    UNTIL(&w, w.server.messages == 5);
    assert_int_equal(w.server.payloads, 0);
    assert_int_equal(counts[0], 3);
    assert_true(w.server.in_order);
    free(from);
    stop(&w);
}

static void held(bool encrypt, size_t size)
{
    unsigned char *from = malloc(size), *to = calloc(1, size);
    int counts[2] = {0};
    world_t w;

    memset(from, 7, size);
    start(&w, encrypt);
    join(&w);
    w.server.hold = true;
    send_object(&w.client, 1, from, size, counts);
    crti_stream_send(w.client.stream, CRTI_MSG_DONE, 2, NULL);
    UNTIL(&w, w.server.messages == 1);
    w.server.hold = false;
    for (int i = 0; i < 20; i++) /* what is in the kernel by now stays there */
        crti_loop_turn(w.loop, 0);
    assert_int_equal(w.server.messages, 1);
    w.server.buffer = to;
    crti_stream_receive(w.server.stream, to);
    crti_stream_resume(w.server.stream);
    UNTIL(&w, w.server.messages == 2);
    assert_int_equal(w.server.payloads, 1);
    assert_memory_equal(from, to, size);
    stop(&w);
    free(from);
    free(to);
}

static void a_held_stream_waits_for_its_buffer_and_goes_on(void **state)
{
    held(true, 10);
    held(true, 3000000);
    held(false, 10);
    held(false, 3000000);
}

static void a_held_stream_notices_the_end_when_it_goes_on(void **state)
{
    int turns = 0;
    world_t w;

    start(&w, true);
    join(&w);
    w.server.hold = true;
    crti_stream_send(w.client.stream, CRTI_MSG_DONE, 1, NULL);
    UNTIL(&w, w.server.messages == 1);
    crti_stream_free(w.client.stream);
    w.client.stream = NULL;
    for (uint64_t end = crti_now_ns() + 50 * CRTI_MS; crti_now_ns() < end; turns++)
        crti_loop_turn(w.loop, end);
    assert_true(turns < 20); /* and the loop does not spin */
    assert_int_equal(w.server.closed, 0);
    crti_stream_resume(w.server.stream);
    UNTIL(&w, w.server.closed);
    stop(&w);
}

static void a_small_payload_leaves_with_its_message(void **state)
{
    crti_msg_group_data_t body = {.length = 5};
    unsigned char to[5] = "";
    world_t w;

    start(&w, true);
    join(&w);
    w.server.buffer = to;
    w.server.take_group_data = true;
    assert_int_equal(
        crti_stream_send_copy(w.client.stream, CRTI_MSG_GROUP_DATA, 1, &body, "12345", 5),
        CRT_OK);
    crti_stream_send(w.client.stream, CRTI_MSG_DONE, 2, NULL);
    UNTIL(&w, w.server.messages == 2);
    assert_memory_equal(to, "12345", 5);
    assert_int_equal(crti_stream_queued(w.client.stream), 0);
    stop(&w);
}

static void counted(void *user, crt_status_t status)
{
    ++*(int *)user;
}

/* All small and large pieces that wait leave before the loop turns again. */
static void what_is_pushed_leaves_at_once(bool encrypt)
{
    enum { SIZE = 20000 };
    crti_msg_group_data_t body = {.length = SIZE};
    unsigned char *from = malloc(SIZE), *to = calloc(1, SIZE);
    int done = 0;
    world_t w;

    memset(from, 'x', SIZE);
    start(&w, encrypt);
    join(&w);
    w.server.buffer = to;
    w.server.take_group_data = true;
    UNTIL(&w, crti_stream_queued(w.client.stream) == 0);
    crti_stream_send(w.client.stream, CRTI_MSG_DONE, 1, NULL);
    assert_int_equal(crti_stream_send_payload(w.client.stream, CRTI_MSG_GROUP_DATA, 2,
                                              &body, from, counted, &done),
                     CRT_OK);
    assert_int_equal(done, 0);
    crti_stream_push(w.client.stream);
    assert_int_equal(done, 1);
    assert_int_equal(crti_stream_queued(w.client.stream), 0);
    UNTIL(&w, w.server.payloads == 1);
    assert_int_equal(w.server.messages, 2);
    assert_memory_equal(to, from, SIZE);
    stop(&w);
    free(from);
    free(to);
}

static void what_is_pushed_leaves_at_once_encrypted(void **state)
{
    what_is_pushed_leaves_at_once(true);
}

static void what_is_pushed_leaves_at_once_plain(void **state)
{
    what_is_pushed_leaves_at_once(false);
}

/* Of a peer that does not read: what was encrypted and does not fit is still to be sent. */
static void a_push_to_a_full_socket_keeps_the_rest(void **state)
{
    enum { SIZE = 32 << 20 };
    crti_msg_group_data_t body = {.length = SIZE};
    unsigned char *from = malloc(SIZE), *to = calloc(1, SIZE);
    int done = 0;
    world_t w;

    memset(from, 'y', SIZE);
    start(&w, true);
    join(&w);
    w.server.buffer = to;
    w.server.take_group_data = true;
    assert_int_equal(crti_stream_send_payload(w.client.stream, CRTI_MSG_GROUP_DATA, 1,
                                              &body, from, counted, &done),
                     CRT_OK);
    for (int i = 0; i < 20; i++)
        crti_stream_push(w.client.stream);
    assert_true(crti_stream_queued(w.client.stream) > 0);
    UNTIL(&w, w.server.payloads == 1);
    assert_int_equal(done, 1);
    assert_memory_equal(to, from, SIZE);
    assert_int_equal(crti_stream_queued(w.client.stream), 0);
    stop(&w);
    free(from);
    free(to);
}

static void on_sent_is_called_once_with_an_error_when_the_stream_goes(void **state)
{
    char *from = calloc(1, 64 << 20);
    int counts[2] = {0};
    world_t w;

    start(&w, true);
    join(&w);
    send_object(&w.client, 1, from, 64 << 20, counts);
    crti_stream_free(w.client.stream);
    w.client.stream = NULL;
    assert_int_equal(counts[0], 0);
    assert_int_equal(counts[1], 1);
    UNTIL(&w, w.server.closed);
    free(from);
    stop(&w);
}

static void close_delivers_what_was_queued_first(void **state)
{
    char value[1000] = {0};
    crti_msg_kv_value_t body = {.value = crti_span(value, sizeof(value))};
    world_t w;

    start(&w, true);
    join(&w);
    for (uint64_t i = 1; i <= 5000; i++) {
        crti_stream_send(w.client.stream, CRTI_MSG_KV_VALUE, i, &body);
        if (i <= 100) /* unread bytes at the closing side must not tear it down */
            crti_stream_send(w.server.stream, CRTI_MSG_KV_VALUE, i, &body);
    }
    crti_stream_close(w.client.stream);
    assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_DONE, 1, NULL),
                     CRT_ERR_CLOSED);
    UNTIL(&w, w.server.closed);
    assert_int_equal(w.server.messages, 5000);
    assert_int_equal(w.server.status, CRT_ERR_CLOSED);
    UNTIL(&w, w.client.closed);
    assert_int_equal(w.client.status, CRT_ERR_CLOSED);
    stop(&w);
}

static void a_stream_may_be_freed_in_each_of_its_handlers(void **state)
{
    char from[100] = {0};
    int counts[2] = {0};
    unsigned char to[100];

    for (int i = 0; i < 3; i++) {
        world_t w;

        start(&w, true);
        join(&w);
        w.server.buffer = to;
        w.server.free_in_message = i == 0;
        w.server.free_in_payload = i == 1;
        w.server.free_in_closed = i == 2;
        send_object(&w.client, 1, from, sizeof(from), counts);
        crti_stream_send(w.client.stream, CRTI_MSG_DONE, 2, NULL);
        crti_stream_close(w.client.stream);
        UNTIL(&w, w.server.stream == NULL && w.client.closed);
        assert_int_equal(w.server.messages, i == 2 ? 2 : 1);
        assert_int_equal(w.server.closed, i == 2);
        stop(&w);
    }
}

/* ---------------------------------------------------------------- who is let in */

static void another_key_is_refused_and_says_so(void **state)
{
    crti_stream_context_t *other;
    world_t w;

    start(&w, true);
    assert_int_equal(crti_stream_context_new(&other_key, true, &other), CRT_OK);
    connect_with(&w, other, 5000);
    UNTIL(&w, w.client.closed);
    assert_int_equal(w.client.status, CRT_ERR_PERMISSION);
    assert_non_null(strstr(w.client.text, "keys"));
    UNTIL(&w, crti_stream_listener_refused(w.listener) == 1);
    assert_int_equal(w.server.opened, 0);
    crti_stream_context_free(other);
    stop(&w);
}

static void nobody_listening_is_told_from_no_answer(void **state)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof(here);
    int fd = socket(AF_INET, SOCK_STREAM, 0), more[4];
    world_t w;

    start(&w, true);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
    getsockname(fd, (struct sockaddr *)&here, &size);
    snprintf(w.address, sizeof(w.address), "127.0.0.1:%u", ntohs(here.sin_port));
    connect_with(&w, w.context, 5000);
    UNTIL(&w, w.client.closed);
    assert_int_equal(w.client.status, CRT_ERR_UNREACHABLE);
    assert_non_null(strstr(w.client.text, w.address));
    crti_stream_free(w.client.stream);

    /* A full backlog: the kernel answers nobody any more. */
    assert_int_equal(listen(fd, 0), 0);
    for (int i = 0; i < 4; i++) {
        more[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(more[i], (struct sockaddr *)&here, sizeof(here));
    }
    w.client = (end_t){0};
    connect_with(&w, w.context, 200);
    UNTIL(&w, w.client.closed);
    assert_int_equal(w.client.status, CRT_ERR_TIMED_OUT);
    for (int i = 0; i < 4; i++)
        close(more[i]);
    close(fd);
    stop(&w);
}

static void a_listener_that_says_nothing_is_given_up(void **state)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof(here);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    world_t w;

    start(&w, true);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(listen(fd, 10), 0);
    getsockname(fd, (struct sockaddr *)&here, &size);
    snprintf(w.address, sizeof(w.address), "127.0.0.1:%u", ntohs(here.sin_port));
    connect_with(&w, w.context, 100);
    UNTIL(&w, w.client.closed);
    assert_int_equal(w.client.status, CRT_ERR_TIMED_OUT);
    assert_non_null(strstr(w.client.text, "handshake"));
    close(fd);
    stop(&w);
}

static void a_taken_port_is_named(void **state)
{
    crti_stream_listener_t *second = NULL;
    char port[16];
    world_t w;

    start(&w, true);
    assert_int_equal(crti_stream_listen(w.loop, w.context, "127.0.0.1",
                                        crti_stream_listener_port(w.listener), on_accept,
                                        &w, &second),
                     CRT_ERR_EXISTS);
    snprintf(port, sizeof(port), "%u", crti_stream_listener_port(w.listener));
    assert_non_null(strstr(crt_error_detail(), port));
    assert_null(second);
    stop(&w);
}

static void addresses_are_checked(void **state)
{
    const char *bad[] = {"",
                         ":",
                         "host",
                         "host:",
                         "1.2.3.4:x",
                         "1.2.3.4:70000",
                         "::1:80",
                         "[::1]",
                         "host.example:80",
                         "1.2.3.4:123456"};
    crti_stream_handlers_t handlers = {0};
    char numeric[CRTI_STREAM_ADDRESS];
    crti_stream_t *stream = NULL;
    world_t w;

    start(&w, true);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(
            crti_stream_connect(w.loop, w.context, bad[i], 100, &handlers, &stream),
            CRT_ERR_INVALID);
    assert_null(stream);
    assert_int_equal(crti_stream_resolve("127.0.0.1:80", numeric), CRT_OK);
    assert_string_equal(numeric, "127.0.0.1:80");
    assert_int_equal(crti_stream_resolve("[::1]:80", numeric), CRT_OK);
    assert_string_equal(numeric, "[::1]:80");
    assert_int_equal(crti_stream_resolve("nonsense", numeric), CRT_ERR_INVALID);
    stop(&w);
}

/* ---------------------------------------------------------------- raw peers */

/* A thread that behaves badly at the other end of a connection. */
typedef struct raw {
    uint16_t port;
    void (*act)(int fd, const void *data, size_t size);
    const void *data;
    size_t size;
    pthread_t thread;
} raw_t;

static int connect_raw(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct timeval patience = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)
        abort();
    return fd;
}

static void *raw_main(void *user)
{
    raw_t *raw = user;
    int fd = connect_raw(raw->port);

    raw->act(fd, raw->data, raw->size);
    close(fd);
    return NULL;
}

static void raw_start(world_t *w, raw_t *raw)
{
    raw->port = crti_stream_listener_port(w->listener);
    assert_int_equal(pthread_create(&raw->thread, NULL, raw_main, raw), 0);
}

static void send_plain(int fd, const void *data, size_t size)
{
    char answer[256];

    (void)!write(fd, data, size);
    while (read(fd, answer, sizeof(answer)) > 0)
        continue;
}

/* With the right key: sends the bytes inside TLS, then closes at once. */
static void send_inside(int fd, const void *data, size_t size)
{
    crti_tls_context_t *context;
    unsigned char psk[CRTI_KEY_SIZE];
    crti_tls_t *tls;
    size_t done;

    crti_key_stream(&key, psk);
    if (crti_tls_context_new(psk, true, &context) != CRT_OK ||
        crti_tls_new(context, fd, false, &tls) != CRT_OK)
        abort();
    if (crti_tls_handshake(tls) != CRT_OK ||
        crti_tls_write(tls, data, size, &done) != CRT_OK || done != size)
        abort();
    crti_tls_free(tls);
    crti_tls_context_unref(context);
}

/* TLS without our key. */
static void speak_tls(int fd, const void *data, size_t size)
{
    const int *version = data;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl;

    SSL_CTX_set_max_proto_version(context, *version);
    ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    if (SSL_connect(ssl) == 1)
        abort(); /* nobody may get in this way */
    SSL_free(ssl);
    SSL_CTX_free(context);
}

static void strangers_get_no_further_than_the_handshake(void **state)
{
    static const int tls12 = TLS1_2_VERSION, tls13 = TLS1_3_VERSION;
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    static const unsigned char noise[300] = {0x16, 3, 1, 1, 0, 1, 0, 0, 0xfc, 3, 3, 9, 9};
    raw_t raws[] = {{.act = speak_tls, .data = &tls12},
                    {.act = speak_tls, .data = &tls13},
                    {.act = send_plain, .data = http, .size = sizeof(http) - 1},
                    {.act = send_plain, .data = noise, .size = sizeof(noise)}};
    world_t w;

    start(&w, true);
    join(&w);
    for (int i = 0; i < 4; i++) {
        raw_start(&w, &raws[i]);
        UNTIL(&w, crti_stream_listener_refused(w.listener) == (uint64_t)i + 1);
        pthread_join(raws[i].thread, NULL);
    }
    assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_DONE, 1, NULL), CRT_OK);
    UNTIL(&w, w.server.messages == 1); /* the others notice nothing */
    stop(&w);
}

static void malformed_frames_close_their_stream_with_the_reason(void **state)
{
    static const struct {
        const char *data;
        size_t size;
        crt_status_t status;
    } cases[] = {
        {"\0\0\0\0", 4, CRT_ERR_PROTOCOL},                       /* empty frame */
        {"\xff\xff\xff\xff", 4, CRT_ERR_PROTOCOL},               /* 4 GiB frame */
        {"\x01\0\0\x01", 4, CRT_ERR_PROTOCOL},                   /* 16 MiB and one byte */
        {"\x05\0\0\0hello", 9, CRT_ERR_PROTOCOL},                /* no message */
        {"\x05\0\0\0\x92\xcd\x03\xe7\x01", 9, CRT_ERR_PROTOCOL}, /* unknown kind */
        {"\x05\0\0\0he", 6, CRT_ERR_CLOSED},                     /* dies in the frame */
        {"\x05\0", 2, CRT_ERR_CLOSED},                           /* dies in the length */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        raw_t raw = {.act = send_inside, .data = cases[i].data, .size = cases[i].size};
        world_t w;

        start(&w, true);
        raw_start(&w, &raw);
        UNTIL(&w, w.server.closed);
        assert_int_equal(w.server.status, cases[i].status);
        assert_int_equal(w.server.messages, 0);
        pthread_join(raw.thread, NULL);
        stop(&w);
    }
}

static void silent_connections_end_and_do_not_keep_others_out(void **state)
{
    enum { COUNT = CRTI_STREAM_UNAUTHENTICATED + 10 };
    uint64_t begin = crti_now_ns();
    int fds[COUNT];
    world_t w;

    start(&w, true);
    for (int i = 0; i < COUNT; i++) {
        fds[i] = connect_raw(crti_stream_listener_port(w.listener));
        assert_int_equal(crti_loop_turn(w.loop, 0), CRT_OK);
    }
    UNTIL(&w, crti_stream_listener_refused(w.listener) == 10); /* the oldest gave way */
    join(&w);
    UNTIL(&w, crti_stream_listener_refused(w.listener) == COUNT);
    assert_true(crti_now_ns() - begin < 6 * CRTI_S);
    assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_DONE, 1, NULL), CRT_OK);
    UNTIL(&w, w.server.messages == 1);
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
    stop(&w);
}

#define CROWD (4 * CRTI_STREAM_UNAUTHENTICATED)

typedef struct crowd {
    crti_stream_t *clients[CROWD], *servers[CROWD];
    size_t opened, closed, taken;
} crowd_t;

static void one_opened(void *user, crti_stream_t *stream)
{
    ((crowd_t *)user)->opened++;
}

static void one_closed(void *user, crti_stream_t *stream, crt_status_t status,
                       const char *text)
{
    ((crowd_t *)user)->closed++;
}

static void take_one(void *user, crti_stream_t *stream)
{
    crowd_t *crowd = user;

    crowd->servers[crowd->taken++] = stream;
}

/* They wait for each other instead of throwing each other out. */
static void many_more_than_may_be_strangers_come_at_once_and_all_are_taken(void **state)
{
    static crowd_t crowd;
    crti_stream_handlers_t handlers = {
        .user = &crowd, .on_open = one_opened, .on_closed = one_closed};
    crti_stream_listener_t *listener = NULL;
    char address[CRTI_STREAM_ADDRESS];
    world_t w;

    start(&w, true);
    assert_int_equal(crti_stream_listen(w.loop, w.context, "127.0.0.1", 0, take_one,
                                        &crowd, &listener),
                     CRT_OK);
    snprintf(address, sizeof(address), "127.0.0.1:%u",
             crti_stream_listener_port(listener));
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(crti_stream_connect(w.loop, w.context, address, 20000, &handlers,
                                             &crowd.clients[i]),
                         CRT_OK);
    UNTIL(&w, crowd.opened == CROWD && crowd.taken == CROWD);
    assert_int_equal(crowd.closed, 0);
    assert_int_equal(crti_stream_listener_refused(listener), 0);
    for (size_t i = 0; i < CROWD; i++) {
        crti_stream_free(crowd.clients[i]);
        crti_stream_free(crowd.servers[i]);
    }
    crti_stream_listener_free(listener);
    stop(&w);
}

/* With the right key, but never reads; `data` is a pipe that says when to go. */
static void never_read(int fd, const void *data, size_t size)
{
    const int *pipe_fd = data;
    char byte;

    send_inside(fd, "\x05\0", 2);
    (void)!read(*pipe_fd, &byte, 1);
}

static void a_peer_that_does_not_read_costs_bounded_memory(void **state)
{
    size_t size = 1 << 20, accepted = 0;
    char *value = calloc(1, size);
    crti_msg_kv_value_t body = {.value = crti_span(value, size)};
    crt_status_t status = CRT_OK;
    raw_t raw = {.act = never_read};
    int fds[2];
    world_t w;

    assert_int_equal(pipe(fds), 0);
    raw.data = &fds[0];
    start(&w, true);
    raw_start(&w, &raw);
    UNTIL(&w, w.server.opened);
    for (; status == CRT_OK && accepted < 200; accepted++) {
        status = crti_stream_send(w.server.stream, CRTI_MSG_KV_VALUE, 1, &body);
        assert_int_equal(crti_loop_turn(w.loop, 0), CRT_OK);
    }
    assert_int_equal(status, CRT_ERR_BACKPRESSURE);
    assert_true(crti_stream_queued(w.server.stream) < CRTI_STREAM_QUEUE + 2 * size);
    close(fds[1]);
    pthread_join(raw.thread, NULL);
    close(fds[0]);
    free(value);
    stop(&w);
}

/* ---------------------------------------------------------------- false servers */

static void self_sign(SSL_CTX *context)
{
    EVP_PKEY *pkey = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *x509 = X509_new();

    X509_set_version(x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), 0);
    X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
    X509_set_pubkey(x509, pkey);
    X509_sign(x509, pkey, EVP_sha256());
    SSL_CTX_use_certificate(context, x509);
    SSL_CTX_use_PrivateKey(context, pkey);
    X509_free(x509);
    EVP_PKEY_free(pkey);
}

static void *false_server(void *user)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    int fd = accept(*(int *)user, NULL, NULL);
    SSL *ssl;

    self_sign(context);
    ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    if (SSL_accept(ssl) == 1) {
        char byte;

        SSL_read(ssl, &byte, 1); /* the client's refusal comes after our Finished */
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(fd);
    return NULL;
}

static void a_server_with_a_certificate_instead_of_the_key_is_refused(void **state)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof(here);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    pthread_t thread;
    world_t w;

    start(&w, true);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(listen(fd, 10), 0);
    getsockname(fd, (struct sockaddr *)&here, &size);
    snprintf(w.address, sizeof(w.address), "127.0.0.1:%u", ntohs(here.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, false_server, &fd), 0);
    connect_with(&w, w.context, 5000);
    UNTIL(&w, w.client.closed);
    assert_int_equal(w.client.opened, 0);
    assert_int_equal(w.client.status, CRT_ERR_PROTOCOL);
    pthread_join(thread, NULL);
    close(fd);
    stop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bursty_connections_are_without_bbr_from_their_start),
        cmocka_unit_test(messages_go_both_ways_encrypted),
        cmocka_unit_test(messages_go_both_ways_without_encryption_after_the_handshake),
        cmocka_unit_test(messages_keep_their_order_whatever_their_size),
        cmocka_unit_test(what_is_pushed_leaves_at_once_encrypted),
        cmocka_unit_test(what_is_pushed_leaves_at_once_plain),
        cmocka_unit_test(a_push_to_a_full_socket_keeps_the_rest),
        cmocka_unit_test(
            the_largest_message_arrives_and_a_larger_one_is_refused_at_the_sender),
        cmocka_unit_test(a_payload_lands_in_the_buffer_of_the_receiver),
        cmocka_unit_test(
            a_payload_that_nobody_wants_is_thrown_away_and_the_next_message_is_read),
        cmocka_unit_test(a_held_stream_waits_for_its_buffer_and_goes_on),
        cmocka_unit_test(a_held_stream_notices_the_end_when_it_goes_on),
        cmocka_unit_test(a_small_payload_leaves_with_its_message),
        cmocka_unit_test(on_sent_is_called_once_with_an_error_when_the_stream_goes),
        cmocka_unit_test(close_delivers_what_was_queued_first),
        cmocka_unit_test(a_stream_may_be_freed_in_each_of_its_handlers),
        cmocka_unit_test(another_key_is_refused_and_says_so),
        cmocka_unit_test(nobody_listening_is_told_from_no_answer),
        cmocka_unit_test(a_listener_that_says_nothing_is_given_up),
        cmocka_unit_test(a_taken_port_is_named),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(strangers_get_no_further_than_the_handshake),
        cmocka_unit_test(many_more_than_may_be_strangers_come_at_once_and_all_are_taken),
        cmocka_unit_test(malformed_frames_close_their_stream_with_the_reason),
        cmocka_unit_test(silent_connections_end_and_do_not_keep_others_out),
        cmocka_unit_test(a_peer_that_does_not_read_costs_bounded_memory),
        cmocka_unit_test(a_server_with_a_certificate_instead_of_the_key_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
