/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of base/programs.c: which program goes when the cache is too large. */
#include "runtime/base/programs.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES 1000 /* of each program */

static char directory[64];

static const char *path_of(int number)
{
    static char path[200];

    snprintf(path, sizeof(path), "%s/%064x", directory, (unsigned)number);
    return path;
}

/* Used so many seconds ago. */
static void put(const char *path, int ago)
{
    struct timespec times[2] = {{.tv_sec = time(NULL) - ago},
                                {.tv_sec = time(NULL) - ago}};
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0700);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, BYTES), 0);
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static bool is_there(int number)
{
    return access(path_of(number), F_OK) == 0;
}

static int begin(void **state)
{
    strcpy(directory, "/tmp/crt-programs-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int end(void **state)
{
    char command[100];

    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command);
}

static void the_least_recently_used_goes_first(void **state)
{
    int fd;

    for (int i = 0; i < 5; i++)
        put(path_of(i), 10000 + (i * 7 % 5) * 1000); /* 0 was used last, 2 long ago */
    crti_programs_trim(directory, 5 * BYTES);
    for (int i = 0; i < 5; i++)
        assert_true(is_there(i));
    crti_programs_trim(directory, 3 * BYTES);
    for (int i = 0; i < 5; i++)
        assert_int_equal(is_there(i), i * 7 % 5 < 3);
    fd = open(path_of(1), O_RDONLY | O_CLOEXEC);
    crti_programs_used(fd); /* the oldest one until now */
    close(fd);
    crti_programs_trim(directory, 0);
    assert_true(is_there(1));
    assert_false(is_there(0));
}

static void what_is_held_stays(void **state)
{
    int fd;

    put(path_of(1), 10000);
    put(path_of(2), 9000);
    fd = open(path_of(1), O_RDONLY | O_CLOEXEC);
    assert_true(crti_programs_hold(fd));
    put(path_of(1), 20000); /* held, however old */
    crti_programs_trim(directory, 0);
    assert_true(is_there(1));
    assert_false(is_there(2));
    close(fd);
    crti_programs_trim(directory, 0);
    assert_false(is_there(1));
}

static void what_was_used_a_moment_ago_stays(void **state)
{
    int fd;

    put(path_of(1), CRTI_PROGRAMS_PIN_S - 100);
    put(path_of(2), CRTI_PROGRAMS_PIN_S + 100);
    put(path_of(3), 100000);
    fd = open(path_of(3), O_RDONLY | O_CLOEXEC);
    assert_true(crti_programs_hold(fd)); /* held, and let go: it was used */
    close(fd);
    crti_programs_trim(directory, 0);
    assert_true(is_there(1));
    assert_false(is_there(2));
    assert_true(is_there(3));
}

static void other_files_are_left_alone(void **state)
{
    char path[200];

    snprintf(path, sizeof(path), "%s/.upload-1-1", directory);
    put(path, 100000);
    crti_programs_trim(directory, 0);
    assert_int_equal(access(path, F_OK), 0);
    crti_programs_trim("/tmp/crt-no-such-folder", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_least_recently_used_goes_first, begin, end),
        cmocka_unit_test_setup_teardown(what_is_held_stays, begin, end),
        cmocka_unit_test_setup_teardown(what_was_used_a_moment_ago_stays, begin, end),
        cmocka_unit_test_setup_teardown(other_files_are_left_alone, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
