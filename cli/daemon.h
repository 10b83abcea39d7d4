/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a daemon: executes it, waits until it serves or reports why it can't
 * (docs/design/processes.md), and undoes the start.
 *
 * Where it sits
 *     cli/start.c, cli/private.c -> [ cli/daemon.c ] -> crt-head, crt-node
 * Ownership: a daemon_t holds a pidfd until daemon_release or daemon_undo.
 */
#ifndef CRTI_CLI_DAEMON_H
#define CRTI_CLI_DAEMON_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/cli.h"

#define DAEMON_ARGS 48

/* Zero-initialised with pidfd -1 is none. */
typedef struct daemon {
    const char *argv[DAEMON_ARGS]; /* texts are borrowed */
    int argc;
    pid_t pid;
    int pidfd;
    int lifeline;     /* the end it reads; -1: it does not end with this process */
    int undo_signal;  /* SIGTERM, or what else undoes its start */
    char ready[8192]; /* the line "ready KEY VALUE ..." */
} daemon_t;

void crti_daemon_init(daemon_t *daemon, const char *name);
/* Adds "--option value"; a NULL value adds nothing. */
void crti_daemon_option(daemon_t *daemon, const char *option, const char *value);
void crti_daemon_flag(daemon_t *daemon, const char *option);

/* Signals are read, not delivered: none may end this process in the middle of a start, or before
 * what it started has ended. Ignored signals stay ignored. Returns a descriptor that does not
 * block, or -1; `*before` (may be NULL) is the old mask. */
int crti_daemon_watch_signals(const int *signals, size_t count, sigset_t *before);

/* A pipe, closed on exec, whose ends do not collide with the numbers they get in a daemon. */
crt_status_t crti_daemon_pipe(int ends[2]);

/* Executes and waits, at most `timeout_ms`. `cancel_fd` ends the wait when it can be read
 * (CRT_ERR_INTERRUPTED). On failure the process is gone, with everything it made. */
crt_status_t crti_daemon_start(daemon_t *daemon, int64_t timeout_ms, int cancel_fd);

/* The value of `key` in the ready line; "" when it is not there. */
void crti_daemon_value(const daemon_t *daemon, const char *key, char *value, size_t size);

/* Ends it: with its undo_signal, after `timeout_ms` SIGKILL, and waits; what one that was killed
 * left behind is ended and removed. Fine when it was not started. */
void crti_daemon_undo(daemon_t *daemon, int64_t timeout_ms);

/* Lets it live on. */
void crti_daemon_release(daemon_t *daemon);

#endif
