/* SPDX-License-Identifier: Apache-2.0 */
/* Which node gets an actor, and what is said when none can. */
#include "runtime/control/placement/placement.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT 3

typedef struct cluster {
    crti_resources_t total[COUNT], available[COUNT];
    crti_placement_node_t nodes[COUNT];
    crti_placement_slot_t slots[COUNT];
} cluster_t;

/* Nodes 1, 2, 3 with what the texts say. */
static void make(cluster_t *c, const char *const total[COUNT],
                 const char *const available[COUNT])
{
    memset(c, 0, sizeof(*c));
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(crti_resources_parse(total[i], &c->total[i]), CRT_OK);
        assert_int_equal(crti_resources_parse(available[i], &c->available[i]), CRT_OK);
        c->nodes[i] = (crti_placement_node_t){.node = {0, (uint64_t)i + 1},
                                              .total = &c->total[i],
                                              .labels = "",
                                              .available = &c->available[i]};
    }
}

static crti_placement_index_t index_of(cluster_t *c, size_t count)
{
    crti_placement_index_t index = {.root = NULL};

    memset(c->slots, 0, sizeof(c->slots));
    for (size_t i = 0; i < count; i++)
        crti_placement_index_set(&index, &c->slots[i], &c->nodes[i]);
    return index;
}

static int pick_as(cluster_t *c, const char *need, uint64_t prefer,
                   const crti_scheduling_t *how)
{
    crti_placement_index_t index = index_of(c, COUNT);
    const crti_placement_node_t *best;
    crti_resources_t r = {0};

    assert_int_equal(crti_resources_parse(need, &r), CRT_OK);
    best = crti_placement_pick(&index, &r, (crti_id_t){0, prefer}, how);
    return best ? (int)best->node.low - 1 : -1;
}

static int pick(cluster_t *c, const char *need, uint64_t prefer)
{
    return pick_as(c, need, prefer, &crti_scheduling_default);
}

static const char *reason(cluster_t *c, size_t count, const char *need)
{
    static char text[200];
    crti_placement_index_t index = index_of(c, count);
    crti_resource_names_t names = {0};
    crti_resources_t r = {0};

    for (size_t i = 0; i < count; i++)
        crti_resource_names_note(&names, c->nodes[i].total);
    assert_int_equal(crti_resources_parse(need, &r), CRT_OK);
    return crti_placement_reason(&index, &r, &crti_scheduling_default, &names, text,
                                 sizeof(text));
}

static const char *const eight[COUNT] = {"CPU=8", "CPU=8", "CPU=8"};

static void nodes_are_packed_until_half_full_then_the_emptiest_is_taken(void **state)
{
    cluster_t c;
    int order[12];

    make(&c, eight, eight);
    for (int i = 0; i < 12; i++) {
        order[i] = pick(&c, "CPU=1", 0);
        assert_in_range(order[i], 0, COUNT - 1);
        c.available[order[i]].item[0].amount -= CRTI_RESOURCE_ONE;
    }
    for (int i = 0; i < 12; i++)
        assert_int_equal(order[i], i / 4); /* four of eight on each */
    for (int i = 0; i < 12; i++) {
        int at = pick(&c, "CPU=1", 0);

        assert_int_equal(at, i % COUNT); /* one after the other */
        c.available[at].item[0].amount -= CRTI_RESOURCE_ONE;
    }
    assert_int_equal(pick(&c, "CPU=1", 0), -1);
}

static void the_preferred_node_wins_while_it_is_at_most_half_full(void **state)
{
    const char *const third_full[COUNT] = {"CPU=8", "CPU=8", "CPU=3"};
    cluster_t c;

    make(&c, eight, eight);
    assert_int_equal(pick(&c, "CPU=1", 3), 2);
    assert_int_equal(pick(&c, "CPU=4", 3), 2);
    make(&c, eight, third_full);
    assert_int_equal(pick(&c, "CPU=1", 3), 0);
}

static void actors_that_need_nothing_spread_too(void **state)
{
    cluster_t c;
    unsigned counts[COUNT] = {0};

    make(&c, eight, eight);
    for (int i = 0; i < 300; i++) {
        int at = pick(&c, "", 0);

        assert_in_range(at, 0, COUNT - 1);
        counts[at]++;
        c.nodes[at].idle_actors++;
    }
    for (int i = 0; i < COUNT; i++)
        assert_in_range(counts[i], 90, 110);
}

static void every_named_resource_counts(void **state)
{
    const char *const mixed[COUNT] = {"CPU=8", "CPU=8,gpu=1", "CPU=1,gpu=4"};
    cluster_t c;

    make(&c, mixed, mixed);
    assert_int_equal(pick(&c, "CPU=2,gpu=1", 0), 1);
    assert_int_equal(pick(&c, "gpu=2", 0), 2);
    assert_int_equal(pick(&c, "CPU=2,gpu=2", 0), -1);
    assert_int_equal(pick(&c, "tpu=0.0001", 0), -1);
}

static int pick_how(cluster_t *c, const char *need, crti_scheduling_t how)
{
    return pick_as(c, need, 0, &how);
}

static void spread_takes_the_emptiest_node_at_once(void **state)
{
    crti_scheduling_t how = {.strategy = CRTI_STRATEGY_SPREAD};
    cluster_t c;

    make(&c, eight, eight);
    for (int i = 0; i < 6; i++) {
        int at = pick_how(&c, "CPU=1", how);

        assert_int_equal(at, i % COUNT);
        c.available[at].item[0].amount -= CRTI_RESOURCE_ONE;
    }
}

static void affinity_takes_its_node_or_none_and_when_soft_another_that_could(void **state)
{
    const char *const two[COUNT] = {"CPU=8", "CPU=2", "CPU=8"};
    const char *const busy[COUNT] = {"CPU=8", "CPU=0", "CPU=8"};
    crti_scheduling_t how = {.strategy = CRTI_STRATEGY_AFFINITY, .node = {0, 2}};
    cluster_t c;

    make(&c, two, busy);
    assert_int_equal(pick_how(&c, "CPU=1", how), -1);
    how.is_soft = true;
    assert_int_equal(pick_how(&c, "CPU=1", how), -1); /* busy is not gone */
    assert_int_equal(pick_how(&c, "CPU=4", how), 0);  /* it could never serve that */
    how.node.low = 9;
    assert_int_equal(pick_how(&c, "CPU=1", how), 0);
    how.is_soft = false;
    assert_int_equal(pick_how(&c, "CPU=1", how), -1);
}

static void a_selector_takes_nodes_by_their_labels_and_falls_back(void **state)
{
    crti_scheduling_t how = {.selector = "zone=b;zone=c"};
    cluster_t c;

    make(&c, eight, eight);
    c.nodes[0].labels = "zone=a";
    c.nodes[1].labels = "zone=b";
    c.nodes[2].labels = "zone=c";
    assert_int_equal(pick_how(&c, "CPU=1", how), 1);
    c.available[1].item[0].amount = 0;
    assert_int_equal(pick_how(&c, "CPU=1", how), 2);
    c.available[2].item[0].amount = 0;
    assert_int_equal(pick_how(&c, "CPU=1", how), -1);
}

static void the_reason_names_what_is_missing(void **state)
{
    const char *const total[COUNT] = {"CPU=2", "CPU=1,gpu=1", "CPU=1"};
    const char *const some[COUNT] = {"CPU=0.5", "CPU=1,gpu=1", "CPU=0.5"};
    cluster_t c;

    make(&c, total, some);
    assert_string_equal(reason(&c, 0, "CPU=1"), "the cluster has no node");
    assert_string_equal(reason(&c, 1, "CPU=3"), "needs 3 CPU, the cluster has 2");
    assert_string_equal(reason(&c, COUNT, "CPU=5"), "needs 5 CPU, the cluster has 4");
    assert_string_equal(reason(&c, COUNT, "CPU=3"),
                        "needs 3 CPU on one node, the largest has 2");
    assert_string_equal(reason(&c, COUNT, "CPU=1.5"),
                        "needs 1.5 CPU, at most 1 of 2 are free on a node");
    assert_string_equal(reason(&c, COUNT, "tpu=1"),
                        "needs 1 tpu, the cluster has 0, which no node has ever had; the "
                        "nearest name is CPU");
    make(&c, total, total);
    assert_string_equal(reason(&c, COUNT, "CPU=2,gpu=1"),
                        "needs 2 CPU, 1 GPU, no node has all of it free");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_packed_until_half_full_then_the_emptiest_is_taken),
        cmocka_unit_test(the_preferred_node_wins_while_it_is_at_most_half_full),
        cmocka_unit_test(actors_that_need_nothing_spread_too),
        cmocka_unit_test(every_named_resource_counts),
        cmocka_unit_test(spread_takes_the_emptiest_node_at_once),
        cmocka_unit_test(
            affinity_takes_its_node_or_none_and_when_soft_another_that_could),
        cmocka_unit_test(a_selector_takes_nodes_by_their_labels_and_falls_back),
        cmocka_unit_test(the_reason_names_what_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
