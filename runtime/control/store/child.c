/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that end with the head. See child.h. */
#include "runtime/control/store/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/path_search.h"

#define ENVIRONMENT_MAX 4096

/* ---------------------------------------------------------------- in the child */

/* Writes errno to the pipe, so that the parent can say what failed. */
static void give_up(int report)
{
    int error = errno;

    (void)!write(report, &error, sizeof(error));
    _exit(127);
}

static void reset_signals(void)
{
    sigset_t none;

    for (int i = 1; i < NSIG; i++)
        signal(i, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Copies first: a descriptor may lie where another one has to go. */
static bool pass_descriptors(const crti_child_command_t *command)
{
    int copies[CRTI_CHILD_FDS];

    for (size_t i = 0; i < command->pass_count; i++) {
        copies[i] =
            fcntl(command->pass_fds[i], F_DUPFD_CLOEXEC, CRTI_CHILD_FD + CRTI_CHILD_FDS);
        if (copies[i] < 0)
            return false;
    }
    for (size_t i = 0; i < command->pass_count; i++)
        if (dup2(copies[i], CRTI_CHILD_FD + (int)i) < 0)
            return false;
    return true;
}

/* Only calls that are safe between fork and exec. */
static void run(const crti_child_command_t *command, char **environment, int null_fd,
                int report, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        give_up(report);
    reset_signals();
    if (dup2(command->stdin_fd >= 0 ? command->stdin_fd : null_fd, STDIN_FILENO) < 0 ||
        dup2(command->output_fd, STDOUT_FILENO) < 0 ||
        dup2(command->output_fd, STDERR_FILENO) < 0)
        give_up(report);
    if (!pass_descriptors(command))
        give_up(report);
    execve(command->path, (char *const *)(uintptr_t)command->argv, environment);
    give_up(report);
}

/* ---------------------------------------------------------------- in the head */

typedef struct own_variables {
    char head_dir[PATH_MAX + 32], libraries[PATH_MAX + 32];
} own_variables_t;

/* The environment with CRT_HEAD_DIR; the strings are borrowed but for `own`. */
static char **make_environment(const crti_child_command_t *command, own_variables_t *own)
{
    extern char **environ;
    char **list = calloc(ENVIRONMENT_MAX, sizeof(*list));
    const char *libraries = command->libraries;
    size_t count = 0;

    if (list == NULL)
        return NULL;
    for (char **at = environ; *at && count < ENVIRONMENT_MAX - 3; at++)
        if (strncmp(*at, "CRT_HEAD_DIR=", 13) != 0 &&
            !(libraries && strncmp(*at, "LD_LIBRARY_PATH=", 16) == 0))
            list[count++] = *at;
    snprintf(own->head_dir, sizeof(own->head_dir), "CRT_HEAD_DIR=%s", command->head_dir);
    list[count++] = own->head_dir;
    if (libraries) {
        snprintf(own->libraries, sizeof(own->libraries), "LD_LIBRARY_PATH=%s", libraries);
        list[count] = own->libraries;
    }
    return list;
}

static void on_ready(void *user, uint32_t events)
{
    crti_child_t *child = user;
    int status = 0;

    if (waitpid(child->pid, &status, WNOHANG) != child->pid)
        return;
    crti_loop_remove(child->loop, &child->watch);
    close(child->pidfd);
    child->pid = 0;
    if (child->on_exit)
        child->on_exit(child->user, status);
}

static crt_status_t watch_child(crti_child_t *child)
{
    child->pidfd = (int)syscall(SYS_pidfd_open, child->pid, 0);
    if (child->pidfd < 0)
        return crt_raise(CRT_ERR_IO, "pidfd_open: %s", strerror(errno));
    fcntl(child->pidfd, F_SETFD, FD_CLOEXEC);
    child->watch = (crti_watch_t){.on_ready = on_ready, .user = child};
    return crti_loop_add(child->loop, &child->watch, child->pidfd, EPOLLIN);
}

/* Waits until the child executes its program: end of file, or the errno that it wrote. */
static int read_report(int fd)
{
    int error = 0;
    ssize_t n;

    do
        n = read(fd, &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(error) ? error : 0;
}

static crt_status_t fork_child(crti_child_t *child, const crti_child_command_t *command,
                               char **environment)
{
    CRTI_AUTO(crti_close) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    CRTI_AUTO(crti_close) int report_read = -1;
    CRTI_AUTO(crti_close) int report_write = -1;
    pid_t parent = getpid();
    int ends[2], error;

    if (null_fd < 0 || pipe2(ends, O_CLOEXEC) != 0)
        return crt_raise(CRT_ERR_IO, "start of %s: %s", command->path, strerror(errno));
    report_read = ends[0];
    report_write = fcntl(ends[1], F_DUPFD_CLOEXEC, CRTI_CHILD_FD + CRTI_CHILD_FDS);
    close(ends[1]);
    child->pid = fork();
    if (child->pid == 0)
        run(command, environment, null_fd, report_write, parent);
    if (child->pid < 0) {
        child->pid = 0;
        return crt_raise(CRT_ERR_IO, "fork for %s: %s", command->path, strerror(errno));
    }
    close(crti_take_fd(&report_write));
    error = read_report(report_read);
    if (error == 0)
        return CRT_OK;
    waitpid(child->pid, NULL, 0);
    child->pid = 0;
    return crt_raise(CRT_ERR_NOT_FOUND, "%s can't be executed: %s", command->path,
                     strerror(error));
}

crt_status_t crti_child_start(crti_child_t *child, crti_loop_t *loop,
                              const crti_child_command_t *command)
{
    CRTI_AUTO(free) char **environment = NULL;
    own_variables_t own;
    crt_status_t status;

    child->loop = loop;
    environment = make_environment(command, &own);
    if (environment == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "start of %s", command->path);
    status = fork_child(child, command, environment);
    if (status != CRT_OK)
        return status;
    status = watch_child(child);
    if (status != CRT_OK) {
        kill(child->pid, SIGKILL);
        waitpid(child->pid, NULL, 0);
        child->pid = 0;
    }
    return status;
}

void crti_child_signal(const crti_child_t *child, int signal_number)
{
    if (child->pid)
        syscall(SYS_pidfd_send_signal, child->pidfd, signal_number, NULL, 0);
}

void crti_child_kill(crti_child_t *child)
{
    if (child->pid == 0)
        return;
    crti_child_signal(child, SIGKILL);
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    crti_loop_remove(child->loop, &child->watch);
    close(child->pidfd);
    child->pid = 0;
}

crt_status_t crti_child_find(const char *name, char *path, size_t size)
{
    const char *from = getenv("PATH");

    if (from == NULL || *from == '\0')
        from = "/usr/local/bin:/usr/bin:/bin";
    if (crti_path_search(from, name, path, size))
        return CRT_OK;
    return crt_raise(CRT_ERR_NOT_FOUND, "%s is not installed (not found in PATH)", name);
}
