/* SPDX-License-Identifier: Apache-2.0 */
/* Execution of programs: fork and exec of workers, zygotes and submitted drivers.
 *
 * Where it sits
 *     zygote.c, submission.c -> [ node/host/exec.c ] -> fork, execve
 * Invariants
 *     Processes are forked by the loop's thread only: the parent-death signal follows the
 *     forking thread, which lives as long as the daemon. The child calls nothing but
 *     async-signal-safe functions before exec.
 */
#ifndef CRTI_NODE_EXEC_H
#define CRTI_NODE_EXEC_H

#include <stdbool.h>
#include <sys/types.h>

#include "runtime/base/crt_base.h"

typedef struct crti_exec {
    int exec_fd; /* the executable, or -1: what is at `path` */
    const char *path;
    bool is_silent; /* the file server of `path`: nobody looks there */
    char *const *argv;
    char *const *environment;
    const char *directory; /* entered if it exists, */
    bool must_enter;       /* or else told to its stderr, and nothing is executed */
    int stdout_fd, stderr_fd;
    int keep_fd;   /* inherited under its number, -1 none */
    int passed[2]; /* likewise, 0 none */
    /* nothing that it starts outlives it (supervisor.h), whose pid is told */
    bool is_supervised;
    /* or will fork some: the first that the kernel takes without memory */
    bool is_worker;
} crti_exec_t;

/* Executes a program in its own process group, with a parent-death signal, and does not wait for
 * it: a directory whose file server does not answer holds the new process up, not this one.
 * `report_out` is for crti_exec_result; NULL: why it can't be executed is written to its stderr. */
crt_status_t crti_exec_start(const crti_exec_t *exec, pid_t *pid_out, int *report_out);
/* Waits until the program is executed, or tells why it can't be. Of a process that has ended that
 * is known. Closes the report; -1 is one that has nothing to tell. */
crt_status_t crti_exec_result(int *report_take, const char *path);

#endif
