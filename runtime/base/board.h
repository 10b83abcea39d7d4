/* SPDX-License-Identifier: Apache-2.0 */
/* Board: the memory that a driver or worker shares with its node daemon, from its first byte on:
 * the blackboard (a page), its metrics, its task events. The node makes it; what is not touched
 * takes no memory. */
#ifndef CRTI_BASE_BOARD_H
#define CRTI_BASE_BOARD_H

#include "runtime/base/blackboard.h"
#include "runtime/base/metrics.h"
#include "runtime/base/task_events.h"

#define CRTI_BOARD_METRICS CRTI_BLACKBOARD_BYTES
#define CRTI_BOARD_EVENTS                                                                \
    (CRTI_BOARD_METRICS + ((sizeof(crti_metrics_t) + 4095) & ~(size_t)4095))

static inline size_t crti_board_bytes(size_t event_slots)
{
    return CRTI_BOARD_EVENTS + crti_task_ring_bytes(event_slots);
}

static inline crti_metrics_t *crti_board_metrics(crti_blackboard_t *board)
{
    return (crti_metrics_t *)(void *)((char *)board + CRTI_BOARD_METRICS);
}

static inline crti_task_ring_t *crti_board_events(crti_blackboard_t *board)
{
    return (crti_task_ring_t *)(void *)((char *)board + CRTI_BOARD_EVENTS);
}

#endif
