/* SPDX-License-Identifier: Apache-2.0 */
/* Host: processors, memory and limits. See host.h. */
#include "runtime/node/host/host.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/clock.h"
#include "runtime/base/control_group.h"
#include "runtime/base/memory.h"
#include "runtime/base/resources.h"

#define FILES_PER_WORKER 8 /* pipes, link, pidfd, and those in passing */
#define MEMORY_SPARE     ((uint64_t)32 << 20) /* below it no worker is made */
#define PIDS_SPARE       64
#define FRESH_NS         (20 * CRTI_MS) /* a look at the host holds for so long */

/* The first line of a file; false when there is none. */
static bool read_line(const char *path, char *text, size_t size)
{
    CRTI_AUTO(fclose) FILE *file = fopen(path, "re");

    return file && fgets(text, (int)size, file);
}

const char *crti_host_root(void)
{
    const char *root = getenv("CRT_TEST_HOST");

    return root ? root : "";
}

int64_t crti_host_cpus(void)
{
    uint64_t cpus = 1, quota = crti_control_group_cpus(crti_host_root());
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cpus = (uint64_t)CPU_COUNT(&set);
    return (int64_t)(quota < cpus ? quota : cpus) * CRTI_RESOURCE_ONE;
}

uint64_t crti_host_memory(void)
{
    crti_memory_t memory;

    crti_memory_read(crti_host_root(), &memory);
    return crti_memory_total(&memory);
}

uint64_t crti_host_available(void)
{
    crti_memory_t memory;

    crti_memory_read(crti_host_root(), &memory);
    return crti_memory_left(&memory);
}

static crt_status_t check_processes(void)
{
    char line[128];
    unsigned long long tasks = 0, limit;
    crti_control_group_pids_t group = crti_control_group_pids(crti_host_root());

    if (group.most < PIDS_SPARE || group.used > group.most - PIDS_SPARE)
        return crt_raise(CRT_ERR_BACKPRESSURE,
                         "the control group has %llu processes of at most %llu "
                         "(pids.max)",
                         (unsigned long long)group.used, (unsigned long long)group.most);
    if (!read_line("/proc/loadavg", line, sizeof(line)) ||
        sscanf(line, "%*f %*f %*f %*d/%llu", &tasks) != 1)
        return CRT_OK;
    if (read_line("/proc/sys/kernel/pid_max", line, sizeof(line)) &&
        sscanf(line, "%llu", &limit) == 1 && tasks + PIDS_SPARE > limit)
        return crt_raise(CRT_ERR_BACKPRESSURE,
                         "the host has %llu threads of at most %llu (kernel.pid_max)",
                         tasks, limit);
    return CRT_OK;
}

static crt_status_t check_host(void)
{
    uint64_t available = crti_host_available();

    if (available < MEMORY_SPARE)
        return crt_raise(CRT_ERR_BACKPRESSURE,
                         "the host has %llu MiB of memory left, a worker needs %llu",
                         (unsigned long long)(available >> 20),
                         (unsigned long long)(MEMORY_SPARE >> 20));
    return check_processes();
}

crt_status_t crti_host_check(size_t open_files, uint64_t now_ns, uint64_t *fresh_ns)
{
    struct rlimit files;
    crt_status_t status;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 &&
        open_files + FILES_PER_WORKER > files.rlim_cur)
        return crt_raise(CRT_ERR_BACKPRESSURE,
                         "the node daemon has, or keeps room for, %zu open files of at "
                         "most %llu (ulimit -n)",
                         open_files, (unsigned long long)files.rlim_cur);
    if (now_ns < *fresh_ns)
        return CRT_OK;
    status = check_host();
    if (status == CRT_OK)
        *fresh_ns = now_ns + FRESH_NS;
    return status;
}

void crti_host_raise_limits(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}
