/* SPDX-License-Identifier: Apache-2.0 */
/* Orphans of user code, which become children of this daemon, and the watchdog that was killed.
 *
 * Where it sits
 *     SIGCHLD (node.c), tick.c -> [ node/lifecycle/reaper.c ] -> watchdog.c
 */
#include <sys/wait.h>

#include "runtime/node/node.h"

/* True when a record of this daemon waits for that child's end. */
static bool has_child(crti_node_t *node, pid_t pid)
{
    if (crti_map_get(&node->processes.by_pid, &pid))
        return true;
    return crti_job_has_zygote(node, pid) || crti_submission_has(node, pid);
}

/* It was killed. Without one, what workers left behind would outlive a kill of this daemon. */
static void replace_watchdog(crti_node_t *node)
{
    pid_t old = node->watchdog.pid;

    crti_watchdog_end(&node->watchdog);
    if (crti_watchdog_start(&node->watchdog, node->run_dir, node->lock_fd) != CRT_OK)
        crti_log(CRTI_LOG_ERROR, "node", "crt-watchdog (pid %d) was killed: %s", (int)old,
                 crt_error_detail());
    else
        crti_log(CRTI_LOG_WARN, "node",
                 "crt-watchdog (pid %d) was killed; %d is the next", (int)old,
                 (int)node->watchdog.pid);
}

/* Orphans of user code become this daemon's children; whoever has a record is reaped by its
 * pidfd, the others here. A child with a record stands in the way of those behind it until it
 * is reaped: the tick looks again. */
void crti_node_reap_orphans(crti_node_t *node)
{
    siginfo_t info = {0};
    bool more = true;

    while (more && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid) {
        more = !has_child(node, info.si_pid);
        if (info.si_pid == node->watchdog.pid)
            replace_watchdog(node);
        else if (more)
            waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
}
