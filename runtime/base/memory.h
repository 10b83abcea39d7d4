/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: how much this process may use, and how much is used, at each level that has a limit: the
 * host, its control group and the groups above that one (version 1 or 2).
 *
 * Where it sits
 *     /proc, control_group.h -> [ base/memory.c ] -> store (size of an arena), node (limits, watch)
 * What counts as used
 *     Of the host what is not available (MemAvailable); of a group its usage without the file
 *     pages that the kernel would drop first (inactive_file).
 * Threads: any; nothing is kept.
 * Trust
 *     What can't be read or makes no sense is left out: then nothing is refused for it.
 */
#ifndef CRTI_BASE_MEMORY_H
#define CRTI_BASE_MEMORY_H

#include <stdint.h>
#include <sys/types.h>

#define CRTI_MEMORY_LEVELS 16

typedef struct crti_memory_level {
    uint64_t total, used; /* bytes */
} crti_memory_level_t;

typedef struct crti_memory {
    crti_memory_level_t level[CRTI_MEMORY_LEVELS];
    unsigned count;
} crti_memory_t;

/* `root` is put before every path: "" but in tests. */
void crti_memory_read(const char *root, crti_memory_t *memory_out);

/* The least total of a level; UINT64_MAX when none is known. */
uint64_t crti_memory_total(const crti_memory_t *memory);
/* The least that a level has left; UINT64_MAX when none is known. */
uint64_t crti_memory_left(const crti_memory_t *memory);
/* The level with the largest part in use; all zero when none is known. */
crti_memory_level_t crti_memory_tightest(const crti_memory_t *memory);

/* Bytes that this process alone has in memory (without shared memory and files); 0 when it is
 * gone. */
uint64_t crti_memory_of(pid_t pid);

/* The same of the process and all that descend from it (the kernel's lists of children; at most
 * 4096 processes). Where a parent has ended its children count when they are of the group that the
 * process leads and have become children of the caller (PR_SET_CHILD_SUBREAPER). What they share
 * since a fork counts once. Costs some microseconds more; with children much more (their pages are
 * counted). */
uint64_t crti_memory_of_tree(pid_t pid);

/* How many processes the kernel has killed for lack of memory since the host started; 0 when it
 * does not say. */
uint64_t crti_memory_kills(const char *root);

#endif
