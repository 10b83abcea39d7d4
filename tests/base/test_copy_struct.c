/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of programs that were compiled with other versions of the headers. */
#include "runtime/base/copy_struct.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

typedef struct known {
    size_t struct_size;
    int64_t first, second;
} known_t;

typedef struct grown {
    size_t struct_size;
    int64_t first, second;
    const char *third;
    bool fourth;
} grown_t;

static void a_shorter_struct_is_completed_with_zeros(void **state)
{
    known_t old = {.struct_size = offsetof(known_t, second), .first = 7, .second = 9},
            mine;

    assert_int_equal(CRTI_COPY_STRUCT(&mine, &old, "MAKE"), CRT_OK);
    assert_int_equal(mine.first, 7);
    assert_int_equal(mine.second, 0);
    assert_int_equal(mine.struct_size, sizeof(mine));
}

static void null_is_a_struct_of_zeros(void **state)
{
    known_t mine = {.first = 3};

    assert_int_equal(CRTI_COPY_STRUCT(&mine, (known_t *)NULL, "MAKE"), CRT_OK);
    assert_int_equal(mine.first, 0);
    assert_int_equal(mine.struct_size, sizeof(mine));
}

static void a_longer_struct_is_taken_when_its_rest_is_zero(void **state)
{
    grown_t newer = {.struct_size = sizeof(newer), .first = 1, .second = 2};
    known_t mine;

    assert_int_equal(CRTI_COPY_STRUCT(&mine, (known_t *)&newer, "MAKE"), CRT_OK);
    assert_int_equal(mine.second, 2);
    assert_int_equal(mine.struct_size, sizeof(mine));
}

static void a_member_that_this_version_does_not_have_is_refused_by_its_place(void **state)
{
    grown_t newer = {.struct_size = sizeof(newer), .fourth = true};
    known_t mine;

    assert_int_equal(CRTI_COPY_STRUCT(&mine, (known_t *)&newer, "MAKE"),
                     CRT_ERR_UNSUPPORTED);
    assert_non_null(strstr(crt_error_detail(), "MAKE: a member at byte 32 is set"));
    assert_non_null(strstr(crt_error_detail(), CRT_VERSION_TEXT));
}

static void a_size_that_is_none_is_refused_before_anything_is_read(void **state)
{
    static const size_t wrong[] = {0, 1, sizeof(size_t) - 1, CRTI_STRUCT_MAX + 1,
                                   SIZE_MAX};
    known_t mine;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(crti_copy_struct(&mine, sizeof(mine), &wrong[i], "MAKE"),
                         CRT_ERR_INVALID);
        assert_non_null(strstr(crt_error_detail(), "make it with MAKE"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shorter_struct_is_completed_with_zeros),
        cmocka_unit_test(null_is_a_struct_of_zeros),
        cmocka_unit_test(a_longer_struct_is_taken_when_its_rest_is_zero),
        cmocka_unit_test(
            a_member_that_this_version_does_not_have_is_refused_by_its_place),
        cmocka_unit_test(a_size_that_is_none_is_refused_before_anything_is_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
