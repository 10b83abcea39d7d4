/* SPDX-License-Identifier: Apache-2.0 */
/* Backlog: tasks far back in the queue of a pool, each in a few bytes instead of a pending call, so
 * that a million of them may wait.
 *
 * Where it sits
 *     submit.c (a task is queued behind many; the queue runs empty) -> [ backlog.c ] -> pending.c
 *     whoever asks for the call of a ref (crti_ref_call) -> [ backlog.c ]
 * Threads
 *     The core's lock.
 * Ownership
 *     An entry holds what its pending call held: its result, and the refs that its arguments need.
 * States
 *     pending call, QUEUED -> entry (crti_backlog_put) -> the same pending call, QUEUED, once it is
 *     its turn (crti_backlog_next), or somebody asks for it (crti_backlog_take). An entry is gone
 *     after either.
 */
#ifndef CRTI_CORE_CALLS_BACKLOG_H
#define CRTI_CORE_CALLS_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/base/list.h"
#include "runtime/core/calls/calls.h"

typedef struct crti_backlog {
    crti_list_t chunks; /* in the order of their tasks */
    size_t count;       /* entries that are not gone */
} crti_backlog_t;

void crti_backlog_init(crti_backlog_t *backlog);
void crti_backlog_fini(crti_backlog_t *backlog);

/* Behind all others: then `pending` is gone. False, and nothing has changed: it has more to it than
 * an entry can keep, or there is no memory. */
bool crti_backlog_put(crti_backlog_t *backlog, crti_pending_t *pending);
/* The first one as a pending call that is QUEUED, in no list. NULL: there is none, or no memory. */
crti_pending_t *crti_backlog_next(crti_backlog_t *backlog);
/* The call of a ref that is in a backlog, in its pool's queue now. NULL: no memory. */
crti_pending_t *crti_backlog_take(crt_ref_t *ref);
/* The call that made the call of a ref that is in a backlog. */
uint64_t crti_backlog_parent(const crt_ref_t *ref);

/* Whether a call makes it; that call, out of the backlog if it was there. */
static inline bool crti_ref_has_call(const crt_ref_t *ref)
{
    return ref->in_backlog || ref->call;
}
static inline crti_pending_t *crti_ref_call(crt_ref_t *ref)
{
    return ref->in_backlog ? crti_backlog_take(ref) : ref->call;
}
/* The same, but NULL for one in a backlog: that waits for a worker, and for nothing else. */
static inline crti_pending_t *crti_ref_pending(const crt_ref_t *ref)
{
    return ref->in_backlog ? NULL : ref->call;
}

#endif
