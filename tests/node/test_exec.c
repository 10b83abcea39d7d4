/* SPDX-License-Identifier: Apache-2.0 */
/* How the node daemon executes programs (runtime/node/host/exec.c). */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/node/host/exec.h"

#include <cmocka.h>

#define DEAD "/dead" /* a directory of a file server that does not answer */

static char dir[64];

/* In the place of the library's: the new process calls this one. */
int chdir(const char *path)
{
    while (strcmp(path, DEAD) == 0)
        pause();
    return (int)syscall(SYS_chdir, path);
}

static int begin(void **state)
{
    strcpy(dir, "/tmp/crt-exec-XXXXXX");
    return mkdtemp(dir) ? 0 : 1;
}

static int end(void **state)
{
    char command[80];

    snprintf(command, sizeof(command), "rm -r %s", dir);
    return system(command);
}

static const char *make_file(const char *name, const char *text)
{
    static char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
    return path;
}

/* What it writes comes out of `*output`. */
static pid_t execute(const char *path, const char *directory, int *report, int *output)
{
    char *argv[] = {(char *)(uintptr_t)path, NULL}, *environment[] = {NULL};
    int ends[2];
    crti_exec_t exec = {.exec_fd = -1,
                        .path = path,
                        .argv = argv,
                        .environment = environment,
                        .directory = directory,
                        .keep_fd = -1};
    pid_t pid = 0;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    exec.stdout_fd = exec.stderr_fd = ends[1];
    assert_int_equal(crti_exec_start(&exec, &pid, report), CRT_OK);
    close(ends[1]);
    *output = ends[0];
    return pid;
}

static void expect_output(int fd, const char *wanted)
{
    char text[300];
    size_t used = 0;
    ssize_t got;

    while ((got = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    assert_string_equal(text, wanted);
    close(fd);
}

static void expect_end(pid_t pid, int wanted)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, wanted);
}

static void a_directory_that_does_not_answer_holds_only_the_new_process_up(void **state)
{
    int report = -1, output, ends[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = execute("/bin/true", DEAD, &report, &output);
    /* It waits without what is ours: its copies would keep our peers from hearing of an end. */
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    close(ends[0]);
    assert_int_equal(kill(-pid, SIGKILL), 0);
    expect_end(pid, SIGKILL);
    assert_int_equal(crti_exec_result(&report, "/bin/true"), CRT_OK);
    assert_int_equal(report, -1);
    expect_output(output, "");
}

static void why_a_program_can_not_be_executed_is_told(void **state)
{
    const char *none = make_file("none", "no program\n");
    int report = -1, output;
    pid_t pid = execute(none, "/", &report, &output);

    assert_int_equal(crti_exec_result(&report, none), CRT_ERR_UNSUPPORTED);
    assert_non_null(strstr(crt_error_detail(), "/none is not a program for this node's"));
    expect_end(pid, 127 << 8);
    expect_output(output, "");
    pid = execute("/no/such/program", "/", &report, &output);
    assert_int_equal(crti_exec_result(&report, "/no/such/program"), CRT_ERR_NOT_FOUND);
    expect_end(pid, 127 << 8);
    expect_output(output, "");
}

static void where_nobody_asks_it_is_written_to_its_stderr(void **state)
{
    int output;
    pid_t pid = execute("/no/such/program", "/", NULL, &output);

    expect_end(pid, 127 << 8);
    expect_output(output,
                  "/no/such/program can't be executed: No such file or directory\n");
}

static void a_program_begins_in_its_directory_or_in_the_root(void **state)
{
    const char *program = make_file("program", "#!/bin/sh\npwd -P\n");
    char expected[80];
    int report = -1, output;
    pid_t pid = execute(program, dir, &report, &output);

    assert_int_equal(crti_exec_result(&report, program), CRT_OK);
    expect_end(pid, 0);
    snprintf(expected, sizeof(expected), "%s\n", dir);
    expect_output(output, expected);
    pid = execute(program, "/no/such/directory", &report, &output);
    assert_int_equal(crti_exec_result(&report, program), CRT_OK);
    expect_end(pid, 0);
    expect_output(output, "/\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_directory_that_does_not_answer_holds_only_the_new_process_up),
        TEST(why_a_program_can_not_be_executed_is_told),
        TEST(where_nobody_asks_it_is_written_to_its_stderr),
        TEST(a_program_begins_in_its_directory_or_in_the_root),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
