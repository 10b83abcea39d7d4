/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a daemon: executes it, waits until it serves or reports why it can't
 * (docs/design/processes.md), and undoes the start.
 *
 * Where it sits
 *     cli/start.c, cli/private.c -> [ cli/daemon.c ] -> daemon/starter.c
 */
#ifndef CRTI_CLI_DAEMON_H
#define CRTI_CLI_DAEMON_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli/cli.h"
#include "runtime/daemon/ready.h"
#include "runtime/daemon/starter.h"

/* Signals are read, not delivered: none may end this process in the middle of a start, or before
 * what it started has ended. Ignored signals stay ignored. Returns a descriptor that does not
 * block, or -1; `*before` (may be NULL) is the old mask. */
int crti_daemon_watch_signals(const int *signals, size_t count, sigset_t *before);
/* Those by which a user ends a command. */
int crti_daemon_watch_ends(void);

/* Executes and waits, at most `timeout_ms`. `cancel_fd` ends the wait when it can be read
 * (CRT_ERR_INTERRUPTED). On failure the process is gone, with everything it made. */
crt_status_t crti_daemon_start(crti_starter_t *daemon, int64_t timeout_ms, int cancel_fd);

/* Ends it: with its undo_signal, after `timeout_ms` SIGKILL, and waits; what one that was killed
 * left behind is ended and removed. Fine when it was not started. */
void crti_daemon_undo(crti_starter_t *daemon, int64_t timeout_ms);

#endif
