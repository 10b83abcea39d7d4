/* SPDX-License-Identifier: Apache-2.0 */
/* Execution: the structs of calls that this process was asked to run (incoming.c, execute.c,
 * call.c). A part of core.h, which says the rest. */
#ifndef CRTI_CORE_EXECUTION_H
#define CRTI_CORE_EXECUTION_H

/* Something that ends when registrations were answered: a call's reply, a borrowed value. */
typedef struct crti_completion {
    unsigned waits;
    crt_status_t status; /* why a registration was given up; CRT_OK */
    void (*on_end)(struct crti_completion *ending);
} crti_completion_t;

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

/* A call that this process was asked to run. */
struct crt_call {
    crti_list_t link;      /* runnable, or client->blocked */
    crti_list_t of_client; /* client->calls */
    crti_core_t *core;
    crti_client_t *client;   /* NULL: our own task, run inline; or an actor's creation */
    crti_pending_t *pending; /* of our own task */
    const crti_function_t *function;
    uint64_t number;
    unsigned flags;
    unsigned arg_count;
    unsigned missing; /* arguments that are not here */
    bool is_started, is_blocked, has_returned, is_cancelled, may_wait;
    crti_incoming_arg_t *args; /* NULL: not opened yet */
    void *record;              /* 64-aligned */
    size_t record_size;
    crt_call_t *outer; /* the call that runs below this one in the same thread */

    /* the result */
    crti_result_form_t form;
    unsigned scalar_size;    /* VALUE that is in `scalar`; 0: it is in `value` */
    crti_object_id_t object; /* STORED */
    size_t object_size;
    unsigned objects_made;
    crt_ref_t **result_refs; /* refs inside the result, held until the reply */
    size_t result_ref_count;
    bool *is_lent; /* of each: who gets it is registered */
    crt_status_t status;
    char *text;
    crti_error_t *origin;     /* of the argument that had failed */
    crti_completion_t ending; /* registrations to be answered before the reply */

    /* From here on a new call finds what an earlier one left: thousands of calls may wait, and
     * memory that is not touched costs nothing. Buffers are kept for reuse. */
    crti_buffer_t value; /* VALUE, DATA; or the table of STORED */
    unsigned char scalar[CRTI_SCALAR_MAX];
    crti_incoming_arg_t few_args[CRTI_FEW_ARGS];
    crti_encoder_t encoder;
    _Alignas(64) unsigned char small_record[CRTI_SMALL_RECORD];
};

/* One ending that waits for one ref's registration (ref->uncovering). */
typedef struct crti_end_wait {
    crti_list_t link;
    crti_completion_t *ending;
} crti_end_wait_t;

#endif
