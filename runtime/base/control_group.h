/* SPDX-License-Identifier: Apache-2.0 */
/* Control groups: the groups that this process is in, with all above them, and what they limit but
 * for memory (memory.h).
 *
 * Where it sits
 *     /proc/self/cgroup, /sys/fs/cgroup -> [ base/control_group.c ] -> memory.c, node/host/host.c
 * Versions 1 and 2, and both at once: of a controller that is mounted in both, both count.
 * Threads: any; nothing is kept.
 * Trust
 *     What can't be read or makes no sense is left out: then nothing is limited by it.
 */
#ifndef CRTI_BASE_CONTROL_GROUP_H
#define CRTI_BASE_CONTROL_GROUP_H

#include <stdint.h>

/* `version` is 1 or 2. */
typedef void crti_control_group_visit_t(void *user, const char *directory, int version);

/* Calls `visit` for the directory of each group: the process's own first, then those above it.
 * `root` is put before every path: "" but in tests. `controller` is "memory", "cpu" or "pids". */
void crti_control_groups_visit(const char *root, const char *controller,
                               crti_control_group_visit_t *visit, void *user);

/* Whole processors that the tightest quota comes to, rounded up; UINT64_MAX: there is none. */
uint64_t crti_control_group_cpus(const char *root);

typedef struct crti_control_group_pids {
    uint64_t used, most; /* UINT64_MAX: no limit */
} crti_control_group_pids_t;

/* Of the group with the least room. */
crti_control_group_pids_t crti_control_group_pids(const char *root);

#endif
