/* SPDX-License-Identifier: Apache-2.0 */
/* Queries that nodes answer, and requests that end otherwise. */
#ifndef CRTI_CONTROL_CONTROL_FORWARD_H
#define CRTI_CONTROL_CONTROL_FORWARD_H

#include "runtime/control/control_request.h"

/* A node has answered what was asked on another one's behalf, or of all nodes. */
void crti_control_forwarded(crti_control_t *c, crti_request_t *request,
                            const crti_message_t *answer);
/* The head itself asks all nodes; `on_told` is called in a later event, or at once when there is
 * nobody to ask. */
void crti_control_ask_nodes(crti_control_t *c, const char *what, crti_span_t filter,
                            uint64_t patience_ns,
                            void (*on_told)(crti_control_t *control,
                                            const crti_gather_t *gather));
/* A list was put together by another thread. */
void crti_control_rows_joined(crti_control_t *c, crti_control_work_t *work);
void crti_control_requests_lost(crti_control_t *c, uint64_t link, const char *text);
void crti_control_requests_of(crti_control_t *c, uint64_t from_link);
void crti_control_requests_overdue(crti_control_t *c);
void crti_control_requests_free(crti_control_t *c);
uint64_t crti_control_requests_deadline(const crti_control_t *c);
void crti_control_log_read(crti_control_t *c, uint64_t link, uint64_t request,
                           const crti_msg_log_read_t *m);
/* It is PENDING no more, or is set up: pending reads of its log are forwarded. */
void crti_control_job_begun(crti_control_t *c, const crti_job_entry_t *job);
void crti_control_query(crti_control_t *c, uint64_t link, uint64_t request,
                        const crti_msg_state_query_t *m);

#endif
