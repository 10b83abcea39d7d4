/* SPDX-License-Identifier: Apache-2.0 */
/* Submitted jobs: drivers that the head starts here, supervised.
 *
 * Where it sits
 *     head_dispatch.c (JOB_START, JOB_STOP) -> [ node/jobs/submission.c ] -> process -> driver.log, JOB_EXITED
 * Rules
 *     A job is named by its job id: a submission id may be used again. The driver has a process group, a
 *     directory and a log file of its own below the head's state directory. Stopping is SIGTERM to the group, then SIGKILL after STOP_NS. When the
 *     driver has ended the rest of its group is killed. Its end is told until the head answers.
 *     Nobody waits for its program to be executed: that may be on a file server that does not answer.
 */
#ifndef CRTI_NODE_SUBMISSION_H
#define CRTI_NODE_SUBMISSION_H

#include "runtime/node/types.h"

typedef struct crti_submissions {
    crti_map_t by_job; /* job id -> submission */
    uint64_t ended_count;
} crti_submissions_t;

void crti_submission_init(crti_node_t *node);
void crti_submission_start(crti_node_t *node, uint64_t request,
                           const crti_msg_job_start_t *start);
void crti_submission_stop(crti_node_t *node, uint64_t request, crti_id_t job);
void crti_submission_stop_all(crti_node_t *node);
void crti_submission_kill_all(crti_node_t *node);
/* Its requests have nobody any more to answer to; it makes them again. */
void crti_submission_head_lost(crti_node_t *node);
bool crti_submission_has(crti_node_t *node, pid_t pid);
bool crti_submission_any(crti_node_t *node);
/* The log file of a submission. CRT_ERR_NOT_FOUND. */
crt_status_t crti_submission_log(crti_node_t *node, const char *name, char *path,
                                 size_t size, bool *ended_out);
void crti_submission_free_all(crti_node_t *node);

#endif
