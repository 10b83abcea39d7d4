/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void random_ids_differ_and_are_never_zero(void **state)
{
    crti_id_t before = crti_id_random();

    for (int i = 0; i < 1000; i++) {
        crti_id_t id = crti_id_random();

        assert_false(crti_id_is_zero(id));
        assert_false(crti_id_equal(id, before));
        before = id;
    }
}

static void hex_is_32_lower_case_digits_and_reads_back(void **state)
{
    const crti_id_t id = {0x0123456789abcdefull, 0x00000000000000ffull};
    char text[CRTI_ID_HEX];
    crti_id_t back;

    assert_string_equal(crti_id_hex(id, text), "0123456789abcdef00000000000000ff");
    assert_true(crti_id_parse(text, &back));
    assert_true(crti_id_equal(id, back));
    assert_true(crti_id_parse("0123456789ABCDEF00000000000000FF", &back));
    assert_true(crti_id_equal(id, back));
}

static void what_is_not_32_hex_digits_is_refused_and_changes_nothing(void **state)
{
    const char *const wrong[] = {
        "",
        "0",
        "0123456789abcdef00000000000000f",
        "0123456789abcdef00000000000000ff0",
        "0123456789abcdef00000000000000fg",
        " 123456789abcdef00000000000000ff",
        "0x23456789abcdef00000000000000ff",
        "0123456789abcdef-0000000000000ff",
    };
    crti_id_t id = {1, 2};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_false(crti_id_parse(wrong[i], &id));
        assert_true(crti_id_equal(id, (crti_id_t){1, 2}));
    }
}

static void objects_are_equal_when_owner_and_number_are(void **state)
{
    crti_object_id_t a = {{1, 2}, 3}, b = a;

    assert_true(crti_object_id_equal(a, b));
    b.number = 4;
    assert_false(crti_object_id_equal(a, b));
    b = a;
    b.owner.low = 0;
    assert_false(crti_object_id_equal(a, b));
}

static void the_id_of_a_process_names_its_node(void **state)
{
    crti_id_t node = crti_id_random(), other = node;
    crti_id_t a = crti_id_of_node(node), b = crti_id_of_node(node);

    other.high ^= UINT64_C(1) << 16;
    assert_false(crti_id_equal(a, b));
    assert_true(crti_id_is_of_node(a, node) && crti_id_is_of_node(b, node));
    assert_false(crti_id_is_of_node(a, other));
    assert_false(crti_id_is_of_node(crti_id_of_node(other), node));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ids_differ_and_are_never_zero),
        cmocka_unit_test(hex_is_32_lower_case_digits_and_reads_back),
        cmocka_unit_test(what_is_not_32_hex_digits_is_refused_and_changes_nothing),
        cmocka_unit_test(objects_are_equal_when_owner_and_number_are),
        cmocka_unit_test(the_id_of_a_process_names_its_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
