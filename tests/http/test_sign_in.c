/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/sign_in.c: codes that are good once, for a minute. */
#include "runtime/http/sign_in.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/clock.h"

#define NOW (1000 * CRTI_S)

static const crti_token_t owner = {.generation = 7, .end = 4000};

static void a_code_is_good_once_and_brings_its_owners_token(void **state)
{
    crti_sign_in_t s = {0};
    char code[CRTI_SIGN_IN_TEXT], other[CRTI_SIGN_IN_TEXT];
    crti_token_t token = {0};

    crti_sign_in_make(&s, NOW, &owner, code);
    crti_sign_in_make(&s, NOW, &owner, other);
    assert_string_not_equal(code, other);
    assert_true(crti_sign_in_take(&s, NOW + 1, code, &token));
    assert_int_equal(token.generation, 7);
    assert_int_equal(token.end, 4000);
    assert_false(crti_sign_in_take(&s, NOW + 1, code, &token));
    assert_true(crti_sign_in_take(&s, NOW + 1, other, &token));
}

static void a_code_ends_after_a_minute(void **state)
{
    crti_sign_in_t s = {0};
    char code[CRTI_SIGN_IN_TEXT];
    crti_token_t token;

    crti_sign_in_make(&s, NOW, &owner, code);
    assert_false(crti_sign_in_take(&s, NOW + 60 * CRTI_S, code, &token));
    assert_false(crti_sign_in_take(&s, NOW, code, &token)); /* it was shown */
    crti_sign_in_make(&s, NOW, &owner, code);
    assert_true(crti_sign_in_take(&s, NOW + 60 * CRTI_S - 1, code, &token));
}

static void what_is_no_code_is_refused(void **state)
{
    static const char *const wrong[] = {"", "0", "00000000000000000000000000000000",
                                        "000000000000000000000000000000000"};
    crti_sign_in_t s = {0};
    char code[CRTI_SIGN_IN_TEXT];
    crti_token_t token;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(crti_sign_in_take(&s, NOW, wrong[i], &token));
    crti_sign_in_make(&s, NOW, &owner, code);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(crti_sign_in_take(&s, NOW, wrong[i], &token));
}

static void one_code_too_many_takes_the_place_of_the_oldest(void **state)
{
    crti_sign_in_t s = {0};
    char codes[CRTI_SIGN_IN_CODES + 1][CRTI_SIGN_IN_TEXT];
    crti_token_t token;

    for (int i = 0; i <= CRTI_SIGN_IN_CODES; i++)
        crti_sign_in_make(&s, NOW, &owner, codes[i]);
    assert_false(crti_sign_in_take(&s, NOW, codes[0], &token));
    for (int i = 1; i <= CRTI_SIGN_IN_CODES; i++)
        assert_true(crti_sign_in_take(&s, NOW, codes[i], &token));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_code_is_good_once_and_brings_its_owners_token),
        cmocka_unit_test(a_code_ends_after_a_minute),
        cmocka_unit_test(what_is_no_code_is_refused),
        cmocka_unit_test(one_code_too_many_takes_the_place_of_the_oldest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
