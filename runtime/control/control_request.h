/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of the head to nodes, by number. */
#ifndef CRTI_CONTROL_CONTROL_REQUEST_H
#define CRTI_CONTROL_CONTROL_REQUEST_H

#include "runtime/control/control_state.h"

/* A request of the head to a node. */
struct crti_request {
    crti_list_t in_requests;
    uint64_t number;
    crti_message_kind_t kind;
    uint64_t link; /* of the node */
    crti_id_t node;
    crti_id_t subject;                /* actor or job */
    uint64_t incarnation;             /* of the actor */
    uint64_t from_link, from_request; /* where the answer goes; 0: nowhere */
    uint64_t deadline_ns;
    char *name; /* LOG_READ: tried on one node after the other */
    uint64_t offset, limit, wait_ms;
    struct crti_gather *gather;
};

/* A question to all nodes. */
typedef struct crti_gather {
    crti_control_work_t work;
    unsigned open; /* requests without an answer */
    uint64_t from_link, from_request;
    crti_buffer_t rows; /* JSON text of each answer, one list entry each */
    char *filter;
    unsigned silent; /* nodes that did not answer */
    char what[16];   /* "workers", "tasks", "metrics" */
    char *json;      /* the answer, once it is made */
    char *refusal;   /* without it: why */
    /* who asked, when it is the head itself: called once, then the gather is freed */
    void (*on_told)(struct crti_control *control, const struct crti_gather *gather);
} crti_gather_t;

/* A request to a node; NULL when out of memory. The caller sends the message with
 * request->number. */
crti_request_t *crti_control_new_request(crti_control_t *c, const crti_node_entry_t *node,
                                         crti_message_kind_t kind, crti_id_t subject);
/* Its answer is not needed any more. */
void crti_control_cancel_request(crti_control_t *c, uint64_t number);
/* Takes it out of the map and the list. */
void crti_request_unlink(crti_control_t *c, crti_request_t *request);
void crti_request_free(crti_request_t *request);
/* Unlinks and frees it. */
void crti_request_forget(crti_control_t *c, crti_request_t *request);
/* Those with a deadline are in front of the others, which are many when actors are made. */
void crti_request_set_deadline(crti_control_t *c, crti_request_t *request,
                               uint64_t at_ns);
bool crti_request_has_deadline(const crti_request_t *request);

#endif
