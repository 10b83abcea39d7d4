/* SPDX-License-Identifier: Apache-2.0 */
/* Packages: what a job needs on this node beside its program. Its folder, unpacked from the zip
 * that lies in the content cache; its Python environment; its image.
 *
 * Where it sits
 *     submission.c (the driver), job_package.c (workers) -> [ node/jobs/package.c ] -> crt-unpack
 * Ownership: who opened one closes it. As long as it is open the folder stays on the disk.
 * Failure: what crt-unpack printed at last is the reason. One that is closed before it is ready is
 * killed;
 *     whoever reaps orphans reaps it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runtime/base/clock.h"
#include "runtime/base/job_variables.h"
#include "runtime/base/limit.h"
#include "runtime/base/programs.h"
#include "runtime/base/rundir.h"
#include "runtime/crt.h"
#include "runtime/crt_tools.h"
#include "runtime/node/host/exec.h"
#include "runtime/node/host/package_dir.h"
#include "runtime/node/jobs/job_int.h"
#include "runtime/node/logs/logs.h"

struct crti_package {
    crti_node_t *node;
    crti_list_t link; /* in node->jobs->packages */
    char packages[CRTI_NODE_PATH + 16], key[CRTI_PACKAGE_KEY];
    char directory[CRTI_NODE_PATH + 16 + CRTI_PACKAGE_KEY];
    int hold_fd; /* -1: not ready */
    int zip_fd;
    pid_t pid; /* 0: nothing makes it */
    int pidfd, report;
    uint64_t patience_ns; /* UINT64_MAX: it may take as long as it likes */
    bool is_late;
    crti_watch_t pidfd_watch;
    crti_timer_t timer;
    crti_output_t output[2];
    crti_log_file_t log;
    crti_package_ready_t *on_ready;
    void *user;
};

static void stop_watching(crti_package_t *p)
{
    for (int i = 0; i < 2; i++)
        crti_output_close(&p->output[i]);
    crti_loop_cancel(p->node->loop, &p->timer);
    if (p->pidfd >= 0) {
        crti_loop_remove(p->node->loop, &p->pidfd_watch);
        close(crti_take_fd(&p->pidfd));
    }
    crti_close_auto(&p->report);
    p->report = -1;
    p->pid = 0;
}

void crti_package_close(crti_package_t *p)
{
    if (p == NULL)
        return;
    if (p->pid)
        kill(-p->pid, SIGKILL);
    stop_watching(p);
    crti_log_file_close(&p->log);
    crti_close_auto(&p->hold_fd);
    crti_close_auto(&p->zip_fd);
    crti_list_remove(&p->link);
    free(p);
}

const char *crti_package_directory(const crti_package_t *p)
{
    return p->directory;
}

bool crti_package_has(crti_node_t *node, pid_t pid)
{
    CRTI_LIST_FOREACH (item, &node->jobs->packages) {
        if (CRTI_CONTAINER(item, crti_package_t, link)->pid == pid)
            return true;
    }
    return false;
}

/* ---------------------------------------------------------------- making it */

/* What is told as the reason has no lines about how far it was. */
static const char *without_progress(const char *text)
{
    const char *next;

    while (strncmp(text, "(crt) ", 6) == 0 && (next = strstr(text, " | ")) != NULL)
        text = next + 3;
    return text;
}

static crt_status_t result_of(crti_package_t *p, const siginfo_t *info)
{
    char last[600];
    bool is_made = info->si_code == CLD_EXITED && info->si_status == 0;

    if (is_made && crti_package_hold(p->packages, p->key, &p->hold_fd))
        return CRT_OK;
    if (p->is_late)
        return crt_raise(CRT_ERR_TIMED_OUT,
                         CRTI_JOB_SETUP_FAILED "it took longer than %llu s",
                         (unsigned long long)(p->patience_ns / CRTI_S));
    crti_log_file_last(&p->log, last, sizeof(last));
    return crt_raise(CRT_ERR_IO, CRTI_JOB_SETUP_FAILED "%s",
                     is_made   ? "the folder went meanwhile"
                     : last[0] ? without_progress(last)
                               : "crt-unpack was killed");
}

static void on_gone(void *user, uint32_t events)
{
    crti_package_t *p = user;
    siginfo_t info = {0};
    crt_status_t status;

    kill(-p->pid, SIGKILL); /* what the setup command left behind */
    waitid(P_PIDFD, (id_t)p->pidfd, &info, WEXITED | WNOHANG);
    for (int i = 0; i < 2; i++)
        crti_output_flush(&p->output[i]);
    status = crti_exec_result(&p->report, "crt-unpack");
    if (status == CRT_OK)
        status = result_of(p, &info);
    stop_watching(p);
    p->on_ready(p->user, status, status == CRT_OK ? "" : crt_error_detail());
}

static void on_late(void *user)
{
    crti_package_t *p = user;

    p->is_late = true;
    kill(-p->pid, SIGKILL);
}

static crt_status_t watch(crti_package_t *p)
{
    crt_status_t status;

    p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (p->pidfd < 0)
        return crt_raise(CRT_ERR_IO, "pidfd of pid %d: %s", (int)p->pid, strerror(errno));
    p->pidfd_watch = (crti_watch_t){.on_ready = on_gone, .user = p};
    p->timer = (crti_timer_t){.on_expired = on_late, .user = p};
    status = crti_loop_add(p->node->loop, &p->pidfd_watch, p->pidfd, EPOLLIN);
    if (status == CRT_OK && p->patience_ns != UINT64_MAX)
        status = crti_loop_start(p->node->loop, &p->timer,
                                 crti_node_now(p->node) + p->patience_ns);
    for (int i = 0; i < 2 && status == CRT_OK; i++)
        status = crti_output_start(&p->output[i], p->node->loop);
    return status;
}

static void zip_path(const crti_package_t *p, const char *sha, char *path, size_t size)
{
    snprintf(path, size, "%s/programs/%s", p->node->state_dir, sha ? sha : "");
}

static void on_lines(void *user, bool is_stderr, const char *lines, size_t size)
{
    const crti_package_t *p = user;

    crti_logs_grown(p->node, p->log.path);
}

/* What the job was submitted with, else this node's limit. */
static uint64_t patience_of(char *const *environment)
{
    static const char name[] = CRTI_JOB_SETUP_SECONDS "=";

    for (size_t i = 0; environment[i]; i++)
        if (strncmp(environment[i], name, sizeof(name) - 1) == 0) {
            long long seconds = strtoll(environment[i] + sizeof(name) - 1, NULL, 10);

            return seconds > 0 ? (uint64_t)seconds * CRTI_S : UINT64_MAX;
        }
    return CRTI_LIMIT(job_setup_timeout);
}

static crt_status_t make(crti_package_t *p, const crti_package_spec_t *spec)
{
    char program[CRTI_NODE_PATH], zip[CRTI_NODE_PATH + 80];
    /* exec takes them as they are */
    char *folder[] = {"crt-unpack", zip, p->packages, p->key, NULL, NULL};
    char *tool[] = {"crt-unpack", "--tool", (char *)spec->tool,
                    p->packages,  p->key,   NULL};
    int fds[2] = {-1, -1};
    crti_exec_t exec = {.exec_fd = -1,
                        .path = program,
                        .argv = spec->tool ? tool : folder,
                        .environment = spec->environment,
                        .keep_fd = -1};
    crt_status_t status = crti_daemon_path("crt-unpack", program, sizeof(program));

    p->patience_ns = patience_of(spec->environment);
    zip_path(p, spec->sha, zip, sizeof(zip));
    folder[4] = spec->setup && *spec->setup ? (char *)spec->setup : NULL;
    for (int i = 0; i < 2 && status == CRT_OK; i++)
        status = crti_output_open(&p->output[i], i == 1, &p->log, on_lines, p, &fds[i]);
    exec.stdout_fd = fds[0];
    exec.stderr_fd = fds[1];
    if (status == CRT_OK)
        status = crti_exec_start(&exec, &p->pid, &p->report);
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    return status == CRT_OK ? watch(p) : status;
}

/* Its zip stays in the cache for the nodes that will ask for it. */
static void hold_zip(crti_package_t *p, const char *sha)
{
    char zip[CRTI_NODE_PATH + 80];

    zip_path(p, sha, zip, sizeof(zip));
    if (crti_own_open(zip, &p->zip_fd) == CRT_OK)
        crti_programs_hold(p->zip_fd);
}

static crti_package_t *new_package(crti_node_t *node, const crti_package_spec_t *spec)
{
    crti_package_t *p = calloc(1, sizeof(*p));

    if (p == NULL)
        return NULL;
    p->node = node;
    p->hold_fd = p->zip_fd = p->pidfd = p->report = -1;
    p->output[0].fd = p->output[1].fd = -1;
    crti_log_file_init(&p->log, CRTI_LIMIT(log_limit));
    snprintf(p->key, sizeof(p->key), "%s", spec->key);
    snprintf(p->packages, sizeof(p->packages), "%s/packages", node->state_dir);
    snprintf(p->directory, sizeof(p->directory), "%s/%s", p->packages, p->key);
    crti_list_append(&node->jobs->packages, &p->link);
    if (spec->sha)
        hold_zip(p, spec->sha);
    return p;
}

crti_package_t *crti_package_find(crti_node_t *node, const crti_package_spec_t *spec)
{
    crti_package_t *p = new_package(node, spec);

    if (p && crti_package_hold(p->packages, p->key, &p->hold_fd))
        return p;
    crti_package_close(p);
    return NULL;
}

crt_status_t crti_package_make(crti_node_t *node, const crti_package_spec_t *spec,
                               crti_package_t **package_out)
{
    crti_package_t *p = new_package(node, spec);
    crt_status_t status;

    if (p == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "package");
    p->on_ready = spec->on_ready;
    p->user = spec->user;
    snprintf(p->log.path, sizeof(p->log.path), "%s", spec->log_path);
    status = make(p, spec);
    if (status == CRT_OK)
        *package_out = p;
    else
        crti_package_close(p);
    return status;
}
