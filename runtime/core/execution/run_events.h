/* SPDX-License-Identifier: Apache-2.0 */
/* Run events: calls that run here, for people (base/task_events.h).
 *
 * Where it sits
 *     execute.c -> [ execution/run_events.c ] -> the ring of this process -> its node
 * Threads
 *     The core's lock.
 */
#ifndef CRTI_CORE_EXECUTION_RUN_EVENTS_H
#define CRTI_CORE_EXECUTION_RUN_EVENTS_H

#include "runtime/core/types.h"

/* User code begins to run for it. */
void crti_run_event_begun(crt_call_t *call);
/* User code has come back. */
void crti_run_event_back(crt_call_t *call);
/* What it has printed is in the log of the worker, and call->status says how it ended. */
void crti_run_event_ended(crt_call_t *call);
/* Collectives that end sooner are not worth an entry: they could not be seen in a timeline. */
#define CRTI_COLLECTIVE_EVENT_NS ((uint64_t)50000)
/* One that this process has taken part in, from `begun_ns` until now. Takes the lock. */
void crti_collective_event(const char *name, uint64_t begun_ns, crt_status_t status);
/* Which call it is, as its owner names it: the same number however often it is made. */
void crti_call_id(const crt_call_t *call, crti_id_t *owner, uint64_t *number);
/* Handler of core: the call that runs in this thread, as its owner names it. */
void crti_run_event_name(crti_core_t *core, crti_id_t *owner_out, uint64_t *number_out);

#endif
