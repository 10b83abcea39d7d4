/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/core/calls/attempt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static crti_attempt_t in(crti_attempt_state_t state)
{
    return (crti_attempt_t){.state = state};
}

static void nothing_follows_the_end_and_all_lists_are_left_by_way_of_made(void **state)
{
    for (unsigned i = 0; i < CRTI_ATTEMPT_STATES; i++) {
        assert_false(crti_attempt_may_follow(CRTI_ATTEMPT_ENDED, i));
        assert_int_equal(crti_attempt_may_follow(i, CRTI_ATTEMPT_ENDED),
                         i == CRTI_ATTEMPT_MADE);
        if (i != CRTI_ATTEMPT_MADE && i != CRTI_ATTEMPT_ENDED)
            assert_true(crti_attempt_may_follow(i, CRTI_ATTEMPT_MADE));
    }
    assert_false(crti_attempt_may_follow(CRTI_ATTEMPT_ARGUMENTS, CRTI_ATTEMPT_SENT));
    assert_false(crti_attempt_may_follow(CRTI_ATTEMPT_SUSPECT, CRTI_ATTEMPT_SENT));
}

static void a_task_that_was_not_handed_over_goes_to_another_worker(void **state)
{
    crti_attempt_t attempt = in(CRTI_ATTEMPT_SENT);
    crti_attempt_loss_t loss = {.is_task = true, .has_record = true};

    assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_QUEUE);
    assert_false(attempt.may_have_run);
    loss.may_have_begun = loss.ran_no_call = true;
    assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_QUEUE);
}

static void
a_task_that_may_have_run_is_repeated_as_often_as_the_program_says(void **state)
{
    crti_attempt_t attempt = in(CRTI_ATTEMPT_SENT);
    crti_attempt_loss_t loss = {
        .is_task = true, .has_record = true, .may_have_begun = true, .max_retries = 2};

    for (int i = 0; i < 2; i++) {
        assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_REPEAT);
        crti_attempt_repeat(&attempt);
        assert_false(attempt.may_have_run);
    }
    assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_END);
    loss.max_retries = -1;
    assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_REPEAT);
}

static void a_task_on_a_process_that_lives_is_not_repeated(void **state)
{
    crti_attempt_t attempt = in(CRTI_ATTEMPT_SENT);
    const crti_attempt_loss_t loss = {.is_task = true,
                                      .has_record = true,
                                      .may_have_begun = true,
                                      .is_alive = true,
                                      .max_retries = -1};

    assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_END);
    assert_true(attempt.may_have_run);
}

static void a_method_that_did_not_run_follows_its_actor(void **state)
{
    crti_attempt_t attempt = in(CRTI_ATTEMPT_SENT);
    crti_attempt_loss_t loss = {.has_record = true,
                                .may_have_begun = true,
                                .ran_no_call = true,
                                .is_suspect = true};

    assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_QUEUE);
    loss.is_actor_gone = true;
    loss.is_suspect = false;
    assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_END);
    /* It did not leave for a place that was only heard of. */
    attempt.on_unconfirmed = true;
    loss = (crti_attempt_loss_t){.has_record = true, .may_be_placed = true};
    assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_QUEUE);
    loss.has_record = false; /* it was not kept */
    assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_END);
}

static void a_method_that_may_have_run_waits_for_what_the_head_says(void **state)
{
    crti_attempt_t attempt = in(CRTI_ATTEMPT_SENT);
    const crti_attempt_loss_t loss = {.has_record = true,
                                      .may_have_begun = true,
                                      .may_be_placed = true,
                                      .is_suspect = true};

    assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_SUSPECT);
    crti_attempt_take_out(&attempt);
    crti_attempt_suspect(&attempt);
    assert_int_equal(crti_attempt_settled(&attempt, true, 0), CRTI_ATTEMPT_DO_END);
    assert_int_equal(crti_attempt_settled(&attempt, true, 1), CRTI_ATTEMPT_DO_REPEAT);
    assert_int_equal(crti_attempt_settled(&attempt, false, 1), CRTI_ATTEMPT_DO_END);
    attempt.may_have_run = false;
    assert_int_equal(crti_attempt_settled(&attempt, true, 0), CRTI_ATTEMPT_DO_QUEUE);
}

static void what_is_cancelled_is_neither_repeated_nor_moved(void **state)
{
    const crti_attempt_loss_t loss = {
        .is_task = true, .has_record = true, .may_have_begun = true, .max_retries = -1};
    crti_attempt_t attempt = in(CRTI_ATTEMPT_SENT);

    assert_int_equal(crti_attempt_cancelled(&attempt, false), CRTI_ATTEMPT_DO_ASK);
    assert_int_equal(crti_attempt_cancelled(&attempt, false), CRTI_ATTEMPT_DO_NOTHING);
    assert_int_equal(crti_attempt_cancelled(&attempt, true), CRTI_ATTEMPT_DO_ASK);
    assert_int_equal(crti_attempt_cancelled(&attempt, true), CRTI_ATTEMPT_DO_NOTHING);
    assert_int_equal(crti_attempt_cancelled(&attempt, false), CRTI_ATTEMPT_DO_NOTHING);
    assert_int_equal(attempt.cancel, CRTI_ATTEMPT_FORCED);
    assert_int_equal(crti_attempt_lost(&attempt, &loss), CRTI_ATTEMPT_DO_END);
    assert_int_equal(crti_attempt_answered(&attempt, true, true, false, -1),
                     CRTI_ATTEMPT_DO_END_CANCELLED);
    assert_int_equal(crti_attempt_answered(&attempt, true, false, true, -1),
                     CRTI_ATTEMPT_DO_END);
}

static void what_has_not_begun_ends_at_once_when_it_is_cancelled_or_expires(void **state)
{
    static const crti_attempt_state_t waiting[] = {
        CRTI_ATTEMPT_ARGUMENTS, CRTI_ATTEMPT_QUEUED, CRTI_ATTEMPT_SUSPECT};

    for (size_t i = 0; i < sizeof(waiting) / sizeof(waiting[0]); i++) {
        crti_attempt_t attempt = in(waiting[i]);

        assert_int_equal(crti_attempt_cancelled(&attempt, true), CRTI_ATTEMPT_DO_END);
        assert_int_equal(crti_attempt_expired(&attempt), CRTI_ATTEMPT_DO_END);
    }
}

static void what_runs_fails_by_its_timeout_once_and_is_not_repeated(void **state)
{
    static const crti_attempt_state_t runs[] = {CRTI_ATTEMPT_SENT, CRTI_ATTEMPT_INLINE};

    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        crti_attempt_t attempt = in(runs[i]);

        assert_int_equal(crti_attempt_expired(&attempt), CRTI_ATTEMPT_DO_EXPIRE);
        assert_true(attempt.is_expired);
        assert_int_equal(crti_attempt_answered(&attempt, true, false, true, -1),
                         CRTI_ATTEMPT_DO_END);
    }
}

static void a_call_that_is_given_back_goes_on_if_it_is_a_task_in_flight(void **state)
{
    const crti_attempt_t sent = in(CRTI_ATTEMPT_SENT), queued = in(CRTI_ATTEMPT_QUEUED);
    crti_attempt_t awaiting = in(CRTI_ATTEMPT_INLINE);

    assert_int_equal(crti_attempt_answered(&sent, true, true, false, 0),
                     CRTI_ATTEMPT_DO_QUEUE);
    assert_int_equal(crti_attempt_answered(&sent, false, true, false, 0),
                     CRTI_ATTEMPT_DO_NOTHING);
    assert_int_equal(crti_attempt_answered(&queued, true, true, false, 0),
                     CRTI_ATTEMPT_DO_NOTHING);
    assert_int_equal(crti_attempt_answered(&awaiting, true, true, false, 0),
                     CRTI_ATTEMPT_DO_QUEUE);
    assert_int_equal(crti_attempt_cancelled(&awaiting, false), CRTI_ATTEMPT_DO_INTERRUPT);
    assert_int_equal(crti_attempt_answered(&awaiting, true, true, false, 0),
                     CRTI_ATTEMPT_DO_END_CANCELLED);
}

/* ------------------------------------------------------------------ any order of events */

/* What a call does in the world: a process runs it when it is handed over. */
typedef struct world {
    crti_attempt_t attempt;
    bool is_task, was_handed;
    int64_t max_retries, begun; /* how often a process may have begun it */
    unsigned ends;
    uint64_t random;
} world_t;

static uint64_t draw(world_t *w, uint64_t below)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random % below;
}

static void hand_over(world_t *w)
{
    crti_attempt_send(&w->attempt, draw(w, 2));
    w->was_handed = draw(w, 2);
    w->begun += w->was_handed;
}

static void take_out(world_t *w)
{
    if (w->attempt.state != CRTI_ATTEMPT_MADE)
        crti_attempt_take_out(&w->attempt);
}

static void act(world_t *w, crti_attempt_action_t action)
{
    switch (action) {
    case CRTI_ATTEMPT_DO_END:
    case CRTI_ATTEMPT_DO_END_CANCELLED:
        take_out(w);
        crti_attempt_end(&w->attempt);
        w->ends++;
        break;
    case CRTI_ATTEMPT_DO_REPEAT: crti_attempt_repeat(&w->attempt); /* fallthrough */
    case CRTI_ATTEMPT_DO_QUEUE:
        take_out(w);
        crti_attempt_queue(&w->attempt);
        break;
    case CRTI_ATTEMPT_DO_SUSPECT:
        take_out(w);
        crti_attempt_suspect(&w->attempt);
        break;
    default: break;
    }
}

static void lose(world_t *w)
{
    bool ran_no_call = !w->was_handed && draw(w, 2);
    const crti_attempt_loss_t loss = {.is_task = w->is_task,
                                      .may_have_begun = w->was_handed,
                                      .ran_no_call = ran_no_call,
                                      .is_alive = draw(w, 4) == 0,
                                      .has_record = true,
                                      .is_actor_gone = draw(w, 4) == 0,
                                      .may_be_placed = draw(w, 2),
                                      .is_suspect = draw(w, 2),
                                      .max_retries = w->max_retries};

    act(w, crti_attempt_lost(&w->attempt, &loss));
}

static void step(world_t *w)
{
    switch (w->attempt.state) {
    case CRTI_ATTEMPT_MADE:
        if (draw(w, 2))
            crti_attempt_await(&w->attempt);
        else
            hand_over(w);
        break;
    case CRTI_ATTEMPT_ARGUMENTS: crti_attempt_queue(&w->attempt); break;
    case CRTI_ATTEMPT_QUEUED: hand_over(w); break;
    case CRTI_ATTEMPT_SENT:
        if (draw(w, 2))
            lose(w);
        else
            act(w, crti_attempt_answered(&w->attempt, w->is_task,
                                         !w->was_handed && draw(w, 2), draw(w, 2),
                                         w->max_retries));
        break;
    case CRTI_ATTEMPT_SUSPECT:
        act(w, draw(w, 2) ? crti_attempt_settled(&w->attempt, true, w->max_retries)
                          : CRTI_ATTEMPT_DO_END);
        break;
    default: fail();
    }
    if (w->attempt.state != CRTI_ATTEMPT_ENDED && w->attempt.state != CRTI_ATTEMPT_MADE &&
        draw(w, 20) == 0)
        act(w, crti_attempt_cancelled(&w->attempt, draw(w, 2)));
}

static void every_call_ends_once_and_begins_no_more_often_than_it_may(void **state)
{
    for (uint64_t seed = 1; seed <= 100000; seed++) {
        world_t w = {.random = seed * UINT64_C(0x9e3779b97f4a7c15)};
        int steps = 0;

        w.is_task = draw(&w, 2);
        w.max_retries = (int64_t)draw(&w, 4);
        while (w.attempt.state != CRTI_ATTEMPT_ENDED) {
            step(&w);
            assert_true(++steps < 10000);
        }
        assert_int_equal(w.ends, 1);
        assert_true(w.begun <= w.max_retries + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_follows_the_end_and_all_lists_are_left_by_way_of_made),
        cmocka_unit_test(a_task_that_was_not_handed_over_goes_to_another_worker),
        cmocka_unit_test(
            a_task_that_may_have_run_is_repeated_as_often_as_the_program_says),
        cmocka_unit_test(a_task_on_a_process_that_lives_is_not_repeated),
        cmocka_unit_test(a_method_that_did_not_run_follows_its_actor),
        cmocka_unit_test(a_method_that_may_have_run_waits_for_what_the_head_says),
        cmocka_unit_test(what_is_cancelled_is_neither_repeated_nor_moved),
        cmocka_unit_test(what_has_not_begun_ends_at_once_when_it_is_cancelled_or_expires),
        cmocka_unit_test(what_runs_fails_by_its_timeout_once_and_is_not_repeated),
        cmocka_unit_test(a_call_that_is_given_back_goes_on_if_it_is_a_task_in_flight),
        cmocka_unit_test(every_call_ends_once_and_begins_no_more_often_than_it_may),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
