/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups of this process. See control_group.h. */
#include "runtime/base/control_group.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

#define PATH      1024
#define MOUNT     "/sys/fs/cgroup"
#define MOST_CPUS (1u << 20) /* more is no number of processors */

/* ---------------------------------------------------------------- which groups */

/* The group and all above it. In a container its path may be the host's, while its own group is
 * what is mounted. */
static void visit_up(const char *mount, const char *group, int version,
                     crti_control_group_visit_t *visit, void *user)
{
    char directory[PATH];
    size_t least = strlen(mount);

    snprintf(directory, sizeof(directory), "%s%s", mount, group);
    if (access(directory, F_OK) != 0)
        snprintf(directory, sizeof(directory), "%s", mount);
    while (strlen(directory) > least) {
        char *slash = strrchr(directory, '/');

        if (slash[1]) /* else the root group's path was "/" */
            visit(user, directory, version);
        *slash = '\0';
    }
    visit(user, directory, version);
}

/* "cpu,cpuacct" has both. */
static bool has_controller(const char *list, const char *controller)
{
    size_t length = strlen(controller);

    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, controller, length) == 0 && (at[length] == ',' || !at[length]))
            return true;
    }
    return false;
}

void crti_control_groups_visit(const char *root, const char *controller,
                               crti_control_group_visit_t *visit, void *user)
{
    char path[PATH], line[PATH / 2];
    CRTI_AUTO(fclose) FILE *file = NULL;

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) { /* number:controllers:path */
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;

        line[strcspn(line, "\n")] = '\0';
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        if (!*controllers) {
            snprintf(path, sizeof(path), "%s" MOUNT, root);
            visit_up(path, group, 2, visit, user);
        } else if (has_controller(controllers, controller)) {
            snprintf(path, sizeof(path), "%s" MOUNT "/%s", root, controller);
            visit_up(path, group, 1, visit, user);
        }
    }
}

/* ---------------------------------------------------------------- what they limit */

/* The one or two numbers at the begin of a file; false: it has something else there. */
static bool read_numbers(const char *directory, const char *name, int count,
                         long long numbers[2])
{
    char path[PATH + 32];
    CRTI_AUTO(fclose) FILE *file = NULL;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "re");
    return file && fscanf(file, "%lld %lld", &numbers[0], &numbers[1]) >= count;
}

/* Of version 1 a quota of -1, of version 2 the word "max", is none. */
static void take_cpus(void *user, const char *directory, int version)
{
    long long quota[2] = {0}, period[2] = {0};
    uint64_t *least = user, whole;
    bool is_read;

    if (version == 2) {
        is_read = read_numbers(directory, "cpu.max", 2, quota);
        period[0] = quota[1];
    } else {
        is_read = read_numbers(directory, "cpu.cfs_quota_us", 1, quota) &&
                  read_numbers(directory, "cpu.cfs_period_us", 1, period);
    }
    if (!is_read || quota[0] <= 0 || period[0] <= 0)
        return;
    whole = (uint64_t)quota[0] / (uint64_t)period[0] + (quota[0] % period[0] != 0);
    if (whole < *least && whole < MOST_CPUS)
        *least = whole;
}

uint64_t crti_control_group_cpus(const char *root)
{
    uint64_t least = UINT64_MAX;

    crti_control_groups_visit(root, "cpu", take_cpus, &least);
    return least;
}

/* Both versions have the same files. */
static void take_pids(void *user, const char *directory, int version)
{
    crti_control_group_pids_t *tightest = user;
    long long used[2], most[2];

    if (!read_numbers(directory, "pids.max", 1, most) ||
        !read_numbers(directory, "pids.current", 1, used) || most[0] < 0 || used[0] < 0)
        return;
    if (most[0] - used[0] < (int64_t)(tightest->most - tightest->used))
        *tightest = (crti_control_group_pids_t){(uint64_t)used[0], (uint64_t)most[0]};
}

crti_control_group_pids_t crti_control_group_pids(const char *root)
{
    crti_control_group_pids_t tightest = {0, INT64_MAX};

    crti_control_groups_visit(root, "pids", take_pids, &tightest);
    if (tightest.most == INT64_MAX)
        tightest.most = UINT64_MAX;
    return tightest;
}
