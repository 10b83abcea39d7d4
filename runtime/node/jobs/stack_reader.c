/* SPDX-License-Identifier: Apache-2.0 */
/* Stack reader: executes crt-stack for processes of this node and gathers what it prints.
 *
 * Where it sits
 *     dispatch/questions.c -> [ node/jobs/stack_reader.c ] -> crt-stack (node/stack_main.c) -> pipe
 * Ownership: who made one closes it. One that is closed before it has ended is killed; whoever
 * reaps orphans reaps it. Failure: one that does not end in time is killed. What it held then may
 * have been left stopped: all that it
 *     was asked about goes on (SIGCONT).
 * Threads: the loop's.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crt_config.h"
#include "runtime/base/clock.h"
#include "runtime/crt.h"
#include "runtime/crt_tools.h"
#include "runtime/node/host/exec.h"
#include "runtime/node/jobs/job_int.h"

#define READ_S     "6" /* after that no more processes are begun */
#define KILL_NS    (9 * CRTI_S)
#define TEXT_MAX   ((size_t)32 << 20)
#define PROGRAM    "crt-stack"
#define PID_DIGITS 12

struct crti_stack_reader {
    crti_node_t *node;
    crti_list_t link; /* in node->jobs->stack_readers */
    pid_t pid;        /* 0: it has ended */
    int pidfd, report, pipe;
    crti_watch_t pidfd_watch, pipe_watch;
    crti_timer_t timer;
    crti_buffer_t text;
    bool is_late;
    pid_t *pids;
    size_t count;
    crti_stacks_read_t *on_done;
    void *user;
};

bool crti_stack_reader_has(crti_node_t *node, pid_t pid)
{
    CRTI_LIST_FOREACH (item, &node->jobs->stack_readers) {
        if (CRTI_CONTAINER(item, crti_stack_reader_t, link)->pid == pid)
            return true;
    }
    return false;
}

static void let_go_on(const crti_stack_reader_t *r)
{
    for (size_t i = 0; i < r->count; i++)
        kill(r->pids[i], SIGCONT);
}

void crti_stack_reader_close(crti_stack_reader_t *r)
{
    if (r == NULL)
        return;
    crti_loop_cancel(r->node->loop, &r->timer);
    if (r->pid) {
        kill(-r->pid, SIGKILL);
        let_go_on(r);
    }
    crti_loop_remove(r->node->loop, &r->pidfd_watch);
    crti_loop_remove(r->node->loop, &r->pipe_watch);
    crti_close_auto(&r->pidfd);
    crti_close_auto(&r->report);
    crti_close_auto(&r->pipe);
    crti_buffer_fini(&r->text);
    crti_list_remove(&r->link);
    free(r->pids);
    free(r);
}

/* What the pipe holds; what is beyond TEXT_MAX is read and forgotten. */
static void read_pipe(crti_stack_reader_t *r)
{
    char part[16384];
    ssize_t got;

    while ((got = read(r->pipe, part, sizeof(part))) > 0)
        if (r->text.size + (size_t)got <= TEXT_MAX)
            (void)crti_buffer_append(&r->text, part, (size_t)got);
    if (got == 0)
        crti_loop_remove(r->node->loop, &r->pipe_watch);
}

static void on_pipe(void *user, uint32_t events)
{
    read_pipe(user);
}

static void on_gone(void *user, uint32_t events)
{
    crti_stack_reader_t *r = user;
    siginfo_t info = {0};
    crt_status_t status;

    waitid(P_PIDFD, (id_t)r->pidfd, &info, WEXITED | WNOHANG);
    r->pid = 0;
    crti_loop_cancel(r->node->loop, &r->timer);
    crti_loop_remove(r->node->loop, &r->pidfd_watch);
    read_pipe(r);
    status = crti_exec_result(&r->report, PROGRAM);
    r->report = -1;
    if (status == CRT_OK && r->is_late)
        status = crt_raise(CRT_ERR_TIMED_OUT, PROGRAM " took longer than %d s",
                           (int)(KILL_NS / CRTI_S));
    r->on_done(r->user, status, crti_span(r->text.data, r->text.size));
}

static void on_late(void *user)
{
    crti_stack_reader_t *r = user;

    r->is_late = true;
    kill(-r->pid, SIGKILL);
    let_go_on(r);
}

/* "crt-stack", the seconds, and the numbers; one block, freed as a whole. */
static char **arguments(const pid_t *pids, size_t count)
{
    char **argv = malloc((count + 3) * sizeof(*argv) + count * PID_DIGITS);
    char *digits = argv ? (char *)(argv + count + 3) : NULL;

    if (argv == NULL)
        return NULL;
    argv[0] = (char *)(uintptr_t)PROGRAM;
    argv[1] = (char *)(uintptr_t)READ_S;
    for (size_t i = 0; i < count; i++) {
        argv[2 + i] = digits + i * PID_DIGITS;
        snprintf(argv[2 + i], PID_DIGITS, "%d", (int)pids[i]);
    }
    argv[2 + count] = NULL;
    return argv;
}

static crt_status_t execute(crti_stack_reader_t *r, int write_fd)
{
    CRTI_AUTO(free) char **argv = arguments(r->pids, r->count);
    CRTI_AUTO(crti_close) int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    char program[CRTI_NODE_PATH];
    crti_exec_t exec = {.exec_fd = -1,
                        .path = program,
                        .argv = argv,
                        .environment = environ,
                        .stdout_fd = write_fd,
                        .stderr_fd = nothing,
                        .keep_fd = -1};
    crt_status_t status = crti_daemon_path(PROGRAM, program, sizeof(program));

    if (status == CRT_OK && (argv == NULL || nothing < 0))
        status = crt_raise(CRT_ERR_NO_MEMORY, PROGRAM);
    return status == CRT_OK ? crti_exec_start(&exec, &r->pid, &r->report) : status;
}

static crt_status_t watch(crti_stack_reader_t *r)
{
    crti_loop_t *loop = r->node->loop;
    crt_status_t status;

    r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    if (r->pidfd < 0)
        return crt_raise(CRT_ERR_IO, "pidfd of pid %d: %s", (int)r->pid, strerror(errno));
    status = crti_loop_add(loop, &r->pidfd_watch, r->pidfd, EPOLLIN);
    if (status == CRT_OK)
        status = crti_loop_add(loop, &r->pipe_watch, r->pipe, EPOLLIN);
    return status == CRT_OK
               ? crti_loop_start(loop, &r->timer, crti_node_now(r->node) + KILL_NS)
               : status;
}

static crt_status_t start(crti_stack_reader_t *r, const pid_t *pids, size_t count)
{
    CRTI_AUTO(crti_close) int write_fd = -1;
    int fds[2];
    crt_status_t status;

    r->pids = malloc((count + 1) * sizeof(*pids));
    if (r->pids == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, PROGRAM);
    memcpy(r->pids, pids, count * sizeof(*pids));
    r->count = count;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
    r->pipe = fds[0];
    write_fd = fds[1];
    if (fcntl(r->pipe, F_SETFL, O_NONBLOCK) < 0)
        return crt_raise(CRT_ERR_IO, "pipe: %s", strerror(errno));
    status = execute(r, write_fd);
    return status == CRT_OK ? watch(r) : status;
}

crt_status_t crti_stack_reader_new(crti_node_t *node, const pid_t *pids, size_t count,
                                   crti_stacks_read_t *on_done, void *user,
                                   crti_stack_reader_t **reader_out)
{
    crti_stack_reader_t *r;
    crt_status_t status;

    if (!CRT_HAVE_STACKS)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "this build can't read stacks: it was made without libdw "
                         "(Debian: libdw-dev)");
    r = calloc(1, sizeof(*r));
    if (r == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, PROGRAM);
    *r = (crti_stack_reader_t){.node = node,
                               .pidfd = -1,
                               .report = -1,
                               .pipe = -1,
                               .on_done = on_done,
                               .user = user};
    r->pidfd_watch = (crti_watch_t){.on_ready = on_gone, .user = r};
    r->pipe_watch = (crti_watch_t){.on_ready = on_pipe, .user = r};
    r->timer = (crti_timer_t){.on_expired = on_late, .user = r};
    crti_list_append(&node->jobs->stack_readers, &r->link);
    status = start(r, pids, count);
    if (status == CRT_OK)
        *reader_out = r;
    else
        crti_stack_reader_close(r);
    return status;
}
