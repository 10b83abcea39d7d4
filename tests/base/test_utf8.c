/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of UTF-8: whole, cut and wrong ones. */
#include "runtime/base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int length_of(const char *text)
{
    return crti_utf8_length((const unsigned char *)text, strlen(text));
}

static void whole_characters_have_one_to_four_bytes(void **state)
{
    assert_int_equal(length_of("a"), 1);
    assert_int_equal(length_of("\xc2\x80"), 2);
    assert_int_equal(length_of("\xe2\x82\xac"), 3);
    assert_int_equal(length_of("\xed\x9f\xbf"), 3);
    assert_int_equal(length_of("\xf0\x9f\x98\x80"), 4);
    assert_int_equal(length_of("\xf4\x8f\xbf\xbf"), 4);
}

static void a_cut_character_may_become_one(void **state)
{
    assert_int_equal(length_of("\xc3"), -1);
    assert_int_equal(length_of("\xe2\x82"), -1);
    assert_int_equal(length_of("\xf0\x9f\x98"), -1);
}

static void overlong_surrogate_and_stray_bytes_are_none(void **state)
{
    static const char *const texts[] = {
        "\x80",         "\xbf",         "\xc0\xaf",         "\xc1\xbf",
        "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\xaf", "\xf4\x90\x80\x80",
        "\xf8",         "\xff",         "\xe2(\xa1"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_int_equal(length_of(texts[i]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_characters_have_one_to_four_bytes),
        cmocka_unit_test(a_cut_character_may_become_one),
        cmocka_unit_test(overlong_surrogate_and_stray_bytes_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
