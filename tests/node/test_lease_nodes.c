/* SPDX-License-Identifier: Apache-2.0 */
/* On which node a request runs that says so: SPREAD, affinity, labels. */
#include "runtime/node/leases/lease_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"

#include <cmocka.h>

#define SELF ((crti_id_t){0, 5})
#define B    ((crti_id_t){0, 2})
#define C    ((crti_id_t){0, 9})
#define NONE 0
#define GONE 99

typedef struct scene {
    crti_lease_table_t *table;
    uint64_t now, leases;
    char refusal[160];
} scene_t;

static crti_resources_t cpus(int64_t count)
{
    crti_resources_t r = {0};

    assert_int_equal(crti_resources_set(&r, "CPU", count * CRTI_RESOURCE_ONE), CRT_OK);
    return r;
}

static void view(scene_t *s, crti_id_t node, const char *labels, int64_t all,
                 int64_t available)
{
    crti_resources_t has = cpus(all), left = cpus(available);

    assert_int_equal(crti_lease_table_view(s->table, node, labels, &has, &left), CRT_OK);
    crti_lease_table_serve(s->table, s->now);
}

static int setup(void **state)
{
    scene_t *s = calloc(1, sizeof(*s));
    crti_resources_t have = cpus(4);

    s->now = 100 * CRTI_S;
    assert_int_equal(crti_lease_table_new(SELF, &have, 100, &s->table), CRT_OK);
    crti_lease_table_labels(s->table, "zone=a");
    view(s, B, "zone=b,disk=ssd", 4, 4);
    view(s, C, "zone=c", 4, 4);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    scene_t *s = *state;

    crti_lease_table_free(s->table);
    free(s);
    return 0;
}

/* Where the request goes: the low half of the node's id, NONE when it waits, GONE when it is
 * refused. */
static uint64_t ask(scene_t *s, int64_t count, crti_scheduling_t how)
{
    crti_lease_t lease = {
        .id = {1, ++s->leases}, .owner_node = SELF, .resources = cpus(count), .how = how};
    crti_lease_action_t action;
    uint64_t where = NONE;

    assert_int_equal(crti_lease_table_request(s->table, &lease, s->now), CRT_OK);
    while (crti_lease_table_action(s->table, &action)) {
        if (action.verb == CRTI_LEASE_FIND_WORKER)
            where = SELF.low;
        if (action.verb == CRTI_LEASE_FORWARD)
            where = action.node.low;
        if (action.verb == CRTI_LEASE_REFUSE) {
            where = GONE;
            memcpy(s->refusal, action.text, sizeof(s->refusal));
        }
    }
    return where;
}

static crti_scheduling_t affinity(crti_id_t node, bool is_soft)
{
    return (crti_scheduling_t){
        .strategy = CRTI_STRATEGY_AFFINITY, .node = node, .is_soft = is_soft};
}

static crti_scheduling_t select_by(const char *selector)
{
    crti_scheduling_t how = {.strategy = CRTI_STRATEGY_DEFAULT};

    snprintf(how.selector, sizeof(how.selector), "%s", selector);
    return how;
}

static void spread_takes_one_node_after_the_other(void **state)
{
    scene_t *s = *state;
    crti_scheduling_t spread = {.strategy = CRTI_STRATEGY_SPREAD};
    const uint64_t order[] = {2, 5, 9};

    for (int i = 0; i < 12; i++)
        assert_int_equal(ask(s, 1, spread), order[i % 3]);
    assert_int_equal(ask(s, 1, spread), NONE);
    view(s, C, "", 4, 1);
    crti_lease_table_end(s->table, (crti_id_t){1, s->leases}, s->now);
    view(s, C, "", 4, 1);
    assert_int_equal(ask(s, 1, spread), 9); /* those without room are left out */
}

static void affinity_goes_to_its_node_and_waits_for_it(void **state)
{
    scene_t *s = *state;

    assert_int_equal(ask(s, 4, affinity(C, false)), 9);
    assert_int_equal(ask(s, 1, affinity(C, false)), NONE);
    assert_int_equal(ask(s, 1, affinity(C, true)), NONE); /* busy is not gone */
    assert_int_equal(ask(s, 1, affinity(SELF, false)), 5);
}

static void
affinity_to_a_node_that_can_never_serve_it_fails_unless_it_is_soft(void **state)
{
    scene_t *s = *state;
    crti_id_t unknown = {0xabcd123400000000, 7};

    assert_int_equal(ask(s, 1, affinity(unknown, false)), GONE);
    assert_string_equal(s->refusal, "needs 1 CPU on node abcd1234, and there is none");
    assert_int_equal(ask(s, 5, affinity(B, false)), GONE);
    assert_int_equal(ask(s, 1, affinity(unknown, true)), 5);
    assert_int_equal(ask(s, 4, affinity(B, false)), 2);
    assert_int_equal(ask(s, 1, affinity(B, false)), NONE);
    crti_lease_table_node_died(s->table, B, s->now);
    assert_int_equal(crti_lease_table_waiting(s->table), 0);
}

static void a_selector_goes_to_a_node_with_these_labels(void **state)
{
    scene_t *s = *state;

    assert_int_equal(ask(s, 1, select_by("zone=b")), 2);
    assert_int_equal(ask(s, 1, select_by("zone=in(a,x)")), 5);
    assert_int_equal(ask(s, 1, select_by("zone=!in(a,b)")), 9);
    assert_int_equal(ask(s, 1, select_by("disk=ssd,zone=c")), NONE);
    view(s, C, "zone=c,disk=ssd", 4,
         4); /* a request that waits is served by a label that comes */
    assert_int_equal(crti_lease_table_waiting(s->table), 0);
}

static void a_selector_falls_back_when_there_is_no_room(void **state)
{
    scene_t *s = *state;

    assert_int_equal(ask(s, 3, select_by("zone=b;zone=c")), 2);
    assert_int_equal(ask(s, 3, select_by("zone=b;zone=c")), 9);
    assert_int_equal(ask(s, 3, select_by("zone=b;zone=c")), NONE);
    assert_int_equal(ask(s, 3, select_by("zone=b;zone=c;*")), 5);
}

static void one_that_waits_for_labels_holds_up_nobody_of_another_shape(void **state)
{
    scene_t *s = *state;

    assert_int_equal(ask(s, 1, select_by("zone=x")), NONE);
    assert_int_equal(ask(s, 1, select_by("zone=x")), NONE);
    s->now += 10 * CRTI_S;
    assert_int_equal(ask(s, 1, select_by("zone=a")), 5);
    assert_int_equal(ask(s, 1, (crti_scheduling_t){0}), 5);
}

static void who_waits_for_labels_hears_so(void **state)
{
    scene_t *s = *state;
    crti_lease_action_t action;

    assert_int_equal(ask(s, 1, select_by("zone=x")), NONE);
    crti_lease_table_tick(s->table, s->now + CRTI_S);
    assert_true(crti_lease_table_action(s->table, &action));
    assert_string_equal(action.text,
                        "needs 1 CPU on a node with zone=x, and there is none");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(spread_takes_one_node_after_the_other),
        TEST(affinity_goes_to_its_node_and_waits_for_it),
        TEST(affinity_to_a_node_that_can_never_serve_it_fails_unless_it_is_soft),
        TEST(a_selector_goes_to_a_node_with_these_labels),
        TEST(a_selector_falls_back_when_there_is_no_room),
        TEST(one_that_waits_for_labels_holds_up_nobody_of_another_shape),
        TEST(who_waits_for_labels_hears_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
