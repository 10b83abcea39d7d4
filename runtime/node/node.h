/* SPDX-License-Identifier: Apache-2.0 */
/* Node daemon: its start and end, and what it is made of.
 *
 * Modules; calls and includes go downward, what must go up goes by a handler that parts.c sets.
 * What all of them see of the node is process/context.h:
 *     dispatch/   what comes in on a link, what tables decided, the end of a process: who serves it
 *     lifecycle/  the start as others see it, the end, orphans
 *     jobs/       programs, zygotes, workers from a request to a process; submitted jobs
 *     logs/       who reads logs
 *     actors/     actors of this node, fences
 *     objects/    parts of objects from and to other nodes; objects of dead owners
 *     leases/     who asked for workers, the tables of leases and of workers
 *     watches/    who wants to hear of the end of a process, or of an actor's life
 *     links/      connections: processes of this node, the head, other nodes
 *     process/    records of processes, how their end is noticed, memory, stalls
 *     host/       what knows no node: fork and exec, pipes and log files, limits of the host
 *     main.c -> node.c (start, end) -> one loop (net/loop.c); tick.c is the time of the tables
 * Ownership
 *     Each part belongs to the module that knows its inside, which alone changes it.
 * Invariants
 *     A table is never changed while its actions are being carried out: events that come up
 *     then are carried out by the same loop in lease_act.c or transfer.c.
 */
#ifndef CRTI_NODE_NODE_H
#define CRTI_NODE_NODE_H

#include "runtime/node/options.h"
#include "runtime/node/types.h"

/* Starts everything that does not need the head, and begins to connect. `run` the loop then. */
crt_status_t crti_node_new(const crti_options_t *options, crti_node_t **node_out);
/* Serves until it is stopped; the exit status of the process. */
int crti_node_run(crti_node_t *node);
void crti_node_free(crti_node_t *node);

/* parts.c: the context and the parts, zero, in one block, which free() frees. NULL: out of
 * memory. */
crti_node_t *crti_node_make(void);
/* What each module begins with, when id and options are known. */
crt_status_t crti_node_init_parts(crti_node_t *node);

/* tick.c. */
void crti_node_start_ticks(crti_node_t *node);

#endif
