/* SPDX-License-Identifier: Apache-2.0 */
/* Submitted jobs of a node, and the logs of jobs and workers. */
#include "node_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/rundir.h"

static void make_head_dir(scene_t *s, char *head_dir, size_t size)
{
    char path[200];

    snprintf(head_dir, size, "%s/head-1", s->dir);
    assert_int_equal(crti_dir_make(head_dir), CRT_OK);
    snprintf(path, sizeof(path), "%s/head.info", head_dir);
    assert_int_equal(crti_info_write(path,
                                     (const crti_info_entry_t[]){{"state_dir", head_dir},
                                                                 {"http", "1.2.3.4:5"}},
                                     2),
                     CRT_OK);
}

static void put_script(scene_t *s, const char *sha)
{
    char path[200], command[400];

    snprintf(path, sizeof(path), "%s/programs", s->dir);
    assert_int_equal(crti_dir_make(path), CRT_OK);
    snprintf(command, sizeof(command), "cp -L /bin/sh %s/%s", path, sha);
    assert_int_equal(system(command), 0);
}

/* Whether somebody keeps it in the cache. */
static bool is_held(const scene_t *s, const char *sha)
{
    char path[300];
    bool held;
    int fd;

    snprintf(path, sizeof(path), "%s/programs/%s", s->dir, sha);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    held = flock(fd, LOCK_EX | LOCK_NB) != 0;
    close(fd);
    return held;
}

/* The job id {5, 1}. */
#define JOB "00000000000000050000000000000001"

static void a_submitted_job_runs_is_logged_and_stopped(void **state)
{
    static const char sha[] =
        "00000000000000000000000000000000000000000000000000000000000000aa";
    scene_t *s = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    crti_msg_job_start_t start = {.submission = crti_str("sub-1"),
                                  .job = {5, 1},
                                  .entrypoint = crti_str("sh -c x"),
                                  .sha = crti_str(sha)};
    crti_msg_log_read_t read = {.name = crti_str("job:" JOB), .limit = 10000};
    crti_msg_job_stop_t stop = {.job = {5, 1}};
    const crti_msg_log_data_t *data;
    const crti_msg_job_exited_t *exited;
    static const char script[] = "trap '' TERM; echo $CRT_SUBMISSION; pwd; "
                                 "sleep 1000 & while :; do wait; done";
    char head_dir[128];
    uint64_t next;

    make_head_dir(s, head_dir, sizeof(head_dir));
    put_script(s, sha);
    scene_start_node(s, 0, (const char *[]){"--head-dir", head_dir, NULL});
    crti_list_pack(&argv, "sh", 2);
    crti_list_pack(&argv, "-c", 2);
    crti_list_pack(&argv, script, strlen(script));
    start.argv = crti_span(argv.data, argv.size);
    scene_head_send(s, 0, CRTI_MSG_JOB_START, 41, &start);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 41);
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 42, &read);
    data = &scene_wait(s, CRTI_MSG_LOG_DATA)->log_data;
    assert_true(
        node_test_contains(data->data, "Running entrypoint for job sub-1: sh -c x\n"));
    assert_false(data->ended);
    next = data->next;
    read.wait_ms = 5000;
    for (bool found = node_test_contains(data->data, "/jobs/" JOB "/cwd"); !found;) {
        read.offset = next;
        scene_head_send(s, 0, CRTI_MSG_LOG_READ, 43, &read);
        data = &scene_wait(s, CRTI_MSG_LOG_DATA)->log_data;
        next = data->next;
        found = node_test_contains(data->data, "/jobs/" JOB "/cwd");
    }
    assert_true(is_held(s, sha)); /* as long as the job runs */
    scene_head_send(s, 0, CRTI_MSG_JOB_STOP, 44, &stop);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 44);
    exited = &scene_wait(s, CRTI_MSG_JOB_EXITED)->job_exited; /* it ignores SIGTERM */
    assert_true(WIFSIGNALED((int)exited->wait_status));
    assert_int_equal(WTERMSIG((int)exited->wait_status), SIGKILL);
    assert_true(node_test_contains(exited->text, "\nsub-1\n"));
    while (scene_processes(s, 0) > 0) /* its sleep too */
        scene_turn(s, 2);
    assert_false(is_held(s, sha));
    read.offset = next;
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 45, &read);
    data = &scene_wait(s, CRTI_MSG_LOG_DATA)->log_data;
    assert_true(data->ended);
    stop.job.low = 2;
    scene_head_send(s, 0, CRTI_MSG_JOB_STOP, 46, &stop);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_NOT_FOUND);
}

/* Follows job "sub-1" from `offset` to its end; how many bytes came, `first` is the first line. */
static size_t follow_job(scene_t *s, uint64_t *offset, char *first, size_t size)
{
    crti_msg_log_read_t read = {
        .name = crti_str("job:" JOB), .limit = 5000, .wait_ms = 5000};
    size_t total = 0;

    for (bool ended = false; !ended;) {
        const crti_msg_log_data_t *data;

        read.offset = *offset;
        scene_head_send(s, 0, CRTI_MSG_LOG_READ, 60, &read);
        data = &scene_wait(s, CRTI_MSG_LOG_DATA)->log_data;
        if (total == 0)
            snprintf(first, size, "%.*s",
                     (int)((const char *)memchr(data->data.data, '\n', data->data.size) -
                           (const char *)data->data.data),
                     (const char *)data->data.data);
        total += data->data.size;
        *offset = data->next;
        ended = data->ended;
    }
    return total;
}

static void a_jobs_log_beyond_its_limit_is_read_to_its_end(void **state)
{
    static const char script[] =
        "i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done";
    static const char sha[] =
        "00000000000000000000000000000000000000000000000000000000000000aa";
    scene_t *s = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    crti_msg_job_start_t start = {.submission = crti_str("sub-1"),
                                  .job = {5, 1},
                                  .entrypoint = crti_str("sh"),
                                  .sha = crti_str(sha)};
    crti_msg_log_read_t where_it_ends = {.name = crti_str("job:" JOB), .limit = 0};
    const crti_msg_log_data_t *end;
    uint64_t followed = 0, again = 0;
    char head_dir[128], first[100];

    make_head_dir(s, head_dir, sizeof(head_dir));
    put_script(s, sha);
    setenv("CRT_LOG_LIMIT", "50000", 1);
    scene_start_node(s, 0, (const char *[]){"--head-dir", head_dir, NULL});
    unsetenv("CRT_LOG_LIMIT");
    crti_list_pack(&argv, "sh", 2);
    crti_list_pack(&argv, "-c", 2);
    crti_list_pack(&argv, script, strlen(script));
    start.argv = crti_span(argv.data, argv.size);
    scene_head_send(s, 0, CRTI_MSG_JOB_START, 41, &start);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 41);
    follow_job(s, &followed, first, sizeof(first));
    /* 10 lines of 7 bytes, 90 of 8, ..., 20000 of 11, behind the first one */
    assert_int_equal(followed, 37 + 70 + 720 + 8100 + 90000 + 220000);
    assert_true(follow_job(s, &again, first, sizeof(first)) < 60000);
    assert_true(strncmp(first, "--- ", 4) == 0 && strstr(first, "by the log quota ---"));
    assert_int_equal(again, followed);
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 61, &where_it_ends);
    end = &scene_wait(s, CRTI_MSG_LOG_DATA)->log_data;
    assert_int_equal(end->next, followed);
    assert_int_equal(end->data.size, 0);
}

/* The first one was deleted, or forgotten; its folder and its log stay its own. */
static void a_submission_id_that_is_used_again_runs_in_a_folder_of_its_own(void **state)
{
    scene_t *s = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    crti_msg_job_start_t start = {.submission = crti_str("sub-1"),
                                  .entrypoint = crti_str("sh"),
                                  .sha = crti_str("")};
    static const char script[] = "ls; touch here";
    char head_dir[128], first[100];
    size_t sizes[2];

    make_head_dir(s, head_dir, sizeof(head_dir));
    scene_start_node(s, 0, (const char *[]){"--head-dir", head_dir, NULL});
    crti_list_pack(&argv, "/bin/sh", 7);
    crti_list_pack(&argv, "-c", 2);
    crti_list_pack(&argv, script, strlen(script));
    start.argv = crti_span(argv.data, argv.size);
    for (uint64_t i = 0; i < 2; i++) {
        uint64_t offset = 0;

        start.job = (crti_id_t){5, 2 - i};
        scene_head_send(s, 0, CRTI_MSG_JOB_START, 41 + i, &start);
        assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 41 + i);
        assert_true(
            crti_id_equal(scene_wait(s, CRTI_MSG_JOB_EXITED)->job_exited.job, start.job));
        sizes[i] = i ? follow_job(s, &offset, first, sizeof(first)) : 0;
    }
    sizes[0] = strlen("Running entrypoint for job sub-1: sh\n");
    assert_int_equal(sizes[1],
                     sizes[0]); /* no file of the first one, none of its lines */
}

/* A look at a log is a walk over all processes, and reads a file: not for what others print. */
static void those_who_wait_for_one_log_cost_nothing_while_others_print(void **state)
{
    enum { READERS = 4000 };
    static const char script[] =
        "i=0; while [ $i -lt 2000 ]; do echo $i; /bin/true; i=$((i+1)); done";
    static const char sha[] =
        "00000000000000000000000000000000000000000000000000000000000000aa";
    scene_t *s = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    crti_msg_job_start_t start = {.submission = crti_str("sub-1"),
                                  .job = {5, 1},
                                  .entrypoint = crti_str("sh"),
                                  .sha = crti_str(sha)};
    crti_msg_log_read_t read = {.limit = 100, .offset = 16, .wait_ms = 60000};
    const crti_msg_lease_granted_t *granted;
    char head_dir[128], hex[33];
    double before;
    pid_t worker;

    make_head_dir(s, head_dir, sizeof(head_dir));
    put_script(s, sha);
    scene_start_node(s, 0, (const char *[]){"--head-dir", head_dir, NULL});
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    worker = scene_pid(granted);
    scene_wait(s, CRTI_MSG_LOG); /* 16 bytes: the readers wait for more */
    read.name = crti_str(crti_id_hex(granted->process, hex));
    for (int i = 0; i < READERS; i++)
        scene_head_send(s, 0, CRTI_MSG_LOG_READ, 100 + (uint64_t)i, &read);
    read.wait_ms = 0; /* its answer says that the others wait */
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 99, &read);
    assert_int_equal(scene_wait(s, CRTI_MSG_LOG_DATA)->request, 99);
    crti_list_pack(&argv, "sh", 2);
    crti_list_pack(&argv, "-c", 2);
    crti_list_pack(&argv, script, strlen(script));
    start.argv = crti_span(argv.data, argv.size);
    before = node_test_cpu_seconds(s->nodes[0].pid);
    scene_head_send(s, 0, CRTI_MSG_JOB_START, 41, &start);
    scene_wait(s, CRTI_MSG_JOB_EXITED);
    assert_true(node_test_cpu_seconds(s->nodes[0].pid) - before < 1);
    assert_false(scene_seen(s, CRTI_MSG_LOG_DATA));
    kill(worker, SIGUSR1); /* it prints a line */
    assert_int_equal(scene_count(s, CRTI_MSG_LOG_DATA, 20000, READERS), READERS);
}

static void a_workers_log_is_read_by_its_id_after_its_death_too(void **state)
{
    scene_t *s = *state;
    const crti_msg_lease_granted_t *granted;
    crti_msg_log_read_t read = {.limit = 100};
    char hex[33];

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    granted = &scene_wait(s, CRTI_MSG_LEASE_GRANTED)->lease_granted;
    scene_wait(s, CRTI_MSG_LOG);
    read.name = crti_str(crti_id_hex(granted->process, hex));
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 51, &read);
    assert_true(crti_str_equal(scene_wait(s, CRTI_MSG_LOG_DATA)->log_data.data,
                               "hello from fork\n"));
    kill(scene_pid(granted), SIGKILL);
    scene_wait(s, CRTI_MSG_PEER_DIED);
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 52, &read);
    assert_true(scene_wait(s, CRTI_MSG_LOG_DATA)->log_data.ended);
    read.name = crti_str("0123456789abcdef");
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 53, &read);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_NOT_FOUND);
}

static void a_worker_of_tasks_is_not_the_actor_whose_id_is_zero(void **state)
{
    scene_t *s = *state;
    crti_msg_log_read_t read = {.limit = 100,
                                .name = crti_str("00000000000000000000000000000000")};

    scene_start_node(s, 0, NULL);
    scene_attach(s, 0, 0);
    scene_lease(s, 0, 1);
    scene_wait(s, CRTI_MSG_LEASE_GRANTED);
    scene_wait(s, CRTI_MSG_LOG);
    scene_head_send(s, 0, CRTI_MSG_LOG_READ, 51, &read);
    assert_int_equal(scene_wait(s, CRTI_MSG_ERROR)->error.status, CRT_ERR_NOT_FOUND);
}

static void a_program_on_a_dead_file_server_holds_nobody_up(void **state)
{
    scene_t *s = *state;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t argv = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t living = {0};
    crti_msg_job_start_t start = {.submission = crti_str("sub-1"),
                                  .job = {5, 1},
                                  .entrypoint = crti_str("x"),
                                  .sha = crti_str("")};
    const crti_message_t *answer;
    char head_dir[128], path[200], program[250];
    uint64_t begin;
    int fuse;

    snprintf(path, sizeof(path), "%s/dead", s->dir);
    fuse = node_test_mount_dead(path);
    if (fuse < 0) {
        print_message("needs FUSE, and no chroot\n");
        skip();
    }
    make_head_dir(s, head_dir, sizeof(head_dir));
    scene_start_node(s, 0, (const char *[]){"--head-dir", head_dir, NULL});
    snprintf(program, sizeof(program), "%s/program", path);
    crti_list_pack(&argv, program, strlen(program));
    start.argv = crti_span(argv.data, argv.size);
    begin = crti_now_ns();
    scene_head_send(s, 0, CRTI_MSG_JOB_START, 41, &start);
    /* Meanwhile others are served. */
    crti_list_pack(&living, "/bin/true", 9);
    start.argv = crti_span(living.data, living.size);
    start.job.low = 2;
    scene_head_send(s, 0, CRTI_MSG_JOB_START, 42, &start);
    assert_int_equal(scene_wait(s, CRTI_MSG_DONE)->request, 42);
    assert_int_equal(scene_wait(s, CRTI_MSG_JOB_EXITED)->job_exited.job.low, 2);
    assert_true(crti_now_ns() - begin < 5 * CRTI_S);
    answer = scene_wait(s, CRTI_MSG_ERROR);
    assert_int_equal(answer->request, 41);
    assert_int_equal(answer->error.status, CRT_ERR_TIMED_OUT);
    assert_true(node_test_contains(answer->error.text, program));
    assert_true(
        node_test_contains(answer->error.text, "its file server does not answer"));
    while (scene_processes(s, 0) > 0)
        scene_turn(s, 2);
    close(fuse);
    assert_int_equal(umount2(path, MNT_DETACH), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        NODE_TEST(a_program_on_a_dead_file_server_holds_nobody_up),
        NODE_TEST(a_submitted_job_runs_is_logged_and_stopped),
        NODE_TEST(a_jobs_log_beyond_its_limit_is_read_to_its_end),
        NODE_TEST(a_submission_id_that_is_used_again_runs_in_a_folder_of_its_own),
        NODE_TEST(those_who_wait_for_one_log_cost_nothing_while_others_print),
        NODE_TEST(a_workers_log_is_read_by_its_id_after_its_death_too),
        NODE_TEST(a_worker_of_tasks_is_not_the_actor_whose_id_is_zero),
    };

    return node_test_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
