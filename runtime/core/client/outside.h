/* SPDX-License-Identifier: Apache-2.0 */
/* Calls from outside the cluster: crt-http makes them for its clients, by the names of actor and
 * method. It has no class of theirs, so that the worker checks what a caller checks elsewhere
 * (execution/outside_call.c).
 *
 * Where it sits
 *     http/actor_call.c -> [ client/outside.c ] -> calls/outgoing.c -> CALL ->
 *     execution/outside_call.c
 * Threads
 *     Any thread asks, in the process of a driver that has joined. Nothing here waits. Callbacks
 *     run in any thread, with the core's lock held: they may not call anything of the core.
 * Ownership
 *     A call is its maker's memory, from crti_outside_begin until crti_outside_end, also when the
 *     driver has left meanwhile. What it looks at is borrowed until crti_outside_next or _end.
 * Invariants
 *     A caller from outside does not keep an actor alive: it ends when nobody in the cluster has a
 *     handle of it.
 */
#ifndef CRTI_CORE_CLIENT_OUTSIDE_H
#define CRTI_CORE_CLIENT_OUTSIDE_H

#include "runtime/core/refs/refs.h"
#include "runtime/crt.h"

/* CRT_OK, or why nothing can be called: the driver has not joined, or its node has gone. */
crt_status_t crti_outside_check(void);

/* `actor` is NULL when `status` is not CRT_OK; crt_error_detail() then says why. The handle is
 * dropped with crt_actor_drop. `is_alive`: it runs; else it is being placed, started or
 * restarted. */
typedef void crti_outside_found_t(void *user, crt_status_t status, crt_actor_t *actor,
                                  bool is_alive);

/* Asks the head for a living actor of that name; `on_found` runs once. On failure it does not. */
crt_status_t crti_outside_find(const char *name_space, const char *name,
                               crti_outside_found_t *on_found, void *user);

/* It has ended, for all that is known here: the name may be another one's by now. */
bool crti_outside_is_gone(crt_actor_t *actor);
/* It runs, for all that is known here. */
bool crti_outside_is_callable(crt_actor_t *actor);

typedef struct crti_outside_call crti_outside_call_t;
struct crti_outside_call {
    /* Set by its maker: there may be something new to look at. */
    void (*on_change)(crti_outside_call_t *call);
    /* Private. */
    crt_ref_t *ref;       /* held: the result; or the next item of a stream; or NULL */
    crt_stream_t *stream; /* held; NULL: no stream */
    crti_waiting_t waiting;
};

typedef struct crti_outside_target {
    crt_actor_t *actor;
    const char *method;
    bool has_token; /* false: only .http_public methods are called */
    bool is_stream; /* its results are taken one by one */
    int64_t timeout_ms;
    const crt_arg_t *args;
    size_t count;
} crti_outside_target_t;

/* Makes the call. Large arguments are put into the store, which may wait for room. On failure there
 * is no call. CRT_ERR_BACKPRESSURE: too much waits for that actor. */
crt_status_t crti_outside_begin(crti_outside_call_t *call,
                                const crti_outside_target_t *target);

/* The result, or the item of a stream that is next. CRT_IN_PROGRESS: it is not here; on_change
 * follows. CRT_END_OF_STREAM. Any other status is that of the call; `*may_have_run_out` then says
 * whether it may have run. */
crt_status_t crti_outside_look(crti_outside_call_t *call, const crt_value_t **value_out,
                               bool *may_have_run_out);

/* The item of a stream that was looked at is done with: the next one. */
void crti_outside_next(crti_outside_call_t *call);

/* Lets it go; one that runs is cancelled. on_change is not called any more. */
void crti_outside_end(crti_outside_call_t *call);

#endif
