/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of what crt-http refuses, and how it says so: URLs and headers that are too large,
 * WebSockets, parameters that it does not know. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "http_fixture.h"

static http_fixture_t shared;

static void assert_answer(const char *path, const char *headers, bool with_token,
                          int code, const char *text)
{
    http_answer_t answer;

    http_request(&shared, "GET", path, headers, with_token, NULL, 0, &answer);
    if (answer.code != code || !strstr(answer.body, text))
        fail_msg("%s: %d %s", path, answer.code, answer.body);
    http_answer_fini(&answer);
}

/* ---------------------------------------------------------------- sizes */

static void a_long_argument_is_taken_or_refused_and_never_left_out(void **state)
{
    static const size_t lengths[] = {500, 511, 512, 513, 1000, 4095, 4096, 7000};
    char path[9000];

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        /* The long one comes first: those behind it count, too. */
        int used = snprintf(path, sizeof(path), "/api/v0/logs/file?filename=");

        memset(path + used, 'a', lengths[i]);
        snprintf(path + used + lengths[i], sizeof(path) - (size_t)used - lengths[i],
                 "&lines=none");
        assert_answer(path, "", true, 400,
                      lengths[i] > 128 ? "at most 128" : "lines must be");
    }
    assert_answer("/api/v0/logs/file?filename=&lines=none", "", true, 400, "give one of");
    assert_answer("/api/v0/logs/file?actor_id=ac01&&lines=none", "", true, 400,
                  "lines must be");
}

static void a_url_that_is_too_long_is_414(void **state)
{
    char path[9000] = "/api/v0/actors?limit=";
    size_t used = strlen(path);

    memset(path + used, '1', 8200);
    path[used + 8200] = '\0';
    assert_answer(path, "", true, 414, "8 KiB");
    memset(path, 'a', 8300);
    path[0] = '/';
    path[8300] = '\0';
    assert_answer(path, "", true, 414, "8 KiB");
}

static void too_many_arguments_are_refused(void **state)
{
    char path[1000] = "/api/v0/actors?limit=1";

    for (int i = 0; i < 30; i++)
        strcat(path, "&timeout=3");
    assert_answer(path, "", true, 400, "too many arguments");
}

static void headers_that_are_too_large_are_431(void **state)
{
    size_t size = 20000;
    char *header = malloc(size);
    int used = snprintf(header, size, "Cookie: a=");

    memset(header + used, 'b', 9000);
    strcpy(header + used + 9000, "\r\n");
    for (int with_token = 0; with_token < 2; with_token++) {
        int fd = http_connect(&shared);
        char start[256];
        http_answer_t answer;

        snprintf(start, sizeof(start),
                 "GET /api/version HTTP/1.1\r\nHost: localhost\r\n");
        http_send(fd, start, strlen(start));
        http_send(fd, header, strlen(header));
        if (with_token) {
            snprintf(start, sizeof(start), "Authorization: Bearer %s\r\n", shared.token);
            http_send(fd, start, strlen(start));
        }
        http_send(fd, "\r\n", 2);
        http_read(fd, &answer);
        assert_int_equal(answer.code, 431);
        assert_non_null(strstr(answer.body, "8 KiB"));
        http_answer_fini(&answer);
        close(fd);
    }
    free(header);
}

/* ---------------------------------------------------------------- upgrades */

#define WEBSOCKET                                                                        \
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: "                   \
    "dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"

static void a_websocket_is_refused_with_a_status_and_a_reason(void **state)
{
    static const char *const paths[] = {"/", "/api/jobs/x/logs/tail", "/api/version"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_answer(paths[i], WEBSOCKET, true, 400, "/logs?offset=N");
    /* Nothing more is said to who has no token, or comes from another site's page. */
    assert_answer("/api/jobs/x/logs/tail", WEBSOCKET, false, 401, "Missing");
    assert_answer("/api/jobs/x/logs/tail", WEBSOCKET "Origin: http://evil.example\r\n",
                  true, 405, "browser");
    assert_answer(
        "/api/version",
        "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: "
        "AAMAAABkAARAAAAAAAIAAAAA\r\n",
        true, 400, "HTTP/1.1");
    assert_answer("/api/version", "", true, 200, "ray_version");
}

static int start_shared(void **state)
{
    http_fixture_start(&shared, "");
    return 0;
}

static int stop_shared(void **state)
{
    http_fixture_stop(&shared);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_argument_is_taken_or_refused_and_never_left_out),
        cmocka_unit_test(a_url_that_is_too_long_is_414),
        cmocka_unit_test(too_many_arguments_are_refused),
        cmocka_unit_test(headers_that_are_too_large_are_431),
        cmocka_unit_test(a_websocket_is_refused_with_a_status_and_a_reason),
    };

    return cmocka_run_group_tests(tests, start_shared, stop_shared);
}
