/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a text of JSON is known before it is parsed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/json_shape.h"

static crti_span_t str(const char *text)
{
    return crti_span(text, strlen(text));
}

static void brackets_count_and_nest(void **state)
{
    static const struct {
        const char *text;
        size_t depth, values;
    } cases[] = {{"", 0, 0},
                 {"7", 0, 1},
                 {"[]", 1, 1},
                 {"[[],[[1]]]", 3, 5},
                 {"{\"a\": [true, null, -1.5e3]}", 2, 6},
                 {"[\"[[[\", \"\\\"[\"]", 1, 3},
                 {"]]][", 1, 1},
                 {"[\"no end [", 1, 2}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        crti_json_shape_t shape = crti_json_shape(str(cases[i].text));

        assert_int_equal(shape.depth, cases[i].depth);
        assert_int_equal(shape.values, cases[i].values);
        assert_false(shape.has_zero);
    }
}

static void a_zero_in_a_text_is_seen(void **state)
{
    assert_true(crti_json_shape(str("[\"a\\u0000b\"]")).has_zero);
    assert_true(crti_json_shape(str("{\"\\u0000\":1}")).has_zero);
    assert_true(crti_json_shape(crti_span("[\"a\0b\"]", 7)).has_zero);
    assert_false(crti_json_shape(str("[\"a\\\\u0000b\"]")).has_zero);
    assert_false(crti_json_shape(str("[\"\\u0001\"]")).has_zero);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(brackets_count_and_nest),
                                       cmocka_unit_test(a_zero_in_a_text_is_seen)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
