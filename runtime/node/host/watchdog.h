/* SPDX-License-Identifier: Apache-2.0 */
/* Watchdog: a process that waits for the end of the daemon, however it ends, and then ends what
 * user code left behind.
 *
 * Where it sits
 *     node.c (start) -> fork -> [ node/host/watchdog.c ] -> end of file on its pipe: the daemon is
 *     gone
 *         -> SIGKILL to whoever has this node's directory in his environment
 * Why
 *     Workers and zygotes have a parent-death signal. Their children have none, and may have left
 *     the process group and the session: only their environment tells whose they are, and
 *     after kill -9 of the daemon nobody would look at it before `crt stop`.
 * Threads
 *     It is forked before the daemon has threads or a store, and lives in raw system calls: it
 *     shares the daemon's memory copy on write and must not touch it.
 * Ownership
 *     It holds the lock of the run directory with the daemon: the lock is free when nothing of
 *     the node is left. Signals that end programs do not end it; SIGKILL does, and then the
 *     daemon goes on without it.
 * Failure
 *     What does not end in WATCHDOG_NS is left (a process in the kernel's hands).
 */
#ifndef CRTI_NODE_WATCHDOG_H
#define CRTI_NODE_WATCHDOG_H

#include <sys/types.h>

#include "runtime/base/crt_base.h"

typedef struct crti_watchdog {
    pid_t pid; /* 0: none */
    int fd;    /* its end of file is the daemon's end; -1 none */
} crti_watchdog_t;

/* Forks it. `run_dir` is the node's, `lock_fd` holds its lock. CRT_ERR_IO, CRT_ERR_BACKPRESSURE. */
crt_status_t crti_watchdog_start(crti_watchdog_t *watchdog, const char *run_dir,
                                 int lock_fd);
/* Lets it do its work and waits until it has. Fine when there is none. */
void crti_watchdog_end(crti_watchdog_t *watchdog);

/* So that `ps` does not show two daemons: what a fork of this one calls itself. */
void crti_take_name(const char *name);

/* Does the same for nodes whose daemon and watchdog were killed: ends what has one of their
 * directories below `run` in its environment, and removes the directory. Else they would pile up
 * where a node is started again and again and never stopped. */
void crti_watchdog_sweep(const char *run);

#endif
