/* SPDX-License-Identifier: Apache-2.0 */
/* Spill: objects of this node that are on disk, as the loop sees them: who waits for them here, and
 * parts of them for other nodes.
 *
 * Where it sits
 *     node.c (start, stop), transfer.c (a PULL, an OBJECT_GET), tick.c -> [ objects/spill.c ]
 *         -> spill_threads.c, spill_files.c
 * Threads
 *     The loop's. What waits for a disk is done by spill_threads.c.
 */
#ifndef CRTI_NODE_SPILL_H
#define CRTI_NODE_SPILL_H

#include "runtime/node/objects/pull_table.h"
#include "runtime/node/objects/share_table.h"
#include "runtime/node/objects/spill_files.h"
#include "runtime/node/types.h"

/* After the store, by the node's options. CRT_ERR_INVALID, CRT_ERR_PERMISSION, CRT_ERR_IO: a
 * directory that was named can't be used. */
crt_status_t crti_spill_start(crti_node_t *node);
/* Before the loop and the store go. False: a disk does not answer; the store is to be left as it
 * is. */
bool crti_spill_stop(crti_node_t *node);

/* True: the object is on disk here; `requester` is answered when it is in the store. */
bool crti_spill_pull(crti_node_t *node, crti_object_id_t object,
                     crti_pull_requester_t requester);
/* Why it was lost here; NULL: it was not, as far as is remembered. Valid until the next loss. */
const char *crti_spill_lost(const crti_node_t *node, crti_object_id_t object);

/* Whether its bytes are on disk here, and how many. */
bool crti_spill_holds(crti_node_t *node, crti_object_id_t object, uint64_t *size_out);
/* The part that is asked for leaves when it has been read. */
void crti_spill_send(crti_node_t *node, const crti_share_question_t *question);
/* Before the stream is freed. */
void crti_spill_stream_closed(crti_node_t *node, const crti_stream_t *stream);

/* When it is due again. */
uint64_t crti_spill_tick(crti_node_t *node, uint64_t now_ns);

/* Why nothing is written that should be; "": it is, or nothing is spilled here. Returns `text`. */
const char *crti_spill_trouble(const crti_node_t *node, char *text, size_t size);

/* All zero when nothing is spilled here. */
crti_spill_figures_t crti_spill_figures(const crti_node_t *node);

#endif
