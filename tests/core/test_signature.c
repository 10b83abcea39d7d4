/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/core/values/signature.h"
#include "runtime/core/values/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const crti_place_t place = {"Counter", "add", 0};

static crti_signature_t parse(const char *text)
{
    crti_signature_t s;

    assert_int_equal(crti_signature_parse(text, &s), CRT_OK);
    return s;
}

static crt_status_t check(const char *text, size_t index, crt_kind_t kind, bool *is_ref)
{
    crti_signature_t s = parse(text);
    const crt_arg_t arg = {.kind = kind};

    return crti_signature_check(&s, index, crti_arg_kind(&arg), &place, is_ref);
}

static void every_kind_is_understood_and_blanks_do_not_matter(void **state)
{
    crti_signature_t s =
        parse(" bool,int , float,string,bytes,tensor,actor,list,map,ref,any... ");

    assert_int_equal(s.count, 11);
    assert_true(s.is_open);
    assert_int_equal(parse("").count, 0);
    assert_true(parse(NULL).is_unchecked);
}

static void a_wrong_signature_is_named(void **state)
{
    static const char *const wrong[] = {"integer", "int,", "int int", "int...,int",
                                        "int,,int"};
    crti_signature_t s;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(crti_signature_parse(wrong[i], &s), CRT_ERR_INVALID);
}

static void the_number_of_arguments_is_checked(void **state)
{
    crti_signature_t two = parse("int, int"), open = parse("int, tensor...");

    assert_int_equal(crti_signature_count(&two, 2, &place), CRT_OK);
    assert_int_equal(crti_signature_count(&two, 3, &place), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(), "Counter.add takes 2 arguments, 3 given");
    assert_int_equal(crti_signature_count(&open, 1, &place), CRT_OK);
    assert_int_equal(crti_signature_count(&open, 9, &place), CRT_OK);
    assert_int_equal(crti_signature_count(&open, 0, &place), CRT_ERR_INVALID);
}

static void the_kind_is_checked_and_a_ref_may_stand_for_any(void **state)
{
    bool is_ref;

    assert_int_equal(check("float", 0, CRT_KIND_INT, &is_ref), CRT_OK);
    assert_int_equal(check("tensor", 0, CRT_KIND_REF, &is_ref), CRT_OK);
    assert_false(is_ref);
    assert_int_equal(check("ref", 0, CRT_KIND_REF, &is_ref), CRT_OK);
    assert_true(is_ref);
    assert_int_equal(check("ref", 0, CRT_KIND_INT, &is_ref), CRT_ERR_INVALID);
    assert_int_equal(check("tensor...", 5, CRT_KIND_STRING, &is_ref), CRT_ERR_INVALID);
    assert_string_equal(crt_error_detail(),
                        "Counter.add: argument 6 is of kind string, tensor is wanted");
    assert_int_equal(check(NULL, 5, CRT_KIND_STRING, &is_ref), CRT_OK);
    assert_int_equal(check("tensor", 0, CRT_KIND_OBJECT, &is_ref), CRT_OK);
    assert_int_equal(check("any", 0, CRT_KIND_OBJECT, &is_ref), CRT_OK);
    assert_int_equal(check("int", 0, CRT_KIND_OBJECT, &is_ref), CRT_ERR_INVALID);
    assert_int_equal(check("ref", 0, CRT_KIND_OBJECT, &is_ref), CRT_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_is_understood_and_blanks_do_not_matter),
        cmocka_unit_test(a_wrong_signature_is_named),
        cmocka_unit_test(the_number_of_arguments_is_checked),
        cmocka_unit_test(the_kind_is_checked_and_a_ref_may_stand_for_any),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
