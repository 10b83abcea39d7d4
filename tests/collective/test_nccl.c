/* SPDX-License-Identifier: Apache-2.0 */
/* The nccl backend on a CUDA and an NCCL that work on host memory (fake_nccl): what goes wrong
 * ends on every member with an error that says who and what, and the group goes on afterwards.
 *     test_nccl                  failures while the group works
 *     test_nccl refused WORDS    every member is refused, with these words */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "member.h"

#include <cmocka.h>

static const char *words = "";
static crt_actor_t *members[4];

static int start_members(void **state)
{
    members_start(members, 4);
    return 0;
}

static int stop_members(void **state)
{
    for (int i = 0; i < 4; i++)
        if (members[i])
            members_stop(&members[i], 1);
    return 0;
}

static void expect_failure(crt_ref_t *ref, crt_status_t status, const char *expected)
{
    const char *text;
    crt_status_t got = failure_of(&ref, &text);

    if (got != status || !strstr(text, expected))
        fail_msg("%s \"%s\", but expected %s \"%s\"", crt_status_name(got), text,
                 crt_status_name(status), expected);
}

static crt_ref_t *operate(int member, int kind, int dtype, int count, int peer,
                          int timeout_ms)
{
    return crt_call(members[member], &member_operate, 0, kind, dtype, count,
                    CRT_REDUCE_SUM, peer, timeout_ms);
}

static void rebuild_all(int count)
{
    crt_ref_t *refs[4];

    for (int i = 0; i < count; i++)
        refs[i] = crt_call(members[i], &member_rebuild, 0, 0);
    expect_all_ok(refs, count);
}

static void expect_sums(int count, double wanted)
{
    crt_ref_t *refs[4];

    for (int i = 0; i < count; i++)
        refs[i] = crt_call(members[i], &member_sum, 0, 70000, 3);
    for (int i = 0; i < count; i++) {
        double sum = -1;

        if (crt_get(refs[i], &sum) != CRT_OK)
            fail_msg("member %d: %s", i, crt_error_detail());
        assert_true(sum == wanted);
        crt_ref_drop(&refs[i]);
    }
}

static double sum_of(int count)
{
    crt_ref_t *refs[4];
    double sum = -1, other;

    for (int i = 0; i < count; i++)
        refs[i] = crt_call(members[i], &member_sum, 0, 70000, 3);
    for (int i = 0; i < count; i++) {
        if (crt_get(refs[i], i ? &other : &sum) != CRT_OK)
            fail_msg("member %d: %s", i, crt_error_detail());
        assert_true(i == 0 || other == sum);
        crt_ref_drop(&refs[i]);
    }
    return sum;
}

/* ---------------------------------------------------------------- calls */

static void calls_that_do_not_fit_fail_on_both_sides(void **state)
{
    crt_ref_t *refs[2];
    double sum;

    members_join(members, 2, 0, "misfits", "nccl");
    sum = sum_of(2);
    refs[0] = operate(0, CRT_COLLECTIVE_ALLREDUCE, CRT_DTYPE_FLOAT32, 100000, 0, 0);
    refs[1] = operate(1, CRT_COLLECTIVE_ALLREDUCE, CRT_DTYPE_FLOAT32, 90000, 0, 0);
    expect_failure(refs[0], CRT_ERR_INVALID, "allreduce of 90000 float32");
    expect_failure(refs[1], CRT_ERR_INVALID, "allreduce of 100000 float32");
    rebuild_all(2);
    refs[0] = operate(0, CRT_COLLECTIVE_SEND, CRT_DTYPE_FLOAT32, 100000, 1, 0);
    refs[1] = operate(1, CRT_COLLECTIVE_SEND, CRT_DTYPE_FLOAT32, 100000, 0, 0);
    expect_failure(refs[0], CRT_ERR_INVALID, "do not fit together");
    expect_failure(refs[1], CRT_ERR_INVALID, "do not fit together");
    rebuild_all(2);
    expect_sums(2, sum);
    members_leave(members, 2, 0);
}

static void a_member_that_does_not_come_is_named(void **state)
{
    double sum;

    members_join(members, 2, 0, "late", "nccl");
    sum = sum_of(2);
    expect_failure(
        operate(0, CRT_COLLECTIVE_ALLREDUCE, CRT_DTYPE_FLOAT32, 100000, 0, 300),
        CRT_ERR_TIMED_OUT, "rank 1 (actor ");
    expect_failure(
        operate(1, CRT_COLLECTIVE_ALLREDUCE, CRT_DTYPE_FLOAT32, 100000, 0, 300),
        CRT_ERR_TIMED_OUT, "rank 1 (actor ");
    rebuild_all(2);
    expect_sums(2, sum);
    members_leave(members, 2, 0);
}

static void a_tensor_of_another_device_is_refused(void **state)
{
    crt_ref_t *refs[2];
    double sum;

    members_join(members, 2, 0, "elsewhere", "nccl");
    sum = sum_of(2);
    for (int i = 0; i < 2; i++) /* 200: on device 1 */
        refs[i] = operate(i, CRT_COLLECTIVE_BROADCAST, 200 + CRT_DTYPE_FLOAT32, 10, 0, 0);
    for (int i = 0; i < 2; i++)
        expect_failure(refs[i], CRT_ERR_INVALID,
                       "lies on device 1; this member's device is 0");
    rebuild_all(2);
    expect_sums(2, sum);
    members_leave(members, 2, 0);
}

static void a_sum_of_int16_is_refused_and_the_group_goes_on(void **state)
{
    crt_ref_t *refs[2];

    members_join(members, 2, 0, "short", "nccl");
    for (int i = 0; i < 2; i++)
        refs[i] = operate(i, CRT_COLLECTIVE_ALLREDUCE, CRT_DTYPE_INT16, 10, 0, 0);
    for (int i = 0; i < 2; i++)
        expect_failure(refs[i], CRT_ERR_UNSUPPORTED, "int16");
    assert_true(sum_of(2) >= 0);
    members_leave(members, 2, 0);
}

static void an_operation_follows_what_was_given_to_the_stream_before(void **state)
{
    crt_ref_t *refs[2];

    members_join(members, 2, 0, "stream", "nccl");
    for (int i = 0; i < 2; i++)
        refs[i] = crt_call(members[i], &member_stream, 0);
    expect_all_ok(refs, 2);
    members_leave(members, 2, 0);
}

static void set_variable(int member, const char *name, const char *value)
{
    crt_ref_t *ref = crt_call(members[member], &member_setenv, name, value);

    expect_all_ok(&ref, 1);
}

/* The other's GPU would wait for ever. */
static void an_error_of_one_gpu_is_told_to_all(void **state)
{
    crt_ref_t *refs[2];
    double sum;

    members_join(members, 2, 0, "broken", "nccl");
    sum = sum_of(2);
    set_variable(1, "FAKE_NCCL_FAILS", "1");
    for (int i = 0; i < 2; i++)
        refs[i] = operate(i, CRT_COLLECTIVE_ALLREDUCE, CRT_DTYPE_FLOAT32, 100000, 0, 0);
    for (int i = 0; i < 2; i++)
        expect_failure(refs[i], CRT_ERR_IO, "allreduce: NCCL says: ");
    set_variable(1, "FAKE_NCCL_FAILS", "");
    rebuild_all(2);
    expect_sums(2, sum);
    members_leave(members, 2, 0);
}

/* All have called it, so nobody can be blamed: who noticed is told, and in which operation. */
static void a_gpu_that_hangs_ends_at_the_deadline_with_rank_and_operation(void **state)
{
    crt_ref_t *refs[2];
    double sum;

    members_join(members, 2, 0, "hanging", "nccl");
    sum = sum_of(2);
    set_variable(1, "FAKE_NCCL_HANGS", "1");
    for (int i = 0; i < 2; i++)
        refs[i] = operate(i, CRT_COLLECTIVE_ALLREDUCE, CRT_DTYPE_FLOAT32, 100000, 0, 300);
    for (int i = 0; i < 2; i++)
        expect_failure(refs[i], CRT_ERR_TIMED_OUT,
                       "): allreduce timed out: all members are in it, but NCCL did not");
    set_variable(1, "FAKE_NCCL_HANGS", "");
    rebuild_all(2);
    expect_sums(2, sum);
    members_leave(members, 2, 0);
}

static void members_with_different_versions_are_refused(void **state)
{
    crt_ref_t *refs[2];

    set_variable(1, "FAKE_NCCL_VERSION", "22100"); /* before it opens the library */
    for (int i = 0; i < 2; i++)
        refs[i] = crt_call(members[i], &member_join, 0, "mixed", "nccl", 2, i, 60000);
    for (int i = 0; i < 2; i++)
        expect_failure(refs[i], CRT_ERR_UNSUPPORTED,
                       "has 2.21.0; all must have the same");
    members_stop(&members[1], 1);
    members_start(&members[1], 1);
}

/* ---------------------------------------------------------------- death */

static void kill_member(int member)
{
    crt_ref_t *ref = crt_call(members[member], &member_pid);
    int64_t pid;

    if (crt_get(ref, &pid) != CRT_OK)
        fail_msg("%s", crt_error_detail());
    crt_ref_drop(&ref);
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
    crt_actor_drop(&members[member]);
}

/* The last of them ends while the others are in operations with it. */
static void a_member_that_dies_is_named_and_the_others_go_on(void **state)
{
    crt_ref_t *refs[4];
    double pair;

    members_join(members, 2, 0, "pair", "nccl");
    pair = sum_of(2);
    members_leave(members, 2, 0);
    for (int count = 4; count > 2; count--) {
        members_join(members, count, 0, "mortals", "nccl");
        sum_of(count);
        for (int i = 0; i < count - 1; i++)
            refs[i] = crt_call(members[i], &member_any, 0);
        kill_member(count - 1);
        for (int i = 0; i < count - 1; i++) {
            int rank = -2;

            if (crt_get(refs[i], &rank) != CRT_OK)
                fail_msg("member %d: %s", i, crt_error_detail());
            assert_int_equal(rank, count - 1);
            crt_ref_drop(&refs[i]);
        }
        rebuild_all(count - 1);
        if (count == 3)
            expect_sums(2, pair);
        else
            sum_of(count - 1);
        members_leave(members, count - 1, 0);
    }
}

/* ---------------------------------------------------------------- refusals */

static void a_group_that_nccl_can_not_serve_is_refused_at_every_member(void **state)
{
    crt_ref_t *refs[2];

    for (int i = 0; i < 2; i++)
        refs[i] = crt_call(members[i], &member_join, 0, "refused", "nccl", 2, i, 60000);
    for (int i = 0; i < 2; i++)
        expect_failure(refs[i], CRT_ERR_UNSUPPORTED, words);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest failures[] = {
        cmocka_unit_test(members_with_different_versions_are_refused),
        cmocka_unit_test(an_operation_follows_what_was_given_to_the_stream_before),
        cmocka_unit_test(an_error_of_one_gpu_is_told_to_all),
        cmocka_unit_test(a_gpu_that_hangs_ends_at_the_deadline_with_rank_and_operation),
        cmocka_unit_test(calls_that_do_not_fit_fail_on_both_sides),
        cmocka_unit_test(a_member_that_does_not_come_is_named),
        cmocka_unit_test(a_tensor_of_another_device_is_refused),
        cmocka_unit_test(a_sum_of_int16_is_refused_and_the_group_goes_on),
        cmocka_unit_test(a_member_that_dies_is_named_and_the_others_go_on),
    };
    const struct CMUnitTest refusals[] = {
        cmocka_unit_test(a_group_that_nccl_can_not_serve_is_refused_at_every_member),
    };

    if (argc > 2 && strcmp(argv[1], "refused") == 0) {
        words = argv[2];
        return cmocka_run_group_tests_name("refused", refusals, start_members,
                                           stop_members);
    }
    return cmocka_run_group_tests_name("failures", failures, start_members, stop_members);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&member_class), .num_cpus = 2,
                                .object_store_memory = 64 << 20),
                    driver);
}
