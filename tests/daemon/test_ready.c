/* SPDX-License-Identifier: Apache-2.0 */
/* The line by which a daemon tells that it serves. */
#include "runtime/daemon/ready.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void values_of_a_ready_line_are_read_as_they_were_written(void **state)
{
    char line[80] = "ready", value[40];

    crti_ready_add(line, sizeof(line), "a", "x y%41\t\xc3\xbc z");
    crti_ready_add(line, sizeof(line), "b", "");
    crti_ready_add(line, sizeof(line), "c", "[fe80::1%eth0]:6380");
    assert_null(strpbrk(line, "\t\n"));
    assert_string_equal(crti_ready_get(line, "a", value, sizeof(value)),
                        "x y%41\t\xc3\xbc z");
    assert_string_equal(crti_ready_get(line, "b", value, sizeof(value)), "");
    assert_string_equal(crti_ready_get(line, "c", value, sizeof(value)),
                        "[fe80::1%eth0]:6380");
    assert_string_equal(crti_ready_get(line, "d", value, sizeof(value)), "");
    assert_string_equal(crti_ready_get(line, "c", value, 19), ""); /* no part of it */
    assert_string_equal(crti_ready_get(line, "c", value, 20), "[fe80::1%eth0]:6380");
    memset(line + 5, 0, sizeof(line) - 5);
    crti_ready_add(line, 20, "a", "0123456789abcdef");
    assert_string_equal(line, "ready");
}

static void a_line_is_told_once(void **state)
{
    char text[16] = "";
    int ends[2], fd;

    assert_int_equal(pipe(ends), 0);
    fd = ends[1];
    crti_ready_tell(&fd, "ready\n");
    assert_int_equal(fd, -1);
    crti_ready_tell(&fd, "error late\n");
    assert_int_equal(read(ends[0], text, sizeof(text)), 6);
    assert_string_equal(text, "ready\n");
    assert_int_equal(read(ends[0], text, sizeof(text)), 0); /* it is closed */
    close(ends[0]);
}

static void a_failure_is_one_line_however_long_its_text_is(void **state)
{
    char text[2000], line[2000];
    int ends[2];
    ssize_t size;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(pipe(ends), 0);
    crti_ready_fail(&ends[1], text);
    size = read(ends[0], line, sizeof(line));
    assert_true(size > 1000);
    assert_memory_equal(line, "error x", 7);
    assert_int_equal(line[size - 1], '\n');
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_a_ready_line_are_read_as_they_were_written),
        cmocka_unit_test(a_line_is_told_once),
        cmocka_unit_test(a_failure_is_one_line_however_long_its_text_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
