/* SPDX-License-Identifier: Apache-2.0 */
/* Fence: how an actor that was made with `.fenced` is never served by two processes at once, also
 * while its node is cut off from the head and neither can tell the other anything.
 *
 * How
 *     A node sends a heartbeat at T; the head hears of it at some H >= T and acknowledges it. Then
 *     the node knows that the head has heard of it at T or later. Until T + CRTI_FENCE_NS its
 *     fenced actors start calls; the head places them again at H + CRTI_FENCE_OVER_NS at the
 *     earliest. The second between is for clocks that run at different rates. A restarted head does
 *     not know H: it takes the time of its own start, which is later.
 *
 *         node  ---- T ----------------- last call starts < T+4 s |
 *         head  ------- H -------------------------------- placed anew >= H+5 s |
 *
 * Two heads
 *     A head with an external redis-server may lose it, and another head may take its tables over,
 *     10 s after it renewed its claim last (control/store/redis_prefix_lock.h). It acknowledges
 *     heartbeats for 8 s, and then with the sequence 0, which is no promise: the last calls start
 *     12 s after that renewal, the other head places the actor 5 s after its own start, at 15 s.
 * Clocks
 *     The node's side reads CLOCK_BOOTTIME, which goes on while the host sleeps and is never set:
 *     a host that was suspended finds its fence shut. The head's side reads CLOCK_MONOTONIC, which
 *     at worst makes it wait longer. A virtual machine that is frozen from outside, so that its
 *     own clocks stand still, is beyond this.
 * Where it sits
 *     head.c, fence.c (node: when what was sent, the last T) -> blackboard -> execute.c (worker)
 *     control_actor.c (head: when to place again)
 */
#ifndef CRTI_BASE_FENCE_H
#define CRTI_BASE_FENCE_H

#include <stdbool.h>

#include "runtime/base/clock.h"

#define CRTI_FENCE_NS      (4 * CRTI_S)
#define CRTI_FENCE_OVER_NS (5 * CRTI_S)

/* May a call of a fenced actor not start now? `head_ns` is when the last heartbeat was sent that
 * the head has acknowledged, by the clock of crti_boot_ns; 0: none, or the actor is to end. */
static inline bool crti_fence_is_shut(uint64_t head_ns, uint64_t now_ns)
{
    return head_ns == 0 || (now_ns > head_ns && now_ns - head_ns >= CRTI_FENCE_NS);
}

#endif
