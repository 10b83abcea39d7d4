/* SPDX-License-Identifier: Apache-2.0 */
/* Submitted jobs: drivers that the head starts here, supervised.
 *
 * Where it sits
 *     head_dispatch.c (JOB_START, JOB_STOP) -> [ node/jobs/submission.c ] -> process -> driver.log,
 *     JOB_EXITED
 * Rules
 *     A job is named by its job id: a submission id may be used again. The driver has a supervisor
 *     (host/supervisor.h), a process group, a directory and a log file of its own below the head's
 *     state directory. Stopping is SIGTERM to the group, then SIGKILL to all that it started after
 *     job_stop_timeout. When the driver has ended the rest is killed, in whatever session. Its end
 *     is told until the head answers. Nobody waits for its program to be executed: that may be on a
 *     file server that does not answer.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/node/host/exec.h"
#include "runtime/node/host/supervisor.h"
#include "runtime/node/jobs/submission_int.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/logs/logs.h"

#define ENDED_MAX     100 /* ends that are remembered */
#define TELL_AGAIN_NS (1 * CRTI_S)
#define LAST_BYTES    20000
#define LAST_LINES    10

static void set_state(crti_submission_t *s, crti_submission_state_t state)
{
    assert(state > s->state);
    s->state = state;
}

static bool good_name(const char *name)
{
    size_t length = strlen(name);

    return length > 0 && length < CRTI_SUBMISSION_NAME && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                        "._-") == length;
}

static crti_submission_t *find(crti_node_t *node, crti_id_t job)
{
    return crti_map_get(&node->submissions->by_job, &job);
}

static void free_submission(crti_submission_t *s)
{
    if (s->is_fetching)
        crti_submission_fetch_cancel(s);
    for (int i = 0; i < 2; i++)
        if (s->uploads[i] >= 0)
            close(s->uploads[i]);
    crti_package_close(s->package);
    crti_package_close(s->python);
    crti_package_close(s->image);
    free(s->entrypoint);
    crti_buffer_fini(&s->argv);
    crti_buffer_fini(&s->environment);
    free(s->program);
    free(s);
}

crt_status_t crti_submission_log(crti_node_t *node, const char *name, char *path,
                                 size_t size, bool *ended_out)
{
    char dir[CRTI_NODE_PATH + CRTI_ID_HEX + 8];
    const crti_submission_t *s;
    crt_status_t status;
    crti_id_t job;

    if (!crti_id_parse(name, &job))
        return crt_raise(CRT_ERR_NOT_FOUND, "\"%s\" is not the id of a job", name);
    s = find(node, job);
    status = crti_submission_directory(node, job, dir, sizeof(dir));
    if (status != CRT_OK)
        return status;
    snprintf(path, size, "%s/driver.log", dir);
    *ended_out = s == NULL || s->state == CRTI_SUBMISSION_ENDED;
    if (s == NULL && access(path, F_OK) < 0)
        return crt_raise(CRT_ERR_NOT_FOUND, "job %s has no log", name);
    return CRT_OK;
}

/* Only so many ends that the head knows are remembered: the oldest goes. */
static void trim(crti_node_t *node)
{
    crti_submission_t *oldest = NULL;
    size_t ended = 0;

    CRTI_MAP_FOREACH (crti_submission_t, s, &node->submissions->by_job) {
        if (s->state != CRTI_SUBMISSION_ENDED || !s->heard)
            continue;
        ended++;
        if (oldest == NULL || s->ended_order < oldest->ended_order)
            oldest = s;
    }
    if (ended <= ENDED_MAX)
        return;
    crti_map_remove(&node->submissions->by_job, &oldest->job);
    free_submission(oldest);
}

bool crti_submission_has(crti_node_t *node, pid_t pid)
{
    CRTI_MAP_FOREACH (crti_submission_t, s, &node->submissions->by_job)
        if (s->state != CRTI_SUBMISSION_ENDED && s->pid && s->pid == pid)
            return true;
    return false;
}

size_t crti_submission_count(crti_node_t *node)
{
    size_t count = 0;

    CRTI_MAP_FOREACH (crti_submission_t, s, &node->submissions->by_job)
        count += s->state != CRTI_SUBMISSION_ENDED;
    return count;
}

/* ---------------------------------------------------------------- the end */

/* The last lines of the log, as they are. A line that is cut begins with "...". */
static void read_last_lines(const char *path, char *text)
{
    CRTI_AUTO(crti_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    off_t from = size > LAST_BYTES ? size - LAST_BYTES : 0;
    ssize_t got = fd >= 0 ? pread(fd, text, LAST_BYTES, from) : 0, begin = 0;
    int lines = 0;

    text[got > 0 ? got : 0] = '\0';
    for (ssize_t i = got - 2; i >= 0 && lines < LAST_LINES; i--)
        if (text[i] == '\n' && ++lines == LAST_LINES)
            begin = i + 1;
    if (from > 0 && lines < LAST_LINES) {
        begin = sizeof("...") - 1;
        while (begin < got && ((unsigned char)text[begin] & 0xc0) == 0x80)
            begin++; /* the rest of a character */
        begin -= sizeof("...") - 1;
        memcpy(text + begin, "...", sizeof("...") - 1);
    }
    if (begin > 0)
        memmove(text, text + begin, (size_t)(got - begin + 1));
}

static void tell_exited(crti_submission_t *s);

static void on_tell_again(void *user)
{
    tell_exited(user);
}

static void tell_later(crti_submission_t *s)
{
    s->stop_timer = (crti_timer_t){.on_expired = on_tell_again, .user = s};
    if (crti_loop_start(s->node->loop, &s->stop_timer,
                        crti_node_now(s->node) + TELL_AGAIN_NS) != CRT_OK)
        crti_log(CRTI_LOG_ERROR, "submission", "the end of job %s can't be told: %s",
                 s->name, crt_error_detail());
}

/* The head has it on disk, or could not write it. */
static void on_exit_heard(crti_node_t *node, crti_id_t id, uint64_t number,
                          const crti_message_t *answer)
{
    if (answer == NULL)
        return;
    CRTI_MAP_FOREACH (crti_submission_t, s, &node->submissions->by_job) {
        char text[256];

        if (s->state != CRTI_SUBMISSION_ENDED || s->ended_order != number)
            continue;
        s->heard = answer->kind != CRTI_MSG_ERROR;
        if (s->heard)
            break;
        crti_log(CRTI_LOG_WARN, "submission",
                 "the end of job %s is told again, the head says: %s", s->name,
                 crti_text(answer->error.text, text, sizeof(text)));
        tell_later(s);
        break;
    }
    trim(node);
}

/* Asked, not merely told: it is said again until the head has it on disk. */
static void tell_exited(crti_submission_t *s)
{
    char *text = malloc(LAST_BYTES + 1);
    crti_msg_job_exited_t exited = {.job = s->job, .wait_status = s->wait_status};

    if (text) {
        read_last_lines(s->log.path, text);
        exited.text = crti_str(text);
    }
    if (crti_head_ask(s->node, CRTI_MSG_JOB_EXITED, &exited, on_exit_heard, s->job,
                      s->ended_order) != CRT_OK)
        tell_later(s);
    free(text);
}

static void close_report(crti_submission_t *s)
{
    crti_loop_cancel(s->node->loop, &s->start_timer);
    if (s->report < 0)
        return;
    crti_loop_remove(s->node->loop, &s->report_watch);
    close(s->report);
    s->report = -1;
}

static void close_process(crti_submission_t *s)
{
    for (int i = 0; i < 2; i++)
        crti_output_close(&s->output[i]);
    crti_log_file_close(&s->log);
    close_report(s);
    crti_loop_cancel(s->node->loop, &s->stop_timer);
    if (s->pidfd >= 0) {
        crti_loop_remove(s->node->loop, &s->pidfd_watch);
        close(s->pidfd);
    }
    s->pidfd = -1;
    if (s->program_fd >= 0)
        close(crti_take_fd(&s->program_fd));
}

void crti_submission_head_lost(crti_node_t *node)
{
    CRTI_MAP_FOREACH (crti_submission_t, s, &node->submissions->by_job)
        s->start_request = 0;
}

/* What it held is for others. */
static void give_back(crti_submission_t *s)
{
    if (s->resources.count)
        crti_lease_table_give(s->node->lease_table, s->job, crti_node_now(s->node));
    s->resources.count = 0;
}

/* It runs nothing of the user's, and is forgotten; whoever reaps orphans reaps it, when its kernel
 * call returns. */
static void start_failed(crti_submission_t *s, crt_status_t status)
{
    crti_node_t *node = s->node;

    crti_supervisor_kill(s->pid);
    give_back(s);
    if (s->start_request)
        crti_head_send_error(node, s->start_request, status, crt_error_detail());
    crti_map_remove(&node->submissions->by_job, &s->job);
    close_process(s);
    free_submission(s);
    crti_logs_wake(node);
    crti_node_progress(node);
}

/* True when its program was executed, and nothing stands between it and its end. */
static bool settle_start(crti_submission_t *s)
{
    int report = s->report;
    crt_status_t status;

    if (report < 0)
        return true;
    crti_loop_remove(s->node->loop, &s->report_watch);
    s->report = -1;
    status = crti_exec_result(&report, s->program);
    if (status != CRT_OK) {
        start_failed(s, status);
        return false;
    }
    close_report(s);
    if (s->start_request)
        crti_head_send(s->node, CRTI_MSG_DONE, s->start_request, NULL);
    return true;
}

static void on_report(void *user, uint32_t events)
{
    settle_start(user);
}

static void on_start_late(void *user)
{
    crti_submission_t *s = user;

    start_failed(s, crt_raise(CRT_ERR_TIMED_OUT,
                              "%s could not be executed within %d s: its file server "
                              "does not answer?",
                              s->program, (int)(CRTI_LIMIT(job_start_timeout) / CRTI_S)));
}

static void on_gone(void *user, uint32_t events)
{
    crti_submission_t *s = user;
    crti_node_t *node = s->node;
    siginfo_t info = {0};

    if (!settle_start(s))
        return;
    if (waitid(P_PIDFD, (id_t)s->pidfd, &info, WEXITED | WNOHANG) == 0 && info.si_pid)
        s->wait_status =
            info.si_code == CLD_EXITED ? (info.si_status & 255) << 8 : info.si_status;
    close_process(s);
    give_back(s);
    crti_package_close(CRTI_TAKE(s->package));
    crti_package_close(CRTI_TAKE(s->python));
    crti_package_close(CRTI_TAKE(s->image));
    set_state(s, CRTI_SUBMISSION_ENDED);
    s->ended_order = ++node->submissions->ended_count;
    tell_exited(s);
    if (s->stop_request)
        crti_head_send(node, CRTI_MSG_DONE, s->stop_request, NULL);
    crti_logs_wake(node);
    crti_node_progress(node);
}

static void on_stop_late(void *user)
{
    const crti_submission_t *s = user;

    crti_supervisor_kill(s->pid);
}

static void terminate(crti_submission_t *s)
{
    set_state(s, CRTI_SUBMISSION_STOPPING);
    crti_supervisor_terminate(s->pid);
    crti_loop_start(s->node->loop, &s->stop_timer,
                    crti_node_now(s->node) + CRTI_LIMIT(job_stop_timeout));
}

static void stop(crti_submission_t *s)
{
    if (s->state == CRTI_SUBMISSION_PREPARING)
        start_failed(s, crt_raise(CRT_ERR_CANCELLED, "stopped before it began"));
    else if (s->state == CRTI_SUBMISSION_RUNNING)
        terminate(s);
}

void crti_submission_stop(crti_node_t *node, uint64_t request, crti_id_t job)
{
    crti_submission_t *s = find(node, job);

    if (s == NULL) {
        crti_head_send_error(node, request, CRT_ERR_NOT_FOUND,
                             "no job with that id runs on the node");
        return;
    }
    stop(s);
    crti_head_send(node, CRTI_MSG_DONE, request, NULL);
}

void crti_submission_stop_all(crti_node_t *node)
{
    bool is_changed;

    do { /* one that is PREPARING leaves the map */
        is_changed = false;
        CRTI_MAP_FOREACH (crti_submission_t, s, &node->submissions->by_job) {
            is_changed = s->state == CRTI_SUBMISSION_PREPARING;
            stop(s);
            if (is_changed)
                break;
        }
    } while (is_changed);
}

void crti_submission_kill_all(crti_node_t *node)
{
    CRTI_MAP_FOREACH (crti_submission_t, s, &node->submissions->by_job)
        if (s->state != CRTI_SUBMISSION_ENDED)
            crti_supervisor_kill(s->pid);
}

void crti_submission_free_all(crti_node_t *node)
{
    CRTI_MAP_FOREACH (crti_submission_t, s, &node->submissions->by_job) {
        if (s->state != CRTI_SUBMISSION_ENDED && s->pid) {
            crti_supervisor_kill(s->pid);
            if (s->report < 0) /* else it may hang in the kernel */
                waitpid(s->pid, NULL, 0);
        }
        close_process(s);
        free_submission(s);
    }
    crti_map_fini(&node->submissions->by_job);
}

static void on_lines(void *user, bool is_stderr, const char *lines, size_t size)
{
    const crti_submission_t *s = user;

    crti_logs_grown(s->node, s->log.path);
}

static crt_status_t watch(crti_submission_t *s)
{
    crt_status_t status;

    s->pidfd = (int)syscall(SYS_pidfd_open, s->pid, 0);
    if (s->pidfd < 0)
        return crt_raise(CRT_ERR_IO, "pidfd of pid %d: %s", (int)s->pid, strerror(errno));
    s->pidfd_watch = (crti_watch_t){.on_ready = on_gone, .user = s};
    s->stop_timer = (crti_timer_t){.on_expired = on_stop_late, .user = s};
    s->report_watch = (crti_watch_t){.on_ready = on_report, .user = s};
    s->start_timer = (crti_timer_t){.on_expired = on_start_late, .user = s};
    status = crti_loop_add(s->node->loop, &s->pidfd_watch, s->pidfd, EPOLLIN);
    if (status == CRT_OK)
        status = crti_loop_add(s->node->loop, &s->report_watch, s->report, EPOLLIN);
    if (status == CRT_OK)
        status = crti_loop_start(s->node->loop, &s->start_timer,
                                 crti_node_now(s->node) + CRTI_LIMIT(job_start_timeout));
    for (int i = 0; i < 2 && status == CRT_OK; i++)
        status = crti_output_start(&s->output[i], s->node->loop);
    return status;
}

/* ---------------------------------------------------------------- the start */

static void write_first_line(crti_submission_t *s)
{
    char line[700];

    snprintf(line, sizeof(line), "Running entrypoint for job %s: %.400s\n", s->name,
             s->entrypoint);
    crti_log_file_write(&s->log, line, strlen(line));
}

/* Its folder is there, if it has one. */
static crt_status_t begin(crti_submission_t *s)
{
    CRTI_AUTO(crti_arguments_fini)
    crti_arguments_t argv = {.most = CRTI_SUBMISSION_STRINGS};
    int fds[2] = {-1, -1};
    crt_status_t status;

    crti_arguments_add_list(&argv, crti_span(s->argv.data, s->argv.size));
    status = argv.status;
    if (status == CRT_OK && argv.count == 0)
        return crt_raise(CRT_ERR_PROTOCOL, "a job without a program");
    if (status == CRT_OK && (s->program = strdup(argv.list[0])) == NULL)
        status = crt_raise(CRT_ERR_NO_MEMORY, "job");
    for (int i = 0; i < 2 && status == CRT_OK; i++)
        status = crti_output_open(&s->output[i], i == 1, &s->log, on_lines, s, &fds[i]);
    if (status == CRT_OK)
        status = crti_submission_execute(s, &argv, fds);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (status != CRT_OK)
        return status;
    write_first_line(s);
    set_state(s, CRTI_SUBMISSION_RUNNING);
    return watch(s);
}

static void on_package(void *user, crt_status_t status, const char *text)
{
    crti_submission_t *s = user;

    if (status == CRT_OK)
        status = begin(s);
    if (status != CRT_OK)
        start_failed(s, status);
}

static crt_status_t make_package(crti_submission_t *s, crti_package_spec_t *spec,
                                 crti_package_t **package_out)
{
    CRTI_AUTO(crti_arguments_fini)
    crti_arguments_t environment = {.most = CRTI_SUBMISSION_STRINGS};
    char dir[CRTI_NODE_PATH + CRTI_ID_HEX + 8];
    crt_status_t status = crti_submission_places(s, dir, sizeof(dir));

    if (status != CRT_OK)
        return status;
    if (package_out == &s->image)
        crti_image_environment(
            s->node, crti_span(s->environment.data, s->environment.size), &environment);
    else
        crti_submission_environment(s, &environment);
    spec->environment = environment.list;
    spec->log_path = s->log.path;
    spec->user = s;
    return environment.status == CRT_OK ? crti_package_make(s->node, spec, package_out)
                                        : environment.status;
}

/* Makes its folder, or takes one that is on this host already. */
static crt_status_t prepare_folder(crti_submission_t *s)
{
    crti_folder_names_t names;
    crti_package_spec_t spec;
    crt_status_t status = crti_folder_wanted(
        crti_span(s->environment.data, s->environment.size), &names, &spec);

    if (status != CRT_OK)
        return status;
    if (spec.key)
        s->package = crti_package_find(s->node, &spec);
    if (!spec.key || s->package)
        return begin(s);
    spec.on_ready = on_package;
    return make_package(s, &spec, &s->package);
}

static void on_python(void *user, crt_status_t status, const char *text)
{
    crti_submission_t *s = user;

    if (status == CRT_OK)
        status = prepare_folder(s);
    if (status != CRT_OK)
        start_failed(s, status);
}

/* Makes its Python environment, or takes one that is on this host already; then its folder, whose
 * setup command may need that. */
static crt_status_t prepare_python(crti_submission_t *s)
{
    char key[CRTI_PACKAGE_KEY];
    crti_package_spec_t spec;

    if (!crti_python_wanted(crti_span(s->environment.data, s->environment.size), &spec,
                            key))
        return prepare_folder(s);
    s->python = crti_package_find(s->node, &spec);
    if (s->python)
        return prepare_folder(s);
    spec.on_ready = on_python;
    return make_package(s, &spec, &s->python);
}

static void on_image(void *user, crt_status_t status, const char *text)
{
    crti_submission_t *s = user;

    if (status == CRT_OK)
        status = prepare_python(s);
    if (status != CRT_OK)
        start_failed(s, status);
}

/* Its image, or what it needs beside its program on a plain host. */
static crt_status_t prepare(crti_submission_t *s)
{
    char key[CRTI_PACKAGE_KEY];
    crti_package_spec_t spec;

    if (!crti_image_wanted(crti_span(s->environment.data, s->environment.size), &spec,
                           key))
        return prepare_python(s);
    s->image = crti_package_find(s->node, &spec);
    if (s->image)
        return prepare_python(s);
    spec.on_ready = on_image;
    return make_package(s, &spec, &s->image);
}

static crt_status_t keep(crti_submission_t *s, const crti_msg_job_start_t *start)
{
    crt_status_t status =
        crti_buffer_append(&s->argv, start->argv.data, start->argv.size);

    if (status == CRT_OK)
        status = crti_buffer_append(&s->environment, start->environment.data,
                                    start->environment.size);
    s->entrypoint = crti_str_dup(start->entrypoint);
    if (s->entrypoint == NULL && status == CRT_OK)
        status = crt_raise(CRT_ERR_NO_MEMORY, "job");
    crti_text(start->sha, s->sha, sizeof(s->sha));
    if (status == CRT_OK && start->sha.size >= sizeof(s->sha))
        status = crt_raise(CRT_ERR_PROTOCOL, "the program's SHA-256 is not one");
    return status == CRT_OK ? crti_map_put(&s->node->submissions->by_job, &s->job, s)
                            : status;
}

static crt_status_t new_submission(crti_node_t *node, const crti_msg_job_start_t *start,
                                   crti_submission_t **s_out)
{
    char name[CRTI_SUBMISSION_NAME + 1];
    crti_submission_t *s;
    crt_status_t status;

    crti_text(start->submission, name, sizeof(name));
    if (!good_name(name))
        return crt_raise(CRT_ERR_INVALID, "\"%s\" is no submission id", name);
    s = calloc(1, sizeof(*s));
    if (s == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "job");
    s->node = node;
    s->job = start->job;
    s->source = start->source;
    s->uploads[0] = s->uploads[1] = -1;
    s->pidfd = s->program_fd = s->report = -1;
    s->output[0].fd = s->output[1].fd = -1;
    memcpy(s->name, name, sizeof(s->name));
    crti_log_file_init(&s->log, CRTI_LIMIT(log_limit));
    status = keep(s, start);
    if (status != CRT_OK) {
        free_submission(s);
        return status;
    }
    *s_out = s;
    return CRT_OK;
}

static crt_status_t hold(crti_submission_t *s, const crti_resources_t *resources)
{
    crt_status_t status =
        resources->count
            ? crti_lease_table_take(s->node->lease_table, s->job, s->job, resources)
            : CRT_OK;

    if (status == CRT_OK)
        s->resources = *resources;
    return status;
}

static void on_fetched(crti_submission_t *s, crt_status_t status)
{
    if (status == CRT_OK)
        status = prepare(s);
    if (status != CRT_OK)
        start_failed(s, status);
}

void crti_submission_start(crti_node_t *node, uint64_t request,
                           const crti_msg_job_start_t *start)
{
    crti_submission_t *s = find(node, start->job);
    crt_status_t status;

    if (s) {
        s->start_request = request; /* of the link that is the newest */
        if (s->state != CRTI_SUBMISSION_PREPARING && s->report < 0)
            crti_head_send(node, CRTI_MSG_DONE, request, NULL);
        return;
    }
    status = new_submission(node, start, &s);
    if (status != CRT_OK) {
        crti_head_send_error(node, request, status, crt_error_detail());
        return;
    }
    s->start_request = request;
    status = hold(s, &start->resources);
    if (status != CRT_OK)
        start_failed(s, status);
    else
        crti_submission_fetch(s, on_fetched);
}

void crti_submission_init(crti_node_t *node)
{
    crti_map_init(&node->submissions->by_job, sizeof(crti_id_t));
}
