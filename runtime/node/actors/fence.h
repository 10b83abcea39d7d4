/* SPDX-License-Identifier: Apache-2.0 */
/* Fences: the node tells the workers of fenced actors since when the head has not heard of it
 * (base/fence.h).
 *
 * Where it sits
 *     head.c (heartbeats, acknowledgements) -> [ node/actors/fence.c ] -> blackboards -> core/execution/execute.c
 * Threads
 *     The loop's.
 * Invariants
 *     What a blackboard says is never later than the moment at which a heartbeat was handed to the
 *     link that the head has acknowledged. Nothing needs to be done when the head is lost, nor
 *     can be when this daemon is stopped: the word grows old by itself.
 */
#ifndef CRTI_NODE_FENCE_H
#define CRTI_NODE_FENCE_H

#include "runtime/node/types.h"

#define CRTI_NODE_BEATS                                                                  \
    128 /* heartbeats whose acknowledgement may still count: over 6 s of them */

typedef struct crti_node_fence {
    uint64_t sent_ns[CRTI_NODE_BEATS]; /* heartbeats, by sequence */
    uint64_t last_sent;                /* sequence */
    uint64_t head_ns;    /* when the last acknowledged one was sent, 0: none was */
    crti_list_t workers; /* processes of fenced actors */
} crti_node_fence_t;

void crti_fence_init(crti_node_t *node);
/* A heartbeat is about to be sent. */
void crti_fence_sent(crti_node_t *node, uint64_t sequence);
/* The head has answered it: workers of fenced actors may start calls for a while from its sending. */
void crti_fence_acknowledged(crti_node_t *node, uint64_t sequence);
/* The worker, which has a blackboard, will serve a fenced actor. */
void crti_fence_add(crti_process_t *process);
/* It is to end: it starts no call any more, whatever the head acknowledges. */
void crti_fence_shut(crti_process_t *process);

#endif
