/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of crt run --ranks with the real daemons: what each rank is given, how their output is
 * shown, and how all of them end. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli_fixture.h"

#define STORE   "--object-store-memory 50M"
#define PROGRAM getenv("CRT_TEST_RANKS")
#define RANKS   3

/* How often the last command printed `text`. */
static int count_of(const char *text)
{
    int count = 0;

    for (const char *at = cli_output; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static void expect_once(const char *text)
{
    if (count_of(text) != 1)
        fail_msg("\"%s\" is there %d times:\n%s", text, count_of(text), cli_output);
}

static int rest(pid_t pid, int fd)
{
    cli_read_until(fd, NULL);
    close(fd);
    return cli_wait(pid);
}

/* ---------------------------------------------------------------- what they are given */

static void each_rank_runs_the_driver_with_its_number_and_the_arguments(void **state)
{
    cli_expect(0, "", "run " STORE " --ranks 3 -- %s hello --ranks", PROGRAM);
    expect_once("rank 0 of 3: [hello] [--ranks]\n");
    expect_once("rank 1 of 3: [hello] [--ranks]\n");
    expect_once("rank 2 of 3: [hello] [--ranks]\n");
    assert_null(strstr(cli_output, "pid="));
    assert_true(cli_is_clean());
}

static void a_run_that_takes_long_is_no_slow_wait(void **state)
{
    setenv("CRT_TELL_WAITS", "0.2", 1);
    cli_expect(0, "", "run " STORE " --ranks 2 -- %s rest", PROGRAM);
    unsetenv("CRT_TELL_WAITS");
    assert_null(strstr(cli_output, "s for crt.Rank.run"));
}

static void without_ranks_the_driver_runs_once_and_is_none(void **state)
{
    cli_expect(0, "rank -1 of 0: [hello]\n", "run " STORE " -- %s hello", PROGRAM);
}

static void the_world_is_a_group_of_all_ranks(void **state)
{
    cli_expect(0, "", "run " STORE " --nodes 2 --ranks 5 -- %s world", PROGRAM);
    for (int i = 0; i < 5; i++) {
        char line[32];

        snprintf(line, sizeof(line), "%d of 5: 10\n", i);
        expect_once(line);
    }
}

static void the_timeline_has_collectives_and_transfers(void **state)
{
    cli_expect(0, "2 allreduces, 1 transfers\n",
               "run " STORE " --nodes 2 --num-cpus 1 --ranks 2 -- %s moments", PROGRAM);
}

static void more_ranks_than_cpus_run_at_once(void **state)
{
    cli_expect(0, "7 of 8: 28\n", "run " STORE " --num-cpus 1 --ranks 8 -- %s world",
               PROGRAM);
}

static void tasks_of_ranks_are_no_ranks(void **state)
{
    cli_expect(0, "a task says -10\n", "run " STORE " --ranks 1 -- %s task", PROGRAM);
}

static void a_program_that_calls_crt_init_itself_is_refused(void **state)
{
    cli_expect(4, "runs programs whose main calls crt_main",
               "run " STORE " --ranks 2 -- %s init", PROGRAM);
}

static void a_program_that_does_not_call_crt_main_is_named(void **state)
{
    cli_expect(1, "true has not called crt_main", "run " STORE " --ranks 2 -- true");
    cli_expect(7, "", "run " STORE " --ranks 2 -- sh -c exit~7");
    cli_expect(1, "true has not called crt_main",
               "run --ranks 2 --address 127.0.0.1:1 -- true");
    /* Also from below another program. */
    cli_expect(0, "rank 1 of 2: [hello]\n", "run " STORE " --ranks 2 -- sh -c %s~hello",
               PROGRAM);
    assert_true(cli_is_clean());
}

static void wrong_options_are_refused(void **state)
{
    cli_expect(2, "--ranks takes 1 to 1024, not \"0\"", "run --ranks 0 -- true");
    cli_expect(2, "--ranks takes 1 to 1024, not \"1025\"", "run --ranks 1025 -- true");
    cli_expect(2, "--ranks takes 1 to 1024, not \"1.5\"", "run --ranks 1.5 -- true");
    cli_expect(2, "--address belongs to --ranks", "run --address 127.0.0.1:1 -- true");
    cli_expect(2, "--tag-output belongs to --ranks", "run --tag-output -- true");
    cli_expect(2, "--address names a cluster that has its nodes",
               "run --ranks 2 --nodes 2 --address 127.0.0.1:1 -- true");
    cli_expect(1, "crt: ", "run --ranks 2 --address 127.0.0.1:1 -- %s", PROGRAM);
    setenv("CRT_RANKS", "many", 1);
    cli_expect(1, "CRT_RANKS=many is not 1 to 1024", "run " STORE " -- %s", PROGRAM);
    unsetenv("CRT_RANKS");
    assert_true(cli_is_clean());
}

/* ---------------------------------------------------------------- their output */

static void lines_of_ranks_are_whole(void **state)
{
    int whole = 0;

    cli_expect(0, "", "run " STORE " --ranks 3 -- %s lines", PROGRAM);
    for (char *line = strtok(cli_output, "\n"); line; line = strtok(NULL, "\n")) {
        int number, rank, used = 0;

        if (strcmp(line, "the last one has no end") == 0)
            continue;
        if (sscanf(line, "begin %d %d %n", &number, &rank, &used) != 2 || !used)
            fail_msg("a line is \"%s\"", line);
        for (int k = 1; k < 40; k++, used += 4)
            assert_int_equal(atoi(line + used), rank);
        assert_string_equal(line + used, "end");
        whole++;
    }
    assert_int_equal(whole, 3 * 150);
}

static void lines_are_tagged_when_asked(void **state)
{
    cli_expect(0, "", "run " STORE " --ranks 2 --tag-output -- %s hello", PROGRAM);
    expect_once("[1,0]<stdout>:rank 0 of 2: [hello]\n");
    expect_once("[1,1]<stdout>:rank 1 of 2: [hello]\n");
}

/* ---------------------------------------------------------------- how they end */

static void the_first_failure_ends_all_with_its_exit_status(void **state)
{
    cli_expect(3, "crt: rank 1 of 3 failed, which ends all: it ended with exit status 3",
               "run " STORE " --ranks 3 -- %s return 1 3", PROGRAM);
    cli_expect(128 + SIGSEGV, "crt: rank 2 of 3 failed, which ends all: ",
               "run " STORE " --ranks 3 -- %s crash 2", PROGRAM);
    assert_non_null(strstr(cli_output, "killed by signal 11 (Segmentation fault)"));
    cli_expect(128 + SIGKILL, "crt: rank 0 of 3 failed, which ends all: ",
               "run " STORE " --ranks 3 -- %s kill 0", PROGRAM);
    assert_true(cli_is_clean());
}

static void exit_of_a_rank_ends_it_with_that_status(void **state)
{
    cli_expect(0, "rank 0 ends\n", "run " STORE " --ranks 2 -- %s leave 1", PROGRAM);
    cli_expect(5, "exited with status 5", "run " STORE " --ranks 1 -- %s exit 0 5",
               PROGRAM);
}

/* Rank 1 goes; both others say within how long they were told, and by which error. */
static void expect_told(const char *options, const char *mode, const char *words)
{
    cli_expect(0, "", "run " STORE " %s --ranks 3 -- %s told %s 1", options, PROGRAM,
               mode);
    if (count_of("told at once") != 2 || count_of(words) != 2)
        fail_msg("%s %s: \"%s\" is not there twice:\n%s", options, mode, words,
                 cli_output);
}

static void the_others_are_told_at_once_of_a_rank_that_ends_early(void **state)
{
    static const char *const on[] = {"", "--nodes 2", "--nodes 3 --num-cpus 1"};

    for (size_t i = 0; i < sizeof(on) / sizeof(*on); i++) {
        expect_told(on[i], "return", "rank 1 ");
        expect_told(on[i], "exit", "rank 1 ");
        expect_told(on[i], "leave-message", "rank 1 ");
        expect_told(on[i], "unjoined-return", "rank 1 will not come");
        expect_told(on[i], "unjoined-exit", "rank 1 will not come");
    }
    assert_true(cli_is_clean());
}

static void a_rank_that_ends_after_the_last_operation_fails_nobody(void **state)
{
    static const char *const by[] = {"return", "exit"};

    for (int i = 0; i < 6; i++) {
        cli_expect(0, "", "run " STORE " --ranks 3 -- %s last %s", PROGRAM, by[i % 2]);
        cli_expect(0, "", "run " STORE " --nodes 3 --num-cpus 1 --ranks 3 -- %s last %s",
                   PROGRAM, by[i % 2]);
    }
}

/* The pids of the ranks that stay. */
static pid_t begin_to_stay(int *fd, const char *on, pid_t *pids)
{
    pid_t pid = cli_spawn(fd, "run %s --ranks %d -- %s stay", on, RANKS, PROGRAM);

    for (int i = 0; i < RANKS; i++) {
        char line[32];

        snprintf(line, sizeof(line), "rank %d stays as ", i);
        if (!cli_read_until(*fd, line))
            fail_msg("the program said \"%s\"", cli_output);
        pids[i] = (pid_t)atol(strstr(cli_output, line) + strlen(line));
    }
    return pid;
}

static void a_signal_ends_all_ranks(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM};

    for (int i = 0; i < 2; i++) {
        pid_t pids[RANKS], pid;
        int fd;

        pid = begin_to_stay(&fd, STORE, pids);
        kill(pid, signals[i]);
        assert_int_equal(rest(pid, fd), 128 + signals[i]);
        assert_true(cli_is_clean());
    }
}

static void kill_9_of_crt_run_leaves_no_rank(void **state)
{
    pid_t pids[RANKS], pid;
    int fd;

    pid = begin_to_stay(&fd, STORE " --nodes 2", pids);
    kill(pid, SIGKILL);
    assert_int_equal(rest(pid, fd), 128 + SIGKILL);
    cli_await_clean();
}

static void a_rank_that_is_killed_ends_all(void **state)
{
    pid_t pids[RANKS], pid;
    int fd;

    pid = begin_to_stay(&fd, STORE, pids);
    kill(pids[1], SIGKILL);
    assert_int_equal(rest(pid, fd), 128 + SIGKILL);
    assert_non_null(strstr(cli_output, "crt: rank 1 of 3 failed"));
    assert_true(cli_is_clean());
}

static void on_a_joined_cluster_the_end_of_crt_run_ends_all_ranks(void **state)
{
    static const int signals[] = {SIGINT, SIGKILL};
    char on[64];

    cli_expect(
        0, "The cluster 127.0.0.1:", "start --head --port 0 --dashboard-port 0 " STORE);
    snprintf(on, sizeof(on), "--address 127.0.0.1:%ld",
             atol(strstr(cli_output, "127.0.0.1:") + 10));
    cli_expect(0, "2 of 3: 3\n", "run %s --ranks 3 -- %s world", on, PROGRAM);
    cli_expect(3, "crt: rank 1 of 3 failed", "run %s --ranks 3 -- %s return 1 3", on,
               PROGRAM);
    for (int i = 0; i < 2; i++) {
        pid_t pids[RANKS], pid;
        int fd;

        pid = begin_to_stay(&fd, on, pids);
        kill(pid, signals[i]);
        assert_int_equal(rest(pid, fd), 128 + signals[i]);
        for (int k = 0; k < RANKS; k++)
            cli_await_end(pids[k]);
    }
    cli_expect(0, "Stopped 1 node and the head", "stop");
    assert_true(cli_is_clean());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, cli_setup, cli_teardown)
        TEST(each_rank_runs_the_driver_with_its_number_and_the_arguments),
        TEST(a_run_that_takes_long_is_no_slow_wait),
        TEST(without_ranks_the_driver_runs_once_and_is_none),
        TEST(the_world_is_a_group_of_all_ranks),
        TEST(the_timeline_has_collectives_and_transfers),
        TEST(more_ranks_than_cpus_run_at_once),
        TEST(tasks_of_ranks_are_no_ranks),
        TEST(a_program_that_calls_crt_init_itself_is_refused),
        TEST(a_program_that_does_not_call_crt_main_is_named),
        TEST(wrong_options_are_refused),
        TEST(lines_of_ranks_are_whole),
        TEST(lines_are_tagged_when_asked),
        TEST(the_first_failure_ends_all_with_its_exit_status),
        TEST(exit_of_a_rank_ends_it_with_that_status),
        TEST(the_others_are_told_at_once_of_a_rank_that_ends_early),
        TEST(a_rank_that_ends_after_the_last_operation_fails_nobody),
        TEST(a_signal_ends_all_ranks),
        TEST(kill_9_of_crt_run_leaves_no_rank),
        TEST(a_rank_that_is_killed_ends_all),
        TEST(on_a_joined_cluster_the_end_of_crt_run_ends_all_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
