/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are opened at first need, from a folder where the loader looks for those that this
 * program names, and not for those that they need. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/late_library.h"

static struct {
    int (*wanted)(void);
} table;

static const crti_late_symbol_t symbols[] = {{"late_wanted", 0}};

static void a_library_is_opened_with_those_beside_it_that_it_needs(void **state)
{
    crti_late_library_t library = {.file = "liblate_wanted.so",
                                   .loss = "nothing works",
                                   .symbols = symbols,
                                   .count = 1,
                                   .table = &table};

    if (crti_late_library_open(&library) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    assert_true(library.is_open);
    assert_int_equal(table.wanted(), 42);
}

static void a_library_that_is_not_there_is_named(void **state)
{
    crti_late_library_t library = {.file = "libno_such_library.so.7",
                                   .loss = "nothing works",
                                   .symbols = symbols,
                                   .count = 1,
                                   .table = &table};

    assert_int_equal(crti_late_library_open(&library), CRT_ERR_UNSUPPORTED);
    assert_non_null(strstr(crt_error_detail(), "nothing works: libno_such_library.so.7"));
    assert_false(library.is_open);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_is_opened_with_those_beside_it_that_it_needs),
        cmocka_unit_test(a_library_that_is_not_there_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
