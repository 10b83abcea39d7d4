/* SPDX-License-Identifier: Apache-2.0 */
/* Call specification: what is called, with which arguments, by which options and on which kind of
 * process: all that an attempt to run it begins with, and nothing of where or how often it ran.
 *
 * Where it sits
 *     outgoing.c, encode_call.c (make one) -> [ call_spec ] -> attempts (pending.c), backlog.c
 * Threads
 *     The core's lock.
 * Ownership
 *     It holds its actor and the refs that its arguments need (pins), and owns its options and its
 *     record. A member of the pending call.
 * Invariants
 *     It does not change once its arguments are encoded, but for the number of the attempt in the
 *     head of the record.
 */
#ifndef CRTI_CORE_CALLS_CALL_SPEC_H
#define CRTI_CORE_CALLS_CALL_SPEC_H

#include <stdint.h>

#include "runtime/base/buffer.h"
#include "runtime/core/process/program.h"
#include "runtime/core/types.h"

typedef struct crti_task_pool crti_task_pool_t;       /* tasks.h */
typedef struct crti_call_options crti_call_options_t; /* call_options.h */

#define CRTI_RETRIES_OF_ACTOR INT64_MIN /* as its max_task_retries says */

typedef struct crti_call_spec {
    const crti_function_t *function;
    crt_actor_t *actor;           /* held; NULL: a task */
    int64_t max_retries;          /* -1: without limit; or CRTI_RETRIES_OF_ACTOR */
    unsigned group;               /* of a method: its concurrency group, 0: none */
    unsigned returns;             /* results */
    crti_call_options_t *options; /* NULL: nothing unusual */
    /* The call as it is sent. Of a method only while it is queued, unless it may be made again. */
    crti_buffer_t record;
    crt_ref_t *few_pins[4];
    crt_ref_t **pins; /* refs it needs */
    uint32_t pin_count, pin_room;
} crti_call_spec_t;

/* The ref is held until the spec ends. */
crt_status_t crti_call_spec_pin(crti_call_spec_t *spec, crt_ref_t *ref);
/* Takes over the holds of `count` refs. False: no memory. */
bool crti_call_spec_take_pins(crti_call_spec_t *spec, crt_ref_t *const *pins,
                              uint32_t count);
/* Its options end, and its holds of refs; the actor is the caller's to release. */
void crti_call_spec_end(crti_call_spec_t *spec);

#endif
