/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a daemon. See daemon.h. */
#include "cli/daemon.h"
#include "crt_tools.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "cli/run_dirs.h"
#include "cli/stop.h"
#include "runtime/base/clock.h"

#define UNDO_TIMEOUT 5000

int crti_daemon_watch_signals(const int *signals, size_t count, sigset_t *before)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < count; i++) {
        struct sigaction action;

        if (sigaction(signals[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, signals[i]);
    }
    sigprocmask(SIG_BLOCK, &set, before);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int crti_daemon_watch_ends(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

    return crti_daemon_watch_signals(ends, sizeof(ends) / sizeof(ends[0]), NULL);
}

crt_status_t crti_daemon_start(crti_starter_t *daemon, int64_t timeout_ms, int cancel_fd)
{
    char path[4096];
    crt_status_t status;

    CRT_TRY(crti_daemon_path(daemon->argv[0], path, sizeof(path)));
    CRT_TRY(crti_starter_spawn(daemon, path));
    status = crti_starter_wait(daemon, timeout_ms, cancel_fd);
    if (status != CRT_OK)
        crti_daemon_undo(daemon, UNDO_TIMEOUT); /* it can still write to its pipes */
    crti_starter_close(daemon);
    return status;
}

/* Ends and removes what a killed daemon could not: whose directory it was is told by its info or
 * lock file. */
static void remove_remains(pid_t pid)
{
    run_dir_t *dirs = calloc(RUN_DIRS_MAX, sizeof(*dirs));
    size_t count = dirs ? crti_run_dirs_find(NULL, dirs) : 0, kept = 0;

    for (size_t i = 0; i < count; i++)
        if (dirs[i].pid == pid)
            dirs[kept++] = dirs[i];
    if (kept)
        crti_cli_end_run_dirs(dirs, kept, true);
    free(dirs);
}

void crti_daemon_undo(crti_starter_t *daemon, int64_t timeout_ms)
{
    int64_t deadline_ms = crti_now_ms() + timeout_ms;
    pid_t pid = daemon->pid;

    if (pid <= 0)
        return;
    kill(pid, daemon->undo_signal);
    if (WIFSIGNALED(
            crti_starter_await_end(pid, daemon->pidfd, (uint64_t)deadline_ms * 1000000)))
        remove_remains(pid);
    daemon->pid = 0;
    crti_starter_release(daemon);
}
