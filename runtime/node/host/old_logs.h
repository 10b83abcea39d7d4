/* SPDX-License-Identifier: Apache-2.0 */
/* Old logs: the directories that earlier nodes left in the state directory are kept within limits.
 *
 * Where it sits
 *     node.c (start) -> [ node/old_logs ] -> STATE/node-XXXXXXXX of nodes that ended
 * Rules
 *     A node holds the lock of its directory while it lives, so that a node of another host that
 *     shares the home directory is seen too. Of the others the newest are kept: CRTI_OLD_NODES
 *     directories, of `total` bytes in all.
 * Threads
 *     One of its own, which shares nothing: a large directory must not delay a node.
 * Failure
 *     What can't be removed stays, and the next node that starts tries again.
 */
#ifndef CRTI_NODE_OLD_LOGS_H
#define CRTI_NODE_OLD_LOGS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CRTI_OLD_NODES 100

typedef struct crti_old_logs {
    char state_dir[256], own[256];
    uint64_t total;
    atomic_bool stops;
    bool is_running;
    pthread_t thread;
} crti_old_logs_t;

/* Removes what is beyond the limits, but never `own` (a path); how many directories. */
size_t crti_old_logs_trim(const char *state_dir, const char *own, uint64_t total,
                          const atomic_bool *stops);

/* The same beside everything else. `fini` waits until it has ended, early. */
void crti_old_logs_start(crti_old_logs_t *old, const char *state_dir, const char *own,
                         uint64_t total);
void crti_old_logs_fini(crti_old_logs_t *old);

#endif
