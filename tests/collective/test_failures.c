/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong in groups ends, on every member, with an error that says who and what; and the
 * group can be used or rebuilt afterwards. The deaths of members are in test_deaths.c. */
#include "group_bed.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "saboteur.h"

/* ---------------------------------------------------------------- joining */

static void a_rank_that_is_taken_twice_fails_for_all_and_names_both(void **state)
{
    int before = count_keys();
    crt_ref_t *a = join(0, "twice", 3, 0, 60000), *b, *c;
    const char *text;

    /* Who comes after the failure begins the next try, and waits for the others. */
    await_keys(before + 2); /* the roster, and rank 0 has come */
    b = join(1, "twice", 3, 1, 60000);
    c = join(2, "twice", 3, 1, 60000);
    expect_failure(a, CRT_ERR_EXISTS, "rank 1 was taken twice");
    assert_int_equal(failure_of(&b, &text), CRT_ERR_EXISTS);
    assert_non_null(strstr(text, id_of(1)));
    assert_non_null(strstr(text, id_of(2)));
    assert_int_equal(failure_of(&c, NULL), CRT_ERR_EXISTS);
}

static void a_rank_that_never_comes_is_named(void **state)
{
    crt_ref_t *a = join(0, "missing", 4, 0, 1000), *b = join(1, "missing", 4, 2, 1000);

    expect_failure(a, CRT_ERR_TIMED_OUT, "rank 1, 3 of 4 did not come");
    expect_failure(b, CRT_ERR_TIMED_OUT, "rank 1, 3 of 4 did not come");
    /* The name is free for the next try. */
    members_join(members, 3, 0, "missing", backend);
    expect_sums(3, 6);
    members_leave(members, 3, 0);
}

static void a_member_that_leaves_a_split_unfinished_is_named(void **state)
{
    crt_ref_t *refs[3];

    for (int i = 0; i < 3; i++)
        refs[i] = join(i, "halted", 3, i, 1500);
    expect_all_ok(refs, 3);
    for (int i = 0; i < 2; i++)
        refs[i] = crt_call(members[i], &member_split, 0, 0, 0, 1);
    refs[2] = operate(2, CRT_COLLECTIVE_ALLGATHER, CRT_DTYPE_INT64, 3, 0, 0);
    expect_all_ok(&refs[2], 1);
    for (int i = 0; i < 2; i++)
        expect_failure(refs[i], CRT_ERR_TIMED_OUT, "rank 2 of 3 did not come");
    members_leave(members, 3, 0);
}

static void a_split_that_meets_another_call_is_named(void **state)
{
    crt_ref_t *refs[2];

    members_join(members, 2, 0, "split-named", backend);
    refs[0] = crt_call(members[0], &member_split, 0, 0, 0, 1);
    refs[1] = operate(1, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0);
    for (int i = 0; i < 2; i++)
        expect_failure(refs[i], CRT_ERR_INVALID, "as crt_group_split does");
    members_leave(members, 2, 0);
}

static void a_split_needs_a_group_and_a_place(void **state)
{
    members_join(members, 1, 0, "placeless", backend);
    expect_failure(crt_call(members[0], &member_split, 0, 0, 0, -1), CRT_ERR_INVALID,
                   "there is no place");
    expect_failure(crt_call(members[0], &member_split, 1, 0, 0, 2), CRT_ERR_INVALID,
                   "the group is NULL");
    members_leave(members, 1, 0);
}

static void different_sizes_fail_for_all_and_name_both(void **state)
{
    crt_ref_t *a = join(0, "sizes", 2, 0, 60000), *b = join(1, "sizes", 3, 1, 60000);
    const char *text;

    assert_int_equal(failure_of(&a, &text), CRT_ERR_INVALID);
    assert_non_null(strstr(text, " members, but "));
    assert_non_null(strstr(text, id_of(0)));
    assert_int_equal(failure_of(&b, &text), CRT_ERR_INVALID);
    assert_non_null(strstr(text, id_of(1)));
}

static void different_backends_fail_for_all(void **state)
{
    crt_ref_t *a = join(0, "backends", 2, 0, 60000);
    crt_ref_t *b = crt_call(members[1], &member_join, 0, "backends",
                            strcmp(backend, "auto") ? "auto" : "ring", 2, 1, 60000);

    expect_failure(a, CRT_ERR_INVALID, "backend");
    expect_failure(b, CRT_ERR_INVALID, "backend");
}

/* What the first `count` members are told by CRT_COLLECTIVE_ALGORITHM. */
static void tell_algorithms(const char *const *texts, int count)
{
    crt_ref_t *refs[MEMBERS];

    for (int i = 0; i < count; i++)
        refs[i] =
            crt_call(members[i], &member_setenv, "CRT_COLLECTIVE_ALGORITHM", texts[i]);
    expect_all_ok(refs, count);
}

static void expect_three_refusals(const char *name, crt_status_t status,
                                  const char *words)
{
    crt_ref_t *refs[3];

    for (int i = 0; i < 3; i++)
        refs[i] = join(i, name, 3, i, 60000);
    for (int i = 0; i < 3; i++)
        expect_failure(refs[i], status, words);
}

static void different_algorithms_fail_for_all_and_name_both(void **state)
{
    static const char *const texts[] = {"allreduce:ring", "allreduce:ring",
                                        "allreduce:bruck"},
                             *const some[] = {"allreduce:ring", "allreduce:ring", ""},
                             *const nothing[] = {"", "", ""};

    tell_algorithms(texts, 3);
    expect_three_refusals(
        "told", CRT_ERR_INVALID,
        "must be the same for all members: it is \"allreduce:ring\" for "
        "rank 0 (actor ");
    tell_algorithms(some, 3);
    expect_three_refusals("told", CRT_ERR_INVALID, "for rank 2 (actor ");
    tell_algorithms(nothing, 3);
    members_join(members, 3, 0, "told", backend);
    expect_sums(3, 6);
    members_leave(members, 3, 0);
}

static void a_wrong_algorithm_fails_for_all_with_the_nearest_name(void **state)
{
    static const char *const texts[] = {"allreduce:rong", "allreduce:rong",
                                        "allreduce:rong"},
                             *const nothing[] = {"", "", ""};

    tell_algorithms(texts, 3);
    expect_three_refusals("wrong-name", CRT_ERR_INVALID, "did you mean \"ring\"?");
    tell_algorithms(nothing, 3);
}

static void an_algorithm_is_used_where_links_are_and_passed_over_elsewhere(void **state)
{
    static const char *const texts[] = {"allreduce:ring,broadcast:chain",
                                        "allreduce:ring,broadcast:chain",
                                        "allreduce:ring,broadcast:chain"},
                             *const nothing[] = {"", "", ""};

    tell_algorithms(texts, 3);
    members_join(members, 3, 0, "forced", backend);
    expect_sums(3, 6);
    members_leave(members, 3, 0);
    tell_algorithms(nothing, 3);
}

static void the_name_of_a_living_group_is_taken_until_it_ends(void **state)
{
    members_join(members, 2, 0, "name", backend);
    expect_failure(join(2, "name", 2, 0, 60000), CRT_ERR_EXISTS, "2 of its members live");
    members_leave(members, 2, 0);
    members_join(members + 2, 2, 0, "name", backend);
    members_leave(members + 2, 2, 0);
}

static void a_member_may_come_late(void **state)
{
    crt_ref_t *refs[2] = {join(0, "late", 2, 1, 60000), NULL};

    poll(NULL, 0, 200); /* the lateness itself */
    refs[1] = join(1, "late", 2, 0, 60000);
    expect_all_ok(refs, 2);
    members_leave(members, 2, 0);
}

static void a_child_of_a_member_can_not_use_its_group(void **state)
{
    crt_ref_t *refs[3];

    members_join(members, 3, 0, "forked", backend);
    for (int i = 0; i < 3; i++)
        refs[i] = crt_call(members[i], &member_fork, 0);
    expect_all_ok(refs, 3);
    expect_sums(3, 6);
    members_leave(members, 3, 0);
}

static void only_actors_are_members(void **state)
{
    crt_group_t *group = NULL;

    assert_int_equal(crt_group_join(1, 0, NULL, &group), CRT_ERR_INVALID);
    assert_null(group);
}

static void bad_arguments_of_joining_are_refused(void **state)
{
    expect_failure(join(0, "bad/name", 1, 0, 60000), CRT_ERR_INVALID, "bad/name");
    expect_failure(join(0, "", 1, 0, 60000), CRT_ERR_INVALID, "name");
    expect_failure(join(0, "rank", 2, 2, 60000), CRT_ERR_INVALID, "rank 2 of 2");
    expect_failure(join(0, "none", 0, 0, 60000), CRT_ERR_INVALID, "0 members");
    expect_failure(crt_call(members[0], &member_join, 0, "x", "carrier", 1, 0, 60000),
                   CRT_ERR_INVALID, "carrier");
    expect_failure(crt_call(members[0], &member_find, 0, "nowhere"), CRT_ERR_NOT_FOUND,
                   "nowhere");
}

static void a_declared_group_wants_each_actor_and_rank_once(void **state)
{
    crt_actor_t *same[2] = {members[0], members[0]};
    const int ranks[2] = {1, 1};

    assert_int_equal(crt_group_declare(same, NULL, 2, NULL), CRT_ERR_INVALID);
    assert_int_equal(crt_group_declare(members, ranks, 2, NULL), CRT_ERR_INVALID);
}

static void groups_one_after_the_other_leave_no_keys(void **state)
{
    int before = count_keys(), count = rounds("CRT_GROUP_ROUNDS", 1000, 200);

    for (int i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof(name), "group-%d", i);
        members_join(members, 2, 0, name, backend);
        members_leave(members, 2, 0);
    }
    assert_int_equal(count_keys(), before);
}

/* ---------------------------------------------------------------- operations */

static void expect_both(crt_ref_t *a, crt_ref_t *b, const char *words)
{
    expect_failure(a, CRT_ERR_INVALID, words);
    expect_failure(b, CRT_ERR_INVALID, words);
    rebuild_all(2, 0);
}

static void calls_that_do_not_fit_fail_on_both_sides(void **state)
{
    enum { SUM = CRT_COLLECTIVE_ALLREDUCE, CAST = CRT_COLLECTIVE_BROADCAST };

    members_join(members, 2, 0, "fit", backend);
    expect_both(operate(0, SUM, CRT_DTYPE_FLOAT32, 10, CRT_REDUCE_SUM, 0),
                operate(1, SUM, CRT_DTYPE_FLOAT64, 10, CRT_REDUCE_SUM, 0), "float64");
    expect_both(operate(0, SUM, CRT_DTYPE_FLOAT32, 10, CRT_REDUCE_SUM, 0),
                operate(1, SUM, CRT_DTYPE_FLOAT32, 99999, CRT_REDUCE_SUM, 0), "99999");
    expect_both(operate(0, SUM, CRT_DTYPE_FLOAT32, 10, CRT_REDUCE_SUM, 0),
                operate(1, SUM, CRT_DTYPE_FLOAT32, 10, CRT_REDUCE_MAX, 0), "max");
    expect_both(operate(0, CAST, CRT_DTYPE_FLOAT32, 9000, 0, 0),
                operate(1, CAST, CRT_DTYPE_FLOAT32, 9000, 0, 1), "root 1");
    expect_both(operate(0, SUM, CRT_DTYPE_FLOAT32, 10, CRT_REDUCE_SUM, 0),
                operate(1, CRT_COLLECTIVE_ALLGATHER, CRT_DTYPE_FLOAT32, 10, 0, 0),
                "allgather");
    expect_both(operate(0, CRT_COLLECTIVE_SEND, CRT_DTYPE_FLOAT32, 100000, 0, 1),
                operate(1, CRT_COLLECTIVE_RECV, CRT_DTYPE_FLOAT32, 100001, 0, 0),
                "100001");
    expect_sums(2, 3);
    members_leave(members, 2, 0);
}

/* One waits for a message, the other for everybody. */
static void a_wrong_order_of_calls_fails_on_both_sides(void **state)
{
    members_join(members, 2, 0, "order", backend);
    expect_both(
        operate(0, CRT_COLLECTIVE_SEND, CRT_DTYPE_FLOAT32, 100000, 0, 1),
        operate(1, CRT_COLLECTIVE_ALLREDUCE, CRT_DTYPE_FLOAT32, 10, CRT_REDUCE_SUM, 0),
        "allreduce");
    expect_both(operate(0, CRT_COLLECTIVE_RECV, CRT_DTYPE_FLOAT32, 10, 0, 1),
                operate(1, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0),
                "barrier");
    expect_both(operate(0, CRT_COLLECTIVE_RECV, CRT_DTYPE_FLOAT32, 10, 0, 1),
                operate(1, CRT_COLLECTIVE_RECV, CRT_DTYPE_FLOAT32, 10, 0, 0), "recv");
    expect_sums(2, 3);
    members_leave(members, 2, 0);
}

static void a_call_that_is_wrong_in_itself_fails_for_the_others_too(void **state)
{
    enum { SUM = CRT_COLLECTIVE_ALLREDUCE };

    members_join(members, 2, 0, "wrong", backend);
    expect_both(operate(0, SUM, CRT_DTYPE_BOOL, 10, CRT_REDUCE_SUM, 0),
                operate(1, SUM, CRT_DTYPE_FLOAT32, 10, CRT_REDUCE_SUM, 0), "bool");
    expect_both(operate(0, SUM, CRT_DTYPE_FLOAT32, 10, 99, 0),
                operate(1, SUM, CRT_DTYPE_FLOAT32, 10, CRT_REDUCE_SUM, 0),
                "reduction 99");
    expect_both(operate(0, CRT_COLLECTIVE_BROADCAST, CRT_DTYPE_FLOAT32, 10, 0, 7),
                operate(1, CRT_COLLECTIVE_BROADCAST, CRT_DTYPE_FLOAT32, 10, 0, 0),
                "rank 7");
    expect_both(operate(0, CRT_COLLECTIVE_SEND, CRT_DTYPE_FLOAT32, 10, 0, 0),
                operate(1, CRT_COLLECTIVE_RECV, CRT_DTYPE_FLOAT32, 10, 0, 0),
                "this member");
    /* The dtype of a tensor on device 0: see member_operate. */
    expect_both(operate(0, SUM, 100 + CRT_DTYPE_FLOAT32, 10, CRT_REDUCE_SUM, 0),
                operate(1, SUM, CRT_DTYPE_FLOAT32, 10, CRT_REDUCE_SUM, 0), "device 0");
    members_leave(members, 2, 0);
}

static void
an_operation_that_was_complete_succeeds_though_the_next_call_is_wrong(void **state)
{
    int count = rounds("CRT_LATER_ROUNDS", 60, 60);
    crt_ref_t *refs[3];

    members_join(members, 3, 0, "later", backend);
    for (int i = 0; i < 3; i++)
        refs[i] = crt_call(members[i], &member_later, 0, count);
    for (int i = 0; i < 3; i++) {
        int failed = -1;

        if (crt_get(refs[i], &failed) != CRT_OK)
            fail_msg("member %d: %s", i, crt_error_detail());
        if (failed)
            fail_msg("member %d: %d of %d sums failed for a later call", i, failed,
                     count);
        crt_ref_drop(&refs[i]);
    }
    members_leave(members, 3, 0);
}

static void a_member_that_does_not_come_to_an_operation_is_named(void **state)
{
    crt_ref_t *ref;

    members_join(members, 3, 0, "absent", backend);
    ref = crt_call(members[0], &member_operate, 0, CRT_COLLECTIVE_BARRIER,
                   CRT_DTYPE_FLOAT32, 0, 0, 0, 300);
    /* Rank 2 is told of it; rank 1 has done nothing and is told at its next call. */
    expect_failure(operate(2, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0),
                   CRT_ERR_TIMED_OUT, "rank 1");
    expect_failure(ref, CRT_ERR_TIMED_OUT, "rank 1");
    expect_failure(operate(0, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0),
                   CRT_ERR_CANCELLED, "not rebuilt");
    rebuild_all(3, 0);
    expect_sums(3, 6);
    members_leave(members, 3, 0);
}

/* What the first has sent before it gave up lies there already. */
static void who_comes_after_another_has_given_up_fails_too(void **state)
{
    static const int counts[] = {1, 100000};

    members_join(members, 2, 0, "after", backend);
    for (int i = 0; i < 2; i++) {
        crt_ref_t *ref =
            crt_call(members[1], &member_operate, 0, CRT_COLLECTIVE_ALLREDUCE,
                     CRT_DTYPE_FLOAT32, counts[i], CRT_REDUCE_SUM, 0, 300);

        expect_failure(ref, CRT_ERR_TIMED_OUT, "rank 0");
        expect_failure(operate(0, CRT_COLLECTIVE_ALLREDUCE, CRT_DTYPE_FLOAT32, counts[i],
                               CRT_REDUCE_SUM, 0),
                       CRT_ERR_TIMED_OUT, "rank 0");
        expect_failure(operate(0, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0),
                       CRT_ERR_CANCELLED, "not rebuilt");
        rebuild_all(2, 0);
        expect_sums(2, 3);
    }
    members_leave(members, 2, 0);
}

static void a_rebuild_tells_once_that_members_have_done_different_operations(void **state)
{
    crt_ref_t *refs[2];

    members_join(members, 2, 0, "uneven", backend);
    expect_sums(2, 3);
    refs[0] = crt_call(members[1], &member_ahead, 0);
    expect_all_ok(refs, 1);
    for (int i = 0; i < 2; i++)
        refs[i] = crt_call(members[i], &member_rebuild, 0, 0);
    for (int i = 0; i < 2; i++)
        expect_failure(refs[i], CRT_ERR_CANCELLED,
                       "has succeeded on rank 1, but not on rank 0");
    rebuild_all(2, 0);
    expect_sums(2, 3);
    rebuild_all(2, 0);
    members_leave(members, 2, 0);
}

/* Of the file, at most. */
static const char *first_bytes(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;

    text[length] = '\0';
    if (file)
        fclose(file);
    return text;
}

static void a_member_that_waits_long_in_an_operation_says_for_whom_once(void **state)
{
    char path[] = "/tmp/crt-test-group-XXXXXX", text[4096];
    int fd = mkstemp(path);
    crt_ref_t *refs[2];

    assert_true(fd >= 0);
    close(fd);
    refs[0] = crt_call(members[0], &member_setenv, "CRT_TELL_WAITS", "0.3");
    refs[1] = crt_call(members[0], &member_errors_to, path);
    expect_all_ok(refs, 2);
    members_join(members, 2, 0, "patient", backend);
    for (int round = 0; round < 2; round++) {
        refs[0] = operate(0, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0);
        for (int i = 0; round == 0 && i < 6000; i++)
            if (!strstr(first_bytes(path, text, sizeof(text)), "\n"))
                poll(NULL, 0, 10);
        if (round == 1)
            poll(NULL, 0, 500); /* it is told of no more */
        refs[1] = operate(1, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0);
        expect_all_ok(refs, 2);
    }
    members_leave(members, 2, 0);
    first_bytes(path, text, sizeof(text));
    if (!strstr(text, "group \"patient\": ") || !strstr(text, " s for rank 1 (actor ") ||
        !strstr(text, id_of(1)) || strchr(text, '\n') != strrchr(text, '\n'))
        fail_msg("%s", text);
    refs[0] = crt_call(members[0], &member_setenv, "CRT_TELL_WAITS", "");
    refs[1] = crt_call(members[0], &member_errors_to, "/dev/null");
    expect_all_ok(refs, 2);
    unlink(path);
}

static void who_leaves_ends_the_operations_of_the_others(void **state)
{
    crt_ref_t *ref;

    members_join(members, 2, 0, "leaver", backend);
    ref = operate(0, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0);
    members_leave(members + 1, 1, 0);
    expect_failure(ref, CRT_ERR_CLOSED, id_of(1));
    rebuild_all(1, 0);
    expect_sums(1, 1);
    expect_failure(operate(1, CRT_COLLECTIVE_BARRIER, CRT_DTYPE_FLOAT32, 0, 0, 0),
                   CRT_ERR_INVALID, "NULL");
    members_leave(members, 1, 0);
}

/* ---------------------------------------------------------------- nonsense from a peer */

static void nonsense_from_a_peer_is_an_error(void **state)
{
    if (strcmp(backend, "shm") != 0)
        return; /* streams are lied to in test_links and test_ring */
    for (int what = 0; what < 3; what++) {
        crt_actor_t *saboteur = crt_actor_new(&saboteur_class, NULL);
        crt_ref_t *refs[2] = {crt_call(saboteur, &saboteur_join, "nonsense"),
                              join(0, "nonsense", 2, 0, 60000)};
        crt_ref_t *ref;

        expect_all_ok(refs, 2);
        ref = operate(0, CRT_COLLECTIVE_BROADCAST, CRT_DTYPE_FLOAT32, 100000, 0, 1);
        refs[0] = crt_call(saboteur, &saboteur_spoil, what);
        expect_all_ok(refs, 1);
        expect_failure(ref, CRT_ERR_PROTOCOL, "");
        assert_int_equal(crt_actor_kill(saboteur, NULL), CRT_OK);
        crt_actor_drop(&saboteur);
        rebuild_all(1, 0);
        members_leave(members, 1, 0);
    }
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_taken_twice_fails_for_all_and_names_both),
        cmocka_unit_test(a_rank_that_never_comes_is_named),
        cmocka_unit_test(a_member_that_leaves_a_split_unfinished_is_named),
        cmocka_unit_test(a_split_that_meets_another_call_is_named),
        cmocka_unit_test(a_split_needs_a_group_and_a_place),
        cmocka_unit_test(different_sizes_fail_for_all_and_name_both),
        cmocka_unit_test(different_backends_fail_for_all),
        cmocka_unit_test(different_algorithms_fail_for_all_and_name_both),
        cmocka_unit_test(a_wrong_algorithm_fails_for_all_with_the_nearest_name),
        cmocka_unit_test(an_algorithm_is_used_where_links_are_and_passed_over_elsewhere),
        cmocka_unit_test(the_name_of_a_living_group_is_taken_until_it_ends),
        cmocka_unit_test(a_member_may_come_late),
        cmocka_unit_test(a_child_of_a_member_can_not_use_its_group),
        cmocka_unit_test(only_actors_are_members),
        cmocka_unit_test(bad_arguments_of_joining_are_refused),
        cmocka_unit_test(a_declared_group_wants_each_actor_and_rank_once),
        cmocka_unit_test(calls_that_do_not_fit_fail_on_both_sides),
        cmocka_unit_test(a_wrong_order_of_calls_fails_on_both_sides),
        cmocka_unit_test(a_call_that_is_wrong_in_itself_fails_for_the_others_too),
        cmocka_unit_test(
            an_operation_that_was_complete_succeeds_though_the_next_call_is_wrong),
        cmocka_unit_test(a_member_that_does_not_come_to_an_operation_is_named),
        cmocka_unit_test(who_comes_after_another_has_given_up_fails_too),
        cmocka_unit_test(
            a_rebuild_tells_once_that_members_have_done_different_operations),
        cmocka_unit_test(a_member_that_waits_long_in_an_operation_says_for_whom_once),
        cmocka_unit_test(who_leaves_ends_the_operations_of_the_others),
        cmocka_unit_test(nonsense_from_a_peer_is_an_error),
        cmocka_unit_test(groups_one_after_the_other_leave_no_keys),
    };

    return group_bed_run(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}

int main(int argc, char **argv)
{
    return group_bed_main(argc, argv, driver);
}
