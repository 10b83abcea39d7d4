/* SPDX-License-Identifier: Apache-2.0 */
/* Spawn: from "a worker is wanted" to a running process, by the job's zygote or by executing the
 * program once per worker.
 *
 * Where it sits
 *     worker_table.c (SPAWN) -> lease.c -> [ node/jobs/spawn.c ] -> job.c (zygote) -> worker's ATTACH
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
#include "runtime/node/jobs/job_int.h"

void crti_process_free(crti_process_t *process)
{
    if (process->local)
        crti_local_close(process->local);
    crti_process_release(process);
    crti_job_process_gone(process);
    free(process);
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
    crti_msg_log_t log = {.job = p->job->id,
                          .driver_node = p->job->driver_node,
                          .prefix = crti_str(prefix_of(p, prefix, sizeof(prefix))),
                          .lines = crti_span(lines, size),
                          .is_stderr = is_stderr};

    crti_logs_grown(node, p->log.path);
    if (!crti_job_logs(p->job))
        return;
    crti_job_tell_driver(p->job, &log);
}

static void on_flushed(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask,
                       const crti_message_t *m, const char *text)
{
    crti_local_send(crti_process_get(node, ask->id), CRTI_MSG_DONE, ask->offset, NULL);
}

void crti_spawn_flush(crti_process_t *p, uint64_t request)
{
    static const crti_peer_answers_t answers = {.kind = CRTI_MSG_DONE,
                                                .on_answer = on_flushed};
    crti_peer_ask_t ask = {
        .kind = CRTI_MSG_LOG_FLUSH, .answers = &answers, .id = p->id, .offset = request};
    crti_id_t driver_node = p->job ? p->job->driver_node : p->node->id;

    for (int i = 0; p->worker && i < 2; i++)
        crti_output_flush(&p->output[i]);
    if (crti_id_equal(driver_node, p->node->id) || !crti_job_logs(p->job) ||
        crti_node_ask(p->node, driver_node, CRTI_LANE_CONTROL, &ask,
                      &(crti_msg_log_flush_t){0}) != CRT_OK)
        crti_local_send(p, CRTI_MSG_DONE, request, NULL);
}

/* ---------------------------------------------------------------- from wish to process */

void crti_spawn_failed(crti_process_t *process, crt_status_t status, const char *text)
{
    crti_node_t *node = process->node;
    crti_worker_t *worker = crti_process_take_worker(process);

    crti_list_remove(&process->link);
    if (worker)
        crti_worker_table_died(node->leases.workers, worker, status, text);
    crti_process_free(process);
    crti_lease_act(node);
    crti_node_progress(node);
}

void crti_spawn_refused(crti_node_t *node, const crti_msg_attach_t *attach,
                        const char *text)
{
    crti_process_t *process = crti_process_get(node, attach->process);

    if (process == NULL || process->worker == NULL || process->local)
        return;
    crti_process_explain(process, "%s", text);
    crti_worker_table_end(node->leases.workers, process->worker, true,
                          crti_node_now(node));
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

/* Asks the zygote to fork it, or executes the program for it: `fds` are its stdout and stderr. */
static crt_status_t start(crti_process_t *process, const int fds[2])
{
    crti_job_t *job = process->job;
    crt_status_t status;
    pid_t pid;

    if (job->state == CRTI_JOB_SERVING)
        return crti_zygote_fork(job, process, fds);
    status = crti_zygote_execute(job, process->id, fds, &pid);
    if (status != CRT_OK)
        return status;
    process->is_child = true;
    crti_spawn_forked(process, pid);
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
        crti_worker_table_forking(node->leases.workers, process->worker,
                                  crti_node_now(node));
        status = start(process, fds);
    }
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (status != CRT_OK)
        crti_spawn_failed(process, status, crt_error_detail());
}

void crti_spawn_forked(crti_process_t *process, pid_t pid)
{
    crt_status_t status;

    crti_list_remove(&process->link);
    process->fork_request = 0;
    crti_process_forked(process, pid);
    status = crti_process_read_outputs(process);
    /* It may have attached before the zygote's answer was read. */
    if (status == CRT_OK)
        status = crti_process_watch(process);
    if (status == CRT_ERR_WORKER_DIED)
        crti_process_ended(process); /* gone already: REAPED tells how */
    else if (status != CRT_OK)
        crti_process_cut(process, crt_error_detail());
    else if (process->worker->state == CRTI_WORKER_ENDING)
        crti_process_kill(process); /* it was told to end before it had a pid */
}
