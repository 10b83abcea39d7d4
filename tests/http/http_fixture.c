/* SPDX-License-Identifier: Apache-2.0 */
/* See http_fixture.h. */
#include "http_fixture.h"
#include "crt_tools.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/crt.h"

#define SILENCE_MS 20000 /* a large answer may take longer on a busy machine */

/* The value behind " key " in the ready line. */
static void value_of(const char *line, const char *key, char *value, size_t size)
{
    const char *at = strstr(line, key);

    assert_non_null(at);
    at += strlen(key);
    snprintf(value, size, "%.*s", (int)strcspn(at, " \n"), at);
}

void http_fixture_start(http_fixture_t *f, const char *mode)
{
    char line[1024], http[64], key_file[256], fd_text[16];
    int ready[2];
    ssize_t n;

    *f = (http_fixture_t){.directory = "/tmp/crt-http-XXXXXX"};
    assert_non_null(mkdtemp(f->directory));
    snprintf(f->run, sizeof(f->run), "%s/r", f->directory);
    snprintf(f->state, sizeof(f->state), "%s/s", f->directory);
    setenv("CRT_RUN_DIR", f->run, 1);
    setenv("CRT_STATE_DIR", f->state, 1);
    setenv("FAKE_HEAD", mode, 1);
    assert_int_equal(pipe(ready), 0);
    f->head = fork();
    if (f->head == 0) {
        close(ready[0]);
        snprintf(fd_text, sizeof(fd_text), "%d", ready[1]);
        execl(getenv("CRT_TEST_FAKE_HEAD"), "crt-head", "--port", "0", "--dashboard-port",
              "0", "--ready-fd", fd_text, NULL);
        _exit(127);
    }
    close(ready[1]);
    n = read(ready[0], line, sizeof(line) - 1);
    close(ready[0]);
    line[n > 0 ? n : 0] = '\0';
    if (strncmp(line, "ready ", 6) != 0)
        fail_msg("the head said \"%s\"", line);
    value_of(line, " http ", http, sizeof(http));
    value_of(line, " key_file ", key_file, sizeof(key_file));
    value_of(line, " head_dir ", f->head_dir, sizeof(f->head_dir));
    f->port = (unsigned)atoi(strrchr(http, ':') + 1);
    assert_int_equal(crti_cluster_token(key_file, f->token), CRT_OK);
}

void http_fixture_stop(http_fixture_t *f)
{
    char command[96];
    int wait_status;

    kill(f->head, SIGTERM);
    assert_int_equal(waitpid(f->head, &wait_status, 0), f->head);
    assert_int_equal(wait_status, 0); /* of crt-http too: it tells */
    snprintf(command, sizeof(command), "rm -rf %s", f->directory);
    assert_int_equal(system(command), 0);
}

int http_connect(const http_fixture_t *f)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {htonl(INADDR_LOOPBACK)},
                                  .sin_port = htons((uint16_t)f->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* The server may refuse and close while the request is still on its way. */
void http_send(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;

    while (size) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        at += n;
        size -= (size_t)n;
    }
}

/* Where the body begins, and how long it is; false: the headers are not complete. */
static bool parse_head(const char *text, size_t size, size_t *body_at, size_t *body_size)
{
    const char *end = memmem(text, size, "\r\n\r\n", 4);
    const char *length;

    if (!end)
        return false;
    *body_at = (size_t)(end - text) + 4;
    length = strcasestr(text, "\r\ncontent-length:");
    *body_size = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    return true;
}

/* The chunks of a body, one behind the other; false: the last one is not there. */
static bool join_chunks(const char *text, size_t size, char *out, size_t *out_size)
{
    size_t at = 0;

    *out_size = 0;
    while (at < size) {
        char *rest;
        size_t length = strtoul(text + at, &rest, 16);

        if (strncmp(rest, "\r\n", 2) != 0)
            return false;
        at = (size_t)(rest - text) + 2;
        if (length == 0)
            return at + 2 <= size;
        if (length + 2 > size - at)
            return false;
        assert_memory_equal(text + at + length, "\r\n", 2);
        memmove(out + *out_size, text + at, length);
        *out_size += length;
        at += length + 2;
    }
    return false;
}

/* A body in chunks, once its end may be here. */
static bool read_chunks(char *text, size_t used, size_t body_at, http_answer_t *answer)
{
    size_t size;
    char *body;

    if (used < body_at + 5 || memcmp(text + used - 5, "0\r\n\r\n", 5) != 0)
        return false;
    body = malloc(used);
    assert_non_null(body);
    answer->is_whole = join_chunks(text + body_at, used - body_at, body, &size);
    if (answer->is_whole) {
        memcpy(text + body_at, body, size);
        text[body_at + size] = '\0';
        answer->size = size;
    }
    free(body);
    return answer->is_whole;
}

void http_read(int fd, http_answer_t *answer)
{
    size_t capacity = 1 << 16, used = 0, body_at = 0, body_size = 0;
    char *text = malloc(capacity + 1);
    bool has_head = false, has_chunks = false;

    *answer = (http_answer_t){0};
    if (!text)
        abort();
    for (;;) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        ssize_t n;

        text[used] = '\0';
        if (!has_head && (has_head = parse_head(text, used, &body_at, &body_size)))
            has_chunks = memmem(text, body_at, "transfer-encoding: chunked", 26) != NULL;
        if (has_chunks ? read_chunks(text, used, body_at, answer)
                       : has_head && used >= body_at + body_size)
            break;
        if (poll(&waiting, 1, SILENCE_MS) <= 0)
            fail_msg("nothing came for 20 s, only \"%.2000s\"", text);
        if (used == capacity && !(text = realloc(text, (capacity *= 2) + 1)))
            abort();
        n = recv(fd, text + used, capacity - used, 0);
        if (n <= 0) {
            answer->closed = true;
            break;
        }
        used += (size_t)n;
    }
    if (has_head) {
        answer->code = atoi(text + strlen("HTTP/1.1 "));
        snprintf(answer->head, sizeof(answer->head), "%.*s", (int)body_at, text);
        if (!answer->is_whole)
            answer->size = used - body_at;
        memmove(text, text + body_at, answer->size + 1);
    }
    answer->body = text;
}

void http_answer_fini(http_answer_t *answer)
{
    free(answer->body);
    answer->body = NULL;
}

void http_request(const http_fixture_t *f, const char *method, const char *path,
                  const char *headers, bool with_token, const void *body, size_t size,
                  http_answer_t *answer)
{
    char text[16384];
    int fd = http_connect(f);
    int used = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s",
                        method, path, f->port, headers);

    if (with_token)
        used += snprintf(text + used, sizeof(text) - (size_t)used,
                         "Authorization: Bearer %s\r\n", f->token);
    if (body || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0)
        used += snprintf(text + used, sizeof(text) - (size_t)used,
                         "Content-Length: %zu\r\n", size);
    used += snprintf(text + used, sizeof(text) - (size_t)used, "\r\n");
    http_send(fd, text, (size_t)used);
    if (body)
        http_send(fd, body, size);
    http_read(fd, answer);
    close(fd);
}

int http_code(const http_fixture_t *f, const char *method, const char *path,
              const char *headers, bool with_token)
{
    http_answer_t answer;

    http_request(f, method, path, headers, with_token, NULL, 0, &answer);
    http_answer_fini(&answer);
    return answer.code;
}
