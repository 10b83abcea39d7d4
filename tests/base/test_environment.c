/* SPDX-License-Identifier: Apache-2.0 */
/* Environments of tasks and actors: which bytes are one. */
#include "runtime/base/environment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BYTES(text) crti_span(text, sizeof(text) - 1)

static crti_environment_t *read_from(crti_span_t bytes)
{
    crti_environment_t *environment = NULL;

    assert_int_equal(crti_environment_read(bytes, &environment), CRT_OK);
    return environment;
}

static void what_was_written_is_read(void **state)
{
    crti_environment_t *e = read_from(BYTES("/a b\0A=1\0B=\0C==\0"));
    const char *at = NULL;

    (void)state;
    assert_string_equal(crti_environment_directory(e), "/a b");
    assert_string_equal(at = crti_environment_next(e, at), "A=1");
    assert_string_equal(at = crti_environment_next(e, at), "B=");
    assert_string_equal(at = crti_environment_next(e, at), "C==");
    assert_null(crti_environment_next(e, at));
    assert_int_equal(crti_environment_bytes(e).size, sizeof("/a b\0A=1\0B=\0C==\0") - 1);
    crti_environment_drop(e);
}

static void none_is_that_of_the_job(void **state)
{
    (void)state;
    assert_null(read_from(crti_span(NULL, 0)));
    assert_string_equal(crti_environment_directory(NULL), "");
    assert_null(crti_environment_next(NULL, NULL));
    assert_int_equal(crti_environment_bytes(NULL).size, 0);
    assert_true(crti_environment_equal(NULL, NULL));
    assert_null(crti_environment_keep(NULL));
    crti_environment_drop(NULL);
}

static void equal_are_those_with_the_same_bytes(void **state)
{
    crti_environment_t *a = read_from(BYTES("\0A=1\0")),
                       *same = read_from(BYTES("\0A=1\0")),
                       *other = read_from(BYTES("\0A=2\0")),
                       *longer = read_from(BYTES("\0A=1\0B=\0"));

    (void)state;
    assert_true(crti_environment_equal(a, same));
    assert_false(crti_environment_equal(a, other));
    assert_false(crti_environment_equal(a, longer));
    assert_false(crti_environment_equal(a, NULL));
    assert_ptr_equal(crti_environment_keep(a), a);
    crti_environment_drop(a);
    assert_true(crti_environment_equal(a, same)); /* it was kept */
    crti_environment_drop(a);
    crti_environment_drop(same);
    crti_environment_drop(other);
    crti_environment_drop(longer);
}

static void other_bytes_are_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
    } wrong[] = {{"x", 1},     {"/a", 2},      {"a\0", 2},   {"\0A", 2},
                 {"\0A\0", 3}, {"\0=1\0", 4},  {"\0A=1", 4}, {"\0A=1\0\0", 6},
                 {"\0\0", 2},  {"\0A=1\0B", 6}};
    char *large = calloc(1, CRTI_ENVIRONMENT_MAX + 1);
    crti_environment_t *e;

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(
            crti_environment_read(crti_span(wrong[i].bytes, wrong[i].size), &e),
            CRT_ERR_PROTOCOL);
        assert_null(e);
    }
    large[0] = '/';
    memset(large + 1, 'a', CRTI_ENVIRONMENT_MAX - 1);
    assert_int_equal(
        crti_environment_read(crti_span(large, CRTI_ENVIRONMENT_MAX + 1), &e),
        CRT_ERR_PROTOCOL);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(none_is_that_of_the_job),
        cmocka_unit_test(equal_are_those_with_the_same_bytes),
        cmocka_unit_test(other_bytes_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
