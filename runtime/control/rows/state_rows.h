/* SPDX-License-Identifier: Apache-2.0 */
/* The state as rows of JSON text, see docs/design/state.md. */
#ifndef CRTI_CONTROL_ROWS_STATE_ROWS_H
#define CRTI_CONTROL_ROWS_STATE_ROWS_H

#include "runtime/control/control_state.h"

#define CRTI_TASK_ROWS 10000 /* most that are told at once */

void crti_control_view(crti_control_t *c, uint64_t link, uint64_t request,
                       const crti_msg_view_query_t *m);
/* JSON text (docs/design/state.md) of what control_forward.c has found good; NULL with the detail
 * raised: it is too large. Caller frees it. */
char *crti_state_json(crti_control_t *c, crti_span_t what, crti_span_t filter);
/* Joins the lists that nodes answered. */
char *crti_state_join(crti_span_t answers, const char *key, const char *filter);
/* The same of "metrics", with what the head knows of the cluster; `silent` nodes have not
 * answered. */
char *crti_state_metrics(const crti_control_t *c, crti_span_t answers, unsigned silent);
/* stack_rows.c: what processes said of their waits, with their stacks. */
char *crti_stack_rows_join(crti_span_t answers, unsigned silent);
/* object_rows.c: the objects of all nodes with who holds them, of an id, of a query, or all; NULL:
 * no memory. */
char *crti_object_rows_join(crti_span_t answers, crti_span_t filter);
/* CRT_ERR_INVALID: a query that can't be answered. */
crt_status_t crti_object_rows_check(crti_span_t filter);
/* ref_rows.c: the refs of all processes, of a query (the largest first), or all. */
char *crti_ref_rows_join(crti_span_t answers, crti_span_t filter, unsigned silent);
crt_status_t crti_ref_rows_check(crti_span_t filter);
/* actor_rows.c: "actors" of an id, of a query (row_query.h), or all; NULL with the detail
 * raised. */
char *crti_actor_rows(const crti_control_t *c, crti_span_t filter);
/* The same with what their nodes have answered of their queues. */
char *crti_actor_rows_join(const crti_control_t *c, crti_span_t answers,
                           crti_span_t filter);
/* CRT_ERR_INVALID: a query that can't be answered. */
crt_status_t crti_actor_rows_check(crti_span_t filter);
/* job_rows.c: "jobs" of an id or a submission, of a query, or all; NULL with the detail raised. */
char *crti_job_rows(const crti_control_t *c, crti_span_t filter);
crt_status_t crti_job_rows_check(crti_span_t filter);
/* state_events.c: what has happened, the newest first, of a query or all; NULL with the detail
 * raised. */
char *crti_state_events(const crti_control_t *c, crti_span_t filter);
crt_status_t crti_state_events_check(crti_span_t filter);
/* The same of "tasks": of the id of one, of a query, or all; `silent` nodes have not answered. */
char *crti_task_rows_join(crti_span_t answers, crti_span_t filter, unsigned silent);
crt_status_t crti_task_rows_check(crti_span_t filter);

#endif
