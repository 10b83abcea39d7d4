/* SPDX-License-Identifier: Apache-2.0 */
/* Supervisor: the process between the daemon and a program, which nothing that the program started
 * outlives (base/descendants.h).
 *
 * Where it sits
 *     exec.c (the child) -> fork -> [ node/host/supervisor.c ] -> the program, and all that it
 *     starts
 * Rules
 *     It ends as the program ended, when all of them have: with its exit status, or by its signal.
 *     SIGTERM is passed on to the program's process group. SIGUSR1 kills everything at once. It
 *     dies with the daemon, and the program with it; then the watchdog sees to the rest
 *     (watchdog.h).
 * Threads
 *     It has one, and lives in system calls: it shares the daemon's memory copy on write.
 */
#ifndef CRTI_NODE_SUPERVISOR_H
#define CRTI_NODE_SUPERVISOR_H

#include <sys/types.h>

/* Called in a new child of the daemon that is the leader of its process group. Returns in a process
 * of its own, the leader of another group, which is to execute the program; the caller stays behind
 * as its supervisor, without a file of its own but `report`, to which it writes errno when it can't
 * fork. */
void crti_supervise(int report);

/* To the program's process group, or everything below the supervisor `pid`. Fine when it has ended,
 * but is not reaped; 0: none. */
void crti_supervisor_terminate(pid_t pid);
void crti_supervisor_kill(pid_t pid);

#endif
