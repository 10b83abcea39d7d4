/* SPDX-License-Identifier: Apache-2.0 */
/* Streams over loopback: who is let in, and what a bad peer costs. */
#include "stream_test.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "runtime/base/limit.h"
#include "runtime/net/stream_int.h"
#include "runtime/net/tls.h"
#include "tests/net/tls_write.h"

/* ---------------------------------------------------------------- who is let in */

static void another_key_is_refused_and_says_so(void **state)
{
    crti_stream_context_t *other;
    world_t w;

    world_start(&w, true);
    assert_int_equal(crti_stream_context_new(&world_other_key, true, &other), CRT_OK);
    world_connect(&w, other, 5000);
    UNTIL(&w, w.client.closed);
    assert_int_equal(w.client.status, CRT_ERR_PERMISSION);
    assert_non_null(strstr(w.client.text, "keys"));
    UNTIL(&w, crti_stream_listener_refused(w.listener) == 1);
    assert_int_equal(w.server.opened, 0);
    crti_stream_context_free(other);
    world_stop(&w);
}

static void nobody_listening_is_told_from_no_answer(void **state)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof(here);
    int fd = socket(AF_INET, SOCK_STREAM, 0), more[4];
    world_t w;

    world_start(&w, true);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
    getsockname(fd, (struct sockaddr *)&here, &size);
    snprintf(w.address, sizeof(w.address), "127.0.0.1:%u", ntohs(here.sin_port));
    world_connect(&w, w.context, 5000);
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
    world_connect(&w, w.context, 200);
    UNTIL(&w, w.client.closed);
    assert_int_equal(w.client.status, CRT_ERR_TIMED_OUT);
    for (int i = 0; i < 4; i++)
        close(more[i]);
    close(fd);
    world_stop(&w);
}

static void a_listener_that_says_nothing_is_given_up(void **state)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof(here);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    world_t w;

    world_start(&w, true);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(listen(fd, 10), 0);
    getsockname(fd, (struct sockaddr *)&here, &size);
    snprintf(w.address, sizeof(w.address), "127.0.0.1:%u", ntohs(here.sin_port));
    world_connect(&w, w.context, 100);
    UNTIL(&w, w.client.closed);
    assert_int_equal(w.client.status, CRT_ERR_TIMED_OUT);
    assert_non_null(strstr(w.client.text, "handshake"));
    close(fd);
    world_stop(&w);
}

static void a_taken_port_is_named(void **state)
{
    crti_stream_listener_t *second = NULL;
    char port[16];
    world_t w;

    world_start(&w, true);
    assert_int_equal(crti_stream_listen(w.loop, w.context, "127.0.0.1",
                                        crti_stream_listener_port(w.listener),
                                        world_accept, &w, &second),
                     CRT_ERR_EXISTS);
    snprintf(port, sizeof(port), "%u", crti_stream_listener_port(w.listener));
    assert_non_null(strstr(crt_error_detail(), port));
    assert_null(second);
    world_stop(&w);
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

    world_start(&w, true);
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
    world_stop(&w);
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

    crti_key_stream(&world_key, psk);
    if (crti_tls_context_new(psk, true, &context) != CRT_OK ||
        crti_tls_new(context, fd, false, &tls) != CRT_OK)
        abort();
    if (crti_tls_handshake(tls) != CRT_OK ||
        tls_write(tls, data, size, &done) != CRT_OK || done != size)
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

    world_start(&w, true);
    world_join(&w);
    for (int i = 0; i < 4; i++) {
        raw_start(&w, &raws[i]);
        UNTIL(&w, crti_stream_listener_refused(w.listener) == (uint64_t)i + 1);
        pthread_join(raws[i].thread, NULL);
    }
    assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_DONE, 1, NULL), CRT_OK);
    UNTIL(&w, w.server.messages == 1); /* the others notice nothing */
    world_stop(&w);
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
        {"\x05\0\0\0he", 6, CRT_ERR_IO},                         /* dies in the frame */
        {"\x05\0", 2, CRT_ERR_IO},                               /* dies in the length */
        {"", 0, CRT_ERR_IO},                                     /* says no goodbye */
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        raw_t raw = {.act = send_inside, .data = cases[i].data, .size = cases[i].size};
        world_t w;

        world_start(&w, true);
        raw_start(&w, &raw);
        UNTIL(&w, w.server.closed);
        assert_int_equal(w.server.status, cases[i].status);
        assert_int_equal(w.server.messages, 0);
        pthread_join(raw.thread, NULL);
        world_stop(&w);
    }
}

static void an_end_inside_a_message_is_no_orderly_one(void **state)
{
    crti_msg_object_data_t body = {.length = 100, .size = 100};

    for (int encrypt = 0; encrypt < 2; encrypt++) {
        world_t w;

        world_start(&w, encrypt);
        world_join(&w);
        crti_stream_send(w.client.stream, CRTI_MSG_OBJECT_DATA, 1, &body);
        crti_stream_close(w.client.stream); /* without the 100 bytes */
        UNTIL(&w, w.server.closed);
        assert_int_equal(w.server.status, CRT_ERR_IO);
        assert_non_null(strstr(w.server.text, "ended inside a message"));
        assert_int_equal(w.server.payloads, 0);
        world_stop(&w);
    }
}

enum { SILENT = 800 };

/* Connections that send the first `size` bytes of a ClientHello and then nothing; an honest peer
 * that comes behind all of them is served within a second. */
static void join_behind(size_t size, int fds[SILENT], world_t *w)
{
    static const unsigned char hello[] = {0x16, 3, 1, 1, 0, 1};
    uint64_t begun;

    world_start(w, true);
    for (int i = 0; i < SILENT; i++) {
        fds[i] = connect_raw(crti_stream_listener_port(w->listener));
        assert_int_equal(send(fds[i], hello, size, 0), size);
    }
    begun = crti_now_ns();
    world_join(w);
    assert_true(crti_now_ns() - begun < CRTI_S);
    assert_int_equal(crti_stream_send(w->client.stream, CRTI_MSG_DONE, 1, NULL), CRT_OK);
    UNTIL(w, w->server.messages == 1);
}

static void leave(const int fds[SILENT], world_t *w)
{
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
    world_stop(w);
}

static void silent_connections_keep_nobody_out(void **state)
{
    int fds[SILENT];
    world_t w;

    join_behind(0, fds, &w);
    leave(fds, &w);
}

static void connections_that_only_begin_to_speak_end_and_keep_nobody_out(void **state)
{
    int fds[SILENT];
    world_t w;

    for (size_t size = 1; size <= 6; size += 5) { /* within the header, and behind it */
        join_behind(size, fds, &w);
        UNTIL(&w, crti_stream_listener_refused(w.listener) == SILENT);
        leave(fds, &w);
    }
}

/* The first record of an honest peer, as somebody on the way reads it. */
static size_t record_greeting(world_t *w, unsigned char *greeting, size_t size)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t length = sizeof(here);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;
    char address[CRTI_STREAM_ADDRESS];
    ssize_t got;

    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(listening, (struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(listen(listening, 1), 0);
    getsockname(listening, (struct sockaddr *)&here, &length);
    memcpy(address, w->address, sizeof(address));
    snprintf(w->address, sizeof(w->address), "127.0.0.1:%u", ntohs(here.sin_port));
    world_connect(w, w->context, 5000);
    memcpy(w->address, address, sizeof(address));
    fd = accept(listening, NULL, NULL);
    UNTIL(w, recv(fd, greeting, size, MSG_PEEK | MSG_DONTWAIT) > 0);
    got = recv(fd, greeting, size, 0);
    assert_int_equal(got, (greeting[3] << 8 | greeting[4]) + 5);
    crti_stream_free(w->client.stream);
    w->client = (end_t){0};
    close(fd);
    close(listening);
    return (size_t)got;
}

static int connect_from(const char *ip, uint16_t port)
{
    struct sockaddr_in from = {.sin_family = AF_INET},
                       to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(inet_pton(AF_INET, ip, &from.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* A clock that stands while this thread runs or waits for a processor, which takes longer on a busy
 * machine. */
static uint64_t idle_clock_ns(void)
{
    unsigned long long ran = 0, waited = 0;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");

    if (file && fscanf(file, "%llu %llu", &ran, &waited) != 2)
        ran = waited = 0; /* the system does not count */
    if (file)
        fclose(file);
    return crti_now_ns() - ran - waited;
}

static void recorded_greetings_from_one_address_keep_nobody_out(void **state)
{
    enum { COPIES = 400 }; /* 6 s and more when each has a second */
    unsigned char greeting[2048];
    int fds[COPIES];
    uint64_t begun;
    size_t size;
    world_t w;

    world_start(&w, true);
    size = record_greeting(&w, greeting, sizeof(greeting));
    for (int i = 0; i < COPIES; i++) {
        fds[i] = connect_from("127.0.0.2", crti_stream_listener_port(w.listener));
        assert_int_equal(send(fds[i], greeting, size, 0), size);
    }
    begun = idle_clock_ns();
    world_join(&w);
    assert_true(idle_clock_ns() - begun < 3 * CRTI_S);
    for (int i = 0; i < COPIES; i++)
        close(fds[i]);
    world_stop(&w);
}

static void who_has_the_key_and_says_nothing_is_closed(void **state)
{
    world_t w;

    world_start(&w, true);
    world_join(&w);
    UNTIL(&w, w.server.closed);
    assert_int_equal(w.server.status, CRT_ERR_TIMED_OUT);
    assert_non_null(strstr(w.server.text, "did not say who it is"));
    world_stop(&w);
}

static void who_has_spoken_may_be_silent(void **state)
{
    uint64_t end;
    world_t w;

    world_start(&w, true);
    world_join(&w);
    assert_int_equal(crti_stream_send(w.client.stream, CRTI_MSG_DONE, 1, NULL), CRT_OK);
    end = crti_now_ns() + CRTI_LIMIT(handshake_timeout) + 500 * CRTI_MS;
    while (crti_now_ns() < end)
        assert_int_equal(crti_loop_turn(w.loop, end), CRT_OK);
    assert_false(w.server.closed);
    assert_int_equal(w.server.messages, 1);
    world_stop(&w);
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

    world_start(&w, true);
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
    world_stop(&w);
}

/* With the right key, but never reads; `data` is a pipe that says when to go. */
static void never_read(int fd, const void *data, size_t size)
{
    const int *pipe_fd = data;
    char byte;

    send_inside(fd, "\x05\0", 2);
    (void)!read(*pipe_fd, &byte, 1);
}

/* Answers each message with `size` bytes. */
typedef struct answerer {
    size_t size;
    unsigned char *bytes;
    int asked, sent;
} answerer_t;

static void count_answer(void *user, crt_status_t status)
{
    ((answerer_t *)user)->sent += status == CRT_OK;
}

static void answer(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    answerer_t *a = user;
    crti_msg_object_data_t body = {.length = a->size, .size = a->size};

    a->asked++;
    assert_int_equal(crti_stream_send_payload(stream, CRTI_MSG_OBJECT_DATA, m->request,
                                              &body, a->bytes, count_answer, a),
                     CRT_OK);
}

static void ask_without_reading(size_t size, int questions, size_t within, int most)
{
    answerer_t answerer = {.size = size, .bytes = calloc(1, size)};
    crti_stream_handlers_t handlers = {.user = &answerer, .on_message = answer};
    crti_msg_object_get_t get = {.length = size};
    world_t w;

    world_start(&w, true);
    world_join(&w);
    crti_stream_set_handlers(w.server.stream, &handlers);
    crti_stream_limit_replies(w.server.stream, within);
    w.client.hold = true;
    for (int i = 1; i <= questions; i++)
        crti_stream_send(w.client.stream, CRTI_MSG_OBJECT_GET, (uint64_t)i, &get);
    UNTIL(&w, w.client.messages == 1);
    for (uint64_t end = crti_now_ns() + 300 * CRTI_MS; crti_now_ns() < end;)
        crti_loop_turn(w.loop, end);
    assert_in_range(answerer.asked, 1, most);
    assert_int_equal(w.client.messages, 1);
    w.client.hold = false;
    crti_stream_resume(w.client.stream);
    UNTIL(&w, w.client.messages == questions);
    assert_true(w.client.in_order);
    assert_int_equal(answerer.asked, questions);
    UNTIL(&w, answerer.sent == questions);
    world_stop(&w);
    free(answerer.bytes);
}

/* What is asked at most: what waits, and what the sockets of both sides hold. */
static void who_asks_without_reading_is_read_no_more_until_it_reads(void **state)
{
    ask_without_reading((size_t)1 << 20, 200, (size_t)4 << 20, 40);
    ask_without_reading(4096, 20000, (size_t)1 << 30, 8000); /* by their number */
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
    world_start(&w, true);
    raw_start(&w, &raw);
    UNTIL(&w, w.server.opened);
    for (; status == CRT_OK && accepted < 200; accepted++) {
        status = crti_stream_send(w.server.stream, CRTI_MSG_KV_VALUE, 1, &body);
        assert_int_equal(crti_loop_turn(w.loop, 0), CRT_OK);
    }
    assert_int_equal(status, CRT_ERR_BACKPRESSURE);
    assert_true(crti_stream_queued(w.server.stream) < CRTI_LIMIT(link_queue) + 2 * size);
    close(fds[1]);
    pthread_join(raw.thread, NULL);
    close(fds[0]);
    free(value);
    world_stop(&w);
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

    world_start(&w, true);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(listen(fd, 10), 0);
    getsockname(fd, (struct sockaddr *)&here, &size);
    snprintf(w.address, sizeof(w.address), "127.0.0.1:%u", ntohs(here.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, false_server, &fd), 0);
    world_connect(&w, w.context, 5000);
    UNTIL(&w, w.client.closed);
    assert_int_equal(w.client.opened, 0);
    assert_int_equal(w.client.status, CRT_ERR_PROTOCOL);
    pthread_join(thread, NULL);
    close(fd);
    world_stop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_key_is_refused_and_says_so),
        cmocka_unit_test(nobody_listening_is_told_from_no_answer),
        cmocka_unit_test(a_listener_that_says_nothing_is_given_up),
        cmocka_unit_test(a_taken_port_is_named),
        cmocka_unit_test(addresses_are_checked),
        cmocka_unit_test(strangers_get_no_further_than_the_handshake),
        cmocka_unit_test(many_more_than_may_be_strangers_come_at_once_and_all_are_taken),
        cmocka_unit_test(malformed_frames_close_their_stream_with_the_reason),
        cmocka_unit_test(an_end_inside_a_message_is_no_orderly_one),
        cmocka_unit_test(silent_connections_keep_nobody_out),
        cmocka_unit_test(connections_that_only_begin_to_speak_end_and_keep_nobody_out),
        cmocka_unit_test(recorded_greetings_from_one_address_keep_nobody_out),
        cmocka_unit_test(who_has_the_key_and_says_nothing_is_closed),
        cmocka_unit_test(who_has_spoken_may_be_silent),
        cmocka_unit_test(a_peer_that_does_not_read_costs_bounded_memory),
        cmocka_unit_test(who_asks_without_reading_is_read_no_more_until_it_reads),
        cmocka_unit_test(a_server_with_a_certificate_instead_of_the_key_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
