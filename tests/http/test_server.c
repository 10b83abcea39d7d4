/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of crt-http as a process, over TCP, with a head that answers from memory (fake_head):
 * http/server.c, exchange.c, endpoints.c, head_link.c. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <sodium.h>

#include "http_fixture.h"
#include "runtime/base/clock.h"

static http_fixture_t shared;

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

static json_t *get_json(const char *path, int code)
{
    http_answer_t answer;
    json_t *json;

    http_request(&shared, "GET", path, "", true, NULL, 0, &answer);
    if (answer.code != code)
        fail_msg("%s: %d %s", path, answer.code, answer.body);
    json = json_loadb(answer.body, answer.size, JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    http_answer_fini(&answer);
    return json;
}

/* An error is JSON, whatever its path. */
static void assert_error(const http_answer_t *answer, const char *text)
{
    json_t *json = json_loadb(answer->body, answer->size, 0, NULL);
    const char *message = json_string_value(json_object_get(json, "msg"));

    if (!message)
        message =
            json_string_value(json_object_get(json_object_get(json, "error"), "message"));
    assert_non_null(strstr(answer->head, "application/json"));
    if (!message || !strstr(message, text))
        fail_msg("%d %s", answer->code, answer->body);
    json_decref(json);
}

static void assert_text(const char *method, const char *path, const char *headers,
                        bool with_token, const char *body, int code, const char *text)
{
    http_answer_t answer;

    http_request(&shared, method, path, headers, with_token, body,
                 body ? strlen(body) : 0, &answer);
    if (answer.code != code || (code < 400 && !strstr(answer.body, text)))
        fail_msg("%s %s: %d %s", method, path, answer.code, answer.body);
    if (code >= 400)
        assert_error(&answer, text);
    http_answer_fini(&answer);
}

/* ---------------------------------------------------------------- the page and the doors */

static void the_page_is_served_without_a_token_and_with_its_safety_headers(void **state)
{
    static const char *const headers[] = {
        "content-security-policy: default-src 'none'", "x-content-type-options: nosniff",
        "x-frame-options: DENY", "referrer-policy: no-referrer",
        "cache-control: no-store"};
    http_answer_t answer;

    http_request(&shared, "GET", "/", "", false, NULL, 0, &answer);
    assert_int_equal(answer.code, 200);
    assert_non_null(strstr(answer.body, "<!doctype html>"));
    assert_null(strstr(answer.body, "http://")); /* nothing from elsewhere */
    assert_null(strstr(answer.body, "https://"));
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
        assert_non_null(strstr(answer.head, headers[i]));
    http_answer_fini(&answer);
    assert_int_equal(http_code(&shared, "GET", "/static/page.js", "", false), 200);
    assert_int_equal(http_code(&shared, "GET", "/static/page.css", "", false), 200);
    assert_int_equal(http_code(&shared, "GET", "/static/table.js", "", false), 200);
    assert_int_equal(http_code(&shared, "GET", "/static/other.js", "", false), 404);
    assert_int_equal(http_code(&shared, "GET", "/favicon.ico", "", false), 200);
}

/* Up to the empty line, and what came with it. */
static void read_headers(int fd, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    while (!strstr(text, "\r\n\r\n")) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        ssize_t n;

        assert_int_equal(poll(&waiting, 1, 20000), 1);
        n = recv(fd, text + used, size - 1 - used, 0);
        assert_true(n > 0);
        used += (size_t)n;
        text[used] = '\0';
    }
}

static void head_has_the_headers_and_no_body(void **state)
{
    static const char head[] = "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static const char get[] = "GET /api/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int fd = http_connect(&shared);
    char text[4096];
    http_answer_t answer;

    http_send(fd, head, strlen(head));
    read_headers(fd, text, sizeof(text));
    assert_int_equal(strncmp(text, "HTTP/1.1 200", 12), 0);
    assert_non_null(strstr(text, "text/html"));
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
    /* The next answer on the connection begins where a body would. */
    http_send(fd, get, strlen(get));
    http_read(fd, &answer);
    assert_int_equal(answer.code, 200);
    assert_string_equal(answer.body, "success");
    http_answer_fini(&answer);
    close(fd);
}

static void a_path_with_dots_does_not_leave_the_static_folder(void **state)
{
    static const char *const paths[] = {
        "/static/../../etc/passwd", "/static/%2e%2e/page.js",
        "/static/..%2f..%2fetc/passwd", "/static//etc/passwd"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        http_answer_t answer;

        http_request(&shared, "GET", paths[i], "", true, NULL, 0, &answer);
        assert_true(answer.code == 404 || answer.code == 403 || answer.code == 0);
        http_answer_fini(&answer);
    }
}

static void nothing_is_told_without_the_token(void **state)
{
    static const char *const paths[] = {
        "/api/version",   "/api/cluster_status", "/api/jobs/",
        "/api/v0/actors", "/api/jobs/x/logs",    "/api/v0/logs/file?actor_id=ac01"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        assert_text("GET", paths[i], "", false, NULL, 401,
                    "Unauthorized: Missing authentication token");
        assert_text("GET", paths[i], "Authorization: Bearer nonsense\r\n", false, NULL,
                    403, "Forbidden: Invalid authentication token");
    }
    assert_text("POST", "/api/jobs/", "", false, "{\"entrypoint\":\"x\"}", 401,
                "Missing");
    assert_text("PUT", "/api/packages/crt/00", "", false, "x", 401, "Missing");
}

static void the_token_is_taken_from_rays_header_too(void **state)
{
    char header[128];

    snprintf(header, sizeof(header), "X-Ray-Authorization: Bearer %s\r\n", shared.token);
    assert_int_equal(http_code(&shared, "GET", "/api/version", header, false), 200);
    snprintf(header, sizeof(header), "aUTHORIZATION: Bearer %s\r\n", shared.token);
    assert_int_equal(http_code(&shared, "GET", "/api/version", header, false), 200);
}

/* What a page gets for a token or a code, and shows from then on. */
static void sign_in(const char *header, char session[65])
{
    http_answer_t answer;
    json_t *json;

    http_request(&shared, "POST", "/api/authenticate", header, !*header, NULL, 0,
                 &answer);
    assert_int_equal(answer.code, 200);
    assert_null(strstr(answer.head, "set-cookie"));
    assert_null(strstr(answer.body, shared.token));
    json = json_loads(answer.body, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(json, "expires_s")), 2592000);
    snprintf(session, 65, "%s", json_string_value(json_object_get(json, "session")));
    json_decref(json);
    http_answer_fini(&answer);
}

static void signing_in_gives_a_session_that_opens_the_rest(void **state)
{
    char header[200], session[65];

    sign_in("", session);
    snprintf(header, sizeof(header), "X-CRT-Session: %s\r\n", session);
    assert_int_equal(http_code(&shared, "GET", "/api/version", header, false), 200);
    snprintf(header, sizeof(header), "Authorization: Bearer %s\r\n", session);
    assert_int_equal(http_code(&shared, "GET", "/api/version", header, false), 403);
    assert_text("POST", "/api/authenticate", "", false, NULL, 401, "Missing");
    assert_text("POST", "/api/authenticate", "Authorization: Bearer x\r\n", false, NULL,
                403, "Invalid");
    assert_text("GET", "/api/authentication_mode", "", false, NULL, 200,
                "{\"authentication_mode\":\"token\",\"token_generation\":0}");
}

/* They go to every port of a host. */
static void a_cookie_is_worth_nothing(void **state)
{
    char header[200], session[65];

    sign_in("", session);
    snprintf(header, sizeof(header),
             "Cookie: crt-authentication-%u=%s; X-CRT-Session=%s\r\n", shared.port,
             session, session);
    assert_int_equal(http_code(&shared, "GET", "/api/version", header, false), 401);
    assert_int_equal(http_code(&shared, "POST", "/api/jobs/", header, false), 401);
}

static void a_link_signs_in_once(void **state)
{
    char header[200], session[65], code[64];
    http_answer_t answer;
    json_t *json;

    assert_text("POST", "/api/authenticate/code", "", false, NULL, 401, "Missing");
    http_request(&shared, "POST", "/api/authenticate/code", "", true, NULL, 0, &answer);
    assert_int_equal(answer.code, 200);
    json = json_loads(answer.body, 0, NULL);
    snprintf(code, sizeof(code), "%s", json_string_value(json_object_get(json, "code")));
    assert_int_equal(strlen(code), 32);
    assert_non_null(
        strstr(json_string_value(json_object_get(json, "url")), "http://127.0.0.1:"));
    json_decref(json);
    http_answer_fini(&answer);
    snprintf(header, sizeof(header), "Authorization: Bearer %s\r\n", code);
    assert_int_equal(http_code(&shared, "GET", "/api/version", header, false), 403);
    snprintf(header, sizeof(header), "Authorization: Code %s\r\n", code);
    assert_int_equal(http_code(&shared, "GET", "/api/version", header, false), 403);
    sign_in(header, session);
    assert_text("POST", "/api/authenticate", header, false, NULL, 403, "Invalid");
    snprintf(header, sizeof(header), "X-CRT-Session: %s\r\n", session);
    assert_int_equal(http_code(&shared, "GET", "/api/version", header, false), 200);
}

static void another_sites_page_can_change_nothing_even_with_the_session(void **state)
{
    char header[300], session[65];

    sign_in("", session);
    snprintf(header, sizeof(header),
             "Origin: http://evil.example\r\nX-CRT-Session: %s\r\n", session);
    assert_text("POST", "/api/jobs/", header, false, "{\"entrypoint\":\"x\"}", 405,
                "Method Not Allowed for browser traffic.");
    assert_int_equal(http_code(&shared, "DELETE", "/api/jobs/x", header, false), 405);
    assert_text("POST", "/api/authenticate", "Sec-Fetch-Site: cross-site\r\n", true, NULL,
                405, "browser");
}

static void a_rebound_name_is_refused(void **state)
{
    int fd = http_connect(&shared);
    char request[256];
    http_answer_t answer;

    snprintf(
        request, sizeof(request),
        "GET /api/version HTTP/1.1\r\nHost: evil.example:%u\r\nAuthorization: Bearer "
        "%s\r\n\r\n",
        shared.port, shared.token);
    http_send(fd, request, strlen(request));
    http_read(fd, &answer);
    assert_int_equal(answer.code, 403);
    assert_non_null(strstr(answer.body, "unknown Host"));
    http_answer_fini(&answer);
    close(fd);
}

/* ---------------------------------------------------------------- state */

static void version_and_health_are_as_rays_clients_want_them(void **state)
{
    json_t *version = get_json("/api/version", 200);

    assert_string_equal(json_string_value(json_object_get(version, "version")), "4");
    assert_string_equal(json_string_value(json_object_get(version, "ray_version")),
                        "2.52.0");
    json_decref(version);
    assert_text("GET", "/api/healthz", "", false, NULL, 200, "success");
    assert_text("GET", "/-/healthz", "", false, NULL, 200, "success");
}

static void the_clusters_state_comes_as_json_and_as_text(void **state)
{
    json_t *reply = get_json("/api/cluster_status", 200);
    json_t *status = json_object_get(json_object_get(reply, "data"), "clusterStatus");
    json_t *usage =
        json_object_get(json_object_get(status, "loadMetricsReport"), "usage");

    assert_true(json_number_value(json_array_get(json_object_get(usage, "CPU"), 0)) ==
                1.5);
    json_decref(reply);
    assert_text("GET", "/api/cluster_status?format=1", "", true, NULL, 200,
                " 1.5/2.0 CPU\\n");
    reply = get_json("/api/v0/nodes?detail=True", 200);
    json_decref(reply);
    reply = get_json("/api/v0/actors?limit=1", 200);
    json_decref(reply);
    reply = get_json("/api/v0/actors?limit=10001", 400);
    assert_true(json_is_false(json_object_get(reply, "result")));
    json_decref(reply);
}

/* ---------------------------------------------------------------- jobs */

static void submit(const char *id, const char *entrypoint)
{
    char body[256], expected[256];
    http_answer_t answer;

    snprintf(body, sizeof(body), "{\"entrypoint\":\"%s\",\"submission_id\":\"%s\"}",
             entrypoint, id);
    http_request(&shared, "POST", "/api/jobs/", "", true, body, strlen(body), &answer);
    snprintf(expected, sizeof(expected), "{\"job_id\":\"%s\",\"submission_id\":\"%s\"}",
             id, id);
    assert_int_equal(answer.code, 200);
    assert_string_equal(answer.body, expected); /* no other key */
    http_answer_fini(&answer);
}

static void a_job_is_submitted_listed_and_read(void **state)
{
    json_t *reply;

    submit("one", "echo one");
    reply = get_json("/api/jobs/one", 200);
    assert_string_equal(json_string_value(json_object_get(reply, "status")), "SUCCEEDED");
    json_decref(reply);
    reply = get_json("/api/jobs/", 200);
    assert_true(json_array_size(reply) >= 1);
    json_decref(reply);
    reply = get_json("/api/jobs/one/logs", 200);
    assert_int_equal(json_object_size(reply), 1);
    assert_string_equal(json_string_value(json_object_get(reply, "logs")),
                        "Running entrypoint for job\nhello\ngr\xc3\xbc\xc3\x9f"
                        "e \xef\xbf\xbd\n");
    json_decref(reply);
    reply = get_json("/api/jobs/one/logs?offset=33&wait_ms=10", 200);
    assert_int_equal(json_object_size(reply), 4);
    assert_true(json_is_true(json_object_get(reply, "ended")));
    json_decref(reply);
    assert_text("GET", "/api/v0/logs/file?actor_id=ac01&lines=2", "", true, NULL, 200,
                "hello\ngr");
}

/* More than a socket takes at once: what is left is written when there is room. */
static void a_large_submission_is_taken_at_once(void **state)
{
    static char body[900000];
    http_answer_t answer;
    size_t size = (size_t)snprintf(body, sizeof(body),
                                   "{\"entrypoint\":\"true\",\"submission_id\":\"large\","
                                   "\"metadata\":{\"m\":\"");
    uint64_t began = crti_now_ns();

    memset(body + size, 'x', sizeof(body) - size - 4);
    strcpy(body + sizeof(body) - 4, "\"}}");
    http_request(&shared, "POST", "/api/jobs/", "", true, body, strlen(body), &answer);
    assert_int_equal(answer.code, 200);
    http_answer_fini(&answer);
    assert_true(crti_now_ns() - began < 9 * CRTI_S); /* not when the head is given up */
}

/* It was taken, or it was not: the answer says which of both. */
static void a_submission_that_the_head_did_not_answer_is_looked_for(void **state)
{
    submit("unheard", "unheard");
    assert_text("POST", "/api/jobs/", "", true,
                "{\"entrypoint\":\"lost\",\"submission_id\":\"lost\"}", 503,
                "the head did not hear of it; try again");
    assert_text("GET", "/api/jobs/lost", "", true, NULL, 404, "does not exist");
}

/* libwebsockets ends the connection at a zero, and the line at the end of a line; we refuse the
 * others. */
static void a_path_holds_no_control_characters(void **state)
{
    static const char *const refused[] = {"/api/jobs/one%00two", "/api/version%00",
                                          "/api/jobs/one%0atwo", "/api/version%0dtwo",
                                          "/api/version%0d%0aX-A:%20b"};

    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        int code = http_code(&shared, "GET", refused[i], "", true);

        assert_true(code == 0 || code == 400 || code == 403);
    }
    assert_int_equal(http_code(&shared, "GET", "/api/jobs/one%1ftwo", "", true), 400);
    assert_int_equal(http_code(&shared, "POST", "/api/actors/a/b%01c/d", "", true), 400);
    assert_int_equal(http_code(&shared, "GET", "/static/%7f", "", true), 400);
}

static void what_is_nested_deep_is_not_submitted(void **state)
{
    char body[8192] = "{\"entrypoint\":\"x\",\"runtime_env\":{\"_x\":";
    size_t at = strlen(body);

    memset(body + at, '[', 2045);
    memset(body + at + 2045, ']', 2045);
    strcpy(body + at + 2 * 2045, "}}");
    assert_text("POST", "/api/jobs/", "", true, body, 400, "the limit is 33");
    assert_text("POST", "/api/jobs/", "", true,
                "{\"entrypoint\":\"x\",\"metadata\":{\"k\":\"a\\u0000b\"}}", 400,
                "\"metadata\" holds a zero character");
    assert_text("POST", "/api/jobs/", "", true,
                "{\"entrypoint\":\"x\",\"runtime_env\":{\"_k\":\"a\\u0000b\"}}", 400,
                "\"runtime_env\" holds a zero character");
}

static void the_same_id_twice_is_refused_in_rays_words(void **state)
{
    submit("twice", "true");
    assert_text("POST", "/api/jobs/", "", true,
                "{\"entrypoint\":\"x\",\"submission_id\":\"twice\"}", 400,
                "Job with submission_id twice already exists. Please use a different "
                "submission_id.");
}

static void a_job_is_stopped_once(void **state)
{
    submit("long", "sleep forever");
    assert_text("POST", "/api/jobs/long/stop", "", true, NULL, 200, "{\"stopped\":true}");
    assert_text("POST", "/api/jobs/long/stop", "", true, NULL, 200,
                "{\"stopped\":false}");
    assert_text("GET", "/api/jobs/long", "", true, NULL, 200, "\"STOPPED\"");
}

static void only_an_ended_job_is_deleted(void **state)
{
    submit("busy", "sleep forever");
    assert_text(
        "DELETE", "/api/jobs/busy", "", true, NULL, 500,
        "Attempted to delete job 'busy', but it is in a non-terminal state RUNNING.");
    assert_text("POST", "/api/jobs/busy/stop", "", true, NULL, 200, "true");
    assert_text("DELETE", "/api/jobs/busy", "", true, NULL, 200, "{\"deleted\":true}");
    assert_text("GET", "/api/jobs/busy", "", true, NULL, 404, "Job busy does not exist");
}

static void an_unknown_job_is_404_everywhere(void **state)
{
    assert_text("GET", "/api/jobs/none", "", true, NULL, 404, "Job none does not exist");
    assert_text("GET", "/api/jobs/none/logs", "", true, NULL, 404,
                "Job none does not exist");
    assert_text("POST", "/api/jobs/none/stop", "", true, NULL, 404,
                "Job none does not exist");
    assert_text("DELETE", "/api/jobs/none", "", true, NULL, 404,
                "Job none does not exist");
    assert_text("GET", "/api/v0/logs/file?actor_id=zz", "", true, NULL, 404,
                "no log of zz");
    assert_text("GET", "/api/v0/logs/file", "", true, NULL, 400, "give one of");
}

static void a_malformed_description_is_400_with_the_reason(void **state)
{
    static const char *const bodies[] = {"", "{", "[]", "{\"entrypoint\":1}", "\xff\xfe"};

    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
        assert_text("POST", "/api/jobs/", "", true, bodies[i], 400, "");
    assert_text("POST", "/api/jobs/", "", true, "", 400, "the body is empty");
    assert_text("POST", "/api/jobs/", "", true,
                "{\"entrypoint\":\"x\",\"argv\":[\"x\"],\"runtime_env\":{\"program\":"
                "\"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"}}",
                400, "was not uploaded");
}

/* ---------------------------------------------------------------- programs */

static void sha_of(const void *data, size_t size, char text[65])
{
    unsigned char digest[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(digest, data, size);
    sodium_bin2hex(text, 65, digest, sizeof(digest));
}

static int count_files(const char *pattern)
{
    char command[256];
    int count = 0;
    FILE *pipe_in;

    snprintf(command, sizeof(command), "ls -A %s/programs 2>/dev/null | grep -c '%s'",
             shared.state, pattern);
    pipe_in = popen(command, "re");
    assert_int_equal(fscanf(pipe_in, "%d", &count), 1);
    pclose(pipe_in);
    return count;
}

static void a_program_is_kept_whole_and_executable(void **state)
{
    size_t size = 3000001;
    char *bytes = malloc(size), sha[65], path[200], file[300];
    struct stat st;
    http_answer_t answer;

    randombytes_buf(bytes, size);
    sha_of(bytes, size, sha);
    snprintf(path, sizeof(path), "/api/packages/crt/%s", sha);
    assert_text("GET", path, "", true, NULL, 404, "does not exist");
    http_request(&shared, "PUT", path, "", true, bytes, size, &answer);
    assert_int_equal(answer.code, 200);
    assert_int_equal(answer.size, 0);
    http_answer_fini(&answer);
    snprintf(file, sizeof(file), "%s/programs/%s", shared.state, sha);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(st.st_size, size);
    assert_int_equal(http_code(&shared, "GET", path, "", true), 200);
    /* Again: the same bytes under the same name. */
    http_request(&shared, "PUT", path, "", true, bytes, size, &answer);
    assert_int_equal(answer.code, 200);
    http_answer_fini(&answer);
    assert_int_equal(count_files("^.upload"), 0);
    free(bytes);
}

/* A body whose length the client does not know yet. */
static void send_in_chunks(int fd, const char *path, const char *bytes, size_t size,
                           size_t part)
{
    char head[512];

    snprintf(head, sizeof(head),
             "PUT %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
             "%s\r\nTransfer-Encoding: chunked\r\n\r\n",
             path, shared.token);
    http_send(fd, head, strlen(head));
    for (size_t at = 0; at < size; at += part) {
        size_t length = size - at < part ? size - at : part;

        snprintf(head, sizeof(head), "%zx\r\n", length);
        http_send(fd, head, strlen(head));
        http_send(fd, bytes + at, length);
        http_send(fd, "\r\n", 2);
    }
    http_send(fd, "0\r\n\r\n", 5);
}

static void a_program_may_come_in_chunks(void **state)
{
    size_t size = 300001;
    char *bytes = malloc(size), sha[65], path[200], file[300];
    http_answer_t answer;
    struct stat st;
    int fd = http_connect(&shared);

    randombytes_buf(bytes, size);
    sha_of(bytes, size, sha);
    snprintf(path, sizeof(path), "/api/packages/crt/%s", sha);
    send_in_chunks(fd, path, bytes, size, 7001);
    http_read(fd, &answer);
    if (answer.code != 200)
        fail_msg("%d %s", answer.code, answer.body);
    http_answer_fini(&answer);
    close(fd);
    snprintf(file, sizeof(file), "%s/programs/%s", shared.state, sha);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_size, size);
    fd = http_connect(&shared);
    send_in_chunks(fd, path, "other bytes", 11, 3);
    http_read(fd, &answer);
    assert_int_equal(answer.code, 400);
    assert_error(&answer, "the bytes have SHA-256");
    http_answer_fini(&answer);
    close(fd);
    fd = http_connect(&shared);
    send_in_chunks(fd, path, "", 0, 1);
    http_read(fd, &answer);
    assert_int_equal(answer.code, 400);
    http_answer_fini(&answer);
    close(fd);
    assert_int_equal(count_files("^.upload"), 0);
    free(bytes);
}

static void other_bytes_than_the_name_says_are_refused_and_leave_nothing(void **state)
{
    static const char path[] =
        "/api/packages/crt/"
        "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";

    assert_text("PUT", path, "", true, "not those bytes", 400, "the bytes have SHA-256");
    assert_int_equal(http_code(&shared, "GET", path, "", true), 404);
    assert_int_equal(count_files("^.upload"), 0);
    assert_int_equal(count_files("^cccccccccccc"), 0);
}

static void an_upload_that_breaks_off_leaves_nothing(void **state)
{
    char request[512];
    int fd = http_connect(&shared), left = 1;

    snprintf(
        request, sizeof(request),
        "PUT /api/packages/crt/"
        "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd "
        "HTTP/1.1\r\nHost: "
        "localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 100000\r\n\r\npart",
        shared.token);
    http_send(fd, request, strlen(request));
    for (int i = 0; i < 1000 && count_files("^.upload") == 0; i++)
        usleep(5000); /* until it has begun */
    assert_int_equal(count_files("^.upload"), 1);
    close(fd);
    for (int i = 0; i < 1000 && (left = count_files("^.upload")) != 0; i++)
        usleep(5000);
    assert_int_equal(left, 0);
}

static void a_program_above_the_limit_is_refused_before_it_is_sent(void **state)
{
    char request[512];
    int fd = http_connect(&shared);
    http_answer_t answer;

    snprintf(
        request, sizeof(request),
        "PUT /api/packages/crt/"
        "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee "
        "HTTP/1.1\r\nHost: "
        "localhost\r\nAuthorization: Bearer %s\r\nContent-Length: 2000000000\r\n\r\n",
        shared.token);
    http_send(fd, request, strlen(request));
    http_read(fd, &answer);
    assert_int_equal(answer.code, 413);
    assert_non_null(strstr(answer.head, "connection: close"));
    http_answer_fini(&answer);
    close(fd);
}

/* ---------------------------------------------------------------- malformed, large, slow */

/* Sends bytes; whatever the answer is, the server must be there afterwards. */
static int send_raw(const void *bytes, size_t size)
{
    int fd = http_connect(&shared);
    http_answer_t answer;

    http_send(fd, bytes, size);
    shutdown(fd, SHUT_WR);
    http_read(fd, &answer);
    if (answer.code >= 400)
        assert_error(&answer, "");
    http_answer_fini(&answer);
    close(fd);
    assert_int_equal(http_code(&shared, "GET", "/api/healthz", "", false), 200);
    return answer.code;
}

static void malformed_requests_cost_nobody_else_anything(void **state)
{
    static const char *const requests[] = {
        "",
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "NONSENSE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /\xff\xfe%zz%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /api/jobs/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET / HTTP/1.1\r\nHost localhost\r\n\r\n",
        "GET / HTTP/1.1\r\n: \r\n\r\n",
        "POST /api/jobs/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        "POST /api/jobs/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1e9\r\n\r\n",
        "POST /api/jobs/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
        "99999999999999999999\r\n\r\n",
        "POST /api/jobs/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /api/jobs/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
        "chunked\r\n\r\nffffffff\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: "
        "Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: h2c\r\nConnection: Upgrade, "
        "HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    };

    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
        assert_true(send_raw(requests[i], strlen(requests[i])) != 500);
}

static void random_bytes_cost_nobody_else_anything(void **state)
{
    unsigned char bytes[700];

    for (int round = 0; round < 60; round++) {
        randombytes_buf(bytes, sizeof(bytes));
        if (round % 2)
            memcpy(bytes, "GET /api/jobs/", 14);
        send_raw(bytes, sizeof(bytes) - (size_t)round);
    }
}

static void headers_without_end_are_cut_off(void **state)
{
    size_t size = 200000;
    char *request = malloc(size);
    int used = snprintf(request, size, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ");

    memset(request + used, 'a', size - (size_t)used);
    assert_int_not_equal(send_raw(request, size), 200);
    used = snprintf(request, size, "GET /");
    memset(request + used, 'a', size - (size_t)used);
    assert_int_not_equal(send_raw(request, size), 200);
    free(request);
}

static void a_long_token_or_cookie_is_a_wrong_one(void **state)
{
    char header[6000] = "Authorization: Bearer ";
    size_t used = strlen(header);

    memset(header + used, 'a', 5000);
    strcpy(header + used + 5000, "\r\n");
    assert_int_equal(http_code(&shared, "GET", "/api/version", header, false), 403);
}

static void a_body_that_is_too_large_is_413(void **state)
{
    size_t size = (1u << 20) + 1;
    char *body = malloc(size);
    http_answer_t answer;

    memset(body, ' ', size);
    http_request(&shared, "POST", "/api/jobs/", "", true, body, size, &answer);
    assert_int_equal(answer.code, 413);
    http_answer_fini(&answer);
    free(body);
}

static void slow_clients_do_not_hold_up_others(void **state)
{
    int slow[20];
    http_answer_t answer;

    for (int i = 0; i < 20; i++) {
        slow[i] = http_connect(&shared);
        http_send(slow[i], "GET / HT", 8);
    }
    assert_int_equal(http_code(&shared, "GET", "/api/healthz", "", false), 200);
    /* And they are cut off: some seconds after they began. */
    http_read(slow[0], &answer);
    assert_true(answer.code == 0 || answer.code >= 400);
    http_answer_fini(&answer);
    for (int i = 0; i < 20; i++)
        close(slow[i]);
}

static void clients_that_ask_nothing_keep_nobody_out(void **state)
{
    static const char *const begun[] = {
        "", "GET / HT", "GET /api/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"};
    int fds[260];
    http_answer_t answer;

    for (int i = 0; i < 260; i++) {
        fds[i] = http_connect(&shared);
        http_send(fds[i], begun[i % 3], strlen(begun[i % 3]));
    }
    assert_int_equal(http_code(&shared, "GET", "/api/healthz", "", false), 200);
    http_read(fds[0], &answer); /* the oldest has made room */
    assert_int_equal(answer.code, 0);
    http_answer_fini(&answer);
    for (int i = 0; i < 260; i++)
        close(fds[i]);
    assert_int_equal(http_code(&shared, "GET", "/api/healthz", "", false), 200);
}

/* Of the answers on a connection, until there are `most` or it ends. Returns how many there
 * were. */
static size_t read_codes(int fd, int *codes, size_t most)
{
    char text[8192] = "";
    size_t used = 0, count = 0;

    for (;;) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        const char *at = text;
        ssize_t n;

        for (count = 0; count < most && (at = strstr(at, "HTTP/1.1 ")); count++)
            codes[count] = atoi(at += strlen("HTTP/1.1 "));
        if (count == most)
            return count;
        assert_int_equal(poll(&waiting, 1, 20000), 1);
        n = recv(fd, text + used, sizeof(text) - 1 - used, 0);
        if (n <= 0)
            return count;
        used += (size_t)n;
        text[used] = '\0';
    }
}

static void a_request_with_a_body_that_comes_too_early_is_refused(void **state)
{
    static const char *const first[] = {
        "GET /api/healthz HTTP/1.1\r\nHost: localhost\r\n",
        "POST /api/authenticate HTTP/1.1\r\nHost: "
        "localhost\r\nContent-Length: 0\r\n",
        "POST /api/jobs/ HTTP/1.1\r\nHost: "
        "localhost\r\nContent-Length: 18\r\n"};
    char request[1024];

    for (size_t i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
        int fd = http_connect(&shared), codes[3] = {0};
        size_t count;

        snprintf(request, sizeof(request),
                 "%sAuthorization: Bearer %s\r\n\r\n%s"
                 "POST /api/jobs/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                 "%s\r\nContent-Length: 42\r\n\r\n"
                 "{\"entrypoint\":\"x\",\"submission_id\":\"early\"}",
                 first[i], shared.token, i == 2 ? "{\"entrypoint\":\"x\"}" : "",
                 shared.token);
        http_send(fd, request, strlen(request));
        count = read_codes(fd, codes, 3);
        /* libwebsockets 4.3 ends some connections without any answer. */
        assert_true(count == 0 || count == 2);
        if (count) {
            assert_int_equal(codes[0], 200);
            assert_int_equal(codes[1], 400);
        }
        close(fd);
        assert_int_equal(http_code(&shared, "GET", "/api/jobs/early", "", true), 404);
    }
}

static void one_connection_serves_many_requests(void **state)
{
    int fd = http_connect(&shared);
    char request[256];
    http_answer_t answer;

    snprintf(request, sizeof(request),
             "GET /api/version HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
             "%s\r\n\r\n",
             shared.token);
    for (int i = 0; i < 50; i++) {
        http_send(fd, request, strlen(request));
        http_read(fd, &answer);
        assert_int_equal(answer.code, 200);
        http_answer_fini(&answer);
    }
    close(fd);
}

/* ---------------------------------------------------------------- the head */

static void a_head_that_is_gone_is_said_and_found_again(void **state)
{
    char from[160], to[160];
    int code = 0;

    /* The socket of the head is moved away, and its end of the link is not: only new links fail.
     * So the whole head is exchanged by a second one in the same place. */
    snprintf(from, sizeof(from), "%s/head.sock", shared.head_dir);
    snprintf(to, sizeof(to), "%s/moved.sock", shared.head_dir);
    assert_int_equal(rename(from, to), 0);
    assert_int_equal(http_code(&shared, "GET", "/api/jobs/", "", true), 200);
    assert_int_equal(kill(shared.head, SIGUSR1), 0); /* closes its links */
    for (int i = 0; i < 500 && code != 503; i++)
        code = http_code(&shared, "GET", "/api/jobs/", "", true);
    assert_int_equal(code, 503);
    assert_text("GET", "/api/jobs/", "", true, NULL, 503, "the head can't be reached");
    assert_int_equal(http_code(&shared, "GET", "/api/healthz", "", false), 503);
    assert_int_equal(rename(to, from), 0);
    for (int i = 0; i < 2000 && code != 200; i++) {
        code = http_code(&shared, "GET", "/api/jobs/", "", true);
        usleep(5000);
    }
    assert_int_equal(code, 200);
}

static void a_head_that_answers_nonsense_is_a_500_and_no_crash(void **state)
{
    http_fixture_t f;

    http_fixture_start(&f, "nonsense");
    assert_int_equal(http_code(&f, "GET", "/api/cluster_status", "", true), 500);
    assert_int_equal(http_code(&f, "GET", "/api/jobs/", "", true), 500);
    assert_int_equal(http_code(&f, "GET", "/api/v0/actors", "", true), 500);
    assert_int_equal(http_code(&f, "GET", "/api/healthz", "", false), 200);
    http_fixture_stop(&f);
}

static void clients_that_leave_while_the_head_is_asked_are_forgotten(void **state)
{
    http_fixture_t f;
    char request[256];

    http_fixture_start(&f, "mute");
    snprintf(
        request, sizeof(request),
        "GET /api/jobs/ HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
        f.token);
    for (int i = 0; i < 30; i++) {
        int fd = http_connect(&f);

        http_send(fd, request, strlen(request));
        close(fd);
    }
    assert_int_equal(http_code(&f, "GET", "/api/healthz", "", false), 200);
    http_fixture_stop(&f); /* reports leaks, and reads of what was freed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_is_served_without_a_token_and_with_its_safety_headers),
        cmocka_unit_test(head_has_the_headers_and_no_body),
        cmocka_unit_test(a_path_with_dots_does_not_leave_the_static_folder),
        cmocka_unit_test(nothing_is_told_without_the_token),
        cmocka_unit_test(the_token_is_taken_from_rays_header_too),
        cmocka_unit_test(signing_in_gives_a_session_that_opens_the_rest),
        cmocka_unit_test(a_cookie_is_worth_nothing),
        cmocka_unit_test(a_link_signs_in_once),
        cmocka_unit_test(another_sites_page_can_change_nothing_even_with_the_session),
        cmocka_unit_test(a_rebound_name_is_refused),
        cmocka_unit_test(version_and_health_are_as_rays_clients_want_them),
        cmocka_unit_test(the_clusters_state_comes_as_json_and_as_text),
        cmocka_unit_test(a_job_is_submitted_listed_and_read),
        cmocka_unit_test(a_large_submission_is_taken_at_once),
        cmocka_unit_test(a_submission_that_the_head_did_not_answer_is_looked_for),
        cmocka_unit_test(a_path_holds_no_control_characters),
        cmocka_unit_test(what_is_nested_deep_is_not_submitted),
        cmocka_unit_test(the_same_id_twice_is_refused_in_rays_words),
        cmocka_unit_test(a_job_is_stopped_once),
        cmocka_unit_test(only_an_ended_job_is_deleted),
        cmocka_unit_test(an_unknown_job_is_404_everywhere),
        cmocka_unit_test(a_malformed_description_is_400_with_the_reason),
        cmocka_unit_test(a_program_is_kept_whole_and_executable),
        cmocka_unit_test(a_program_may_come_in_chunks),
        cmocka_unit_test(other_bytes_than_the_name_says_are_refused_and_leave_nothing),
        cmocka_unit_test(an_upload_that_breaks_off_leaves_nothing),
        cmocka_unit_test(a_program_above_the_limit_is_refused_before_it_is_sent),
        cmocka_unit_test(malformed_requests_cost_nobody_else_anything),
        cmocka_unit_test(random_bytes_cost_nobody_else_anything),
        cmocka_unit_test(headers_without_end_are_cut_off),
        cmocka_unit_test(a_long_token_or_cookie_is_a_wrong_one),
        cmocka_unit_test(a_body_that_is_too_large_is_413),
        cmocka_unit_test(slow_clients_do_not_hold_up_others),
        cmocka_unit_test(clients_that_ask_nothing_keep_nobody_out),
        cmocka_unit_test(a_request_with_a_body_that_comes_too_early_is_refused),
        cmocka_unit_test(one_connection_serves_many_requests),
        cmocka_unit_test(a_head_that_is_gone_is_said_and_found_again),
        cmocka_unit_test(a_head_that_answers_nonsense_is_a_500_and_no_crash),
        cmocka_unit_test(clients_that_leave_while_the_head_is_asked_are_forgotten),
    };

    if (sodium_init() < 0)
        return 1;
    return cmocka_run_group_tests(tests, start_shared, stop_shared);
}
