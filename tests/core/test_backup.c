/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks that take much longer than others of their function and are run a second time: which run
 * counts, whatever answers, dies or is cancelled in which order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "alone.h"
#include "runtime/core/client/client.h"

#include <cmocka.h>

#define TWICE CRT_TASK_OPTIONS(.backup_after = 2.0)

static int start(void **state)
{
    *state = alone_start();
    return 0;
}

static int finish(void **state)
{
    alone_stop();
    return 0;
}

/* So many tasks run on process 1, each for an instant. */
static void run_some(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        crt_ref_t *ref = alone_task(TWICE);

        if (alone_sent_count(1, CRTI_RECORD_CALL) == 0)
            assert_true(alone_grant(1));
        alone_returns(1, alone_called(1), CRT_OK);
        assert_int_equal(ref->content, CRTI_CONTENT_INLINE);
        crt_ref_drop(&ref);
    }
    alone_forget();
}

static crt_status_t ended(crt_ref_t *ref)
{
    return ref->content == CRTI_CONTENT_FAILED ? (crt_status_t)ref->error->user.status
                                               : CRT_OK;
}

/* One runs on process 1 and is slow, its second run on process 2. */
static crt_ref_t *run_slow(const crt_task_options_t *options, uint64_t *first,
                           uint64_t *second)
{
    crt_ref_t *ref;

    run_some(3);
    ref = alone_task(options);
    *first = alone_called(1);
    alone_tick(CRTI_S);
    (void)alone_grant(2); /* or it has that worker still */
    *second = alone_called(2);
    return ref;
}

/* What is sent to process 1 when it has ended runs there. */
static void is_free(unsigned i)
{
    crti_span_t record;
    crt_ref_t *ref;

    alone_forget();
    ref = alone_task(TWICE);
    record = alone_sent(i, CRTI_RECORD_CALL);
    assert_non_null(record.data);
    alone_returns(i, alone_called(i), CRT_OK);
    crt_ref_drop(&ref);
}

static void a_task_is_run_again_when_it_takes_longer_than_twice_the_median(void **state)
{
    char hex[CRTI_ID_HEX], selector[100];
    crt_ref_t *ref;

    run_some(3);
    ref = alone_task(TWICE);
    assert_false(alone_grant(2));
    alone_tick(CRTI_S);
    snprintf(selector, sizeof(selector), "ray.io/node-id=!%s;*",
             crti_id_hex(ALONE_NODE(1), hex));
    assert_string_equal(alone_selector(), selector);
    assert_true(alone_grant(2));
    assert_int_not_equal(alone_called(1), alone_called(2));
    alone_tick(CRTI_S); /* it is not run a third time */
    assert_false(alone_grant(3));
    alone_returns(1, alone_called(1), CRT_OK);
    crt_ref_drop(&ref);
}

static void two_that_ended_tell_nothing_of_the_third(void **state)
{
    crt_ref_t *ref;

    run_some(2);
    ref = alone_task(TWICE);
    alone_tick(60 * CRTI_S);
    assert_false(alone_grant(2));
    crt_ref_drop(&ref);
}

static void without_the_option_none_is_run_again(void **state)
{
    crt_ref_t *ref;

    run_some(3);
    ref = alone_task(NULL);
    alone_tick(60 * CRTI_S);
    assert_false(alone_grant(2));
    crt_ref_drop(&ref);
}

static void the_first_run_wins_and_the_second_one_is_cancelled(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(TWICE, &first, &second);

    alone_returns(1, first, CRT_OK);
    assert_int_equal(ref->content, CRTI_CONTENT_INLINE);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_CANCEL), 1);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_CANCEL), 0);
    alone_returns(2, second, CRT_ERR_CANCELLED);
    assert_int_equal(ended(ref), CRT_OK);
    crt_ref_drop(&ref);
    is_free(1);
}

static void the_second_run_wins_and_the_first_one_is_cancelled(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(TWICE, &first, &second);

    alone_returns(2, second, CRT_OK);
    assert_int_equal(ref->content, CRTI_CONTENT_INLINE);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_CANCEL), 1);
    crt_ref_drop(&ref);
    alone_returns(1, first, CRT_OK); /* it did not notice */
    is_free(1);
}

static void the_second_run_wins_and_then_the_node_of_the_first_one_dies(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(TWICE, &first, &second);

    alone_returns(2, second, CRT_OK);
    alone_node_dies(1);
    assert_int_equal(ref->content, CRTI_CONTENT_INLINE);
    assert_false(alone_grant(3)); /* nothing runs once more */
    crt_ref_drop(&ref);
}

static void the_first_run_dies_and_the_second_one_goes_on(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(TWICE, &first, &second);

    alone_worker_dies(1);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    assert_false(alone_grant(3));
    alone_returns(2, second, CRT_OK);
    assert_int_equal(ref->content, CRTI_CONTENT_INLINE);
    crt_ref_drop(&ref);
}

static void the_second_run_dies_and_the_first_one_goes_on(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(TWICE, &first, &second);

    alone_worker_dies(2);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    alone_tick(60 * CRTI_S); /* once for each attempt */
    assert_false(alone_grant(3));
    alone_returns(1, first, CRT_OK);
    assert_int_equal(ref->content, CRTI_CONTENT_INLINE);
    crt_ref_drop(&ref);
}

static void both_die_and_it_is_made_again_while_it_may_be(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(CRT_TASK_OPTIONS(.backup_after = 2.0, .max_attempts = 3),
                              &first, &second);

    alone_worker_dies(1);
    alone_worker_dies(2);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    assert_true(alone_grant(3));
    alone_worker_dies(3); /* the third and last one */
    assert_int_equal(ended(ref), CRT_ERR_WORKER_DIED);
    assert_false(alone_grant(4));
    crt_ref_drop(&ref);
}

static void both_die_and_none_is_left(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(CRT_TASK_OPTIONS(.backup_after = 2.0, .max_attempts = 2),
                              &first, &second);

    alone_worker_dies(2);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    alone_worker_dies(1);
    assert_int_equal(ended(ref), CRT_ERR_WORKER_DIED);
    assert_false(alone_grant(3));
    crt_ref_drop(&ref);
}

static void an_error_counts_when_both_have_ended(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(TWICE, &first, &second);

    alone_returns(2, second, CRT_ERR_USER);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_CANCEL), 0);
    alone_returns(1, first, CRT_ERR_IO);
    assert_int_equal(ended(ref), CRT_ERR_IO);
    crt_ref_drop(&ref);
    ref = run_slow(TWICE, &first, &second);
    alone_returns(1, first, CRT_ERR_USER);
    alone_returns(2, second, CRT_OK);
    assert_int_equal(ref->content, CRTI_CONTENT_INLINE);
    crt_ref_drop(&ref);
}

static void a_cancel_reaches_both(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(TWICE, &first, &second);

    assert_int_equal(crt_cancel(ref, NULL), CRT_OK);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_CANCEL), 1);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_CANCEL), 1);
    alone_returns(2, second, CRT_ERR_CANCELLED);
    assert_int_equal(ref->content, CRTI_CONTENT_NONE);
    alone_returns(1, first, CRT_ERR_CANCELLED);
    assert_int_equal(ended(ref), CRT_ERR_CANCELLED);
    crt_ref_drop(&ref);
}

static void a_timeout_ends_both(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(CRT_TASK_OPTIONS(.backup_after = 2.0, .limit_ms = 5000),
                              &first, &second);

    alone_tick(6 * CRTI_S);
    assert_int_equal(ended(ref), CRT_ERR_TIMED_OUT);
    assert_int_equal(alone_sent_count(1, CRTI_RECORD_CANCEL), 1);
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_CANCEL), 1);
    crt_ref_drop(&ref);
    alone_returns(1, first, CRT_OK);
    alone_returns(2, second, CRT_OK);
}

static void a_second_run_that_finds_no_worker_ends_with_the_first_one(void **state)
{
    crt_ref_t *ref;

    run_some(3);
    ref = alone_task(TWICE);
    alone_tick(CRTI_S); /* nobody answers the request */
    alone_returns(1, alone_called(1), CRT_OK);
    assert_int_equal(ref->content, CRTI_CONTENT_INLINE);
    assert_true(alone_grant(2)); /* too late: the worker goes back */
    assert_int_equal(alone_sent_count(2, CRTI_RECORD_CALL), 0);
    crt_ref_drop(&ref);
}

static void a_result_that_is_a_ref_is_that_of_the_run_that_wins(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(TWICE, &first, &second);
    crti_id_t node = ALONE_NODE(4);

    alone_gave_ref(2, second, 3, 77);
    assert_non_null(ref->more->forward);
    alone_gave_ref(1, first, 4, 78); /* its token goes back */
    alone_located(4, 78, &node, 1);
    assert_int_equal(alone_sent_count(4, CRTI_RECORD_RELEASE), 1);
    assert_int_equal(alone_sent_count(3, CRTI_RECORD_RELEASE), 0);
    crt_ref_drop(&ref);
    alone_located(3, 77, &node, 1);
    assert_int_equal(alone_sent_count(3, CRTI_RECORD_RELEASE), 1);
}

static void both_runs_end_with_the_process(void **state)
{
    uint64_t first, second;
    crt_ref_t *ref = run_slow(TWICE, &first, &second);

    crti_net_lock(((crti_core_t *)*state)->net);
    crti_core_break(*state, CRT_ERR_NODE_LOST, "the daemon is gone");
    crti_net_unlock(((crti_core_t *)*state)->net);
    assert_int_equal(ended(ref), CRT_ERR_NODE_LOST);
    alone_drop(ref);
}

static void what_can_not_be_run_twice_is_refused(void **state)
{
    const crt_task_options_t *wrong[] = {
        CRT_TASK_OPTIONS(.backup_after = 2.0, .max_attempts = 1),
        CRT_TASK_OPTIONS(.backup_after = 0.5), CRT_TASK_OPTIONS(.backup_after = -1),
        CRT_TASK_OPTIONS(.backup_after = __builtin_nan("")),
        CRT_TASK_OPTIONS(.backup_after = __builtin_inf())};

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        crt_ref_t *ref = alone_task(wrong[i]);

        assert_int_equal(ended(ref), CRT_ERR_INVALID);
        assert_non_null(strstr(ref->error->user.text, "backup_after"));
        crt_ref_drop(&ref);
    }
}

int main(void)
{
#define BACKUP_TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)
    const struct CMUnitTest tests[] = {
        BACKUP_TEST(a_task_is_run_again_when_it_takes_longer_than_twice_the_median),
        BACKUP_TEST(two_that_ended_tell_nothing_of_the_third),
        BACKUP_TEST(without_the_option_none_is_run_again),
        BACKUP_TEST(the_first_run_wins_and_the_second_one_is_cancelled),
        BACKUP_TEST(the_second_run_wins_and_the_first_one_is_cancelled),
        BACKUP_TEST(the_second_run_wins_and_then_the_node_of_the_first_one_dies),
        BACKUP_TEST(the_first_run_dies_and_the_second_one_goes_on),
        BACKUP_TEST(the_second_run_dies_and_the_first_one_goes_on),
        BACKUP_TEST(both_die_and_it_is_made_again_while_it_may_be),
        BACKUP_TEST(both_die_and_none_is_left),
        BACKUP_TEST(an_error_counts_when_both_have_ended),
        BACKUP_TEST(a_cancel_reaches_both),
        BACKUP_TEST(a_timeout_ends_both),
        BACKUP_TEST(a_second_run_that_finds_no_worker_ends_with_the_first_one),
        BACKUP_TEST(a_result_that_is_a_ref_is_that_of_the_run_that_wins),
        BACKUP_TEST(both_runs_end_with_the_process),
        BACKUP_TEST(what_can_not_be_run_twice_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
