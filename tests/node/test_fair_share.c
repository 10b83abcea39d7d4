/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/limit.h"
#include "runtime/node/leases/fair_share.h"

#include "lease_scene.h"

#define TURN CRTI_LIMIT(share_turn)

static crti_id_t id(uint64_t number)
{
    return (crti_id_t){7, number};
}

static int setup(void **state)
{
    return scene_setup(state, "CPU=2");
}

static void ask(scene_t *s, uint64_t lease, uint64_t job, double count)
{
    crti_lease_t request = {.id = id(lease),
                            .job = id(job),
                            .owner = id(job),
                            .owner_node = SELF,
                            .resources = cpus(count)};

    s->now++; /* no two turns are as old */
    assert_int_equal(crti_lease_table_request(s->table, &request, s->now), CRT_OK);
    (void)crti_lease_table_granted(s->table, id(lease), id(100 + lease), s->now);
}

/* The leases whose turn has ended: their sum, 0 for none. */
static uint64_t yields(scene_t *s)
{
    crti_lease_action_t action;
    uint64_t sum = 0;

    while (crti_lease_table_action(s->table, &action))
        ;
    (void)crti_fair_share_tick(s->table, s->now);
    while (crti_lease_table_action(s->table, &action))
        if (action.verb == CRTI_LEASE_YIELD)
            sum += action.lease.low;
    return sum;
}

/* The leases that are to come back when they are idle: their sum. */
static uint64_t wanted_back(scene_t *s)
{
    crti_lease_action_t action;
    uint64_t sum = 0;

    crti_fair_share_want_back(s->table);
    while (crti_lease_table_action(s->table, &action))
        if (action.verb == CRTI_LEASE_WHEN_IDLE)
            sum += action.lease.low;
    return sum;
}

static void
a_job_that_holds_all_yields_one_worker_to_one_that_has_waited_a_turn(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 1, 1);
    s->now += TURN / 2;
    ask(s, 2, 1, 1);
    ask(s, 3, 2, 1);
    assert_int_equal(yields(s), 0);
    s->now += TURN - 1;
    assert_int_equal(yields(s), 0);
    s->now += 1;
    assert_int_equal(yields(s), 1); /* the oldest turn */
    s->now += 10 * TURN;
    assert_int_equal(yields(s), 0); /* one is on its way back */
    assert_true(crti_lease_table_end(s->table, id(1), s->now));
    assert_int_equal(crti_lease_table_get(s->table, id(3))->state, CRTI_LEASE_STARTING);
}

static void two_jobs_with_the_same_share_leave_each_other_alone(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 1, 1);
    ask(s, 2, 2, 1);
    ask(s, 3, 1, 1);
    ask(s, 4, 2, 1);
    s->now += 10 * TURN;
    assert_int_equal(yields(s), 0);
}

static void three_jobs_on_two_cpus_take_turns(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 1, 1);
    ask(s, 2, 2, 1);
    ask(s, 3, 3, 1);
    s->now += TURN;
    assert_int_equal(yields(s), 1);
    ask(s, 4, 1, 1); /* behind the third job */
    assert_true(crti_lease_table_end(s->table, id(1), s->now));
    assert_true(crti_lease_table_granted(s->table, id(3), id(103), s->now));
    s->now += TURN;
    assert_int_equal(yields(s), 2);
}

static void
nobody_yields_to_a_task_of_its_own_job_or_for_what_it_does_not_hold(void **state)
{
    scene_t *s = *state;
    crti_lease_t gpu = {.id = id(9), .job = id(2), .owner = id(2), .owner_node = SELF};

    ask(s, 1, 1, 2);
    ask(s, 2, 1, 1);
    assert_int_equal(crti_resources_set(&gpu.resources, "GPU", 10000), CRT_OK);
    assert_int_equal(crti_lease_table_request(s->table, &gpu, s->now), CRT_OK);
    s->now += 10 * TURN;
    assert_int_equal(yields(s), 0);
}

static void a_worker_that_waits_in_a_get_is_nobodys_turn(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 1, 1);
    ask(s, 2, 1, 1);
    crti_lease_table_blocked(s->table, id(101), true, s->now);
    ask(s, 3, 1, 1);
    ask(s, 4, 2, 1);
    s->now += TURN;
    assert_int_equal(yields(s), 2); /* not the oldest, 1 */
}

static void what_becomes_free_goes_to_the_job_that_holds_least(void **state)
{
    scene_t *s = *state;

    for (uint64_t lease = 1; lease <= 8; lease++)
        ask(s, lease, 1, 1); /* six of them wait */
    ask(s, 9, 2, 1);
    ask(s, 10, 2, 1);
    assert_true(crti_lease_table_end(s->table, id(1), s->now));
    assert_int_equal(crti_lease_table_get(s->table, id(9))->state, CRTI_LEASE_STARTING);
    assert_true(crti_lease_table_end(s->table, id(2), s->now));
    assert_int_equal(crti_lease_table_get(s->table, id(3))->state, CRTI_LEASE_STARTING);
}

static void who_yields_queues_behind_the_others_with_all_it_asks_for(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 1, 2);
    ask(s, 2, 1, 2);
    ask(s, 3, 1, 2);
    ask(s, 4, 2, 2);
    s->now += TURN;
    assert_int_equal(yields(s), 1);
    assert_true(
        crti_lease_table_end(s->table, id(1), s->now)); /* now both hold nothing */
    assert_int_equal(crti_lease_table_get(s->table, id(4))->state, CRTI_LEASE_STARTING);
    assert_true(crti_lease_table_end(s->table, id(4), s->now));
    assert_int_equal(crti_lease_table_get(s->table, id(2))->state, CRTI_LEASE_STARTING);
}

static void another_process_of_the_job_that_waits_gets_what_is_idle_at_once(void **state)
{
    scene_t *s = *state;
    crti_lease_t request = {.id = id(4),
                            .job = id(1),
                            .owner = id(2),
                            .owner_node = SELF,
                            .resources = cpus(1)};

    ask(s, 1, 1, 1);
    ask(s, 2, 1, 1);
    ask(s, 3, 1, 1); /* it waits, but they are its own */
    assert_int_equal(wanted_back(s), 0);
    assert_int_equal(crti_lease_table_request(s->table, &request, s->now), CRT_OK);
    assert_int_equal(wanted_back(s), 1 + 2);
    assert_int_equal(wanted_back(s), 0); /* said once */
    assert_true(crti_lease_table_end(s->table, id(1), s->now));
    assert_int_equal(crti_lease_table_get(s->table, id(3))->state, CRTI_LEASE_STARTING);
    assert_true(crti_lease_table_granted(s->table, id(3), id(103), s->now));
    assert_int_equal(wanted_back(s), 3); /* the other one still waits */
}

#define OTHER(n) ((crti_id_t){0, 1 + (n)})

/* A node that is full. */
static void full_node(scene_t *s, uint64_t number)
{
    crti_resources_t has = cpus(1), none = {0};

    assert_int_equal(crti_lease_table_view(s->table, OTHER(number), "", &has, &none),
                     CRT_OK);
    crti_lease_table_serve(s->table, s->now);
}

/* Nodes to which requests went, to wait for a turn there: the sum of their ids. */
static uint64_t sought(scene_t *s)
{
    crti_lease_action_t action;
    uint64_t sum = 0;

    while (crti_lease_table_action(s->table, &action))
        ;
    (void)crti_fair_share_tick(s->table, s->now);
    while (crti_lease_table_action(s->table, &action))
        if (action.verb == CRTI_LEASE_FORWARD) {
            assert_true(crti_lease_table_get(s->table, action.lease)->awaits_turn);
            sum += action.node.low;
        }
    return sum;
}

/* What the head says of job 1, and how far the job is that is most ahead, in CPUs for a turn. */
static void told(scene_t *s, double level, double ahead)
{
    crti_job_shares_t *shares = crti_lease_table_change_shares(s->table);
    double turn = (double)CRTI_RESOURCE_ONE * (double)CRTI_LIMIT(share_turn);
    crti_job_level_t said = {.job = id(1), .level = level * turn};

    crti_job_shares_told(shares, &said, s->now);
    shares->ahead = ahead * turn;
    shares->jobs = 2;
}

static void a_job_that_is_behind_seeks_turns_on_other_nodes(void **state)
{
    scene_t *s = *state;

    full_node(s, 1);
    full_node(s, 2);
    full_node(s, 3);
    for (uint64_t lease = 1; lease <= 6; lease++) /* two run, four wait */
        ask(s, lease, 1, 1);
    s->now += CRTI_LIMIT(share_turn);
    assert_int_equal(sought(s), 0); /* nobody is known to be ahead */
    told(s, 0, 4.2);                /* it has used two turns and holds two CPUs */
    assert_int_equal(sought(s), 0);
    told(s, 0, 6);
    assert_int_equal(sought(s), 2 + 3); /* that brings it level */
    assert_int_equal(sought(s), 0);
    told(s, 0, 40);
    assert_int_equal(sought(s), 4); /* one on each node */
    assert_int_equal(crti_lease_table_waiting(s->table), 1);
    for (uint64_t lease = 3; lease <= 6; lease++) /* one of them waits here */
        crti_lease_table_bounced(s->table, id(lease), s->now);
    assert_int_equal(crti_lease_table_waiting(s->table), 4);
    assert_int_equal(sought(s), 0); /* those gave it back just now */
    crti_lease_table_head(s->table, true, s->now);
    s->now += CRTI_S;
    (void)crti_lease_table_tick(s->table, s->now);
}

static void the_only_request_of_a_job_leaves_when_nobody_gives_way_at_home(void **state)
{
    scene_t *s = *state;

    full_node(s, 1);
    ask(s, 1, 1, 1);
    ask(s, 2, 2, 1);
    ask(s, 3, 1, 1);
    s->now += CRTI_LIMIT(share_turn) + 10;
    told(s, -9, 40);
    assert_int_equal(sought(s), 0); /* job 2 does, here */
    assert_true(crti_lease_table_end(s->table, id(2), s->now));
    ask(s, 4, 1, 1);
    s->now += CRTI_LIMIT(share_turn);
    told(s, -9, 40);
    assert_int_equal(sought(s), 2);
}

static void ask_for_a_turn(scene_t *s, uint64_t lease, uint64_t job)
{
    crti_lease_t request = {.id = id(lease),
                            .job = id(job),
                            .owner = id(job),
                            .owner_node = OTHER(1),
                            .spillbacks = 1,
                            .awaits_turn = true,
                            .resources = cpus(1)};

    assert_int_equal(crti_lease_table_request(s->table, &request, s->now), CRT_OK);
}

static void who_comes_for_a_turn_goes_when_there_is_none(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 1, 1);
    ask(s, 2, 1, 1);
    ask_for_a_turn(s, 3, 1);
    assert_null(crti_lease_table_get(s->table, id(3))); /* its own job has all */
    ask_for_a_turn(s, 4, 2);
    assert_non_null(crti_lease_table_get(s->table, id(4)));
    told(s, -40, 40); /* job 1 is far behind, and yields to nobody */
    s->now += CRTI_FAIR_AWAY_NS - 1;
    assert_int_equal(yields(s), 0);
    assert_non_null(crti_lease_table_get(s->table, id(4)));
    s->now += 1;
    assert_int_equal(yields(s), 0);
    assert_null(crti_lease_table_get(s->table, id(4)));
}

static void behind_a_long_task_nobody_waits_for_a_turn_on_another_node(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 1, 1);
    ask(s, 2, 1, 1);
    s->now += CRTI_S;
    ask_for_a_turn(s, 3, 2);
    s->now += CRTI_LIMIT(share_turn);
    assert_int_equal(yields(s), 1);
    s->now += CRTI_FAIR_YIELD_NS - CRTI_LIMIT(share_turn) - 1;
    (void)yields(s);
    assert_non_null(crti_lease_table_get(s->table, id(3))); /* its task runs */
    s->now += 1;
    (void)yields(s);
    assert_null(crti_lease_table_get(s->table, id(3)));
}

static void nobody_is_looked_at_while_nobody_waits(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 1, 1);
    s->now += 10 * TURN;
    assert_true(crti_fair_share_tick(s->table, s->now) == UINT64_MAX);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, scene_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_job_that_holds_all_yields_one_worker_to_one_that_has_waited_a_turn),
        TEST(two_jobs_with_the_same_share_leave_each_other_alone),
        TEST(three_jobs_on_two_cpus_take_turns),
        TEST(nobody_yields_to_a_task_of_its_own_job_or_for_what_it_does_not_hold),
        TEST(a_worker_that_waits_in_a_get_is_nobodys_turn),
        TEST(what_becomes_free_goes_to_the_job_that_holds_least),
        TEST(who_yields_queues_behind_the_others_with_all_it_asks_for),
        TEST(another_process_of_the_job_that_waits_gets_what_is_idle_at_once),
        TEST(a_job_that_is_behind_seeks_turns_on_other_nodes),
        TEST(the_only_request_of_a_job_leaves_when_nobody_gives_way_at_home),
        TEST(who_comes_for_a_turn_goes_when_there_is_none),
        TEST(behind_a_long_task_nobody_waits_for_a_turn_on_another_node),
        TEST(nobody_is_looked_at_while_nobody_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
