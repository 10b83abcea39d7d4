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

/* A file of the control group of this process (version 2 hierarchy). */
static bool group_line(const char *name, char *text, size_t size)
{
    char group[256], path[600];
    CRTI_AUTO(fclose) FILE *file = fopen("/proc/self/cgroup", "re");

    while (file && fgets(group, sizeof(group), file)) {
        if (strncmp(group, "0::", 3) != 0)
            continue;
        group[strcspn(group, "\n")] = '\0';
        snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", group + 3, name);
        if (read_line(path, text, size))
            return true;
    }
    snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", name);
    return read_line(path, text, size);
}

int64_t crti_host_cpus(void)
{
    char line[64];
    cpu_set_t set;
    int64_t cpus = CRTI_RESOURCE_ONE;
    long long quota, period;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        cpus = CPU_COUNT(&set) * (int64_t)CRTI_RESOURCE_ONE;
    if (group_line("cpu.max", line, sizeof(line)) &&
        sscanf(line, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0) {
        int64_t whole = (quota + period - 1) / period * CRTI_RESOURCE_ONE;

        cpus = whole < cpus ? whole : cpus;
    }
    return cpus;
}

static uint64_t group_number(const char *name)
{
    char line[64];
    unsigned long long value;

    return group_line(name, line, sizeof(line)) && sscanf(line, "%llu", &value) == 1
               ? value
               : UINT64_MAX;
}

const char *crti_host_root(void)
{
    const char *root = getenv("CRT_TEST_HOST");

    return root ? root : "";
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
    uint64_t used = group_number("pids.current"), most = group_number("pids.max");

    if (used != UINT64_MAX && most != UINT64_MAX && used + PIDS_SPARE > most)
        return crt_raise(CRT_ERR_BACKPRESSURE,
                         "the control group has %llu processes of at most %llu "
                         "(pids.max)",
                         (unsigned long long)used, (unsigned long long)most);
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
