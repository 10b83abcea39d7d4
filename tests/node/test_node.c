/* SPDX-License-Identifier: Apache-2.0 */
/* The node daemon as a process, with a head that the test plays: start, rest and end. */
#include "node_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/rundir.h"

/* ---------------------------------------------------------------- start and stop */

static void a_node_registers_says_ready_and_leaves_nothing_behind(void **state)
{
    scene_t *s = *state;
    const crti_msg_node_register_t *r;
    CRTI_AUTO(free) char *info = NULL;
    char path[300], value[200];
    struct stat st;

    scene_start_node(s, 0,
                     (const char *[]){"--num-cpus", "3", "--resources", "x=2", NULL});
    r = &scene_wait(s, CRTI_MSG_NODE_REGISTER)->node_register;
    assert_int_equal(crti_resources_get(&r->resources, "CPU"), 30000);
    assert_int_equal(crti_resources_get(&r->resources, "x"), 20000);
    assert_int_equal(r->pid, s->nodes[0].pid);
    assert_true(crti_str_equal(r->ip, "127.0.0.1"));
    snprintf(path, sizeof(path), "%s/node.info", s->nodes[0].run_dir);
    assert_int_equal(crti_info_read(path, &info), CRT_OK);
    assert_int_equal(crti_info_int(info, "pid"), s->nodes[0].pid);
    assert_string_equal(crti_info_get(info, "address", value, sizeof(value)), s->address);
    snprintf(path, sizeof(path), "%s/node.sock", s->nodes[0].run_dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(scene_stop_node(s, 0, SIGTERM), 0);
    scene_wait(s, CRTI_MSG_NODE_LEAVE);
    assert_int_not_equal(stat(s->nodes[0].run_dir, &st), 0);
}

static void every_failure_before_ready_is_one_sentence(void **state)
{
    scene_t *s = *state;
    char line[400], other[128];
    crti_key_t key;

    scene_start_fails(s, (const char *[]){"--num-cpus", "many", NULL}, line,
                      sizeof(line));
    assert_string_equal(
        line, "error --num-cpus takes a number of 0 to 1000000000000, at most four "
              "digits behind the point, not \"many\"\n");
    scene_start_fails(s, (const char *[]){"--nonsense", NULL}, line, sizeof(line));
    assert_non_null(strstr(line, "--nonsense"));
    scene_start_fails(s, (const char *[]){"--key-file", "/no/such/key", NULL}, line,
                      sizeof(line));
    assert_non_null(strstr(line, "/no/such/key"));
    snprintf(other, sizeof(other), "%s/other", s->dir);
    assert_int_equal(crti_key_create(other, &key), CRT_OK);
    scene_start_fails(s, (const char *[]){"--key-file", other, NULL}, line, sizeof(line));
    assert_non_null(strstr(line, "does not take this node"));
    scene_start_fails(s,
                      (const char *[]){"--object-store-memory", "900000000000000", NULL},
                      line, sizeof(line));
    assert_int_equal(strncmp(line, "error ", 6), 0);
    assert_null(strchr(line, '\n')[1] ? line : NULL);
}

/* A directory as a killed node leaves it; `number` goes into its lock. Its path in `dir`. */
static void leave_directory(const scene_node_t *beside, const char *name,
                            const char *number, char dir[300])
{
    char path[340];
    FILE *lock;

    snprintf(dir, 300, "%.*s%s",
             (int)(strrchr(beside->run_dir, '/') + 1 - beside->run_dir), beside->run_dir,
             name);
    assert_int_equal(mkdir(dir, 0700), 0);
    snprintf(path, sizeof(path), "%s/lock", dir);
    lock = fopen(path, "w");
    assert_non_null(lock);
    fputs(number, lock);
    fclose(lock);
}

static void a_node_ends_and_removes_what_killed_ones_left(void **state)
{
    scene_t *s = *state;
    char left[300], young[300], variable[340];
    struct stat st;
    int status, ends[2];
    pid_t orphan;

    scene_start_node(s, 0, NULL);
    leave_directory(&s->nodes[0], "node-0badcafe", "1073741824\n", left);
    leave_directory(&s->nodes[0], "node-0badcaff", "", young); /* is about to lock it */
    snprintf(variable, sizeof(variable), "CRT_NODE_DIR=%s", left);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    orphan = fork();
    if (orphan == 0) {
        execle("/bin/sleep", "sleep", "1000", NULL, (char *[]){variable, NULL});
        _exit(127);
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &status, 1), 0); /* it has its environment */
    close(ends[0]);
    scene_start_node(s, 1, NULL);
    assert_int_equal(waitpid(orphan, &status, 0), orphan);
    assert_true(WIFSIGNALED(status));
    assert_int_not_equal(stat(left, &st), 0);
    assert_int_equal(stat(young, &st), 0);
    assert_int_equal(stat(s->nodes[0].run_dir, &st), 0); /* it lives */
    crti_dir_remove(young);
}

static void a_head_that_is_not_there_is_named(void **state)
{
    scene_t *s = *state;
    char line[400];

    scene_head_down(s);
    scene_start_fails(s, NULL, line, sizeof(line));
    assert_non_null(strstr(line, s->address));
    assert_non_null(strstr(line, "can't be reached"));
    scene_head_up(s);
}

/* It has the key and the connection stood: that it breaks is no refusal. */
static void a_head_that_dies_while_a_node_registers_is_tried_again(void **state)
{
    scene_t *s = *state;

    s->dies_early = true;
    scene_start_node(s, 0, NULL);
    assert_false(s->dies_early);
    assert_int_equal(s->nodes[0].registrations, 2);
}

static void the_end_of_the_lifeline_ends_the_node(void **state)
{
    scene_t *s = *state;
    int status;

    scene_start_node(s, 0, NULL);
    close(s->nodes[0].lifeline);
    while (waitpid(s->nodes[0].pid, &status, WNOHANG) == 0)
        scene_turn(s, 2);
    assert_int_equal(status, 0);
    s->nodes[0].pid = 0;
}

/* The end of the last one that was only wished for is part of the stop itself. */
static void a_node_that_is_stopped_while_a_worker_is_wanted_ends(void **state)
{
    scene_t *s = *state;
    crti_msg_actor_start_t start;
    uint64_t begin;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    start = node_test_actor_start(s, 1);
    start.job = crti_id_random();
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    scene_wait(s, CRTI_MSG_JOB_GET); /* nobody says what its program is */
    begin = crti_now_ns();
    assert_int_equal(scene_stop_node(s, 0, SIGTERM), 0);
    assert_true(crti_now_ns() - begin < 5 * CRTI_S); /* it does not wait for any */
}

static void an_idle_node_uses_no_processor(void **state)
{
    scene_t *s = *state;
    uint64_t end;
    double before;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    before = node_test_cpu_seconds(s->nodes[0].pid);
    for (end = crti_now_ns() + 2 * CRTI_S; crti_now_ns() < end;)
        scene_turn(s, 100);
    assert_true(node_test_cpu_seconds(s->nodes[0].pid) - before < 0.2);
}

/* ---------------------------------------------------------------- figures */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void a_new_actor_is_ready_within_milliseconds(void **state)
{
    enum { COUNT = 50 };
    scene_t *s = *state;
    uint64_t times[COUNT];

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    for (uint64_t i = 0; i < COUNT; i++) {
        crti_msg_actor_start_t start = node_test_actor_start(s, 100 + i);
        uint64_t begin = crti_now_ns();

        scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 100 + i, &start);
        scene_wait(s, CRTI_MSG_ACTOR_STARTED);
        times[i] = crti_now_ns() - begin;
    }
    qsort(times, COUNT, sizeof(times[0]), compare);
    print_message("ACTOR_START to ACTOR_STARTED: p50 %.2f ms, p90 %.2f ms, max %.2f ms\n",
                  (double)times[COUNT / 2] / 1e6, (double)times[COUNT * 9 / 10] / 1e6,
                  (double)times[COUNT - 1] / 1e6);
    assert_true(times[COUNT / 2] < 500 * CRTI_MS);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(a_node_registers_says_ready_and_leaves_nothing_behind),
        NODE_TEST(every_failure_before_ready_is_one_sentence),
        NODE_TEST(a_node_ends_and_removes_what_killed_ones_left),
        NODE_TEST(a_head_that_is_not_there_is_named),
        NODE_TEST(a_head_that_dies_while_a_node_registers_is_tried_again),
        NODE_TEST(the_end_of_the_lifeline_ends_the_node),
        NODE_TEST(a_node_that_is_stopped_while_a_worker_is_wanted_ends),
        NODE_TEST(an_idle_node_uses_no_processor),
        NODE_TEST(a_new_actor_is_ready_within_milliseconds),
    };

    return node_test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
