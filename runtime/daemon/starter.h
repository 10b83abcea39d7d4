/* SPDX-License-Identifier: Apache-2.0 */
/* Starter: executes a daemon and waits until it serves or reports why it can't
 * (docs/design/processes.md).
 *
 * Where it sits
 *     cli/daemon.c, private_start.c -> [ daemon/starter.c ] -> crt-head, crt-node
 * Ownership
 *     The struct holds a pidfd until crti_starter_release, and between the start and
 *     crti_starter_close the ends of two pipes.
 * Threads: one caller at a time; no state but the struct.
 */
#ifndef CRTI_DAEMON_STARTER_H
#define CRTI_DAEMON_STARTER_H

#include <stdint.h>
#include <sys/types.h>

#include "runtime/base/crt_base.h"

#define CRTI_STARTER_ARGUMENTS 64

typedef struct crti_starter {
    const char *argv[CRTI_STARTER_ARGUMENTS]; /* texts are borrowed */
    int argc;
    pid_t pid;               /* 0: none */
    int pidfd;               /* -1: none */
    int lifeline;            /* the end it reads; -1: it does not end with this process */
    int undo_signal;         /* SIGTERM, or what else undoes its start */
    int ready_fd, errors_fd; /* -1: none */
    char ready[8192];        /* the line "ready KEY VALUE ...": crti_ready_get */
} crti_starter_t;

void crti_starter_init(crti_starter_t *starter, const char *name, int lifeline);
/* Adds "--option value"; a NULL value adds nothing. */
void crti_starter_option(crti_starter_t *starter, const char *option, const char *value);
void crti_starter_flag(crti_starter_t *starter, const char *option);

/* A pipe, closed on exec, whose ends do not collide with the numbers they get in a daemon. */
crt_status_t crti_starter_pipe(int ends[2]);

/* Executes `path`. CRT_ERR_IO: it can't be executed, and there is no process. */
crt_status_t crti_starter_spawn(crti_starter_t *starter, const char *path);

/* Waits until it serves, at most `timeout_ms`; `cancel_fd` (-1: none) ends the wait when it can be
 * read (CRT_ERR_INTERRUPTED). After an error the caller ends the process; what it reports meanwhile
 * goes nowhere, but can be written until crti_starter_close. CRT_ERR_TIMED_OUT; CRT_ERR_IO: what it
 * reported, or how it ended. */
crt_status_t crti_starter_wait(crti_starter_t *starter, int64_t timeout_ms,
                               int cancel_fd);
void crti_starter_close(crti_starter_t *starter);

/* Waits for the end of a child until `deadline_ns`, after which it is killed; its wait status.
 * `pidfd` -1: it is waited for without a deadline. */
int crti_starter_await_end(pid_t pid, int pidfd, uint64_t deadline_ns);

/* Lets it live on. */
void crti_starter_release(crti_starter_t *starter);

#endif
