/* SPDX-License-Identifier: Apache-2.0 */
/* Members that die, at any moment of a group: those that live are told who it was, and go on with
 * less or with a new one. */
#include "group_bed.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "saboteur.h"

/* Killed before the others come, and while they wait for it: by its handle, and as a process. */
static void who_was_declared_and_dies_before_it_comes_is_named(void **state)
{
    static const char *const names[] = {"bereft", "widowed"};

    for (int late = 0; late < 2; late++) {
        crt_actor_t *declared[3] = {members[0], members[1]};
        int before = count_keys();
        crt_ref_t *refs[2], *pid_ref;
        int64_t pid;

        members_start(&declared[2], 1);
        pid_ref = crt_call(declared[2], &member_pid);
        assert_int_equal(crt_get(pid_ref, &pid), CRT_OK);
        crt_ref_drop(&pid_ref);
        assert_int_equal(
            crt_group_declare(declared, NULL, 3,
                              CRT_GROUP_OPTIONS(.name = names[late], .backend = backend)),
            CRT_OK);
        if (!late)
            assert_int_equal(crt_actor_kill(declared[2], NULL), CRT_OK);
        for (int i = 0; i < 2; i++)
            refs[i] = crt_call(members[i], &member_find, 0, names[late]);
        if (late) {
            await_keys(before + 3); /* the roster, and both have come */
            assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
        }
        for (int i = 0; i < 2; i++)
            expect_failure(refs[i], CRT_ERR_ACTOR_DIED, crt_actor_id(declared[2]));
        crt_actor_drop(&declared[2]);
    }
}

static void kill_one(int victim)
{
    kill((pid_t)pid_of(victim), SIGKILL);
}

static void a_member_that_dies_while_others_join_is_named(void **state)
{
    crt_ref_t *a, *b;
    char id[40];
    int before = count_keys();
    pid_t pid;

    members_start(&members[4], 1);
    snprintf(id, sizeof(id), "%s", id_of(4));
    pid = (pid_t)pid_of(4);
    a = join(0, "early", 3, 0, 60000);
    b = join(4, "early", 3, 1, 60000);
    await_keys(before + 3); /* the roster, and both have come */
    kill(pid, SIGKILL);
    expect_failure(a, CRT_ERR_ACTOR_DIED, id);
    failure_of(&b, NULL);
    crt_actor_drop(&members[4]);
}

static void await_failure(int member)
{
    uint64_t deadline = crti_now_ns() + 30 * CRTI_S;
    bool has_failed = false;

    while (!has_failed) {
        crt_ref_t *ref = crt_call(members[member], &member_error, 0);
        const char *text;

        assert_int_equal(crt_get(ref, &text), CRT_OK);
        has_failed = text[0] != '\0';
        crt_ref_drop(&ref);
        if (!has_failed && crti_now_ns() > deadline)
            fail_msg("member %d has not heard of a death", member);
    }
}

/* Programs rebuild when an operation ends with CRT_ERR_ACTOR_DIED. Who has heard of the death
 * before it calls is told so all the same, each time. */
static void every_death_is_told_by_the_next_operation(void **state)
{
    members_start(&members[4], 2);
    members_join(members, 6, 0, "deaths", backend);
    for (int last = 5; last >= 4; last--) {
        kill_one(last);
        crt_actor_drop(&members[last]);
        for (int i = 0; i < 4; i++)
            await_failure(i);
        for (int i = 0; i < 4; i++) {
            expect_failure(operate(i, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0),
                           CRT_ERR_ACTOR_DIED, last == 5 ? "rank 5" : "rank 4");
            expect_failure(operate(i, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0),
                           CRT_ERR_CANCELLED, "not rebuilt");
        }
        if (last == 5)
            expect_failure(operate(4, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0),
                           CRT_ERR_ACTOR_DIED, "rank 5");
        rebuild_all(last, 0);
        expect_sums(last, last == 5 ? 15 : 10);
    }
    members_leave(members, 4, 0);
}

static void who_died_before_its_memory_was_reached_has_died(void **state)
{
    crt_actor_t *saboteur;
    crt_ref_t *refs[2], *ref;

    if (strcmp(backend, "shm") != 0)
        return; /* only there memory of others is reached */
    saboteur = crt_actor_new(&saboteur_class, NULL);
    refs[0] = crt_call(saboteur, &saboteur_join, "unreached");
    refs[1] = join(0, "unreached", 2, 0, 60000);
    expect_all_ok(refs, 2);
    ref = operate(0, CRT_COLLECTIVE_BROADCAST, CRT_DTYPE_FLOAT32, 100000, 0, 1);
    refs[0] = crt_call(saboteur, &saboteur_die);
    expect_failure(ref, CRT_ERR_ACTOR_DIED, "rank 1");
    failure_of(&refs[0], NULL);
    crt_actor_drop(&saboteur);
    rebuild_all(1, 0);
    members_leave(members, 1, 0);
}

static void a_group_of_the_dead_does_not_block_its_name(void **state)
{
    members_start(&members[4], 2);
    members_join(&members[4], 2, 0, "grave", backend);
    kill_one(4);
    kill_one(5);
    crt_actor_drop(&members[4]);
    crt_actor_drop(&members[5]);
    members_join(members, 2, 0, "grave", backend);
    expect_sums(2, 3);
    members_leave(members, 2, 0);
}

static uint64_t random_state = 88172645463325252u;

static unsigned random_below(unsigned limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state % limit);
}

/* One of four is killed; the rest say who it was, go on as three, and then with a new one. */
static void kill_and_rebuild(int victim)
{
    crt_ref_t *refs[4], *rebuilt[4];
    pid_t pid = (pid_t)pid_of(victim);
    int64_t blamed;

    for (int i = 0; i < 4; i++)
        refs[i] = crt_call(members[i], &member_any, 0);
    poll(NULL, 0, (int)random_below(40)); /* a random moment */
    kill(pid, SIGKILL);
    for (int i = 0; i < 4; i++) {
        if (i == victim) {
            failure_of(&refs[i], NULL);
            continue;
        }
        if (crt_get(refs[i], &blamed) != CRT_OK)
            fail_msg("member %d: %s", i, crt_error_detail());
        assert_int_equal(blamed, victim);
        crt_ref_drop(&refs[i]);
    }
    crt_actor_drop(&members[victim]);
    for (int i = 0, k = 0; i < 4; i++)
        if (i != victim)
            rebuilt[k++] = crt_call(members[i], &member_rebuild, 0, 0);
    expect_all_ok(rebuilt, 3);
    members_start(&members[victim], 1);
    rebuilt[3] = join(victim, "killed", 4, CRT_RANK_ANY, 60000);
    for (int i = 0, k = 0; i < 4; i++)
        if (i != victim)
            rebuilt[k++] = crt_call(members[i], &member_rebuild, 0, 4);
    expect_all_ok(rebuilt, 4);
}

/* After rebuilding smaller, ranks are other than places in `members`: back in order. */
static void sort_members(void)
{
    crt_actor_t *sorted[4] = {0};

    for (int i = 0; i < 4; i++) {
        crt_ref_t *ref = crt_call(members[i], &member_state, 0);
        const char *text;

        assert_int_equal(crt_get(ref, &text), CRT_OK);
        sorted[atoi(text)] = members[i];
        crt_ref_drop(&ref);
    }
    for (int i = 0; i < 4; i++) {
        assert_non_null(sorted[i]);
        members[i] = sorted[i];
    }
}

static int64_t descriptors_of(int member)
{
    crt_ref_t *ref = crt_call(members[member], &member_descriptors);
    int64_t count;

    assert_int_equal(crt_get(ref, &count), CRT_OK);
    crt_ref_drop(&ref);
    return count;
}

static void killed_at_random_moments_the_right_one_is_named_and_replaced(void **state)
{
    crt_actor_t *first = members[0];
    int count = rounds("CRT_KILL_ROUNDS", 12, 12), keys = count_keys();
    int64_t descriptors = 0;

    members_join(members, 4, 0, "killed", backend);
    for (int i = 0; i < count; i++) {
        int victim = (int)random_below(4);

        if (members[victim] == first)
            victim = (victim + 1) % 4; /* one lives through all of it */
        kill_and_rebuild(victim);
        sort_members();
        expect_sums(4, 10);
        for (int k = 0; k < 4; k++)
            if (members[k] == first && i < 2)
                descriptors = descriptors_of(k);
    }
    for (int k = 0; k < 4; k++)
        if (members[k] == first)
            assert_true(descriptors_of(k) <= descriptors + 2);
    members_leave(members, 4, 0);
    assert_int_equal(count_keys(), keys);
}

static void expect_settled(int member, int64_t wanted)
{
    crt_ref_t *ref = crt_call(members[member], &member_settle, 0);
    int64_t count;

    if (crt_get(ref, &count) != CRT_OK)
        fail_msg("member %d: %s", member, crt_error_detail());
    assert_int_equal(count, wanted);
    crt_ref_drop(&ref);
}

/* One of four dies in an operation which the first saw succeed, the others not. */
static void who_has_settled_is_not_waited_for(void **state)
{
    crt_ref_t *refs[3];
    pid_t pid = (pid_t)pid_of(3);

    members_join(members, 4, 0, "settled", backend);
    for (int i = 1; i < 3; i++)
        refs[i] = operate(i, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0);
    kill(pid, SIGKILL);
    for (int i = 1; i < 3; i++) {
        expect_failure(refs[i], CRT_ERR_ACTOR_DIED, "rank 3");
        refs[i] = crt_call(members[i], &member_rebuild, 0, 0);
    }
    expect_settled(0, 1);
    for (int i = 1; i < 3; i++)
        expect_failure(refs[i], CRT_ERR_EXISTS, "has succeeded on others");
    rebuild_all(3, 0);
    expect_sums(3, 6);
    for (int i = 0; i < 3; i++)
        expect_settled(i, 2);
    crt_actor_drop(&members[3]);
    members_start(&members[3], 1);
    members_leave(members, 3, 0);
}

/* Until this process and the others have heard of it. */
static void await_death(int member)
{
    crt_ref_t *ref = crt_call(members[member], &member_pid);

    assert_int_equal(failure_of(&ref, NULL), CRT_ERR_ACTOR_DIED);
    for (int i = 0; i < 100; i++) {
        ref = crt_call(members[1], &member_pid);
        expect_all_ok(&ref, 1);
    }
}

static void the_end_of_one_that_had_left_fails_nobody_who_does_not_need_it(void **state)
{
    crt_ref_t *received, *barriers[2];
    pid_t pid;

    members_start(&members[4], 1);
    crt_actor_t *three[] = {members[0], members[1], members[4]};
    members_join(three, 3, 0, "leavers", backend);
    pid = (pid_t)pid_of(4);
    received = operate(0, CRT_COLLECTIVE_RECV, CRT_DTYPE_FLOAT32, 10, 0, 1);
    members_leave(&members[4], 1, 0);
    kill(pid, SIGKILL);
    await_death(4);
    expect_all_ok(
        (crt_ref_t *[]){operate(1, CRT_COLLECTIVE_SEND, CRT_DTYPE_FLOAT32, 10, 0, 0),
                        received},
        2);
    for (int i = 0; i < 2; i++)
        barriers[i] = operate(i, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0);
    for (int i = 0; i < 2; i++)
        expect_failure(barriers[i], CRT_ERR_CLOSED, "rank 2");
    crt_actor_drop(&members[4]);
    rebuild_all(2, 0);
    expect_sums(2, 3);
    members_leave(members, 2, 0);
}

static crt_ref_t *split(int member, int color)
{
    return crt_call(members[member], &member_split, 0, color, 0, 1);
}

/* The victim takes part in the exchange that a split begins with, and does not join. Its color is
 * 0. */
static crt_ref_t *exchange_only(int member)
{
    return operate(member, CRT_COLLECTIVE_ALLGATHER, CRT_DTYPE_INT64, 3, 0, 0);
}

static void a_death_ends_the_split_of_its_color(void **state)
{
    int keys = count_keys();
    crt_ref_t *refs[4];
    pid_t pid;

    members_start(&members[4], 1);
    members_join(members, 5, 0, "divided", backend);
    pid = (pid_t)pid_of(4);
    for (int i = 0; i < 4; i++)
        refs[i] = split(i, i % 2);
    expect_all_ok((crt_ref_t *[]){exchange_only(4)}, 1);
    expect_all_ok((crt_ref_t *[]){refs[1], refs[3]}, 2);
    kill(pid, SIGKILL);
    for (int i = 0; i < 4; i += 2)
        expect_failure(refs[i], CRT_ERR_ACTOR_DIED, "rank 4");
    crt_actor_drop(&members[4]);
    members_leave(members, 4, 1);
    rebuild_all(4, 0);
    for (int i = 0; i < 4; i++)
        refs[i] = split(i, i < 2 ? 0 : -1);
    expect_all_ok(refs, 4);
    members_leave(members, 4, 1);
    members_leave(members, 4, 0);
    assert_int_equal(count_keys(), keys + 1); /* what was decided of color 0 */
}

static void a_split_in_a_failed_group_is_refused(void **state)
{
    crt_ref_t *refs[3];

    members_start(&members[4], 1);
    crt_actor_t *four[] = {members[0], members[1], members[2], members[4]};
    members_join(four, 4, 0, "refused", backend);
    for (int i = 0; i < 3; i++)
        refs[i] = split(i, 0);
    kill_one(4);
    for (int i = 0; i < 3; i++)
        expect_failure(refs[i], CRT_ERR_ACTOR_DIED, "rank 3");
    for (int i = 0; i < 3; i++)
        expect_failure(split(i, 0), CRT_ERR_CANCELLED, "not rebuilt");
    crt_actor_drop(&members[4]);
    members_leave(members, 3, 0);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_declared_and_dies_before_it_comes_is_named),
        cmocka_unit_test(every_death_is_told_by_the_next_operation),
        cmocka_unit_test(who_died_before_its_memory_was_reached_has_died),
        cmocka_unit_test(a_group_of_the_dead_does_not_block_its_name),
        cmocka_unit_test(a_member_that_dies_while_others_join_is_named),
        cmocka_unit_test(killed_at_random_moments_the_right_one_is_named_and_replaced),
        cmocka_unit_test(who_has_settled_is_not_waited_for),
        cmocka_unit_test(the_end_of_one_that_had_left_fails_nobody_who_does_not_need_it),
        cmocka_unit_test(a_death_ends_the_split_of_its_color),
        cmocka_unit_test(a_split_in_a_failed_group_is_refused),
    };

    return group_bed_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}

int main(int argc, char **argv)
{
    return group_bed_main(argc, argv, driver);
}
