/* SPDX-License-Identifier: Apache-2.0 */
/* Execution: calls that this process was asked to run.
 *
 * Where it sits
 *     net -> client/dispatch.c -> [ incoming.c (arguments) -> execute.c -> user code -> call.c
 *     (result) -> incoming.c ] -> REPLY
 * Threads
 *     The core's lock, but not while user code runs.
 * Ownership
 *     A call belongs to its client until it is answered; what its arguments need is covered by it.
 * States
 *     blocked (behind one whose arguments are not here), waiting for arguments (missing > 0),
 *     runnable, started, returned
 */
#ifndef CRTI_CORE_EXECUTION_EXECUTION_H
#define CRTI_CORE_EXECUTION_EXECUTION_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/list.h"
#include "runtime/core/execution/executor.h"
#include "runtime/core/process/seeds.h"
#include "runtime/core/refs/refs.h"
#include "runtime/core/types.h"
#include "runtime/core/values/error.h"

typedef struct crti_incoming_arg {
    crt_value_t value;
    void *memory;
    crt_ref_t *ref; /* passed by value from elsewhere; covered by the call */
    crti_contained_t inner;
    crti_waiting_t waiting;
    crt_call_t *call;
} crti_incoming_arg_t;

#define CRTI_FEW_ARGS     4
#define CRTI_SMALL_RECORD 192

/* One of the results of a call. */
typedef struct crti_call_result {
    bool is_set; /* by user code */
    crti_result_form_t form;
    unsigned scalar_size;    /* VALUE that is in `scalar`; 0: it is in `value` */
    crti_object_id_t object; /* STORED */
    size_t object_size;
    crt_ref_t **refs; /* inside the result, held until the reply */
    size_t ref_count;
    bool *is_lent; /* of each: who gets it is registered */
    /* What an earlier call left in its first result: the buffer is kept for reuse. */
    crti_buffer_t value; /* VALUE, DATA; or the table of STORED */
    unsigned char scalar[CRTI_SCALAR_MAX];
} crti_call_result_t;

/* A call that this process was asked to run. */
struct crt_call {
    crti_list_t link;      /* the queue of its group, or client->blocked */
    crti_list_t of_client; /* client->calls */
    crti_core_t *core;
    crti_client_t *client;   /* NULL: our own task, run inline; or an actor's creation */
    crti_pending_t *pending; /* of our own task */
    const crti_function_t *function;
    char *given_name; /* what its caller calls it; NULL: nothing else than its function */
    uint64_t number;
    uint64_t arrived;        /* the number of its record in the session */
    crti_call_again_t again; /* of one that was made before, under another number */
    unsigned flags;
    unsigned group; /* of the actor that it is for; 0: none, or a task */
    unsigned arg_count;
    unsigned missing; /* arguments that are not here */
    /* of this process, once it runs: the calls that it makes are its children */
    uint64_t serial;
    uint64_t event_ticket, back_ns; /* of run_events.c */
    crti_executor_t *executor;      /* once it has started */
    bool is_runnable;               /* in its group's queue */
    bool is_started, is_blocked, may_wait;
    bool is_outside;            /* its arguments were not checked by who called it */
    bool is_last;               /* the actor ends itself after it */
    bool is_cancelled;          /* its caller is gone */
    bool is_cancel_requested;   /* its caller wants it to end */
    struct crti_yields *yields; /* yield.h: of a stream; else NULL */
    crti_incoming_arg_t *args;  /* NULL: not opened yet */
    void *record;               /* 64-aligned */
    size_t record_size;
    crt_call_t *outer; /* the call that runs below this one in the same thread */

    crti_placement_t placement; /* of a task */
    crti_seeds_t seeds;         /* of random numbers that are drawn in it */
    unsigned returns;           /* results that the caller wants */
    crti_call_result_t *more;   /* all but the first; NULL: none was returned yet */
    unsigned objects_made;
    crt_status_t status;
    char *text;
    crti_error_t *origin;     /* of the argument that had failed */
    crti_completion_t ending; /* registrations to be answered before the reply */

    crti_call_result_t result; /* the first */

    /* From the value of `result` on a new call finds what an earlier one left: thousands of calls
     * may wait, and memory that is not touched costs nothing. Buffers are kept for reuse. */
    crti_incoming_arg_t few_args[CRTI_FEW_ARGS];
    crti_encoder_t encoder;
    _Alignas(64) unsigned char small_record[CRTI_SMALL_RECORD];
};

/* ------------------------------------------------------------------ incoming.c */

void crti_execution_init(crti_core_t *core);
/* The main thread ends after the method that runs, if any. */
void crti_execution_end(crti_core_t *core);
/* The same when every call that came was answered; without an actor, also only when nobody has an
 * object of this process and its own calls have ended. */
void crti_execution_retire(crti_core_t *core);
void crti_execution_tick(crti_core_t *core, uint64_t now_ns);
void crti_execution_fini(crti_execution_t *execution);
/* Of the actor that lives here; NULL: none. */
const crti_class_t *crti_execution_class(const crti_core_t *core);

crt_status_t crti_incoming_call(crti_client_t *client, const void *data, size_t size);
/* The caller is told that this worker takes no more tasks (max_calls.c). */
void crti_incoming_refuse_more(crti_client_t *client);
/* Tasks that were not started go back to their owners, our own one to its queue. */
void crti_incoming_give_back_call(crt_call_t *call);
void crti_incoming_give_back(crti_client_t *client);
void crti_incoming_give_back_all(crti_core_t *core);
void crti_client_lost(crti_client_t *client);
/* The creation of the actor that lives here; our own task, run by the thread that waits for it.
 * They are not queued: wait until `missing` is 0, then crti_execute. */
crt_status_t crti_incoming_creation(crti_core_t *core, crti_span_t creation,
                                    crt_call_t **call_out);
crt_status_t crti_incoming_own(crti_pending_t *pending, crt_call_t **call_out);
/* One that has not started leaves its queue, and ends with that error. */
void crti_incoming_refuse(crt_call_t *call, crt_status_t status, const char *text);

/* One that has ended, and was answered. */
void crti_call_free(crt_call_t *call);

/* Whether calls are about to begin without anybody's doing. */
typedef struct crti_execution_rest {
    unsigned threads; /* that run calls, or may */
    uint64_t begun;   /* calls so far */
    bool
        is_starting; /* the actor is not created, or a call's arguments are on their way */
} crti_execution_rest_t;
crti_execution_rest_t crti_execution_rest(const crti_core_t *core);

/* ------------------------------------------------------------------ answer.c */

/* It has run, or failed: its arguments are let go, the answer leaves, the call is freed.
 * `may_wait`: the caller is a thread that may give the lock up. */
void crti_call_finish(crt_call_t *call, bool may_wait);
void crti_call_set_error(crt_call_t *call, crt_status_t status, const char *text);
/* The results that were returned: the first, then the others. */
crti_call_result_t *crti_call_result(crt_call_t *call, unsigned index);
/* Who gets it is registered for the refs in a result, or they are taken back from it, or let go. */
void crti_result_register(crt_call_t *call, crti_call_result_t *result,
                          crti_completion_t *ending);
void crti_result_take_back(crt_call_t *call, crti_call_result_t *result);
void crti_result_let_go(crti_call_result_t *result);
/* It is who gets it's (`is_sent`), or nobody's; there is room for another one. */
void crti_result_end(crt_call_t *call, crti_call_result_t *result, bool is_sent);
/* As it is sent; borrowed, also from `node`. */
void crti_result_describe(const crt_call_t *call, const crti_call_result_t *r,
                          unsigned char node[16], crti_result_t *result);
/* Nothing is left that its answer waits for. */
void crti_call_ended(crti_completion_t *ending);

/* ------------------------------------------------------------------ call.c */

/* What the program gives becomes a result: encoded, or stored under its name. Without the lock. */
crt_status_t crti_result_fill(crt_call_t *call, crti_call_result_t *result,
                              const crt_arg_t *value);
/* Handlers of core->name_object and placement_running. */
bool crti_call_name_object(crti_object_id_t *id_out);
crti_placement_t crti_call_placement(const crti_core_t *core);
/* Of the public function of that name: its call is a NULL pointer. */
crt_status_t crti_no_call(const char *function);
/* A result that is a NULL pointer. */
crt_status_t crti_no_value(const crt_call_t *call);

/* ------------------------------------------------------------------ execute.c */

/* Runs user code in this thread, the executor's; lock held at entry and exit, not meanwhile. The
 * call is gone afterwards. */
void crti_execute(crti_executor_t *executor, crt_call_t *call);
/* A worker's life; lock held. Does not come back. */
void crti_serve(crti_core_t *core, crti_span_t creation, crti_span_t saved)
    __attribute__((noreturn));

/* What crt_actor_stop calls. */
extern const crti_function_t crti_stop_function;

/* ------------------------------------------------------------------ max_calls.c */

/* A task begins: after its last one here the worker takes no more. */
void crti_max_calls_begin(crt_call_t *call);

/* ------------------------------------------------------------------ cancel.c */

/* CANCEL came. */
crt_status_t crti_cancel_arrived(crti_client_t *client, const void *data, size_t size);
/* A call of ours ends as by crt_cancel. */
void crti_cancel_call(crti_pending_t *pending);
/* Calls of ours whose time is over end. */
void crti_cancel_expired(crti_core_t *core, uint64_t now_ns);
/* Another call runs in the thread, or none. */
void crti_cancel_running_changed(crti_executor_t *executor);

/* ------------------------------------------------------------------ run_inline.c */

/* Whether crti_run_inline would run one in that thread; `is_late`: because it gets no worker. */
bool crti_may_run_inline(const crti_executor_t *executor, crt_ref_t *ref, bool is_late);
/* Runs the task that makes `ref` in this thread, if it waits for a worker. False: it did not; then
 * `*status_out` is set if the thread is not to wait for it either. */
bool crti_run_inline(crti_core_t *core, crt_ref_t *ref, crt_status_t *status_out);

#endif
