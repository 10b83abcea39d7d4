/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that several sources say are shown once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/base/line_fold.h"

#define SECOND UINT64_C(1000000000)

typedef struct screen {
    crti_line_fold_t fold;
    char text[1 << 16];
    size_t lines;
} screen_t;

static void show(void *user, bool is_stderr, crti_span_t source, crti_span_t line,
                 size_t repeated)
{
    screen_t *screen = user;
    size_t used = strlen(screen->text);

    screen->lines++;
    if (used + source.size + line.size + 40 < sizeof(screen->text))
        snprintf(screen->text + used, sizeof(screen->text) - used, "%s%.*s:%.*s*%zu\n",
                 is_stderr ? "!" : "", (int)source.size, (const char *)source.data,
                 (int)line.size, (const char *)line.data, repeated);
}

static int begin(void **state)
{
    static screen_t screen;

    screen = (screen_t){.lines = 0};
    crti_line_fold_init(&screen.fold, show, &screen);
    *state = &screen;
    return 0;
}

static int end(void **state)
{
    crti_line_fold_fini(&((screen_t *)*state)->fold);
    return 0;
}

static void say(screen_t *screen, const char *source, const char *line, uint64_t at)
{
    crti_line_fold_add(&screen->fold, false, crti_span(source, strlen(source)),
                       crti_span(line, strlen(line)), at);
}

static void what_several_say_is_shown_once_with_its_number(void **state)
{
    screen_t *screen = *state;

    say(screen, "A", "x", 1 * SECOND);
    say(screen, "B", "x", 2 * SECOND);
    say(screen, "A", "x", 3 * SECOND);
    say(screen, "C", "x", 4 * SECOND);
    assert_string_equal(screen->text, "A:x*0\n");
    assert_int_equal(crti_line_fold_tick(&screen->fold, 5 * SECOND), 6 * SECOND);
    assert_int_equal(crti_line_fold_tick(&screen->fold, 6 * SECOND), UINT64_MAX);
    assert_string_equal(screen->text, "A:x*0\nC:x*3\n");
    say(screen, "B", "x", 6 * SECOND);
    assert_string_equal(screen->text, "A:x*0\nC:x*3\nB:x*0\n");
}

static void a_source_that_repeats_itself_is_not_folded(void **state)
{
    screen_t *screen = *state;

    say(screen, "A", "x", 1 * SECOND);
    say(screen, "A", "x", 2 * SECOND);
    say(screen, "A", "y", 2 * SECOND);
    assert_string_equal(screen->text, "A:x*0\nA:x*0\nA:y*0\n");
    crti_line_fold_tick(&screen->fold, 100 * SECOND);
    assert_int_equal(screen->lines, 3);
}

static void streams_are_told_apart(void **state)
{
    screen_t *screen = *state;

    say(screen, "A", "x", 1 * SECOND);
    crti_line_fold_add(&screen->fold, true, crti_span("B", 1), crti_span("x", 1),
                       1 * SECOND);
    assert_string_equal(screen->text, "A:x*0\n!B:x*0\n");
    crti_line_fold_add(&screen->fold, true, crti_span("C", 1), crti_span("x", 1),
                       2 * SECOND);
    crti_line_fold_tick(&screen->fold, 6 * SECOND);
    assert_string_equal(screen->text, "A:x*0\n!B:x*0\n!C:x*1\n");
}

static void a_line_that_comes_late_ends_what_is_over(void **state)
{
    screen_t *screen = *state;

    say(screen, "A", "x", 1 * SECOND);
    say(screen, "B", "x", 2 * SECOND);
    say(screen, "B", "y", 7 * SECOND);
    assert_string_equal(screen->text, "A:x*0\nB:x*1\nB:y*0\n");
}

static void the_end_shows_what_is_held(void **state)
{
    screen_t *screen = *state;

    say(screen, "A", "x", 1);
    say(screen, "B", "x", 2);
    crti_line_fold_fini(&screen->fold);
    assert_string_equal(screen->text, "A:x*0\nB:x*1\n");
    crti_line_fold_init(&screen->fold, show, screen);
}

static void empty_long_and_odd_lines_are_shown_as_they_come(void **state)
{
    screen_t *screen = *state;
    char line[CRTI_FOLD_BYTES + 1];

    memset(line, 'x', sizeof(line));
    for (const char *source = "AB"; *source; source++) {
        crti_line_fold_add(&screen->fold, false, crti_span(source, 1),
                           crti_span(line, sizeof(line)), 1);
        crti_line_fold_add(&screen->fold, false, crti_span(source, 1),
                           crti_span("a\0b", 3), 1);
        crti_line_fold_add(&screen->fold, false, crti_span(source, 1), crti_span("", 0),
                           1);
    }
    assert_int_equal(screen->lines, 6);
    for (const char *source = "AB"; *source; source++)
        crti_line_fold_add(&screen->fold, false, crti_span(source, 1),
                           crti_span(line, CRTI_FOLD_BYTES), 1);
    assert_int_equal(screen->lines, 7);
}

static void there_are_only_so_many_texts_at_a_time(void **state)
{
    screen_t *screen = *state;

    say(screen, "A", "first", 1);
    say(screen, "B", "first", 1);
    for (int i = 0; i < CRTI_FOLD_LINES; i++) {
        char line[24];

        snprintf(line, sizeof(line), "%d", i);
        say(screen, "A", line, 2);
    }
    assert_int_equal(screen->fold.by_text.count, CRTI_FOLD_LINES);
    assert_int_equal(screen->lines, 1 + 1 + CRTI_FOLD_LINES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_several_say_is_shown_once_with_its_number),
        TEST(a_source_that_repeats_itself_is_not_folded),
        TEST(streams_are_told_apart),
        TEST(a_line_that_comes_late_ends_what_is_over),
        TEST(the_end_shows_what_is_held),
        TEST(empty_long_and_odd_lines_are_shown_as_they_come),
        TEST(there_are_only_so_many_texts_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
