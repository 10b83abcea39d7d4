/* SPDX-License-Identifier: Apache-2.0 */
/* What the actors that wait for room cost, and what room they find. The linker gives us the looks
 * for a place, to count them. */
#include <string.h>

#include "runtime/control/placement/placement.h"
#include "tests/control/control_test.h"

#define WAITING 100

typedef const crti_placement_node_t *pick_t(const crti_placement_index_t *index,
                                            const crti_resources_t *need,
                                            crti_id_t prefer,
                                            const crti_scheduling_t *how);

pick_t __real_crti_placement_pick, __wrap_crti_placement_pick;

static size_t looks;

const crti_placement_node_t *
__wrap_crti_placement_pick(const crti_placement_index_t *index,
                           const crti_resources_t *need, crti_id_t prefer,
                           const crti_scheduling_t *how)
{
    looks++;
    return __real_crti_placement_pick(index, need, prefer, how);
}

static void create(bed_t *bed, uint64_t actor, double cpus)
{
    crti_msg_actor_create_t m = bed_actor(actor, 5, "");

    crti_resources_set(&m.resources, "CPU", (int64_t)(cpus * CRTI_RESOURCE_ONE));
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
}

/* Each of another shape, so that a look at one says nothing of the next. */
static void fill(bed_t *bed)
{
    for (uint64_t i = 0; i < WAITING; i++)
        create(bed, 100 + i, 1000 + WAITING - (double)i);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_ACTOR_START), 0);
}

static void a_new_actor_costs_one_look_however_many_wait(void **state)
{
    bed_t *bed = *state;

    fill(bed);
    assert_int_equal(looks, WAITING);
    looks = 0;
    create(bed, 50, 1);
    create(bed, 51, 1);
    assert_int_equal(bed_count(bed, NODE_A, CRTI_MSG_ACTOR_START), 2);
    assert_int_equal(looks, 2);
}

static void room_that_comes_is_offered_to_all_that_wait(void **state)
{
    bed_t *bed = *state;

    fill(bed);
    looks = 0;
    bed_join(bed, NODE_B, 2, 1, 1001, NULL, NULL);
    assert_true(looks >= WAITING);
    assert_int_equal(bed_count(bed, NODE_B, CRTI_MSG_ACTOR_START), 1); /* the smallest */
}

static void create_or_fail(bed_t *bed, uint64_t actor, double cpus)
{
    crti_msg_actor_create_t m = bed_actor(actor, 5, "");

    m.if_infeasible = CRTI_INFEASIBLE_FAILS;
    crti_resources_set(&m.resources, "CPU", (int64_t)(cpus * CRTI_RESOURCE_ONE));
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_WATCH, actor,
            &(crti_msg_actor_watch_t){.actor = m.actor});
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
}

static const crti_msg_actor_state_t *last_state(bed_t *bed)
{
    const crti_message_t *m, *last = NULL;

    while ((m = bed_next(bed, NODE_A, CRTI_MSG_ACTOR_STATE)))
        last = m;
    assert_non_null(last);
    return &last->actor_state;
}

static void an_actor_that_no_node_can_hold_is_dead_when_it_asked_for_that(void **state)
{
    bed_t *bed = *state;
    const crti_msg_actor_state_t *actor;

    create_or_fail(bed, 50, 5);
    actor = last_state(bed);
    assert_int_equal(actor->state, CRTI_ACTOR_DEAD);
    assert_int_equal(actor->status, CRT_ERR_UNSCHEDULABLE);
    assert_true(crti_str_equal(actor->text, "needs 5 CPU, the cluster has 4"));
}

static void
an_actor_whose_only_node_dies_before_it_had_room_is_dead_when_it_asked_for_that(
    void **state)
{
    bed_t *bed = *state;

    bed_join(bed, NODE_B, 2, 1, 8, NULL, NULL);
    create(bed, 50, 8);
    create_or_fail(bed, 51, 8); /* busy is not infeasible */
    assert_int_equal(last_state(bed)->state, CRTI_ACTOR_PENDING);
    bed_say(bed, NODE_B, CRTI_MSG_NODE_LEAVE, 0,
            &(crti_msg_node_leave_t){.text = crti_str("stopped")});
    assert_int_equal(last_state(bed)->status, CRT_ERR_UNSCHEDULABLE);
}

static void
an_actor_for_a_node_that_is_none_is_dead_and_a_bad_selector_is_refused(void **state)
{
    bed_t *bed = *state;
    crti_msg_actor_create_t m = bed_actor(50, 5, "");

    m.strategy = CRTI_STRATEGY_AFFINITY;
    m.affinity = bed_id(77);
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_WATCH, 50,
            &(crti_msg_actor_watch_t){.actor = m.actor});
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 1, &m);
    assert_int_equal(last_state(bed)->status, CRT_ERR_UNSCHEDULABLE);
    m = bed_actor(51, 5, "");
    m.selector = crti_str("zone=in(");
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 2, &m);
    assert_int_equal(bed_next(bed, NODE_A, CRTI_MSG_ERROR)->error.status,
                     CRT_ERR_INVALID);
    m.selector = crti_str("");
    m.strategy = 17;
    bed_say(bed, NODE_A, CRTI_MSG_ACTOR_CREATE, 3, &m);
    assert_int_equal(bed_next(bed, NODE_A, CRTI_MSG_ERROR)->error.status,
                     CRT_ERR_INVALID);
}

/* What the command shows of an actor that waits for more than there is. */
static void room_is_counted(bed_t *bed, const char *reason)
{
    crti_msg_state_query_t query = {.what = crti_str("cluster"), .filter = crti_str("")};
    const crti_message_t *m;
    static char text[400000];

    create(bed, 51, 1000);
    bed_say(bed, ADMIN, CRTI_MSG_STATE_QUERY, 1, &query);
    m = bed_next(bed, ADMIN, CRTI_MSG_STATE_ANSWER);
    assert_non_null(m);
    assert_non_null(strstr(crti_text(m->state_answer.json, text, sizeof(text)), reason));
}

static void the_only_node_with_room_is_found_among_hundreds(void **state)
{
    enum { NODES = 300 };
    bed_t *bed = *state;

    for (uint64_t i = 1; i < NODES; i++) {
        bed_join(bed, 1000 + i, 1000 + i, 1, i == NODES - 1 ? 64 : 1, NULL, NULL);
        bed_forget(bed);
    }
    create(bed, 50, 32);
    assert_int_equal(bed_count(bed, 1000 + NODES - 1, CRTI_MSG_ACTOR_START), 1);
    room_is_counted(bed, "needs 1000 CPU, the cluster has 366"); /* 4 + 298 + 64 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(a_new_actor_costs_one_look_however_many_wait),
        CONTROL_TEST(room_that_comes_is_offered_to_all_that_wait),
        CONTROL_TEST(an_actor_that_no_node_can_hold_is_dead_when_it_asked_for_that),
        CONTROL_TEST(
            an_actor_whose_only_node_dies_before_it_had_room_is_dead_when_it_asked_for_that),
        CONTROL_TEST(
            an_actor_for_a_node_that_is_none_is_dead_and_a_bad_selector_is_refused),
        CONTROL_TEST(the_only_node_with_room_is_found_among_hundreds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
