/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a daemon. See daemon.h. */
#include "cli/daemon.h"
#include "crt_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/clock.h"
#include "cli/run_dirs.h"
#include "cli/stop.h"
#include "runtime/base/spawn_attributes.h"

#define FD_READY     3 /* numbers in the daemon */
#define FD_LIFELINE  4
#define UNDO_TIMEOUT 5000
#define CRASH_MS     1000

extern char **environ;

void crti_daemon_init(daemon_t *daemon, const char *name)
{
    *daemon = (daemon_t){
        .argv = {name}, .argc = 1, .pidfd = -1, .lifeline = -1, .undo_signal = SIGTERM};
}

void crti_daemon_flag(daemon_t *daemon, const char *option)
{
    if (daemon->argc < DAEMON_ARGS - 1)
        daemon->argv[daemon->argc++] = option;
}

void crti_daemon_option(daemon_t *daemon, const char *option, const char *value)
{
    if (!value)
        return;
    crti_daemon_flag(daemon, option);
    crti_daemon_flag(daemon, value);
}

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

/* Standard error is a file in memory: what a daemon that crashes at once said is not lost, and
 * no terminal or pipe of ours is held by one that lives on. */
static int spawn_it(daemon_t *daemon, const char *path, int ready, int errors)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed;

    posix_spawn_file_actions_init(&actions);
    crti_spawn_attributes(&attributes, 0);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ready, FD_READY);
    if (daemon->lifeline >= 0)
        posix_spawn_file_actions_adddup2(&actions, daemon->lifeline, FD_LIFELINE);
    failed = posix_spawn(&daemon->pid, path, &actions, &attributes,
                         (char *const *)(uintptr_t)daemon->argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

/* " (killed by signal 11 (Segmentation fault))", or "". It has closed its pipe, so it ends at
 * once. */
static void describe_end(const daemon_t *daemon, char *text, size_t size)
{
    struct pollfd ended = {.fd = daemon->pidfd, .events = POLLIN};
    siginfo_t how = {0};

    poll(&ended, 1, CRASH_MS);
    text[0] = '\0';
    if (waitid(P_PID, (id_t)daemon->pid, &how, WEXITED | WNOWAIT | WNOHANG) == 0 &&
        (how.si_code == CLD_KILLED || how.si_code == CLD_DUMPED))
        snprintf(text, size, " (killed by signal %d: %s)", how.si_status,
                 strsignal(how.si_status));
}

/* Its end, and the last line it wrote. */
static crt_status_t crashed(const daemon_t *daemon, int errors)
{
    char how[80];
    char text[1024];
    off_t end = lseek(errors, 0, SEEK_END);
    off_t from = end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0;
    ssize_t n = pread(errors, text, sizeof(text) - 1, from);
    char *line;

    text[n > 0 ? n : 0] = '\0';
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    describe_end(daemon, how, sizeof(how));
    return crt_raise(CRT_ERR_IO, "%s ended before it served%s%s%s", daemon->argv[0], how,
                     *line ? ": " : "", line);
}

static crt_status_t read_ready(daemon_t *daemon, int ready, int errors,
                               int64_t timeout_ms, int cancel_fd)
{
    int64_t deadline = crti_cli_now_ms() + timeout_ms;
    char *line = daemon->ready;
    size_t used = 0;

    while (used < sizeof(daemon->ready) - 1 && !memchr(line, '\n', used)) {
        struct pollfd fds[2] = {{.fd = ready, .events = POLLIN},
                                {.fd = cancel_fd, .events = POLLIN}};
        int64_t left = deadline - crti_cli_now_ms();
        ssize_t n;

        if (left <= 0)
            return crt_raise(CRT_ERR_TIMED_OUT, "%s does not serve after %lld s",
                             daemon->argv[0], (long long)(timeout_ms / 1000));
        if (poll(fds, 2, (int)left) < 0 && errno != EINTR)
            return crt_raise(CRT_ERR_IO, "poll: %s", strerror(errno));
        if (fds[1].revents)
            return crt_raise(CRT_ERR_INTERRUPTED, "interrupted");
        if (!fds[0].revents)
            continue;
        n = read(ready, line + used, sizeof(daemon->ready) - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    line[used] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "error ", 6) == 0)
        return crt_raise(CRT_ERR_IO, "%s", line + 6);
    if (strncmp(line, "ready", 5) != 0)
        return crashed(daemon, errors);
    return CRT_OK;
}

crt_status_t crti_daemon_pipe(int ends[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) < 0)
        return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
    ends[0] = fcntl(low[0], F_DUPFD_CLOEXEC, 10);
    ends[1] = fcntl(low[1], F_DUPFD_CLOEXEC, 10);
    close(low[0]);
    close(low[1]);
    if (ends[0] >= 0 && ends[1] >= 0)
        return CRT_OK;
    close(ends[0]);
    close(ends[1]);
    return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
}

crt_status_t crti_daemon_start(daemon_t *daemon, int64_t timeout_ms, int cancel_fd)
{
    char path[4096];
    int ready[2], errors, failed;
    crt_status_t status = crti_daemon_path(daemon->argv[0], path, sizeof(path));

    if (status != CRT_OK)
        return status;
    status = crti_daemon_pipe(ready);
    if (status != CRT_OK)
        return status;
    errors = memfd_create("crt-start", MFD_CLOEXEC);
    crti_daemon_option(daemon, "--ready-fd", "3");
    crti_daemon_option(daemon, "--lifeline-fd", daemon->lifeline >= 0 ? "4" : NULL);
    failed = spawn_it(daemon, path, ready[1], errors);
    close(ready[1]);
    if (failed) {
        daemon->pid = 0;
        status = crt_raise(CRT_ERR_IO, "can't execute %s: %s", path, strerror(failed));
    } else {
        daemon->pidfd = (int)syscall(SYS_pidfd_open, daemon->pid, 0);
        status = read_ready(daemon, ready[0], errors, timeout_ms, cancel_fd);
    }
    /* The pipe is open until the daemon is gone: its line may be on the way, and a daemon that
     * is to end in an orderly way must not fail at it. */
    if (status != CRT_OK)
        crti_daemon_undo(daemon, UNDO_TIMEOUT);
    close(ready[0]);
    if (errors >= 0)
        close(errors);
    return status;
}

/* The byte at `*text`, which it leaves behind, %HH as one; a zero at the end of the value. */
static char next_byte(const char **text)
{
    unsigned byte;

    if (**text == ' ' || !**text)
        return 0;
    if (**text != '%' || sscanf(*text + 1, "%2x", &byte) != 1)
        return *(*text)++;
    *text += 3;
    return (char)byte;
}

void crti_daemon_value(const daemon_t *daemon, const char *key, char *value, size_t size)
{
    size_t length = strlen(key), used = 0;

    for (const char *at = strchr(daemon->ready, ' '); at; at = strchr(at + 1, ' ')) {
        const char *text = at + 2 + length;

        if (strncmp(at + 1, key, length) != 0 || at[1 + length] != ' ')
            continue;
        while (used < size - 1 && (value[used] = next_byte(&text)))
            used++;
        break;
    }
    value[used] = '\0';
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

void crti_daemon_undo(daemon_t *daemon, int64_t timeout_ms)
{
    int64_t deadline = crti_cli_now_ms() + timeout_ms;
    pid_t pid = daemon->pid;
    int how = 0;

    if (daemon->pid <= 0)
        return;
    kill(daemon->pid, daemon->undo_signal);
    while (daemon->pidfd >= 0) {
        struct pollfd ended = {.fd = daemon->pidfd, .events = POLLIN};
        int64_t left = deadline - crti_cli_now_ms();

        if (poll(&ended, 1, left > 0 ? (int)left : 100) > 0)
            break;
        if (left <= 0)
            kill(daemon->pid, SIGKILL);
    }
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        continue;
    if (WIFSIGNALED(how))
        remove_remains(pid);
    daemon->pid = 0;
    crti_daemon_release(daemon);
}

void crti_daemon_release(daemon_t *daemon)
{
    if (daemon->pidfd >= 0)
        close(daemon->pidfd);
    daemon->pidfd = -1;
}
