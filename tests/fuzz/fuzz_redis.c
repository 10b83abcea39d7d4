/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: all that an external redis-server may answer to the head (control/redis*.c).
 *
 * The first byte chooses whether there is a password. The rest is a list of steps: what (see
 * `step`), a detail, two bytes of a length, and so many bytes. Answers go out step by step, so that
 * each can meet the command it is for: the password, the prefix, what the server keeps, the rows,
 * and operations of all kinds.
 */
#include "fuzz.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/control/store/redis_int.h"

#define HEAD        4
#define CONNECTIONS 3 /* of one input */

enum { ANSWER, GATHER, STORE, BREAK, STEPS };

typedef struct bed {
    crti_loop_t *loop;
    crti_redis_t *redis;
    int fd; /* the server's side; -1: no connection */
    int connections;
    uint64_t last_ticket, last_done;
    unsigned loaded, failed;
    unsigned char sum;
} bed_t;

static int listener = -1, port;

/* ---------------------------------------------------------------- the head's side */

static void touch(bed_t *bed, crti_span_t span)
{
    for (size_t i = 0; i < span.size; i++)
        bed->sum ^= ((const unsigned char *)span.data)[i];
}

static void on_row(void *user, crti_store_table_t table, crti_span_t key,
                   crti_span_t value)
{
    bed_t *bed = user;

    if (table >= CRTI_STORE_KV || bed->loaded)
        abort();
    touch(bed, key);
    touch(bed, value);
}

static void on_loaded(void *user)
{
    bed_t *bed = user;

    if (++bed->loaded > 1 || bed->failed)
        abort();
}

static void on_warning(void *user, const char *text)
{
    if (!text[0])
        abort();
}

static void on_failed(void *user, const char *text)
{
    bed_t *bed = user;

    if (++bed->failed > 1 || !text[0])
        abort();
}

static void on_process(void *user, pid_t pid)
{
}

static void on_done(void *user, uint64_t ticket, crt_status_t status, const char *text,
                    bool found, crti_span_t value)
{
    bed_t *bed = user;

    if (ticket != ++bed->last_done || (status != CRT_OK && !text[0]))
        abort(); /* each once, in order, with a reason */
    touch(bed, value);
}

static void on_line(void *user, int level, const char *line)
{
}

static void make_listener(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);

    crti_log_set_sink(on_line, NULL);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, size) ||
        listen(listener, 8) || getsockname(listener, (struct sockaddr *)&at, &size))
        abort();
    port = ntohs(at.sin_port);
}

static void make(bed_t *bed, bool has_password)
{
    crti_redis_endpoint_t endpoint = {.ip = "127.0.0.1",
                                      .prefix = "crt",
                                      .password_file = "/a/file",
                                      .owner = "here 127.0.0.1:7 0123456789",
                                      .place_size = sizeof("here 127.0.0.1:7 ") - 1};
    crti_redis_config_t config = {.endpoint = &endpoint,
                                  .user = bed,
                                  .on_row = on_row,
                                  .on_loaded = on_loaded,
                                  .on_warning = on_warning,
                                  .on_failed = on_failed,
                                  .on_process = on_process,
                                  .on_done = on_done};

    if (listener < 0)
        make_listener();
    *bed = (bed_t){.fd = -1};
    endpoint.port = port;
    snprintf(endpoint.address, sizeof(endpoint.address), "127.0.0.1:%d", port);
    snprintf(endpoint.password, sizeof(endpoint.password), "%s",
             has_password ? "secret" : "");
    if (crti_loop_new(&bed->loop) != CRT_OK)
        abort();
    config.loop = bed->loop;
    if (crti_redis_new(&config, &bed->redis) != CRT_OK)
        abort();
}

/* ---------------------------------------------------------------- the server's side */

/* Without a state that keeps the port: there are many. */
static void break_connection(bed_t *bed)
{
    struct linger at_once = {.l_onoff = 1};

    if (bed->fd < 0)
        return;
    setsockopt(bed->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(bed->fd);
    bed->fd = -1;
}

static void turn(bed_t *bed)
{
    char scrap[4096];
    int fd, yes = 1;

    bed->redis->backoff_ns = 1; /* nobody waits here */
    crti_loop_turn(bed->loop, 0);
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        break_connection(bed);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        bed->fd = fd;
        bed->connections++;
    }
    while (bed->fd >= 0 && recv(bed->fd, scrap, sizeof(scrap), 0) > 0)
        ;
}

static void answer(bed_t *bed, crti_span_t data)
{
    if (bed->fd >= 0 && data.size)
        (void)!send(bed->fd, data.data, data.size, MSG_NOSIGNAL);
}

/* The bytes are key, value, and what is expected, a third each. */
static void store(bed_t *bed, uint8_t detail, crti_span_t data)
{
    const char *at = data.data;
    size_t third = data.size / 3;
    crti_store_operation_t operation = {
        .ticket = ++bed->last_ticket,
        .verb = (crti_store_verb_t)(detail % (CRTI_STORE_CLEAR + 1)),
        .table = (crti_store_table_t)(detail / 8 % CRTI_STORE_TABLES),
        .key = crti_span(at, third),
        .value = crti_span(at + third, third),
        .expected = crti_span(at + 2 * third, third)};

    crti_redis_store(bed->redis, &operation);
}

static void step(bed_t *bed, uint8_t what, uint8_t detail, crti_span_t data)
{
    switch (what % STEPS) {
    case ANSWER:
        answer(bed, data);
        for (unsigned i = 0; i < 2u + detail % 2; i++)
            turn(bed);
        break;
    case GATHER: answer(bed, data); break; /* more comes with the next */
    case STORE: store(bed, detail, data); break;
    case BREAK:
        break_connection(bed);
        for (int i = 0; i < 6 && bed->fd < 0 && !bed->failed; i++)
            turn(bed);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bed_t bed;

    if (size == 0)
        return 0;
    make(&bed, data[0] & 1);
    data++;
    size--;
    for (int i = 0; i < 3; i++)
        turn(&bed);
    while (size >= HEAD && !bed.failed && bed.connections <= CONNECTIONS) {
        size_t length = data[2] | (size_t)data[3] << 8;

        if (length > size - HEAD)
            length = size - HEAD;
        step(&bed, data[0], data[1], crti_span(data + HEAD, length));
        data += HEAD + length;
        size -= HEAD + length;
    }
    break_connection(&bed);
    if (!bed.failed)
        turn(&bed);
    crti_redis_free(bed.redis);
    crti_loop_free(bed.loop);
    break_connection(&bed);
    return 0;
}

/* ---------------------------------------------------------------- what a server says */

typedef struct talk {
    uint8_t *out;
    size_t size;
} talk_t;

static void put(talk_t *talk, uint8_t what, uint8_t detail, const char *text)
{
    uint8_t *to = talk->out + talk->size;
    size_t size = strlen(text);

    to[0] = what;
    to[1] = detail;
    to[2] = (uint8_t)size;
    to[3] = (uint8_t)(size >> 8);
    memcpy(to + HEAD, text, size);
    talk->size += HEAD + size;
}

static void put_start(talk_t *talk, bool has_password)
{
    talk->out[talk->size++] = has_password;
    if (has_password)
        put(talk, ANSWER, 0, "+OK\r\n");
    put(talk, ANSWER, 0, ":1\r\n");
    put(talk, GATHER, 0, "$26\r\nloading:0\r\naof_enabled:1\r\n\r\n");
    put(talk, ANSWER, 0, "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n");
    put(talk, ANSWER, 0,
        "*2\r\n$2\r\n17\r\n*4\r\n$1\r\na\r\n$3\r\nrow\r\n$1\r\nb\r\n$0\r\n\r\n");
    for (int i = 0; i < 6; i++)
        put(talk, ANSWER, 0, "*2\r\n$1\r\n0\r\n*2\r\n$3\r\nkey\r\n$3\r\nrow\r\n");
}

static void put_operations(talk_t *talk)
{
    static const char *const answers[] = {"$5\r\nvalue\r\n", ":1\r\n",
                                          "*2\r\n$3\r\nkey\r\n$4\r\nkey2\r\n", "$-1\r\n",
                                          "-OOM command not allowed\r\n"};

    for (uint8_t verb = 0; verb <= CRTI_STORE_CLEAR; verb++)
        put(talk, STORE, verb, "keyvalold");
    for (uint8_t i = 0; i <= CRTI_STORE_CLEAR; i++)
        put(talk, i % 2 ? ANSWER : GATHER, i, answers[i % 5]);
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    talk_t talk = {.out = out};

    if (index > 6 || room < 4096)
        return 0;
    if (index < 4) {
        put_start(&talk, index & 1);
        put_operations(&talk);
        if (index & 2)
            put(&talk, BREAK, 0, "");
        put(&talk, ANSWER, 0, index & 1 ? "+OK\r\n" : ":1\r\n");
        put(&talk, ANSWER, 0, ":1\r\n:1\r\n:1\r\n");
        return talk.size;
    }
    out[talk.size++] = index == 5;
    put(&talk, ANSWER, 0,
        index == 4   ? "*2\r\n$20\r\nthere 10.0.0.1:6379 x\r\n:9000\r\n"
        : index == 5 ? "-WRONGPASS invalid\r\n"
                     : "-NOAUTH Authentication required.\r\n");
    put(&talk, BREAK, 0, "");
    return talk.size;
}
