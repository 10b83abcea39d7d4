/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of crt run with the real daemons: a program's own cluster, its nodes, and that nothing of
 * it is left, whoever dies. */
#include <fcntl.h>
#include <glob.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli_fixture.h"

#define STORE "--object-store-memory 50M"
#define CRT   getenv("CRT_TEST_CRT")
#define JOB   getenv("CRT_TEST_JOB")

/* The pid in the only info file that matches; 0: there is none. */
static pid_t recorded_pid(const char *pattern)
{
    glob_t found;
    char line[512];
    pid_t pid = 0;

    if (glob(cli_path("r/private-*/%s", pattern), 0, NULL, &found) == 0) {
        FILE *file = fopen(found.gl_pathv[0], "re");

        while (file && fgets(line, sizeof(line), file))
            if (strncmp(line, "pid ", 4) == 0)
                pid = (pid_t)atol(line + 4);
        if (file)
            fclose(file);
    }
    globfree(&found);
    return pid;
}

static pid_t run_and_stay(int *fd, const char *more)
{
    pid_t pid = cli_spawn(fd, "run " STORE " %s -- %s stay", more, JOB);

    if (!cli_read_until(*fd, " stays\n"))
        fail_msg("the program said \"%s\"", cli_output);
    return pid;
}

/* Reads to the end of its output, and the exit status. */
static int rest(pid_t pid, int fd)
{
    cli_read_until(fd, NULL);
    close(fd);
    return cli_wait(pid);
}

/* ---------------------------------------------------------------- what it runs */

static void a_program_runs_on_a_cluster_that_is_gone_afterwards(void **state)
{
    cli_expect(0, "hello [a] [--nodes]\n", "run " STORE " -- %s a --nodes", JOB);
    assert_true(cli_is_clean());
}

static void the_exit_status_is_the_programs(void **state)
{
    cli_expect(3, "hello", "run " STORE " -- %s fail", JOB);
    cli_expect(128 + SIGSEGV, "", "run " STORE " -- sh -c kill~-SEGV~$$");
    cli_expect(127, "crt run: can't execute ./nothing: No such file",
               "run " STORE " -- ./nothing");
    cli_expect(126, "crt run: can't execute /: Permission denied", "run " STORE " -- /");
}

/* Runs CRT_TEST_JOB, which starts a cluster of its own, by the shell. */
static int run_by_shell(const char *redirections)
{
    const char *crt = CRT;
    int result;

    setenv("CRT_TEST_CRT", "/bin/sh", 1);
    result = cli_run("-c exec~%s~a~%s", JOB, redirections);
    setenv("CRT_TEST_CRT", crt, 1);
    return result;
}

static void a_program_without_standard_streams_gets_its_cluster(void **state)
{
    cli_check(run_by_shell("0<&-~1>&-"), 0, "", __LINE__);
    cli_check(run_by_shell("0<&-~1>&-~2>&-"), 0, "", __LINE__);
    assert_true(cli_is_clean());
}

static void make_script(const char *name)
{
    FILE *file = fopen(cli_path("lib/%s", name), "we");

    assert_non_null(file);
    fputs("#!/bin/sh\nkill -SEGV $$\n", file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(cli_path("lib/%s", name), 0700), 0);
}

static void a_daemon_that_crashes_is_named_with_the_signal(void **state)
{
    assert_int_equal(mkdir(cli_path("lib"), 0700), 0);
    make_script("crt-head");
    make_script("crt-node");
    setenv("CRT_LIBEXEC", cli_path("lib"), 1);
    cli_expect(1, "crt run: crt-head ended before it served (killed by signal 11: ",
               "run " STORE " -- true");
    cli_check(run_by_shell(""), 1,
              "crt: crt-head ended before it served (killed by signal 11: ", __LINE__);
    unsetenv("CRT_LIBEXEC");
    assert_true(cli_is_clean());
}

static void what_it_cannot_be_given_is_said(void **state)
{
    cli_expect(1, "crt run: an object store can't have ",
               "run --object-store-memory 9000G -- true");
    setenv("CRT_RUN_DIR", "r", 1);
    cli_expect(
        1, "crt run: the directory r is relative; set CRT_RUN_DIR to an absolute path",
        "run " STORE " -- true");
    setenv("CRT_RUN_DIR", cli_path("r"), 1);
}

static void each_node_is_a_daemon_with_resources_of_its_own(void **state)
{
    json_t *json, *nodes;

    cli_expect(0, "{",
               "run " STORE " --nodes 3 --num-cpus 1.5 --resources disk=2 -- %s status "
               "--json",
               CRT);
    json = json_loads(cli_output, 0, NULL);
    nodes = json_object_get(json_object_get(json, "cluster"), "nodes");
    assert_int_equal(json_array_size(nodes), 3);
    for (size_t i = 0; i < 3; i++) {
        json_t *node = json_array_get(nodes, i);
        double cpus, disk;

        assert_int_equal(json_unpack(node, "{s:{s:F,s:F}}", "resources_total", "CPU",
                                     &cpus, "disk", &disk),
                         0);
        assert_true(cpus == 1.5 && disk == 2);
        for (size_t k = 0; k < i; k++)
            assert_int_not_equal(
                json_integer_value(json_object_get(node, "pid")),
                json_integer_value(json_object_get(json_array_get(nodes, k), "pid")));
    }
    json_decref(json);
}

static void nodes_share_what_the_machine_has(void **state)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    json_t *json, *nodes;

    cli_expect(0, "{", "run -n 2 -- %s status --json", CRT);
    json = json_loads(cli_output, 0, NULL);
    nodes = json_object_get(json_object_get(json, "cluster"), "nodes");
    for (size_t i = 0; i < 2; i++) {
        double cpus, bytes;

        assert_int_equal(json_unpack(json_array_get(nodes, i), "{s:{s:F},s:F}",
                                     "resources_total", "CPU", &cpus, "store_bytes",
                                     &bytes),
                         0);
        assert_true(cpus >= 1 && (cpus <= (double)processors / 2 || cpus == 1));
        assert_true(bytes <= 0.16 * (double)sysconf(_SC_PHYS_PAGES) *
                                 (double)sysconf(_SC_PAGESIZE));
    }
    json_decref(json);
}

static void a_users_cluster_and_other_runs_are_none_of_its_business(void **state)
{
    pid_t first, second;
    char address[32];
    int fds[2];

    cli_expect(
        0, "The cluster 127.0.0.1:", "start --head --port 0 --dashboard-port 0 " STORE);
    snprintf(address, sizeof(address), "127.0.0.1:%ld",
             atol(strstr(cli_output, "127.0.0.1:") + 10));
    setenv("CRT_ADDRESS", address, 1);
    first = run_and_stay(&fds[0], "");
    second = run_and_stay(&fds[1], "");
    cli_expect(0, "\nActors: none\n", "status");
    assert_non_null(strstr(cli_output, address));
    kill(first, SIGTERM);
    assert_int_equal(rest(first, fds[0]), 128 + SIGTERM);
    cli_expect(0, "Cluster 127.0.0.1:", "run " STORE " -- %s status", CRT);
    assert_null(strstr(cli_output, address));
    kill(second, SIGTERM);
    assert_int_equal(rest(second, fds[1]), 128 + SIGTERM);
    cli_expect(0, "Stopped 1 node and the head", "stop");
    unsetenv("CRT_ADDRESS");
    assert_true(cli_is_clean());
}

static void a_driver_that_the_node_refuses_says_the_nodes_reason(void **state)
{
    const char *crt = CRT;
    pid_t pid;
    int fd;

    cli_expect(
        0, "The cluster 127.0.0.1:", "start --head --port 0 --dashboard-port 0 " STORE);
    setenv("CRT_JOB", "0123456789abcdef0123456789abcdef", 1);
    setenv("CRT_TEST_CRT", JOB, 1);
    pid = cli_spawn(&fd, "stay");
    setenv("CRT_TEST_CRT", crt, 1);
    assert_true(cli_read_until(fd, " stays\n"));
    cli_check(run_by_shell(""), 1, "crt: job 01234567 has a driver already, pid ",
              __LINE__);
    unsetenv("CRT_JOB");
    kill(pid, SIGKILL);
    assert_int_equal(rest(pid, fd), 128 + SIGKILL);
    cli_expect(0, "Stopped 1 node and the head", "stop");
}

/* ---------------------------------------------------------------- how it ends */

static void an_interrupt_ends_the_program_and_its_cluster(void **state)
{
    int fd;
    pid_t pid = run_and_stay(&fd, "--nodes 2");

    kill(pid, SIGINT);
    assert_int_equal(rest(pid, fd), 128 + SIGINT);
    assert_true(cli_is_clean());
}

static void a_closed_terminal_ends_the_program_and_its_cluster(void **state)
{
    int terminal;
    pid_t pid = cli_spawn_on_terminal(&terminal, "run " STORE " -- %s stay", JOB);

    assert_true(cli_read_until(terminal, " stays"));
    close(terminal);
    assert_int_equal(cli_wait(pid), 128 + SIGHUP); /* not SIGKILL after the grace */
    assert_true(cli_is_clean());
}

static void what_the_program_leaves_behind_ends_with_it(void **state)
{
    int fd;
    pid_t pid = cli_spawn(&fd, "run " STORE
                               " -- sh -c setsid~sleep~1000~>/dev/null~2>&1~&~echo~left");

    assert_int_equal(rest(pid, fd), 0);
    assert_string_equal(cli_output, "left\n");
    assert_true(cli_is_clean());
}

static void a_program_that_ignores_sigterm_is_killed(void **state)
{
    int fd;
    pid_t pid = cli_spawn(&fd, "run " STORE " -- sh -c trap~''~TERM;~echo~deaf;"
                               "~while~:;~do~sleep~1000;~done");

    assert_true(cli_read_until(fd, "deaf"));
    kill(pid, SIGTERM);
    assert_int_equal(rest(pid, fd), 128 + SIGKILL);
    assert_true(cli_is_clean());
}

static void kill_9_of_crt_run_leaves_nothing(void **state)
{
    int fd;
    pid_t pid = run_and_stay(&fd, "--nodes 2");

    kill(pid, SIGKILL);
    assert_int_equal(rest(pid, fd), 128 + SIGKILL);
    cli_await_clean();
}

/* crt-watchdog of that node daemon. */
static pid_t keeper_of(pid_t node)
{
    char path[64], children[256] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)node, (int)node);
    file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(
        fgets(children, sizeof(children), file)); /* the first that it forked */
    fclose(file);
    return (pid_t)atol(children);
}

static void stop_all_daemons(void)
{
    pid_t node = recorded_pid("node-*/node.info");

    kill(keeper_of(node), SIGSTOP);
    kill(node, SIGSTOP);
    kill(recorded_pid("head-*/head.info"), SIGSTOP);
}

static void stopped_daemons_do_not_outlive_crt_run(void **state)
{
    int fd;
    pid_t pid = run_and_stay(&fd, "");

    stop_all_daemons();
    kill(pid, SIGKILL);
    assert_int_equal(rest(pid, fd), 128 + SIGKILL);
    cli_await_clean();
}

static void stopped_daemons_do_not_outlive_a_driver_that_started_them(void **state)
{
    const char *crt = CRT;
    int fd;
    pid_t pid;

    setenv("CRT_TEST_CRT", JOB, 1);
    pid = cli_spawn(&fd, "stay");
    setenv("CRT_TEST_CRT", crt, 1);
    assert_true(cli_read_until(fd, " stays\n"));
    stop_all_daemons();
    kill(pid, SIGKILL);
    assert_int_equal(rest(pid, fd), 128 + SIGKILL);
    cli_await_clean();
}

static void kill_9_of_its_head_is_said_and_the_program_goes_on(void **state)
{
    int fd;
    pid_t pid = run_and_stay(&fd, "");

    kill(recorded_pid("head-*/head.info"), SIGKILL);
    assert_true(cli_read_until(fd, "crt run: crt-head (pid "));
    kill(pid, SIGTERM);
    assert_int_equal(rest(pid, fd), 128 + SIGTERM);
    assert_true(cli_is_clean());
}

static void the_directory_of_a_run_that_was_killed_with_all_its_daemons_goes(void **state)
{
    const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    pid_t pid, head, node;
    glob_t found;
    int fd;

    pid = run_and_stay(&fd, "");
    head = recorded_pid("head-*/head.info");
    node = recorded_pid("node-*/node.info");
    kill(pid, SIGSTOP); /* so that none of them sees another's end */
    kill(head, SIGSTOP);
    kill(node, SIGKILL);
    kill(head, SIGKILL);
    kill(pid, SIGKILL);
    assert_int_equal(rest(pid, fd), 128 + SIGKILL);
    cli_await_end(head);
    cli_await_end(node);
    assert_int_equal(glob(cli_path("r/private-*"), 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    cli_expect(0, "hello", "run " STORE " -- %s hello", JOB);
    assert_int_equal(access(found.gl_pathv[0], F_OK), 0); /* it may be a young one */
    assert_int_equal(utimensat(AT_FDCWD, found.gl_pathv[0], old, 0), 0);
    cli_expect(0, "hello", "run " STORE " -- %s hello", JOB);
    globfree(&found);
    cli_await_clean();
}

/* ---------------------------------------------------------------- crt microbenchmark --scale */

static double row_of(const json_t *rows, const char *name)
{
    json_t *row;
    size_t i;

    json_array_foreach(
        rows, i, row) if (strcmp(json_string_value(json_object_get(row, "name")), name) ==
                          0) return json_number_value(json_object_get(row, "value"));
    fail_msg("there is no row %s", name);
    return 0;
}

/* The directory of the echo partner's socket, from the partner's arguments. */
static void find_echo(char *path, size_t size)
{
    char text[4096];
    glob_t found;

    path[0] = '\0';
    assert_int_equal(glob("/proc/[0-9]*/cmdline", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc && !path[0]; i++) {
        FILE *file = fopen(found.gl_pathv[i], "re");
        size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
        const char *at = memmem(text, n, "ipc:///tmp/crt-echo-", 20);
        char number[16] = "";

        text[n] = '\0';
        sscanf(found.gl_pathv[i], "/proc/%15[0-9]", number);
        if (at && cli_is_ours(number))
            snprintf(path, size, "%.*s", (int)strlen("/tmp/crt-echo-XXXXXX"),
                     at + strlen("ipc://"));
        if (file)
            fclose(file);
    }
    globfree(&found);
}

static void kill_9_of_crt_microbenchmark_leaves_nothing(void **state)
{
    char path[64];
    int fd;
    pid_t pid = cli_spawn(&fd, "microbenchmark --filter single_client_get");

    if (!cli_read_until(fd, "idle: "))
        fail_msg("it said \"%s\"", cli_output);
    find_echo(path, sizeof(path));
    assert_true(path[0] == '/');
    kill(pid, SIGKILL);
    assert_int_equal(rest(pid, fd), 128 + SIGKILL);
    cli_await_clean();
    assert_int_equal(access(path, F_OK), -1);
}

static void beside_ray_there_must_be_a_ray(void **state)
{
    cli_expect(1, "--compare-ray needs the command ray in PATH: exit status 127",
               "microbenchmark --compare-ray --filter single_client_get_calls");
    cli_expect(2, "--ray-timeout is a number of seconds",
               "microbenchmark --compare-ray --ray-timeout 0");
    cli_expect(2, "--ray-timeout belongs to --compare-ray",
               "microbenchmark --ray-timeout 5");
    cli_await_clean();
}

/* To be found in PATH. */
static void write_ray(const char *script)
{
    FILE *file;

    assert_int_equal(mkdir(cli_path("bin"), 0700), 0);
    file = fopen(cli_path("bin/ray"), "we");
    assert_non_null(file);
    fputs(script, file);
    fclose(file);
    chmod(cli_path("bin/ray"), 0700);
}

static void a_row_shows_why_ray_gave_no_figure(void **state)
{
    char *path = strdup(getenv("PATH"));

    write_ray("#!/bin/sh\n"
              "[ $1 = --version ] && echo 'ray, version 0' && exit\n"
              "echo no '\"cluster\"' for \"$TESTS_TO_RUN\"\n"
              "exit 3\n");
    setenv("PATH", cli_path("bin:%s", path), 1);
    cli_expect(0,
               "\"ray\": null, \"ray_sd\": null, \"factor\": null, \"ray_error\": "
               "\"exit status 3; it said last: no ?cluster? for single client get calls "
               "(Plasma Store)\"}",
               "microbenchmark --compare-ray --json --filter single_client_get_calls");
    setenv("PATH", path, 1);
    free(path);
    cli_await_clean();
}

static void simulated_nodes_show_what_a_head_bears_and_leave_nothing(void **state)
{
    json_t *rows;

    cli_expect(0, "[", "microbenchmark --scale --nodes 10 --actors 200 --json");
    rows = json_loads(cli_output, 0, NULL);
    assert_true(row_of(rows, "nodes") == 10 && row_of(rows, "actors") == 200);
    assert_true(row_of(rows, "actors_placed") > 0);
    assert_true(row_of(rows, "head_memory_with_nodes") > 1);
    assert_true(row_of(rows, "silent_node_noticed") > 1);
    assert_true(row_of(rows, "head_serves_again_after_kill") > 0);
    json_decref(rows);
    cli_await_clean();
}

static void wrong_numbers_of_simulated_nodes_are_refused(void **state)
{
    cli_expect(2, "--nodes takes 3 to 100000, not \"2\"",
               "microbenchmark --scale --nodes 2");
    cli_expect(2, "--actors takes 1 to 64, not \"65\"",
               "microbenchmark --scale --nodes 3 --actors 65");
    cli_expect(2, "belong to --scale", "microbenchmark --nodes 5");
    cli_expect(2, "--scale has no rows", "microbenchmark --scale --filter x");
    cli_expect(2, "unexpected argument 4000", "microbenchmark --scale 4000");
    assert_true(cli_is_clean());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, cli_setup, cli_teardown)
        TEST(a_program_runs_on_a_cluster_that_is_gone_afterwards),
        TEST(the_exit_status_is_the_programs),
        TEST(a_program_without_standard_streams_gets_its_cluster),
        TEST(a_daemon_that_crashes_is_named_with_the_signal),
        TEST(what_it_cannot_be_given_is_said),
        TEST(each_node_is_a_daemon_with_resources_of_its_own),
        TEST(nodes_share_what_the_machine_has),
        TEST(a_users_cluster_and_other_runs_are_none_of_its_business),
        TEST(a_driver_that_the_node_refuses_says_the_nodes_reason),
        TEST(an_interrupt_ends_the_program_and_its_cluster),
        TEST(a_closed_terminal_ends_the_program_and_its_cluster),
        TEST(what_the_program_leaves_behind_ends_with_it),
        TEST(a_program_that_ignores_sigterm_is_killed),
        TEST(kill_9_of_crt_run_leaves_nothing),
        TEST(stopped_daemons_do_not_outlive_crt_run),
        TEST(stopped_daemons_do_not_outlive_a_driver_that_started_them),
        TEST(kill_9_of_its_head_is_said_and_the_program_goes_on),
        TEST(the_directory_of_a_run_that_was_killed_with_all_its_daemons_goes),
        TEST(kill_9_of_crt_microbenchmark_leaves_nothing),
        TEST(beside_ray_there_must_be_a_ray),
        TEST(a_row_shows_why_ray_gave_no_figure),
        TEST(simulated_nodes_show_what_a_head_bears_and_leave_nothing),
        TEST(wrong_numbers_of_simulated_nodes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
