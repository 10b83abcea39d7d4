/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of host/supervisor.c, with real processes: who ends with whom. */
#include "runtime/node/host/supervisor.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 30000

/* Everybody who lives holds its end of this pipe. */
static int alive[2];
static pid_t supervisor;

static int set_up(void **state)
{
    assert_int_equal(pipe(alive), 0);
    return 0;
}

static int tear_down(void **state)
{
    close(alive[0]);
    return 0;
}

/* Away from group, session, environment and parent; `depth` times. */
static void get_away(int depth)
{
    if (depth == 0)
        return;
    if (fork() != 0) {
        (void)!write(alive[1], "x", 1);
        pause();
        _exit(0);
    }
    setsid();
    clearenv();
    if (fork() != 0)
        _exit(0);
    signal(SIGTERM, SIG_IGN);
    get_away(depth - 1);
    if (depth == 1)
        pause();
    _exit(0);
}

/* A supervisor whose program runs `program`. */
static void supervise(void (*program)(void))
{
    supervisor = fork();
    assert_true(supervisor >= 0);
    if (supervisor == 0) {
        setpgid(0, 0);
        close(alive[0]);
        crti_supervise(-1);
        program();
        _exit(7);
    }
    close(alive[1]);
}

static void await(size_t bytes)
{
    char text[64];

    for (size_t got = 0; got < bytes;) {
        struct pollfd p = {.fd = alive[0], .events = POLLIN};

        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        got += (size_t)read(alive[0], text, sizeof(text));
    }
}

/* The supervisor has ended, and nobody is left who was below it. */
static int end_of_all(void)
{
    struct pollfd p = {.fd = alive[0], .events = POLLIN};
    char text[64];
    ssize_t got = 1;
    int status;

    assert_int_equal(waitpid(supervisor, &status, 0), supervisor);
    while (got > 0) {
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        got = read(alive[0], text, sizeof(text));
    }
    assert_int_equal(got, 0);
    return status;
}

static void return_seven(void)
{
}

static void kill_itself(void)
{
    raise(SIGUSR2);
}

static void leave_some(void)
{
    for (int i = 0; i < 3; i++)
        if (fork() == 0)
            get_away(3);
    for (int i = 0; i < 3 * 3; i++)
        usleep(1000); /* some have got away when it ends, some have not */
}

static void stay_with_some(void)
{
    if (fork() == 0)
        get_away(2);
    (void)!write(alive[1], "x", 1);
    pause();
}

static void ignore_sigterm(void)
{
    signal(SIGTERM, SIG_IGN);
    stay_with_some();
}

static void it_ends_as_its_program_ends(void **state)
{
    int status;

    supervise(return_seven);
    status = end_of_all();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void it_dies_by_the_signal_that_its_program_died_by(void **state)
{
    int status;

    supervise(kill_itself);
    status = end_of_all();
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR2);
}

static void nobody_outlives_the_program_in_whatever_session(void **state)
{
    int status;

    supervise(leave_some);
    status = end_of_all();
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void sigterm_is_passed_on_and_ends_all(void **state)
{
    int status;

    supervise(stay_with_some);
    await(2);
    crti_supervisor_terminate(supervisor);
    status = end_of_all();
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void who_ignores_sigterm_is_killed_with_all(void **state)
{
    int status;

    supervise(ignore_sigterm);
    await(2);
    crti_supervisor_terminate(supervisor);
    crti_supervisor_kill(supervisor);
    status = end_of_all();
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void none_is_told_nothing(void **state)
{
    crti_supervisor_terminate(0);
    crti_supervisor_kill(0);
    close(alive[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(it_ends_as_its_program_ends),
        TEST(it_dies_by_the_signal_that_its_program_died_by),
        TEST(nobody_outlives_the_program_in_whatever_session),
        TEST(sigterm_is_passed_on_and_ends_all),
        TEST(who_ignores_sigterm_is_killed_with_all),
        TEST(none_is_told_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
