/* SPDX-License-Identifier: Apache-2.0 */
/* Zygotes: the program of a job, loaded once, that forks its workers.
 *
 * Where it sits
 *     job.c -> [ node/jobs/zygote.c ] -> exec, zygote link (net/channel.c) -> core's zygote
 * Failure
 *     A program that can't be loaded (a missing shared library, another processor), that ends
 *     before it says READY, or that is silent for worker_start_timeout fails all who wait for a
 *     worker, with its last words. A zygote that dies takes its workers along (their parent-death
 *     signal); the next request starts another. One that serves and answers a FORK no more is left
 *     alone, for their sake, until its job has ended: who waits for that FORK is given up
 *     (worker_table.h).
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runtime/base/clock.h"
#include "runtime/base/environment.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/node/host/exec.h"
#include "runtime/node/host/log_quota.h"
#include "runtime/node/jobs/job_int.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/process/process.h"

#define OMP_THREADS "OMP_NUM_THREADS"

/* ---------------------------------------------------------------- argv and environment */

static bool is_of(crti_span_t entry, const char *name)
{
    return entry.size >= strlen(name) && memcmp(entry.data, name, strlen(name)) == 0;
}

/* Variables that this node sets itself. */
static bool is_ours(crti_span_t entry)
{
    static const char *const names[] = {
        "CRT_ZYGOTE_FD=", "CRT_NODE_SOCKET=", "CRT_WORKER=",
        "CRT_NODE_DIR=",  "CRT_HEAD_DIR=",    (CRTI_NODE_SETS_OMP "=")};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (is_of(entry, names[i]))
            return true;
    return false;
}

static void unpack_argv(const crti_job_t *job, crti_arguments_t *out)
{
    crti_span_t list = crti_span(job->argv.data, job->argv.size), entry;

    while (crti_list_unpack(&list, &entry) == CRT_OK)
        crti_arguments_add(out, entry);
}

/* The worker's environment has a variable of that name. */
static bool is_replaced(crti_span_t entry, const crti_environment_t *own)
{
    const char *text = NULL;

    while ((text = crti_environment_next(own, text)))
        if (entry.size > strcspn(text, "=") &&
            memcmp(entry.data, text, strcspn(text, "=") + 1) == 0)
            return true;
    return false;
}

static void add_own(const crti_environment_t *own, const char *gpus, bool *has_omp,
                    crti_arguments_t *out)
{
    const char *text = NULL;

    while ((text = crti_environment_next(own, text))) {
        *has_omp |= is_of(crti_str(text), OMP_THREADS "=");
        if (!is_ours(crti_str(text)) &&
            !(*gpus && is_of(crti_str(text), CRTI_VISIBLE_GPUS "=")))
            crti_arguments_add(out, crti_str(text));
    }
}

/* A worker without GPUs sees what its driver sees. `own`: beside what the job has. */
static void make_environment(const crti_job_t *job, const char *extra, const char *gpus,
                             const crti_environment_t *own, crti_arguments_t *out)
{
    crti_span_t list = crti_span(job->environment.data, job->environment.size), entry;
    char visible[sizeof(CRTI_VISIBLE_GPUS) + 1 + CRTI_GPU_TEXT];
    bool has_omp = false;

    while (crti_list_unpack(&list, &entry) == CRT_OK) {
        if (is_ours(entry) || (*gpus && is_of(entry, CRTI_VISIBLE_GPUS "=")) ||
            is_replaced(entry, own))
            continue;
        has_omp |= is_of(entry, OMP_THREADS "=");
        crti_arguments_add(out, entry);
    }
    add_own(own, gpus, &has_omp, out);
    crti_arguments_add(out, crti_str(extra));
    if (is_of(crti_str(extra), "CRT_ZYGOTE_FD="))
        crti_arguments_add(out, crti_str("CRT_WORKER=zygote")); /* main may look */
    if (*gpus) {
        snprintf(visible, sizeof(visible), CRTI_VISIBLE_GPUS "=%s", gpus);
        crti_arguments_add(out, crti_str(visible));
    }
    if (!has_omp) { /* until the worker knows its CPUs; BLAS libraries obey it, too */
        crti_arguments_add(out, crti_str(OMP_THREADS "=1"));
        crti_arguments_add(out, crti_str(CRTI_NODE_SETS_OMP "=1"));
    }
    crti_python_move(job->python, crti_span(job->environment.data, job->environment.size),
                     out);
    crti_arguments_format(out, "CRT_NODE_SOCKET=%s/node.sock", job->node->run_dir);
    crti_arguments_format(out, "CRT_NODE_DIR=%s", job->node->run_dir);
}

static crt_status_t execute(crti_job_t *job, const char *variable, const char *gpus,
                            const crti_environment_t *own, const int fds[2], int keep_fd,
                            pid_t *pid_out, int *report_out)
{
    const char *directory = crti_environment_directory(own);
    CRTI_AUTO(crti_arguments_fini) crti_arguments_t argv = {0};
    CRTI_AUTO(crti_arguments_fini) crti_arguments_t environment = {0};
    CRTI_AUTO(crti_entered_fini) crti_entered_t entered = {0};
    crti_exec_t exec = {.exec_fd = job->exec_fd,
                        .path = job->program,
                        .is_silent = job->is_silent,
                        .directory = *directory          ? directory
                                     : job->directory[0] ? job->directory
                                                         : NULL,
                        .must_enter = *directory != '\0',
                        .stdout_fd = fds[0],
                        .stderr_fd = fds[1],
                        .keep_fd = keep_fd,
                        .is_worker = true};

    unpack_argv(job, &argv);
    make_environment(job, variable, gpus, own, &environment);
    if (argv.status != CRT_OK || environment.status != CRT_OK)
        return argv.status != CRT_OK ? argv.status : environment.status;
    exec.argv = argv.list;
    exec.environment = environment.list;
    if (job->image)
        CRT_TRY(crti_image_enter(job->node, job->image, &exec, &entered));
    return crti_exec_start(&exec, pid_out, report_out);
}

/* ---------------------------------------------------------------- the zygote's link */

static crti_process_t *forking_by(crti_job_t *job, uint64_t request)
{
    CRTI_LIST_FOREACH (item, &job->forking) {
        crti_process_t *p = CRTI_CONTAINER(item, crti_process_t, link);

        if (p->fork_request == request)
            return p;
    }
    return NULL;
}

/* Tells the driver once why its workers start slowly. */
static void warn(crti_job_t *job)
{
    char line[320];
    crti_msg_log_t log = {.job = job->id,
                          .driver_node = job->driver_node,
                          .prefix = crti_str("(crt)"),
                          .is_stderr = true};

    snprintf(line, sizeof(line),
             "warning: %s before crt_main: workers are executed, not forked, which is "
             "slower\n",
             job->warned);
    log.lines = crti_str(line);
    crti_job_tell_driver(job, &log);
}

static void on_ready(crti_job_t *job, const crti_msg_zygote_ready_t *ready)
{
    if (job->state != CRTI_JOB_STARTING)
        return;
    crti_loop_cancel(job->node->loop, &job->zygote.start_timer);
    if (ready->executes) {
        crti_job_set_state(job, CRTI_JOB_EXECUTING);
        crti_zygote_kill(job);
        crti_job_serve(job);
        return;
    }
    if (ready->problem.size == 0) {
        crti_job_set_state(job, CRTI_JOB_SERVING);
        crti_job_serve(job);
        return;
    }
    crti_text(ready->problem, job->warned, sizeof(job->warned));
    crti_log(CRTI_LOG_WARN, "zygote",
             "job %016llx: %s: the program is executed once per worker, which is slower "
             "than forking",
             (unsigned long long)job->id.high, job->warned);
    crti_job_set_state(job, CRTI_JOB_EXECUTING);
    warn(job);
    crti_zygote_kill(job);
    crti_job_serve(job);
}

static void on_reaped(crti_job_t *job, const crti_msg_reaped_t *reaped)
{
    crti_process_t *p = crti_process_of_pid(job->node, (pid_t)reaped->pid);

    if (p && p->job == job && p->worker && !p->is_child)
        crti_process_reaped(p, (int)reaped->wait_status);
}

static void on_forked(crti_job_t *job, uint64_t request, const crti_msg_forked_t *forked)
{
    crti_process_t *p = forking_by(job, request);

    if (p == NULL || !crti_id_equal(p->id, forked->process) || forked->pid <= 1 ||
        forked->pid > INT32_MAX) {
        crti_log(CRTI_LOG_WARN, "zygote", "FORKED of a worker that was not asked for");
        return;
    }
    crti_spawn_forked(p, (pid_t)forked->pid);
}

static void on_message(void *user, crti_channel_t *channel, const crti_message_t *message,
                       int *fds, int fd_count)
{
    crti_job_t *job = user;
    crti_process_t *p;

    switch (message->kind) {
    case CRTI_MSG_ZYGOTE_READY: on_ready(job, &message->zygote_ready); return;
    case CRTI_MSG_FORKED:
        on_forked(job, message->request, &message->forked);
        crti_job_serve(job);
        return;
    case CRTI_MSG_REAPED: on_reaped(job, &message->reaped); return;
    case CRTI_MSG_ERROR:
        p = forking_by(job, message->request);
        if (p)
            crti_spawn_failed(p, crti_channel_raise(&message->error), crt_error_detail());
        crti_job_serve(job);
        return;
    default:
        crti_log(CRTI_LOG_WARN, "zygote", "%s from a zygote",
                 crti_message_name(message->kind));
        crti_zygote_kill(job);
    }
}

static void on_closed(void *user, crti_channel_t *channel, crt_status_t status,
                      const char *detail)
{
    crti_zygote_kill(user); /* its pidfd tells the rest */
}

/* ---------------------------------------------------------------- life */

static const char *end_text(const siginfo_t *info, bool known, char *text, size_t size)
{
    if (known && info->si_code == CLD_EXITED)
        snprintf(text, size, "exited with status %d", info->si_status);
    else if (known)
        snprintf(text, size, "was killed by signal %d (%s)", info->si_status,
                 strsignal(info->si_status));
    else
        snprintf(text, size, "ended");
    return text;
}

/* Its workers hear of it by their parent-death signal; from now on this node reaps them. */
static void orphan_workers(crti_job_t *job)
{
    size_t cursor = 0;
    crti_process_t *p;

    while ((p = crti_process_next(job->node, &cursor)) != NULL) {
        if (p->job != job || !p->worker || !p->pid || p->is_child)
            continue;
        p->is_child = true;
        crti_process_zygote_gone(p);
    }
}

static void on_gone(void *user, uint32_t events)
{
    crti_job_t *job = user;
    crti_node_t *node = job->node;
    crti_zygote_t *z = &job->zygote;
    siginfo_t info = {0};
    bool known = waitid(P_PIDFD, (id_t)z->pidfd, &info, WEXITED | WNOHANG) == 0;
    bool was_needed = job->state == CRTI_JOB_STARTING || job->state == CRTI_JOB_SERVING;
    char how[80], last[600], text[1024];
    crt_status_t status;

    kill(-z->pid, SIGKILL); /* what the program started before main */
    for (int i = 0; i < 2; i++)
        crti_output_close(&z->output[i]);
    crti_log_file_last(&z->log, last, sizeof(last));
    status = crti_exec_result(&z->report, job->program);
    if (status != CRT_OK)
        snprintf(text, sizeof(text), "%s", crt_error_detail());
    else
        snprintf(text, sizeof(text), "the program %s %s%s%s%s", job->program,
                 end_text(&info, known, how, sizeof(how)),
                 job->state == CRTI_JOB_STARTING ? " before crt_main or crt_init" : "",
                 last[0] ? "; last output: " : "", last);
    crti_zygote_close(job);
    orphan_workers(job);
    if (was_needed)
        crti_job_fail(job, status != CRT_OK ? status : CRT_ERR_WORKER_DIED, text);
    else
        crti_job_release(job);
    crti_node_progress(node);
}

static void on_late(void *user)
{
    crti_job_t *job = user;
    struct pollfd report = {.fd = job->zygote.report, .events = POLLIN};
    bool is_executed = report.fd < 0 || poll(&report, 1, 0) == 1;
    char text[600];

    if (is_executed)
        snprintf(text, sizeof(text),
                 "the program did not reach crt_main or crt_init within %s",
                 CRTI_LIMIT_SAID(worker_start_timeout));
    else
        snprintf(text, sizeof(text),
                 "%s could not be executed in %s within %s: a file server does not "
                 "answer?",
                 job->program, job->directory, CRTI_LIMIT_SAID(worker_start_timeout));
    crti_zygote_kill(job);
    crti_job_fail(job, CRT_ERR_TIMED_OUT, text);
}

static crt_status_t watch_zygote(crti_job_t *job, int *fd)
{
    static const crti_channel_handlers_t handlers = {.on_message = on_message,
                                                     .on_closed = on_closed};
    crti_channel_handlers_t mine = handlers;
    crti_zygote_t *z = &job->zygote;
    crt_status_t status;

    mine.user = job;
    z->pidfd = (int)syscall(SYS_pidfd_open, z->pid, 0);
    if (z->pidfd < 0)
        return crt_raise(CRT_ERR_IO, "pidfd of pid %d: %s", (int)z->pid, strerror(errno));
    snprintf(z->log.path, sizeof(z->log.path), "%s/logs/zygote-%.8s-%d.log",
             job->node->own_state, crti_id_hex(job->id, (char[CRTI_ID_HEX]){0}),
             (int)z->pid);
    z->pidfd_watch = (crti_watch_t){.on_ready = on_gone, .user = job};
    z->start_timer = (crti_timer_t){.on_expired = on_late, .user = job};
    status = crti_loop_add(job->node->loop, &z->pidfd_watch, z->pidfd, EPOLLIN);
    if (status == CRT_OK)
        status = crti_channel_new(fd, &mine, 0, &z->channel);
    if (status == CRT_OK)
        status = crti_channel_attach(z->channel, job->node->loop);
    for (int i = 0; i < 2 && status == CRT_OK; i++)
        status = crti_output_start(&z->output[i], job->node->loop);
    if (status == CRT_OK)
        status =
            crti_loop_start(job->node->loop, &z->start_timer,
                            crti_node_now(job->node) + CRTI_LIMIT(worker_start_timeout));
    return status;
}

static crt_status_t open_pipes(crti_job_t *job, int fds[4])
{
    crti_zygote_t *z = &job->zygote;
    crt_status_t status = crti_channel_pair(fds);

    crti_log_file_init(&z->log, CRTI_LIMIT(log_limit));
    if (status == CRT_OK)
        status = crti_output_open(&z->output[0], false, &z->log, NULL, NULL, &fds[2]);
    if (status == CRT_OK)
        status = crti_output_open(&z->output[1], true, &z->log, NULL, NULL, &fds[3]);
    return status;
}

crt_status_t crti_zygote_start(crti_job_t *job)
{
    int fds[4] = {-1, -1, -1, -1}; /* link: ours, its; its stdout, stderr */
    char variable[40];
    crt_status_t status;

    if (job->zygote.pid)
        return crt_raise(CRT_ERR_BACKPRESSURE, "the job's last zygote is still ending");
    status = open_pipes(job, fds);
    snprintf(variable, sizeof(variable), "CRT_ZYGOTE_FD=%d", fds[1]);
    if (status == CRT_OK)
        status = execute(job, variable, "", NULL, fds + 2, fds[1], &job->zygote.pid,
                         &job->zygote.report);
    if (status == CRT_OK) {
        crti_job_set_state(job, CRTI_JOB_STARTING);
        status = watch_zygote(job, &fds[0]);
        if (status != CRT_OK) {
            kill(-job->zygote.pid, SIGKILL);
            waitpid(job->zygote.pid, NULL, 0);
        }
    }
    for (int i = 0; i < 4; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (status != CRT_OK)
        crti_zygote_close(job);
    return status;
}

/* ---------------------------------------------------------------- workers */

crt_status_t crti_zygote_fork(crti_job_t *job, crti_process_t *process, const int fds[2])
{
    crti_msg_fork_t fork_it = {.process = process->id, .cpus = process->worker->cpus};
    crt_status_t status;

    if (job->zygote.channel == NULL)
        return crt_raise(CRT_ERR_WORKER_DIED, "the job's zygote has ended");
    process->fork_request = crti_channel_next_request(job->zygote.channel);
    status = crti_channel_send_fds(job->zygote.channel, CRTI_MSG_FORK,
                                   process->fork_request, &fork_it, fds, 2);
    if (status == CRT_OK)
        crti_list_append(&job->forking, &process->link);
    return status;
}

crt_status_t crti_zygote_execute(crti_job_t *job, const crti_process_t *process,
                                 const int fds[2], pid_t *pid_out)
{
    char variable[64] = "CRT_WORKER=", hex[CRTI_ID_HEX], gpus[CRTI_GPU_TEXT];

    strcat(variable, crti_id_hex(process->id, hex));
    crti_gpus_format(&job->node->options.gpus, process->worker->gpus, gpus);
    return execute(job, variable, gpus, process->worker->environment, fds, -1, pid_out,
                   NULL);
}
