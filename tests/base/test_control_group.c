/* SPDX-License-Identifier: Apache-2.0 */
/* Quotas of control groups that the test writes below a directory of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "runtime/base/control_group.h"
#include "tests/base/made_host.h"

#define GROUP "/sys/fs/cgroup/kubepods/pod1"
#define V1    "/sys/fs/cgroup/cpu/kubepods/pod1"

static int setup(void **state)
{
    made_host_begin();
    return 0;
}

static int teardown(void **state)
{
    return made_host_end();
}

static void without_groups_nothing_is_limited(void **state)
{
    assert_true(crti_control_group_cpus(root) == UINT64_MAX);
    assert_true(crti_control_group_pids(root).most == UINT64_MAX);
}

static void a_quota_of_version_2_counts_in_whole_processors(void **state)
{
    put("/proc/self/cgroup", "0::/kubepods/pod1\n");
    put(GROUP "/cpu.max", "200000 100000\n");
    assert_int_equal(crti_control_group_cpus(root), 2);
    put(GROUP "/cpu.max", "200001 100000\n");
    assert_int_equal(crti_control_group_cpus(root), 3);
    put(GROUP "/cpu.max", "1000 100000\n");
    assert_int_equal(crti_control_group_cpus(root), 1);
    put(GROUP "/cpu.max", "max 100000\n");
    assert_true(crti_control_group_cpus(root) == UINT64_MAX);
}

static void a_quota_of_version_1_counts_likewise(void **state)
{
    put("/proc/self/cgroup", "5:pids:/x\n4:cpu,cpuacct:/kubepods/pod1\n0::/\n");
    put(V1 "/cpu.cfs_quota_us", "150000\n");
    put(V1 "/cpu.cfs_period_us", "50000\n");
    assert_int_equal(crti_control_group_cpus(root), 3);
    put(V1 "/cpu.cfs_quota_us", "-1\n");
    assert_true(crti_control_group_cpus(root) == UINT64_MAX);
}

static void the_tightest_group_above_counts(void **state)
{
    put("/proc/self/cgroup", "0::/kubepods/pod1/container\n");
    put(GROUP "/container/cpu.max", "max 100000\n");
    put(GROUP "/cpu.max", "400000 100000\n");
    put("/sys/fs/cgroup/kubepods/cpu.max", "300000 100000\n");
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    assert_int_equal(crti_control_group_cpus(root), 3);
    put(GROUP "/container/cpu.max", "100000 100000\n");
    assert_int_equal(crti_control_group_cpus(root), 1);
}

static void in_a_container_with_the_path_of_the_host_the_mount_is_the_group(void **state)
{
    put("/proc/self/cgroup", "3:cpuacct,cpu:/kubepods/pod1\n0::/kubepods/pod1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(crti_control_group_cpus(root), 2);
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    assert_int_equal(crti_control_group_cpus(root), 1);
}

static void the_group_with_the_least_room_for_processes_is_told(void **state)
{
    put("/proc/self/cgroup", "2:pids:/pod\n");
    put("/sys/fs/cgroup/pids/pod/pids.max", "max\n");
    put("/sys/fs/cgroup/pids/pod/pids.current", "7\n");
    put("/sys/fs/cgroup/pids/pids.max", "1000\n");
    put("/sys/fs/cgroup/pids/pids.current", "900\n");
    assert_int_equal(crti_control_group_pids(root).most, 1000);
    assert_int_equal(crti_control_group_pids(root).used, 900);
    put("/sys/fs/cgroup/pids/pod/pids.max", "20\n");
    assert_int_equal(crti_control_group_pids(root).most, 20);
}

static void what_makes_no_sense_limits_nothing(void **state)
{
    static const char *const texts[] = {
        "",           "\n",         "x 100000\n",  "100000\n",
        "0 100000\n", "100000 0\n", "-5 100000\n", "100000 -1\n"};

    put("/proc/self/cgroup", "nonsense\n::\n0::/kubepods/pod1\n1:cpuset:/\n");
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        put(GROUP "/cpu.max", texts[i]);
        assert_true(crti_control_group_cpus(root) == UINT64_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(without_groups_nothing_is_limited),
        TEST(a_quota_of_version_2_counts_in_whole_processors),
        TEST(a_quota_of_version_1_counts_likewise),
        TEST(the_tightest_group_above_counts),
        TEST(in_a_container_with_the_path_of_the_host_the_mount_is_the_group),
        TEST(the_group_with_the_least_room_for_processes_is_told),
        TEST(what_makes_no_sense_limits_nothing),
#undef TEST
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
