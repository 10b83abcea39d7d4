/* SPDX-License-Identifier: Apache-2.0 */
/* Transfer: object parts between the stores of two nodes, straight from and into shared memory.
 *
 * Where it sits
 *     local_dispatch.c (PULL, FREE), peer_dispatch.c (OBJECT_GET) -> [ node/objects/transfer.c ]
 *     <-> pull_table.c, share_table.c, store, peer.c
 * Ownership
 *     The memory of an object that is being pulled is this daemon's until its seal. Parts of it may
 *     be on their way to other nodes: it is kept until the last of them has left, also when the
 *     pull has ended.
 * Invariants
 *     A part is received only into an object that this daemon created and has not sealed; when a
 *     pull is given up, parts on their way are thrown away before the memory is given back.
 */
#ifndef CRTI_NODE_TRANSFER_H
#define CRTI_NODE_TRANSFER_H

#include "runtime/node/types.h"

#define CRTI_FREE_ENTRY 40 /* bytes of an entry in FREE: object, node */

void crti_pull_asked(crti_node_t *node, uint64_t local, uint64_t request,
                     crti_id_t process, const crti_msg_pull_t *pull);
/* STATE_QUERY "transfer" of a local process: how far the object is that `filter` names, for who has
 * waited long. */
void crti_pull_progress_asked(crti_node_t *node, uint64_t local, uint64_t request,
                              crti_span_t filter);
/* `from` asks by `stream` for a part. */
void crti_object_serve(crti_node_t *node, crti_id_t from, crti_stream_t *stream,
                       uint64_t request, const crti_msg_object_get_t *get);
void crti_object_left(crti_node_t *node, crti_id_t from,
                      const crti_msg_object_leave_t *left);
/* Entry `index` of the last pulls, the newest first; NULL: there are no more. */
const struct crti_transfer *crti_pull_logged(const crti_node_t *node, size_t index);
/* Before the stream of an inbound link is freed. */
void crti_object_stream_closed(crti_node_t *node, crti_stream_t *stream);
void crti_object_free(crti_node_t *node, crti_span_t objects);
crt_status_t crti_pull_init(crti_node_t *node);
/* The table of pulls may have decided something; safe to call from anywhere. */
void crti_pull_act(crti_node_t *node);
void crti_pull_free(crti_node_t *node);

/* pull_retry.c. */
void crti_pull_retry_node_died(crti_node_t *node, crti_id_t dead);

/* ---------------------------------------------------------------- owner.c */

void crti_owner_init(crti_node_t *node);
/* Its objects go with a tick, soon. */
void crti_owner_died(crti_node_t *node, crti_id_t owner);
/* When the next tick is due; the sweep comes with the ticks that there are. */
uint64_t crti_owner_tick(crti_node_t *node, uint64_t now_ns);
void crti_owner_node_died(crti_node_t *node, crti_id_t dead);
void crti_owner_node_lives(crti_node_t *node, crti_id_t id);
void crti_owner_free(crti_node_t *node);

#endif
