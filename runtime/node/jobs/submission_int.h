/* SPDX-License-Identifier: Apache-2.0 */
/* A submitted job on this node. Shared by submission.c (its life) and submission_start.c (what it is
 * executed with). */
#ifndef CRTI_NODE_SUBMISSION_INT_H
#define CRTI_NODE_SUBMISSION_INT_H

#include "runtime/node/node.h"

#define CRTI_SUBMISSION_NAME 128

/*              JOB_STOP             process gone
 *   RUNNING -------------> STOPPING -------------> ENDED
 *      |                                             ^
 *      +---------------- process gone ---------------+
 */
typedef enum crti_submission_state {
    CRTI_SUBMISSION_RUNNING,
    CRTI_SUBMISSION_STOPPING,
    CRTI_SUBMISSION_ENDED
} crti_submission_state_t;

typedef struct crti_submission {
    crti_node_t *node;
    char name[CRTI_SUBMISSION_NAME];
    crti_submission_state_t state;
    crti_id_t job;
    pid_t pid;
    int pidfd;
    int program_fd; /* keeps the program in the cache; -1: it is not from there */
    crti_watch_t pidfd_watch;
    crti_output_t output[2];
    crti_log_file_t log;
    crti_timer_t stop_timer; /* RUNNING, STOPPING: SIGKILL; ENDED: told again */
    int report;              /* of its start (crti_exec_result); -1: it was answered */
    uint64_t start_request;  /* 0: of a link that is lost */
    char *program;           /* what the user calls it */
    crti_watch_t report_watch;
    crti_timer_t start_timer;
    uint64_t stop_request;
    int wait_status;
    uint64_t ended_order;
    bool heard; /* the head has its end on disk */
} crti_submission_t;

/* The directory of a job, below the head's state directory. */
crt_status_t crti_submission_directory(crti_node_t *node, crti_id_t job, char *path,
                                       size_t size);

/* submission_start.c: executes it, with `fds` as its stdout and stderr. */
crt_status_t crti_submission_execute(crti_submission_t *s,
                                     const crti_msg_job_start_t *start, const int fds[2]);

#endif
