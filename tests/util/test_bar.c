/* SPDX-License-Identifier: Apache-2.0 */
/* What a progress looks like. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/util/bar.h"

static char text[256];

static const char *draw(const char *label, int64_t done, int64_t total, double seconds,
                        size_t width)
{
    crti_bar_t bar = {label, done, total, seconds};

    return crti_bar_draw(&bar, width, text, sizeof(text));
}

static void a_bar_fills_with_the_steps_and_fits_the_width(void **state)
{
    assert_string_equal(draw("images", 400, 1000, 2, 50),
                        "images [#####         ]  40% 400/1000 200.0/s 0:03");
    assert_int_equal(strlen(text), 50);
    assert_string_equal(draw("images", 1000, 1000, 65, 51),
                        "images [###############] 100% 1000/1000 15.4/s 1:05");
}

static void a_narrow_terminal_gets_no_bar_and_no_second_line(void **state)
{
    assert_string_equal(draw("images", 400, 1000, 2, 38),
                        "images  40% 400/1000 200.0/s 0:03");
    assert_string_equal(draw("images", 400, 1000, 2, 10), "images  40");
    assert_string_equal(draw("images", 400, 1000, 2, 1), "i");
}

static void a_wide_terminal_and_a_small_buffer_are_within_bounds(void **state)
{
    crti_bar_t bar = {"images", 1, 2, 1};
    char small[20];

    assert_true(strlen(draw("images", 400, 1000, 2, 100000)) < 120);
    assert_int_equal(strlen(crti_bar_draw(&bar, 100000, small, sizeof(small))), 19);
}

static void more_steps_than_there_should_be_are_all(void **state)
{
    assert_int_equal(crti_bar_percent(&(crti_bar_t){"x", 12, 10, 1}), 100);
    assert_int_equal(crti_bar_percent(&(crti_bar_t){"x", -5, 10, 1}), 0);
    assert_int_equal(crti_bar_percent(&(crti_bar_t){"x", 999, 1000, 1}), 99);
    assert_int_equal(
        crti_bar_percent(&(crti_bar_t){"x", INT64_MAX - 1, INT64_MAX, 1}) / 10, 10);
}

static void without_a_total_steps_are_counted(void **state)
{
    crti_bar_t bar = {"images", 7, 0, 2};

    assert_string_equal(draw("images", 7, 0, 2, 80), "images 7 3.5/s 0:02");
    assert_string_equal(crti_bar_line(&bar, text, sizeof(text)), "images: 7");
}

static void long_times_have_hours(void **state)
{
    assert_non_null(strstr(draw("x", 1, 3, 7322, 80), " 4:04:04"));
}

static void a_line_says_steps_and_percent(void **state)
{
    crti_bar_t bar = {"images", 400, 1000, 2};

    assert_string_equal(crti_bar_line(&bar, text, sizeof(text)),
                        "images: 400 of 1000 (40 %)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bar_fills_with_the_steps_and_fits_the_width),
        cmocka_unit_test(a_narrow_terminal_gets_no_bar_and_no_second_line),
        cmocka_unit_test(a_wide_terminal_and_a_small_buffer_are_within_bounds),
        cmocka_unit_test(more_steps_than_there_should_be_are_all),
        cmocka_unit_test(without_a_total_steps_are_counted),
        cmocka_unit_test(long_times_have_hours),
        cmocka_unit_test(a_line_says_steps_and_percent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
