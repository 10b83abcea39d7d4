/* SPDX-License-Identifier: Apache-2.0 */
/* What the actors that wait for room cost. The linker gives us the looks for a place, to count them. */
#include "runtime/control/placement.h"
#include "tests/control/control_test.h"

#define WAITING 100

int __real_crti_placement_pick(const crti_place_t *places, size_t count,
                               const crti_resources_t *need, crti_id_t prefer);
int __wrap_crti_placement_pick(const crti_place_t *places, size_t count,
                               const crti_resources_t *need, crti_id_t prefer);

static size_t looks;

int __wrap_crti_placement_pick(const crti_place_t *places, size_t count,
                               const crti_resources_t *need, crti_id_t prefer)
{
    looks++;
    return __real_crti_placement_pick(places, count, need, prefer);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(a_new_actor_costs_one_look_however_many_wait),
        CONTROL_TEST(room_that_comes_is_offered_to_all_that_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
