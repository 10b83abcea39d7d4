/* SPDX-License-Identifier: Apache-2.0 */
/* The process that its program's processes can't outlive. See supervisor.h. */
#include "runtime/node/host/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/descendants.h"
#include "runtime/node/host/watchdog.h"

#define NAME "crt-supervisor"

/* ---------------------------------------------------------------- the supervisor */

static void end_alike(int status) __attribute__((noreturn));
static void end_alike(int status)
{
    static const struct rlimit none = {0, 0};
    sigset_t all;

    if (!WIFSIGNALED(status))
        _exit(WEXITSTATUS(status));
    setrlimit(RLIMIT_CORE, &none); /* the program's own is there */
    signal(WTERMSIG(status), SIG_DFL);
    sigfillset(&all);
    kill(getpid(), WTERMSIG(status));
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    _exit(128 + WTERMSIG(status));
}

/* True when the program has ended; orphans are reaped as they come. */
static bool has_ended(pid_t program, int *status)
{
    int how;
    pid_t ended;

    while ((ended = waitpid(-1, &how, WNOHANG)) > 0)
        if (ended == program) {
            *status = how;
            return true;
        }
    return false;
}

static void stay(pid_t program, const sigset_t *awaited) __attribute__((noreturn));
static void stay(pid_t program, const sigset_t *awaited)
{
    int status = SIGKILL; /* unless it says otherwise */

    crti_take_name(NAME);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    (void)!open("/dev/null", O_RDWR);
    syscall(SYS_close_range, 1, ~0u, 0);
    (void)!chdir("/");
    while (!has_ended(program, &status)) {
        int number = sigwaitinfo(awaited, NULL);

        if (number == SIGTERM)
            kill(-program, SIGTERM);
        if (number == SIGUSR1)
            break;
    }
    crti_descendants_end(program, &status);
    end_alike(status);
}

void crti_supervise(int report)
{
    sigset_t awaited, before;
    pid_t own = getpid(), program;

    sigemptyset(&awaited);
    sigaddset(&awaited, SIGTERM);
    sigaddset(&awaited, SIGUSR1);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGINT); /* of a terminal or a group: the program's affair */
    sigaddset(&awaited, SIGHUP);
    sigprocmask(SIG_BLOCK, &awaited, &before);
    crti_descendants_keep();
    program = fork();
    if (program > 0) {
        setpgid(program, program);
        stay(program, &awaited);
    }
    if (program < 0) {
        int error = errno;

        (void)!write(report, &error, sizeof(error));
        _exit(127);
    }
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != own)
        _exit(126);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void crti_supervisor_terminate(pid_t pid)
{
    if (pid > 0)
        kill(pid, SIGTERM);
}

void crti_supervisor_kill(pid_t pid)
{
    if (pid > 0)
        kill(pid, SIGUSR1);
}
