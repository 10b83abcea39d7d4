/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of cli/sweep.c and cli/sweep_rule.c: combinations, {names}, and when a run is stopped
 * early. */
#include "cli/sweep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void make(sweep_t *sweep, const char *first, const char *second)
{
    const char *const options[] = {first, second, NULL};

    *sweep = (sweep_t){.grace = 1};
    assert_int_equal(crti_sweep_init(sweep, options), CRT_OK);
}

static void the_last_parameter_varies_fastest(void **state)
{
    static const char *const wanted[] = {"a=1, b=x", "a=1, b=y", "a=1, b=z",
                                         "a=2, b=x", "a=2, b=y", "a=2, b=z"};
    char label[64];
    sweep_t sweep;

    make(&sweep, "a=1,2", "b=x,y,z");
    assert_int_equal(sweep.count, 6);
    for (size_t i = 0; i < 6; i++) {
        crti_sweep_label(&sweep, i, label, sizeof(label));
        assert_string_equal(label, wanted[i]);
    }
    crti_sweep_fini(&sweep);
}

static void names_in_braces_are_filled_and_others_refused(void **state)
{
    char *text;
    sweep_t sweep;

    make(&sweep, "a=1,2", "b=x");
    text = crti_sweep_fill(&sweep, 1, "--a={a} {{a} {b}{b}}");
    assert_string_equal(text, "--a=2 {a} xx}");
    free(text);
    assert_null(crti_sweep_fill(&sweep, 0, "{c}"));
    assert_non_null(strstr(crt_error_detail(), "no --sweep gives values to {c}"));
    assert_null(crti_sweep_fill(&sweep, 0, "{a"));
    assert_null(crti_sweep_fill(&sweep, 0, "{"));
    assert_null(crti_sweep_fill(&sweep, 0, "{}"));
    crti_sweep_fini(&sweep);
}

/* Run `i` reaches step `step` with that value. */
static void reach(sweep_t *sweep, size_t i, double step, double value)
{
    crti_sweep_note(&sweep->runs[i], step, value);
}

static void the_median_rule_stops_what_is_worse_than_most(void **state)
{
    sweep_t sweep;

    make(&sweep, "a=1,2,3,4", NULL);
    sweep.rule = SWEEP_MEDIAN;
    sweep.grace = 2;
    for (size_t i = 0; i < 3; i++) {
        reach(&sweep, i, 1, 9);
        reach(&sweep, i, 2, (double)i);
    }
    reach(&sweep, 3, 1, 100);
    assert_false(crti_sweep_should_stop(&sweep, 3)); /* within its grace */
    reach(&sweep, 3, 2, 50);
    assert_true(crti_sweep_should_stop(&sweep, 3));
    assert_false(crti_sweep_should_stop(&sweep, 0));
    assert_false(crti_sweep_should_stop(&sweep, 1)); /* median of 0, 2 and 50 is 2 */
    sweep.larger_is_better = true;
    assert_false(crti_sweep_should_stop(&sweep, 3));
    assert_false(crti_sweep_should_stop(&sweep, 0)); /* its best was 9, at step 1 */
    crti_sweep_fini(&sweep);
}

/* Also one that is seen for the first time when the others have ended. */
static void the_median_rule_judges_a_run_that_is_ahead_of_all_others(void **state)
{
    sweep_t sweep;

    make(&sweep, "a=1,2,3,4,5", NULL);
    sweep.rule = SWEEP_MEDIAN;
    sweep.grace = 2;
    for (size_t i = 0; i < 3; i++) {
        reach(&sweep, i, 1, (double)i);
        reach(&sweep, i, 40, (double)i);
    }
    reach(&sweep, 3, 41, 100);
    assert_true(crti_sweep_should_stop(&sweep, 3));
    reach(&sweep, 4, 41, 100);
    reach(&sweep, 4, 50, 0.5); /* what it has reached behind them counts for it */
    assert_false(crti_sweep_should_stop(&sweep, 4));
    sweep.grace = 41;
    assert_false(
        crti_sweep_should_stop(&sweep, 3)); /* nobody else has passed the grace */
    crti_sweep_fini(&sweep);
}

static void fewer_than_three_others_stop_nobody(void **state)
{
    sweep_t sweep;

    make(&sweep, "a=1,2,3", NULL);
    sweep.rule = SWEEP_MEDIAN;
    for (size_t i = 0; i < 3; i++)
        reach(&sweep, i, 1, (double)i);
    assert_false(crti_sweep_should_stop(&sweep, 2));
    crti_sweep_fini(&sweep);
}

static void asha_lets_the_best_third_of_a_rung_go_on(void **state)
{
    sweep_t sweep;

    make(&sweep, "a=1,2,3,4,5,6", NULL);
    sweep.rule = SWEEP_ASHA;
    reach(&sweep, 0, 1, 5);
    assert_false(crti_sweep_should_stop(&sweep, 0)); /* the first two of a rung go on */
    reach(&sweep, 1, 1, 6);
    assert_false(crti_sweep_should_stop(&sweep, 1));
    reach(&sweep, 2, 1, 7);
    assert_true(crti_sweep_should_stop(&sweep, 2));
    reach(&sweep, 3, 1, 1);
    assert_false(crti_sweep_should_stop(&sweep, 3));
    assert_false(crti_sweep_should_stop(&sweep, 3)); /* a rung is judged once */
    reach(&sweep, 3, 9, 0.5);                        /* two rungs at once */
    assert_false(crti_sweep_should_stop(&sweep, 3));
    assert_int_equal(sweep.runs[3].rung, 3);
    crti_sweep_fini(&sweep);
}

/* ASHA with looks between steps: what a run had at a step that nobody saw is not taken from another
 * one. */
static void a_run_that_is_better_at_each_step_goes_on(void **state)
{
    sweep_t sweep;

    make(&sweep, "a=1,2,3", NULL);
    sweep.rule = SWEEP_ASHA;
    sweep.larger_is_better = true;
    sweep.grace = 3;
    for (size_t i = 0; i < 2; i++) { /* seen at step 4 first: what it had at 3 is less */
        reach(&sweep, i, 4, 4 * (double)(i + 1));
        assert_false(crti_sweep_should_stop(&sweep, i));
    }
    reach(&sweep, 2, 1, 3); /* seen before and behind it */
    reach(&sweep, 2, 5, 15);
    assert_false(crti_sweep_should_stop(&sweep, 2));
    assert_int_equal(sweep.runs[2].rung, 1);
    crti_sweep_fini(&sweep);
}

static void what_was_seen_at_the_step_itself_is_compared(void **state)
{
    sweep_t sweep;

    make(&sweep, "a=1,2,3", NULL);
    sweep.rule = SWEEP_ASHA;
    sweep.grace = 3;
    for (size_t i = 0; i < 3; i++) {
        for (int step = 1; step <= 3; step++)
            reach(&sweep, i, step, 10 * (double)i - step);
        reach(&sweep, i, 4, -9); /* what it has behind the rung is no help */
        assert_int_equal(crti_sweep_should_stop(&sweep, i), i == 2);
    }
    crti_sweep_fini(&sweep);
}

/* ---------------------------------------------------------------- values and their steps */

static void assert_history(const sweep_run_t *run, const sweep_point_t *wanted,
                           size_t count)
{
    assert_int_equal(run->points, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(run->history[i].step == wanted[i].step);
        assert_true(run->history[i].value == wanted[i].value);
    }
}

static void a_value_belongs_to_the_step_that_was_told_beside_it(void **state)
{
    static const sweep_record_t losses[] = {{0, 1000, 9}, {1, 2000, 8}, {2, 3000, 7}};
    static const sweep_record_t behind[] = {{0, 1010, 1}, {1, 2010, 2}};
    static const sweep_record_t before[] = {{0, 990, 1}, {1, 1990, 2}, {2, 2990, 3}};
    static const sweep_record_t later[] = {{5, 2005, 20}};
    sweep_run_t run = {0};

    crti_sweep_note_records(&run, losses, 3, behind, 2, false);
    assert_history(&run, (sweep_point_t[]){{1, 9}, {2, 8}},
                   2); /* step 3 may still be told */
    run.points = 0;
    crti_sweep_note_records(&run, losses, 3, before, 3, true);
    assert_history(&run, (sweep_point_t[]){{1, 9}, {2, 8}, {3, 7}}, 3);
    run.points = 0;
    crti_sweep_note_records(&run, losses, 3, later, 1, false);
    assert_int_equal(run.points, 0); /* the steps before are forgotten */
    crti_sweep_note_records(&run, losses, 3, NULL, 0, false);
    assert_history(&run, (sweep_point_t[]){{1, 9}, {2, 8}, {3, 7}}, 3);
    free(run.history);
}

static void values_and_steps_without_a_pause_are_counted(void **state)
{
    static const sweep_record_t losses[] = {{4, 1000, 9}, {5, 1100, 8}, {6, 1200, 7}};
    static const sweep_record_t steps[] = {{4, 1050, 5}, {5, 1150, 6}, {6, 1250, 7}};
    sweep_run_t run = {0};

    crti_sweep_note_records(&run, losses, 3, steps, 3, true);
    assert_history(&run, (sweep_point_t[]){{5, 9}, {6, 8}, {7, 7}}, 3);
    free(run.history);
}

/* ---------------------------------------------------------------- a metric that nobody reports */

static void a_metric_that_nobody_reports_is_found_out(void **state)
{
    json_t *rows = json_pack("[{s:s, s:s, s:s, s:f}]", "job_id", "j", "name", "loss",
                             "kind", "gauge", "value", 0.5);
    char text[64];
    sweep_t sweep;

    make(&sweep, "a=1,2", NULL);
    strcpy(sweep.found, "los");
    assert_int_equal(crti_sweep_lacks_metric(&sweep), 2); /* nothing is known yet */
    strcpy(sweep.runs[1].job, "j");
    assert_false(crti_sweep_take_metrics(&sweep, rows));
    assert_int_equal(crti_sweep_lacks_metric(&sweep), 1);
    crti_sweep_reported(&sweep, text, sizeof(text));
    assert_string_equal(text, "loss");
    strcpy(sweep.found, "loss");
    assert_true(crti_sweep_take_metrics(&sweep, rows));
    assert_int_equal(crti_sweep_lacks_metric(&sweep), 2);
    json_decref(rows);
    crti_sweep_fini(&sweep);
}

static void what_is_seen_twice_counts_once(void **state)
{
    sweep_run_t run = {0};

    crti_sweep_note(&run, 1, 5);
    crti_sweep_note(&run, 1, 4);
    crti_sweep_note(&run, 0, 3);
    assert_int_equal(run.points, 1);
    assert_true(run.history[0].value == 4);
    for (int i = 2; i < 100; i++)
        crti_sweep_note(&run, i, i);
    assert_int_equal(run.points, 99);
    free(run.history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_parameter_varies_fastest),
        cmocka_unit_test(names_in_braces_are_filled_and_others_refused),
        cmocka_unit_test(the_median_rule_stops_what_is_worse_than_most),
        cmocka_unit_test(the_median_rule_judges_a_run_that_is_ahead_of_all_others),
        cmocka_unit_test(fewer_than_three_others_stop_nobody),
        cmocka_unit_test(asha_lets_the_best_third_of_a_rung_go_on),
        cmocka_unit_test(a_run_that_is_better_at_each_step_goes_on),
        cmocka_unit_test(what_was_seen_at_the_step_itself_is_compared),
        cmocka_unit_test(a_value_belongs_to_the_step_that_was_told_beside_it),
        cmocka_unit_test(values_and_steps_without_a_pause_are_counted),
        cmocka_unit_test(a_metric_that_nobody_reports_is_found_out),
        cmocka_unit_test(what_is_seen_twice_counts_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
