/* SPDX-License-Identifier: Apache-2.0 */
/* A submitted job on this node: its record. Shared by submission.c (its life) and submission_exec.c
 * (what is executed, where, and with which variables). */
#ifndef CRTI_NODE_SUBMISSION_INT_H
#define CRTI_NODE_SUBMISSION_INT_H

#include "runtime/node/jobs/job_int.h"

#define CRTI_SUBMISSION_NAME    128
#define CRTI_SUBMISSION_STRINGS 2048 /* most arguments, and variables */

struct crti_submissions {
    crti_map_t by_job; /* job id -> submission */
    uint64_t ended_count;
};

/*              folder ready              JOB_STOP             process gone
 *   PREPARING -------------> RUNNING -------------> STOPPING -------------> ENDED
 *       |                       |                                             ^
 *       | failed, JOB_STOP      +---------------- process gone ---------------+
 *       v
 *   (forgotten)
 */
typedef enum crti_submission_state {
    CRTI_SUBMISSION_PREPARING,
    CRTI_SUBMISSION_RUNNING,
    CRTI_SUBMISSION_STOPPING,
    CRTI_SUBMISSION_ENDED
} crti_submission_state_t;

typedef struct crti_submission {
    crti_node_t *node;
    char name[CRTI_SUBMISSION_NAME];
    crti_submission_state_t state;
    crti_id_t job;
    char *entrypoint;
    char sha[CRTI_SHA_TEXT];         /* "": the program is no uploaded one */
    crti_buffer_t argv, environment; /* lists */
    crti_package_t *image;           /* its image; NULL: it has none */
    crti_package_t *python;          /* its Python environment; likewise */
    crti_package_t *package;         /* its folder; likewise */
    pid_t pid;                       /* of its supervisor; 0: PREPARING */
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
    crti_resources_t resources; /* that it holds until it has ended */
    crti_id_t source;           /* node that has what was uploaded */
    int uploads[2]; /* program and folder, fetched from there; -1: not yet, or none */
    bool is_fetching;
    void (*on_fetched)(struct crti_submission *s, crt_status_t status);
    int wait_status;
    uint64_t ended_order;
    bool heard; /* the head has its end on disk */
} crti_submission_t;

/* The directory of a job, below the head's state directory; below the node's own on another
 * host. */
crt_status_t crti_submission_directory(crti_node_t *node, crti_id_t job, char *path,
                                       size_t size);
/* The same, made, with the log file in it. */
crt_status_t crti_submission_places(crti_submission_t *s, char *dir, size_t size);
/* What its processes have in their environment: ours, then the job's, then what this daemon has. */
void crti_submission_environment(const crti_submission_t *s, crti_arguments_t *out);
/* ---- submission_fetch.c */

/* Brings what was uploaded for it to this node's cache, and calls `on_ready` once, unless it is
 * cancelled before. */
void crti_submission_fetch(crti_submission_t *s,
                           void (*on_ready)(crti_submission_t *s, crt_status_t status));
void crti_submission_fetch_cancel(crti_submission_t *s);
/* Executes s->program, its folder is there if it has one. `fds`: its stdout and stderr. */
crt_status_t crti_submission_execute(crti_submission_t *s, const crti_arguments_t *argv,
                                     const int fds[2]);

#endif
