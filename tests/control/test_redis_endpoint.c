/* SPDX-License-Identifier: Apache-2.0 */
/* crt-head with an external redis-server: several clusters on one server, a server that is away,
 * and everything that may be wrong with it, one sentence each. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/rundir.h"
#include "tests/control/head_bed.h"
#include "tests/control/redis_bed.h"

typedef struct scene {
    redis_bed_t server;
    head_bed_t *bed, *other; /* two heads, each with directories of its own */
} scene_t;

/* ---------------------------------------------------------------- the scene */

static int set_up(void **state)
{
    scene_t *s = calloc(1, sizeof(*s));

    redis_bed_begin(&s->server);
    s->bed = head_bed_new();
    s->other = head_bed_new();
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    scene_t *s = *state;

    head_bed_free(s->bed);
    head_bed_free(s->other);
    redis_bed_end(&s->server);
    free(s);
    return 0;
}

static bool start_head(scene_t *s, head_bed_t *bed, const char *port, const char *prefix)
{
    const char *arguments[] = {"--no-dashboard",
                               "--redis-address",
                               s->server.address,
                               "--redis-prefix",
                               prefix,
                               "--redis-password-file",
                               s->server.password_file,
                               NULL};

    return head_start(bed, port, arguments);
}

/* The start fails with one sentence that holds `part`. */
static void expect_refusal(scene_t *s, const char *part, const char *const *arguments)
{
    const char *all[16] = {"--no-dashboard"};
    size_t count = 1;

    while (*arguments)
        all[count++] = *arguments++;
    assert_false(head_start(s->bed, "0", all));
    if (strncmp(s->bed->line, "error ", 6) != 0 || !strstr(s->bed->line, part))
        fail_msg("\"%s\" has no \"%s\"", s->bed->line, part);
}

static crti_message_t put(fake_node_t *node, const char *key, const char *value)
{
    crti_msg_kv_put_t m = {
        .key = crti_str(key), .value = crti_str(value), .overwrite = true};

    return node_ask(node, CRTI_MSG_KV_PUT, &m);
}

static fake_node_t *join(head_bed_t *bed)
{
    fake_node_t *node = node_new(bed, 1);

    node_join(node);
    return node;
}

/* ---------------------------------------------------------------- tables */

static void a_killed_head_finds_its_tables_and_a_clean_end_leaves_none(void **state)
{
    scene_t *s = *state;
    fake_node_t *node;
    char port[16];

    redis_bed_start(&s->server, "yes");
    assert_true(start_head(s, s->bed, "0", "one"));
    assert_null(strstr(s->bed->line, " warning "));
    assert_int_equal(head_redis_pid(s->bed), 0);
    snprintf(port, sizeof(port), "%s", head_port(s->bed));
    node = join(s->bed);
    assert_int_equal(put(node, "k", "v").kind, CRTI_MSG_KV_VALUE);
    head_kill(s->bed);
    assert_true(start_head(s, s->bed, port, "one"));
    node_join(node);
    node_expect_stored(node, "k", "v");
    node_free(node);
    assert_int_equal(head_stop(s->bed), 0);
    assert_int_equal(redis_bed_keys(&s->server), 0);
}

/* Nothing is written over what is not what this head left, and nothing is told as if it were. */
static void
a_server_that_was_emptied_is_noticed_and_nothing_is_written_to_it(void **state)
{
    scene_t *s = *state;
    crti_message_t m;
    fake_node_t *node;
    char text[900] = "", port[16];

    redis_bed_start(&s->server, "yes");
    assert_true(start_head(s, s->bed, "0", "one"));
    snprintf(port, sizeof(port), "%s", head_port(s->bed));
    node = join(s->bed);
    node_keep_alive(node);
    assert_int_equal(put(node, "k", "v").kind, CRTI_MSG_KV_VALUE);
    redis_bed_command(&s->server, "FLUSHALL");
    do
        m = put(node, "k", "w");
    while (m.kind == CRTI_MSG_KV_VALUE);
    assert_int_equal(m.kind, CRTI_MSG_ERROR);
    crti_text(m.error.text, text, sizeof(text));
    assert_non_null(
        strstr(text, "the tables that this head wrote are gone: it was emptied"));
    node_free(node);
    head_kill(s->bed);
    redis_bed_command(&s->server, "FLUSHALL");
    assert_false(
        start_head(s, s->bed, port, "one")); /* a new head does not begin anew either */
    assert_non_null(
        strstr(s->bed->line, "which this head had before, are gone on redis-server at"));
    assert_non_null(strstr(s->bed->line, "there is nothing"));
    assert_non_null(strstr(s->bed->line, "--fresh"));
    assert_int_equal(redis_bed_keys(&s->server), 1); /* the epoch alone */
}

static void a_password_file_of_any_editor_is_read(void **state)
{
    scene_t *s = *state;

    redis_bed_write(s->server.password_file, "\xef\xbb\xbf" REDIS_BED_PASSWORD "\r\n");
    redis_bed_start(&s->server, "yes");
    assert_true(start_head(s, s->bed, "0", "crt"));
    assert_int_equal(head_stop(s->bed), 0);
    redis_bed_write(s->server.password_file, "\xff\xfep\n");
    expect_refusal(s, "is UTF-16: save it as UTF-8",
                   (const char *[]){"--redis-address", s->server.address,
                                    "--redis-password-file", s->server.password_file,
                                    NULL});
}

static void a_fresh_start_forgets_what_an_earlier_head_knew(void **state)
{
    scene_t *s = *state;
    const char *arguments[] = {"--redis-address",
                               s->server.address,
                               "--redis-password-file",
                               s->server.password_file,
                               "--no-dashboard",
                               "--fresh",
                               NULL};
    fake_node_t *node;
    char port[16];

    redis_bed_start(&s->server, "yes");
    assert_true(start_head(s, s->bed, "0", "crt")); /* the default */
    snprintf(port, sizeof(port), "%s", head_port(s->bed));
    node = join(s->bed);
    put(node, "k", "v");
    head_kill(s->bed);
    assert_true(head_start(s->bed, port, arguments));
    node_join(node);
    node_expect_stored(node, "k", NULL);
    node_free(node);
}

static void two_clusters_share_a_server_by_their_prefixes(void **state)
{
    scene_t *s = *state;
    fake_node_t *node, *other;

    redis_bed_start(&s->server, "yes");
    assert_true(start_head(s, s->bed, "0", "one"));
    assert_true(start_head(s, s->other, "0", "two"));
    node = join(s->bed);
    other = join(s->other);
    put(node, "k", "of one");
    put(other, "k", "of two");
    node_expect_stored(node, "k", "of one");
    node_free(node);
    assert_int_equal(head_stop(s->bed), 0);
    node_expect_stored(other, "k", "of two");
    node_free(other);
}

/* ---------------------------------------------------------------- whose prefix */

static void
the_prefix_of_a_living_head_is_refused_and_that_of_a_dead_one_taken(void **state)
{
    scene_t *s = *state;
    fake_node_t *node;
    char expected[200];

    redis_bed_start(&s->server, "yes");
    assert_true(start_head(s, s->bed, "0", "one"));
    assert_false(start_head(s, s->other, "0", "one"));
    snprintf(
        expected, sizeof(expected),
        "error the prefix \"one\" of redis-server at %s is in use by the head at %s: ",
        s->server.address, s->bed->address);
    if (strncmp(s->other->line, expected, strlen(expected)) != 0)
        fail_msg("%s", s->other->line);
    node = join(s->bed);
    assert_int_equal(put(node, "k", "v").kind, CRTI_MSG_KV_VALUE);
    node_free(node);
    head_kill(s->bed);
    assert_true(start_head(s, s->other, "0", "one"));
    node = join(s->other);
    node_expect_stored(node, "k", "v");
    node_free(node);
}

static void a_head_that_lost_its_prefix_while_it_was_stopped_writes_no_more(void **state)
{
    scene_t *s = *state;
    crti_msg_kv_put_t m = {
        .key = crti_str("k"), .value = crti_str("old"), .overwrite = true};
    fake_node_t *node, *other;
    int status;

    redis_bed_start(&s->server, "yes");
    assert_true(start_head(s, s->bed, "0", "one"));
    node = join(s->bed);
    put(node, "k", "v");
    kill(s->bed->pid, SIGSTOP);
    assert_true(start_head(s, s->other, "0", "one"));
    other = join(s->other);
    put(other, "k", "new");
    node_send(node, CRTI_MSG_KV_PUT, &m);
    kill(s->bed->pid, SIGCONT);
    assert_int_equal(waitpid(s->bed->pid, &status, 0), s->bed->pid);
    s->bed->pid = 0;
    assert_int_equal(WEXITSTATUS(status), 1);
    node_expect_stored(other, "k", "new");
    node_free(node);
    node_free(other);
}

/* ---------------------------------------------------------------- away */

static void a_change_waits_for_a_redis_bed_that_comes_back(void **state)
{
    scene_t *s = *state;
    crti_msg_kv_put_t m = {
        .key = crti_str("k"), .value = crti_str("2"), .overwrite = true};
    fake_node_t *node;
    uint64_t request;

    redis_bed_start(&s->server, "yes");
    assert_true(start_head(s, s->bed, "0", "one"));
    node = join(s->bed);
    put(node, "k", "1");
    redis_bed_kill(&s->server);
    request = node_send(node, CRTI_MSG_KV_PUT, &m);
    redis_bed_restart(&s->server);
    assert_int_equal(node_next(node, 0, request).kind, CRTI_MSG_KV_VALUE);
    node_expect_stored(node, "k", "2");
    node_free(node);
}

/* Changes fail with the reason; the head lives, and is as before when the server is. */
static void fail_while_away(scene_t *s, void (*leave)(redis_bed_t *server),
                            void (*come_back)(redis_bed_t *server), const char *why)
{
    crti_message_t answer;
    fake_node_t *node;
    char text[600], *json;

    redis_bed_start(&s->server, "yes");
    assert_true(start_head(s, s->bed, "0", "one"));
    node = join(s->bed);
    node_keep_alive(node);
    put(node, "k", "1");
    leave(&s->server);
    answer = put(node, "k", "2");
    assert_int_equal(answer.kind, CRTI_MSG_ERROR);
    crti_text(answer.error.text, text, sizeof(text));
    if (!strstr(text, "the control store can't write: redis-server at 127.0.0.1:") ||
        !strstr(text, why))
        fail_msg("%s", text);
    json = admin_state(s->bed, "nodes", "");
    assert_non_null(strstr(json, "ALIVE"));
    free(json);
    come_back(&s->server);
    while (put(node, "k", "3").kind != CRTI_MSG_KV_VALUE)
        continue; /* each waits for seconds */
    node_expect_stored(node, "k", "3");
    node_free(node);
}

static void stop_server(redis_bed_t *server)
{
    kill(server->pid, SIGSTOP);
}

static void continue_server(redis_bed_t *server)
{
    kill(server->pid, SIGCONT);
}

static void changes_fail_clearly_while_the_server_is_gone(void **state)
{
    fail_while_away(*state, redis_bed_kill, redis_bed_restart, "Connection refused");
}

static void changes_fail_clearly_while_the_server_is_silent(void **state)
{
    fail_while_away(*state, stop_server, continue_server, "no answer for 5 s");
}

/* ---------------------------------------------------------------- what may be wrong */

static void wrong_passwords_are_one_sentence(void **state)
{
    scene_t *s = *state;
    const char *address, *file;
    char path[64];

    redis_bed_start(&s->server, "yes");
    address = s->server.address;
    file = s->server.password_file;
    expect_refusal(s, "wants a password: give --redis-password-file",
                   (const char *[]){"--redis-address", address, NULL});
    redis_bed_write(file, "wrong");
    expect_refusal(s, "/password is refused: WRONGPASS",
                   (const char *[]){"--redis-address", address, "--redis-password-file",
                                    file, NULL});
    redis_bed_write(file, "\n");
    expect_refusal(s, "its first line must hold",
                   (const char *[]){"--redis-address", address, "--redis-password-file",
                                    file, NULL});
    assert_int_equal(chmod(file, 0640), 0);
    expect_refusal(s, "can be used by others (mode 0640); run: chmod 600",
                   (const char *[]){"--redis-address", address, "--redis-password-file",
                                    file, NULL});
    snprintf(path, sizeof(path), "%s/none", s->server.folder);
    expect_refusal(s, "/none: No such file or directory",
                   (const char *[]){"--redis-address", address, "--redis-password-file",
                                    path, NULL});
}

static void wrong_addresses_and_prefixes_are_one_sentence(void **state)
{
    scene_t *s = *state;
    char address[32];

    snprintf(address, sizeof(address), "127.0.0.1:%d", redis_bed_free_port());
    expect_refusal(s, ": Connection refused",
                   (const char *[]){"--redis-address", address, NULL});
    expect_refusal(s, "--redis-address takes HOST:PORT",
                   (const char *[]){"--redis-address", "localhost", NULL});
    expect_refusal(s, "not on this host, and what goes there is not encrypted",
                   (const char *[]){"--redis-address", "192.0.2.1:6379", NULL});
    expect_refusal(s, "--redis-prefix goes with --redis-address",
                   (const char *[]){"--redis-prefix", "x", NULL});
    expect_refusal(
        s, "\"a:b\" is not 1 to 63 letters",
        (const char *[]){"--redis-address", address, "--redis-prefix", "a:b", NULL});
}

/* A head's port speaks TLS, or nothing to strangers. */
static void something_else_at_that_address_is_one_sentence(void **state)
{
    scene_t *s = *state;
    head_bed_t *bed = s->bed;

    assert_true(head_start(s->other, "0", NULL));
    expect_refusal(s, "redis-server at 127.0.0.1:",
                   (const char *[]){"--redis-address", s->other->address, NULL});
    assert_ptr_equal(strchr(bed->line, '\n'), NULL);
}

static void a_redis_bed_that_keeps_no_file_is_warned_of(void **state)
{
    scene_t *s = *state;

    redis_bed_start(&s->server, "no");
    assert_true(start_head(s, s->bed, "0", "one"));
    assert_non_null(strstr(s->bed->line, " warning redis-server at 127.0.0.1:"));
    assert_non_null(strstr(s->bed->line, " keeps no append-only file (appendonly no): "));
}

static void expect_no_password_in(const char *path)
{
    static char text[1 << 20];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, text, sizeof(text));

    assert_true(n > 0);
    assert_null(memmem(text, (size_t)n, REDIS_BED_PASSWORD, strlen(REDIS_BED_PASSWORD)));
    close(fd);
}

static void the_password_is_in_no_argument_environment_or_log(void **state)
{
    scene_t *s = *state;
    const char *arguments[] = {"--redis-address",
                               s->server.address,
                               "--redis-password-file",
                               s->server.password_file,
#ifdef CRTI_TEST_HTTP
                               "--dashboard-port",
                               "0",
#endif
                               NULL};
    CRTI_AUTO(free) char *info = NULL;
    char path[400];
    fake_node_t *node;

    redis_bed_start(&s->server, "yes");
    setenv("CRT_LOG", "trace", 1);
    assert_true(head_start(s->bed, "0", arguments));
    unsetenv("CRT_LOG");
    node = join(s->bed);
    put(node, "k", "v");
    snprintf(path, sizeof(path), "%s/head.info", s->bed->head_dir);
    assert_int_equal(crti_info_read(path, &info), CRT_OK);
    for (int i = 0; i < 2; i++) {
        long pid = i ? (long)crti_info_int(info, "http_pid") : (long)s->bed->pid;

        if (i && pid <= 0)
            break; /* built without a dashboard */
        snprintf(path, sizeof(path), "/proc/%ld/cmdline", pid);
        expect_no_password_in(path);
        snprintf(path, sizeof(path), "/proc/%ld/environ", pid);
        expect_no_password_in(path);
    }
    snprintf(path, sizeof(path), "%.*s/head.log",
             (int)(strrchr(s->bed->key_file, '/') - s->bed->key_file), s->bed->key_file);
    expect_no_password_in(path);
    node_free(node);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_killed_head_finds_its_tables_and_a_clean_end_leaves_none),
        TEST(a_password_file_of_any_editor_is_read),
        TEST(a_server_that_was_emptied_is_noticed_and_nothing_is_written_to_it),
        TEST(a_fresh_start_forgets_what_an_earlier_head_knew),
        TEST(two_clusters_share_a_server_by_their_prefixes),
        TEST(the_prefix_of_a_living_head_is_refused_and_that_of_a_dead_one_taken),
        TEST(a_head_that_lost_its_prefix_while_it_was_stopped_writes_no_more),
        TEST(a_change_waits_for_a_redis_bed_that_comes_back),
        TEST(changes_fail_clearly_while_the_server_is_gone),
        TEST(changes_fail_clearly_while_the_server_is_silent),
        TEST(wrong_passwords_are_one_sentence),
        TEST(wrong_addresses_and_prefixes_are_one_sentence),
        TEST(something_else_at_that_address_is_one_sentence),
        TEST(a_redis_bed_that_keeps_no_file_is_warned_of),
        TEST(the_password_is_in_no_argument_environment_or_log),
    };

    head_program = argc > 1 ? argv[1] : "crt-head";
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
