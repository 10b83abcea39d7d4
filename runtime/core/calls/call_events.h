/* SPDX-License-Identifier: Apache-2.0 */
/* Call events: what becomes of the calls of this process, for people (base/task_events.h).
 *
 * Where it sits
 *     actor.c, submit.c, pending.c, remake.c, second_run.c -> [ calls/call_events.c ] -> the ring
 *     of this process -> its node
 * Threads
 *     The core's lock.
 * Cost
 *     A call that is not recorded: one comparison at each step.
 */
#ifndef CRTI_CORE_CALLS_CALL_EVENTS_H
#define CRTI_CORE_CALLS_CALL_EVENTS_H

#include "runtime/core/calls/calls.h"

/* It was made: from now on it waits for its arguments. */
void crti_call_event_made(crti_pending_t *pending);
/* It waits for its actor or a worker; it was sent (pending->remote). */
void crti_call_event_is_queued(crti_pending_t *pending);
void crti_call_event_is_sent(crti_pending_t *pending);
/* It ended so. */
void crti_call_event_ended(crti_pending_t *pending, const crti_result_t *result);
/* The attempt failed, and the call is made again (pending->number and retries are those of the next
 * one). */
void crti_call_event_again(crti_pending_t *pending, const char *text);

/* A second attempt runs beside the first one. */
void crti_call_event_begun_again(crti_pending_t *pending);

static inline void crti_call_event_queued(crti_pending_t *pending)
{
    if (pending->event)
        crti_call_event_is_queued(pending);
}
static inline void crti_call_event_sent(crti_pending_t *pending)
{
    if (pending->event)
        crti_call_event_is_sent(pending);
}

#endif
