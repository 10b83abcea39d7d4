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
    static const char *const paths[] = {"/", "/api/jobs/x/logs", "/api/version"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        assert_answer(paths[i], WEBSOCKET, true, 400, "/api/jobs/ID/logs/tail");
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

/* ---------------------------------------------------------------- parameters */

static json_t *get_state(const char *path, int code)
{
    http_answer_t answer;
    json_t *json;

    http_request(&shared, "GET", path, "", true, NULL, 0, &answer);
    if (answer.code != code)
        fail_msg("%s: %d %s", path, answer.code, answer.body);
    json = json_loadb(answer.body, answer.size, 0, NULL);
    assert_non_null(json);
    http_answer_fini(&answer);
    return json;
}

static void a_parameter_that_is_unknown_is_named(void **state)
{
    static const struct {
        const char *path, *text;
    } questions[] = {
        {"/api/v0/actors?colour=red",
         "there is no parameter \"colour\"; this path takes limit, timeout"},
        {"/api/v0/actors?limi=3",
         "there is no parameter \"limi\"; this path takes limit, timeout"},
        {"/api/v0/actors?li\xff\xfe=3",
         "there is no parameter \"li\"; this path takes limit, timeout"},
        {"/api/v0/nodes?limit=3&=4",
         "there is no parameter \"\"; this path takes limit, timeout"},
        {"/api/v0/nodes?limit=3&limit=4", "limit is given twice"},
        {"/api/v0/actors?detail=perhaps", "detail must be"},
        {"/api/v0/actors?limit=", "limit must be"},
        {"/api/v0/actors?timeout=soon", "timeout must be"},
        {"/api/v0/actors?timeout=0", "timeout must be"},
        {"/api/cluster_status?format=xml", "format must be"},
        {"/api/cluster_status?color=1", "there is no parameter"},
        {"/api/v0/logs/file?actor_id=ac01&task_id=3", "give one of"},
        {"/api/v0/logs/file?task_id=3", "48 hex digits"},
        {"/api/v0/logs/file?actor_id=ac01&task=3", "\\\"task\\\""},
        {"/api/jobs/x/logs?ofset=3", "\\\"ofset\\\""},
    };

    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        if (strstr(questions[i].path, "/actors") || strstr(questions[i].path, "/nodes")) {
            /* In the form that Ray's clients show. */
            json_t *reply = get_state(questions[i].path, 400);
            const char *text = json_string_value(json_object_get(reply, "msg"));

            assert_true(json_is_false(json_object_get(reply, "result")));
            if (!strstr(text, questions[i].text))
                fail_msg("%s: %s", questions[i].path, text);
            json_decref(reply);
        } else {
            assert_answer(questions[i].path, "", true, 400, questions[i].text);
        }
    }
}

static void what_rays_clients_send_is_taken(void **state)
{
    static const char *const paths[] = {
        ("/api/v0/actors?limit=100&timeout=24&detail=False&exclude_driver=True&"
         "server_timeout_multiplier=0.8"),
        "/api/v0/nodes?limit=100&timeout=24&detail=true",
        "/api/v0/actors?detail=0",
        "/api/v0/actors?detail=crt&limit=50",
        "/api/v0/actors",
        "/api/v0/actors?",
    };

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        json_decref(get_state(paths[i], 200));
    assert_answer("/api/cluster_status?format=0", "", true, 200, "loadMetricsReport");
}

/* Ids of the rows, with blanks between them; and the counts in Ray's envelope. */
static void assert_rows(const char *path, const char *key, const char *expected,
                        int total, int after_truncation, int filtered)
{
    json_t *reply = get_state(path, 200);
    const json_t *result = json_object_get(json_object_get(reply, "data"), "result");
    const json_t *rows = json_object_get(result, "result");
    char text[500] = "";

    for (size_t i = 0; i < json_array_size(rows); i++) {
        const char *id = json_string_value(json_object_get(json_array_get(rows, i), key));

        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? " " : "",
                 id);
    }
    if (strcmp(text, expected) != 0)
        fail_msg("%s: \"%s\"", path, text);
    assert_int_equal(json_integer_value(json_object_get(result, "total")), total);
    assert_int_equal(json_integer_value(json_object_get(result, "num_after_truncation")),
                     after_truncation);
    assert_int_equal(json_integer_value(json_object_get(result, "num_filtered")),
                     filtered);
    json_decref(reply);
}

#define FILTER(key, predicate, value)                                                    \
    "filter_keys=" key "&filter_predicates=" predicate "&filter_values=" value

static void rows_are_filtered_by_their_columns(void **state)
{
    assert_rows("/api/v0/actors?" FILTER("state", "%3D", "ALIVE"), "class_name",
                "Counter", 3, 3, 1);
    assert_rows("/api/v0/actors?" FILTER("state", "=", "alive"), "class_name", "Counter",
                3, 3, 1);
    assert_rows("/api/v0/actors?" FILTER("state", "!=", "ALIVE"), "class_name",
                "<b>Bold</b> Brief", 3, 3, 2);
    assert_rows("/api/v0/actors?" FILTER("state", "=", "RESTARTING"), "class_name", "", 3,
                3, 0);
    assert_rows("/api/v0/actors?" FILTER("pid", "=", "11"), "name", "tally", 3, 3, 1);
    assert_rows("/api/v0/actors?" FILTER("pid", "!=", "11"), "class_name",
                "<b>Bold</b> Brief", 3, 3, 2);
    /* A column that is not shown, and two filters: both. */
    assert_rows("/api/v0/actors?" FILTER("is_detached", "=", "True"), "name", "tally", 3,
                3, 1);
    assert_rows(
        "/api/v0/actors?" FILTER("job_id", "=", "01") "&" FILTER("state", "=", "DEAD"),
        "class_name", "<b>Bold</b>", 3, 3, 1);
    assert_rows("/api/v0/actors?limit=1&" FILTER("job_id", "=", "01"), "class_name",
                "Counter", 3, 2, 2);
    assert_rows("/api/v0/actors?limit=1", "class_name", "Counter", 3, 1, 3);
    assert_rows("/api/v0/nodes?" FILTER("is_head_node", "=", "false"), "state", "DEAD", 2,
                2, 1);
    /* As `ray get actors ID` asks. */
    assert_rows("/api/v0/actors?detail=True&" FILTER("actor_id", "=",
                                                     "ac000000000000000000000000000002"),
                "class_name", "<b>Bold</b>", 3, 3, 1);
}

static void a_filter_that_can_not_be_done_is_refused(void **state)
{
    static const struct {
        const char *path, *text;
    } questions[] = {
        {"/api/v0/actors?" FILTER("colour", "=", "red"),
         "the filter's key \"colour\" is no column of actors"},
        {"/api/v0/actors?" FILTER("pid", "<", "3"), "are = and !=, not \"<\""},
        {"/api/v0/actors?filter_keys=pid&filter_values=3", "come in equal numbers"},
        {"/api/v0/actors?" FILTER("required_resources", "=", "x"), "can't be filtered"},
        {"/api/v0/actors?" FILTER("death_cause", "=", "x"), "can't be filtered"},
        {"/api/v0/nodes?" FILTER("labels", "=", "x"), "can't be filtered"},
    };

    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        json_t *reply = get_state(questions[i].path, 400);
        const char *text = json_string_value(json_object_get(reply, "msg"));

        if (!strstr(text, questions[i].text))
            fail_msg("%s: %s", questions[i].path, text);
        json_decref(reply);
    }
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
        cmocka_unit_test(a_parameter_that_is_unknown_is_named),
        cmocka_unit_test(what_rays_clients_send_is_taken),
        cmocka_unit_test(rows_are_filtered_by_their_columns),
        cmocka_unit_test(a_filter_that_can_not_be_done_is_refused),
    };

    return cmocka_run_group_tests(tests, start_shared, stop_shared);
}
