/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/whole_options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct option known[] = {{"head", no_argument, NULL, 0},
                                      {"resources", required_argument, NULL, 'r'},
                                      {"head-dir", required_argument, NULL, 'd'},
                                      {0}};

/* The codes of a command line, one letter each: 0 is h. */
static const char *codes(int argc, char **argv, int *index)
{
    static char text[16];
    size_t used = 0;
    int code;

    optind = 0;
    opterr = 0;
    while ((code = crti_whole_option(argc, argv, "r:", known, index)) != -1)
        text[used++] = (char)(code ? code : 'h');
    text[used] = '\0';
    return text;
}

#define CODES(index, ...)                                                                \
    codes((int)(sizeof((char *[]){"x", __VA_ARGS__}) / sizeof(char *)),                  \
          (char *[]){"x", __VA_ARGS__, NULL}, index)

static void options_that_are_written_whole_are_taken(void **state)
{
    int index;

    assert_string_equal(CODES(&index, "--head", "--resources", "a", "--resources=b"),
                        "hrr");
    assert_string_equal(CODES(&index, "operand", "--head-dir", "d", "other", "-r", "x"),
                        "dr");
    assert_string_equal(CODES(&index, "--resources", "--head"), "r");
}

static void abbreviations_are_refused_and_named(void **state)
{
    int index;

    assert_string_equal(CODES(&index, "--res", "a"), "?");
    assert_string_equal(CODES(&index, "--resource=a"), "?");
    assert_string_equal(CODES(&index, "--head-d", "--head"), "?");
    assert_string_equal(CODES(&index, "operand", "--resource", "a", "--head"), "?h");
    assert_string_equal(CODES(&index, "--he"), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_that_are_written_whole_are_taken),
        cmocka_unit_test(abbreviations_are_refused_and_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
