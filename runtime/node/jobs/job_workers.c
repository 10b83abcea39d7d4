/* SPDX-License-Identifier: Apache-2.0 */
/* Workers of jobs: from "a worker is wanted" to the job's program, its zygote, and a fork.
 *
 * Where it sits
 *     worker_table.c (SPAWN) -> lease_act.c -> [ node/jobs/job_workers.c ] -> head (JOB_GET), program.c,
 *     zygote.c, spawn.c
 */
#include <string.h>

#include "runtime/node/jobs/job_int.h"

/* ------------------------------------------------------------------ those that wait for the program */

/* What waits longer in a pipe than here has files open. */
static bool is_forking_enough(const crti_job_t *job)
{
    int count = 0;

    CRTI_LIST_FOREACH (item, &job->forking) {
        if (++count >= CRTI_JOB_FORKING_MAX)
            return true;
    }
    return false;
}

static void serve(crti_job_t *job)
{
    crti_list_t *item;

    while ((job->state == CRTI_JOB_SERVING || job->state == CRTI_JOB_EXECUTING) &&
           !is_forking_enough(job) && (item = crti_list_pop(&job->wanted)) != NULL)
        crti_spawn_go(CRTI_CONTAINER(item, crti_process_t, link));
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

static void fail(crti_job_t *job, crt_status_t status, const char *text)
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

/* ------------------------------------------------------------------ the program */

static void start_zygote(crti_job_t *job)
{
    crt_status_t status = crti_zygote_start(job);

    if (status != CRT_OK)
        fail(job, status, crt_error_detail());
}

static void on_found(crti_job_t *job, crt_status_t status, const char *text)
{
    if (status == CRT_OK)
        start_zygote(job);
    else
        fail(job, status, text);
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
        fail(job, status, crt_error_detail());
        return;
    }
    status = crti_job_learn(job, &answer->job_info);
    if (status != CRT_OK) {
        fail(job, status, crt_error_detail());
        return;
    }
    crti_job_set_state(job, CRTI_JOB_FETCHING);
    crti_program_find(job, on_found);
}

static void begin(crti_job_t *job)
{
    crti_msg_job_get_t get = {.job = job->id};
    crt_status_t status;

    if (job->known) {
        crti_job_set_state(job, CRTI_JOB_FETCHING);
        if (job->exec_fd >= 0)
            start_zygote(job);
        else
            crti_program_find(job, on_found);
        return;
    }
    crti_job_set_state(job, CRTI_JOB_ASKING);
    status = crti_head_ask(job->node, CRTI_MSG_JOB_GET, &get, on_job_info, job->id, 0);
    if (status != CRT_OK)
        fail(job, status, crt_error_detail());
}

/* ------------------------------------------------------------------ workers */

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
        serve(job);
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
        crti_worker_table_died(node->leases.workers, worker, status, text);
        return;
    }
    worker->io = process;
    crti_process_give_worker(process, worker,
                             worker->is_actor ? worker->purpose : (crti_id_t){0});
    crti_process_plan_offload(process);
    crti_job_join(job, process);
    want(job, process);
}

/* ---------------------------------------------------------------- what zygotes tell */

static void on_forked(crti_job_t *job, crti_process_t *process, pid_t pid)
{
    if (process)
        crti_spawn_forked(process, pid);
    serve(job);
}

static void on_refused(crti_job_t *job, crti_process_t *process, crt_status_t status,
                       const char *text)
{
    if (process)
        crti_spawn_failed(process, status, text);
    serve(job);
}

static void on_zygote_gone(crti_job_t *job, crt_status_t status, const char *text)
{
    if (text)
        fail(job, status, text);
    else
        crti_job_release(job);
}

void crti_job_init(crti_node_t *node)
{
    static const crti_zygote_handlers_t handlers = {.on_ready = serve,
                                                    .on_forked = on_forked,
                                                    .on_refused = on_refused,
                                                    .on_failed = fail,
                                                    .on_gone = on_zygote_gone};

    node->jobs.zygote_handlers = &handlers;
    crti_map_init(&node->jobs.by_id, sizeof(crti_id_t));
    crti_list_init(&node->jobs.looks);
}
