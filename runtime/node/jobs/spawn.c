/* SPDX-License-Identifier: Apache-2.0 */
/* Spawn: from "a worker is wanted" to a running process, by the job's zygote or by executing the
 * program once per worker.
 *
 * Where it sits
 *     worker_table.c (SPAWN) -> lease_act.c -> [ node/jobs/spawn.c ] -> head (JOB_GET), program.c,
 *     zygote.c -> worker's ATTACH
 */
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/node/actors/actor.h"
#include "runtime/node/jobs/job_int.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/links/local.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/logs/logs.h"
#include "runtime/node/process/process.h"

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
                          .actor = p->actor,
                          .prefix = crti_str(prefix_of(p, prefix, sizeof(prefix))),
                          .lines = crti_span(lines, size),
                          .is_stderr = is_stderr};

    crti_logs_grown(node, p->log.path);
    if (!crti_job_logs(p->job))
        return;
    crti_job_tell_driver(p->job, &log);
}

/* Its log is written up to here; of pipes that another thread reads that is not known. */
static void answer_flush(crti_process_t *p, uint64_t request)
{
    crti_msg_log_data_t place = {.next = p ? p->log_flushed : 0};

    if (p && p->offloaded.shard)
        crti_local_send(p, CRTI_MSG_DONE, request, NULL);
    else
        crti_local_send(p, CRTI_MSG_LOG_DATA, request, &place);
}

static void on_flushed(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask,
                       const crti_message_t *m, const char *text)
{
    answer_flush(crti_process_get(node, ask->id), ask->offset);
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
    p->log_flushed = crti_log_file_end(&p->log);
    if (p->worker && crti_id_is_zero(p->actor))
        crti_log_file_forget(&p->log); /* a later task is another one */
    if (crti_id_equal(driver_node, p->node->id) || !crti_job_logs(p->job) ||
        crti_node_ask(p->node, driver_node, CRTI_PRIORITY_CONTROL, &ask,
                      &(crti_msg_log_flush_t){0}) != CRT_OK)
        answer_flush(p, request);
}

void crti_spawn_drain(crti_node_t *node, crti_id_t driver_node, crti_id_t job)
{
    crti_process_flush_job(node, job);
    crti_node_send(node, driver_node, CRTI_MSG_LOG,
                   &(crti_msg_log_t){.job = job, .driver_node = driver_node});
}

/* ---------------------------------------------------------------- from request to process */

void crti_spawn_failed(crti_process_t *process, crt_status_t status, const char *text)
{
    crti_node_t *node = process->node;
    crti_worker_t *worker = crti_process_take_worker(process);

    crti_list_remove(&process->link);
    if (worker)
        crti_worker_table_died(node->workers, worker, status, text);
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

/* Asks the zygote to fork it, or executes the program for it, also where it has an environment of
 * its own: `fds` are its stdout and stderr. */
static crt_status_t start(crti_process_t *process, const int fds[2])
{
    crti_job_t *job = process->job;
    crt_status_t status;
    pid_t pid;

    if (job->state == CRTI_JOB_SERVING && !process->worker->environment)
        return crti_zygote_fork(job, process, fds);
    status = crti_zygote_execute(job, process, fds, &pid);
    if (status != CRT_OK)
        return status;
    process->is_child = true;
    crti_spawn_forked(process, pid);
    return CRT_OK;
}

static void go(crti_process_t *process)
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

/* ------------------------------------------------------------- those that wait for the program */

/* What waits longer in a pipe than here has files open. */
static bool is_forking_enough(const crti_job_t *job)
{
    int count = 0;

    CRTI_LIST_FOREACH (item, &job->forking) {
        count += !crti_spawn_is_given_up(CRTI_CONTAINER(item, crti_process_t, link));
        if (count >= CRTI_JOB_FORKING_MAX)
            return true;
    }
    return false;
}

void crti_job_serve(crti_job_t *job)
{
    crti_list_t *item;

    while ((job->state == CRTI_JOB_SERVING || job->state == CRTI_JOB_EXECUTING) &&
           !is_forking_enough(job) && (item = crti_list_pop(&job->wanted)) != NULL)
        go(CRTI_CONTAINER(item, crti_process_t, link));
}

void crti_spawn_given_up(crti_process_t *process)
{
    if (process->fork_request == 0)
        return; /* it has a process, which hangs */
    crti_job_serve(process->job);
    crti_job_release(process->job);
}

/* For tasks the end of their job is no failure of this node. */
static void fail_list(const crti_job_t *job, crti_list_t *list, crt_status_t status,
                      const char *text)
{
    crti_list_t *item;

    while ((item = crti_list_pop(list)) != NULL) {
        crti_process_t *process = CRTI_CONTAINER(item, crti_process_t, link);
        bool is_over = job->ended && crti_id_is_zero(process->actor);

        crti_spawn_failed(process, is_over ? CRT_ERR_CANCELLED : status, text);
    }
}

void crti_job_fail(crti_job_t *job, crt_status_t status, const char *text)
{
    char copy[1024];

    snprintf(copy, sizeof(copy), "no worker can be made on node %.8s: %s", job->node->hex,
             text);
    if (!crti_list_is_empty(&job->wanted) || !crti_list_is_empty(&job->forking))
        crti_log(CRTI_LOG_WARN, "job", "%016llx: %s", (unsigned long long)job->id.high,
                 copy);
    if (job->state != CRTI_JOB_IDLE)
        crti_job_set_state(job, CRTI_JOB_IDLE);
    job->processes++; /* the lists hold the last references */
    fail_list(job, &job->wanted, status, copy);
    fail_list(job, &job->forking, status, copy);
    job->processes--;
    crti_job_release(job);
}

/* ---------------------------------------------------------------- the program */

static void start_zygote(crti_job_t *job)
{
    crt_status_t status = crti_zygote_start(job);

    if (status != CRT_OK)
        crti_job_fail(job, status, crt_error_detail());
}

static void on_found(crti_job_t *job, crt_status_t status, const char *text)
{
    if (status == CRT_OK)
        start_zygote(job);
    else
        crti_job_fail(job, status, text);
}

static void on_job_info(crti_node_t *node, crti_id_t id, uint64_t number,
                        const crti_message_t *answer)
{
    crti_job_t *job = crti_job_find(node, id);
    crt_status_t status;

    if (job == NULL || job->state != CRTI_JOB_ASKING || answer == NULL)
        return;
    if (answer->kind != CRTI_MSG_JOB_INFO) {
        status = answer->kind == CRTI_MSG_ERROR
                     ? crti_channel_raise(&answer->error)
                     : crt_raise(CRT_ERR_PROTOCOL, "JOB_GET answered by %s",
                                 crti_message_name(answer->kind));
        /* Its end was told before this node had a record of it, or nobody knows it. */
        if (status == CRT_ERR_NOT_FOUND)
            job->ended = true;
        crti_job_fail(job, status, crt_error_detail());
        return;
    }
    status = crti_job_learn(job, &answer->job_info);
    if (status != CRT_OK) {
        crti_job_fail(job, status, crt_error_detail());
        return;
    }
    crti_job_set_state(job, CRTI_JOB_FETCHING);
    crti_job_find_program(job, on_found);
}

static void begin(crti_job_t *job)
{
    crti_msg_job_get_t get = {.job = job->id};
    crt_status_t status;

    if (job->known) {
        crti_job_set_state(job, CRTI_JOB_FETCHING);
        crti_job_find_program(job, on_found);
        return;
    }
    crti_job_set_state(job, CRTI_JOB_ASKING);
    status = crti_head_ask(job->node, CRTI_MSG_JOB_GET, &get, on_job_info, job->id, 0);
    if (status != CRT_OK)
        crti_job_fail(job, status, crt_error_detail());
}

/* ---------------------------------------------------------------- workers */

static void want(crti_job_t *job, crti_process_t *process)
{
    if (job->ended && crti_id_is_zero(process->actor)) {
        crti_spawn_failed(process, CRT_ERR_CANCELLED, "the job has ended");
        return;
    }
    crti_list_append(&job->wanted, &process->link);
    if (job->state == CRTI_JOB_IDLE)
        begin(job);
    else
        crti_job_serve(job);
}

void crti_spawn_worker(crti_node_t *node, crti_worker_t *worker)
{
    crti_process_t *process;
    crti_job_t *job = crti_job_get(node, worker->job);
    crt_status_t status = job ? crti_process_check_host(node) : CRT_ERR_NO_MEMORY;

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
    crti_process_give_worker(process, worker,
                             worker->is_actor ? worker->purpose : (crti_id_t){0});
    crti_process_plan_offload(process);
    crti_job_join(job, process);
    want(job, process);
}

void crti_job_init(crti_node_t *node)
{
    crti_map_init(&node->jobs->by_id, sizeof(crti_id_t));
    crti_list_init(&node->jobs->looks);
    crti_list_init(&node->jobs->packages);
    crti_list_init(&node->jobs->stack_readers);
}
