/* SPDX-License-Identifier: Apache-2.0 */
/* Outbox: what control says and stores. An answer that depends on rows leaves when they are
 * durable. */
#ifndef CRTI_CONTROL_OUTBOX_H
#define CRTI_CONTROL_OUTBOX_H

#include "runtime/control/control_state.h"

#define CRTI_DIRTY_RETRY_NS CRTI_S /* rows that could not be stored are tried again */

/* What waits for rows to be durable: a message, or work to go on with. */
typedef void crti_after_t(crti_control_t *c, const crti_outgoing_t *out);
struct crti_outgoing {
    crti_list_t in_outbox;
    uint64_t first, last; /* tickets; first > last: of no row, but in order */
    uint64_t link;
    /* of an answer that turns into ERROR; 0: sent as it is; of `after`: as given */
    uint64_t request;
    crti_buffer_t message;
    crti_after_t *after; /* or this */
    crti_id_t id;
    uint64_t number;
    crt_status_t status; /* the first of its rows that failed */
    char *text;
};

/* An operation on its way to the store. */
struct crti_inflight {
    crti_list_t in_flight;
    uint64_t ticket;
    crti_store_verb_t verb;
    crti_store_table_t table;
    crti_id_t id;           /* of a row; CLEAR: of the job */
    uint64_t link, request; /* of a user's value */
};

/* A row that could not be stored. */
typedef struct crti_dirty {
    crti_list_t in_dirty;
    crti_store_table_t table;
    crti_id_t id;
    bool waiting; /* tried again, no answer yet */
} crti_dirty_t;

/* At once. */
void crti_control_send(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                       uint64_t request, const void *body);
/* The same of an answer: ERROR instead when it is too large. */
void crti_control_reply(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                        uint64_t request, const void *body);
/* To every registered node but `except` (0: all). */
void crti_control_broadcast(crti_control_t *c, crti_message_kind_t kind, const void *body,
                            uint64_t except);
/* In order behind what waits for the store; `is_change`: as ERROR if this event's rows fail. */
void crti_control_answer(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                         uint64_t request, const void *body, bool is_change);
/* A notice of a fact: in order behind what waited before this event. */
void crti_control_notify(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                         const void *body);
/* ERROR with the raised detail, in order. */
void crti_control_refuse(crti_control_t *c, uint64_t link, uint64_t request,
                         crt_status_t status);
/* Goes on when the rows of this event are durable, or not. What `link` and `request` mean is the
 * caller's. */
void crti_control_after(crti_control_t *c, crti_after_t *after, crti_id_t id,
                        uint64_t number);
void crti_control_after_for(crti_control_t *c, crti_after_t *after, crti_id_t id,
                            uint64_t link, uint64_t request);
/* Rows. */
void crti_control_put(crti_control_t *c, crti_store_table_t table, crti_id_t id,
                      crti_message_kind_t kind, const void *row);
void crti_control_delete(crti_control_t *c, crti_store_table_t table, crti_id_t id);
/* It could not be stored, and will be tried again. */
bool crti_control_is_dirty(const crti_control_t *c, crti_store_table_t table,
                           crti_id_t id);
/* Both rows. */
void crti_control_delete_actor(crti_control_t *c, crti_id_t id);
void crti_control_delete_job(crti_control_t *c, crti_id_t id);
void crti_control_put_meta(crti_control_t *c);
/* A user's value. */
void crti_control_store_value(crti_control_t *c, const crti_store_operation_t *what,
                              uint64_t link, uint64_t request);
/* All values whose keys begin with `prefix` are deleted; tried again like a row, of `job`. */
void crti_control_clear_values(crti_control_t *c, crti_span_t prefix, crti_id_t job);
crti_control_link_t *crti_control_link(const crti_control_t *c, uint64_t number);
/* For control.c: the store's answer to a row; a failed row and its waiters; what may leave now; one
 * that never leaves. */
void crti_control_note_row(crti_control_t *c, const crti_inflight_t *operation,
                           crt_status_t status, const char *text);
void crti_control_note_failure(crti_control_t *c, uint64_t ticket, crt_status_t status,
                               const char *text);
void crti_control_release(crti_control_t *c);
void crti_control_outgoing_free(crti_control_t *c, crti_outgoing_t *out);

#endif
