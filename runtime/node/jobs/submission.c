/* SPDX-License-Identifier: Apache-2.0 */
/* Submitted jobs: drivers that the head starts here, supervised.
 *
 * Where it sits
 *     head_dispatch.c (JOB_START, JOB_STOP) -> [ node/jobs/submission.c ] -> process -> driver.log, JOB_EXITED
 * Rules
 *     A job is named by its job id: a submission id may be used again. The driver has a process group, a
 *     directory and a log file of its own below the head's state directory. Stopping is SIGTERM to the group, then SIGKILL after STOP_NS. When the
 *     driver has ended the rest of its group is killed. Its end is told until the head answers.
 *     Nobody waits for its program to be executed: that may be on a file server that does not answer.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runtime/base/programs.h"
#include "runtime/node/host/exec.h"
#include "runtime/node/jobs/job_int.h"

#define NAME_MAX_     128
#define STRINGS       2048 /* most arguments, and variables */
#define STOP_NS       (3 * CRTI_S)
#define START_NS      (10 * CRTI_S) /* until its program is executed */
#define ENDED_MAX     100           /* ends that are remembered */
#define TELL_AGAIN_NS (1 * CRTI_S)
#define LAST_BYTES    20000
#define LAST_LINES    10

/*              JOB_STOP             process gone
 *   RUNNING -------------> STOPPING -------------> ENDED
 *      |                                             ^
 *      +---------------- process gone ---------------+
 */
typedef enum submission_state { RUNNING, STOPPING, ENDED } submission_state_t;

typedef struct submission {
    crti_node_t *node;
    char name[NAME_MAX_];
    submission_state_t state;
    crti_id_t job;
    pid_t pid;
    int pidfd;
    int program_fd; /* keeps the program in the cache; -1: it is not from there */
    crti_watch_t pidfd_watch;
    crti_output_t output[2];
    crti_log_file_t log;
    crti_timer_t stop_timer; /* RUNNING, STOPPING: SIGKILL; ENDED: told again */
    int report;              /* of its start (crti_exec_result); -1: it was answered */
    uint64_t start_request;  /* 0: of a link that is lost */
    char *program;           /* what the user calls it */
    crti_watch_t report_watch;
    crti_timer_t start_timer;
    uint64_t stop_request;
    int wait_status;
    uint64_t ended_order;
    bool heard; /* the head has its end on disk */
} submission_t;

static void set_state(submission_t *s, submission_state_t state)
{
    assert(state > s->state);
    s->state = state;
}

static bool good_name(const char *name)
{
    size_t length = strlen(name);

    return length > 0 && length < NAME_MAX_ && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                        "._-") == length;
}

static submission_t *find(crti_node_t *node, crti_id_t job)
{
    return crti_map_get(&node->submissions.by_job, &job);
}

static void free_submission(submission_t *s)
{
    free(s->program);
    free(s);
}

/* The directory of a job, below the head's state directory. */
static crt_status_t directory_of(crti_node_t *node, crti_id_t job, char *path,
                                 size_t size)
{
    char file[CRTI_NODE_PATH + 16], state[CRTI_NODE_PATH], hex[CRTI_ID_HEX];
    CRTI_AUTO(free) char *text = NULL;
    crt_status_t status;

    if (node->options.head_dir[0] == '\0')
        return crt_raise(CRT_ERR_UNSUPPORTED, "jobs run on the node of the head's host");
    snprintf(file, sizeof(file), "%s/head.info", node->options.head_dir);
    status = crti_info_read(file, &text);
    if (status != CRT_OK)
        return status;
    crti_info_get(text, "state_dir", state, sizeof(state));
    if (state[0] == '\0')
        return crt_raise(CRT_ERR_CORRUPT, "%s names no state_dir", file);
    snprintf(path, size, "%s/jobs/%s", state, crti_id_hex(job, hex));
    return CRT_OK;
}

crt_status_t crti_submission_log(crti_node_t *node, const char *name, char *path,
                                 size_t size, bool *ended_out)
{
    char dir[CRTI_NODE_PATH + CRTI_ID_HEX + 8];
    const submission_t *s;
    crt_status_t status;
    crti_id_t job;

    if (!crti_id_parse(name, &job))
        return crt_raise(CRT_ERR_NOT_FOUND, "\"%s\" is not the id of a job", name);
    s = find(node, job);
    status = directory_of(node, job, dir, sizeof(dir));
    if (status != CRT_OK)
        return status;
    snprintf(path, size, "%s/driver.log", dir);
    *ended_out = s == NULL || s->state == ENDED;
    if (s == NULL && access(path, F_OK) < 0)
        return crt_raise(CRT_ERR_NOT_FOUND, "job %s has no log", name);
    return CRT_OK;
}

/* Only so many ends that the head knows are remembered: the oldest goes. */
static void trim(crti_node_t *node)
{
    submission_t *oldest = NULL;
    size_t ended = 0;

    CRTI_MAP_FOREACH (submission_t, s, &node->submissions.by_job) {
        if (s->state != ENDED || !s->heard)
            continue;
        ended++;
        if (oldest == NULL || s->ended_order < oldest->ended_order)
            oldest = s;
    }
    if (ended <= ENDED_MAX)
        return;
    crti_map_remove(&node->submissions.by_job, &oldest->job);
    free_submission(oldest);
}

bool crti_submission_has(crti_node_t *node, pid_t pid)
{
    CRTI_MAP_FOREACH (submission_t, s, &node->submissions.by_job)
        if (s->state != ENDED && s->pid == pid)
            return true;
    return false;
}

bool crti_submission_any(crti_node_t *node)
{
    CRTI_MAP_FOREACH (submission_t, s, &node->submissions.by_job)
        if (s->state != ENDED)
            return true;
    return false;
}

/* ---------------------------------------------------------------- the end */

/* The last lines of the log, as they are. */
static void read_last_lines(const char *path, char *text)
{
    CRTI_AUTO(crti_close) int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    off_t from = size > LAST_BYTES ? size - LAST_BYTES : 0;
    ssize_t got = fd >= 0 ? pread(fd, text, LAST_BYTES, from) : 0;
    int lines = 0;

    text[got > 0 ? got : 0] = '\0';
    for (ssize_t i = got - 2; i >= 0; i--)
        if (text[i] == '\n' && ++lines == LAST_LINES) {
            memmove(text, text + i + 1, (size_t)(got - i));
            break;
        }
}

static void tell_exited(submission_t *s);

static void on_tell_again(void *user)
{
    tell_exited(user);
}

static void tell_later(submission_t *s)
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
    CRTI_MAP_FOREACH (submission_t, s, &node->submissions.by_job) {
        char text[256];

        if (s->state != ENDED || s->ended_order != number)
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
static void tell_exited(submission_t *s)
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

static void close_report(submission_t *s)
{
    crti_loop_cancel(s->node->loop, &s->start_timer);
    if (s->report < 0)
        return;
    crti_loop_remove(s->node->loop, &s->report_watch);
    close(s->report);
    s->report = -1;
}

static void close_process(submission_t *s)
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
    CRTI_MAP_FOREACH (submission_t, s, &node->submissions.by_job)
        s->start_request = 0;
}

/* It runs nothing of the user's, and is forgotten; whoever reaps orphans reaps it, when its kernel call
 * returns. */
static void start_failed(submission_t *s, crt_status_t status)
{
    crti_node_t *node = s->node;

    kill(-s->pid, SIGKILL);
    if (s->start_request)
        crti_head_send_error(node, s->start_request, status, crt_error_detail());
    crti_map_remove(&node->submissions.by_job, &s->job);
    close_process(s);
    free_submission(s);
    crti_node_progress(node);
}

/* True when its program was executed, and nothing stands between it and its end. */
static bool settle_start(submission_t *s)
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
    submission_t *s = user;

    start_failed(s, crt_raise(CRT_ERR_TIMED_OUT,
                              "%s could not be executed within %d s: its file server "
                              "does not answer?",
                              s->program, (int)(START_NS / CRTI_S)));
}

static void on_gone(void *user, uint32_t events)
{
    submission_t *s = user;
    crti_node_t *node = s->node;
    siginfo_t info = {0};

    if (!settle_start(s))
        return;
    kill(-s->pid, SIGKILL); /* what it started and left behind */
    if (waitid(P_PIDFD, (id_t)s->pidfd, &info, WEXITED | WNOHANG) == 0 && info.si_pid)
        s->wait_status =
            info.si_code == CLD_EXITED ? (info.si_status & 255) << 8 : info.si_status;
    close_process(s);
    set_state(s, ENDED);
    s->ended_order = ++node->submissions.ended_count;
    tell_exited(s);
    if (s->stop_request)
        crti_head_send(node, CRTI_MSG_DONE, s->stop_request, NULL);
    crti_logs_wake(node);
    crti_node_progress(node);
}

static void on_stop_late(void *user)
{
    submission_t *s = user;

    kill(-s->pid, SIGKILL);
}

static void stop(submission_t *s)
{
    if (s->state != RUNNING)
        return;
    set_state(s, STOPPING);
    kill(-s->pid, SIGTERM);
    crti_loop_start(s->node->loop, &s->stop_timer, crti_node_now(s->node) + STOP_NS);
}

void crti_submission_stop(crti_node_t *node, uint64_t request, crti_id_t job)
{
    submission_t *s = find(node, job);

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
    CRTI_MAP_FOREACH (void, value, &node->submissions.by_job)
        stop(value);
}

void crti_submission_kill_all(crti_node_t *node)
{
    CRTI_MAP_FOREACH (submission_t, s, &node->submissions.by_job)
        if (s->state != ENDED)
            kill(-s->pid, SIGKILL);
}

void crti_submission_free_all(crti_node_t *node)
{
    CRTI_MAP_FOREACH (submission_t, s, &node->submissions.by_job) {
        if (s->state != ENDED) {
            kill(-s->pid, SIGKILL);
            if (s->report < 0) /* else it may hang in the kernel */
                waitpid(s->pid, NULL, 0);
        }
        close_process(s);
        free_submission(s);
    }
    crti_map_fini(&node->submissions.by_job);
}

static void on_lines(void *user, bool is_stderr, const char *lines, size_t size)
{
    const submission_t *s = user;

    crti_logs_grown(s->node, s->log.path);
}

static crt_status_t watch(submission_t *s)
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
                                 crti_node_now(s->node) + START_NS);
    for (int i = 0; i < 2 && status == CRT_OK; i++)
        status = crti_output_start(&s->output[i], s->node->loop);
    return status;
}

/* ---------------------------------------------------------------- what is executed */

static void add_list(crti_arguments_t *v, crti_span_t list)
{
    crti_span_t entry;

    while (v->status == CRT_OK && crti_list_unpack(&list, &entry) == CRT_OK)
        if (memchr(entry.data, 0, entry.size))
            v->status = crt_raise(CRT_ERR_PROTOCOL, "a zero byte in a job's arguments");
        else
            crti_arguments_add(v, entry);
}

static bool has_variable(const crti_arguments_t *v, const char *name, size_t length)
{
    for (size_t i = 0; i < v->count; i++)
        if (strncmp(v->list[i], name, length) == 0 && v->list[i][length] == '=')
            return true;
    return false;
}

/* Ours, then the job's, then what this daemon has and neither names. */
static void make_environment(const crti_node_t *node, const crti_msg_job_start_t *start,
                             crti_arguments_t *v)
{
    char hex[CRTI_ID_HEX];

    crti_arguments_format(v, "CRT_ADDRESS=%s", node->head_address);
    crti_arguments_format(v, "CRT_JOB=%s", crti_id_hex(start->job, hex));
    crti_arguments_format(v, "CRT_SUBMISSION=%.*s", (int)start->submission.size,
                          (const char *)start->submission.data);
    crti_arguments_format(v, "CRT_NODE_DIR=%s", node->run_dir);
    add_list(v, start->environment);
    for (char **e = environ; *e && v->status == CRT_OK; e++) {
        size_t length = strcspn(*e, "=");

        if (!has_variable(v, *e, length) && strncmp(*e, "CRT_HEAD_DIR=", 13) != 0)
            crti_arguments_add(v, crti_str(*e));
    }
}

static crt_status_t make_places(submission_t *s, char *cwd, size_t size)
{
    char dir[CRTI_NODE_PATH + CRTI_ID_HEX + 8];
    crt_status_t status = directory_of(s->node, s->job, dir, sizeof(dir));

    if (status != CRT_OK)
        return status;
    snprintf(cwd, size, "%s/cwd", dir);
    snprintf(s->log.path, sizeof(s->log.path), "%s/driver.log", dir);
    return crti_dir_make(cwd);
}

/* What is executed: the uploaded program, or, where none was (a shell command), a program of this
 * host by its whole path. */
static crt_status_t path_of(const crti_node_t *node, const char *sha, const char *program,
                            char *path, size_t size)
{
    int length;

    if (!*sha && program[0] != '/')
        return crt_raise(CRT_ERR_INVALID, "the program \"%s\" is not a whole path",
                         program);
    if (*sha && (strspn(sha, "0123456789abcdef") != 64 || sha[64]))
        return crt_raise(CRT_ERR_PROTOCOL, "the program's SHA-256 is not one");
    length = *sha ? snprintf(path, size, "%s/programs/%s", node->state_dir, sha)
                  : snprintf(path, size, "%s", program);
    if (length < 0 || (size_t)length >= size)
        return crt_raise(CRT_ERR_TOO_LARGE, "the path of the program is too long");
    return CRT_OK;
}

static crt_status_t hold_program(submission_t *s, const char *path)
{
    s->program_fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (s->program_fd < 0 || !crti_programs_hold(s->program_fd))
        return crt_raise(CRT_ERR_NOT_FOUND,
                         "%s: the uploaded program is gone (%s); submit the job again",
                         path, strerror(errno));
    return CRT_OK;
}

static crt_status_t execute(submission_t *s, const crti_msg_job_start_t *start,
                            const int fds[2])
{
    CRTI_AUTO(crti_arguments_fini) crti_arguments_t argv = {.most = STRINGS};
    CRTI_AUTO(crti_arguments_fini) crti_arguments_t environment = {.most = STRINGS};
    char path[2 * CRTI_NODE_PATH], sha[65], cwd[CRTI_NODE_PATH + CRTI_ID_HEX + 16];
    crti_exec_t exec = {.exec_fd = -1,
                        .path = path,
                        .directory = cwd,
                        .stdout_fd = fds[0],
                        .stderr_fd = fds[1],
                        .keep_fd = -1};
    char line[700];
    crt_status_t status = make_places(s, cwd, sizeof(cwd));

    if (status != CRT_OK)
        return status;
    add_list(&argv, start->argv);
    status = argv.status;
    if (status == CRT_OK && argv.count == 0)
        status = crt_raise(CRT_ERR_PROTOCOL, "a job without a program");
    if (status == CRT_OK)
        status = path_of(s->node, crti_text(start->sha, sha, sizeof(sha)), argv.list[0],
                         path, sizeof(path));
    if (status == CRT_OK && *sha)
        status = hold_program(s, path);
    if (status == CRT_OK) {
        make_environment(s->node, start, &environment);
        status = environment.status;
    }
    if (status != CRT_OK)
        return status;
    exec.argv = argv.list;
    exec.environment = environment.list;
    snprintf(line, sizeof(line), "Running entrypoint for job %s: %.*s\n", s->name,
             (int)(start->entrypoint.size > 400 ? 400 : start->entrypoint.size),
             start->entrypoint.size ? (const char *)start->entrypoint.data : "");
    crti_log_file_write(&s->log, line, strlen(line));
    /* By the name that the user knows, not by that of the cache. */
    s->program = strdup(argv.list[0]);
    if (s->program == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "job");
    return crti_exec_start(&exec, &s->pid, &s->report);
}

/* ---------------------------------------------------------------- the start */

static crt_status_t begin(submission_t *s, const crti_msg_job_start_t *start)
{
    int fds[2] = {-1, -1};
    crt_status_t status;

    status = crti_output_open(&s->output[0], false, &s->log, on_lines, s, &fds[0]);
    if (status == CRT_OK)
        status = crti_output_open(&s->output[1], true, &s->log, on_lines, s, &fds[1]);
    if (status == CRT_OK)
        status = execute(s, start, fds);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (status == CRT_OK)
        status = watch(s);
    if (status == CRT_OK)
        status = crti_map_put(&s->node->submissions.by_job, &s->job, s);
    if (status != CRT_OK && s->pid)
        kill(-s->pid, SIGKILL); /* whoever reaps orphans reaps it */
    if (status != CRT_OK)
        close_process(s);
    return status;
}

void crti_submission_start(crti_node_t *node, uint64_t request,
                           const crti_msg_job_start_t *start)
{
    char name[NAME_MAX_ + 1];
    submission_t *s = find(node, start->job);
    crt_status_t status = CRT_OK;

    crti_text(start->submission, name, sizeof(name));
    if (s == NULL && !good_name(name))
        status = crt_raise(CRT_ERR_INVALID, "\"%s\" is no submission id", name);
    if (s == NULL && status == CRT_OK) {
        s = calloc(1, sizeof(*s));
        if (s == NULL) {
            status = crt_raise(CRT_ERR_NO_MEMORY, "job");
        } else {
            s->node = node;
            s->job = start->job;
            s->pidfd = s->program_fd = s->report = -1;
            s->output[0].fd = s->output[1].fd = -1;
            memcpy(s->name, name, sizeof(s->name));
            crti_log_file_init(&s->log, node->options.log_limit);
            status = begin(s, start);
            if (status != CRT_OK)
                free_submission(s);
        }
    }
    if (status != CRT_OK) {
        crti_head_send_error(node, request, status, crt_error_detail());
    } else {
        s->start_request = request; /* of the link that is the newest */
        if (s->report < 0)
            crti_head_send(node, CRTI_MSG_DONE, request, NULL);
    }
}

void crti_submission_init(crti_node_t *node)
{
    crti_map_init(&node->submissions.by_job, sizeof(crti_id_t));
}
