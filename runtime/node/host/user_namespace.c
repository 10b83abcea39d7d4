/* SPDX-License-Identifier: Apache-2.0 */
/* A user namespace. See user_namespace.h. */
#include "runtime/node/host/user_namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/cleanup.h"

#define MOST_MS 5000

static bool put(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t size = (ssize_t)strlen(text);
    bool is_written = fd >= 0 && write(fd, text, (size_t)size) == size;

    if (fd >= 0)
        close(fd);
    return is_written;
}

/* In the new process, which calls nothing but what is safe after fork: makes it, tells 0 or what
 * failed, and stays until the other end is closed. */
static void stay(int link, const char *user, const char *group)
{
    int error = 0;

    if (unshare(CLONE_NEWUSER) != 0 || !put("/proc/self/uid_map", user) ||
        !put("/proc/self/setgroups", "deny") || !put("/proc/self/gid_map", group))
        error = errno;
    (void)!write(link, &error, sizeof(error));
    (void)!read(link, &error, sizeof(error));
    _exit(0);
}

/* What it tells; an error of its own when it ends or is silent. */
static int hear(int link)
{
    struct pollfd said = {.fd = link, .events = POLLIN};
    int error;

    if (poll(&said, 1, MOST_MS) != 1)
        return ETIMEDOUT;
    return read(link, &error, sizeof(error)) == sizeof(error) ? error : EPIPE;
}

crt_status_t crti_user_namespace_new(int *fd_out)
{
    char user[48], group[48], path[64];
    int link[2], error;
    pid_t pid;

    snprintf(user, sizeof(user), "%u %u 1\n", geteuid(), geteuid());
    snprintf(group, sizeof(group), "%u %u 1\n", getegid(), getegid());
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link) != 0)
        return crt_raise(CRT_ERR_IO, "socketpair: %s", strerror(errno));
    pid = fork();
    if (pid == 0) {
        close(link[0]);
        stay(link[1], user, group);
    }
    close(link[1]);
    error = pid < 0 ? errno : hear(link[0]);
    *fd_out = -1;
    if (error == 0) {
        snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        *fd_out = open(path, O_RDONLY | O_CLOEXEC);
        error = *fd_out < 0 ? errno : 0;
    }
    close(link[0]);
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return error == 0
               ? CRT_OK
               : crt_raise(CRT_ERR_UNSUPPORTED,
                           "no image can be entered, as this host gives the user of "
                           "the node no user namespace (man 7 user_namespaces): %s",
                           strerror(error));
}
