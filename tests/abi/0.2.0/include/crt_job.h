/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: commands that the cluster runs and supervises, as crt job submit does. A job goes on when
 * the program that submitted the job ends. Part of crt.h.
 *
 * Errors of all: CRT_ERR_NOT_INITIALIZED, CRT_ERR_HEAD_LOST and CRT_ERR_TIMED_OUT (no answer
 * within 30 s), CRT_ERR_NOT_FOUND (there is no job of that id), CRT_ERR_NO_MEMORY.
 *
 * Functions may be called from any thread of a driver or worker.
 */
#ifndef CRT_JOB_H
#define CRT_JOB_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the id of a submitted job, with the final zero. */
#define CRT_JOB_ID_SIZE 128

typedef struct crt_job_options {
    /* Set by CRT_JOB_OPTIONS. */
    size_t struct_size;
    /* Chosen by the caller, unique among the jobs that the cluster knows: 1 to 127 letters,
     * digits and any of "_-.". Default: "job_" and 16 random digits. */
    const char *id;
    /* Environment variables, "NAME=value" each; the list ends with NULL. NULL: none. */
    const char *const *environment;
    /* Resources that the process of the job holds while it runs: "CPU=1,GPU=1". Default: none;
     * the job then runs on the host of the head. */
    const char *resources;
    /* Labels of the node that runs the job, as label_selector of crt_task_options_t. */
    const char *label_selector;
    /* How many times the command may be run: again after each failure. 0: the default, once. */
    int64_t max_attempts;
} crt_job_options_t;
#define CRT_JOB_OPTIONS(...)                                                             \
    CRTI_CONSTANT(crt_job_options_t, .struct_size = sizeof(crt_job_options_t),           \
                  __VA_ARGS__)

/* Submits a job: /bin/sh runs `command` on a node, in an empty directory of its own. Programs
 * that the command names must be on the node (crt job submit uploads programs). The function
 * returns when the cluster has accepted the job. An accepted job is kept and run once, also when
 * the head dies meanwhile. `options` may be NULL. The id of the job is written to `id`; `size` is
 * the number of bytes of `id`, at least CRT_JOB_ID_SIZE. Any thread may call.
 *
 * Errors: CRT_ERR_EXISTS, when another job has this id; CRT_ERR_INVALID, when `command` is NULL
 * or empty, `size` is too small, or an option is wrong; CRT_ERR_NOT_INITIALIZED;
 * CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT, when the head does not answer within 30 s;
 * CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_job_submit(const char *command, const crt_job_options_t *options,
                                    char *id, size_t size);

typedef enum crt_job_state {
    /* Waits for a node with room. */
    CRT_JOB_PENDING = 1,
    CRT_JOB_RUNNING = 2,
    /* Ended, because crt_job_stop was called. */
    CRT_JOB_STOPPED = 3,
    CRT_JOB_SUCCEEDED = 4,
    CRT_JOB_FAILED = 5
} crt_job_state_t;

/* One job. Texts that are longer than their member are cut. */
typedef struct crt_job_info {
    /* The id of a submitted job. "": a program that joined by itself. */
    char id[128];
    /* The id that crt_job_id returns inside the job. */
    char job_id[33];
    /* The node that runs or ran the job. "": no node yet. */
    char node_id[33];
    char command[512];
    /* The reason why the job waits, or how the job ended. */
    char message[1024];
    crt_job_state_t state;
    /* The exit code is known. */
    bool has_exit;
    /* 128 + N: ended by signal N. */
    int64_t exit_code;
    int64_t pid;
    /* Milliseconds since 1970; 0: not yet. */
    int64_t start_ms, end_ms;
} crt_job_info_t;

/* Reads the state of one job, by the id of its submission or by its `job_id`. `info_size` is the
 * size of the struct as the caller was compiled: sizeof(*info_out). Any thread may call.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such job; CRT_ERR_INVALID, when `info_size` is
 * smaller than that of the first version; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or
 * CRT_ERR_TIMED_OUT, when the head does not answer within 30 s; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_job_status(const char *id, crt_job_info_t *info_out,
                                    size_t info_size);

/* Lists all jobs that the cluster knows, in the order in which they began. The list is filled up
 * to `room` elements of `element_size` bytes each (sizeof(crt_job_info_t)). `*count_out` is the
 * number of jobs, which may be more than `room`. With `room` 0 `jobs` may be NULL. Any thread may
 * call.
 *
 * Errors: CRT_ERR_INVALID, when `jobs` is NULL, or `element_size` is smaller than that of the
 * first version; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT, when the head
 * does not answer within 30 s; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_jobs(crt_job_info_t *jobs, size_t element_size, size_t room,
                              size_t *count_out);

/* Ends a submitted job: SIGTERM to its processes, SIGKILL 3 s later. The function returns when
 * the node was told; crt_job_status says when the job has ended. A job that had ended before is
 * CRT_OK. Any thread may call.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such job; CRT_ERR_INVALID, when the job is a
 * program that joined by itself, not a submitted job; CRT_ERR_UNREACHABLE, when its node can't be
 * reached now; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT, when the head
 * does not answer within 30 s; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_job_stop(const char *id);

/* Reads the output of a submitted job from byte `offset` on. The call waits up to `wait_ms`
 * milliseconds (0: no wait; at most 10 minutes) for at least one byte. `*data_out` is text with a
 * final zero that `*size_out` does not count; caller owns the text and frees it with crt_free.
 * `*next_out` is the offset of the next call. `*ended_out` is true when the job has ended and all
 * output was read. Any thread may call.
 *
 * Errors: CRT_ERR_NOT_FOUND, when there is no such job; CRT_ERR_INVALID, when `wait_ms` is below
 * 0 or above 10 minutes; CRT_ERR_NOT_INITIALIZED; CRT_ERR_HEAD_LOST or CRT_ERR_TIMED_OUT, when
 * the head does not answer within 30 s; CRT_ERR_NO_MEMORY. */
CRT_API crt_status_t crt_job_logs(const char *id, uint64_t offset, int64_t wait_ms,
                                  char **data_out, size_t *size_out, uint64_t *next_out,
                                  bool *ended_out);

#ifdef __cplusplus
}
#endif

#endif
