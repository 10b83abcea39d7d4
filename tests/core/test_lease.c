/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/core/calls/lease.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define WANTED 10 /* lease_requests, when nobody says otherwise */

#define MS UINT64_C(1000000)

static void nothing_follows_ended(void **state)
{
    for (unsigned next = 0; next < CRTI_LEASE_STATES; next++)
        assert_false(crti_lease_may_follow(CRTI_LEASE_ENDED, next));
}

static void as_many_workers_are_asked_for_as_tasks_wait_up_to_a_limit(void **state)
{
    crti_lease_pool_t pool;
    crti_lease_t leases[WANTED];

    crti_lease_pool_init(&pool);
    assert_false(crti_lease_should_want(&pool));
    pool.queued = 1000;
    for (unsigned i = 0; i < WANTED; i++) {
        assert_true(crti_lease_should_want(&pool));
        crti_lease_want(&pool, &leases[i]);
    }
    assert_false(crti_lease_should_want(&pool));
    pool.queued = WANTED - 1;
    assert_non_null(crti_lease_unwanted(&pool));
    crti_lease_end(&pool, crti_lease_unwanted(&pool));
    assert_null(crti_lease_unwanted(&pool));
}

static void short_tasks_are_pipelined_and_long_ones_are_not(void **state)
{
    crti_lease_pool_t pool;
    crti_lease_t lease;
    uint64_t now = MS;

    crti_lease_pool_init(&pool);
    pool.queued = 100;
    crti_lease_want(&pool, &lease);
    assert_null(crti_lease_pick(&pool));
    crti_lease_granted(&pool, &lease, now);
    assert_ptr_equal(crti_lease_pick(&pool), &lease);
    crti_lease_sent(&pool, &lease, now);
    assert_null(
        crti_lease_pick(&pool)); /* nothing is known of these tasks: one at a time */
    crti_lease_answered(&pool, &lease, false, now += MS / 100);
    for (unsigned i = 0; i < 50; i++) {
        assert_ptr_equal(crti_lease_pick(&pool), &lease);
        crti_lease_sent(&pool, &lease, now);
    }
    while (lease.in_flight)
        crti_lease_answered(&pool, &lease, false, now += 50 * MS);
    crti_lease_sent(&pool, &lease, now);
    assert_null(crti_lease_pick(&pool));
}

static void the_worker_with_the_fewest_tasks_gets_the_next(void **state)
{
    crti_lease_pool_t pool;
    crti_lease_t one, two;

    crti_lease_pool_init(&pool);
    pool.queued = 10;
    pool.service_ns = 1000;
    crti_lease_want(&pool, &one);
    crti_lease_want(&pool, &two);
    crti_lease_granted(&pool, &one, 1);
    crti_lease_sent(&pool, &one, 1);
    crti_lease_granted(&pool, &two, 2);
    assert_ptr_equal(crti_lease_pick(&pool), &two);
}

static void tasks_behind_a_long_one_are_asked_back_once_another_worker_idles(void **state)
{
    crti_lease_pool_t pool;
    crti_lease_t lease, other, *due = NULL;
    uint64_t now = MS, next = UINT64_MAX;

    crti_lease_pool_init(&pool);
    pool.queued = 3;
    pool.service_ns = 1000;
    crti_lease_want(&pool, &lease);
    crti_lease_granted(&pool, &lease, now);
    for (int i = 0; i < 3; i++)
        crti_lease_sent(&pool, &lease, now);
    assert_int_equal(crti_lease_due(&pool, now, &due, &next), CRTI_LEASE_DUE_NOTHING);
    assert_true(next == now + CRTI_LEASE_STUCK_NS);
    assert_false(crti_lease_should_want(&pool));
    now = next;
    assert_int_equal(crti_lease_due(&pool, now, &due, &next), CRTI_LEASE_DUE_NOTHING);
    assert_true(crti_lease_should_want(&pool));
    crti_lease_want(&pool, &other);
    assert_false(crti_lease_should_want(&pool));
    assert_null(crti_lease_unwanted(&pool));
    crti_lease_granted(&pool, &other, now);
    assert_int_equal(crti_lease_due(&pool, now, &due, &next), CRTI_LEASE_DUE_GIVE_BACK);
    assert_ptr_equal(due, &lease);
    assert_int_equal(crti_lease_due(&pool, now, &due, &next), CRTI_LEASE_DUE_NOTHING);
    crti_lease_answered(&pool, &lease, true, now);
    crti_lease_answered(&pool, &lease, true, now);
    assert_int_equal(lease.state, CRTI_LEASE_STUCK);
    assert_int_equal(pool.queued, 2);
    assert_ptr_equal(crti_lease_pick(&pool), &other);
    crti_lease_answered(&pool, &lease, false, now + 80 * MS);
    assert_int_equal(lease.state, CRTI_LEASE_HELD);
}

static void a_worker_that_is_to_end_gets_nothing_more_and_a_moment_to_answer(void **state)
{
    crti_lease_pool_t pool;
    crti_lease_t lease, *due = NULL;
    uint64_t now = MS, next = UINT64_MAX;

    crti_lease_pool_init(&pool);
    pool.queued = 3;
    pool.service_ns = 1000;
    crti_lease_want(&pool, &lease);
    crti_lease_granted(&pool, &lease, now);
    crti_lease_sent(&pool, &lease, now);
    crti_lease_sent(&pool, &lease, now);
    crti_lease_close(&lease, true, now);
    assert_null(crti_lease_pick(&pool));
    assert_int_equal(crti_lease_due(&pool, now, &due, &next), CRTI_LEASE_DUE_NOTHING);
    assert_true(next == now + CRTI_LEASE_CLOSING_NS);
    crti_lease_answered(&pool, &lease, true, now);
    assert_int_equal(pool.queued, 2);
    assert_int_equal(crti_lease_due(&pool, now, &due, &next), CRTI_LEASE_DUE_NOTHING);
    crti_lease_answered(&pool, &lease, false, now);
    assert_int_equal(crti_lease_due(&pool, now, &due, &next), CRTI_LEASE_DUE_KILL);
    assert_ptr_equal(due, &lease);
    crti_lease_end(&pool, &lease);
    /* Another task runs there when the one that was to end has ended by itself. */
    next = UINT64_MAX;
    crti_lease_want(&pool, &lease);
    crti_lease_granted(&pool, &lease, now);
    crti_lease_sent(&pool, &lease, now);
    crti_lease_sent(&pool, &lease, now);
    crti_lease_close(&lease, true, now);
    crti_lease_forced(&lease);
    crti_lease_answered(&pool, &lease, false, now);
    assert_int_equal(crti_lease_due(&pool, now + 10 * CRTI_LEASE_CLOSING_NS, &due, &next),
                     CRTI_LEASE_DUE_NOTHING);
    crti_lease_end(&pool, &lease);
    /* One that does not answer. */
    crti_lease_want(&pool, &lease);
    crti_lease_granted(&pool, &lease, now);
    crti_lease_sent(&pool, &lease, now);
    crti_lease_close(&lease, true, now);
    now += CRTI_LEASE_CLOSING_NS;
    assert_int_equal(crti_lease_due(&pool, now, &due, &next), CRTI_LEASE_DUE_KILL);
}

static void all_given_back_leaves_an_idle_worker(void **state)
{
    crti_lease_pool_t pool;
    crti_lease_t lease;

    crti_lease_pool_init(&pool);
    pool.queued = 3;
    pool.service_ns = 1000;
    crti_lease_want(&pool, &lease);
    crti_lease_granted(&pool, &lease, 1);
    for (int i = 0; i < 3; i++)
        crti_lease_sent(&pool, &lease, 1);
    crti_lease_answered(&pool, &lease, false, 2); /* the running one ends first */
    crti_lease_answered(&pool, &lease, true, 3);
    crti_lease_answered(&pool, &lease, true, 3);
    assert_int_equal(lease.state, CRTI_LEASE_HELD);
}

static void an_idle_worker_is_given_back_after_a_while(void **state)
{
    crti_lease_pool_t pool;
    crti_lease_t lease, *due = NULL;
    uint64_t next = UINT64_MAX;

    crti_lease_pool_init(&pool);
    crti_lease_want(&pool, &lease);
    crti_lease_granted(&pool, &lease, MS);
    assert_int_equal(crti_lease_due(&pool, MS, &due, &next), CRTI_LEASE_DUE_NOTHING);
    assert_int_equal(crti_lease_due(&pool, next, &due, &next), CRTI_LEASE_DUE_RETURN);
    assert_ptr_equal(due, &lease);
    crti_lease_end(&pool, due);
    assert_int_equal(pool.held, 0);
}

static void an_idle_worker_that_others_wait_for_is_given_back_soon(void **state)
{
    crti_lease_pool_t pool;
    crti_lease_t lease, *due = NULL;
    uint64_t now = MS, next = UINT64_MAX;

    crti_lease_pool_init(&pool);
    crti_lease_want(&pool, &lease);
    crti_lease_granted(&pool, &lease, now);
    crti_lease_wanted_by_others(&lease);
    assert_int_equal(crti_lease_due(&pool, now, &due, &next), CRTI_LEASE_DUE_NOTHING);
    assert_true(next == now + CRTI_LEASE_WANTED_IDLE_NS);
    assert_int_equal(crti_lease_due(&pool, next, &due, &next), CRTI_LEASE_DUE_RETURN);
    assert_ptr_equal(due, &lease);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_follows_ended),
        cmocka_unit_test(as_many_workers_are_asked_for_as_tasks_wait_up_to_a_limit),
        cmocka_unit_test(short_tasks_are_pipelined_and_long_ones_are_not),
        cmocka_unit_test(the_worker_with_the_fewest_tasks_gets_the_next),
        cmocka_unit_test(
            tasks_behind_a_long_one_are_asked_back_once_another_worker_idles),
        cmocka_unit_test(
            a_worker_that_is_to_end_gets_nothing_more_and_a_moment_to_answer),
        cmocka_unit_test(all_given_back_leaves_an_idle_worker),
        cmocka_unit_test(an_idle_worker_is_given_back_after_a_while),
        cmocka_unit_test(an_idle_worker_that_others_wait_for_is_given_back_soon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
