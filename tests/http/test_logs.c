/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/logs.c and of replies in parts: a log of 64 MiB, read whole through a real
 * crt-http. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "http_fixture.h"

#define LOG_BYTES  ((size_t)64 << 20)
#define MEMORY_KIB (24 << 10) /* what crt-http may need more than before */
#define LIMIT_MS   100 /* of others' answers meanwhile: half of them, the machine is busy */
#define READERS    8

/* What fake_head's large log repeats, and how it is shown. */
static const char shown[] = "one line \"of\" a log \\ \x01\t gr\xc3\xbc\xc3\x9f\x65 "
                            "\xf0\x9f\x98\x80 \xef\xbf\xbd.\xef\xbf\xbd\xef\xbf\xbd\n";
#define PATTERN 43 /* bytes of it in the log */

static http_fixture_t shared;

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* A number behind `key` in a file of lines. */
static long number_in(const char *path, const char *key)
{
    char line[1024];
    long number = -1;
    FILE *file = fopen(path, "re");

    assert_non_null(file);
    while (number < 0 && fgets(line, sizeof(line), file))
        if (strncmp(line, key, strlen(key)) == 0)
            number = strtol(line + strlen(key), NULL, 10);
    fclose(file);
    assert_true(number >= 0);
    return number;
}

/* The most memory that crt-http ever had. */
static long peak_kib(void)
{
    char path[300];

    snprintf(path, sizeof(path), "%s/head.info", shared.head_dir);
    snprintf(path, sizeof(path), "/proc/%ld/status", number_in(path, "http_pid "));
    return number_in(path, "VmHWM:");
}

static void assert_is_shown(const char *text, size_t size, size_t bytes)
{
    size_t length = sizeof(shown) - 1, whole = bytes / PATTERN;

    assert_true(size >= whole * length);
    for (size_t i = 0; i < whole; i++)
        if (memcmp(text + i * length, shown, length) != 0)
            fail_msg("line %zu is \"%.*s\"", i, (int)length, text + i * length);
}

static void assert_is_escaped(const http_answer_t *answer)
{
    json_t *reply = json_loadb(answer->body, answer->size, JSON_ALLOW_NUL, NULL);
    const json_t *logs = json_object_get(reply, "logs");

    assert_non_null(reply);
    assert_int_equal(json_object_size(reply), 1); /* Ray's clients want no other key */
    assert_is_shown(json_string_value(logs), json_string_length(logs), LOG_BYTES);
    json_decref(reply);
}

static void send_request(int fd, const char *path, const char *version)
{
    char text[512];

    snprintf(text, sizeof(text),
             "GET %s HTTP/%s\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
             path, version, shared.token);
    http_send(fd, text, strlen(text));
}

/* ---------------------------------------------------------------- others meanwhile */

static struct {
    pthread_t thread;
    atomic_bool stops;
    double took[10000];
    int count;
} others;

static void *ask_others(void *user)
{
    while (!atomic_load(&others.stops) && others.count < 10000) {
        double begun = now_ms();

        if (http_code(&shared, "GET", "/api/jobs/", "", true) != 200)
            break;
        others.took[others.count++] = now_ms() - begun;
        usleep(5000);
    }
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* ---------------------------------------------------------------- tests */

static void a_whole_log_is_sent_in_parts_while_others_are_answered(void **state)
{
    long before = peak_kib();
    http_answer_t answer;
    double begun = now_ms();

    atomic_store(&others.stops, false);
    others.count = 0;
    assert_int_equal(pthread_create(&others.thread, NULL, ask_others, NULL), 0);
    http_request(&shared, "GET", "/api/jobs/large/logs", "", true, NULL, 0, &answer);
    atomic_store(&others.stops, true);
    pthread_join(others.thread, NULL);
    assert_int_equal(answer.code, 200);
    qsort(others.took, (size_t)others.count, sizeof(others.took[0]), by_size);
    printf("%zu MiB in %.0f ms; crt-http: %ld KiB more; %d others in %.1f ms, the "
           "slowest in "
           "%.1f ms\n",
           LOG_BYTES >> 20, now_ms() - begun, peak_kib() - before, others.count,
           others.took[others.count / 2], others.took[others.count - 1]);
    assert_true(others.count > 0);
    assert_true(others.took[others.count / 2] < LIMIT_MS);
    assert_true(peak_kib() - before < MEMORY_KIB);
    assert_is_escaped(&answer);
    http_answer_fini(&answer);
}

static void clients_that_do_not_read_cost_one_part_each(void **state)
{
    long before = peak_kib();
    int fds[READERS];

    for (int i = 0; i < READERS; i++) {
        char byte;

        fds[i] = http_connect(&shared);
        send_request(fds[i], "/api/jobs/large/logs", "1.1");
        assert_int_equal(recv(fds[i], &byte, 1, MSG_PEEK), 1);
    }
    for (int i = 0; i < 20; i++)
        assert_int_equal(http_code(&shared, "GET", "/api/jobs/", "", true), 200);
    assert_true(peak_kib() - before < MEMORY_KIB);
    for (int i = 0; i < READERS; i++)
        close(fds[i]);
}

static void the_last_lines_of_a_large_log_are_found(void **state)
{
    static const struct {
        const char *path;
        size_t lines;
    } questions[] = {
        {"/api/v0/logs/file?submission_id=large&lines=1", 1},
        {"/api/v0/logs/file?submission_id=large&lines=2", 2},
        {"/api/v0/logs/file?submission_id=large", 1000},
        {"/api/v0/logs/file?submission_id=large&lines=20000", 20000}, /* several parts */
    };
    size_t length = sizeof(shown) - 1;

    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++) {
        http_answer_t answer;
        size_t rest;

        http_request(&shared, "GET", questions[i].path, "", true, NULL, 0, &answer);
        assert_int_equal(answer.code, 200);
        /* The log ends in the middle of a line, which counts as one. */
        rest = answer.size - (questions[i].lines - 1) * length;
        assert_true(rest < length);
        assert_is_shown(answer.body, answer.size, (questions[i].lines - 1) * PATTERN);
        assert_memory_equal(answer.body + answer.size - rest, shown, rest);
        http_answer_fini(&answer);
    }
}

static void more_lines_than_there_are_and_all_lines_are_the_whole_log(void **state)
{
    static const char *const paths[] = {"/api/v0/logs/file?actor_id=ac01&lines=1000",
                                        "/api/v0/logs/file?actor_id=ac01&lines=0",
                                        "/api/v0/logs/file?actor_id=ac01&lines=-1"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        http_answer_t answer;

        http_request(&shared, "GET", paths[i], "", true, NULL, 0, &answer);
        assert_int_equal(answer.code, 200);
        assert_string_equal(answer.body,
                            "Running entrypoint for job\nhello\ngr\xc3\xbc\xc3"
                            "\x9f\x65 \xef\xbf\xbd\n");
        http_answer_fini(&answer);
    }
    assert_int_equal(
        http_code(&shared, "GET", "/api/v0/logs/file?actor_id=ac01&lines=x", "", true),
        400);
}

static void a_client_of_http_1_0_gets_it_without_chunks(void **state)
{
    int fd = http_connect(&shared);
    http_answer_t answer;

    send_request(fd, "/api/v0/logs/file?actor_id=ac01", "1.0");
    http_read(fd, &answer);
    assert_int_equal(answer.code, 200);
    assert_null(strstr(answer.head, "chunked"));
    assert_non_null(strstr(answer.head, "connection: close"));
    while (!answer.closed) {
        char bytes[256];
        ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

        answer.closed = n <= 0;
        if (n > 0) {
            answer.body = realloc(answer.body, answer.size + (size_t)n + 1);
            memcpy(answer.body + answer.size, bytes, (size_t)n);
            answer.size += (size_t)n;
            answer.body[answer.size] = '\0';
        }
    }
    assert_non_null(strstr(answer.body, "\nhello\n"));
    assert_int_not_equal(answer.body[0], '{');
    http_answer_fini(&answer);
    close(fd);
}

/* Last: the head lets go of its links. */
static void a_log_that_breaks_off_is_seen_to_be_not_whole(void **state)
{
    int fd = http_connect(&shared), code = 0;
    http_answer_t answer;
    char byte;

    send_request(fd, "/api/jobs/large/logs", "1.1");
    assert_int_equal(recv(fd, &byte, 1, MSG_PEEK), 1);
    assert_int_equal(kill(shared.head, SIGUSR1), 0);
    http_read(fd, &answer);
    assert_int_equal(answer.code, 200);
    assert_true(answer.closed);
    assert_false(answer.is_whole);
    http_answer_fini(&answer);
    close(fd);
    for (int i = 0; i < 2000 && code != 200; i++) {
        code = http_code(&shared, "GET", "/api/jobs/", "", true);
        usleep(5000);
    }
    assert_int_equal(code, 200);
}

static int start_shared(void **state)
{
    static const char body[] = "{\"entrypoint\":\"large\",\"submission_id\":\"large\"}";
    const char *options = getenv("ASAN_OPTIONS");
    char text[512];
    http_answer_t answer;

    /* The sanitizer keeps what was freed: that is no memory of crt-http's. */
    snprintf(text, sizeof(text), "%s:quarantine_size_mb=1", options ? options : "");
    setenv("ASAN_OPTIONS", text, 1);
    http_fixture_start(&shared, "");
    http_request(&shared, "POST", "/api/jobs/", "", true, body, sizeof(body) - 1,
                 &answer);
    http_answer_fini(&answer);
    return answer.code != 200;
}

static int stop_shared(void **state)
{
    http_fixture_stop(&shared);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_that_do_not_read_cost_one_part_each),
        cmocka_unit_test(a_whole_log_is_sent_in_parts_while_others_are_answered),
        cmocka_unit_test(the_last_lines_of_a_large_log_are_found),
        cmocka_unit_test(more_lines_than_there_are_and_all_lines_are_the_whole_log),
        cmocka_unit_test(a_client_of_http_1_0_gets_it_without_chunks),
        cmocka_unit_test(a_log_that_breaks_off_is_seen_to_be_not_whole),
    };

    return cmocka_run_group_tests(tests, start_shared, stop_shared);
}
