/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/crt_base.h"
#include "runtime/base/crt_printable.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const crt_status_t statuses[] = {
#define ROW(name, value, text) CRT_##name,
    CRT_STATUS_MAP(ROW)
#undef ROW
};
#define STATUSES (sizeof(statuses) / sizeof(statuses[0]))

static void every_status_has_a_text_and_a_name_of_its_own(void **state)
{
    for (size_t i = 0; i < STATUSES; i++) {
        assert_string_not_equal(crt_status_text(statuses[i]), "unknown status");
        assert_memory_equal(crt_status_name(statuses[i]), "CRT_", 4);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(crt_status_text(statuses[i]),
                                    crt_status_text(statuses[j]));
            assert_int_not_equal(statuses[i], statuses[j]);
        }
    }
    assert_string_equal(crt_status_name(CRT_ERR_TIMED_OUT), "CRT_ERR_TIMED_OUT");
}

/* Part of the wire format: a number that moves breaks mixed clusters. */
static void numbers_stay_what_they_are(void **state)
{
    assert_int_equal(CRT_OK, 0);
    assert_int_equal(CRT_IN_PROGRESS, 1);
    assert_int_equal(CRT_ERR_NO_MEMORY, -1);
    assert_int_equal(CRT_ERR_USER, -18);
    assert_int_equal(CRT_ERR_UNSCHEDULABLE, -21);
    assert_int_equal(CRT_ERR_ACTOR_DIED, -50);
    assert_int_equal(CRT_ERR_NODE_LOST, -70);
    assert_int_equal(CRT_ERR_HEAD_LOST, -90);
}

static void a_number_from_the_wire_that_is_no_status_is_unknown(void **state)
{
    const int wrong[] = {3, -23, -49, -99, -100, 2147483647, -2147483647 - 1};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_string_equal(crt_status_text((crt_status_t)wrong[i]), "unknown status");
        assert_string_equal(crt_status_name((crt_status_t)wrong[i]), "unknown status");
    }
}

static void a_terminal_obeys_nothing_of_a_detail(void **state)
{
    static const struct {
        const char *given, *shown;
    } cases[] = {{"", ""},
                 {"caf\xc3\xa9 \xe2\x82\xac", "caf\xc3\xa9 \xe2\x82\xac"},
                 {"two\nlines\tand a tab", "two\nlines\tand a tab"},
                 {"\033]0;title\007\033[2J", "?]0;title??[2J"},
                 {"back\b\rover\x7f", "back??over?"},
                 {"\xc2\x9b"
                  "2J \xc2\xa0",
                  "??2J \xc2\xa0"},
                 {"cut \xc2", "cut \xc2"}};
    char text[64];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(text, sizeof(text), "%s", cases[i].given);
        assert_string_equal(crt_make_printable(text), cases[i].shown);
        (void)crt_raise(CRT_ERR_INVALID, "%s", cases[i].given);
        assert_string_equal(crt_error_detail(), cases[i].shown);
    }
}

static void raise_keeps_the_detail_and_returns_the_status(void **state)
{
    assert_int_equal(crt_raise(CRT_ERR_TIMED_OUT, "no word from %s for %d ms", "b", 70),
                     CRT_ERR_TIMED_OUT);
    assert_string_equal(crt_error_detail(), "no word from b for 70 ms");
}

static void the_old_detail_may_be_part_of_the_new_one(void **state)
{
    (void)crt_raise(CRT_ERR_IO, "disk full");
    (void)crt_raise(CRT_ERR_CORRUPT, "weights: %s (%s)", crt_error_detail(), "page 7");
    assert_string_equal(crt_error_detail(), "weights: disk full (page 7)");
}

static void a_long_detail_is_cut_at_1023_bytes(void **state)
{
    char text[5000];

    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    (void)crt_raise(CRT_ERR_IO, "%s", text);
    assert_int_equal(strlen(crt_error_detail()), 1023);
}

static void *raise_in_thread(void *argument)
{
    *(bool *)argument = crt_error_detail()[0] == '\0';
    (void)crt_raise(CRT_ERR_IO, "of the other thread");
    return NULL;
}

static void each_thread_has_a_detail_of_its_own(void **state)
{
    bool was_empty = false;
    pthread_t thread;

    (void)crt_raise(CRT_ERR_IO, "of this thread");
    assert_int_equal(pthread_create(&thread, NULL, raise_in_thread, &was_empty), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(was_empty);
    assert_string_equal(crt_error_detail(), "of this thread");
}

static int tries;

static crt_status_t try_two(crt_status_t first)
{
    CRT_TRY(first);
    tries++;
    return CRT_OK;
}

static void try_passes_failures_up_and_nothing_else(void **state)
{
    tries = 0;
    assert_int_equal(try_two(CRT_ERR_CLOSED), CRT_ERR_CLOSED);
    assert_int_equal(tries, 0);
    assert_int_equal(try_two(CRT_IN_PROGRESS), CRT_OK);
    assert_int_equal(try_two(CRT_OK), CRT_OK);
    assert_int_equal(tries, 2);
}

static void check_prints_where_and_why_and_exits_with_1(void **state)
{
    char text[512] = "";
    int ends[2], status;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        CRT_CHECK(CRT_OK);
        CRT_CHECK(crt_raise(CRT_ERR_NOT_FOUND, "no actor \"x\""));
        _exit(0);
    }
    close(ends[1]);
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    assert_non_null(strstr(text, "test_status.c:"));
    assert_non_null(strstr(text, "not found: no actor \"x\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_text_and_a_name_of_its_own),
        cmocka_unit_test(numbers_stay_what_they_are),
        cmocka_unit_test(a_number_from_the_wire_that_is_no_status_is_unknown),
        cmocka_unit_test(a_terminal_obeys_nothing_of_a_detail),
        cmocka_unit_test(raise_keeps_the_detail_and_returns_the_status),
        cmocka_unit_test(the_old_detail_may_be_part_of_the_new_one),
        cmocka_unit_test(a_long_detail_is_cut_at_1023_bytes),
        cmocka_unit_test(each_thread_has_a_detail_of_its_own),
        cmocka_unit_test(try_passes_failures_up_and_nothing_else),
        cmocka_unit_test(check_prints_where_and_why_and_exits_with_1),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
