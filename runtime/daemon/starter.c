/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a daemon. See starter.h. */
#include "runtime/daemon/starter.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/spawn_attributes.h"

#define FD_READY    3 /* numbers in the daemon */
#define FD_LIFELINE 4
#define FD_FREE     10 /* not below: there stand those of the daemon */
#define CRASH_MS    1000
#define KILLED_MS   100 /* between two kills */

extern char **environ;

void crti_starter_init(crti_starter_t *starter, const char *name, int lifeline)
{
    *starter = (crti_starter_t){.argv = {name},
                                .argc = 1,
                                .pidfd = -1,
                                .lifeline = lifeline,
                                .undo_signal = SIGTERM,
                                .ready_fd = -1,
                                .errors_fd = -1};
}

void crti_starter_flag(crti_starter_t *starter, const char *option)
{
    if (starter->argc < CRTI_STARTER_ARGUMENTS - 1)
        starter->argv[starter->argc++] = option;
}

void crti_starter_option(crti_starter_t *starter, const char *option, const char *value)
{
    if (!value)
        return;
    crti_starter_flag(starter, option);
    crti_starter_flag(starter, value);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

crt_status_t crti_starter_pipe(int ends[2])
{
    int low[2];

    if (pipe2(low, O_CLOEXEC) < 0)
        return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
    ends[0] = fcntl(low[0], F_DUPFD_CLOEXEC, FD_FREE);
    ends[1] = fcntl(low[1], F_DUPFD_CLOEXEC, FD_FREE);
    close(low[0]);
    close(low[1]);
    if (ends[0] >= 0 && ends[1] >= 0)
        return CRT_OK;
    close_fd(&ends[0]);
    close_fd(&ends[1]);
    return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
}

/* Standard error is a file in memory: what a daemon that crashes at once said is not lost, and
 * no terminal or pipe of ours is held by one that lives on. */
static int spawn_it(crti_starter_t *starter, const char *path, int ready)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed;

    posix_spawn_file_actions_init(&actions);
    crti_spawn_attributes(&attributes, 0);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, starter->errors_fd, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ready, FD_READY);
    if (starter->lifeline >= 0)
        posix_spawn_file_actions_adddup2(&actions, starter->lifeline, FD_LIFELINE);
    failed = posix_spawn(&starter->pid, path, &actions, &attributes,
                         (char *const *)(uintptr_t)starter->argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

crt_status_t crti_starter_spawn(crti_starter_t *starter, const char *path)
{
    int ready[2], failed;

    CRT_TRY(crti_starter_pipe(ready));
    starter->errors_fd = memfd_create("crt-start", MFD_CLOEXEC);
    crti_starter_option(starter, "--ready-fd", "3");
    crti_starter_option(starter, "--lifeline-fd", starter->lifeline >= 0 ? "4" : NULL);
    failed = spawn_it(starter, path, ready[1]);
    close(ready[1]);
    starter->ready_fd = ready[0];
    if (!failed) {
        starter->pidfd = (int)syscall(SYS_pidfd_open, starter->pid, 0);
        return CRT_OK;
    }
    starter->pid = 0;
    crti_starter_close(starter);
    return crt_raise(CRT_ERR_IO, "can't execute %s: %s", path, strerror(failed));
}

/* " (killed by signal 11 (Segmentation fault))", or "". It has closed its pipe, so it ends at
 * once. */
static void describe_end(const crti_starter_t *starter, char *text, size_t size)
{
    struct pollfd ended = {.fd = starter->pidfd, .events = POLLIN};
    siginfo_t how = {0};

    poll(&ended, 1, CRASH_MS);
    text[0] = '\0';
    if (waitid(P_PID, (id_t)starter->pid, &how, WEXITED | WNOWAIT | WNOHANG) == 0 &&
        (how.si_code == CLD_KILLED || how.si_code == CLD_DUMPED))
        snprintf(text, size, " (killed by signal %d: %s)", how.si_status,
                 strsignal(how.si_status));
}

/* Its end, and the last line it wrote. */
static crt_status_t crashed(const crti_starter_t *starter)
{
    char how[80];
    char text[1024];
    off_t end = lseek(starter->errors_fd, 0, SEEK_END);
    off_t from = end > (off_t)sizeof(text) - 1 ? end - (off_t)sizeof(text) + 1 : 0;
    ssize_t n = pread(starter->errors_fd, text, sizeof(text) - 1, from);
    char *line;

    text[n > 0 ? n : 0] = '\0';
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    describe_end(starter, how, sizeof(how));
    return crt_raise(CRT_ERR_IO, "%s ended before it served%s%s%s", starter->argv[0], how,
                     *line ? ": " : "", line);
}

crt_status_t crti_starter_wait(crti_starter_t *starter, int64_t timeout_ms, int cancel_fd)
{
    uint64_t deadline = crti_now_ns() + (uint64_t)timeout_ms * CRTI_MS;
    char *line = starter->ready;
    size_t used = 0;

    while (used < sizeof(starter->ready) - 1 && !memchr(line, '\n', used)) {
        struct pollfd fds[2] = {{.fd = starter->ready_fd, .events = POLLIN},
                                {.fd = cancel_fd, .events = POLLIN}};
        uint64_t now = crti_now_ns();
        ssize_t n;

        if (now >= deadline)
            return crt_raise(CRT_ERR_TIMED_OUT, "%s does not serve after %lld s",
                             starter->argv[0], (long long)(timeout_ms / 1000));
        if (poll(fds, 2, (int)((deadline - now) / CRTI_MS) + 1) < 0 && errno != EINTR)
            return crt_raise(CRT_ERR_IO, "poll: %s", strerror(errno));
        if (fds[1].revents)
            return crt_raise(CRT_ERR_INTERRUPTED, "interrupted");
        if (!fds[0].revents)
            continue;
        n = read(starter->ready_fd, line + used, sizeof(starter->ready) - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    line[used] = '\0';
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "error ", 6) == 0)
        return crt_raise(CRT_ERR_IO, "%s", line + 6);
    return strncmp(line, "ready", 5) == 0 ? CRT_OK : crashed(starter);
}

void crti_starter_close(crti_starter_t *starter)
{
    close_fd(&starter->ready_fd);
    close_fd(&starter->errors_fd);
}

int crti_starter_await_end(pid_t pid, int pidfd, uint64_t deadline_ns)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    int how = 0;

    while (pidfd >= 0) {
        uint64_t now = crti_now_ns();
        int left = now < deadline_ns ? (int)((deadline_ns - now) / CRTI_MS) + 1 : 0;
        int n = poll(&ended, 1, left ? left : KILLED_MS);

        if (n > 0)
            break;
        if (!left)
            kill(pid, SIGKILL);
    }
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        continue;
    return how;
}

void crti_starter_release(crti_starter_t *starter)
{
    close_fd(&starter->pidfd);
}
