/* SPDX-License-Identifier: Apache-2.0 */
/* crt-head as a process: start, answers, end, strangers and malformed messages. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/rundir.h"
#include "runtime/base/task_records.h"
#include "runtime/net/tls.h"
#include "tests/control/head_bed.h"
#include "tests/net/tls_write.h"

static bool process_exists(pid_t pid)
{
    return kill(pid, 0) == 0;
}

/* ---------------------------------------------------------------- serving */

static void an_actor_is_placed_started_and_found_by_name(void **state)
{
    head_bed_t *bed = *state;
    crti_msg_actor_find_t find = {.name = crti_str("counter")};
    crti_msg_actor_watch_t watch = {.actor = an_id(50)};
    fake_node_t *node;
    crti_message_t m;

    assert_true(head_start(bed, "0", NULL));
    node = node_new(bed, 1);
    node_join(node);
    node_add_job(node, 5);
    node_make_actor(node, 50, "counter");
    m = node_ask(node, CRTI_MSG_ACTOR_WATCH, &watch);
    while (m.actor_state.state != CRTI_ACTOR_ALIVE)
        m = node_next(node, CRTI_MSG_ACTOR_STATE, 0);
    m = node_ask(node, CRTI_MSG_ACTOR_FIND, &find);
    assert_int_equal(m.kind, CRTI_MSG_ACTOR_STATE);
    assert_true(crti_id_equal(m.actor_state.process, an_id(1000050)));
    node_free(node);
}

/* What a node says of so many calls. */
static void say_calls(fake_node_t *node, uint64_t request, uint64_t count)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t records = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    crti_task_record_t record = {.process = an_id(7), .job = an_id(5)};
    crti_msg_state_answer_t answer;

    assert_int_equal(crti_task_records_begin(0, &records), CRT_OK);
    for (uint64_t i = 1; i <= count; i++) {
        record.event = (crti_task_event_t){.owner = an_id(9), .number = i, .attempt = i};
        crti_task_set_text(record.event.name, sizeof(record.event.name), "call", 4);
        crti_task_set_state(&record.event, CRTI_TASK_QUEUED, i);
        assert_int_equal(crti_task_records_add(&record, &records), CRT_OK);
    }
    assert_int_equal(crti_list_pack(&list, records.data, records.size), CRT_OK);
    assert_int_equal(crti_list_pack(&list, "[]", 2), CRT_OK);
    answer.json = crti_span(list.data, list.size);
    assert_int_equal(
        crti_stream_send(node->stream, CRTI_MSG_STATE_ANSWER, request, &answer), CRT_OK);
}

static void a_list_of_thousands_of_calls_holds_up_no_other_answer(void **state)
{
    head_bed_t *bed = *state;
    crti_msg_state_query_t calls = {.what = crti_str("tasks")},
                           nodes = {.what = crti_str("nodes")};
    uint64_t long_one, short_one;
    fake_node_t *node;
    crti_message_t m;

    assert_true(head_start(bed, "0", NULL));
    node = node_new(bed, 1);
    node_join(node);
    long_one = node_send(node, CRTI_MSG_STATE_QUERY, &calls);
    m = node_next(node, CRTI_MSG_STATE_QUERY, 0);
    say_calls(node, m.request, 10000);
    short_one = node_send(node, CRTI_MSG_STATE_QUERY, &nodes);
    m = node_next(node, CRTI_MSG_STATE_ANSWER, 0);
    assert_int_equal(m.request, short_one);
    m = node_next(node, CRTI_MSG_STATE_ANSWER, 0);
    assert_int_equal(m.request, long_one);
    assert_true(m.state_answer.json.size > 1 << 20);
    node_free(node);
}

static void values_are_put_read_listed_and_deleted(void **state)
{
    head_bed_t *bed = *state;
    crti_msg_kv_put_t once = {.key = crti_str("a/1"), .value = crti_str("other")};
    crti_msg_kv_keys_t keys = {.prefix = crti_str("a/")};
    crti_msg_kv_delete_t delete = {.key = crti_str("a/1")};
    char *large = calloc(1, 1 << 20);
    crti_msg_kv_put_t binary = {.key = crti_str("bin"),
                                .value = crti_span(large, 1 << 20)};
    crti_msg_kv_get_t get = {.key = crti_str("bin")};
    fake_node_t *node;
    crti_span_t rest, key;
    crti_message_t m;

    assert_true(head_start(bed, "0", NULL));
    node = node_new(bed, 1);
    node_join(node);
    node_expect_stored(node, "a/1", NULL);
    node_put(node, "a/1", "one");
    node_put(node, "a/2", "two");
    node_put(node, "b", "three");
    assert_true(node_ask(node, CRTI_MSG_KV_PUT, &once).kv_value.found);
    node_expect_stored(node, "a/1", "one");
    m = node_ask(node, CRTI_MSG_KV_KEYS, &keys);
    rest = m.kv_value.value;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(crti_list_unpack(&rest, &key), CRT_OK);
        assert_int_equal(memcmp(key.data, "a/", 2), 0);
    }
    assert_int_equal(crti_list_unpack(&rest, &key), CRT_ERR_NOT_FOUND);
    assert_true(node_ask(node, CRTI_MSG_KV_DELETE, &delete).kv_value.found);
    assert_false(node_ask(node, CRTI_MSG_KV_DELETE, &delete).kv_value.found);
    node_expect_stored(node, "a/1", NULL);
    assert_int_equal(node_ask(node, CRTI_MSG_KV_PUT, &binary).kind, CRTI_MSG_KV_VALUE);
    m = node_ask(node, CRTI_MSG_KV_GET, &get);
    assert_int_equal(m.kv_value.value.size, 1 << 20);
    free(large);
    node_free(node);
}

static bool swap(fake_node_t *node, const char *expected, const char *value)
{
    crti_msg_kv_swap_t body = {.key = crti_str("s"),
                               .expected = crti_str(expected),
                               .value = crti_str(value),
                               .is_deletion = !*value};

    return node_ask(node, CRTI_MSG_KV_SWAP, &body).kv_value.found;
}

static bool swap_as(fake_node_t *node, uint64_t id, const char *expected,
                    const char *value)
{
    crti_msg_kv_swap_t body = {.key = crti_str("s"),
                               .expected = crti_str(expected),
                               .value = crti_str(value),
                               .swap = {7, id},
                               .is_new = !expected};

    return node_ask(node, CRTI_MSG_KV_SWAP, &body).kv_value.found;
}

/* A node asks again when its link or the head was lost: whatever others did meanwhile, the answer
 * is that of the first time. */
static void a_swap_that_is_asked_for_again_is_carried_out_once(void **state)
{
    head_bed_t *bed = *state;
    fake_node_t *node;

    assert_true(head_start(bed, "0", NULL));
    node = node_new(bed, 1);
    node_join(node);
    assert_true(swap_as(node, 1, NULL, "mine"));
    assert_true(swap_as(node, 1, NULL, "mine"));
    assert_false(swap_as(node, 2, NULL, "mine")); /* another one's, of the same value */
    assert_true(swap_as(node, 3, "mine", "theirs"));
    assert_true(swap_as(node, 1, NULL, "mine"));
    node_expect_stored(node, "s", "theirs");
    assert_true(swap_as(node, 4, "theirs", "mine"));
    assert_true(swap_as(node, 3, "mine", "theirs")); /* not a second time */
    node_expect_stored(node, "s", "mine");
    node_free(node);
}

static void a_value_is_exchanged_only_for_what_was_expected(void **state)
{
    head_bed_t *bed = *state;
    fake_node_t *node;

    assert_true(head_start(bed, "0", NULL));
    node = node_new(bed, 1);
    node_join(node);
    assert_false(swap(node, "one", "two")); /* nothing is there */
    node_expect_stored(node, "s", NULL);
    node_put(node, "s", "one");
    assert_false(swap(node, "on", "two"));
    assert_true(swap(node, "one", "two"));
    node_expect_stored(node, "s", "two");
    assert_false(swap(node, "one", ""));
    assert_true(swap(node, "two", ""));
    node_expect_stored(node, "s", NULL);
    node_free(node);
}

static void the_admin_socket_answers_with_json(void **state)
{
    head_bed_t *bed = *state;
    char *json;
    fake_node_t *node;

    assert_true(head_start(bed, "0", NULL));
    node = node_new(bed, 1);
    node_join(node);
    json = admin_state(bed, "cluster", "");
    assert_non_null(strstr(json, bed->address));
    assert_non_null(strstr(json, "\"resources_total\":{\"CPU\":4}"));
    free(json);
    node_free(node);
}

/* ---------------------------------------------------------------- start and end */

static size_t entries_of(const char *path)
{
    DIR *dir = opendir(path);
    size_t count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count; /* with . and .. */
}

static void a_clean_end_leaves_no_process_and_begins_anew(void **state)
{
    head_bed_t *bed = *state;
    char run[64], port[16];
    fake_node_t *node;
    pid_t redis;

    assert_true(head_start(bed, "0", NULL));
    snprintf(port, sizeof(port), "%s", head_port(bed));
    snprintf(run, sizeof(run), "%s/run", bed->folder);
    node = node_new(bed, 1);
    node_join(node);
    node_put(node, "k", "v");
    redis = head_redis_pid(bed);
    assert_true(process_exists(redis));
    kill(bed->pid, SIGTERM);
    node_next(node, CRTI_MSG_SHUTDOWN, 0); /* the nodes are told */
    node_close(node);
    assert_int_equal(head_stop(bed), 0);
    assert_false(process_exists(redis));
    assert_int_equal(entries_of(run), 2);
    assert_true(head_start(bed, port, NULL));
    node_join(node);
    node_expect_stored(node, "k", NULL);
    node_free(node);
}

static bool is_closed(void *user)
{
    return ((fake_node_t *)user)->closed;
}

static void a_head_that_stops_does_not_wait_for_nodes_that_took_their_leave(void **state)
{
    head_bed_t *bed = *state;
    crti_msg_node_leave_t leave = {.text = crti_str("the cluster was stopped")};
    CRTI_AUTO(fclose) FILE *log = NULL;
    fake_node_t *node;
    char line[512];
    int status;

    assert_true(head_start(bed, "0", NULL));
    node = node_new(bed, 1);
    node_join(node);
    kill(bed->pid, SIGTERM);
    node_next(node, CRTI_MSG_SHUTDOWN, 0);
    node_send(node, CRTI_MSG_NODE_LEAVE, &leave);
    assert_true(head_until(bed, is_closed, node));
    assert_int_equal(waitpid(bed->pid, &status, 0), bed->pid);
    bed->pid = 0;
    assert_int_equal(status, 0);
    snprintf(line, sizeof(line), "%.*s/head.log",
             (int)(strrchr(bed->key_file, '/') - bed->key_file), bed->key_file);
    log = fopen(line, "re");
    assert_non_null(log);
    while (fgets(line, sizeof(line), log))
        assert_null(strstr(line, "did not end"));
    node_free(node);
}

static void the_end_of_the_lifeline_ends_it(void **state)
{
    head_bed_t *bed = *state;
    int status;
    pid_t redis;

    assert_true(head_start(bed, "0", NULL));
    redis = head_redis_pid(bed);
    close(bed->lifeline);
    bed->lifeline = -1;
    assert_int_equal(waitpid(bed->pid, &status, 0), bed->pid);
    bed->pid = 0;
    assert_int_equal(status, 0);
    assert_false(process_exists(redis));
}

static void a_private_cluster_leaves_nothing(void **state)
{
    head_bed_t *bed = *state;
    char folder[64];
    const char *arguments[] = {"--no-dashboard", "--private", folder, NULL};

    snprintf(folder, sizeof(folder), "%s/private", bed->folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_true(head_start(bed, "0", arguments));
    assert_non_null(strstr(bed->head_dir, folder));
    assert_int_equal(head_stop(bed), 0);
    assert_int_equal(access(folder, F_OK), -1);
}

static void a_private_cluster_leaves_nothing_of_a_node_that_was_killed(void **state)
{
    head_bed_t *bed = *state;
    char folder[64], dead[80];
    const char *arguments[] = {"--no-dashboard", "--private", folder, NULL};
    int fd;

    snprintf(folder, sizeof(folder), "%s/private", bed->folder);
    snprintf(dead, sizeof(dead), "%s/node-dead", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_true(head_start(bed, "0", arguments));
    assert_int_equal(mkdir(dead, 0700), 0);
    assert_int_equal(crti_dir_lock(dead, &fd), CRT_OK);
    close(fd);
    assert_int_equal(head_stop(bed), 0);
    assert_int_equal(access(folder, F_OK), -1);
}

static void expect_error(head_bed_t *bed, const char *part)
{
    assert_int_equal(strncmp(bed->line, "error ", 6), 0);
    if (strstr(bed->line, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, bed->line);
}

static void a_taken_port_is_one_clear_sentence(void **state)
{
    head_bed_t *bed = *state;
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t size = sizeof(here);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char port[8], run[64];

    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(listen(fd, 1), 0);
    getsockname(fd, (struct sockaddr *)&here, &size);
    snprintf(port, sizeof(port), "%u", ntohs(here.sin_port));
    assert_false(head_start(bed, port, NULL));
    expect_error(bed, "is taken by another program; choose another one");
    expect_error(bed, port);
    snprintf(run, sizeof(run), "%s/run", bed->folder);
    assert_int_equal(entries_of(run), 0); /* not even made */
    close(fd);
}

static void a_second_start_is_refused_and_harms_nothing(void **state)
{
    head_bed_t *bed = *state, second = *bed;
    char port[16];
    fake_node_t *node;

    assert_true(head_start(bed, "0", NULL));
    snprintf(port, sizeof(port), "%s", head_port(bed));
    assert_false(head_start(&second, port, NULL));
    expect_error(&second, "a head of yours runs on port");
    node = node_new(bed, 1);
    node_join(node);
    node_put(node, "k", "v");
    node_free(node);
}

static void without_redis_the_start_says_how_to_get_it(void **state)
{
    head_bed_t *bed = *state;
    char run[64];

    bed->path = "/nonexistent";
    assert_false(head_start(bed, "0", NULL));
    expect_error(bed, "neither redis-server nor valkey-server is installed");
    snprintf(run, sizeof(run), "%s/run", bed->folder);
    assert_int_equal(entries_of(run), 0); /* made, and taken back */
}

/* Absolute, of what `sh` finds in PATH. */
static void find_redis(char *path, size_t size)
{
    FILE *found = popen("command -v redis-server || command -v valkey-server", "r");

    assert_non_null(fgets(path, (int)size, found));
    path[strcspn(path, "\n")] = '\0';
    assert_int_equal(pclose(found), 0);
}

static void what_redis_warns_of_at_each_start_is_not_why_it_ended(void **state)
{
    static const char program[] =
        "#!/bin/sh\n"
        "echo '18:C 28 Nov 2026 07:44:01.264 # WARNING Memory overcommit must be on!'\n"
        "echo 'a library is missing'\n"
        "exit 1\n";
    head_bed_t *bed = *state;
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/redis-server", bed->folder);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(program, file) >= 0 && fchmod(fileno(file), 0700) == 0, true);
    assert_int_equal(fclose(file), 0);
    bed->path = bed->folder;
    assert_false(head_start(bed, "0", NULL));
    expect_error(bed, "redis-server ended: a library is missing");
}

static void valkey_will_do_where_there_is_no_redis(void **state)
{
    head_bed_t *bed = *state;
    char program[256], link[80];
    fake_node_t *node;

    find_redis(program, sizeof(program));
    snprintf(link, sizeof(link), "%s/valkey-server", bed->folder);
    assert_int_equal(symlink(program, link), 0);
    bed->path = bed->folder;
    if (!head_start(bed, "0", NULL))
        fail_msg("%s", bed->line);
    node = node_new(bed, 1);
    node_join(node);
    node_put(node, "k", "v");
    node_expect_stored(node, "k", "v");
    node_free(node);
}

static void bad_arguments_are_named(void **state)
{
    const char *const cases[][3] = {{"--port", "x", NULL},
                                    {"--what", NULL},
                                    {"--encrypt-streams", "maybe", NULL},
                                    {"--fail-if-infeasible", "maybe", NULL},
                                    {"--dashboard-port", "70000", NULL}};
    head_bed_t *bed = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_false(head_start(bed, "0", cases[i]));
        expect_error(bed, cases[i][0] + 2);
    }
}

static void a_key_that_others_can_read_stops_the_start(void **state)
{
    head_bed_t *bed = *state;
    char port[16];

    assert_true(head_start(bed, "0", NULL));
    snprintf(port, sizeof(port), "%s", head_port(bed));
    head_stop(bed);
    assert_int_equal(chmod(bed->key_file, 0644), 0);
    assert_false(head_start(bed, port, NULL));
    expect_error(bed, "chmod 600");
}

static void
a_state_directory_that_others_can_use_stops_the_start_without_a_trace(void **state)
{
    head_bed_t *bed = *state;
    char dir[256], run[64], port[16];

    assert_true(head_start(bed, "0", NULL));
    snprintf(port, sizeof(port), "%s", head_port(bed));
    head_stop(bed);
    snprintf(run, sizeof(run), "%s/run", bed->folder);
    assert_int_equal(entries_of(run), 2);
    snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(bed->key_file, '/') - bed->key_file),
             bed->key_file);
    assert_int_equal(chmod(dir, 0755), 0);
    assert_false(head_start(bed, port, NULL));
    expect_error(bed, "chmod 700");
    assert_int_equal(entries_of(run), 2);
    assert_int_equal(chmod(dir, 0700), 0);
    snprintf(dir, sizeof(dir), "%s/state", bed->folder);
    assert_int_equal(chmod(dir, 0777), 0);
    assert_false(head_start(bed, port, NULL));
    expect_error(bed, "chmod o-w");
    assert_int_equal(entries_of(run), 2);
}

/* ---------------------------------------------------------------- strangers and bad bytes */

static void another_key_does_not_get_in(void **state)
{
    static const crti_key_t other = {{9}};
    head_bed_t *bed = *state;
    fake_node_t *node;

    assert_true(head_start(bed, "0", NULL));
    crti_stream_context_free(bed->context);
    assert_int_equal(crti_stream_context_new(&other, true, &bed->context), CRT_OK);
    node = node_new(bed, 1);
    node_connect(node);
    assert_true(node->closed);
    assert_int_equal(node->status, CRT_ERR_PERMISSION);
    head_take_key(bed);
    node_join(node);
    node_free(node);
}

static int connect_admin(const head_bed_t *bed)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(to.sun_path, sizeof(to.sun_path), "%s/head.sock", bed->head_dir);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static int connect_port(const head_bed_t *bed)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)atoi(head_port(bed)));
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

static const struct {
    const char *bytes;
    size_t size;
} malformed[] = {{"\xff\xff\xff\x7f", 4},
                 {"\0\0\0\0", 4},
                 {"\x05\0\0\0hello", 9},
                 {"\x05\0\0\0\x92\xcd\x03\xe7\x01", 9},
                 {"GET / HTTP/1.0\r\n\r\n", 18}};

static void wait_for_end(int fd)
{
    struct timeval patience = {.tv_sec = 20};
    char scrap[256];
    ssize_t n;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    do
        n = read(fd, scrap, sizeof(scrap));
    while (n > 0);
    assert_true(n == 0 || errno == ECONNRESET);
    close(fd);
}

/* With the cluster's key, but what follows is no message. */
static void send_inside(const head_bed_t *bed, const void *data, size_t size)
{
    unsigned char psk[CRTI_KEY_SIZE];
    char path[320];
    crti_tls_context_t *context;
    crti_tls_t *tls;
    crti_key_t key;
    size_t done;
    int fd = connect_port(bed);

    snprintf(path, sizeof(path), "%s", bed->key_file);
    assert_int_equal(crti_key_load(path, &key), CRT_OK);
    crti_key_stream(&key, psk);
    assert_int_equal(crti_tls_context_new(psk, true, &context), CRT_OK);
    assert_int_equal(crti_tls_new(context, fd, false, &tls), CRT_OK);
    assert_int_equal(crti_tls_handshake(tls), CRT_OK);
    assert_int_equal(tls_write(tls, data, size, &done), CRT_OK);
    wait_for_end(fd);
    crti_tls_free(tls);
    crti_tls_context_unref(context);
}

static void malformed_messages_on_every_socket_cost_nobody_else_anything(void **state)
{
    head_bed_t *bed = *state;
    fake_node_t *node;
    char *json;

    assert_true(head_start(bed, "0", NULL));
    node = node_new(bed, 1);
    node_join(node);
    for (size_t i = 0; i < sizeof(malformed) / sizeof(malformed[0]); i++) {
        int fd = connect_admin(bed);

        assert_int_equal(write(fd, malformed[i].bytes, malformed[i].size),
                         (ssize_t)malformed[i].size);
        shutdown(fd, SHUT_WR);
        wait_for_end(fd);
        fd = connect_port(bed);
        assert_int_equal(write(fd, malformed[i].bytes, malformed[i].size),
                         (ssize_t)malformed[i].size);
        shutdown(fd, SHUT_WR);
        wait_for_end(fd);
        send_inside(bed, malformed[i].bytes, malformed[i].size);
    }
    node_put(node, "k", "v");
    json = admin_state(bed, "nodes", "");
    assert_non_null(strstr(json, "ALIVE"));
    free(json);
    node_free(node);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, head_set_up, head_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_actor_is_placed_started_and_found_by_name),
        TEST(a_list_of_thousands_of_calls_holds_up_no_other_answer),
        TEST(values_are_put_read_listed_and_deleted),
        TEST(a_value_is_exchanged_only_for_what_was_expected),
        TEST(a_swap_that_is_asked_for_again_is_carried_out_once),
        TEST(the_admin_socket_answers_with_json),
        TEST(a_clean_end_leaves_no_process_and_begins_anew),
        TEST(a_head_that_stops_does_not_wait_for_nodes_that_took_their_leave),
        TEST(the_end_of_the_lifeline_ends_it),
        TEST(a_private_cluster_leaves_nothing),
        TEST(a_private_cluster_leaves_nothing_of_a_node_that_was_killed),
        TEST(a_taken_port_is_one_clear_sentence),
        TEST(a_second_start_is_refused_and_harms_nothing),
        TEST(without_redis_the_start_says_how_to_get_it),
        TEST(what_redis_warns_of_at_each_start_is_not_why_it_ended),
        TEST(valkey_will_do_where_there_is_no_redis),
        TEST(bad_arguments_are_named),
        TEST(a_key_that_others_can_read_stops_the_start),
        TEST(a_state_directory_that_others_can_use_stops_the_start_without_a_trace),
        TEST(another_key_does_not_get_in),
        TEST(malformed_messages_on_every_socket_cost_nobody_else_anything),
    };

    head_program = argc > 1 ? argv[1] : "crt-head";
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
