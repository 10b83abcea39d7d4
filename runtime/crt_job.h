/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of the cluster from a program: commands that the cluster runs and supervises, as crt job
 * submit does, beside the calling program: they go on when it ends. Part of crt.h.
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

#define CRT_JOB_ID_SIZE 128 /* bytes of the id of a submitted job, with the final zero */

typedef struct crt_job_options {
    size_t struct_size; /* set by CRT_JOB_OPTIONS */
    /* Chosen by the caller, unique among the jobs that the cluster knows: 1 to 127 letters,
     * digits and any of "_-.". Default: "crtsubmit_" and 16 random digits. */
    const char *id;
    const char *const *environment; /* "NAME=value" each, ended by NULL; NULL: none */
    /* What the process of the job holds while it runs: "CPU=1,GPU=1". Default: nothing, it runs
     * on the head's host then. */
    const char *resources;
    const char *label_selector; /* of its node, as of tasks (crt_task_options_t) */
    int64_t
        max_attempts; /* the command is run again after it has failed; default 0: once */
} crt_job_options_t;
#define CRT_JOB_OPTIONS(...)                                                             \
    CRTI_CONSTANT(crt_job_options_t, .struct_size = sizeof(crt_job_options_t),           \
                  __VA_ARGS__)

/* Runs `command` by /bin/sh on a node, in an empty directory of its own. Programs that it names
 * must be there: crt job submit uploads one. Returns when the cluster has accepted the job, and
 * keeps it: it is run once also when the head dies meanwhile. `options` may be NULL. Writes the
 * id of the job; `size`: bytes of `id`, at least CRT_JOB_ID_SIZE. CRT_ERR_EXISTS: another job has
 * this id. CRT_ERR_INVALID: a NULL or empty command, less room, an option that is none. */
CRT_API crt_status_t crt_job_submit(const char *command, const crt_job_options_t *options,
                                    char *id, size_t size);

typedef enum crt_job_state {
    CRT_JOB_PENDING = 1, /* waits for a node with room */
    CRT_JOB_RUNNING = 2,
    CRT_JOB_STOPPED = 3, /* ended, because crt_job_stop was called */
    CRT_JOB_SUCCEEDED = 4,
    CRT_JOB_FAILED = 5
} crt_job_state_t;

/* One job. Texts that are longer than their member are cut. */
typedef struct crt_job_info {
    char id[128];     /* of a submitted job; "": a program that joined by itself */
    char job_id[33];  /* as crt_job_id gives it inside */
    char node_id[33]; /* where it runs or ran, "": nowhere yet */
    char command[512];
    char message[1024]; /* why it waits, or how it ended */
    crt_job_state_t state;
    bool has_exit;     /* the exit code is known */
    int64_t exit_code; /* 128 + N: ended by signal N */
    int64_t pid;
    int64_t start_ms, end_ms; /* milliseconds since 1970; 0: not yet */
} crt_job_info_t;

/* What became of one job, by the id of its submission or its `job_id`. `info_size`: bytes of the
 * struct as the caller was compiled, sizeof(*info_out). CRT_ERR_INVALID: less than the first
 * version's. */
CRT_API crt_status_t crt_job_status(const char *id, crt_job_info_t *info_out,
                                    size_t info_size);

/* All jobs that the cluster knows, in the order in which they began; arguments as of crt_nodes
 * (crt_cluster_view.h). */
CRT_API crt_status_t crt_jobs(crt_job_info_t *jobs, size_t element_size, size_t room,
                              size_t *count_out);

/* Ends a submitted job: SIGTERM to its processes, SIGKILL 3 s later. Returns when the node has
 * been told; crt_job_status says when it has ended. CRT_OK also when it had ended before.
 * CRT_ERR_INVALID: a program that joined by itself is no submitted job; CRT_ERR_UNREACHABLE: its
 * node can't be reached now. */
CRT_API crt_status_t crt_job_stop(const char *id);

/* Reads the output of a submitted job from byte `offset` on; waits for at least one byte up to
 * `wait_ms` (0: no wait, at most 10 minutes). `*data_out` is text with a final zero that
 * `*size_out` does not count; the caller frees it with free(). `*next_out` is the offset to go on
 * from. `*ended_out`: the job has ended, and all was read. CRT_ERR_INVALID: a wait below 0 or
 * above 10 minutes. */
CRT_API crt_status_t crt_job_logs(const char *id, uint64_t offset, int64_t wait_ms,
                                  char **data_out, size_t *size_out, uint64_t *next_out,
                                  bool *ended_out);

#ifdef __cplusplus
}
#endif

#endif
