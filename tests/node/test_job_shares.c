/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs have used of a node, by their weights, and who is next by that. */
#include "runtime/node/leases/job_shares.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/node/leases/fair_share.h"

#include <cmocka.h>

#define SELF ((crti_id_t){0, 1})
#define ONE  CRTI_RESOURCE_ONE
#define TURN CRTI_LIMIT(share_turn)

static crti_id_t id(uint64_t number)
{
    return (crti_id_t){7, number};
}

static void join(crti_job_shares_t *s, uint64_t job, uint64_t weight, uint64_t now)
{
    crti_job_shares_join(s, id(job), &(crti_job_quota_t){.weight = weight}, now);
}

static void what_is_held_counts_by_time_and_weight(void **state)
{
    crti_job_shares_t s;

    crti_job_shares_init(&s);
    join(&s, 1, 1, 0);
    join(&s, 2, 5, 0);
    crti_job_shares_hold(&s, id(1), 2 * ONE, 0);
    crti_job_shares_hold(&s, id(2), 10 * ONE, 0);
    assert_true(crti_job_shares_used(&s, id(1), CRTI_S) ==
                crti_job_shares_used(&s, id(2), CRTI_S));
    crti_job_shares_hold(&s, id(1), -2 * ONE, CRTI_S);
    assert_true(crti_job_shares_used(&s, id(1), CRTI_S) == 2.0 * ONE * CRTI_S);
    assert_true(crti_job_shares_used(&s, id(1), 9 * CRTI_S) == 2.0 * ONE * CRTI_S);
    assert_true(crti_job_shares_used(&s, id(3), CRTI_S) == 0);
    crti_job_shares_fini(&s);
}

static void a_job_that_comes_back_has_saved_one_turn_and_lost_no_debt(void **state)
{
    crti_job_shares_t s;

    crti_job_shares_init(&s);
    join(&s, 1, 1, 0);
    crti_job_shares_hold(&s, id(1), ONE, 0);
    join(&s, 2, 1, 5 * CRTI_S);
    assert_true(crti_job_shares_used(&s, id(2), 5 * CRTI_S) == 4.9 * ONE * CRTI_S);
    crti_job_shares_hold(&s, id(2), 3 * ONE, 5 * CRTI_S);
    crti_job_shares_hold(&s, id(2), -3 * ONE, 6 * CRTI_S);
    crti_job_shares_leave(&s, id(2), 6 * CRTI_S);
    join(&s, 2, 1, 7 * CRTI_S); /* the other one is at 7, it is at 7.9 */
    assert_true(crti_job_shares_used(&s, id(2), 7 * CRTI_S) == 7.9 * ONE * CRTI_S);
    crti_job_shares_leave(&s, id(2), 7 * CRTI_S);
    crti_job_shares_leave(&s, id(2), 7 * CRTI_S); /* once too often */
    crti_job_shares_leave(&s, id(9), 7 * CRTI_S);
    join(&s, 3, 1, 60 * CRTI_S); /* what has ended is forgotten then */
    assert_int_equal(s.by_job.count, 2);
    crti_job_shares_fini(&s);
}

static void a_job_that_has_used_little_comes_back_before_those_that_wait(void **state)
{
    crti_job_shares_t s;

    crti_job_shares_init(&s);
    join(&s, 1, 1, 0);
    join(&s, 2, 1, 0);
    crti_job_shares_hold(&s, id(1), ONE, 0);
    crti_job_shares_hold(&s, id(2), ONE, 0);
    crti_job_shares_hold(&s, id(2), -ONE, CRTI_S); /* it waits again */
    join(&s, 3, 1, 2 * CRTI_S);
    assert_true(crti_job_shares_used(&s, id(3), 2 * CRTI_S) +
                    crti_job_shares_turn(&s, id(3), ONE) ==
                crti_job_shares_used(&s, id(2), 2 * CRTI_S));
    crti_job_shares_hold(&s, id(3), ONE, 2 * CRTI_S);
    crti_job_shares_hold(&s, id(3), -ONE, 2 * CRTI_S + TURN / 4);
    crti_job_shares_leave(&s, id(3), 2 * CRTI_S + TURN / 4);
    join(&s, 3, 1, 2 * CRTI_S + TURN / 2); /* what it has used since counts */
    assert_true(crti_job_shares_used(&s, id(3), 2 * CRTI_S + TURN / 2) +
                    crti_job_shares_turn(&s, id(3), ONE) * 3 / 4 ==
                crti_job_shares_used(&s, id(2), 2 * CRTI_S + TURN / 2));
    crti_job_shares_fini(&s);
}

static void a_cap_allows_one_lease_and_then_its_part(void **state)
{
    crti_job_shares_t s;

    crti_job_shares_init(&s);
    crti_job_shares_join(&s, id(1), &(crti_job_quota_t){1, 5000}, 0);
    assert_true(crti_job_shares_allow(&s, id(1), 100 * ONE, 4 * ONE));
    crti_job_shares_hold(&s, id(1), ONE, 0);
    assert_true(crti_job_shares_allow(&s, id(1), ONE, 4 * ONE));
    crti_job_shares_hold(&s, id(1), ONE, 0);
    assert_false(crti_job_shares_allow(&s, id(1), ONE, 4 * ONE));
    assert_true(crti_job_shares_allow(&s, id(2), ONE, 4 * ONE));
    crti_job_shares_fini(&s);
}

static void a_weight_that_can_not_be_is_one(void **state)
{
    crti_job_shares_t s;

    crti_job_shares_init(&s);
    join(&s, 1, 0, 0);
    join(&s, 2, UINT64_MAX, 0);
    assert_true(crti_job_shares_turn(&s, id(1), ONE) == (double)ONE * TURN);
    assert_true(crti_job_shares_turn(&s, id(2), ONE) == (double)ONE * TURN);
    crti_job_shares_fini(&s);
}

/* ---------------------------------------------------------------- with the lease table */

#define JOBS    3
#define TASK_NS (50 * CRTI_MS)

typedef struct scene {
    crti_lease_table_t *table;
    uint64_t now, leases;
    const crti_job_quota_t *quotas;
    uint64_t done[JOBS]; /* tasks */
    struct {
        uint64_t lease, job, ends_ns; /* lease 0: idle */
        bool yields;
    } workers[8];
} scene_t;

/* Each driver has ten requests in the queue. */
static void ask(scene_t *s, uint64_t job)
{
    crti_lease_t request = {.id = id(++s->leases),
                            .job = id(job),
                            .owner_node = SELF,
                            .quota = s->quotas[job]};

    assert_int_equal(crti_resources_set(&request.resources, "CPU", ONE), CRT_OK);
    assert_int_equal(crti_lease_table_request(s->table, &request, s->now), CRT_OK);
}

static void carry_out(scene_t *s)
{
    crti_lease_action_t action;

    while (crti_lease_table_action(s->table, &action)) {
        unsigned at = 0;

        if (action.verb == CRTI_LEASE_FIND_WORKER) {
            while (s->workers[at].lease)
                at++;
            s->workers[at].lease = action.lease.low;
            s->workers[at].job = crti_lease_table_get(s->table, action.lease)->job.low;
            s->workers[at].ends_ns = s->now + TASK_NS;
            s->workers[at].yields = false;
            assert_true(crti_lease_table_granted(s->table, action.lease,
                                                 id(100000 + action.lease.low), s->now));
        }
        for (at = 0; action.verb == CRTI_LEASE_YIELD && at < 8; at++)
            if (s->workers[at].lease == action.lease.low)
                s->workers[at].yields = true;
    }
}

static void end_tasks(scene_t *s)
{
    for (unsigned at = 0; at < 8; at++) {
        if (!s->workers[at].lease || s->workers[at].ends_ns > s->now)
            continue;
        s->done[s->workers[at].job]++;
        s->workers[at].ends_ns = s->now + TASK_NS;
        if (s->workers[at].yields) {
            uint64_t lease = s->workers[at].lease;

            s->workers[at].lease = 0;
            ask(s, s->workers[at].job);
            assert_true(crti_lease_table_end(s->table, id(lease), s->now));
            carry_out(s);
        }
    }
}

/* Greedy drivers for 10 s: the parts of all tasks that they have done, in 1/1000. */
static void run(const crti_job_quota_t quotas[JOBS], unsigned jobs, int64_t cpus,
                uint64_t parts[JOBS])
{
    scene_t s = {.now = 100 * CRTI_S, .quotas = quotas};
    crti_resources_t have = {0};
    uint64_t sum = 0;

    assert_int_equal(crti_resources_set(&have, "CPU", cpus * ONE), CRT_OK);
    assert_int_equal(crti_lease_table_new(SELF, &have, 64, &s.table), CRT_OK);
    for (unsigned job = 0; job < jobs; job++)
        for (int i = 0; i < 10; i++)
            ask(&s, job);
    carry_out(&s);
    for (int i = 0; i < 2000; i++) {
        s.now += 5 * CRTI_MS;
        end_tasks(&s);
        (void)crti_fair_share_tick(s.table, s.now);
        carry_out(&s);
    }
    for (unsigned job = 0; job < jobs; job++)
        sum += s.done[job];
    assert_in_range(sum, (uint64_t)cpus * 195, (uint64_t)cpus * 200); /* nobody idles */
    for (unsigned job = 0; job < jobs; job++)
        parts[job] = s.done[job] * 1000 / sum;
    crti_lease_table_free(s.table);
}

static void jobs_of_one_weight_get_the_same_of_any_number_of_cpus(void **state)
{
    const crti_job_quota_t quotas[JOBS] = {{1, 0}, {1, 0}, {1, 0}};
    uint64_t parts[JOBS];

    for (int64_t cpus = 1; cpus <= 8; cpus++) {
        run(quotas, 2, cpus, parts);
        assert_in_range(parts[0], 480, 520);
        run(quotas, 3, cpus, parts);
        for (int job = 0; job < JOBS; job++)
            assert_in_range(parts[job], 310, 355);
    }
}

static void jobs_get_shares_by_their_weights(void **state)
{
    const crti_job_quota_t quotas[JOBS] = {{1, 0}, {2, 0}, {5, 0}};
    uint64_t parts[JOBS];

    for (int64_t cpus = 1; cpus <= 8; cpus++) {
        run(quotas, 3, cpus, parts);
        assert_in_range(parts[0], 105, 145);
        assert_in_range(parts[1], 230, 270);
        assert_in_range(parts[2], 600, 650);
    }
}

static void a_capped_job_leaves_the_rest_to_others(void **state)
{
    const crti_job_quota_t quotas[JOBS] = {{1000, 2500}, {1, 0}};
    uint64_t parts[JOBS];

    run(quotas, 2, 8, parts);
    assert_in_range(parts[0], 240, 260);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_held_counts_by_time_and_weight),
        cmocka_unit_test(a_job_that_comes_back_has_saved_one_turn_and_lost_no_debt),
        cmocka_unit_test(a_job_that_has_used_little_comes_back_before_those_that_wait),
        cmocka_unit_test(a_cap_allows_one_lease_and_then_its_part),
        cmocka_unit_test(a_weight_that_can_not_be_is_one),
        cmocka_unit_test(jobs_of_one_weight_get_the_same_of_any_number_of_cpus),
        cmocka_unit_test(jobs_get_shares_by_their_weights),
        cmocka_unit_test(a_capped_job_leaves_the_rest_to_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
