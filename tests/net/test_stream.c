/* SPDX-License-Identifier: Apache-2.0 */
/* Streams over loopback: what leaves, and what arrives. */
#include "stream_test.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/net/stream_int.h"

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
    world_start(&w, true);
    crti_stream_listener_free(w.listener);
    crti_stream_context_avoid_bbr(w.context);
    world_listen(&w);
    world_connect(&w, w.context, 5000);
    congestion_of(w.client.stream->fd, client);
    UNTIL(&w, w.client.opened && w.server.opened);
    congestion_of(w.server.stream->fd, server);
    if (strncmp(usual, "bbr", 3) != 0) {
        assert_string_equal(client, usual);
        assert_string_equal(server, usual);
    }
    assert_int_not_equal(strncmp(client, "bbr", 3), 0);
    assert_int_not_equal(strncmp(server, "bbr", 3), 0);
    world_stop(&w);
}

/* ---------------------------------------------------------------- what arrives */

static void messages_go_both_ways(bool encrypt)
{
    crti_msg_kv_put_t put = {.key = crti_str("a"), .value = crti_str("b")};
    world_t w;

    world_start(&w, encrypt);
    world_connect(&w, w.context, 5000);
    assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_KV_PUT, 1, &put), CRT_OK);
    UNTIL(&w, w.server.messages == 1);
    assert_int_equal(w.client.opened, 1);
    assert_int_equal(crti_stream_send(w.server.stream, CRTI_MSG_DONE, 1, NULL), CRT_OK);
    UNTIL(&w, w.client.messages == 1);
    assert_int_equal(crti_stream_queued(w.client.stream), 0);
    world_stop(&w);
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

    world_start(&w, true);
    world_join(&w);
    for (size_t i = 1; i <= count; i++) {
        crti_msg_kv_value_t body = {.value = crti_span(value, sizes[i % 7])};

        assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_KV_VALUE, i, &body),
                         CRT_OK);
    }
    UNTIL(&w, w.server.messages == (int)count || w.server.closed);
    assert_true(w.server.in_order);
    free(value);
    world_stop(&w);
}

static void
the_largest_message_arrives_and_a_larger_one_is_refused_at_the_sender(void **state)
{
    crti_msg_kv_value_t body;
    char *value = calloc(1, CRTI_MESSAGE_MAX);
    world_t w;

    world_start(&w, true);
    world_join(&w);
    body = (crti_msg_kv_value_t){.value = crti_span(value, CRTI_MESSAGE_MAX)};
    assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_KV_VALUE, 1, &body),
                     CRT_ERR_TOO_LARGE);
    body.value.size -= 64;
    assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_KV_VALUE, 1, &body),
                     CRT_OK);
    UNTIL(&w, w.server.messages == 1);
    assert_int_equal(w.server.last_size, CRTI_MESSAGE_MAX - 64);
    free(value);
    world_stop(&w);
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
    world_start(&w, encrypt);
    world_join(&w);
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
    world_stop(&w);
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

    world_start(&w, true);
    world_join(&w);
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
    world_stop(&w);
}

static void held(bool encrypt, size_t size)
{
    unsigned char *from = malloc(size), *to = calloc(1, size);
    int counts[2] = {0};
    world_t w;

    memset(from, 7, size);
    world_start(&w, encrypt);
    world_join(&w);
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
    world_stop(&w);
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

    world_start(&w, true);
    world_join(&w);
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
    world_stop(&w);
}

static void a_small_payload_leaves_with_its_message(void **state)
{
    crti_msg_group_data_t body = {.length = 5};
    unsigned char to[5] = "";
    world_t w;

    world_start(&w, true);
    world_join(&w);
    w.server.buffer = to;
    w.server.take_group_data = true;
    assert_int_equal(
        crti_stream_send_copy(w.client.stream, CRTI_MSG_GROUP_DATA, 1, &body, "12345", 5),
        CRT_OK);
    crti_stream_send(w.client.stream, CRTI_MSG_DONE, 2, NULL);
    UNTIL(&w, w.server.messages == 2);
    assert_memory_equal(to, "12345", 5);
    assert_int_equal(crti_stream_queued(w.client.stream), 0);
    world_stop(&w);
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
    world_start(&w, encrypt);
    world_join(&w);
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
    world_stop(&w);
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

static void who_sends_hears_when_all_of_it_has_left(void **state)
{
    enum { SIZE = 12 << 20 };
    char *value = calloc(1, SIZE);
    crti_msg_kv_put_t put = {.key = crti_str("a"), .value = crti_span(value, SIZE)};
    world_t w;

    world_start(&w, true);
    world_join(&w);
    for (uint64_t i = 1; i <= 3; i++)
        assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_KV_PUT, i, &put),
                         CRT_OK);
    assert_int_equal(w.client.drained, 0);
    UNTIL(&w, w.server.messages == 3);
    assert_int_equal(w.client.drained, 1);
    crti_stream_send(w.client.stream, CRTI_MSG_DONE, 4, NULL);
    crti_stream_push(w.client.stream); /* not inside it */
    assert_int_equal(crti_stream_queued(w.client.stream), 0);
    assert_int_equal(w.client.drained, 1);
    UNTIL(&w, w.server.messages == 4 && w.client.drained == 2);
    assert_int_equal(w.server.drained, 0); /* it said nothing */
    world_stop(&w);
    free(value);
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
    world_start(&w, true);
    world_join(&w);
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
    world_stop(&w);
    free(from);
    free(to);
}

static void on_sent_is_called_once_with_an_error_when_the_stream_goes(void **state)
{
    char *from = calloc(1, 64 << 20);
    int counts[2] = {0};
    world_t w;

    world_start(&w, true);
    world_join(&w);
    send_object(&w.client, 1, from, 64 << 20, counts);
    crti_stream_free(w.client.stream);
    w.client.stream = NULL;
    assert_int_equal(counts[0], 0);
    assert_int_equal(counts[1], 1);
    UNTIL(&w, w.server.closed);
    free(from);
    world_stop(&w);
}

static void close_delivers_what_was_queued_first(void **state)
{
    char value[1000] = {0};
    crti_msg_kv_value_t body = {.value = crti_span(value, sizeof(value))};
    world_t w;

    world_start(&w, true);
    world_join(&w);
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
    world_stop(&w);
}

static void a_stream_may_be_freed_in_each_of_its_handlers(void **state)
{
    char from[100] = {0};
    int counts[2] = {0};
    unsigned char to[100];

    for (int i = 0; i < 3; i++) {
        world_t w;

        world_start(&w, true);
        world_join(&w);
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
        world_stop(&w);
    }
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
        cmocka_unit_test(who_sends_hears_when_all_of_it_has_left),
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
