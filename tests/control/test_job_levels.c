/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs have used of all nodes, from what nodes say. */
#include "runtime/control/tables/job_levels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/resources.h"

#include <cmocka.h>

#define ONE  ((double)CRTI_RESOURCE_ONE)
#define A    ((crti_id_t){1, 1})
#define B    ((crti_id_t){1, 2})
#define X    ((crti_id_t){2, 1})
#define Y    ((crti_id_t){2, 2})
#define TURN (ONE * (double)CRTI_LIMIT(share_turn))

static crti_job_levels_t levels;

static int setup(void **state)
{
    crti_job_levels_init(&levels);
    return 0;
}

static int teardown(void **state)
{
    crti_job_levels_fini(&levels);
    return 0;
}

/* Node says that the job has used so many CPU seconds there, and holds so many CPUs. */
static crti_job_level_t say(crti_id_t node, crti_id_t job, uint64_t weight, double spent,
                            int64_t held, uint64_t now_s)
{
    crti_job_use_t use = {.job = job,
                          .weight = weight,
                          .spent = spent * ONE * CRTI_S,
                          .held = held * CRTI_RESOURCE_ONE,
                          .is_here = true};
    crti_job_level_t level = {0};

    assert_true(crti_job_levels_note(&levels, node, &use, now_s * CRTI_S, &level));
    return level;
}

static void what_is_used_on_all_nodes_adds_up(void **state)
{
    crti_job_level_t level;

    say(A, X, 2, 0, 1, 0);
    say(B, X, 2, 0, 3, 0);
    level = say(A, X, 2, 10, 1, 10);
    assert_true(level.level ==
                (10 + 30) * ONE * CRTI_S / 2); /* B holds three, all the time */
    assert_true(level.spent == 10 * ONE * CRTI_S);
    assert_int_equal(level.elsewhere, 3 * CRTI_RESOURCE_ONE);
    level = say(B, X, 2, 20, 0, 10); /* it had used less than that */
    assert_true(level.level == (10 + 20) * ONE * CRTI_S / 2);
    assert_int_equal(level.elsewhere, CRTI_RESOURCE_ONE);
}

static void who_is_ahead_is_who_has_used_most_of_those_that_hold_something(void **state)
{
    assert_true(crti_job_levels_ahead(&levels, 0) == 0);
    say(A, X, 1, 0, 1, 0);
    say(A, Y, 4, 0, 2, 0);
    say(B, Y, 4, 0, 6, 0);
    assert_int_equal(levels.present, 2);
    assert_true(crti_job_levels_ahead(&levels, 0) == 2 * TURN);
    say(A, X, 1, 1, 0, 1);
    assert_true(crti_job_levels_ahead(&levels, CRTI_S) ==
                22 * TURN); /* X holds nothing any more */
}

static void a_node_that_dies_holds_nothing(void **state)
{
    crti_job_use_t gone = {.job = X};
    crti_job_level_t level;

    say(A, X, 1, 0, 1, 0);
    say(B, X, 1, 0, 3, 0);
    crti_job_levels_forget(&levels, B, CRTI_S);
    level = say(A, X, 1, 1, 1, 1);
    assert_true(level.level == 4 * ONE * CRTI_S);
    assert_int_equal(level.elsewhere, 0);
    assert_false(crti_job_levels_note(&levels, A, &gone, CRTI_S, &level));
    assert_int_equal(levels.present, 0);
    assert_int_equal(levels.parts.count, 0);
}

static void a_job_that_comes_from_nowhere_is_not_far_below_the_others(void **state)
{
    assert_true(say(A, X, 1, 0, 1, 0).level == 0);
    assert_true(say(B, Y, 1, 0, 0, 100).level == 100 * ONE * CRTI_S - TURN);
}

static void a_job_of_one_node_is_where_that_node_says(void **state)
{
    crti_job_use_t use = {.job = X, .weight = 1, .is_alone = true, .is_here = true};
    crti_job_level_t level;

    use.level = 500 * TURN;
    assert_true(crti_job_levels_note(&levels, A, &use, 0, &level));
    assert_true(level.level == 500 * TURN); /* a new head has it from there */
    use.level = 700 * TURN;
    assert_true(crti_job_levels_note(&levels, A, &use, CRTI_S, &level));
    assert_true(level.level == 700 * TURN);
    assert_true(say(B, X, 1, 0, 0, 1).level == 700 * TURN);
    use.level = 900 * TURN;
    assert_true(crti_job_levels_note(&levels, A, &use, CRTI_S, &level));
    assert_true(level.level == 700 * TURN); /* it is on two by now */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_is_used_on_all_nodes_adds_up),
        TEST(who_is_ahead_is_who_has_used_most_of_those_that_hold_something),
        TEST(a_node_that_dies_holds_nothing),
        TEST(a_job_that_comes_from_nowhere_is_not_far_below_the_others),
        TEST(a_job_of_one_node_is_where_that_node_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
