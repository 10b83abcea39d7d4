/* SPDX-License-Identifier: Apache-2.0 */
/* A program on a private cluster of several hosts. See host_program.h. */
#include "cli/host_program.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/options.h"
#include "runtime/base/clock.h"
#include "runtime/base/spawn_attributes.h"

#define LOOK_MS    50
#define GRACE_MS   10000
#define CANNOT_RUN 126
#define NOT_FOUND  127

extern char **environ;

/* It has nothing more but its end: the job is over. */
static void read_end(host_program_t *self)
{
    char ignored[256];
    ssize_t n = read(self->end_fd, ignored, sizeof(ignored));

    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
        self->is_asked_to_end = true;
}

void crti_host_program_wait(host_program_t *self, int pidfd, pid_t pid)
{
    int64_t kill_at = 0;

    for (;;) {
        struct pollfd fds[3] = {
            {.fd = pidfd, .events = POLLIN},
            {.fd = self->is_asked_to_end ? -1 : self->end_fd, .events = POLLIN},
            {.fd = self->is_asked_to_end ? -1 : self->signal_fd, .events = POLLIN}};
        int64_t left = kill_at - crti_now_ms();
        int n = poll(fds, 3, kill_at ? (left > 0 ? (int)left : 0) : -1);

        if (n > 0 && fds[0].revents)
            return;
        if (n > 0 && fds[1].revents)
            read_end(self);
        if (n > 0 && fds[2].revents)
            self->is_asked_to_end = true;
        if (self->is_asked_to_end && !pid)
            return;
        if (self->is_asked_to_end && !kill_at) {
            kill(pid, SIGTERM);
            kill_at = crti_now_ms() + GRACE_MS;
        } else if (n == 0) {
            kill(pid, SIGKILL);
            kill_at += GRACE_MS;
        }
    }
}

crt_status_t crti_host_program_gather(host_program_t *self, size_t wanted,
                                      int64_t patience_ms, crt_cluster_info_t *info_out)
{
    int64_t until = crti_now_ms() + patience_ms;
    size_t count = 0;

    setenv("CRT_ADDRESS", self->cluster.address, 1);
    setenv("CRT_KEY_FILE", self->cluster.key_file, 1);
    setenv("CRT_NODE_DIR", self->cluster.nodes[0].run_dir, 1);
    CRT_TRY(crt_cluster_find(self->cluster.address, sizeof(*info_out), info_out));
    while ((count = crti_answer_living_nodes(info_out, NULL)) < wanted) {
        struct pollfd fds[2] = {{.fd = self->end_fd, .events = POLLIN},
                                {.fd = self->signal_fd, .events = POLLIN}};

        if (crti_now_ms() > until)
            return crt_raise(CRT_ERR_TIMED_OUT,
                             "%zu of %zu nodes joined within %lld s: do they reach %s?",
                             count, wanted, (long long)patience_ms / 1000,
                             self->cluster.address);
        if (poll(fds, 2, LOOK_MS) > 0 && fds[0].revents)
            read_end(self);
        if (self->is_asked_to_end || fds[1].revents)
            return crt_raise(CRT_ERR_INTERRUPTED, "interrupted");
    }
    return CRT_OK;
}

int crti_host_program_run(host_program_t *self, char **argv)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed, pidfd, how = 0;
    pid_t pid;

    posix_spawn_file_actions_init(&actions);
    crti_spawn_attributes(&attributes, 0);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", 0, 0);
    failed = posix_spawnp(&pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed) {
        crti_cli_fail(self->name, "can't execute %s: %s", argv[0], strerror(failed));
        return failed == ENOENT ? NOT_FOUND : CANNOT_RUN;
    }
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    crti_host_program_wait(self, pidfd, pid);
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        continue;
    close(pidfd);
    return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

void crti_host_program_own_ip(const char *other, char ip[64])
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(9)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    bool is_v4 = inet_pton(AF_INET, other, &v4.sin_addr) == 1;
    struct sockaddr_storage own = {0};
    socklen_t size = sizeof(own);
    int fd = -1;

    ip[0] = '\0';
    if (is_v4 || inet_pton(AF_INET6, other, &v6.sin6_addr) == 1)
        fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
                is_v4 ? sizeof(v4) : sizeof(v6)) == 0 &&
        getsockname(fd, (struct sockaddr *)&own, &size) == 0)
        inet_ntop(own.ss_family,
                  is_v4 ? (void *)&((struct sockaddr_in *)&own)->sin_addr
                        : (void *)&((struct sockaddr_in6 *)&own)->sin6_addr,
                  ip, 64);
    close(fd);
}
