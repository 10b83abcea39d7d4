/* SPDX-License-Identifier: Apache-2.0 */
/* What callers of an actor obey of the options that it was made with: it goes with each handle.
 * The list makes fields of messages (net/protocol.h), of a handle in a value
 * (core/values/value_encode.c) and of the handle (core/calls/actor.h).
 */
#ifndef CRTI_BASE_ACTOR_TERMS_H
#define CRTI_BASE_ACTOR_TERMS_H

#include <stdbool.h>
#include <stdint.h>

/* T(I64 or BOOL, name)
 *     max_task_retries   how often each call may be made again; -1: without limit
 *     max_pending_calls  calls of one process that were not answered; 0, -1: without limit
 *     is_unordered       calls that wait for arguments keep no place in the queue
 */
#define CRTI_ACTOR_TERMS(T)                                                              \
    T(I64, max_task_retries) T(I64, max_pending_calls) T(BOOL, is_unordered)

#define CRTI_TERM_I64                int64_t
#define CRTI_TERM_BOOL               bool
#define CRTI_TERM_MEMBER(type, name) CRTI_TERM_##type name;
typedef struct crti_actor_terms {
    CRTI_ACTOR_TERMS(CRTI_TERM_MEMBER)
} crti_actor_terms_t;

/* From one struct that has them to another. */
#define CRTI_TERM_COPY(type, name) crti_to->name = crti_from->name;
#define CRTI_TERMS_COPY(to, from)                                                        \
    do {                                                                                 \
        __typeof__(to) crti_to = (to);                                                   \
        __typeof__(from) crti_from = (from);                                             \
        CRTI_ACTOR_TERMS(CRTI_TERM_COPY)                                                 \
    } while (0)

#endif
