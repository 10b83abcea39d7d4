/* SPDX-License-Identifier: Apache-2.0 */
/* What a node daemon answers to who asks it for workers. */
#include "node_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/rundir.h"

static void a_lease_gives_a_forked_worker_and_takes_it_again(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_granted_t *granted;
    const crti_msg_log_t *log;
    crti_id_t lease;
    pid_t first;

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    assert_true(s->drivers[0].slot > 0);
    lease = scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    assert_true(crti_id_equal(granted->lease, lease));
    assert_int_equal(granted->incarnation, 77);
    first = scene_pid(granted);
    assert_true(scene_is_alive(first));
    assert_int_equal(getpgid(first), first);
    log = &scene_wait(s, CRTI_MSG_LOG)->log;
    assert_true(crti_str_equal(log->lines, "hello from fork\n"));
    assert_true(node_test_contains(log->prefix, "(work pid="));
    node_test_return_lease(s, 0, lease, s->nodes[0].id);
    scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    assert_int_equal(scene_pid(granted), first); /* it was kept */
}

static void requests_beyond_the_node_wait_and_hear_why(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_waiting_t *waiting;
    char hex[CRTI_ID_HEX], reason[160];
    crti_id_t first;

    scene_start_node(s, 0, (const char *[]){"--num-cpus", "2", NULL});
    scene_attach(s, 0, 0);
    first = scene_lease(s, 0, 2);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    scene_lease(s, 0, 3);
    waiting = &scene_wait(s, CRTI_MSG_LEASE_WAITING)->lease_waiting;
    assert_true(crti_str_equal(waiting->text, "needs 3 CPU, the cluster has 2 CPU"));
    scene_lease(s, 0, 1);
    waiting = &scene_wait(s, CRTI_MSG_LEASE_WAITING)->lease_waiting;
    snprintf(reason, sizeof(reason), "needs 1 CPU, held by job %.8s: 2 CPU",
             crti_id_hex(s->drivers[0].job, hex));
    assert_true(crti_str_equal(waiting->text, reason));
    node_test_return_lease(s, 0, first, (crti_id_t){0});
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

static void a_cancelled_request_is_answered_and_its_room_is_free(void **state)
{
    scene_t *s = *state;
    crti_msg_lease_cancel_t cancel = {0};
    crti_id_t lease;

    scene_start_node(s, 0, (const char *[]){"--num-cpus", "1", NULL});
    scene_attach(s, 0, 0);
    lease = scene_lease(s, 0, 1);
    cancel.lease = lease;
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_LEASE_CANCEL, 0, &cancel);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_CANCELLED);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

static void a_program_with_threads_is_executed_per_worker_with_a_warning(void **state)
{
    scene_t *s = *state;
    const crti_msg_log_t *log;

    s->mode = "threads";
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    log = &scene_wait(s, CRTI_MSG_LOG)->log;
    assert_true(node_test_contains(log->lines, "2 threads run"));
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    log = &scene_wait(s, CRTI_MSG_LOG)->log;
    assert_true(crti_str_equal(log->lines, "hello from threads\n"));
}

static void a_program_that_ends_early_fails_the_lease_with_its_last_words(void **state)
{
    scene_t *s = *state;
    const crti_msg_error_t *error;

    s->mode = "early";
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    for (int i = 0; i < 2; i++) { /* the second request tries again */
        scene_lease(s, 0, 1);
        error = &scene_wait(s, CRTI_MSG_ERROR)->error;
        assert_true(node_test_contains(error->text, "exited with status 3"));
        assert_true(node_test_contains(error->text, "I do not feel well"));
    }
}

static void a_worker_of_another_version_is_one_clear_error(void **state)
{
    scene_t *s = *state;
    const crti_msg_error_t *error;

    s->mode = "old";
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    error = &scene_wait(s, CRTI_MSG_ERROR)->error;
    assert_true(node_test_contains(error->text, "protocol"));
}

/* ---------------------------------------------------------------- a zygote that hangs */

static pid_t parent_of(pid_t pid)
{
    char path[64];
    int parent = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*d (%*[^)]) %*c %d", &parent), 1);
    fclose(file);
    return parent;
}

/* Driver 0 has a worker of node 0, whose zygote is stopped: its pid. */
static pid_t stop_zygote(scene_t *s, const char *cpus)
{
    pid_t zygote;

    setenv("CRT_WORKER_START_TIMEOUT", "1s", 1);
    scene_start_node(s, 0, (const char *[]){"--num-cpus", cpus, NULL});
    unsetenv("CRT_WORKER_START_TIMEOUT");
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    zygote = parent_of(scene_pid(&scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted));
    assert_int_equal(kill(zygote, SIGSTOP), 0);
    return zygote;
}

static void a_zygote_that_hangs_keeps_nobody(void **state)
{
    scene_t *s = *state;
    pid_t zygote = stop_zygote(s, "2");
    crti_id_t lease;

    scene_lease(s, 0, 1);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_WORKER_DIED);
    kill(zygote, SIGCONT);
    lease = scene_lease(s, 0, 1); /* the CPU is back */
    assert_true(
        crti_id_equal(scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted.lease, lease));
    TURN_UNTIL(s, scene_processes(s, 0) == 3); /* what was forked late is gone */
    assert_int_equal(scene_processes(s, 0), 3);
}

/* So many are more than it is asked for at once. */
static void a_zygote_that_hangs_does_not_keep_those_behind_either(void **state)
{
    enum { MANY = 70 };
    scene_t *s = *state;

    stop_zygote(s, "10");
    for (int i = 0; i < MANY; i++)
        scene_lease(s, 0, 0);
    assert_int_equal(scene_count(s, CRTI_MSG_ERROR, 20000, MANY), MANY);
}

static void a_zygote_that_hangs_ends_with_its_job(void **state)
{
    scene_t *s = *state;
    pid_t zygote = stop_zygote(s, "2");

    scene_lease(s, 0, 1);
    scene_detach(s, 0);
    scene_wait_gone(s, zygote);
}

static void a_limit_that_is_reached_is_named(void **state)
{
    scene_t *s = *state;

    s->file_limit = 90;
    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    for (int i = 0; i < 30 && !scene_seen(s, CRTI_MSG_ERROR); i++) {
        scene_lease(s, 0, 0);
        scene_count(s, CRTI_MSG_LEASE_GRANTED, 300, 1);
    }
    assert_true(
        node_test_contains(scene_wait(s, CRTI_MSG_ERROR)->error.text, "(ulimit -n)"));
}

/* A copy of this program, spoilt, in the content cache; answers JOB_GET with it. */
static void serve_spoilt_program(scene_t *s, const char *part, const char *spoilt)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    crti_msg_actor_start_t start = node_test_actor_start(s, 1);
    crti_msg_job_info_t info;
    const crti_message_t *get;
    char path[300], sha[65];
    size_t size;
    char *bytes = scene_read_program(&size), *at;
    FILE *file;

    at = part ? memmem(bytes, size, part, strlen(part)) : bytes + 18; /* e_machine */
    assert_non_null(at);
    memcpy(at, spoilt, part ? strlen(spoilt) : 1);
    scene_sha(bytes, size, sha);
    snprintf(path, sizeof(path), "%s/programs", s->dir);
    assert_int_equal(crti_dir_make(path), CRT_OK);
    snprintf(path, sizeof(path), "%s/programs/%s", s->dir, sha);
    file = fopen(path, "we");
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    chmod(path, 0700);
    free(bytes);
    start.job = start.actor = crti_id_random();
    scene_head_send(s, 0, CRTI_MSG_ACTOR_START, 31, &start);
    get = scene_wait(s, CRTI_MSG_JOB_GET);
    crti_list_pack(&argv, "program", 7);
    info = (crti_msg_job_info_t){.job = start.job,
                                 .driver = {1, 1},
                                 .driver_node = {1, 2},
                                 .program = crti_str("/no/such/file"),
                                 .sha = crti_str(sha),
                                 .argv = crti_span(argv.data, argv.size)};
    scene_head_send(s, 0, CRTI_MSG_JOB_INFO, get->request, &info);
}

static void a_missing_library_and_a_wrong_processor_are_one_clear_error(void **state)
{
    scene_t *s = *state;
    const crti_msg_error_t *error;

    scene_start_node(s, 0, NULL);
    serve_spoilt_program(s, "libsodium.so", "libabsent.so");
    error = &scene_wait(s, CRTI_MSG_ERROR)->error;
    assert_true(node_test_contains(error->text,
                                   "error while loading shared libraries: libabsent"));
    serve_spoilt_program(s, NULL, "\x28");
    error = &scene_wait(s, CRTI_MSG_ERROR)->error;
    assert_true(
        node_test_contains(error->text, "is not a program for this node's processor"));
}

/* No id is what a worker serves that serves nobody: two records of one would stay behind. */
static void a_request_without_an_id_is_refused(void **state)
{
    scene_t *s = *state;
    crti_msg_lease_request_t ask = {.function = crti_str("work")};

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    ask.job = s->drivers[0].job;
    ask.owner = s->drivers[0].process;
    ask.owner_node = s->nodes[0].id;
    crti_channel_send(s->drivers[0].channel, CRTI_MSG_LEASE_REQUEST, 7, &ask);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_PROTOCOL);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(a_lease_gives_a_forked_worker_and_takes_it_again),
        NODE_TEST(a_request_without_an_id_is_refused),
        NODE_TEST(requests_beyond_the_node_wait_and_hear_why),
        NODE_TEST(a_cancelled_request_is_answered_and_its_room_is_free),
        NODE_TEST(a_program_with_threads_is_executed_per_worker_with_a_warning),
        NODE_TEST(a_program_that_ends_early_fails_the_lease_with_its_last_words),
        NODE_TEST(a_worker_of_another_version_is_one_clear_error),
        NODE_TEST(a_zygote_that_hangs_keeps_nobody),
        NODE_TEST(a_zygote_that_hangs_does_not_keep_those_behind_either),
        NODE_TEST(a_zygote_that_hangs_ends_with_its_job),
        NODE_TEST(a_limit_that_is_reached_is_named),
        NODE_TEST(a_missing_library_and_a_wrong_processor_are_one_clear_error),
    };

    return node_test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
