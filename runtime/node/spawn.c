/* SPDX-License-Identifier: Apache-2.0 */
/* Spawn: from "a worker is wanted" to a running process, by the job's zygote or by executing the
 * program once per worker.
 *
 * Where it sits
 *     worker_table.c (SPAWN) -> lease.c -> [ node/spawn.c ] -> job.c (zygote) -> worker's ATTACH
 * Invariants
 *     Processes are forked by the loop's thread only: the parent-death signal follows the
 *     forking thread, which lives as long as the daemon. The child calls nothing but
 *     async-signal-safe functions before exec.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runtime/base/rundir.h"
#include "runtime/node/node.h"

#define FILES_PER_WORKER 4  /* link, pidfd, two pipes */
#define FILES_BESIDES    64 /* of the daemon itself */
#define OFFLOADS_FROM    8  /* this part of the files that it may open is not offloaded */

/* ---------------------------------------------------------------- process records */

crt_status_t crti_process_new(crti_node_t *node, crti_id_t id, unsigned role,
                              crti_process_t **process_out)
{
    crti_process_t *p = calloc(1, sizeof(*p));
    crt_status_t status;

    if (p == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "process");
    p->node = node;
    p->id = id;
    p->role = role;
    p->pidfd = p->board_fd = -1;
    p->output[0].fd = p->output[1].fd = -1;
    crti_log_file_init(&p->log, node->options.log_limit);
    crti_list_init(&p->link);
    crti_list_init(&p->in_fenced);
    status = crti_map_put(&node->processes, &id, p);
    if (status != CRT_OK) {
        free(p);
        return status;
    }
    *process_out = p;
    return CRT_OK;
}

void crti_process_free(crti_process_t *process)
{
    crti_node_t *node = process->node;

    crti_offload_take_out(&process->offloaded);
    node->offloaded_count -= process->is_offloaded;
    if (process->local) {
        process->local->process = NULL;
        crti_local_close(process->local);
    }
    for (int i = 0; i < 2; i++)
        crti_output_close(&process->output[i]);
    crti_log_quota_ended(&node->log_quota, &process->log);
    crti_loop_cancel(node->loop, &process->reap_timer);
    if (process->pidfd >= 0) {
        crti_loop_remove(node->loop, &process->pidfd_watch);
        close(process->pidfd);
    }
    crti_list_remove(&process->in_fenced);
    if (process->board)
        munmap(process->board, CRTI_BLACKBOARD_BYTES);
    if (process->board_fd >= 0)
        close(process->board_fd);
    crti_slot_give(process);
    crti_list_remove(&process->link);
    if (crti_map_get(&node->processes, &process->id) == process)
        crti_map_remove(&node->processes, &process->id);
    if (crti_map_get(&node->by_pid, &process->pid) == process)
        crti_map_remove(&node->by_pid, &process->pid);
    crti_job_process_gone(process);
    free(process);
}

bool crti_node_has_child(crti_node_t *node, pid_t pid)
{
    if (crti_map_get(&node->by_pid, &pid))
        return true;
    return crti_job_has_zygote(node, pid) || crti_submission_has(node, pid);
}

static void on_pidfd(void *user, uint32_t events)
{
    crti_process_t *process = user;

    crti_loop_remove(process->node->loop, &process->pidfd_watch);
    crti_death_noticed(process);
}

/* ---------------------------------------------------------------- the offload threads */

static void on_offloaded_bytes(void *user, unsigned which, const char *data, size_t size)
{
    crti_process_t *process = user;

    crti_output_take(&process->output[which], data, size);
}

static void on_offloaded_end(void *user, bool lost)
{
    crti_process_t *process = user;

    if (lost)
        crti_process_cut(process, "the node daemon has no file left to watch it by");
    else
        crti_death_noticed(process);
}

/* Those that come when files get scarce. */
static bool wants_offload(crti_node_t *node)
{
    size_t direct = node->processes.count - node->offloaded_count;
    struct rlimit files;
    crt_status_t status = CRT_OK;

    if (node->cannot_offload || getrlimit(RLIMIT_NOFILE, &files) != 0 ||
        direct * FILES_PER_WORKER < files.rlim_cur / OFFLOADS_FROM)
        return false;
    if (node->offload == NULL)
        status = crti_offload_new(node->loop, files.rlim_cur, &node->offload);
    return status == CRT_OK;
}

/* Files that the workers have open here, and those of the ones that are being forked. */
static size_t count_files(const crti_node_t *node)
{
    size_t offloaded = node->offloaded_count, direct = node->processes.count - offloaded;

    return direct * FILES_PER_WORKER + offloaded + FILES_BESIDES +
           (offloaded ? CRTI_JOB_FORKING_MAX * FILES_PER_WORKER : 0);
}

/* Those that are -1 stay here. Where nothing can be offloaded they all do. */
static void offload(crti_process_t *process, int fds[CRTI_OFFLOAD_FILES])
{
    crti_node_t *node = process->node;

    process->offloaded.on_bytes = on_offloaded_bytes;
    process->offloaded.on_end = on_offloaded_end;
    process->offloaded.user = process;
    if (!process->is_offloaded ||
        crti_offload_put(node->offload, &process->offloaded, fds) == CRT_OK)
        return;
    crti_log(CRTI_LOG_WARN, "spawn", "%s: the limit of open files is that of %d a worker",
             crt_error_detail(), FILES_PER_WORKER);
    process->is_offloaded = false;
    node->offloaded_count--;
    node->cannot_offload = true;
}

static crt_status_t start_outputs(crti_process_t *process)
{
    int fds[CRTI_OFFLOAD_FILES] = {process->output[0].fd, process->output[1].fd, -1};
    crt_status_t status = CRT_OK;

    offload(process, fds);
    for (int i = 0; i < CRTI_OFFLOAD_PIPES && status == CRT_OK; i++) {
        process->output[i].fd = fds[i];
        if (fds[i] >= 0)
            status = crti_output_start(&process->output[i], process->node->loop);
    }
    return status;
}

/* ---------------------------------------------------------------- the pidfd */

/* One that had the number before keeps its entry: what is told of it is still on its way. */
static void list_by_pid(crti_process_t *process)
{
    crti_map_t *by_pid = &process->node->by_pid;

    if (process->role == CRTI_ROLE_WORKER &&
        crti_map_get(by_pid, &process->pid) == NULL &&
        crti_map_put(by_pid, &process->pid, process) != CRT_OK)
        crti_log(CRTI_LOG_WARN, "spawn", "the end of pid %d will be told without how: %s",
                 (int)process->pid, crt_error_detail());
}

crt_status_t crti_process_watch(crti_process_t *process)
{
    int fds[CRTI_OFFLOAD_FILES] = {-1, -1, -1};

    list_by_pid(process);
    if (process->is_watched)
        return CRT_OK;
    process->pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    if (process->pidfd < 0)
        return crt_raise(errno == ESRCH ? CRT_ERR_WORKER_DIED : CRT_ERR_IO,
                         "pid %d can't be watched: %s", (int)process->pid,
                         strerror(errno));
    process->is_watched = true;
    fds[CRTI_OFFLOAD_PIPES] = process->pidfd;
    offload(process, fds);
    process->pidfd = fds[CRTI_OFFLOAD_PIPES];
    if (process->pidfd < 0)
        return CRT_OK;
    process->pidfd_watch = (crti_watch_t){.on_ready = on_pidfd, .user = process};
    return crti_loop_add(process->node->loop, &process->pidfd_watch, process->pidfd,
                         EPOLLIN);
}

/* ---------------------------------------------------------------- output of workers */

static const char *prefix_of(crti_process_t *p, char *text, size_t size)
{
    char name[96] = "";

    if (!crti_id_is_zero(p->actor))
        crti_actor_class(p->node, p->actor, name, sizeof(name));
    else if (p->worker)
        snprintf(name, sizeof(name), "%s", crti_lease_function(p->node, p->worker));
    snprintf(text, size, "(%s pid=%d, ip=%s)", name[0] ? name : "worker", (int)p->pid,
             p->node->ip);
    return text;
}

static void on_lines(void *user, bool is_stderr, const char *lines, size_t size)
{
    crti_process_t *p = user;
    crti_node_t *node = p->node;
    char prefix[192];
    crti_msg_log_t log = {.job = crti_job_id(p->job),
                          .driver_node = crti_job_driver_node(p->job),
                          .prefix = crti_str(prefix_of(p, prefix, sizeof(prefix))),
                          .lines = crti_span(lines, size),
                          .is_stderr = is_stderr};

    crti_logs_grown(node, p->log.path);
    if (!crti_job_logs(p->job))
        return;
    if (crti_id_equal(log.driver_node, node->id))
        crti_local_send(crti_process_get(node, crti_job_driver(p->job)), CRTI_MSG_LOG, 0,
                        &log);
    else
        crti_node_send(node, log.driver_node, CRTI_MSG_LOG, &log);
}

void crti_spawn_flush(crti_process_t *p, uint64_t request)
{
    crti_peer_ask_t ask = {.kind = CRTI_MSG_LOG_FLUSH, .id = p->id, .offset = request};
    crti_id_t driver_node = p->job ? crti_job_driver_node(p->job) : p->node->id;

    for (int i = 0; p->worker && i < 2; i++)
        crti_output_flush(&p->output[i]);
    if (crti_id_equal(driver_node, p->node->id) || !crti_job_logs(p->job) ||
        crti_node_ask(p->node, driver_node, CRTI_LANE_CONTROL, &ask,
                      &(crti_msg_log_flush_t){0}) != CRT_OK)
        crti_local_send(p, CRTI_MSG_DONE, request, NULL);
}

/* ---------------------------------------------------------------- from wish to process */

void crti_spawn_worker(crti_node_t *node, crti_worker_t *worker)
{
    crti_process_t *process;
    crti_job_t *job = crti_job_get(node, worker->job);
    crt_status_t status = job ? crti_host_check(count_files(node), crti_node_now(node),
                                                &node->host_fresh_ns)
                              : CRT_ERR_NO_MEMORY;

    if (status == CRT_OK)
        status = crti_process_new(node, worker->id, CRTI_ROLE_WORKER, &process);
    if (status != CRT_OK) {
        char text[512];

        snprintf(text, sizeof(text), "no worker can be made on node %.8s: %s", node->hex,
                 crt_error_detail());
        crti_worker_table_died(node->workers, worker, status, text);
        return;
    }
    worker->io = process;
    process->worker = worker;
    process->is_offloaded = wants_offload(node);
    node->offloaded_count += process->is_offloaded;
    crti_job_join(job, process);
    if (worker->is_actor)
        process->actor = worker->purpose;
    crti_job_want(job, process);
}

void crti_spawn_failed(crti_process_t *process, crt_status_t status, const char *text)
{
    crti_node_t *node = process->node;

    crti_list_remove(&process->link);
    if (process->worker)
        crti_worker_table_died(node->workers, process->worker, status, text);
    process->worker = NULL;
    crti_process_free(process);
    crti_lease_act(node);
    crti_node_check_stopped(node);
}

void crti_spawn_refused(crti_node_t *node, const crti_msg_attach_t *attach,
                        const char *text)
{
    crti_process_t *process = crti_process_get(node, attach->process);

    if (process == NULL || process->worker == NULL || process->local)
        return;
    snprintf(process->end_text, sizeof(process->end_text), "%s", text);
    crti_worker_table_end(node->workers, process->worker, true, crti_node_now(node));
    crti_lease_act(node);
}

static crt_status_t open_outputs(crti_process_t *p, int fds[2])
{
    for (int i = 0; i < 2; i++) {
        crt_status_t status =
            crti_output_open(&p->output[i], i == 1, &p->log, on_lines, p, &fds[i]);

        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

void crti_spawn_go(crti_process_t *process)
{
    crti_node_t *node = process->node;
    int fds[2] = {-1, -1};
    crt_status_t status;

    if (process->worker->state != CRTI_WORKER_WANTED) {
        crti_spawn_failed(process, CRT_ERR_CANCELLED, "it was ended before it began");
        return;
    }
    status = open_outputs(process, fds);
    if (status == CRT_OK) {
        crti_worker_table_forking(node->workers, process->worker, crti_node_now(node));
        status = crti_job_start_worker(process->job, process, fds);
    }
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (status != CRT_OK)
        crti_spawn_failed(process, status, crt_error_detail());
}

void crti_spawn_forked(crti_process_t *process, pid_t pid)
{
    crti_node_t *node = process->node;
    char hex[CRTI_ID_HEX];
    crt_status_t status;

    crti_list_remove(&process->link);
    process->fork_request = 0;
    process->pid = pid;
    snprintf(process->log.path, sizeof(process->log.path), "%s/logs/worker-%.8s-%d.log",
             node->own_state, crti_id_hex(process->id, hex), (int)pid);
    if (!crti_id_is_zero(process->actor))
        snprintf(process->log.link, sizeof(process->log.link), "%s/logs/actor-%s.log",
                 node->own_state, crti_id_hex(process->actor, hex));
    status = start_outputs(process);
    /* It may have attached before the zygote's answer was read. */
    if (status == CRT_OK)
        status = crti_process_watch(process);
    if (status == CRT_ERR_WORKER_DIED)
        crti_death_noticed(process); /* gone already: REAPED tells how */
    else if (status != CRT_OK)
        crti_process_cut(process, crt_error_detail());
    else if (process->worker->state == CRTI_WORKER_ENDING)
        crti_process_kill(process); /* it was told to end before it had a pid */
}

/* ---------------------------------------------------------------- exec */

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

/* From the first call here that looks at a path on, a file server that does not answer may keep this
 * process for as long as it likes. */
static void enter_and_execute(const crti_exec_t *exec, int report)
{
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
    int kept[] = {exec->keep_fd, exec->exec_fd, report};
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
    /* Links that the daemon closes meanwhile must have an end. */
    crti_close_others(kept, sizeof(kept) / sizeof(kept[0]));
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
