/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of requests that wait, and which of them do not wait. */
#include "runtime/node/leases/lease_reason.h"

#include "lease_scene.h"

#define B ((crti_id_t){0, 2})

static crti_id_t id(uint64_t number)
{
    return (crti_id_t){number << 32, number}; /* its first digits are shown */
}

static int setup(void **state)
{
    return scene_setup(state, "CPU=4,disk=2");
}

static void ask(scene_t *s, uint64_t lease, uint64_t job, const char *need, bool fails)
{
    crti_lease_t request = {.id = id(lease),
                            .job = id(job),
                            .owner = id(job),
                            .owner_node = SELF,
                            .resources = resources_of(need),
                            .fails_if_infeasible = fails};

    assert_int_equal(crti_lease_table_request(s->table, &request, s->now), CRT_OK);
    (void)crti_lease_table_granted(s->table, id(lease), id(100 + lease), s->now);
}

static void view(scene_t *s, const char *resources)
{
    crti_resources_t r = resources_of(resources), none = {0};

    assert_int_equal(crti_lease_table_view(s->table, B, "", &r, &none), CRT_OK);
    crti_lease_table_serve(s->table, s->now);
}

static const char *reason(scene_t *s, uint64_t lease)
{
    static char text[160];

    crti_lease_reason(s->table, crti_lease_table_get(s->table, id(lease)), text,
                      sizeof(text));
    return text;
}

/* The text of the refusal that comes next, NULL: none. */
static const char *refusal(scene_t *s, uint64_t lease)
{
    static crti_lease_action_t action;

    while (crti_lease_table_action(s->table, &action))
        if (action.verb == CRTI_LEASE_REFUSE) {
            assert_true(crti_id_equal(action.lease, id(lease)));
            assert_null(crti_lease_table_get(s->table, id(lease)));
            return action.text;
        }
    return NULL;
}

static void who_holds_what_is_told_the_largest_holder_first(void **state)
{
    scene_t *s = *state;
    crti_resources_t disk = resources_of("disk=2");

    ask(s, 1, 0xaa, "CPU=1", false);
    ask(s, 2, 0xbb, "CPU=2", false);
    ask(s, 3, 0xcc, "CPU=2", false);
    assert_string_equal(reason(s, 3),
                        "needs 2 CPU, held by job 000000bb: 2 CPU, job 000000aa: 1 CPU");
    crti_lease_table_blocked(s->table, id(102), true, s->now);
    ask(s, 4, 0xdd, "CPU=4", false);
    assert_string_equal(reason(s, 4), /* what waits in a get has lent its CPUs */
                        "needs 4 CPU, held by job 000000cc: 2 CPU, job 000000aa: 1 CPU");
    assert_int_equal(crti_lease_table_take(s->table, id(9), id(0xee), &disk), CRT_OK);
    ask(s, 5, 0xdd, "disk=1", false);
    assert_string_equal(reason(s, 5), "needs 1 disk, held by job 000000ee: 2 disk");
}

static void no_more_than_three_holders_are_told(void **state)
{
    scene_t *s = *state;

    for (uint64_t job = 1; job <= 4; job++)
        ask(s, job, job, "CPU=1", false);
    ask(s, 9, 9, "CPU=1", false);
    assert_string_equal(reason(s, 9), "needs 1 CPU, held by job 00000001: 1 CPU, job "
                                      "00000002: 1 CPU, job 00000003: 1 CPU");
}

static void
who_waits_is_told_again_of_another_reason_and_not_of_other_holders(void **state)
{
    assert_false(crti_lease_reason_is_new("needs 1 CPU, held by job aa: 1 CPU",
                                          "needs 1 CPU, held by job bb: 1 CPU"));
    assert_true(crti_lease_reason_is_new("needs 2 CPU, held by job aa: 1 CPU",
                                         "needs 1 CPU, held by job aa: 1 CPU"));
    assert_true(crti_lease_reason_is_new("needs 1 CPU, all in use",
                                         "needs 1 CPU, held by job aa: 1 CPU"));
    assert_true(crti_lease_reason_is_new("needs 1 CPU, all in use", ""));
}

static void what_only_another_node_could_serve_is_not_told_of_this_one(void **state)
{
    scene_t *s = *state;

    view(s, "CPU=8");
    ask(s, 1, 1, "CPU=4", false);
    ask(s, 2, 2, "CPU=8", false);
    assert_string_equal(reason(s, 2), "needs 8 CPU, all in use");
}

static void a_name_that_no_node_ever_had_is_told_with_the_nearest_one(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 1, "dsik=0.5", false);
    assert_string_equal(reason(s, 1),
                        "needs 0.5 dsik, the cluster has 0 dsik, which no node has ever "
                        "had; the nearest name is disk");
    ask(s, 2, 1, "tape=1", false);
    assert_string_equal(
        reason(s, 2), "needs 1 tape, the cluster has 0 tape, which no node has ever had");
    view(s, "tape=1");
    crti_lease_table_node_died(s->table, B, s->now);
    assert_string_equal(reason(s, 2), "needs 1 tape, the cluster has 0 tape");
}

static void what_no_node_has_is_refused_at_once_when_it_asked_for_that(void **state)
{
    scene_t *s = *state;

    ask(s, 1, 1, "CPU=5", false);
    assert_null(refusal(s, 1));
    ask(s, 2, 1, "CPU=5", true);
    assert_string_equal(refusal(s, 2), "needs 5 CPU, the cluster has 4 CPU");
    ask(s, 3, 1, "CPU=4", true);
    ask(s, 4, 1, "CPU=4", true); /* busy is not infeasible */
    assert_null(refusal(s, 4));
    assert_int_equal(crti_lease_table_waiting(s->table), 2);
}

static void
what_another_node_has_waits_for_it_and_is_refused_when_that_node_dies(void **state)
{
    scene_t *s = *state;

    view(s, "CPU=5");
    ask(s, 1, 1, "CPU=5", true);
    assert_null(refusal(s, 1));
    crti_lease_table_node_died(s->table, B, s->now);
    assert_string_equal(refusal(s, 1), "needs 5 CPU, the cluster has 4 CPU");
    assert_int_equal(crti_lease_table_waiting(s->table), 0);
}

static void nothing_is_infeasible_while_the_head_is_away(void **state)
{
    scene_t *s = *state;

    crti_lease_table_head(s->table, true, s->now);
    ask(s, 1, 1, "CPU=5", true);
    assert_null(refusal(s, 1));
    crti_lease_table_head(s->table, false, s->now);
    assert_non_null(refusal(s, 1));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, scene_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(who_holds_what_is_told_the_largest_holder_first),
        TEST(no_more_than_three_holders_are_told),
        TEST(who_waits_is_told_again_of_another_reason_and_not_of_other_holders),
        TEST(what_only_another_node_could_serve_is_not_told_of_this_one),
        TEST(a_name_that_no_node_ever_had_is_told_with_the_nearest_one),
        TEST(what_no_node_has_is_refused_at_once_when_it_asked_for_that),
        TEST(what_another_node_has_waits_for_it_and_is_refused_when_that_node_dies),
        TEST(nothing_is_infeasible_while_the_head_is_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
