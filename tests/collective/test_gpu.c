/* SPDX-License-Identifier: Apache-2.0 */
/* The nccl backend on a real GPU: results of a group of one, and of two processes that share
 * device 0. NCCL wants a device for each member; it believes that these two are on different
 * hosts (NCCL_HOSTID), and moves their bytes by sockets: right, and slow.
 * Exits with 77 where there is no GPU or no NCCL. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "member.h"

#include <cmocka.h>

#define SKIPPED 77

static crt_actor_t *members[3];

static int start_members(void **state)
{
    members_start(members, 3);
    return 0;
}

static int stop_members(void **state)
{
    for (int i = 0; i < 3; i++)
        if (members[i])
            members_stop(&members[i], 1);
    return 0;
}

static void conform(int size)
{
    crt_ref_t *refs[2];

    members_join(members, size, 0, "gpu", "nccl");
    for (int i = 0; i < size; i++)
        refs[i] = crt_call(members[i], &member_conform, 0, size == 1);
    expect_all_ok(refs, size);
    members_leave(members, size, 0);
}

static void one_member_gives_right_results(void **state)
{
    conform(1);
}

static void two_processes_on_one_gpu_give_right_results(void **state)
{
    conform(2);
}

static void a_killed_member_is_named_and_the_group_is_rebuilt(void **state)
{
    crt_ref_t *others, *ref;
    int64_t pid;
    int rank = -2;
    double sum;

    members_join(members, 2, 0, "mortals", "nccl");
    ref = crt_call(members[1], &member_pid);
    assert_int_equal(crt_get(ref, &pid), CRT_OK);
    crt_ref_drop(&ref);
    others = crt_call(members[0], &member_any, 0);
    ref = crt_call(members[1], &member_any, 0);
    assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
    assert_int_equal(crt_get(others, &rank), CRT_OK);
    assert_int_equal(rank, 1);
    crt_ref_drop(&others);
    crt_ref_drop(&ref);
    crt_actor_drop(&members[1]);
    ref = crt_call(members[0], &member_rebuild, 0, 0);
    expect_all_ok(&ref, 1);
    ref = crt_call(members[0], &member_sum, 0, 70000, 3);
    assert_int_equal(crt_get(ref, &sum), CRT_OK);
    crt_ref_drop(&ref);
    members_leave(members, 1, 0);
}

static int driver(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_member_gives_right_results),
        cmocka_unit_test(two_processes_on_one_gpu_give_right_results),
        cmocka_unit_test(a_killed_member_is_named_and_the_group_is_rebuilt),
    };
    const char *why;

    if (!device_is_there(&why)) {
        printf("skipped: %s\n", why);
        return SKIPPED;
    }
    return cmocka_run_group_tests_name("gpu", tests, start_members, stop_members);
}

int main(int argc, char **argv)
{
    return crt_main(argc, argv,
                    CRT_OPTIONS(.classes = CRT_CLASSES(&member_class), .num_cpus = 2,
                                .object_store_memory = 64 << 20),
                    driver);
}
