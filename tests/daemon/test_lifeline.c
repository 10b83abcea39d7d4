/* SPDX-License-Identifier: Apache-2.0 */
/* The lifeline of daemons. */
#include "runtime/daemon/lifeline.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static void count(void *user)
{
    ++*(int *)user;
}

static void its_end_is_told_once_and_nothing_else(void **state)
{
    crti_lifeline_t lifeline, none = {.loop = NULL};
    crti_loop_t *loop;
    int ends[2], told = 0;

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(crti_loop_new(&loop), CRT_OK);
    assert_int_equal(crti_lifeline_watch(&none, loop, -1, count, &told), CRT_OK);
    assert_int_equal(crti_lifeline_watch(&lifeline, loop, ends[0], count, &told), CRT_OK);
    assert_true(fcntl(ends[0], F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(crti_loop_turn(loop, UINT64_MAX), CRT_OK);
    assert_int_equal(told, 0);
    close(ends[1]);
    assert_int_equal(crti_loop_turn(loop, UINT64_MAX), CRT_OK);
    assert_int_equal(crti_loop_turn(loop, 0), CRT_OK);
    assert_int_equal(told, 1);
    crti_loop_free(loop);
    close(ends[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_end_is_told_once_and_nothing_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
