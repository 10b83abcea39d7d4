/* SPDX-License-Identifier: Apache-2.0 */
/* What the state tells of the queue of an actor. See queue_figures.c. */
#ifndef CRTI_CORE_EXECUTION_QUEUE_FIGURES_H
#define CRTI_CORE_EXECUTION_QUEUE_FIGURES_H

#include "runtime/core/types.h"

typedef struct crti_queue_figures {
    uint64_t queued;
    const crt_call_t *watched; /* NULL: none */
} crti_queue_figures_t;

/* The call is in the queue of its group; `waits`: no thread is free for it. */
void crti_queue_entered(crt_call_t *call, bool waits);
void crti_queue_left(crt_call_t *call);

#endif
