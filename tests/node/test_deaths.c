/* SPDX-License-Identifier: Apache-2.0 */
/* Every death is noticed and told, and nothing outlives what it belongs to. */
#include "node_test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/rundir.h"
#include "runtime/store/store.h"

/* ---------------------------------------------------------------- deaths */

static void a_killed_worker_is_reported_with_signal_method_and_last_lines(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_granted_t *granted;
    const crti_msg_peer_died_t *died;
    uint64_t begin;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    scene_wait(s, CRTI_MSG_LOG);
    pid = scene_pid(granted);
    begin = crti_now_ns();
    kill(pid, SIGABRT);
    died = &scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died;
    print_message("death report after %.2f ms\n", (double)(crti_now_ns() - begin) / 1e6);
    assert_true(crti_id_equal(died->process, granted->process));
    assert_int_equal(died->status, CRT_ERR_WORKER_DIED);
    assert_int_equal(died->pid, pid);
    print_message("%.*s\n", (int)died->text.size, (const char *)died->text.data);
    assert_true(
        node_test_contains(died->text, "killed by signal 6 (Aborted) in task.run"));
    assert_true(node_test_contains(died->text, "last output: hello from fork"));
    scene_wait(s,
               CRTI_MSG_PEER_DIED); /* the driver, without having asked; and the head */
    assert_int_equal(scene_count(s, CRTI_MSG_PEER_DIED, 50, 1), 0);
}

static void grandchildren_end_with_their_worker_and_do_not_delay_the_report(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_granted_t *granted;
    const crti_msg_peer_died_t *died;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    scene_wait(s, CRTI_MSG_LOG);
    pid = scene_pid(granted);
    kill(pid, SIGUSR1);
    assert_true(crti_str_equal(scene_wait(s, CRTI_MSG_LOG)->log.lines, "on demand\n"));
    while (scene_processes(s, 0) < 3) /* zygote, worker, grandchild */
        scene_turn(s, 2);
    kill(pid, SIGKILL);
    died = &scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died;
    assert_true(node_test_contains(died->text, "killed by signal 9"));
    assert_true(node_test_contains(died->text, "hello from fork | on demand"));
    while (scene_processes(s, 0) > 1)
        scene_turn(s, 2);
}

static void a_driver_that_leaves_takes_its_workers_along(void **state)
{
    scene_t *s = *state;
    const crti_msg_job_end_t *end;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    for (int i = 0; i < 2; i++) { /* on purpose, and without a word */
        scene_attach(s, 0, 0);
        scene_lease(s, 0, 1);
        pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
        s->drivers[0].dies = i == 1;
        scene_detach(s, 0);
        scene_wait_gone(s, pid);
        end = &scene_wait(s, CRTI_MSG_JOB_END)->job_end;
        assert_true(crti_id_equal(end->job, s->drivers[0].job));
        assert_int_equal(end->text.size > 0, i == 1);
        while (scene_processes(s, 0) > 0) /* the zygote too */
            scene_turn(s, 2);
    }
}

static void a_killed_daemon_takes_its_zygotes_and_workers_along(void **state)
{
    scene_t *s = *state;
    uint64_t begin;
    pid_t pid;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    begin = crti_now_ns();
    scene_stop_node(s, 0, SIGKILL);
    scene_wait_gone(s, pid);
    while (scene_processes(s, 0) > 0)
        scene_turn(s, 2);
    assert_true(crti_now_ns() - begin < 5 * CRTI_S);
}

static void a_watched_process_that_is_gone_already_is_told_at_once(void **state)
{
    scene_t *s = *state;
    crti_msg_watch_t watch = {.process = {1, 2}, .incarnation = 3};

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    watch.node = s->nodes[0].id;
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_WATCH, 0, &watch);
    assert_true(crti_id_equal(scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died.process,
                              watch.process));
}

static void a_process_of_a_node_that_the_head_does_not_know_is_gone(void **state)
{
    scene_t *s = *state;
    crti_msg_watch_t watch = {.process = {1, 2}, .incarnation = 3, .node = {8, 8}};
    crti_msg_error_t none = {.status = CRT_ERR_NODE_LOST, .text = crti_str("no such")};
    const crti_msg_peer_died_t *died;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_WATCH, 0, &watch);
    scene_wait(s, CRTI_MSG_NODE_FIND);
    scene_head_down(s); /* before the answer: the question is asked again */
    scene_head_up(s);
    scene_head_send(s, 0, CRTI_MSG_ERROR, scene_wait(s, CRTI_MSG_NODE_FIND)->request,
                    &none);
    died = &scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died;
    assert_true(crti_id_equal(died->process, watch.process));
    assert_int_equal(died->incarnation, 3);
    assert_int_equal(died->status, CRT_ERR_NODE_LOST);
    assert_true(crti_str_equal(died->text, "no such"));
}

/* ---------------------------------------------------------------- what outlives its maker */

static void await_processes(scene_t *s, int count)
{
    uint64_t deadline = crti_now_ns() + 20 * CRTI_S;

    while (scene_processes(s, 0) != count) {
        assert_true(crti_now_ns() < deadline);
        scene_turn(s, 2);
    }
}

/* A node, a zygote, a worker, and a child of it that is a daemon of its own. */
static void start_litter(scene_t *s)
{
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    kill(scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted), SIGUSR2);
    await_processes(s, 3);
}

static void grandchildren_end_with_a_node_that_is_killed(void **state)
{
    scene_t *s = *state;
    int fd;

    start_litter(s);
    scene_stop_node(s, 0, SIGKILL);
    await_processes(s, 0);
    for (int i = 0; crti_dir_lock(s->nodes[0].run_dir, &fd) != CRT_OK; i++) {
        assert_true(i < 10000);
        scene_turn(s, 2);
    }
    close(fd);
}

/* Of the node's children the one with that name, other than `not`. */
static pid_t await_watchdog(scene_t *s, pid_t not )
{
    uint64_t deadline = crti_now_ns() + 20 * CRTI_S;

    for (;;) {
        char path[64], name[32];
        FILE *children, *comm;
        int pid;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)s->nodes[0].pid,
                 (int)s->nodes[0].pid);
        children = fopen(path, "re");
        assert_non_null(children);
        while (fscanf(children, "%d", &pid) == 1) {
            snprintf(path, sizeof(path), "/proc/%d/comm", pid);
            comm = fopen(path, "re");
            name[0] = '\0';
            if (comm && fscanf(comm, "%31s", name) == 1 &&
                pid != not &&strcmp(name, "crt-watchdog") == 0) {
                fclose(comm);
                fclose(children);
                return pid;
            }
            if (comm)
                fclose(comm);
        }
        fclose(children);
        assert_true(crti_now_ns() < deadline);
        scene_turn(s, 2);
    }
}

static void grandchildren_end_with_a_node_whose_watchdog_was_killed_before(void **state)
{
    scene_t *s = *state;
    pid_t watchdog;

    start_litter(s);
    watchdog = await_watchdog(s, 0);
    kill(watchdog, SIGKILL);
    await_watchdog(s, watchdog);
    scene_stop_node(s, 0, SIGKILL);
    await_processes(s, 0);
}

static void grandchildren_end_with_a_node_that_is_stopped(void **state)
{
    scene_t *s = *state;

    start_litter(s);
    assert_int_equal(scene_stop_node(s, 0, SIGTERM), 0);
    assert_int_equal(scene_processes(s, 0), 0);
}

static char state_of(pid_t pid)
{
    char path[64], line[512] = "", *at;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 'X';
    at = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return at ? at[2] : 'X';
}

static void a_worker_that_stops_inside_the_store_is_ended_for_the_others(void **state)
{
    scene_t *s = *state;
    uint64_t start;
    crti_store_t *store;
    void *data;
    pid_t pid;

    s->mode = "holds";
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    pid = scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted);
    while (state_of(pid) != 'T')
        scene_turn(s, 2);
    assert_int_equal(crti_store_attach(s->drivers[0].fds[0], s->drivers[0].slot,
                                       s->drivers[0].process, &store),
                     CRT_OK);
    start = crti_now_ns();
    assert_int_equal(crti_store_create(store,
                                       (crti_object_id_t){s->drivers[0].process, 1},
                                       100000, &data),
                     CRT_OK); /* else it gives up after 10 s */
    print_message("waited %.0f ms\n", (double)(crti_now_ns() - start) / 1e6);
    crti_store_detach(store);
    scene_wait_gone(s, pid);
    assert_true(node_test_contains(scene_wait(s, CRTI_MSG_PEER_DIED)->peer_died.text,
                                   "held the object store up"));
}

/* Each would be a walk over all objects. */
static void thousands_of_deaths_elsewhere_cost_little_where_many_objects_are(void **state)
{
    enum { OBJECTS = 60000, DEATHS = 4000 };
    scene_t *s = *state;
    crti_object_id_t object = {.owner = {77, 77}, .number = 1};
    crti_msg_peer_died_t died = {.process = {77, 0}, .node = {99, 99}, .incarnation = 1};
    crti_store_t *store;
    double since;
    void *data;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    assert_int_equal(crti_store_attach(s->drivers[0].fds[0], s->drivers[0].slot,
                                       s->drivers[0].process, &store),
                     CRT_OK);
    for (uint64_t i = 0; i < OBJECTS; i++) {
        crti_object_id_t id = {s->drivers[0].process, i + 1};

        if (i == 0)
            id = object;
        assert_int_equal(crti_store_create(store, id, 64, &data), CRT_OK);
        assert_int_equal(crti_store_seal(store, id, true), CRT_OK);
    }
    since = node_test_cpu_seconds(s->nodes[0].pid);
    for (uint64_t i = 0; i < DEATHS; i++) {
        died.process.low = i;
        crti_stream_send(s->nodes[0].stream, CRTI_MSG_PEER_DIED, 0, &died);
        if (i % 50 == 0)
            scene_turn(s, 1);
    }
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    for (int i = 0; crti_store_contains(store, object) && i < 1000; i++)
        scene_turn(s, 10);
    assert_false(crti_store_contains(store, object));
    assert_true(
        crti_store_contains(store, (crti_object_id_t){s->drivers[0].process, OBJECTS}));
    assert_true(node_test_cpu_seconds(s->nodes[0].pid) - since < 1);
    crti_store_detach(store);
}

/* Driver `d` watches processes of a node that the head is still asked about. */
static void watch_many(scene_t *s, int d, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        crti_msg_watch_t watch = {.process = {88, i}, .incarnation = 1, .node = {9, 9}};

        assert_int_equal(
            crti_channel_send(s->drivers[d].channel, CRTI_MSG_WATCH, 0, &watch), CRT_OK);
        if (i % 200 == 0)
            scene_turn(s, 1);
    }
    while (crti_channel_queued(s->drivers[d].channel))
        scene_turn(s, 10);
}

/* Its watches stand among those of another. */
static void a_driver_that_watched_thousands_leaves_at_once(void **state)
{
    enum { WATCHES = 8000 };
    scene_t *s = *state;
    double since;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_attach(s, 1, 0);
    watch_many(s, 0, 1, WATCHES);
    watch_many(s, 1, 1 + WATCHES, WATCHES);
    scene_lease(s, 1, 1); /* granted when the watches before it were taken in */
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    since = node_test_cpu_seconds(s->nodes[0].pid);
    scene_detach(s, 1);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    assert_true(node_test_cpu_seconds(s->nodes[0].pid) - since < 0.5);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(a_killed_daemon_takes_its_zygotes_and_workers_along),
        NODE_TEST(a_killed_worker_is_reported_with_signal_method_and_last_lines),
        NODE_TEST(grandchildren_end_with_their_worker_and_do_not_delay_the_report),
        NODE_TEST(a_worker_that_stops_inside_the_store_is_ended_for_the_others),
        NODE_TEST(thousands_of_deaths_elsewhere_cost_little_where_many_objects_are),
        NODE_TEST(a_driver_that_watched_thousands_leaves_at_once),
        NODE_TEST(a_driver_that_leaves_takes_its_workers_along),
        NODE_TEST(a_watched_process_that_is_gone_already_is_told_at_once),
        NODE_TEST(a_process_of_a_node_that_the_head_does_not_know_is_gone),
        NODE_TEST(grandchildren_end_with_a_node_that_is_killed),
        NODE_TEST(grandchildren_end_with_a_node_whose_watchdog_was_killed_before),
        NODE_TEST(grandchildren_end_with_a_node_that_is_stopped),
    };

    return node_test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
