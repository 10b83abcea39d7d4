/* SPDX-License-Identifier: Apache-2.0 */
/* crt-head as a process: start, answers, kill -9 of it and of redis-server, a full disk, strangers
 * and malformed messages. */
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
#include "runtime/net/tls.h"
#include "tests/control/head_bed.h"

static int set_up(void **state)
{
    *state = head_bed_new();
    return 0;
}

static int tear_down(void **state)
{
    head_bed_free(*state);
    return 0;
}

static void put(fake_node_t *node, const char *key, const char *value)
{
    crti_msg_kv_put_t m = {
        .key = crti_str(key), .value = crti_str(value), .overwrite = true};

    assert_int_equal(node_ask(node, CRTI_MSG_KV_PUT, &m).kind, CRTI_MSG_KV_VALUE);
}

static void expect_stored(fake_node_t *node, const char *key, const char *value)
{
    crti_msg_kv_get_t m = {.key = crti_str(key)};
    crti_message_t answer = node_ask(node, CRTI_MSG_KV_GET, &m);

    assert_int_equal(answer.kind, CRTI_MSG_KV_VALUE);
    assert_int_equal(answer.kv_value.found, value != NULL);
    if (value)
        assert_true(crti_str_equal(answer.kv_value.value, value));
}

static void make_actor(fake_node_t *node, uint64_t id, const char *name)
{
    crti_msg_actor_create_t m = node_actor(node, id, 5, name);

    assert_int_equal(node_ask(node, CRTI_MSG_ACTOR_CREATE, &m).kind, CRTI_MSG_DONE);
}

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
    make_actor(node, 50, "counter");
    m = node_ask(node, CRTI_MSG_ACTOR_WATCH, &watch);
    while (m.actor_state.state != CRTI_ACTOR_ALIVE)
        m = node_next(node, CRTI_MSG_ACTOR_STATE, 0);
    m = node_ask(node, CRTI_MSG_ACTOR_FIND, &find);
    assert_int_equal(m.kind, CRTI_MSG_ACTOR_STATE);
    assert_true(crti_id_equal(m.actor_state.process, an_id(1000050)));
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
    expect_stored(node, "a/1", NULL);
    put(node, "a/1", "one");
    put(node, "a/2", "two");
    put(node, "b", "three");
    assert_true(node_ask(node, CRTI_MSG_KV_PUT, &once).kv_value.found);
    expect_stored(node, "a/1", "one");
    m = node_ask(node, CRTI_MSG_KV_KEYS, &keys);
    rest = m.kv_value.value;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(crti_list_unpack(&rest, &key), CRT_OK);
        assert_int_equal(memcmp(key.data, "a/", 2), 0);
    }
    assert_int_equal(crti_list_unpack(&rest, &key), CRT_ERR_NOT_FOUND);
    assert_true(node_ask(node, CRTI_MSG_KV_DELETE, &delete).kv_value.found);
    assert_false(node_ask(node, CRTI_MSG_KV_DELETE, &delete).kv_value.found);
    expect_stored(node, "a/1", NULL);
    assert_int_equal(node_ask(node, CRTI_MSG_KV_PUT, &binary).kind, CRTI_MSG_KV_VALUE);
    m = node_ask(node, CRTI_MSG_KV_GET, &get);
    assert_int_equal(m.kv_value.value.size, 1 << 20);
    free(large);
    node_free(node);
}

static bool swap(fake_node_t *node, const char *expected, const char *value)
{
    crti_msg_kv_swap_t body = {
        .key = crti_str("s"), .expected = crti_str(expected), .value = crti_str(value)};

    return node_ask(node, CRTI_MSG_KV_SWAP, &body).kv_value.found;
}

static void a_value_is_exchanged_only_for_what_was_expected(void **state)
{
    head_bed_t *bed = *state;
    fake_node_t *node;

    assert_true(head_start(bed, "0", NULL));
    node = node_new(bed, 1);
    node_join(node);
    assert_false(swap(node, "one", "two")); /* nothing is there */
    expect_stored(node, "s", NULL);
    put(node, "s", "one");
    assert_false(swap(node, "on", "two"));
    assert_true(swap(node, "one", "two"));
    expect_stored(node, "s", "two");
    assert_false(swap(node, "one", ""));
    assert_true(swap(node, "two", ""));
    expect_stored(node, "s", NULL);
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
    put(node, "k", "v");
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
    expect_stored(node, "k", NULL);
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
    const char *arguments[] = {"--dashboard-port", "none", "--private", folder, NULL};

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
    const char *arguments[] = {"--dashboard-port", "none", "--private", folder, NULL};
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
    expect_error(bed, "is taken by another program; choose another with --port");
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
    put(node, "k", "v");
    node_free(node);
}

static void without_redis_the_start_says_how_to_get_it(void **state)
{
    head_bed_t *bed = *state;
    char run[64];

    bed->no_redis = true;
    assert_false(head_start(bed, "0", NULL));
    expect_error(bed, "redis-server is not installed");
    snprintf(run, sizeof(run), "%s/run", bed->folder);
    assert_int_equal(entries_of(run), 2);
}

static void bad_arguments_are_named(void **state)
{
    const char *const cases[][3] = {{"--port", "x", NULL},
                                    {"--what", NULL},
                                    {"--encrypt-streams", "maybe", NULL},
                                    {"--dashboard-port", "70000", NULL}};
    head_bed_t *bed = *state;

    for (int i = 0; i < 4; i++) {
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

/* ---------------------------------------------------------------- kill -9 */

static void a_killed_head_started_again_knows_everything(void **state)
{
    head_bed_t *bed = *state;
    crti_msg_actor_find_t find = {.name = crti_str("counter")};
    fake_node_t *node;
    char port[16], *json;
    crti_message_t m;

    assert_true(head_start(bed, "0", NULL));
    snprintf(port, sizeof(port), "%s", head_port(bed));
    node = node_new(bed, 1);
    node_join(node);
    node_add_job(node, 5);
    make_actor(node, 50, "counter");
    put(node, "k", "v");
    head_kill(bed);
    assert_true(head_start(bed, port, NULL));
    json = admin_state(bed, "jobs", "");
    assert_non_null(strstr(json, "./program"));
    free(json);
    json = admin_state(bed, "nodes", ""); /* what it uses is not known yet */
    assert_non_null(strstr(json, "\"AWAY\""));
    free(json);
    node_join(node); /* reports nothing: what ran there is gone */
    expect_stored(node, "k", "v");
    m = node_ask(node, CRTI_MSG_ACTOR_FIND, &find);
    assert_int_equal(m.kind, CRTI_MSG_ERROR); /* died while the head was away */
    json = admin_state(bed, "nodes", "");
    assert_non_null(strstr(json, "\"ALIVE\""));
    free(json);
    node_free(node);
}

/* Sends `count` creations at once; returns when `until` of them were answered. */
static void create_many(fake_node_t *node, uint64_t first, int count, uint64_t until)
{
    uint64_t deadline = crti_now_ns() + HEAD_PATIENCE;

    node->count_only = true;
    node->start_actors = false;
    node->answered = 0;
    node->acknowledged = calloc(1, 1 << 20);
    for (int i = 0; i < count; i++) {
        char name[32];
        crti_msg_actor_create_t m = node_actor(node, first + (uint64_t)i, 5, name);

        snprintf(name, sizeof(name), "n%llu", (unsigned long long)node->last_request + 1);
        m.name = crti_str(name);
        node_send(node, CRTI_MSG_ACTOR_CREATE, &m);
    }
    while (node->answered < until && !node->closed && crti_now_ns() < deadline)
        crti_loop_turn(node->bed->loop, deadline);
}

/* Every creation that was answered is there, by its name. Returns how many. */
static int check_all(fake_node_t *node, uint64_t first_request, int count)
{
    int found = 0;

    node->count_only = false;
    for (int i = 0; i < count; i++) {
        char name[32];
        crti_msg_actor_find_t find = {.name = crti_str(name)};

        if (!node->acknowledged[first_request + (uint64_t)i])
            continue;
        snprintf(name, sizeof(name), "n%llu", (unsigned long long)first_request + i);
        find.name = crti_str(name);
        assert_int_equal(node_ask(node, CRTI_MSG_ACTOR_FIND, &find).kind,
                         CRTI_MSG_ACTOR_STATE);
        found++;
    }
    return found;
}

static void report_job(fake_node_t *node, crti_buffer_t *jobs)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t entry = {0};
    crti_msg_job_add_t m = {.job = an_id(5), .driver = an_id(1005), .node = node->id};

    assert_int_equal(crti_message_encode(CRTI_MSG_JOB_ADD, 0, &m, &entry), CRT_OK);
    assert_int_equal(crti_list_pack(jobs, entry.data, entry.size), CRT_OK);
}

static void acknowledged_actors_survive_kills_of_the_head_at_any_moment(void **state)
{
    static const uint64_t moments[] = {1, 7, 150, 290};
    head_bed_t *bed = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};
    fake_node_t *node;
    char port[16];

    assert_true(head_start(bed, "0", NULL));
    snprintf(port, sizeof(port), "%s", head_port(bed));
    node = node_new(bed, 1);
    report_job(node, &jobs);
    node->jobs = crti_span(jobs.data, jobs.size);
    node_join(node);
    node_add_job(node, 5);
    for (int i = 0; i < 4; i++) {
        uint64_t first = node->last_request + 1;

        create_many(node, 1000 * (uint64_t)(i + 1), 300, moments[i]);
        head_kill(bed);
        assert_true(head_start(bed, port, NULL));
        node_join(node);
        assert_true(check_all(node, first, 300) >= (int)moments[i]);
        free(node->acknowledged);
        node->acknowledged = NULL;
    }
    node_free(node);
}

static bool is_answered(void *user)
{
    const fake_node_t *node = user;

    return node->answered >= 300 || node->closed;
}

static void kills_of_redis_lose_nothing_and_are_not_noticed_by_those_who_ask(void **state)
{
    static const uint64_t moments[] = {1, 50, 250};
    head_bed_t *bed = *state;
    fake_node_t *node;

    assert_true(head_start(bed, "0", NULL));
    node = node_new(bed, 1);
    node_join(node);
    node_add_job(node, 5);
    put(node, "k", "v");
    for (int i = 0; i < 3; i++) {
        uint64_t first = node->last_request + 1;
        pid_t redis = head_redis_pid(bed);

        create_many(node, 1000 * (uint64_t)(i + 1), 300, moments[i]);
        kill(redis, SIGKILL);
        assert_true(head_until(bed, is_answered, node));
        assert_int_equal(node->errors, 0);
        assert_int_equal(check_all(node, first, 300), 300);
        free(node->acknowledged);
        node->acknowledged = NULL;
    }
    expect_stored(node, "k", "v");
    node_free(node);
}

/* ---------------------------------------------------------------- a full disk */

static void make_filler(const head_bed_t *bed, const char *path, size_t left)
{
    static char block[65536];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    for (size_t size = 0; size + left < bed->tmpfs_bytes; size += sizeof(block))
        if (write(fd, block, sizeof(block)) <= 0)
            break;
    close(fd);
}

static void a_full_disk_fails_changes_clearly_and_the_head_lives(void **state)
{
    head_bed_t *bed = *state;
    static char large[100000];
    crti_msg_kv_put_t m = {.overwrite = true};
    uint64_t deadline;
    char filler[128], key[16], text[512], *json;
    crti_message_t answer;
    fake_node_t *node;
    int stored = 0;

    bed->tmpfs_bytes = 8 << 20;
    assert_true(
        head_start(bed, "0", NULL)); /* the state directory is too small for nobody */
    snprintf(filler, sizeof(filler), "/proc/%d/root%s/state/filler", (int)bed->pid,
             bed->folder);
    node = node_new(bed, 1);
    node_join(node);
    node_add_job(node, 5);
    make_filler(bed, filler, 1 << 20);
    do {
        snprintf(key, sizeof(key), "k%d", stored);
        m.key = crti_str(key);
        m.value = crti_span(large, sizeof(large));
        answer = node_ask(node, CRTI_MSG_KV_PUT, &m);
        stored += answer.kind == CRTI_MSG_KV_VALUE;
    } while (answer.kind == CRTI_MSG_KV_VALUE && stored < 100);
    assert_in_range(stored, 1, 40);
    crti_text(answer.error.text, text, sizeof(text));
    assert_int_equal(answer.error.status, CRT_ERR_IO);
    if (strstr(text, "is full") == NULL)
        fail_msg("the reason is not in: %s", text);
    json = admin_state(bed, "nodes", ""); /* the head lives, and so does its node */
    assert_non_null(strstr(json, "ALIVE"));
    free(json);
    assert_int_equal(unlink(filler), 0);
    deadline = crti_now_ns() + HEAD_PATIENCE;
    do
        answer = node_ask(node, CRTI_MSG_KV_PUT, &m);
    while (answer.kind == CRTI_MSG_ERROR && crti_now_ns() < deadline);
    assert_int_equal(answer.kind, CRTI_MSG_KV_VALUE);
    for (int i = 0; i < stored; i++) {
        crti_msg_kv_get_t get = {.key = crti_str(key)};

        snprintf(key, sizeof(key), "k%d", i);
        get.key = crti_str(key);
        answer = node_ask(node, CRTI_MSG_KV_GET, &get);
        assert_int_equal(answer.kv_value.value.size, sizeof(large));
    }
    node_free(node);
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
    assert_int_equal(crti_tls_write(tls, data, size, &done), CRT_OK);
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
    put(node, "k", "v");
    json = admin_state(bed, "nodes", "");
    assert_non_null(strstr(json, "ALIVE"));
    free(json);
    node_free(node);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(an_actor_is_placed_started_and_found_by_name),
        TEST(values_are_put_read_listed_and_deleted),
        TEST(a_value_is_exchanged_only_for_what_was_expected),
        TEST(the_admin_socket_answers_with_json),
        TEST(a_clean_end_leaves_no_process_and_begins_anew),
        TEST(a_head_that_stops_does_not_wait_for_nodes_that_took_their_leave),
        TEST(the_end_of_the_lifeline_ends_it),
        TEST(a_private_cluster_leaves_nothing),
        TEST(a_private_cluster_leaves_nothing_of_a_node_that_was_killed),
        TEST(a_taken_port_is_one_clear_sentence),
        TEST(a_second_start_is_refused_and_harms_nothing),
        TEST(without_redis_the_start_says_how_to_get_it),
        TEST(bad_arguments_are_named),
        TEST(a_key_that_others_can_read_stops_the_start),
        TEST(a_killed_head_started_again_knows_everything),
        TEST(acknowledged_actors_survive_kills_of_the_head_at_any_moment),
        TEST(kills_of_redis_lose_nothing_and_are_not_noticed_by_those_who_ask),
        TEST(a_full_disk_fails_changes_clearly_and_the_head_lives),
        TEST(another_key_does_not_get_in),
        TEST(malformed_messages_on_every_socket_cost_nobody_else_anything),
    };

    head_program = argc > 1 ? argv[1] : "crt-head";
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
