/* SPDX-License-Identifier: Apache-2.0 */
/* The head's connection to an external redis-server (control/store/redis.c) against one that the
 * test plays: it answers to what it was not asked, or too much. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/control/store/redis_int.h"
#include "tests/net/loop_until.h"

#define PATIENCE_NS (30 * CRTI_S)

typedef struct scene {
    crti_loop_t *loop;
    crti_redis_t *redis;
    int listener, fd; /* the server's */
    unsigned rows, loaded;
    char problem[700];
} scene_t;

/* ---------------------------------------------------------------- the head's side */

static void on_row(void *user, crti_store_table_t table, crti_span_t key,
                   crti_span_t value)
{
    scene_t *s = user;

    s->rows++;
}

static void on_loaded(void *user)
{
    scene_t *s = user;

    s->loaded++;
}

static void on_warning(void *user, const char *text)
{
}

static void on_failed(void *user, const char *text)
{
    scene_t *s = user;

    snprintf(s->problem, sizeof(s->problem), "%s", text);
}

static void on_process(void *user, pid_t pid)
{
}

static void on_done(void *user, uint64_t ticket, crt_status_t status, const char *text,
                    bool found, crti_span_t value)
{
}

/* ---------------------------------------------------------------- the scene */

static int listen_somewhere(crti_redis_endpoint_t *endpoint)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(fd, 4), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    endpoint->port = ntohs(at.sin_port);
    snprintf(endpoint->address, sizeof(endpoint->address), "127.0.0.1:%d",
             endpoint->port);
    return fd;
}

static int set_up(void **state)
{
    scene_t *s = calloc(1, sizeof(*s));
    crti_redis_endpoint_t endpoint = {.ip = "127.0.0.1",
                                      .prefix = "crt",
                                      .owner = "here 127.0.0.1:7 0123",
                                      .place_size = sizeof("here 127.0.0.1:7 ") - 1};
    crti_redis_config_t config = {.endpoint = &endpoint,
                                  .user = s,
                                  .on_row = on_row,
                                  .on_loaded = on_loaded,
                                  .on_warning = on_warning,
                                  .on_failed = on_failed,
                                  .on_process = on_process,
                                  .on_done = on_done};
    int yes = 1;

    assert_int_equal(crti_loop_new(&s->loop), CRT_OK);
    config.loop = s->loop;
    s->listener = listen_somewhere(&endpoint);
    assert_int_equal(crti_redis_new(&config, &s->redis), CRT_OK);
    s->fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(s->fd >= 0);
    setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    scene_t *s = *state;

    crti_redis_free(s->redis);
    crti_loop_free(s->loop);
    close(s->fd);
    close(s->listener);
    free(s);
    return 0;
}

/* Waits until the head has asked something that ends so. */
static void expect_question(scene_t *s, const char *last)
{
    char text[4096];
    size_t used = 0;
    uint64_t deadline = crti_now_ns() + PATIENCE_NS;

    for (;;) {
        ssize_t n = recv(s->fd, text + used, sizeof(text) - 1 - used, 0);

        used += n > 0 ? (size_t)n : 0;
        text[used] = '\0';
        if (used >= strlen(last) && strcmp(text + used - strlen(last), last) == 0)
            return;
        if (crti_now_ns() > deadline)
            fail_msg("\"%s\" does not end in \"%s\"", text, last);
        crti_loop_turn(s->loop, crti_now_ns() + CRTI_MS);
    }
}

static void answer(scene_t *s, const char *text)
{
    assert_int_equal(send(s->fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static bool has_loaded(void *user)
{
    return ((scene_t *)user)->loaded > 0;
}

static bool has_failed(void *user)
{
    return ((scene_t *)user)->problem[0] != '\0';
}

static bool is_down(void *user)
{
    return ((scene_t *)user)->redis->state == REDIS_DOWN;
}

static void await(scene_t *s, bool (*done)(void *user))
{
    assert_int_equal(loop_until(s->loop, done, s, crti_now_ns() + PATIENCE_NS), CRT_OK);
}

static void come_to_the_rows(scene_t *s)
{
    expect_question(s, "$1\r\n1\r\n"); /* the prefix, and the first mark */
    answer(s, ":1\r\n");
    expect_question(s, "$11\r\nappendfsync\r\n");
    answer(s, "$13\r\naof_enabled:1\r\n");
    answer(s, "*2\r\n$11\r\nappendfsync\r\n$6\r\nalways\r\n");
    expect_question(s, "$4\r\n1000\r\n");
}

static void come_up(scene_t *s)
{
    come_to_the_rows(s);
    for (int table = 0; table < CRTI_STORE_KV; table++) {
        answer(s, "*2\r\n$1\r\n0\r\n*2\r\n$1\r\nk\r\n$1\r\nv\r\n");
        if (table + 1 < CRTI_STORE_KV)
            expect_question(s, "$4\r\n1000\r\n");
    }
    await(s, has_loaded);
}

/* ---------------------------------------------------------------- tests */

static void rows_are_read_table_after_table(void **state)
{
    scene_t *s = *state;

    come_up(s);
    assert_int_equal(s->rows, CRTI_STORE_KV);
}

static void an_answer_that_nobody_asked_for_ends_the_connection_only(void **state)
{
    scene_t *s = *state;

    come_up(s);
    answer(s, ":1\r\n");
    await(s, is_down);
    if (!strstr(s->redis->reason, "nobody had asked for"))
        fail_msg("%s", s->redis->reason);
}

static void an_answer_of_too_many_elements_ends_the_connection_only(void **state)
{
    scene_t *s = *state;

    come_to_the_rows(s);
    answer(s, "*2147483647\r\n");
    await(s, has_failed);
    if (!strstr(s->problem, "too many elements"))
        fail_msg("%s", s->problem);
}

static void an_error_without_words_is_told_by_who_gave_it_and_to_what(void **state)
{
    scene_t *s = *state;

    come_to_the_rows(s);
    answer(s, "-\r\n");
    await(s, has_failed);
    if (strncmp(s->problem, "redis-server at 127.0.0.1:", 26) != 0 ||
        !strstr(s->problem, "unexpected answer to HSCAN"))
        fail_msg("%s", s->problem);
}

static void rows_that_are_no_text_are_left_to_who_reads_them(void **state)
{
    scene_t *s = *state;

    come_to_the_rows(s);
    answer(s, "*2\r\n$1\r\n9\r\n*3\r\n:1\r\n$-1\r\n*1\r\n:7\r\n");
    expect_question(s, "$1\r\n9\r\n$5\r\nCOUNT\r\n$4\r\n1000\r\n");
    assert_int_equal(s->rows, 1);
}

static void a_path_too_long_for_the_socket_of_tls_is_refused(void **state)
{
    crti_redis_endpoint_t endpoint = {.ip = "127.0.0.1", .port = 1, .host = "127.0.0.1"};
    crti_redis_tls_proxy_t proxy;

    memset(endpoint.socket, 'x', sizeof(endpoint.socket) - 1);
    crti_redis_tls_proxy_init(&proxy, NULL);
    assert_int_equal(crti_redis_tls_proxy_begin(&proxy, &endpoint), CRT_ERR_TOO_LARGE);
    assert_non_null(strstr(crt_error_detail(), "set CRT_RUN_DIR to a short one"));
    crti_redis_tls_proxy_close(&proxy);
}

/* In a process of its own: whoever connects gets a drop every 100 ms, which is no answer yet. */
static void drip(int listener, const char *drop)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (send(fd, drop, strlen(drop), MSG_NOSIGNAL) > 0)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    _exit(0);
}

/* How long the head's farewell takes where the server answers with drops of `drop`. */
static uint64_t farewell_ns(scene_t *s, const char *drop)
{
    uint64_t began;
    pid_t pid;

    come_up(s);
    pid = fork();
    if (pid == 0)
        drip(s->listener, drop);
    began = crti_now_ns();
    crti_redis_end(s->redis, true);
    began = crti_now_ns() - began;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return began;
}

static void a_server_that_drips_does_not_hold_up_the_end(void **state)
{
    assert_in_range(farewell_ns(*state, ":"), 0, 10 * CRTI_S);
}

static void a_server_that_answers_without_end_does_not_hold_up_the_end(void **state)
{
    char *flood = calloc(1, 4 << 20);

    memset(flood, 'x', (4 << 20) - 1);
    flood[0] = '+';
    assert_in_range(farewell_ns(*state, flood), 0, 10 * CRTI_S);
    free(flood);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_read_table_after_table, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            an_answer_that_nobody_asked_for_ends_the_connection_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            an_answer_of_too_many_elements_ends_the_connection_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            an_error_without_words_is_told_by_who_gave_it_and_to_what, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_that_are_no_text_are_left_to_who_reads_them,
                                        set_up, tear_down),
        cmocka_unit_test(a_path_too_long_for_the_socket_of_tls_is_refused),
        cmocka_unit_test_setup_teardown(a_server_that_drips_does_not_hold_up_the_end,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_server_that_answers_without_end_does_not_hold_up_the_end, set_up,
            tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
