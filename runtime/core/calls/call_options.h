/* SPDX-License-Identifier: Apache-2.0 */
/* Options of one call that few have: a name of its own, a deadline, errors for which it is made
 * again. What a program asks for is checked and kept with the pending call.
 *
 * Where it sits
 *     outgoing.c -> [ call_options.c ] -> pending.c (names), execution/cancel.c (deadlines)
 * Threads
 *     The core's lock.
 * Ownership
 *     A spec owns its options, a pending call its deadline.
 */
#ifndef CRTI_CORE_CALLS_CALL_OPTIONS_H
#define CRTI_CORE_CALLS_CALL_OPTIONS_H

#include "runtime/core/calls/calls.h"

#define CRTI_TASK_RETRIES 3 /* when its options do not say otherwise */

/* Of a spec. */
struct crti_call_options {
    char *name; /* NULL: its function's */
    int64_t timeout_ms;
    double backup_after; /* 0: never */
    uint64_t retried[2]; /* bit -status: errors for which it is made again */
};

/* Of a pending call with a timeout. */
struct crti_call_deadline {
    crti_deadline_t deadline; /* in core->calls->deadlines */
    crti_pending_t *pending;
};

/* How often a call is made again by the option max_attempts; -1: without limit. `otherwise`: when
 * the option is 0. */
crt_status_t crti_retries(int64_t max_attempts, int64_t otherwise, int64_t *retries_out);
/* Options that stay with the call. */
static inline bool crti_call_keeps_options(const crti_target_t *target)
{
    return target->name || target->timeout_ms || target->retry_exceptions ||
           target->backup_after != 0;
}
static inline bool crti_call_has_options(const crti_target_t *target)
{
    return target->copies || crti_call_keeps_options(target);
}
/* CRT_ERR_INVALID: a name, timeout or status that is none. */
crt_status_t crti_call_options_check(const crti_target_t *target);
/* Kept with a pending call that was just made; nothing when nothing was asked for. */
crt_status_t crti_call_options_keep(crti_pending_t *pending, const crti_target_t *target);
/* The same options for another attempt, and a new deadline when the whole call is made again. */
crt_status_t crti_call_options_again(crti_pending_t *pending,
                                     const crti_call_options_t *options,
                                     bool has_deadline);
crti_call_options_t *crti_call_options_copy(const crti_call_options_t *options);
void crti_call_options_free(crti_call_options_t *options);
void crti_call_deadline_end(crti_pending_t *pending);

/* As logs and the state show the call: "Counter.add", or its own name; and as errors tell the
 * function. */
static inline const char *crti_call_name(const crti_pending_t *pending)
{
    const crti_call_options_t *options = pending->spec.options;

    return options && options->name ? options->name : pending->spec.function->display;
}
const char *crti_call_method(const crti_pending_t *pending);
/* Is it made again for that failure, if it may be made again at all? */
bool crti_call_is_retried_for(const crti_pending_t *pending, const crti_failure_t *f);
/* A call whose time is over, without its deadline from then on; NULL: none, and the timer is set
 * for the next. */
crti_pending_t *crti_call_expired(crti_core_t *core, uint64_t now_ns);

#endif
