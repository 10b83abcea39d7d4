/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a host and of control groups that the test writes below a directory of its own. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/base/memory.h"
#include "tests/base/made_host.h"

#define GIB   ((uint64_t)1 << 30)
#define GROUP "/sys/fs/cgroup/job/step"

/* Not by memset: the thread sanitizer remembers who wrote what, in four times as much memory. */
__attribute__((no_sanitize_thread, noinline)) static void fill(char *at, size_t bytes)
{
    volatile char *to = at;

    for (size_t i = 0; i < bytes; i += 64)
        to[i] = 1;
}

static int setup(void **state)
{
    made_host_begin();
    put("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:         1 kB\n"
                         "MemAvailable:   12582912 kB\n");
    return 0;
}

static int teardown(void **state)
{
    return made_host_end();
}

static void the_host_alone_has_what_is_not_available_in_use(void **state)
{
    crti_memory_t memory;

    crti_memory_read(root, &memory);
    assert_int_equal(memory.count, 1);
    assert_int_equal(crti_memory_total(&memory), 16 * GIB);
    assert_int_equal(crti_memory_left(&memory), 12 * GIB);
    assert_int_equal(crti_memory_tightest(&memory).used, 4 * GIB);
}

static void a_group_of_version_2_counts_without_its_file_cache(void **state)
{
    crti_memory_t memory;

    put("/proc/self/cgroup", "0::/job/step\n");
    put(GROUP "/memory.max", "2147483648\n");
    put(GROUP "/memory.current", "1610612736\n");
    put(GROUP "/memory.stat", "anon 1\nfile 9\ninactive_file 536870912\n");
    crti_memory_read(root, &memory);
    assert_int_equal(crti_memory_total(&memory), 2 * GIB);
    assert_int_equal(crti_memory_left(&memory), 1 * GIB);
    assert_int_equal(crti_memory_tightest(&memory).total, 2 * GIB);
    assert_int_equal(crti_memory_tightest(&memory).used, 1 * GIB);
}

static void the_group_above_may_be_the_tight_one(void **state)
{
    crti_memory_t memory;

    put("/proc/self/cgroup", "0::/job/step\n");
    put(GROUP "/memory.max", "max\n");
    put(GROUP "/memory.current", "1\n");
    put("/sys/fs/cgroup/job/memory.max", "8589934592\n");
    put("/sys/fs/cgroup/job/memory.current", "8053063680\n");
    crti_memory_read(root, &memory);
    assert_int_equal(crti_memory_tightest(&memory).total, 8 * GIB);
    assert_int_equal(crti_memory_left(&memory), GIB / 2);
}

static void groups_of_version_1_are_read_where_they_are_mounted(void **state)
{
    crti_memory_t memory;

    put("/proc/self/cgroup", "5:devices:/x\n4:memory:/docker/abc\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "1073741824\n");
    put("/sys/fs/cgroup/memory/memory.stat",
        "inactive_file 5\ntotal_inactive_file 268435456\n");
    crti_memory_read(root, &memory); /* the path is the host's: the mount is the group */
    assert_int_equal(crti_memory_total(&memory), GIB);
    assert_int_equal(crti_memory_left(&memory), GIB / 4);
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    crti_memory_read(root, &memory); /* no limit */
    assert_int_equal(crti_memory_total(&memory), 16 * GIB);
    put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "3221225472\n");
    put("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "0\n");
    crti_memory_read(root, &memory);
    assert_int_equal(crti_memory_total(&memory), 3 * GIB);
}

static void what_cannot_be_read_limits_nothing(void **state)
{
    crti_memory_t memory;

    put("/proc/meminfo", "MemTotal: much\n");
    put("/proc/self/cgroup", "nonsense\n0::\n:::\n");
    crti_memory_read(root, &memory);
    assert_int_equal(memory.count, 0);
    assert_int_equal(crti_memory_total(&memory), UINT64_MAX);
    assert_int_equal(crti_memory_left(&memory), UINT64_MAX);
    assert_int_equal(crti_memory_tightest(&memory).total, 0);
    assert_int_equal(crti_memory_kills(root), 0);
}

static void kills_of_the_kernel_are_counted(void **state)
{
    put("/proc/vmstat", "nr_free_pages 1\noom_kill 17\nfoo 2\n");
    assert_int_equal(crti_memory_kills(root), 17);
}

static void a_process_has_what_it_alone_wrote(void **state)
{
    const size_t bytes = (size_t)64 << 20;
    uint64_t before = crti_memory_of(getpid());
    char *own =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(own != MAP_FAILED && shared != MAP_FAILED);
    assert_true(before > 0);
    fill(shared, bytes);
    assert_in_range(crti_memory_of(getpid()), before, before + bytes / 4);
    fill(own, bytes);
    assert_in_range(crti_memory_of(getpid()), before + bytes, before + bytes + bytes / 4);
    munmap(own, bytes);
    munmap(shared, bytes);
    assert_int_equal(crti_memory_of(0x7fffffff), 0);
}

/* Forks, and the child too; each writes so many bytes of its own, and one says that it has. */
static void grow_below(unsigned depth, size_t bytes, int told)
{
    pid_t child = depth ? fork() : -1;
    char *own =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (child == 0) {
        grow_below(depth - 1, bytes, told);
        _exit(0);
    }
    fill(own, bytes);
    if (write(told, "x", 1) != 1)
        _exit(1);
    pause();
}

static void children_and_what_they_alone_wrote_count_once(void **state)
{
    const size_t bytes = (size_t)32 << 20;
    char *inherited =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t alone, together;
    pid_t child;
    int told[2];
    char text[2];

    assert_true(inherited != MAP_FAILED);
    fill(inherited, bytes); /* three processes have it, and it is there once */
    alone = crti_memory_of_tree(getpid());
    assert_int_equal(pipe(told), 0);
    child = fork();
    if (child == 0) {
        setpgid(0, 0);
        grow_below(1, bytes, told[1]);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(read(told[0], text, 1), 1);
    together = crti_memory_of_tree(getpid());
    kill(-child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_in_range(together, alone + bytes, alone + 3 * bytes - bytes / 4);
    assert_true(together > alone + 2 * bytes - bytes / 2);
    munmap(inherited, bytes);
    close(told[0]);
    close(told[1]);
}

/* A group whose leader forks a process that forks another one and ends. */
static pid_t fork_with_orphan(size_t bytes, int told)
{
    pid_t leader = fork();

    if (leader != 0)
        return leader;
    setpgid(0, 0);
    if (fork() == 0) {
        if (fork() == 0)
            grow_below(0, bytes, told);
        _exit(0);
    }
    while (wait(NULL) < 0 && errno == EINTR)
        continue;
    if (write(told, "x", 1) == 1)
        pause();
    _exit(1);
}

static void a_child_whose_parent_ended_counts_for_the_leader_of_its_group(void **state)
{
    const size_t bytes = (size_t)32 << 20;
    uint64_t large, small;
    pid_t leader, other;
    int told[2], ends = 0;
    char text[2];

    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe(told), 0);
    leader = fork_with_orphan(bytes, told[1]);
    other = fork_with_orphan(4096, told[1]);
    for (int i = 0; i < 4; i++)
        assert_int_equal(read(told[0], text, 1), 1);
    large = crti_memory_of_tree(leader);
    small = crti_memory_of_tree(other);
    kill(-leader, SIGKILL);
    kill(-other, SIGKILL);
    while (wait(NULL) > 0)
        ends++;
    assert_int_equal(ends, 4);
    assert_true(large >= bytes);
    assert_true(small < bytes / 2);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    close(told[0]);
    close(told[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_host_alone_has_what_is_not_available_in_use,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_group_of_version_2_counts_without_its_file_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(the_group_above_may_be_the_tight_one, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            groups_of_version_1_are_read_where_they_are_mounted, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_read_limits_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(kills_of_the_kernel_are_counted, setup, teardown),
        cmocka_unit_test(a_process_has_what_it_alone_wrote),
        cmocka_unit_test(children_and_what_they_alone_wrote_count_once),
        cmocka_unit_test(a_child_whose_parent_ended_counts_for_the_leader_of_its_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
