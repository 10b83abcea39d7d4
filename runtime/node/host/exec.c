/* SPDX-License-Identifier: Apache-2.0 */
/* Execution of programs: fork and exec. See exec.h. */
#include "runtime/node/host/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"
#include "runtime/base/rundir.h"
#include "runtime/node/host/supervisor.h"

static void say(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

static void report_and_exit(int fd, const char *path)
{
    int error = errno;
    const char *why = strerrordesc_np(error);

    if (fd < 0) {
        say(path);
        say(" can't be executed: ");
        say(why ? why : "an unknown error");
        say("\n");
    } else {
        (void)!write(fd, &error, sizeof(error));
    }
    _exit(127);
}

static void fail_to_enter(const char *directory)
{
    const char *why = strerrordesc_np(errno);

    say("the working_dir ");
    say(directory);
    say(" can't be entered: ");
    say(why ? why : "an unknown error");
    say("\n");
    _exit(127);
}

/* Inherited by what it forks. Who may not say so is as likely to be taken as others. */
static void be_taken_first(void)
{
    static const char most[] = "1000";
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    (void)!write(fd, most, sizeof(most) - 1);
    close(fd);
}

static bool is_at(const char *path, int fd)
{
    struct stat by_path, by_fd;

    return stat(path, &by_path) == 0 && fstat(fd, &by_fd) == 0 &&
           by_path.st_dev == by_fd.st_dev && by_path.st_ino == by_fd.st_ino;
}

/* From the first call here that looks at a path on, a file server that does not answer may keep
 * this process for as long as it likes. */
static void enter_and_execute(const crti_exec_t *exec, int report)
{
    if (exec->must_enter && chdir(exec->directory) < 0)
        fail_to_enter(exec->directory);
    if (exec->directory && chdir(exec->directory) < 0 && chdir("/") < 0)
        report_and_exit(report, exec->path);
    /* By its path when that is still the same file: then ps shows its name. */
    if (exec->exec_fd < 0 || (!exec->is_silent && is_at(exec->path, exec->exec_fd)))
        execve(exec->path, exec->argv, exec->environment);
    else
        syscall(SYS_execveat, exec->exec_fd, "", exec->argv, exec->environment,
                AT_EMPTY_PATH);
    report_and_exit(report, exec->path);
}

static void child(const crti_exec_t *exec, pid_t parent, int report)
{
    struct sigaction plain = {.sa_handler = SIG_DFL};
    int kept[] = {exec->keep_fd, exec->exec_fd, report, -1, -1};
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    if (exec->is_worker)
        be_taken_first();
    for (int i = 1; i < NSIG; i++)
        sigaction(i, &plain, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(exec->stdout_fd, STDOUT_FILENO) < 0 ||
        dup2(exec->stderr_fd, STDERR_FILENO) < 0)
        report_and_exit(report, exec->path);
    if (exec->keep_fd >= 0)
        fcntl(exec->keep_fd, F_SETFD, 0);
    for (int i = 0; i < 2; i++)
        if (exec->passed[i]) {
            kept[3 + i] = exec->passed[i];
            fcntl(exec->passed[i], F_SETFD, 0);
        }
    /* Links that the daemon closes meanwhile must have an end. */
    crti_close_others(kept, sizeof(kept) / sizeof(kept[0]));
    if (exec->is_supervised)
        crti_supervise(report);
    enter_and_execute(exec, report);
}

/* The pipe closes when the program is executed. */
crt_status_t crti_exec_result(int *report_take, const char *path)
{
    CRTI_AUTO(crti_close) int fd = crti_take_fd(report_take);
    ssize_t got = 0;
    int error;

    do
        got = fd < 0 ? 0 : read(fd, &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    if (got != sizeof(error))
        return CRT_OK;
    if (error == ENOEXEC)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "%s is not a program for this node's processor", path);
    return crt_raise(error == ENOENT ? CRT_ERR_NOT_FOUND : CRT_ERR_IO,
                     "%s can't be executed: %s", path, strerror(error));
}

crt_status_t crti_exec_start(const crti_exec_t *exec, pid_t *pid_out, int *report_out)
{
    pid_t parent = getpid(), pid;
    CRTI_AUTO(crti_close) int ours = -1;
    CRTI_AUTO(crti_close) int theirs = -1;
    int fds[2];

    if (report_out && pipe2(fds, O_CLOEXEC) < 0)
        return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
    if (report_out) {
        ours = fds[0];
        theirs = fds[1];
    }
    pid = fork();
    if (pid == 0)
        child(exec, parent, theirs);
    if (pid < 0)
        return crt_raise(
            CRT_ERR_BACKPRESSURE, "fork: %s%s", strerror(errno),
            errno == EAGAIN
                ? " (processes of the user, ulimit -u, or of the control group, pids.max)"
                : "");
    setpgid(pid, pid); /* whichever is first: the group exists when this returns */
    if (report_out)
        *report_out = crti_take_fd(&ours);
    *pid_out = pid;
    return CRT_OK;
}
