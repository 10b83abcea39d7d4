/* SPDX-License-Identifier: Apache-2.0 */
/* A job on this node: what is known of its program, and the zygote that makes its workers.
 * Shared by job.c (the record), program.c (the executable) and zygote.c (the process). */
#ifndef CRTI_NODE_JOB_INT_H
#define CRTI_NODE_JOB_INT_H

#include "runtime/base/job_variables.h"
#include "runtime/node/host/output.h"
#include "runtime/node/host/package_dir.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/process/context.h"
#include "runtime/node/process/process.h"

#define CRTI_SHA_TEXT      65
#define CRTI_JOB_SETUP_MAX 4096

struct crti_jobs {
    crti_map_t by_id;
    crti_list_t looks;         /* of program.c */
    crti_list_t packages;      /* of package.c */
    crti_list_t stack_readers; /* of stack_reader.c */
    int user_namespace;        /* of image.c; 0: none yet */
};

/* Arguments, or variables, of a program; zero it first. What can't be added is said by `status`,
 * and nothing is added after it. */
typedef struct crti_arguments {
    char **list; /* ended by NULL */
    size_t count;
    size_t most; /* 0: any number */
    crt_status_t status;
} crti_arguments_t;

void crti_arguments_add(crti_arguments_t *a, crti_span_t text);
void crti_arguments_add_list(crti_arguments_t *a, crti_span_t list);
void crti_arguments_format(crti_arguments_t *a, const char *format, ...) CRT_PRINTF(2, 3);
void crti_arguments_fini_auto(crti_arguments_t *a);
/* A variable with that name, of `length` bytes, is among them. */
bool crti_arguments_have(const crti_arguments_t *a, const char *name, size_t length);

/* Where the program is on its way to workers:
 *
 *          worker wanted        head answered         executable here          READY
 *   IDLE ---------------> ASKING -----------> FETCHING -------------> STARTING -------> SERVING
 *    ^ |                                        ^                       |
 *    | +--- all is known already ---------------+                       | READY "can't fork"
 *    |                                                                  v
 *    +------- failed (the requests fail with the reason), zygote died -- EXECUTING
 *
 * Whether the driver lives is another matter (`ended`): detached actors outlive it, and their
 * workers may be made anew.
 */
typedef enum crti_job_state {
    CRTI_JOB_IDLE,
    CRTI_JOB_ASKING,
    CRTI_JOB_FETCHING,
    CRTI_JOB_STARTING,
    CRTI_JOB_SERVING,   /* the zygote forks workers */
    CRTI_JOB_EXECUTING, /* it can't: the program is executed once per worker */
    CRTI_JOB_STATES
} crti_job_state_t;

typedef struct crti_zygote {
    pid_t pid; /* 0: none */
    int pidfd;
    int report; /* of its exec */
    crti_watch_t pidfd_watch;
    crti_channel_t *channel;
    crti_output_t output[2];
    crti_log_file_t log;
    crti_timer_t start_timer;
} crti_zygote_t;

struct crti_job {
    crti_node_t *node;
    crti_id_t id;
    crti_job_state_t state;
    bool ended; /* its driver is gone: no task runs any more */
    bool known; /* the fields below are set */
    crti_id_t driver;
    crti_id_t driver_node;
    int64_t driver_pid; /* of a driver on this node that lives, else 0 */
    bool log_to_driver;
    crti_job_quota_t quota;
    char *program, *entrypoint, *directory, *submission;
    char sha[CRTI_SHA_TEXT];
    crti_buffer_t argv, environment; /* lists of text */

    int exec_fd;                  /* the executable, -1: not here yet */
    int zip_fd;                   /* its folder's, while that is made; -1: none */
    struct crti_package *image;   /* its image; NULL: none, or not here yet */
    struct crti_package *python;  /* its Python environment; likewise */
    struct crti_package *package; /* its folder; likewise */
    void (*on_found)(crti_job_t *job, crt_status_t status, const char *text);
    bool is_silent; /* the file server of its path did not answer */
    struct crti_fetch *fetch;
    crti_zygote_t zygote;
    char warned[200];       /* why workers are executed, told once */
    crti_list_t wanted;     /* processes that wait for the program */
    crti_list_t forking;    /* processes whose FORK is not answered */
    size_t processes;       /* records that point here */
    size_t awaited;         /* of them, those that the leaving driver waits for */
    uint64_t newborn_bytes; /* of memory, that a worker has at its birth; 0: not looked */
};

/* NULL: not known. */
crti_job_t *crti_job_find(crti_node_t *node, crti_id_t id);
/* True when its workers' lines go to the driver. */
bool crti_job_logs(const crti_job_t *job);
/* An executable that a driver of this node runs: descriptor to read it, -1 none. */
int crti_job_program_fd(crti_node_t *node, crti_span_t sha);
void crti_job_set_state(crti_job_t *job, crti_job_state_t state);
/* Lines of a worker, for the driver wherever it is. */
void crti_job_tell_driver(crti_job_t *job, const crti_msg_log_t *log);
/* What the head knows of it. */
crt_status_t crti_job_learn(crti_job_t *job, const crti_msg_job_info_t *info);

/* job_end.c. */
void crti_job_process_gone(crti_process_t *process);
/* Frees a job that has no process left, if it has ended or nothing is known of it; before that its
 * zygote is ended, also when it is that which does not answer for the last of them. */
void crti_job_release(crti_job_t *job);

/* The executable is there, and exec_fd is set; or why not. */
typedef void crti_program_found_t(crti_job_t *job, crt_status_t status, const char *text);

/* What is looked for: by its SHA-256 at `path`, then in the cache; NULL: there only. `fd_out` is
 * the job's. */
typedef struct crti_program_spec {
    const char *sha, *path;
    int *fd_out;
} crti_program_spec_t;

/* program.c: looks for it here, else fetches it from the driver's node. */
void crti_program_find(crti_job_t *job, const crti_program_spec_t *spec,
                       crti_program_found_t *on_found);
void crti_program_cancel(crti_job_t *job);
/* When the loop has ended, and every job was freed. */
void crti_program_free_all(crti_node_t *node);
/* The driver's node is dead. True: the fetch waited for it, and has failed. */
bool crti_program_driver_died(crti_job_t *job);

/* job_package.c: all that its workers need: image, Python environment and folder, if it was
 * submitted with them, and the executable. */
void crti_job_find_program(crti_job_t *job, crti_program_found_t *on_found);

/* The value of a variable in a list of them, "" when it is not there; cut to `size`. */
const char *crti_job_variable(crti_span_t environment, const char *name, char *text,
                              size_t size);

/* ---------------------------------------------------------------- package.c */

typedef struct crti_package crti_package_t;
typedef void crti_package_ready_t(void *user, crt_status_t status, const char *text);

typedef struct crti_package_spec {
    const char *key; /* its name on this host; NULL: nothing is asked for */
    /* which makes it: pip or uv a Python environment, podman files of an image; NULL: a folder */
    const char *tool;
    const char *sha, *setup;  /* of a folder: its zip, its setup command, "": none */
    char *const *environment; /* of the tool, or the setup command */
    const char *log_path;     /* where its output goes */
    crti_package_ready_t *on_ready;
    void *user;
} crti_package_spec_t;

/* The folder, when it is on this host already; else NULL. Caller closes it. */
crti_package_t *crti_package_find(crti_node_t *node, const crti_package_spec_t *spec);
/* Makes it; a folder from the zip, which the cache has. `on_ready` is called once, unless it is
 * closed before, with texts that begin with CRTI_JOB_SETUP_FAILED. Caller closes it in any case. */
crt_status_t crti_package_make(crti_node_t *node, const crti_package_spec_t *spec,
                               crti_package_t **package_out);
/* NULL is fine. */
void crti_package_close(crti_package_t *package);
const char *crti_package_directory(const crti_package_t *package);

/* ---------------------------------------------------------------- python.c */

/* What of the specification of a folder is text of its own. */
typedef struct crti_folder_names {
    char sha[CRTI_SHA_TEXT + 1], setup[CRTI_JOB_SETUP_MAX], key[CRTI_PACKAGE_KEY];
} crti_folder_names_t;

/* What the variables ask for, as a specification that is to be completed; no `key`: no folder. */
crt_status_t crti_folder_wanted(crti_span_t environment, crti_folder_names_t *names,
                                crti_package_spec_t *spec);
/* Name of what a tool makes here, by what it is made of: jobs that want the same have the same
 * one. */
void crti_tool_key(const char *tool, crti_span_t wanted, char key[CRTI_PACKAGE_KEY]);
/* The same; false: no Python environment that is to be made. */
bool crti_python_wanted(crti_span_t environment, crti_package_spec_t *spec,
                        char key[CRTI_PACKAGE_KEY]);
/* One is to be made, or conda has it: what has no path is searched there. */
bool crti_python_is_named(crti_span_t environment);
/* Puts its programs first, in the variables of a driver or a setup command. */
void crti_python_enter(const crti_package_t *python, crti_arguments_t *v);
/* Of `v`, made of the driver's variables: the place of the environment becomes that on this node.
 * NULL is fine. */
void crti_python_move(const crti_package_t *python, crti_span_t environment,
                      crti_arguments_t *v);

/* ---------------------------------------------------------------- image.c */

#define CRTI_IMAGE_TOOL "podman"

/* What the variables ask for, as a specification that is to be completed; false: no image. */
bool crti_image_wanted(crti_span_t environment, crti_package_spec_t *spec,
                       char key[CRTI_PACKAGE_KEY]);
/* The variables that podman is asked with, on this node. */
void crti_image_environment(const crti_node_t *node, crti_span_t environment,
                            crti_arguments_t *v);
/* Adds the image's own variables to those of a driver, where it has none of that name. */
void crti_image_variables(const crti_package_t *image, crti_arguments_t *v);

/* Text of an `exec` that enters an image; zero it first. */
typedef struct crti_entered {
    crti_arguments_t argv;
    char path[CRTI_NODE_PATH];
} crti_entered_t;

void crti_entered_fini_auto(crti_entered_t *entered);

struct crti_exec;
/* What `exec` would execute is executed in the image. */
crt_status_t crti_image_enter(crti_node_t *node, const crti_package_t *image,
                              struct crti_exec *exec, crti_entered_t *entered);

/* spawn.c: the zygote forks, or the program is to be executed: who waits is served. */
void crti_job_serve(crti_job_t *job);
void crti_spawn_forked(crti_process_t *process, pid_t pid);
/* It was not forked in time: one of job->forking that nobody waits for. */
static inline bool crti_spawn_is_given_up(const crti_process_t *process)
{
    return process->worker && process->worker->is_given_up;
}
/* All who wait fail; the next request tries again. */
void crti_job_fail(crti_job_t *job, crt_status_t status, const char *text);

/* zygote.c. */
crt_status_t crti_zygote_start(crti_job_t *job);
crt_status_t crti_zygote_fork(crti_job_t *job, crti_process_t *process, const int fds[2]);
crt_status_t crti_zygote_execute(crti_job_t *job, const crti_process_t *process,
                                 const int fds[2], pid_t *pid_out);

/* zygote_end.c. Its pidfd tells the rest. */
void crti_zygote_kill(crti_job_t *job);
/* Its process is gone. */
void crti_zygote_close(crti_job_t *job);
/* Both, at the end of the node. */
void crti_zygote_fini(crti_job_t *job);

#endif
