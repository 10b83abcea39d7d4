/* SPDX-License-Identifier: Apache-2.0 */
/* Every backend gives the same results: groups of 1 (nothing to exchange), 2 (a pair), 3 (odd), 4
 * (a power of two), 7 (a prime), 8 (more than the cores here). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "member.h"

#include <cmocka.h>

static const char *backend = "shm", *of_eight; /* what "auto" should choose */
static crt_actor_t *members[MEMBERS];

static int start_members(void **state)
{
    members_start(members, MEMBERS);
    return 0;
}

static int stop_members(void **state)
{
    members_stop(members, MEMBERS);
    return 0;
}

static void expect_backend(const char *name)
{
    crt_ref_t *ref = crt_call(members[0], &member_state, 0);
    const char *text;

    assert_int_equal(crt_get(ref, &text), CRT_OK);
    if (!strstr(text, name))
        fail_msg("\"%s\", but %s was expected", text, name);
    crt_ref_drop(&ref);
}

static void conform(int size, bool large)
{
    crt_ref_t *refs[MEMBERS];

    char name[32];

    snprintf(name, sizeof(name), "conformance-%d", size);
    members_join(members, size, 0, name, backend);
    if (size == MEMBERS && of_eight)
        expect_backend(of_eight);
    for (int i = 0; i < size; i++)
        refs[i] = crt_call(members[i], &member_conform, 0, (int)large);
    expect_all_ok(refs, size);
    members_leave(members, size, 0);
}

static void one_member_gives_right_results(void **state)
{
    conform(1, true);
}

static void two_members_give_right_results(void **state)
{
    conform(2, true);
}

static void three_members_give_right_results(void **state)
{
    conform(3, true);
}

static void four_members_give_right_results(void **state)
{
    conform(4, true);
}

static void seven_members_give_right_results(void **state)
{
    conform(7, false);
}

static void eight_members_give_right_results(void **state)
{
    conform(8, false);
}

static void posted_operations_run_in_their_order(void **state)
{
    crt_ref_t *refs[MEMBERS];

    members_join(members, 3, 0, "posted", backend);
    for (int i = 0; i < 3; i++)
        refs[i] = crt_call(members[i], &member_post, 0);
    expect_all_ok(refs, 3);
    members_leave(members, 3, 0);
}

static void messages(int size)
{
    crt_ref_t *refs[MEMBERS];
    char name[32];

    snprintf(name, sizeof(name), "messages-%d", size);
    members_join(members, size, 0, name, backend);
    for (int shared = 0; shared < 2; shared++) {
        for (int i = 0; i < size; i++)
            refs[i] = crt_call(members[i], &member_messages, 0, shared);
        expect_all_ok(refs, size);
    }
    members_leave(members, size, 0);
}

static void messages_arrive_in_order_whatever_goes_on_beside_them(void **state)
{
    static const int sizes[] = {1, 2, 3, 4, 7, 8};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        messages(sizes[i]);
}

/* The last: it stays so. */
static void messages_arrive_where_reading_memory_is_forbidden(void **state)
{
    crt_ref_t *refs[3];

    for (int i = 0; i < 3; i++)
        refs[i] = crt_call(members[i], &member_forbid);
    expect_all_ok(refs, 3);
    messages(2);
    messages(3);
}

static void several_groups_in_one_process_are_independent(void **state)
{
    crt_ref_t *refs[MEMBERS];

    members_join(members, 4, 0, "all", backend);
    members_join(members, 2, 1, "low", backend);
    members_join(members + 2, 2, 1, "high", backend);
    for (int i = 0; i < 4; i++)
        refs[i] = crt_call(members[i], &member_two_groups, 0, 1);
    expect_all_ok(refs, 4);
    members_leave(members, 4, 0);
    members_leave(members, 4, 1);
}

/* "RANK/SIZE", or "none". */
static void expect_place(int member, int slot, const char *place)
{
    crt_ref_t *ref = crt_call(members[member], &member_state, slot);
    const char *text;

    assert_int_equal(crt_get(ref, &text), CRT_OK);
    if (strncmp(text, place, strlen(place)) != 0)
        fail_msg("member %d is \"%s\", not \"%s\"", member, text, place);
    crt_ref_drop(&ref);
}

static void split(int slot, int to, const int *colors, const int *keys, int size)
{
    crt_ref_t *refs[MEMBERS];

    for (int i = 0; i < size; i++)
        refs[i] = crt_call(members[i], &member_split, slot, colors[i], keys[i], to);
    expect_all_ok(refs, size);
}

static void a_split_orders_each_color_by_key_and_then_by_rank(void **state)
{
    static const int colors[] = {5, 0, 5, -1, 0, 5, 0, 7};
    static const int keys[] = {3, -1, -8, 0, -1, 3, -2, 0};
    static const char *const places[] = {"1/3", "1/3", "0/3", "none",
                                         "2/3", "2/3", "0/3", "0/1"};

    members_join(members, MEMBERS, 0, "split", backend);
    split(0, 1, colors, keys, MEMBERS);
    for (int i = 0; i < MEMBERS; i++)
        expect_place(i, 1, places[i]);
    members_leave(members, MEMBERS, 1);
    members_leave(members, MEMBERS, 0);
}

/* Halves, and pairs of each half, which outlive what they came from. */
static void groups_of_a_split_give_right_results_and_are_split_again(void **state)
{
    static const int halves[] = {0, 0, 0, 0, 1, 1, 1, 1}, none[MEMBERS];
    static const int pairs[] = {0, 1, 0, 1, 0, 1, 0, 1};
    crt_ref_t *refs[MEMBERS];

    members_join(members, MEMBERS, 0, "halves", backend);
    split(0, 1, halves, none, MEMBERS);
    for (int i = 0; i < MEMBERS; i++)
        refs[i] = crt_call(members[i], &member_two_groups, 0, 1);
    expect_all_ok(refs, MEMBERS);
    members_leave(members, MEMBERS, 0);
    split(1, 2, pairs, none, MEMBERS);
    members_leave(members, MEMBERS, 1);
    for (int i = 0; i < MEMBERS; i++)
        refs[i] = crt_call(members[i], &member_conform, 2, 0);
    expect_all_ok(refs, MEMBERS);
    members_leave(members, MEMBERS, 2);
}

static void a_declared_group_is_found_by_its_members(void **state)
{
    crt_ref_t *refs[3];
    const int ranks[3] = {2, 0, 1};
    const char *text;

    assert_int_equal(
        crt_group_declare(members, ranks, 3,
                          CRT_GROUP_OPTIONS(.name = "declared", .backend = backend)),
        CRT_OK);
    for (int i = 0; i < 3; i++)
        refs[i] = crt_call(members[i], &member_find, 0, "declared");
    expect_all_ok(refs, 3);
    refs[0] = crt_call(members[0], &member_state, 0);
    assert_int_equal(crt_get(refs[0], &text), CRT_OK);
    assert_true(strncmp(text, "2/3 ", 4) == 0);
    crt_ref_drop(&refs[0]);
    members_leave(members, 3, 0);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_member_gives_right_results),
        cmocka_unit_test(two_members_give_right_results),
        cmocka_unit_test(three_members_give_right_results),
        cmocka_unit_test(four_members_give_right_results),
        cmocka_unit_test(seven_members_give_right_results),
        cmocka_unit_test(eight_members_give_right_results),
        cmocka_unit_test(posted_operations_run_in_their_order),
        cmocka_unit_test(messages_arrive_in_order_whatever_goes_on_beside_them),
        cmocka_unit_test(several_groups_in_one_process_are_independent),
        cmocka_unit_test(a_split_orders_each_color_by_key_and_then_by_rank),
        cmocka_unit_test(groups_of_a_split_give_right_results_and_are_split_again),
        cmocka_unit_test(a_declared_group_is_found_by_its_members),
        cmocka_unit_test(messages_arrive_where_reading_memory_is_forbidden),
    };

    if (argc > 1)
        backend = argv[1];
    if (argc > 2)
        of_eight = argv[2];
    return cmocka_run_group_tests_name(backend, tests, start_members, stop_members);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&member_class), .num_cpus = 2,
                                .object_store_memory = 64 << 20),
                    driver);
}
