/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: who asks for workers, and what they hear.
 *
 * Where it sits
 *     local_dispatch.c, peer_dispatch.c (requests) -> [ node/leases/lease.c ] -> lease_table.c,
 *     worker_table.c
 *     lease_table.c, worker_table.c (actions) -> [ node/dispatch/lease_act.c ] -> spawn.c, actor.c
 * Invariants
 *     Whoever changes one of the tables calls crti_lease_act, which carries out what they decided.
 */
#ifndef CRTI_NODE_LEASE_H
#define CRTI_NODE_LEASE_H

#include "runtime/node/types.h"

/* `carry_out`: what both tables decided. */
crt_status_t crti_lease_init(crti_node_t *node, void (*carry_out)(crti_node_t *node));
/* The head says what becomes of requests that no node has the resources for, unless they say so
 * themselves; in a cluster that may grow they wait. */
void crti_lease_default(crti_node_t *node, bool fails_if_infeasible, bool may_grow);
/* The node is drained: leases begin elsewhere, what other nodes asked for goes back to them, those
 * that run end their turns. Also when it is so already, for those that began meanwhile. */
void crti_lease_drain(crti_node_t *node);
/* Leases that run or are about to. */
size_t crti_lease_count(const crti_node_t *node);
/* What the node has without being told: its memory but that of its store, and `node:` with its
 * address, which is known when this is called. */
void crti_lease_add_own(crti_node_t *node);
/* The tables may have decided something; safe to call from anywhere. */
void crti_lease_act(crti_node_t *node);
/* A request of a process of this node (`local`), or of another node (`stream` of an inbound
 * link). */
void crti_lease_asked(crti_node_t *node, uint64_t local, crti_stream_t *stream,
                      uint64_t request, const crti_msg_lease_request_t *ask);
void crti_lease_returned(crti_node_t *node, const crti_msg_lease_return_t *back);
void crti_lease_cancelled(crti_node_t *node, crti_id_t lease);
/* The turn of a lease is over, or is to be when nothing runs: its owner hears so, by way of its
 * node; LEASE_YIELD came from there. */
void crti_lease_ask_to_yield(crti_node_t *node, crti_id_t lease, bool when_idle);
void crti_lease_yield_here(crti_node_t *node, const crti_msg_lease_yield_t *yield);
void crti_lease_waiting(crti_node_t *node, const crti_msg_lease_waiting_t *waiting);
/* What becomes of a request here: a worker, an error, another node's. */
void crti_lease_grant(crti_node_t *node, crti_id_t id, const crti_process_t *process);
void crti_lease_answer_error(crti_node_t *node, crti_id_t lease, crt_status_t status,
                             const char *text);
void crti_lease_fail(crti_node_t *node, crti_id_t lease, crt_status_t status,
                     const char *text);
/* LEASE_REFUSE of the head: it fails, if it waits here. */
void crti_lease_refused(crti_node_t *node, const crti_msg_lease_refuse_t *refuse);
/* What was asked for with a request that is not answered; NULL: the job's. Borrowed. */
struct crti_environment *crti_lease_environment(const crti_node_t *node, crti_id_t id);
void crti_lease_forward(crti_node_t *node, crti_id_t id, crti_id_t to);
/* lease_levels.c: a list of JOB_USE, and what the head answers. */
crt_status_t crti_lease_uses(crti_node_t *node, crti_buffer_t *list);
void crti_lease_levels(crti_node_t *node, const crti_msg_heartbeat_ack_t *ack);
/* An inbound link closed: what it asked for and was not granted is dropped. */
void crti_lease_stream_closed(crti_node_t *node, crti_stream_t *stream);
void crti_lease_local_closed(crti_node_t *node, uint64_t local);
/* Its owner is dead: leases end, their workers too. */
void crti_lease_owner_died(crti_node_t *node, crti_id_t owner, crti_id_t owner_node);
/* A worker's process is gone: its lease ends and its owner hears of it. */
void crti_lease_worker_died(crti_process_t *process, crt_status_t status,
                            const char *text);
/* The function that a worker runs, or "". */
const char *crti_lease_function(crti_node_t *node, const crti_worker_t *worker);
void crti_lease_free(crti_node_t *node);

#endif
