/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/tail.c: the log of a job over a WebSocket, as Ray's client asks for it (recorded
 * from JobSubmissionClient.tail_job_logs of Ray 2.60, by aiohttp), through a real crt-http. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "http_fixture.h"

#define WEBSOCKET                                                                        \
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"         \
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define ACCEPT  "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
#define PATTERN 43 /* bytes of fake_head's large log that are one line */
#define PLAIN                                                                            \
    "what can be told apart, byte by byte ({[-]})\n" /* the same of its plain one */

static http_fixture_t shared;

static int begin(void **state)
{
    http_fixture_start(&shared, "jobs");
    return 0;
}

static int end(void **state)
{
    http_fixture_stop(&shared);
    return 0;
}

static void submit(const char *id, const char *entrypoint)
{
    http_answer_t answer;
    char body[200];

    snprintf(body, sizeof(body), "{\"entrypoint\":\"%s\",\"submission_id\":\"%s\"}",
             entrypoint, id);
    http_request(&shared, "POST", "/api/jobs/", "Content-Type: application/json\r\n",
                 true, body, strlen(body), &answer);
    assert_int_equal(answer.code, 200);
    http_answer_fini(&answer);
}

static void receive(int fd, void *bytes, size_t size)
{
    for (char *at = bytes; size;) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        ssize_t got = poll(&waiting, 1, 20000) == 1 ? recv(fd, at, size, 0) : 0;

        if (got <= 0)
            fail_msg("the connection ended, or nothing came for 20 s");
        at += got;
        size -= (size_t)got;
    }
}

/* The handshake, up to its last byte. */
static int open_tail_at(const char *id, size_t offset)
{
    char text[1000], head[2000];
    size_t used = 0;
    int fd = http_connect(&shared);

    snprintf(text, sizeof(text),
             "GET /api/jobs/%s/logs/tail?offset=%zu HTTP/1.1\r\nHost: "
             "127.0.0.1:%u\r\n" WEBSOCKET
             "Authorization: Bearer %s\r\nAccept: */*\r\nUser-Agent: Python/3.11 "
             "aiohttp/3.9\r\n\r\n",
             id, offset, shared.port, shared.token);
    http_send(fd, text, strlen(text));
    do {
        assert_true(used < sizeof(head) - 1);
        receive(fd, head + used, 1);
        head[++used] = '\0';
    } while (!strstr(head, "\r\n\r\n"));
    assert_int_equal(strncmp(head, "HTTP/1.1 101 ", 13), 0);
    assert_non_null(strcasestr(head, "sec-websocket-accept: " ACCEPT));
    return fd;
}

static int open_tail(const char *id)
{
    return open_tail_at(id, 0);
}

/* One frame of the server: its first byte. The caller frees the payload. */
static int read_frame(int fd, char **payload_out, size_t *size_out)
{
    unsigned char head[2], length[8];
    uint64_t size;

    receive(fd, head, 2);
    assert_false(head[1] & 0x80); /* a server does not mask */
    size = head[1];
    if (size >= 126) {
        size_t count = size == 126 ? 2 : 8;

        receive(fd, length, count);
        size = 0;
        for (size_t i = 0; i < count; i++)
            size = size << 8 | length[i];
    }
    assert_true(size < 4 << 20); /* what aiohttp takes */
    *payload_out = calloc(1, size + 1);
    receive(fd, *payload_out, size);
    *size_out = size;
    return head[0];
}

static const char pong_wish[] = "\x89\x84\0\0\0\0ping"; /* masked by zeros */

static void a_log_comes_as_text_and_the_end_as_1000(void **state)
{
    static const char expected[] =
        "Running entrypoint for job\nhello\ngr\xc3\xbc\xc3\x9f\x65 \xef\xbf\xbd\n";
    char *text;
    size_t size;
    int fd;

    submit("done", "true");
    fd = open_tail("done");
    assert_int_equal(read_frame(fd, &text, &size), 0x81);
    assert_string_equal(text, expected);
    free(text);
    assert_int_equal(read_frame(fd, &text, &size), 0x88);
    assert_int_equal(size, 2);
    assert_int_equal((unsigned char)text[0] << 8 | (unsigned char)text[1], 1000);
    free(text);
    close(fd);
}

static void a_job_that_runs_is_followed_until_it_is_stopped(void **state)
{
    char *text;
    size_t size;
    int fd;

    submit("runs", "forever");
    fd = open_tail("runs");
    assert_int_equal(read_frame(fd, &text, &size), 0x81);
    free(text);
    http_send(fd, pong_wish, sizeof(pong_wish) - 1);
    assert_int_equal(read_frame(fd, &text, &size), 0x8a);
    assert_string_equal(text, "ping");
    free(text);
    assert_int_equal(http_code(&shared, "POST", "/api/jobs/runs/stop", "", true), 200);
    assert_int_equal(read_frame(fd, &text, &size), 0x88);
    free(text);
    close(fd);
}

static void a_large_log_is_complete_and_in_order(void **state)
{
    size_t size, total = 0, lines = 0;
    char *text;
    int fd, kind;

    submit("big", "large");
    fd = open_tail("big");
    while ((kind = read_frame(fd, &text, &size)) == 0x81) {
        assert_true(memchr(text, '\0', size) == NULL);
        for (size_t i = 0; i < size; i++)
            lines += text[i] == '\n';
        total += size;
        free(text);
    }
    free(text);
    assert_int_equal(kind, 0x88);
    assert_int_equal(lines, ((size_t)64 << 20) / PATTERN);
    assert_true(total > (size_t)64 << 20);
    close(fd);
}

/* Cut by the client, so that the next one has to go on; and once the server's own link to the
 * head. */
static void a_log_goes_on_where_a_connection_was_cut(void **state)
{
    size_t size, total = 0, cuts = 0, frames = 0;
    char *text;
    int fd, kind;

    submit("cut", "large plain");
    fd = open_tail("cut");
    while ((kind = read_frame(fd, &text, &size)) == 0x81) {
        for (size_t i = 0; i < size; i++)
            if (text[i] != PLAIN[(total + i) % (sizeof(PLAIN) - 1)])
                fail_msg("byte %zu is %c", total + i, text[i]);
        total += size;
        free(text);
        if (++frames % 100 == 0 && cuts < 4) {
            struct linger now = {.l_onoff = cuts++ % 2};

            setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
            close(fd);
            fd = open_tail_at("cut", total);
        } else if (frames == 450) {
            assert_int_equal(kill(shared.head, SIGUSR1), 0);
        }
    }
    free(text);
    assert_int_equal(kind, 0x88);
    assert_int_equal(cuts, 4);
    assert_int_equal(total, (size_t)64 << 20);
    close(fd);
}

static void assert_refused(const char *path, bool has_token, int code, const char *text)
{
    http_answer_t answer;

    http_request(&shared, "GET", path, WEBSOCKET, has_token, NULL, 0, &answer);
    assert_int_equal(answer.code, code);
    if (!strstr(answer.body, text))
        fail_msg("\"%s\" is not in \"%s\"", text, answer.body);
    http_answer_fini(&answer);
}

static void the_handshake_says_what_is_wrong(void **state)
{
    assert_refused("/api/jobs/nope/logs/tail", true, 404, "Job nope does not exist");
    assert_refused("/api/jobs/nope/logs/tail", false, 401, "Missing");
    assert_refused("/api/jobs/..%2f/logs/tail", true, 400, "");
    assert_refused("/api/version", true, 400, "the only WebSocket");
    assert_refused("/api/jobs/nope/logs/tail?offset=-1", true, 400, "a number");
    assert_refused("/api/jobs/nope/logs/tail?from=1", true, 400, "takes offset");
    assert_int_equal(http_code(&shared, "GET", "/api/jobs/x/logs/tail", "", true), 400);
}

static void garbage_closes_its_connection_and_no_other(void **state)
{
    static const char *const bad[] = {"\xff\xff\xff\xff\xff\xff\xff\xff",
                                      "\x81\x05hello", /* not masked */
                                      "\x83\x80\1\2\3\4", "\x01\x80\1\2\3\4\x88\xff"};
    int other, fd;
    char *text;
    size_t size;

    submit("stays", "forever");
    other = open_tail("stays");
    assert_int_equal(read_frame(other, &text, &size), 0x81);
    free(text);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fd = open_tail("stays");
        http_send(fd, bad[i], strlen(bad[i]));
        shutdown(fd, SHUT_WR);
        close(fd);
    }
    http_send(other, pong_wish, sizeof(pong_wish) - 1);
    assert_int_equal(read_frame(other, &text, &size), 0x8a);
    free(text);
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_comes_as_text_and_the_end_as_1000),
        cmocka_unit_test(a_job_that_runs_is_followed_until_it_is_stopped),
        cmocka_unit_test(a_large_log_is_complete_and_in_order),
        cmocka_unit_test(a_log_goes_on_where_a_connection_was_cut),
        cmocka_unit_test(the_handshake_says_what_is_wrong),
        cmocka_unit_test(garbage_closes_its_connection_and_no_other),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
