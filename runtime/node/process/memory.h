/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the node: reads it, ends the worker that memory_watch.c names, and says why.
 *
 * Where it sits
 *     timer -> [ node/process/memory.c ] -> base/memory.c (host, groups, workers) -> memory_watch.c
 *         -> SIGKILL -> death.c (the report that the callers get)
 * Threads: the loop.
 * Cost
 *     Some 50 us once a second; below 70 % of the memory no worker is read.
 * Failure
 *     The kernel can be faster. Workers are the first that it takes (spawn.c), and the report says
 *     that it was the kernel, and why.
 */
#ifndef CRTI_NODE_MEMORY_H
#define CRTI_NODE_MEMORY_H

#include "runtime/node/process/memory_watch.h"
#include "runtime/node/types.h"

typedef struct crti_node_memory {
    crti_memory_watch_t watch;
    crti_timer_t timer;
    uint64_t used, total; /* at the last reading */
    uint64_t ended;       /* workers, for lack of memory */
    crti_id_t ending;     /* the last of them until it is gone */
    uint64_t kills;       /* of the kernel, when last looked at */
} crti_node_memory_t;

/* Begins to watch the node's memory. */
crt_status_t crti_memory_start(crti_node_t *node);
/* A worker begins a lease. */
void crti_memory_began(crti_process_t *process);
/* A worker that has done nothing yet begins an actor, with so many bytes (0: to be looked up), which
 * are returned. */
uint64_t crti_memory_born(crti_process_t *process, uint64_t bytes);
/* Its process is gone. */
void crti_memory_gone(const crti_process_t *process);
/* True when the kernel killed a process for lack of memory since this was asked last. */
bool crti_memory_kernel_killed(crti_node_t *node);

#endif
