/* SPDX-License-Identifier: Apache-2.0 */
/* Zygote: forks workers for the node daemon. See zygote.h. */
#include "runtime/core/client/zygote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/descendants.h"
#include "runtime/base/list.h"
#include "runtime/base/log.h"
#include "runtime/net/channel.h"
#include "runtime/net/net.h"

/* A FORK that waits until the channel's handler has returned: a child must not leave through
 * the handler of a link that is not its own. */
typedef struct pending_fork {
    crti_list_t link;
    uint64_t request;
    crti_id_t process;
    int out, err;
} pending_fork_t;

typedef struct zygote {
    crti_channel_t *channel;
    crti_list_t forks;
    int signals;       /* signalfd of SIGCHLD */
    int null;          /* what workers read */
    sigset_t old_mask; /* what a worker gets back */
    pid_t pid;
    bool closed;
} zygote_t;

static void take_variable(const char *name, char *value, size_t size)
{
    const char *found = getenv(name);

    if (found && snprintf(value, size, "%s", found) >= (int)size) {
        fprintf(stderr, "crt: %s is too long\n", name);
        exit(1);
    }
    if (!found)
        value[0] = '\0';
    unsetenv(name);
}

crti_process_role_t crti_process_role(crti_worker_identity_t *identity_out,
                                      int *zygote_fd_out)
{
    char fd[16], worker[64], executes[8];
    char *end;

    *identity_out = (crti_worker_identity_t){0};
    take_variable("CRT_ZYGOTE_FD", fd, sizeof(fd));
    take_variable("CRT_WORKER", worker, sizeof(worker));
    if (!fd[0] && !worker[0])
        return CRTI_PROCESS_DRIVER;
    take_variable("CRT_NODE_SOCKET", identity_out->node_socket,
                  sizeof(identity_out->node_socket));
    take_variable(CRTI_EXECUTE_WORKERS, executes, sizeof(executes));
    identity_out->is_executed = executes[0];
    if (!fd[0]) {
        if (crti_id_parse(worker, &identity_out->process))
            return CRTI_PROCESS_WORKER;
        fprintf(stderr, "crt: CRT_WORKER=%s is not a process id\n", worker);
        exit(1);
    }
    *zygote_fd_out = (int)strtol(fd, &end, 10);
    if (*end || fcntl(*zygote_fd_out, F_SETFD, FD_CLOEXEC) < 0) {
        fprintf(stderr, "crt: CRT_ZYGOTE_FD=%s is no open descriptor\n", fd);
        exit(1);
    }
    return CRTI_PROCESS_ZYGOTE;
}

/* ---------------------------------------------------------------- may it fork? */

static int count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;

    if (tasks == NULL)
        return -1;
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* The path of an open GPU device, "" when there is none: its driver's state does not survive
 * a fork. */
static void find_gpu_device(char *path, size_t size)
{
    DIR *fds = opendir("/proc/self/fd");

    path[0] = '\0';
    if (fds == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(fds)) != NULL;) {
        ssize_t length = readlinkat(dirfd(fds), entry->d_name, path, size - 1);

        path[length > 0 ? length : 0] = '\0';
        if (strncmp(path, "/dev/nvidia", 11) == 0 || strncmp(path, "/dev/dri/", 9) == 0 ||
            strncmp(path, "/dev/kfd", 8) == 0)
            break;
        path[0] = '\0';
    }
    closedir(fds);
}

static void find_problem(char *problem, size_t size)
{
    int threads = count_threads();
    char device[256];

    find_gpu_device(device, sizeof(device));
    problem[0] = '\0';
    if (threads != 1)
        snprintf(problem, size, "%d threads run before crt_main or crt_init", threads);
    else if (device[0])
        snprintf(problem, size, "%s is open before crt_main or crt_init", device);
}

/* ---------------------------------------------------------------- serve */

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *message,
                       int *fds, int fd_count)
{
    zygote_t *zygote = user;
    pending_fork_t *fork_request;

    if (message->kind != CRTI_MSG_FORK)
        return;
    if (fd_count != 2) {
        crti_channel_send_error(
            channel, message->request,
            crt_raise(CRT_ERR_PROTOCOL, "FORK with %d descriptors", fd_count));
        return;
    }
    fork_request = calloc(1, sizeof(*fork_request));
    if (fork_request == NULL) {
        crti_channel_send_error(
            channel, message->request,
            crt_raise(CRT_ERR_NO_MEMORY, "zygote: no memory to fork"));
        return;
    }
    fork_request->request = message->request;
    fork_request->process = message->fork.process;
    fork_request->out = crti_take_fd(&fds[0]);
    fork_request->err = crti_take_fd(&fds[1]);
    crti_list_append(&zygote->forks, &fork_request->link);
}

static void on_closed(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail)
{
    zygote_t *zygote = user;

    zygote->closed = true;
}

/* The child's first steps; what the zygote had is closed. */
static void become_worker(zygote_t *zygote, const pending_fork_t *request)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != zygote->pid)
        _exit(1); /* the zygote died between fork and prctl */
    setpgid(0, 0);
    if (dup2(zygote->null, STDIN_FILENO) < 0 || dup2(request->out, STDOUT_FILENO) < 0 ||
        dup2(request->err, STDERR_FILENO) < 0)
        _exit(1);
    close(zygote->null);
    close(request->out);
    close(request->err);
    close(zygote->signals);
    sigprocmask(SIG_SETMASK, &zygote->old_mask, NULL);
}

static void answer_fork(zygote_t *zygote, const pending_fork_t *request, pid_t pid)
{
    crti_msg_forked_t forked = {.process = request->process, .pid = pid};

    if (pid > 0)
        crti_channel_send(zygote->channel, CRTI_MSG_FORKED, request->request, &forked);
    else
        crti_channel_send_error(zygote->channel, request->request,
                                crt_raise(CRT_ERR_IO, "fork: %s%s", strerror(errno),
                                          errno == EAGAIN
                                              ? " (processes of the user, ulimit -u, or "
                                                "of the control group, pids.max)"
                                              : ""));
}

/* In a child: what others wait for is closed, and no memory is touched, for each page that is
 * written to would be copied. */
static void leave_zygote(zygote_t *zygote)
{
    CRTI_LIST_FOREACH (item, &zygote->forks) {
        const pending_fork_t *request = CRTI_CONTAINER(item, pending_fork_t, link);

        close(request->out);
        close(request->err);
    }
    close(crti_channel_fd(zygote->channel));
}

static void free_forks(zygote_t *zygote)
{
    for (crti_list_t *item; (item = crti_list_pop(&zygote->forks)) != NULL;) {
        pending_fork_t *request = CRTI_CONTAINER(item, pending_fork_t, link);

        close(request->out);
        close(request->err);
        free(request);
    }
}

/* Forks all that was asked for. True in a child. */
static bool fork_pending(zygote_t *zygote, crti_worker_identity_t *identity_out)
{
    for (crti_list_t *item; (item = crti_list_pop(&zygote->forks)) != NULL;) {
        pending_fork_t *request = CRTI_CONTAINER(item, pending_fork_t, link);
        pid_t pid;

        fflush(NULL); /* what is buffered now would be written by every child, too */
        pid = fork();
        if (pid == 0) {
            become_worker(zygote, request);
            identity_out->process = request->process;
        } else {
            answer_fork(zygote, request, pid);
            close(request->out);
            close(request->err);
        }
        if (pid == 0)
            return true;
        free(request);
    }
    return false;
}

static void reap(zygote_t *zygote)
{
    struct signalfd_siginfo info;
    pid_t pid;
    int status;

    while (read(zygote->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        continue;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        crti_msg_reaped_t reaped = {.pid = pid, .wait_status = status};

        crti_channel_send(zygote->channel, CRTI_MSG_REAPED, 0, &reaped);
    }
}

void crti_print_by_lines(void)
{
    static char memory[BUFSIZ];

    /* Given memory: without any, glibc goes on as before where the program has printed already. */
    fflush(stdout);
    setvbuf(stdout, memory, _IOLBF, sizeof(memory));
}

static void start(zygote_t *zygote, int fd, bool executes)
{
    crti_channel_handlers_t handlers = {
        .user = zygote, .on_message = on_message, .on_closed = on_closed};
    crti_msg_zygote_ready_t ready = {.executes = executes};
    char problem[320];
    sigset_t child;

    crti_descendants_keep();
    find_problem(problem, sizeof(problem));
    ready.problem = crti_str(problem);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, &zygote->old_mask);
    zygote->signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    zygote->null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* Here, so that thousands of workers need not. */
    crti_print_by_lines();
    crti_net_prepare();
    if (zygote->signals < 0 || zygote->null < 0 ||
        crti_channel_new(&fd, &handlers, 0, &zygote->channel) != CRT_OK ||
        crti_channel_send(zygote->channel, CRTI_MSG_ZYGOTE_READY, 0, &ready) != CRT_OK) {
        fprintf(stderr, "crt: zygote: %s\n",
                zygote->signals < 0 || zygote->null < 0 ? strerror(errno)
                                                        : crt_error_detail());
        exit(1);
    }
}

void crti_zygote_serve(int fd, crti_worker_identity_t *identity_out)
{
    zygote_t zygote = {.pid = getpid()};

    crti_list_init(&zygote.forks);
    start(&zygote, fd, identity_out->is_executed);
    while (!zygote.closed) {
        struct pollfd fds[2] = {{.fd = crti_channel_fd(zygote.channel)},
                                {.fd = zygote.signals, .events = POLLIN}};

        /* EPOLLIN and EPOLLOUT are POLLIN and POLLOUT. */
        fds[0].events = (short)crti_channel_events(zygote.channel);
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (fds[0].revents)
            crti_channel_process(zygote.channel, (uint32_t)fds[0].revents);
        if (fork_pending(&zygote, identity_out)) {
            leave_zygote(&zygote);
            return;
        }
        if (fds[1].revents)
            reap(&zygote);
    }
    free_forks(&zygote);
    crti_descendants_end(0, NULL); /* also what workers left in other sessions */
    crti_channel_free(zygote.channel);
    close(zygote.signals);
    close(zygote.null);
    fflush(NULL);
    _exit(0); /* what the program registered with atexit is the business of its driver */
}
