/* SPDX-License-Identifier: Apache-2.0 */
/* Fences: the node tells the workers of fenced actors since when the head has not heard of it
 * (base/fence.h).
 *
 * Where it sits
 *     head.c (heartbeats, acknowledgements) -> [ node/actors/fence.c ] -> blackboards ->
 *     core/execution/execute.c
 * Threads
 *     The loop's.
 * Invariants
 *     What a blackboard says is never later than the moment at which a heartbeat was handed to the
 *     link that the head has acknowledged. Nothing needs to be done when the head is lost, nor
 *     can be when this daemon is stopped: the word grows old by itself.
 */
#include "runtime/base/fence.h"
#include "runtime/node/actors/actors_int.h"
#include "runtime/node/process/process.h"

void crti_fence_init(crti_node_t *node)
{
    crti_list_init(&node->fence->workers);
}

void crti_fence_sent(crti_node_t *node, uint64_t sequence)
{
    node->fence->sent_ns[sequence % CRTI_NODE_BEATS] = crti_boot_ns();
    node->fence->last_sent = sequence;
}

static void write_board(const crti_process_t *process, uint64_t head_ns)
{
    if (process->board)
        atomic_store_explicit(&process->board->head_ns, head_ns, memory_order_relaxed);
}

void crti_fence_acknowledged(crti_node_t *node, uint64_t sequence)
{
    crti_node_fence_t *fence = node->fence;
    uint64_t sent;

    if (sequence == 0 || sequence > fence->last_sent ||
        fence->last_sent - sequence >= CRTI_NODE_BEATS)
        return;
    sent = fence->sent_ns[sequence % CRTI_NODE_BEATS];
    if (sent <= fence->head_ns)
        return;
    fence->head_ns = sent;
    CRTI_LIST_FOREACH (item, &fence->workers)
        write_board(CRTI_CONTAINER(item, crti_process_t, in_fenced), sent);
}

void crti_fence_add(crti_process_t *process)
{
    crti_node_fence_t *fence = process->node->fence;

    crti_list_remove(&process->in_fenced);
    crti_list_append(&fence->workers, &process->in_fenced);
    write_board(process, fence->head_ns);
}

void crti_fence_shut(crti_process_t *process)
{
    if (crti_list_is_empty(&process->in_fenced))
        return;
    crti_list_remove(&process->in_fenced);
    write_board(process, 0);
}
