/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: submitted or attached, begun when there is room, ended with all that they have. */
#ifndef CRTI_CONTROL_CONTROL_JOB_H
#define CRTI_CONTROL_CONTROL_JOB_H

#include "runtime/control/control_state.h"

/* The entry, its rows, and what it left on disk. */
void crti_control_forget_job(crti_control_t *c, crti_job_entry_t *job);
void crti_control_on_job(void *user, crti_job_entry_t *job);
/* Its groups have no values in the store any more. */
void crti_control_job_cleared(crti_control_t *c, crti_id_t id);
void crti_control_job_add(crti_control_t *c, uint64_t link, uint64_t request,
                          const crti_msg_job_add_t *m);
void crti_control_job_end(crti_control_t *c, crti_control_link_t *link,
                          const crti_msg_job_end_t *m);
void crti_control_job_get(crti_control_t *c, uint64_t link, uint64_t request,
                          crti_id_t id);
void crti_control_job_submit(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_job_submit_t *m);
void crti_control_job_stop(crti_control_t *c, uint64_t link, uint64_t request,
                           const crti_msg_job_stop_t *m);
void crti_control_job_delete(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_job_delete_t *m);
void crti_control_job_exited(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_job_exited_t *m);
void crti_control_job_answer(crti_control_t *c, const crti_request_t *request,
                             const crti_message_t *answer);
void crti_control_jobs_of_node(crti_control_t *c, const crti_node_entry_t *node,
                               const char *text);
/* A node reports that it runs this job; false: it should not. */
bool crti_control_job_running(crti_control_t *c, const crti_msg_job_add_t *m);
/* A job whose driver is elsewhere, or not there yet; false: its end was not reported. */
bool crti_control_job_goes_on(const crti_control_t *c, crti_id_t id);
/* Drivers of a node that is back and does not have them any more. */
void crti_control_jobs_missing(crti_control_t *c, const crti_node_entry_t *node,
                               crti_span_t reported);
/* job_holders.c: whether nothing but the programs of submitted jobs, while they run, keeps from it
 * what could have room; `text` says so and names them. */
bool crti_control_drivers_hold(const crti_control_t *c, const crti_resources_t *need,
                               char *text, size_t size);
/* control_job_queue.c: begins those that may. */
void crti_control_start_jobs(crti_control_t *c);
/* Passes a JOB_STOP on to the node that runs it; `from_link` 0: nobody waits for the answer. */
void crti_control_stop_process(crti_control_t *c, const crti_job_entry_t *job,
                               uint64_t from_link, uint64_t from_request);
/* The node is back: what it runs and should stop is told again. */
void crti_control_stop_again(crti_control_t *c, const crti_node_entry_t *node);

#endif
