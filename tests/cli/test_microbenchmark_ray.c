/* SPDX-License-Identifier: Apache-2.0 */
/* Ray's microbenchmark, supervised, by scripts of that name that do what a broken one may do. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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

#include "cli/microbenchmark_ray.h"
#include "runtime/base/clock.h"

#define ROW         "single client tasks sync"
#define PATIENCE_MS 20000

static char directory[64], *path_of_before;

static int setup(void **state)
{
    char path[4096];

    strcpy(directory, "/tmp/crt-fake-ray-XXXXXX");
    path_of_before = strdup(getenv("PATH"));
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof(path), "%s:%s", directory, path_of_before);
    return setenv("PATH", path, 1);
}

static const char *file_of(const char *name)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return path;
}

static int teardown(void **state)
{
    unlink(file_of("ray"));
    unlink(file_of("held"));
    setenv("PATH", path_of_before, 1);
    free(path_of_before);
    return rmdir(directory);
}

/* `ray microbenchmark` does this. */
static void ray_does(const char *script)
{
    FILE *file = fopen(file_of("ray"), "we");

    assert_non_null(file);
    fprintf(file, "#!/bin/sh\ncd %s\n%s\n", directory, script);
    fclose(file);
    assert_int_equal(chmod(file_of("ray"), 0700), 0);
}

static ray_row_t measure(int timeout_s)
{
    ray_row_t row;

    ray_measure(ROW, timeout_s, &row);
    return row;
}

static void gives_no_figure(int timeout_s, const char *reason)
{
    ray_row_t row = measure(timeout_s);

    assert_true(row.value == 0);
    assert_string_equal(row.reason, reason);
}

/* A fifo that whoever is alive of ray's processes has open for writing. */
static int watch_processes(void)
{
    assert_int_equal(mkfifo(file_of("held"), 0600), 0);
    return open(file_of("held"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

static void all_processes_end(int fd)
{
    struct pollfd writers = {.fd = fd, .events = POLLIN};
    char byte;

    assert_int_equal(poll(&writers, 1, PATIENCE_MS), 1);
    assert_int_equal(read(fd, &byte, 1), 0);
    close(fd);
}

/* ---------------------------------------------------------------- tests */

static void the_figure_of_its_row_is_read(void **state)
{
    ray_row_t row;

    ray_does("echo Tip: set a pattern\n"
             "echo other row per second 5 +- 1\n"
             "[ \"$TESTS_TO_RUN\" = '" ROW "' ] && [ \"$1\" = microbenchmark ] &&\n"
             "    echo " ROW " per second 244.25 +- 3.5\n");
    row = measure(20);
    assert_true(row.value == 244.25 && row.sd == 3.5);
    assert_string_equal(row.reason, "");
    assert_null(getenv("TESTS_TO_RUN"));
}

static void after_the_figure_its_cluster_is_stopped_in_order(void **state)
{
    ray_row_t row;

    ray_does("trap 'mv held stopped; exit' TERM\n"
             "sleep 1000 &\n"
             ">held\n"
             "echo " ROW " per second 10 +- 0\n"
             "wait\n");
    row = measure(20);
    assert_true(row.value == 10);
    assert_int_equal(unlink(file_of("stopped")), 0);
}

static void one_that_hangs_is_killed_with_its_children(void **state)
{
    int64_t start = crti_now_ms();
    int fd = watch_processes();

    ray_does("exec 3>held\n"
             "trap '' TERM INT HUP\n"
             "(while :; do sleep 1000; done) &\n"
             "echo starts\n"
             "wait\n");
    gives_no_figure(1, "no figure after 1 s; it said last: starts");
    assert_in_range(crti_now_ms() - start, 1000, PATIENCE_MS);
    all_processes_end(fd);
}

static void one_that_has_its_figure_and_does_not_end_is_killed(void **state)
{
    int fd = watch_processes();
    ray_row_t row;

    ray_does("exec 3>held\n"
             "sleep 1000 &\n"
             "echo " ROW " per second 7 +- 1\n");
    row = measure(20); /* its child has its output still */
    assert_true(row.value == 7);
    all_processes_end(fd);
}

static void one_that_crashes_is_told_with_what_it_said(void **state)
{
    ray_does("echo '\033[31mno \"room\"\033[0m' >&2; echo; kill -SEGV $$");
    gives_no_figure(20, "ended by signal 11; it said last: ?[31mno ?room??[0m");
    ray_does("printf 'not a line'; exit 3");
    gives_no_figure(20, "exit status 3; it said last: not a line");
}

static void garbage_is_no_figure(void **state)
{
    ray_does("head -c 300000 /dev/zero\n"
             "echo\n"
             "echo " ROW " per second nan +- 1\n"
             "echo " ROW " per second -4 +- 1\n"
             "echo " ROW " per second 1e999 +- 1\n"
             "echo " ROW " per second\n"
             "echo '\\\\end'\n");
    gives_no_figure(20, "it ended without a figure; it said last: ?end");
    ray_does("exit 0");
    gives_no_figure(20, "it ended without a figure; it said last: nothing");
}

static void the_version_is_asked_for_and_only_rays_is_taken(void **state)
{
    char text[200];
    ray_row_t failed;

    ray_does("[ \"$1\" = --version ] && echo ray, version 2.60.0");
    assert_true(ray_version(text, sizeof(text), &failed));
    assert_string_equal(text, "ray, version 2.60.0");
    ray_does("echo another program");
    assert_false(ray_version(text, sizeof(text), &failed));
    assert_string_equal(text, "another program");
    unlink(file_of("ray"));
    setenv("PATH", directory, 1);
    assert_false(ray_version(text, sizeof(text), &failed));
    assert_string_equal(failed.reason, "exit status 127; it said last: nothing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(the_figure_of_its_row_is_read),
        TEST(after_the_figure_its_cluster_is_stopped_in_order),
        TEST(one_that_hangs_is_killed_with_its_children),
        TEST(one_that_has_its_figure_and_does_not_end_is_killed),
        TEST(one_that_crashes_is_told_with_what_it_said),
        TEST(garbage_is_no_figure),
        TEST(the_version_is_asked_for_and_only_rays_is_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
