/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/request.c: who may send a request and what it asks for. */
#include "runtime/base/limit.h"
#include "runtime/http/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SHA "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

#define NOW 1000000u

static crti_http_policy_t policy = {.token_key = {1},
                                    .session_key = {2},
                                    .reader_key = {3},
                                    .reader_session_key = {4},
                                    .has_generation = true,
                                    .generation = 5,
                                    .now = NOW,
                                    .bound_to = "board.example",
                                    .host_name = "Here",
                                    .port = 8265};
static char good_bearer[80], good_session[80];

/* "PREFIX" and a token of that subkey. */
static const char *made(char *text, size_t size, const char *prefix,
                        const unsigned char *subkey, uint32_t generation, uint32_t end)
{
    const crti_token_t token = {.generation = generation, .end = end};
    char digits[CRTI_TOKEN_TEXT];

    crti_token_make(subkey, &token, digits);
    snprintf(text, size, "%s%s", prefix, digits);
    return text;
}

static int make_tokens(void **state)
{
    made(good_bearer, sizeof(good_bearer), "Bearer ", policy.token_key, 5, 0);
    made(good_session, sizeof(good_session), "", policy.session_key, 5, NOW + 1);
    return 0;
}

/* A request that is welcome. */
static crti_http_request_t good(void)
{
    return (crti_http_request_t){.method = CRTI_HTTP_GET,
                                 .path = "/api/version",
                                 .host = "127.0.0.1:8265",
                                 .origin = "",
                                 .fetch_site = "",
                                 .authorization = good_bearer,
                                 .ray_authorization = "",
                                 .session = ""};
}

static unsigned guard(const crti_http_request_t *request)
{
    return crti_http_guard(&policy, request).code;
}

static void addresses_and_our_names_are_known_hosts(void **state)
{
    static const char *const known[] = {"127.0.0.1",   "127.0.0.1:1", "localhost:8265",
                                        "LOCALHOST",   "[::1]:8265",  "[::1]",
                                        "10.1.2.3:80", "here:8265",   "board.example"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        crti_http_request_t r = good();

        r.host = known[i];
        assert_int_equal(guard(&r), 0);
    }
}

static void a_name_that_a_stranger_could_point_at_us_is_refused(void **state)
{
    static const char *const unknown[] = {"",
                                          "evil.example",
                                          "evil.example:8265",
                                          "127.0.0.1.evil.example",
                                          "localhost.evil.example",
                                          "127.0.0.1:8265:1",
                                          "[::1",
                                          "[::1]x",
                                          "[evil]:1",
                                          "localhost:80x",
                                          "a b"};

    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        crti_http_request_t r = good();

        r.host = unknown[i];
        assert_int_equal(guard(&r), 403);
        r.path = "/"; /* the page too */
        assert_int_equal(guard(&r), 403);
    }
}

static void what_changes_something_must_come_from_our_own_page(void **state)
{
    static const struct {
        const char *origin, *site;
        unsigned code;
    } cases[] = {{"", "", 0},
                 {"http://127.0.0.1:8265", "same-origin", 0},
                 {"https://127.0.0.1:8265", "", 0},
                 {"", "none", 0},
                 {"http://evil.example", "", 405},
                 {"http://127.0.0.1:9999", "", 405},
                 {"null", "", 405},
                 {"file://", "", 405},
                 {"", "cross-site", 405},
                 {"", "same-site", 405},
                 /* a proxy asks under another name than the browser asked for */
                 {"https://proxy.example", "same-origin", 0},
                 {"http://127.0.0.1:8265", "cross-site", 405}};
    static const crti_http_method_t methods[] = {CRTI_HTTP_POST, CRTI_HTTP_PUT,
                                                 CRTI_HTTP_DELETE, CRTI_HTTP_OTHER};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (size_t m = 0; m < 4; m++) {
            crti_http_request_t r = good();

            r.method = methods[m];
            r.origin = cases[i].origin;
            r.fetch_site = cases[i].site;
            assert_int_equal(guard(&r), cases[i].code);
        }
}

static void an_upgrade_counts_as_a_change(void **state)
{
    crti_http_request_t r = good();

    r.origin = "http://evil.example";
    assert_int_equal(guard(&r),
                     0); /* a read: the browser keeps the answer from the page */
    r.is_upgrade = true;
    assert_int_equal(guard(&r), 405);
}

static void a_missing_token_is_401_and_a_wrong_one_403(void **state)
{
    crti_http_request_t r = good();
    char text[100];

    r.authorization = "";
    assert_int_equal(guard(&r), 401);
    assert_string_equal(crti_http_guard(&policy, &r).text,
                        "Unauthorized: Missing authentication token");
    r.authorization = "Bearer wrong";
    assert_int_equal(guard(&r), 403);
    assert_string_equal(crti_http_guard(&policy, &r).text,
                        "Forbidden: Invalid authentication token");
    made(text, sizeof(text), "Basic ", policy.token_key, 5, 0);
    r.authorization = text;
    assert_int_equal(guard(&r), 403);
    snprintf(text, sizeof(text), "%s0", good_bearer);
    assert_int_equal(guard(&r), 403);
    r.authorization = "Bearer";
    assert_int_equal(guard(&r), 403);
}

static void the_token_may_come_in_either_header(void **state)
{
    crti_http_request_t r = good();
    char text[100];

    r.authorization = made(text, sizeof(text), "bearer   ", policy.token_key, 5, 0);
    assert_int_equal(guard(&r), 0);
    r.authorization = "";
    r.ray_authorization = good_bearer;
    assert_int_equal(guard(&r), 0);
}

static void a_page_shows_its_session(void **state)
{
    crti_http_request_t r = good();

    r.authorization = "";
    r.session = good_session;
    assert_int_equal(guard(&r), 0);
    r.authorization = "Basic of-a-proxy";
    assert_int_equal(guard(&r), 0);
    r.session = "wrong";
    assert_int_equal(guard(&r), 403);
    r.authorization = good_bearer; /* a session that is shown counts alone */
    assert_int_equal(guard(&r), 403);
}

static void a_session_is_no_token_and_a_token_no_session(void **state)
{
    crti_http_request_t r = good();
    char text[120];

    r.authorization = made(text, sizeof(text), "Bearer ", policy.session_key, 5, 0);
    assert_int_equal(guard(&r), 403);
    r.authorization = "";
    r.session = made(text, sizeof(text), "", policy.token_key, 5, 0);
    assert_int_equal(guard(&r), 403);
}

static void of_another_generation_or_past_its_end_nothing_is_good(void **state)
{
    static const struct {
        uint32_t generation, end;
        unsigned code;
    } cases[] = {{5, 0, 0},   {5, NOW + 1, 0}, {5, NOW, 403},
                 {5, 1, 403}, {4, 0, 403},     {6, 0, 403}};
    crti_http_request_t r = good();
    char text[120];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        r.session = "";
        r.authorization = made(text, sizeof(text), "Bearer ", policy.token_key,
                               cases[i].generation, cases[i].end);
        assert_int_equal(guard(&r), cases[i].code);
        r.authorization = "";
        r.session = made(text, sizeof(text), "", policy.session_key, cases[i].generation,
                         cases[i].end);
        assert_int_equal(guard(&r), cases[i].code);
    }
    policy.has_generation = false; /* its file can't be read */
    r = good();
    assert_int_equal(guard(&r), 403);
    policy.has_generation = true;
}

static void a_session_lives_no_longer_than_its_token(void **state)
{
    crti_token_t token = {.generation = 5, .end = NOW + 60}, session;
    char text[CRTI_TOKEN_TEXT];

    assert_int_equal(crti_http_session(&policy, &token, CRTI_HTTP_OWNER, text), 60);
    assert_true(crti_token_read(policy.session_key, text, &session));
    assert_int_equal(session.end, NOW + 60);
    token.end = 0;
    assert_int_equal(crti_http_session(&policy, &token, CRTI_HTTP_OWNER, text),
                     CRTI_LIMIT(http_session) / CRTI_S);
    assert_true(crti_token_read(policy.session_key, text, &session));
    assert_int_equal(session.end, NOW + CRTI_LIMIT(http_session) / CRTI_S);
}

static void a_read_only_token_and_its_session_change_nothing(void **state)
{
    crti_http_request_t r = good();
    crti_token_t token = {.generation = 5, .end = 0}, session, used;
    char text[120], digits[CRTI_TOKEN_TEXT];

    r.authorization = made(text, sizeof(text), "Bearer ", policy.reader_key, 5, 0);
    assert_int_equal(crti_http_access_of(&policy, &r, &used), CRTI_HTTP_READER);
    for (int i = 0; i < 2; i++) {
        r.method = CRTI_HTTP_GET;
        assert_int_equal(guard(&r), 0);
        r.is_upgrade = true; /* it follows a log */
        assert_int_equal(guard(&r), 0);
        r.is_upgrade = false;
        r.method = CRTI_HTTP_DELETE;
        assert_int_equal(guard(&r), 403);
        r.method = CRTI_HTTP_POST;
        assert_int_equal(guard(&r), 403);
        assert_string_equal(crti_http_guard(&policy, &r).text,
                            "Forbidden: this token is read-only");
        crti_http_session(&policy, &token, CRTI_HTTP_READER, digits);
        r.path = "/api/actors/space/name/method"; /* what a stranger may, too */
        assert_int_equal(guard(&r), 0);
        r.path = "/api/version";
        assert_false(crti_token_read(policy.session_key, digits, &session));
        r.authorization = "";
        r.session = digits;
    }
    r.session = made(text, sizeof(text), "", policy.reader_key, 5, 0);
    assert_int_equal(guard(&r), 403);
}

static void where_no_token_is_wanted_hosts_and_origins_count_all_the_same(void **state)
{
    crti_http_request_t r = good();
    crti_token_t used;

    policy.is_open = true;
    r.authorization = "";
    r.method = CRTI_HTTP_POST;
    assert_int_equal(guard(&r), 0);
    assert_int_equal(crti_http_access_of(&policy, &r, &used), CRTI_HTTP_OWNER);
    r.authorization = "Bearer wrong";
    assert_int_equal(guard(&r), 0);
    r.origin = "http://evil.example";
    assert_int_equal(guard(&r), 405);
    r.origin = "";
    r.host = "evil.example";
    assert_int_equal(guard(&r), 403);
    policy.is_open = false;
}

static void only_the_public_paths_need_no_token(void **state)
{
    static const char *const open[] = {"/",
                                       "/favicon.ico",
                                       "/static/page.js",
                                       "/api/authentication_mode",
                                       "/api/authenticate",
                                       "/api/healthz",
                                       "/api/gcs_healthz",
                                       "/api/local_raylet_healthz",
                                       "/-/healthz"};
    static const char *const closed[] = {
        "/api/version", "/api/jobs/", "/api/cluster_status", "/api/healthz/", "//",
        "/nothing",     "/static"};
    crti_http_request_t r = good();

    r.authorization = "";
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
        r.path = open[i];
        assert_int_equal(guard(&r), 0);
    }
    for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
        r.path = closed[i];
        assert_int_equal(guard(&r), 401);
    }
}

static unsigned route(crti_http_method_t method, const char *path,
                      crti_http_route_t *route_out, char *id)
{
    crti_http_request_t r = good();

    r.method = method;
    r.path = path;
    return crti_http_find_route(&r, route_out, id).code;
}

static void routes_are_found_with_their_ids(void **state)
{
    static const struct {
        crti_http_method_t method;
        const char *path;
        crti_http_route_t route;
        const char *id;
    } cases[] = {
        {CRTI_HTTP_GET, "/", CRTI_ROUTE_PAGE, ""},
        {CRTI_HTTP_HEAD, "/static/page.css", CRTI_ROUTE_PAGE, "page.css"},
        {CRTI_HTTP_GET, "/api/jobs", CRTI_ROUTE_JOB_LIST, ""},
        {CRTI_HTTP_GET, "/api/jobs/", CRTI_ROUTE_JOB_LIST, ""},
        {CRTI_HTTP_POST, "/api/jobs/", CRTI_ROUTE_JOB_SUBMIT, ""},
        {CRTI_HTTP_GET, "/api/jobs/raysubmit_a", CRTI_ROUTE_JOB_GET, "raysubmit_a"},
        {CRTI_HTTP_DELETE, "/api/jobs/x", CRTI_ROUTE_JOB_DELETE, "x"},
        {CRTI_HTTP_POST, "/api/jobs/x/stop", CRTI_ROUTE_JOB_STOP, "x"},
        {CRTI_HTTP_GET, "/api/jobs/x.y-1/logs", CRTI_ROUTE_JOB_LOGS, "x.y-1"},
        {CRTI_HTTP_PUT, "/api/packages/crt/" SHA, CRTI_ROUTE_PROGRAM_PUT, SHA},
        {CRTI_HTTP_GET, "/api/packages/crt/" SHA, CRTI_ROUTE_PROGRAM_GET, SHA},
        {CRTI_HTTP_PUT, "/api/packages/gcs/_ray_pkg_0a.zip", CRTI_ROUTE_PACKAGE_PUT,
         "_ray_pkg_0a.zip"},
        {CRTI_HTTP_GET, "/api/packages/gcs/_ray_pkg_" SHA ".zip", CRTI_ROUTE_PACKAGE_GET,
         "_ray_pkg_" SHA ".zip"},
        {CRTI_HTTP_GET, "/api/v0/actors", CRTI_ROUTE_STATE, "actors"},
    };
    crti_http_route_t found;
    char id[CRTI_HTTP_ID_MAX];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(route(cases[i].method, cases[i].path, &found, id), 0);
        assert_int_equal(found, cases[i].route);
        assert_string_equal(id, cases[i].id);
    }
}

static void other_paths_are_404_other_methods_405_and_impossible_ids_400(void **state)
{
    static const struct {
        crti_http_method_t method;
        const char *path;
        unsigned code;
    } cases[] = {
        {CRTI_HTTP_GET, "", 404},
        {CRTI_HTTP_GET, "/api", 404},
        {CRTI_HTTP_GET, "/static/../page.js", 404},
        {CRTI_HTTP_GET, "/static/.hidden", 400},
        {CRTI_HTTP_GET, "/api/jobs/a/b", 404},
        {CRTI_HTTP_GET, "/api/jobs//logs", 404},
        {CRTI_HTTP_GET, "/api/packages/s3/_ray_pkg_0.zip", 404},
        {CRTI_HTTP_PUT, "/api/packages/gcs/_ray_pkg_.zip", 400},
        {CRTI_HTTP_PUT, "/api/packages/gcs/_ray_pkg_0.zip.zip", 400},
        {CRTI_HTTP_PUT, "/api/packages/gcs/_ray_pkg_X.zip", 400},
        {CRTI_HTTP_PUT, "/api/packages/gcs/..", 400},
        {CRTI_HTTP_POST, "/api/version", 405},
        {CRTI_HTTP_DELETE, "/api/jobs/", 405},
        {CRTI_HTTP_GET, "/api/authenticate", 405},
        {CRTI_HTTP_OTHER, "/", 405},
        {CRTI_HTTP_GET, "/api/jobs/..", 400},
        {CRTI_HTTP_GET, "/api/jobs/.hidden", 400},
        {CRTI_HTTP_GET, "/api/jobs/a b", 400},
        {CRTI_HTTP_GET, "/api/jobs/a%2f", 400},
        {CRTI_HTTP_PUT, "/api/packages/crt/ABCDEF", 400},
        {CRTI_HTTP_PUT, "/api/packages/crt/" SHA "a", 400},
        {CRTI_HTTP_PUT, "/api/packages/crt/..", 400},
    };
    crti_http_route_t found;
    char id[CRTI_HTTP_ID_MAX], path[300] = "/api/jobs/";

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(route(cases[i].method, cases[i].path, &found, id),
                         cases[i].code);
    memset(path + strlen(path), 'a', 100);
    assert_int_equal(route(CRTI_HTTP_GET, path, &found, id), 0);
    memset(path + strlen(path), 'a', 150);
    assert_int_equal(route(CRTI_HTTP_GET, path, &found, id), 400);
}

static void numbers_in_arguments_are_digits_within_their_limit(void **state)
{
    crti_http_request_t r = good();
    uint64_t number;

    r.args[r.arg_count++] = "offset=18446744073709551615";
    r.args[r.arg_count++] = "a=12";
    r.args[r.arg_count++] = "b=";
    r.args[r.arg_count++] = "c=-1";
    r.args[r.arg_count++] = "d=1x";
    r.args[r.arg_count++] = "e";
    assert_false(crti_http_arg_number(&r, "offset", UINT64_MAX, 0, &number));
    assert_true(crti_http_arg_number(&r, "a", 12, 0, &number));
    assert_int_equal(number, 12);
    assert_false(crti_http_arg_number(&r, "a", 11, 0, &number));
    assert_true(crti_http_arg_number(&r, "absent", 11, 7, &number));
    assert_int_equal(number, 7);
    assert_false(crti_http_arg_number(&r, "b", 9, 0, &number));
    assert_false(crti_http_arg_number(&r, "c", 9, 0, &number));
    assert_false(crti_http_arg_number(&r, "d", 9, 0, &number));
    assert_string_equal(crti_http_arg(&r, "e"), "");
    assert_null(crti_http_arg(&r, "of"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_and_our_names_are_known_hosts),
        cmocka_unit_test(a_name_that_a_stranger_could_point_at_us_is_refused),
        cmocka_unit_test(what_changes_something_must_come_from_our_own_page),
        cmocka_unit_test(an_upgrade_counts_as_a_change),
        cmocka_unit_test(a_missing_token_is_401_and_a_wrong_one_403),
        cmocka_unit_test(the_token_may_come_in_either_header),
        cmocka_unit_test(a_page_shows_its_session),
        cmocka_unit_test(a_session_is_no_token_and_a_token_no_session),
        cmocka_unit_test(of_another_generation_or_past_its_end_nothing_is_good),
        cmocka_unit_test(a_session_lives_no_longer_than_its_token),
        cmocka_unit_test(a_read_only_token_and_its_session_change_nothing),
        cmocka_unit_test(where_no_token_is_wanted_hosts_and_origins_count_all_the_same),
        cmocka_unit_test(only_the_public_paths_need_no_token),
        cmocka_unit_test(routes_are_found_with_their_ids),
        cmocka_unit_test(other_paths_are_404_other_methods_405_and_impossible_ids_400),
        cmocka_unit_test(numbers_in_arguments_are_digits_within_their_limit),
    };

    return cmocka_run_group_tests(tests, make_tokens, NULL);
}
