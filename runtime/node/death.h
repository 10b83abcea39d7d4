/* SPDX-License-Identifier: Apache-2.0 */
/* Death: the end of a process of this node, noticed by its pidfd, reported once, and everything
 * it held taken back.
 *
 * Where it sits
 *     pidfd, zygote (REAPED), local link -> [ node/death.c ] -> tables, store, watch.c, head
 * Rules
 *     The rest of a worker's process group is killed before its last output is read, so that a
 *     grandchild can't hold the report up. The report waits at most REAP_NS for the wait
 *     status: a zygote reaps its workers, this node reaps what it executed and orphans.
 *     The store's slot is taken back first, when no thread of the process runs any more: others may
 *     wait for a lock that it had.
 */
#ifndef CRTI_NODE_DEATH_H
#define CRTI_NODE_DEATH_H

#include "runtime/node/types.h"

/* A driver said that it leaves; with a request it hears when what ran for it here has ended. */
void crti_death_driver_leaves(crti_process_t *process, uint64_t request,
                              const crti_msg_shutdown_t *message);
/* A driver closed its link: it left the cluster, whether its process lives on or not. */
void crti_death_driver_closed(crti_process_t *process);
/* A process somewhere in the cluster ended. */
void crti_process_died(crti_node_t *node, const crti_msg_peer_died_t *died);
void crti_node_died(crti_node_t *node, const crti_msg_node_died_t *died);
void crti_death_init(crti_node_t *node);

#endif
