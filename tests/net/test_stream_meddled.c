/* SPDX-License-Identifier: Apache-2.0 */
/* Streams with somebody on the way who has no key: he may read bulk bytes where they are not
 * encrypted, and end a connection; whatever else he does is noticed, and nothing of it is
 * believed. */
#include "stream_test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AROUND ((size_t)20) /* header and tag of a record */
#define SECRET "what nobody else may read"
#define BULK   ((size_t)100000)

/* What is done with the next record of the client. */
typedef enum meddling { PASS, INJECT, FLIP, DROP, REPLAY, SWAP, SHORTEN, CUT } meddling_t;

/* The way from the client to the listener: a thread that carries bytes, and a copy of all of the
 * client's. */
typedef struct relay {
    pthread_t thread;
    int listening, client, server;
    uint16_t to;
    atomic_int next;
    unsigned char seen[4 * BULK];
    atomic_size_t seen_size;
} relay_t;

static void fail_test(const char *what)
{
    perror(what);
    abort();
}

static void put(int fd, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = send(fd, (const char *)data + done, size - done, MSG_NOSIGNAL);

        if (n <= 0)
            return; /* the other side has ended it, as it should */
        done += (size_t)n;
    }
}

static size_t get_record(relay_t *r, unsigned char *record)
{
    size_t size;

    if (recv(r->client, record, 4, MSG_WAITALL) != 4)
        return 0;
    size = (record[0] | (size_t)record[1] << 8 | (size_t)record[2] << 16) + AROUND;
    return recv(r->client, record + 4, size - 4, MSG_WAITALL) == (ssize_t)size - 4 ? size
                                                                                   : 0;
}

/* What a message is on a connection without records: a kind that the other side would obey. */
static void inject(int fd)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    unsigned char header[4] = {0};

    if (crti_message_encode(CRTI_MSG_DONE, 99, NULL, &bytes) != CRT_OK)
        abort();
    header[0] = (unsigned char)bytes.size;
    put(fd, header, sizeof(header));
    put(fd, bytes.data, bytes.size);
}

static void meddle(relay_t *r, meddling_t what)
{
    unsigned char *first = malloc(BULK), *second = malloc(BULK);
    size_t size = get_record(r, first), other;

    switch (what) {
    case INJECT:
        inject(r->server);
        put(r->server, first, size);
        break;
    case FLIP:
        first[size / 2] ^= 1;
        put(r->server, first, size);
        break;
    case DROP: break;
    case REPLAY:
        put(r->server, first, size);
        put(r->server, first, size);
        break;
    case SWAP:
        other = get_record(r, second);
        put(r->server, second, other);
        put(r->server, first, size);
        break;
    case SHORTEN: /* by a byte, header and all */
        first[0]--;
        put(r->server, first, size - 1);
        break;
    case CUT:
        put(r->server, first, size);
        shutdown(r->server, SHUT_WR);
        break;
    default: break;
    }
    free(first);
    free(second);
}

static bool carry(relay_t *r, int from, int to)
{
    unsigned char bytes[4096];
    meddling_t what = from == r->client ? atomic_exchange(&r->next, PASS) : PASS;
    ssize_t n;

    if (what != PASS) {
        meddle(r, what);
        return true;
    }
    n = recv(from, bytes, sizeof(bytes), 0);
    if (n <= 0) {
        shutdown(to, SHUT_WR);
        return false;
    }
    if (from == r->client && r->seen_size + (size_t)n <= sizeof(r->seen)) {
        memcpy(r->seen + r->seen_size, bytes, (size_t)n);
        r->seen_size += (size_t)n;
    }
    put(to, bytes, (size_t)n);
    return true;
}

static void *relay_main(void *user)
{
    relay_t *r = user;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(r->to)};
    struct pollfd polled[2];

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    r->client = accept(r->listening, NULL, NULL);
    r->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (r->client < 0 || connect(r->server, (struct sockaddr *)&to, sizeof(to)) != 0)
        fail_test("relay");
    polled[0] = (struct pollfd){.fd = r->client, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = r->server, .events = POLLIN};
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
        if (poll(polled, 2, -1) < 0)
            fail_test("poll");
        if (polled[0].revents && !carry(r, r->client, r->server))
            polled[0].fd = -1;
        if (polled[1].revents && !carry(r, r->server, r->client))
            polled[1].fd = -1;
    }
    close(r->client);
    close(r->server);
    close(r->listening);
    return NULL;
}

/* A world whose two ends are open, with the relay between them. */
static void meet(world_t *w, relay_t *r, bool encrypt)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof(here);

    world_start(w, encrypt);
    *r = (relay_t){.to = crti_stream_listener_port(w->listener)};
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    r->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->listening, (struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(listen(r->listening, 1), 0);
    assert_int_equal(getsockname(r->listening, (struct sockaddr *)&here, &size), 0);
    snprintf(w->address, sizeof(w->address), "127.0.0.1:%u", ntohs(here.sin_port));
    assert_int_equal(pthread_create(&r->thread, NULL, relay_main, r), 0);
    world_join(w);
    atomic_store(&r->seen_size, 0);
}

static void part(world_t *w, relay_t *r)
{
    world_stop(w);
    pthread_join(r->thread, NULL);
}

static void say(world_t *w, uint64_t request)
{
    assert_int_equal(crti_stream_send(w->client.stream, CRTI_MSG_DONE, request, NULL),
                     CRT_OK);
    crti_stream_push(w->client.stream);
}

/* One message arrives, what is done with the next ends the stream; of those that come later nothing
 * does. */
static void check_messages(meddling_t what, bool encrypt)
{
    relay_t *relay = calloc(1, sizeof(*relay));
    int heard = what == REPLAY || what == CUT ? 2 : 1; /* at most */
    world_t w;

    meet(&w, relay, encrypt);
    say(&w, 1);
    UNTIL(&w, w.server.messages == 1);
    atomic_store(&relay->next, what);
    say(&w, 2);
    say(&w, 3);
    UNTIL(&w, w.server.closed);
    assert_in_range(w.server.messages, 1, heard);
    assert_int_equal(w.server.last_request, w.server.messages);
    assert_int_equal(w.server.status, what == CUT ? CRT_ERR_IO : CRT_ERR_PROTOCOL);
    assert_non_null(strstr(w.server.text, what == CUT ? "without a word" : "record"));
    part(&w, relay);
    free(relay);
}

static void
a_message_that_was_meddled_with_ends_its_stream_and_nothing_is_believed(void **state)
{
    for (meddling_t what = INJECT; what <= CUT; what++)
        for (int encrypt = 0; encrypt < 2; encrypt++)
            check_messages(what, encrypt);
}

static void check_payload(meddling_t what, bool encrypt)
{
    crti_msg_object_data_t body = {.length = BULK, .size = BULK};
    unsigned char *from = malloc(BULK), *to = calloc(1, BULK);
    relay_t *relay = calloc(1, sizeof(*relay));
    world_t w;

    memset(from, 'o', BULK);
    meet(&w, relay, encrypt);
    w.server.buffer = to;
    say(&w, 1);
    UNTIL(&w, w.server.messages == 1);
    /* The first record is the message; what follows it is the object's. */
    assert_int_equal(crti_stream_send_payload(w.client.stream, CRTI_MSG_OBJECT_DATA, 2,
                                              &body, from, NULL, NULL),
                     CRT_OK);
    atomic_store(&relay->next, what);
    UNTIL(&w, w.server.closed);
    assert_int_equal(w.server.payloads, 0);
    assert_int_equal(w.server.status, what == CUT ? CRT_ERR_IO : CRT_ERR_PROTOCOL);
    part(&w, relay);
    free(relay);
    free(from);
    free(to);
}

static void bulk_bytes_that_were_meddled_with_are_given_to_nobody(void **state)
{
    for (meddling_t what = INJECT; what <= CUT; what++)
        for (int encrypt = 0; encrypt < 2; encrypt++)
            check_payload(what, encrypt);
}

static void messages_are_secret_with_whatever_option(void **state)
{
    crti_msg_kv_value_t body = {.value = crti_span(SECRET, strlen(SECRET))};

    for (int encrypt = 0; encrypt < 2; encrypt++) {
        relay_t *relay = calloc(1, sizeof(*relay));
        world_t w;

        meet(&w, relay, encrypt);
        assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_KV_VALUE, 1, &body),
                         CRT_OK);
        UNTIL(&w, w.server.messages == 1);
        assert_true(relay->seen_size > strlen(SECRET));
        assert_null(memmem(relay->seen, relay->seen_size, SECRET, strlen(SECRET)));
        part(&w, relay);
        free(relay);
    }
}

static void bulk_bytes_are_secret_unless_the_option_is_off(void **state)
{
    crti_msg_object_data_t body = {.length = BULK, .size = BULK};

    for (int encrypt = 0; encrypt < 2; encrypt++) {
        unsigned char *from = malloc(BULK), *to = calloc(1, BULK);
        relay_t *relay = calloc(1, sizeof(*relay));
        world_t w;

        memset(from, 'o', BULK);
        memcpy(from + 5000, SECRET, strlen(SECRET));
        meet(&w, relay, encrypt);
        w.server.buffer = to;
        assert_int_equal(crti_stream_send_payload(w.client.stream, CRTI_MSG_OBJECT_DATA,
                                                  2, &body, from, NULL, NULL),
                         CRT_OK);
        UNTIL(&w, w.server.payloads == 1);
        assert_memory_equal(from, to, BULK);
        assert_int_equal(memmem(relay->seen, relay->seen_size, SECRET, strlen(SECRET)) ==
                             NULL,
                         encrypt);
        part(&w, relay);
        free(relay);
        free(from);
        free(to);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_message_that_was_meddled_with_ends_its_stream_and_nothing_is_believed),
        cmocka_unit_test(bulk_bytes_that_were_meddled_with_are_given_to_nobody),
        cmocka_unit_test(messages_are_secret_with_whatever_option),
        cmocka_unit_test(bulk_bytes_are_secret_unless_the_option_is_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
