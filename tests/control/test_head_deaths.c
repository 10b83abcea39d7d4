/* SPDX-License-Identifier: Apache-2.0 */
/* What a crt-head knew is there again after kill -9 of it or of its redis-server, and a full disk
 * under them costs the changes that do not fit, nothing else. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/control/head_bed.h"

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
    node_make_actor(node, 50, "counter");
    node_put(node, "k", "v");
    head_kill(bed);
    assert_true(head_start(bed, port, NULL));
    json = admin_state(bed, "jobs", "");
    assert_non_null(strstr(json, "./program"));
    free(json);
    json = admin_state(bed, "nodes", ""); /* what it uses is not known yet */
    assert_non_null(strstr(json, "\"AWAY\""));
    free(json);
    node_join(node); /* reports nothing: what ran there is gone */
    node_expect_stored(node, "k", "v");
    m = node_ask(node, CRTI_MSG_ACTOR_FIND, &find);
    assert_int_equal(m.kind, CRTI_MSG_ERROR); /* died while the head was away */
    json = admin_state(bed, "nodes", "");
    assert_non_null(strstr(json, "\"ALIVE\""));
    free(json);
    node_free(node);
}

static void a_head_that_keeps_its_tables_is_ended_and_goes_on(void **state)
{
    static const char *const keep[] = {"--no-dashboard", "--keep-tables", NULL};
    head_bed_t *bed = *state;
    fake_node_t *node;
    char port[16];

    assert_true(head_start(bed, "0", keep));
    snprintf(port, sizeof(port), "%s", head_port(bed));
    node = node_new(bed, 1);
    node_join(node);
    node_put(node, "k", "v");
    assert_int_equal(head_stop(bed), 0);
    assert_true(head_start(bed, port, keep));
    node_join(node);
    node_expect_stored(node, "k", "v");
    node_free(node);
}

static void wreck(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "XXXXXXXX", 8, 0), 8);
    close(fd);
}

static void damaged_tables_are_named_with_the_ways_out(void **state)
{
    static const char *const fresh[] = {"--no-dashboard", "--fresh", NULL};
    head_bed_t *bed = *state;
    fake_node_t *node;
    char port[16], file[256], repair[280];

    assert_true(head_start(bed, "0", NULL));
    snprintf(port, sizeof(port), "%s", head_port(bed));
    node = node_new(bed, 1);
    node_join(node);
    node_put(node, "k", "v");
    head_kill(bed);
    snprintf(file, sizeof(file), "%.*s/redis/appendonlydir/appendonly.aof",
             (int)(strrchr(bed->key_file, '/') - bed->key_file), bed->key_file);
    snprintf(repair, sizeof(repair), "-check-aof --fix %s.manifest", file);
    strcat(file, ".1.incr.aof");
    wreck(file);
    assert_false(head_start(bed, port, NULL));
    assert_non_null(strstr(bed->line,
                           "(redis-server: Bad file format reading the append only file "
                           "appendonly.aof.1.incr.aof)"));
    assert_non_null(strstr(bed->line, repair));
    assert_non_null(strstr(bed->line, "--fresh"));
    if (!head_start(bed, port, fresh))
        fail_msg("%s", bed->line);
    node_join(node);
    node_expect_stored(node, "k", NULL);
    node_free(node);
}

/* What a head finds is not what the head before it left: it says so, and begins nothing. */
static void
tables_that_are_gone_are_missed_and_a_wrecked_list_of_files_is_named(void **state)
{
    static const char *const fresh[] = {"--no-dashboard", "--fresh", NULL};
    head_bed_t *bed = *state;
    char port[16], manifest[256], command[600];
    fake_node_t *node;

    assert_true(head_start(bed, "0", NULL));
    snprintf(port, sizeof(port), "%s", head_port(bed));
    node = node_new(bed, 1);
    node_join(node);
    node_put(node, "k", "v");
    head_kill(bed);
    snprintf(manifest, sizeof(manifest),
             "%.*s/redis/appendonlydir/appendonly.aof.manifest",
             (int)(strrchr(bed->key_file, '/') - bed->key_file), bed->key_file);
    snprintf(command, sizeof(command), "cp %s %s.good", manifest, manifest);
    assert_int_equal(system(command), 0);
    wreck(manifest);
    assert_false(head_start(bed, port, NULL));
    assert_non_null(
        strstr(bed->line, "(redis-server: Invalid AOF manifest file format)"));
    assert_non_null(strstr(bed->line, manifest));
    assert_non_null(strstr(bed->line, "--fresh"));
    unlink(manifest); /* redis-server would begin anew without a word */
    assert_false(head_start(bed, port, NULL));
    assert_non_null(strstr(bed->line, "which this head had before, are gone from "));
    snprintf(command, sizeof(command), "cp %s.good %s", manifest, manifest);
    assert_int_equal(system(command), 0);
    if (!head_start(bed, port, NULL))
        fail_msg("%s", bed->line);
    node_join(node);
    node_expect_stored(node, "k", "v");
    head_kill(bed);
    unlink(manifest);
    assert_true(head_start(bed, port, fresh));
    node_join(node);
    node_expect_stored(node, "k", NULL);
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
    node_put(node, "k", "v");
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
    node_expect_stored(node, "k", "v");
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

/* Where the room ends depends on redis-server: nowhere is it said that tables are damaged. */
static bool fails_for_want_of_room(head_bed_t *bed)
{
    if (head_start(bed, "0", NULL)) {
        head_kill(bed);
        return false;
    }
    if (strstr(bed->line, "damaged") ||
        (!strstr(bed->line, "No space left on device") && !strstr(bed->line, " is full")))
        fail_msg("%zu bytes, %u files: %s", bed->tmpfs_bytes, bed->tmpfs_files,
                 bed->line);
    return true;
}

static void a_disk_that_is_full_at_the_start_is_named(void **state)
{
    head_bed_t *bed = *state;
    int failed = 0;

    for (size_t pages = 4; pages <= 24; pages += 4) {
        bed->tmpfs_bytes = pages * 4096;
        failed += fails_for_want_of_room(bed);
    }
    assert_true(failed >= 2);
}

static void a_disk_that_can_have_no_more_files_is_named(void **state)
{
    head_bed_t *bed = *state;
    int failed = 0;

    bed->tmpfs_bytes = 1 << 20;
    for (bed->tmpfs_files = 4; bed->tmpfs_files <= 12; bed->tmpfs_files++)
        failed += fails_for_want_of_room(bed);
    assert_true(failed >= 2);
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

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, head_set_up, head_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_killed_head_started_again_knows_everything),
        TEST(a_head_that_keeps_its_tables_is_ended_and_goes_on),
        TEST(damaged_tables_are_named_with_the_ways_out),
        TEST(tables_that_are_gone_are_missed_and_a_wrecked_list_of_files_is_named),
        TEST(a_disk_that_is_full_at_the_start_is_named),
        TEST(a_disk_that_can_have_no_more_files_is_named),
        TEST(acknowledged_actors_survive_kills_of_the_head_at_any_moment),
        TEST(kills_of_redis_lose_nothing_and_are_not_noticed_by_those_who_ask),
        TEST(a_full_disk_fails_changes_clearly_and_the_head_lives),
    };

    head_program = argc > 1 ? argv[1] : "crt-head";
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
