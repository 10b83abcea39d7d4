/* SPDX-License-Identifier: Apache-2.0 */
#include "lease_scene.h"

#include <string.h>
#include <time.h>

#define B ((crti_id_t){0, 2})
#define C ((crti_id_t){0, 3})

static size_t waiting(const scene_t *s)
{
    const crti_lease_t *lease;
    size_t cursor = 0, count = 0;

    while ((lease = crti_lease_table_next(s->table, &cursor)))
        count += lease->state == CRTI_LEASE_WAITING;
    return count;
}

static int setup(void **state)
{
    return scene_setup(state, "CPU=4");
}

static crti_id_t id(uint64_t n)
{
    return (crti_id_t){9, n};
}

static void ask(scene_t *s, uint64_t n, double count, crti_id_t prefer,
                uint64_t spillbacks)
{
    crti_lease_t lease = {.id = id(n),
                          .owner = {7, 7},
                          .owner_node = SELF,
                          .prefer = prefer,
                          .resources = cpus(count),
                          .spillbacks = spillbacks,
                          .function = "f"};

    assert_int_equal(crti_lease_table_request(s->table, &lease, s->now), CRT_OK);
}

/* The next action that is not CHANGED. False: none. */
static bool next(scene_t *s, crti_lease_action_t *action)
{
    while (crti_lease_table_action(s->table, action))
        if (action->verb != CRTI_LEASE_CHANGED)
            return true;
    return false;
}

static void expect(scene_t *s, crti_lease_verb_t verb, uint64_t lease)
{
    crti_lease_action_t action;

    assert_true(next(s, &action));
    assert_int_equal(action.verb, verb);
    assert_true(crti_id_equal(action.lease, id(lease)));
}

static void expect_forward(scene_t *s, uint64_t lease, crti_id_t node)
{
    crti_lease_action_t action;

    assert_true(next(s, &action));
    assert_int_equal(action.verb, CRTI_LEASE_FORWARD);
    assert_true(crti_id_equal(action.lease, id(lease)));
    assert_true(crti_id_equal(action.node, node));
}

static void expect_nothing(scene_t *s)
{
    crti_lease_action_t action;

    assert_false(next(s, &action));
}

static crti_lease_state_t state_of(scene_t *s, uint64_t n)
{
    const crti_lease_t *lease = crti_lease_table_get(s->table, id(n));

    return lease ? lease->state : CRTI_LEASE_GONE;
}

static int64_t free_cpus(scene_t *s)
{
    return crti_resources_get(crti_lease_table_available(s->table), "CPU") / 10000;
}

static void view(scene_t *s, crti_id_t node, double total, double available)
{
    crti_resources_t have = cpus(total), left = cpus(available);

    assert_int_equal(crti_lease_table_view(s->table, node, "", &have, &left), CRT_OK);
    crti_lease_table_serve(s->table, s->now);
}

static void
a_request_with_room_starts_is_granted_and_gives_its_resources_back(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 3, SELF, 0);
    expect(s, CRTI_LEASE_FIND_WORKER, 1);
    assert_int_equal(state_of(s, 1), CRTI_LEASE_STARTING);
    assert_int_equal(free_cpus(s), 1);
    assert_true(crti_lease_table_granted(s->table, id(1), id(50), 0));
    assert_int_equal(state_of(s, 1), CRTI_LEASE_GRANTED);
    assert_true(crti_lease_table_end(s->table, id(1), s->now));
    assert_false(crti_lease_table_end(s->table, id(1), s->now));
    assert_int_equal(state_of(s, 1), CRTI_LEASE_GONE);
    assert_int_equal(free_cpus(s), 4);
}

static void the_same_request_again_changes_nothing(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 3, SELF, 0);
    ask(s, 1, 3, SELF, 0);
    expect(s, CRTI_LEASE_FIND_WORKER, 1);
    expect_nothing(s);
    assert_int_equal(free_cpus(s), 1);
}

static void requests_wait_in_order_and_smaller_ones_may_pass(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 3, SELF, 0);
    expect(s, CRTI_LEASE_FIND_WORKER, 1);
    ask(s, 2, 2, SELF, 0);
    ask(s, 3, 2, SELF, 0);
    ask(s, 4, 1, SELF, 0);
    expect(s, CRTI_LEASE_FIND_WORKER, 4);
    assert_int_equal(waiting(s), 2);
    crti_lease_table_end(s->table, id(1), s->now);
    expect(s, CRTI_LEASE_FIND_WORKER, 2);
    expect_nothing(s);
    crti_lease_table_end(s->table, id(4), s->now);
    crti_lease_table_end(s->table, id(2), s->now);
    expect(s, CRTI_LEASE_FIND_WORKER, 3);
}

static void a_request_that_waited_long_is_passed_no_more(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 1, SELF, 0);
    expect(s, CRTI_LEASE_FIND_WORKER, 1);
    ask(s, 2, 4, SELF, 0);
    s->now += 6 * CRTI_S;
    ask(s, 3, 1, SELF, 0);
    expect_nothing(s);
    assert_int_equal(state_of(s, 3), CRTI_LEASE_WAITING);
    crti_lease_table_end(s->table, id(1), s->now);
    expect(s, CRTI_LEASE_FIND_WORKER, 2);
    expect_nothing(s);
}

static void a_request_that_can_never_fit_here_does_not_close_the_node(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 40, SELF, 0);
    s->now += 6 * CRTI_S;
    ask(s, 2, 1, SELF, 0);
    expect(s, CRTI_LEASE_FIND_WORKER, 2);
}

static void work_packs_here_until_half_full_then_spreads_to_the_emptiest(void **state)
{
    scene_t *s = *state;

    view(s, B, 8, 6);
    view(s, C, 8, 7);
    ask(s, 1, 1, (crti_id_t){0}, 0);
    expect(s, CRTI_LEASE_FIND_WORKER, 1);
    ask(s, 2, 1, (crti_id_t){0}, 0);
    expect(s, CRTI_LEASE_FIND_WORKER, 2);
    ask(s, 3, 1, (crti_id_t){0}, 0);
    expect_forward(s, 3, B); /* both below half count as empty: the smaller id */
    ask(s, 4, 2, (crti_id_t){0}, 0);
    expect_forward(s, 4, C); /* B would be 5/8 full, C 3/8 */
    assert_int_equal(state_of(s, 4), CRTI_LEASE_SPILLBACK);
}

static void the_node_that_holds_the_arguments_is_preferred_when_it_has_room(void **state)
{
    scene_t *s = *state;

    view(s, B, 2, 1);
    view(s, C, 8, 8);
    ask(s, 1, 1, B, 0);
    expect_forward(s, 1, B);
    ask(s, 2, 1, B, 0); /* the view was charged: B is full now */
    expect(s, CRTI_LEASE_FIND_WORKER, 2);
    for (uint64_t n = 3; n < 6; n++) {
        ask(s, n, 1, SELF, 0); /* here, although more than half full */
        expect(s, CRTI_LEASE_FIND_WORKER, n);
    }
}

static void a_request_of_another_node_is_given_back_rather_than_sent_on(void **state)
{
    scene_t *s = *state;

    view(s, B, 64, 64);
    ask(s, 1, 10, (crti_id_t){0}, 1);
    expect(s, CRTI_LEASE_GIVE_BACK, 1);
    expect_nothing(s);
    assert_null(crti_lease_table_get(s->table, id(1)));
    assert_int_equal(waiting(s), 0);
    ask(s, 1, 10, (crti_id_t){0}, 1); /* it may come again */
    expect(s, CRTI_LEASE_GIVE_BACK, 1);
}

static void a_request_of_another_node_runs_here_when_there_is_room(void **state)
{
    scene_t *s = *state;

    view(s, B, 64, 64);
    for (uint64_t n = 1; n <= 4;
         n++) { /* beyond half of this node, and B would be preferred */
        ask(s, n, 1, B, 1);
        expect(s, CRTI_LEASE_FIND_WORKER, n);
    }
    expect_nothing(s);
}

static void what_waits_for_another_node_goes_back_as_room_comes_elsewhere(void **state)
{
    scene_t *s = *state;
    crti_resources_t all = *crti_lease_table_available(s->table);

    view(s, B, 2, 0);
    assert_int_equal(crti_lease_table_take(s->table, id(90), id(90), &all), CRT_OK);
    for (uint64_t n = 1; n <= 4; n++)
        ask(s, n, 1, (crti_id_t){0}, 1);
    expect_nothing(s);
    view(s, B, 2, 1); /* one at a time, in their order */
    expect(s, CRTI_LEASE_GIVE_BACK, 1);
    expect_nothing(s);
    view(s, B, 2, 0);
    expect_nothing(s);
    crti_lease_table_give(s->table, id(90), s->now);
    for (uint64_t n = 2; n <= 4; n++)
        expect(s, CRTI_LEASE_FIND_WORKER, n);
    expect_nothing(s);
}

static void a_bounced_request_waits_here_at_its_old_place(void **state)
{
    scene_t *s = *state;

    view(s, B, 8, 8);
    ask(s, 1, 6, (crti_id_t){0}, 0);
    expect_forward(s, 1, B);
    ask(s, 2, 6, (crti_id_t){0}, 0);
    crti_lease_table_bounced(s->table, id(1), s->now);
    expect_nothing(s); /* not there again before the head says so */
    view(s, B, 8, 6);
    expect_forward(s, 1, B);
    expect_nothing(s);
    assert_int_equal(state_of(s, 2), CRTI_LEASE_WAITING);
}

/* It gave the CPU out and had it back before it told the head: no news comes of it. */
static void a_node_that_nothing_new_is_said_of_has_what_it_had(void **state)
{
    scene_t *s = *state;
    crti_resources_t one = cpus(1), all = *crti_lease_table_available(s->table);
    crti_lease_action_t action;

    assert_int_equal(crti_lease_table_take(s->table, id(98), id(98), &all), CRT_OK);
    crti_lease_table_view(s->table, B, "", &one, &one);
    ask(s, 1, 1, (crti_id_t){0}, 0);
    assert_true(next(s, &action));
    assert_int_equal(action.verb, CRTI_LEASE_FORWARD);
    crti_lease_table_end(s->table, id(1), s->now); /* granted there, used, given back */
    ask(s, 2, 1, (crti_id_t){0}, 0);
    assert_false(next(s, &action));
    assert_true(crti_lease_table_tick(s->table, s->now) <= s->now + CRTI_S);
    s->now += CRTI_S / 2;
    crti_lease_table_tick(s->table, s->now);
    assert_true(next(s, &action));
    assert_int_equal(action.verb, CRTI_LEASE_FORWARD);
    assert_true(crti_id_equal(action.lease, id(2)));
}

static void without_a_head_a_node_that_was_full_is_asked_all_the_same(void **state)
{
    scene_t *s = *state;
    crti_resources_t all = *crti_lease_table_available(s->table);

    assert_int_equal(crti_lease_table_take(s->table, id(98), id(98), &all), CRT_OK);
    view(s, B, 1, 0);
    ask(s, 1, 1, (crti_id_t){0}, 0);
    expect_nothing(s);
    crti_lease_table_head(s->table, true, s->now);
    expect_forward(s, 1, B);
    ask(s, 2, 1, (crti_id_t){0}, 0);
    expect_nothing(s); /* not all at once */
    s->now += CRTI_S / 2;
    crti_lease_table_tick(s->table, s->now);
    expect_forward(s, 2, B);
    ask(s, 3, 2, (crti_id_t){0}, 0);
    s->now += CRTI_S / 2;
    crti_lease_table_tick(s->table, s->now);
    expect_nothing(s); /* it never had so much */
    crti_lease_table_head(s->table, false, s->now);
    ask(s, 4, 1, (crti_id_t){0}, 0);
    expect_nothing(s);
}

static void what_was_sent_to_a_node_that_died_waits_here_again(void **state)
{
    scene_t *s = *state;

    view(s, B, 8, 8);
    ask(s, 1, 3, B, 0);
    expect_forward(s, 1, B);
    crti_lease_table_node_died(s->table, B, s->now);
    expect(s, CRTI_LEASE_FIND_WORKER, 1);
}

static void a_blocked_worker_lends_its_cpus_and_takes_them_back(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 4, SELF, 0);
    expect(s, CRTI_LEASE_FIND_WORKER, 1);
    crti_lease_table_granted(s->table, id(1), id(50), 0);
    ask(s, 2, 4, SELF, 0);
    expect_nothing(s);
    crti_lease_table_blocked(s->table, id(50), true, s->now);
    crti_lease_table_blocked(s->table, id(50), true, s->now);
    expect(s, CRTI_LEASE_FIND_WORKER, 2);
    crti_lease_table_blocked(s->table, id(50), false, s->now);
    assert_int_equal(free_cpus(s), -4);
    crti_lease_table_end(s->table, id(1), s->now);
    crti_lease_table_end(s->table, id(2), s->now);
    assert_int_equal(free_cpus(s), 4);
    crti_lease_table_blocked(s->table, id(99), true, s->now); /* unknown: ignored */
    assert_int_equal(free_cpus(s), 4);
}

static void a_lease_that_ends_while_blocked_gives_nothing_twice(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 4, SELF, 0);
    crti_lease_table_granted(s->table, id(1), id(50), 0);
    crti_lease_table_blocked(s->table, id(50), true, s->now);
    crti_lease_table_end(s->table, id(1), s->now);
    assert_int_equal(free_cpus(s), 4);
}

static void no_more_workers_than_allowed_even_without_cpus(void **state)
{
    scene_t *s = *state;
    crti_lease_action_t action;

    for (uint64_t n = 1; n <= 9; n++)
        ask(s, n, 0, SELF, 0);
    for (uint64_t n = 1; n <= 8; n++)
        expect(s, CRTI_LEASE_FIND_WORKER, n);
    expect_nothing(s);
    s->now += 2 * CRTI_S;
    crti_lease_table_tick(s->table, s->now);
    assert_true(next(s, &action));
    assert_string_equal(action.text,
                        "needs a worker, all 8 that the node may have are in use");
    crti_lease_table_end(s->table, id(1), s->now);
    expect(s, CRTI_LEASE_FIND_WORKER, 9);
}

static void actors_hold_resources_until_they_give_them_back(void **state)
{
    scene_t *s = *state;
    crti_resources_t need = cpus(3);

    assert_int_equal(crti_lease_table_take(s->table, id(1), id(1), &need), CRT_OK);
    assert_int_equal(crti_lease_table_take(s->table, id(1), id(1), &need),
                     CRT_ERR_EXISTS);
    assert_int_equal(crti_lease_table_take(s->table, id(2), id(2), &need),
                     CRT_ERR_BACKPRESSURE);
    assert_string_equal(crt_error_detail(), "needs 3 CPU, the node has 1 CPU free");
    ask(s, 5, 2, SELF, 0);
    expect_nothing(s);
    crti_lease_table_give(s->table, id(1), s->now);
    expect(s, CRTI_LEASE_FIND_WORKER, 5);
    crti_lease_table_give(s->table, id(1), s->now);
    assert_int_equal(free_cpus(s), 2);
}

static void
who_waits_hears_why_after_a_second_and_again_when_the_reason_changes(void **state)
{
    scene_t *s = *state;
    crti_lease_action_t action;
    uint64_t due;

    ask(s, 1, 10, SELF, 0);
    due = crti_lease_table_tick(s->table, s->now);
    assert_true(due == s->now + CRTI_S);
    expect_nothing(s);
    s->now = due;
    crti_lease_table_tick(s->table, s->now);
    assert_true(next(s, &action));
    assert_int_equal(action.verb, CRTI_LEASE_TELL);
    assert_string_equal(action.text, "needs 10 CPU, the cluster has 4 CPU");
    crti_lease_table_tick(s->table, s->now + CRTI_S);
    expect_nothing(s);
    view(s, B, 8, 0);
    crti_lease_table_tick(s->table, s->now + 2 * CRTI_S);
    assert_true(next(s, &action));
    assert_string_equal(action.text, "needs 10 CPU on one node, the largest has 8 CPU");
    view(s, B, 16, 0);
    crti_lease_table_tick(s->table, s->now + 3 * CRTI_S);
    assert_true(next(s, &action));
    assert_string_equal(action.text, "needs 10 CPU, all in use");
}

static void a_resource_that_no_node_has_is_named(void **state)
{
    scene_t *s = *state;
    crti_lease_t lease = {.id = id(1), .owner_node = SELF};
    crti_lease_action_t action;

    crti_resources_set(&lease.resources, "quantum", 5000);
    crti_lease_table_request(s->table, &lease, s->now);
    crti_lease_table_tick(s->table, s->now + CRTI_S);
    assert_true(next(s, &action));
    assert_string_equal(
        action.text,
        "needs 0.5 quantum, the cluster has 0 quantum, which no node has ever "
        "had");
}

static void a_lease_ends_cleanly_in_every_state(void **state)
{
    scene_t *s = *state;

    view(s, B, 64, 64);
    ask(s, 1, 2, SELF, 0); /* STARTING */
    ask(s, 2, 2, SELF, 0); /* GRANTED */
    crti_lease_table_granted(s->table, id(2), id(50), 0);
    ask(s, 3, 9, SELF, 0);  /* SPILLBACK */
    ask(s, 4, 99, SELF, 0); /* WAITING */
    assert_int_equal(state_of(s, 1), CRTI_LEASE_STARTING);
    assert_int_equal(state_of(s, 2), CRTI_LEASE_GRANTED);
    assert_int_equal(state_of(s, 3), CRTI_LEASE_SPILLBACK);
    assert_int_equal(state_of(s, 4), CRTI_LEASE_WAITING);
    for (uint64_t n = 1; n <= 4; n++)
        assert_true(crti_lease_table_end(s->table, id(n), s->now));
    assert_int_equal(free_cpus(s), 4);
    assert_int_equal(waiting(s), 0);
    assert_false(crti_lease_table_granted(s->table, id(1), id(51), 0));
    crti_lease_table_bounced(s->table, id(3), s->now);
}

static void whatever_happens_the_resources_add_up(void **state)
{
    scene_t *s = *state;
    unsigned random = 1;

    for (int i = 0; i < 20000; i++) {
        const crti_lease_t *lease;
        crti_lease_action_t action;
        int64_t held = 0;
        size_t cursor = 0;
        uint64_t n;

        random = random * 1103515245 + 12345;
        n = random >> 16 & 31;
        switch (random >> 24 & 7) {
        case 0:
        case 1: ask(s, n, (double)(n % 5), n % 3 ? SELF : B, n % 6 == 5); break;
        case 2: crti_lease_table_end(s->table, id(n), s->now); break;
        case 3: crti_lease_table_granted(s->table, id(n), id(100 + n), 0); break;
        case 4: crti_lease_table_blocked(s->table, id(100 + n), n & 1, s->now); break;
        case 5: crti_lease_table_bounced(s->table, id(n), s->now); break;
        case 6: view(s, n & 1 ? B : C, 8, n % 9); break;
        case 7: crti_lease_table_node_died(s->table, n & 1 ? B : C, s->now); break;
        }
        s->now += 100 * CRTI_MS;
        crti_lease_table_tick(s->table, s->now);
        while (crti_lease_table_action(s->table, &action))
            continue;
        while ((lease = crti_lease_table_next(s->table, &cursor)) != NULL)
            if ((lease->state == CRTI_LEASE_STARTING ||
                 lease->state == CRTI_LEASE_GRANTED) &&
                !lease->is_blocked)
                held += crti_resources_get(&lease->resources, "CPU");
        assert_int_equal(
            held + crti_resources_get(crti_lease_table_available(s->table), "CPU"),
            40000);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, scene_teardown)

static double cpu_seconds(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* Each of them would be looked at for each node, whenever anything happens. */
static void thousands_may_wait_in_a_cluster_of_a_thousand_nodes(void **state)
{
    enum { NODES = 1000, REQUESTS = 2000, TURNS = 100 };
    scene_t *s = *state;
    double since = cpu_seconds();
    crti_lease_action_t action;
    unsigned told = 0;

    for (uint64_t i = 0; i < NODES; i++)
        view(s, (crti_id_t){5, i}, 4, 0);
    for (uint64_t i = 0; i < REQUESTS; i++)
        ask(s, i, (double)(i % 3 + 1), (crti_id_t){0}, 0);
    while (next(s, &action))
        ;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        s->now += 20 * CRTI_MS;
        crti_lease_table_tick(s->table, s->now);
        while (next(s, &action))
            told += action.verb == CRTI_LEASE_TELL;
    }
    assert_int_equal(told, waiting(s)); /* each hears it once */
    assert_in_range(told, REQUESTS - 4, REQUESTS);
    assert_true(cpu_seconds() - since < 10);
}

static void less_than_nothing_is_not_given_out(void **state)
{
    scene_t *s = *state;
    crti_lease_t lease = {.id = id(1), .owner_node = SELF, .resources = cpus(-100)};
    crti_resources_t have = *crti_lease_table_available(s->table);

    assert_int_equal(crti_lease_table_request(s->table, &lease, s->now), CRT_ERR_INVALID);
    assert_int_equal(crti_lease_table_take(s->table, id(2), id(2), &lease.resources),
                     CRT_ERR_INVALID);
    expect_nothing(s);
    assert_true(crti_resources_equal(crti_lease_table_available(s->table), &have));
}

static void nodes_with_all_that_can_be_are_compared_without_overflow(void **state)
{
    scene_t *s = *state;
    crti_resources_t all = {.count = 1, .item = {{"CPU", CRTI_RESOURCE_MAX}}};
    crti_resources_t none = {.count = 1, .item = {{"CPU", -CRTI_RESOURCE_MAX}}};
    crti_resources_t one = {.count = 1, .item = {{"CPU", 1}}};
    crti_lease_t lease = {.id = id(1), .owner_node = SELF, .resources = all};

    for (uint64_t n = 2; n < 2000; n++)
        assert_int_equal(crti_lease_table_view(s->table, (crti_id_t){0, n}, "",
                                               n & 1 ? &all : &one, &none),
                         CRT_OK);
    assert_int_equal(crti_lease_table_request(s->table, &lease, s->now), CRT_OK);
    s->now += 2 * CRTI_S;
    crti_lease_table_tick(s->table, s->now); /* says what the cluster has */
    expect(s, CRTI_LEASE_TELL, 1);
    crti_lease_table_view(s->table, B, "", &one, &one);
    crti_lease_table_view_room(s->table, B, &all);
    crti_lease_table_serve(s->table, s->now);
    expect_forward(s, 1, B);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_with_room_starts_is_granted_and_gives_its_resources_back),
        TEST(the_same_request_again_changes_nothing),
        TEST(requests_wait_in_order_and_smaller_ones_may_pass),
        TEST(a_request_that_waited_long_is_passed_no_more),
        TEST(a_request_that_can_never_fit_here_does_not_close_the_node),
        TEST(work_packs_here_until_half_full_then_spreads_to_the_emptiest),
        TEST(the_node_that_holds_the_arguments_is_preferred_when_it_has_room),
        TEST(a_request_of_another_node_is_given_back_rather_than_sent_on),
        TEST(a_request_of_another_node_runs_here_when_there_is_room),
        TEST(what_waits_for_another_node_goes_back_as_room_comes_elsewhere),
        TEST(a_bounced_request_waits_here_at_its_old_place),
        TEST(a_node_that_nothing_new_is_said_of_has_what_it_had),
        TEST(without_a_head_a_node_that_was_full_is_asked_all_the_same),
        TEST(what_was_sent_to_a_node_that_died_waits_here_again),
        TEST(a_blocked_worker_lends_its_cpus_and_takes_them_back),
        TEST(a_lease_that_ends_while_blocked_gives_nothing_twice),
        TEST(no_more_workers_than_allowed_even_without_cpus),
        TEST(actors_hold_resources_until_they_give_them_back),
        TEST(who_waits_hears_why_after_a_second_and_again_when_the_reason_changes),
        TEST(a_resource_that_no_node_has_is_named),
        TEST(a_lease_ends_cleanly_in_every_state),
        TEST(whatever_happens_the_resources_add_up),
        TEST(less_than_nothing_is_not_given_out),
        TEST(nodes_with_all_that_can_be_are_compared_without_overflow),
        TEST(thousands_may_wait_in_a_cluster_of_a_thousand_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
