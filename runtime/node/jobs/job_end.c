/* SPDX-License-Identifier: Apache-2.0 */
/* The end of jobs of this node: what ends with them, who waits for it, and when their records go.
 *
 * Where it sits
 *     head_dispatch.c (JOB_END), death.c (the driver) -> [ node/jobs/job_end.c ] -> worker_table.c,
 *     zygote.c, program.c, job.c
 */
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/node/jobs/job_int.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/links/local.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/process/process.h"

#define DRAIN_NS (1 * CRTI_S) /* of other nodes' lines, when a driver leaves */

/* ---------------------------------------------------------------- records */

static void free_job(crti_job_t *job)
{
    crti_program_cancel(job);
    crti_zygote_fini(job);
    crti_package_close(job->package);
    crti_package_close(job->python);
    crti_package_close(job->image);
    crti_close_auto(&job->zip_fd);
    crti_close_auto(&job->exec_fd);
    free(job->program);
    free(job->entrypoint);
    free(job->directory);
    free(job->submission);
    crti_buffer_fini(&job->argv);
    crti_buffer_fini(&job->environment);
    free(job);
}

/* A zygote ends with its workers; the FORKs that it does not answer are nothing to wait for. */
static bool needs_zygote(const crti_job_t *job)
{
    size_t given_up = 0;

    CRTI_LIST_FOREACH (item, &job->forking)
        given_up += crti_spawn_is_given_up(CRTI_CONTAINER(item, crti_process_t, link));
    return job->processes > given_up;
}

void crti_job_release(crti_job_t *job)
{
    crti_node_t *node = job->node;
    /* Whoever wanted it was refused before anything was learned of it. */
    bool is_nothing = !job->known && job->state == CRTI_JOB_IDLE;

    if ((!job->ended && !is_nothing) || needs_zygote(job))
        return;
    if (job->zygote.pid) {
        crti_zygote_kill(job); /* comes back here when it is gone */
        return;
    }
    if (job->processes)
        return;
    crti_map_remove(&node->jobs->by_id, &job->id);
    free_job(job);
    crti_node_progress(node);
}

void crti_job_free_all(crti_node_t *node)
{
    CRTI_MAP_FOREACH (void, value, &node->jobs->by_id)
        free_job(value);
    crti_map_fini(&node->jobs->by_id);
    crti_program_free_all(node);
    if (node->jobs->user_namespace)
        close(node->jobs->user_namespace);
    node->jobs->user_namespace = 0;
}

/* ---------------------------------------------------------------- the last lines */

static void drained(crti_process_t *driver)
{
    void (*on_drained)(crti_process_t * driver) = driver->on_drained;

    crti_loop_cancel(driver->node->loop, &driver->reap_timer);
    driver->on_drained = NULL;
    driver->drained_by = 0;
    on_drained(driver);
}

static void on_drain_late(void *user)
{
    const crti_process_t *driver = user;

    crti_log(CRTI_LOG_WARN, "job", "%zu nodes do not tell the last lines of %016llx",
             driver->drained_by, (unsigned long long)crti_job_id(driver->job).high);
    drained(user);
}

/* The lines come by another link, and the last of them says so. */
static void on_heard(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask,
                     const crti_message_t *answer, const char *text)
{
}

/* What was written to a pipe before a call was answered is in the pipe, or on its way; printf has
 * waited for that (core/process/printed.c), write(2) has not. */
void crti_job_drain(crti_process_t *driver, void (*on_drained)(crti_process_t *driver))
{
    static const crti_peer_answers_t answers = {.kind = CRTI_MSG_DONE,
                                                .on_answer = on_heard};
    crti_node_t *node = driver->node;
    crti_msg_log_flush_t flush = {.job = crti_job_id(driver->job)};
    crti_peer_ask_t ask = {
        .kind = CRTI_MSG_LOG_FLUSH, .answers = &answers, .id = driver->id};

    driver->on_drained = on_drained;
    if (driver->job && crti_job_logs(driver->job)) {
        crti_process_flush_job(node, flush.job);
        driver->drained_by =
            crti_node_ask_linked(node, CRTI_PRIORITY_CONTROL, &ask, &flush);
    }
    crti_local_tell_not_shown(driver);
    if (driver->drained_by == 0 ||
        crti_process_await(driver, on_drain_late, DRAIN_NS) != CRT_OK)
        drained(driver);
}

void crti_job_drained(crti_node_t *node, crti_id_t id)
{
    const crti_job_t *job = crti_job_find(node, id);
    crti_process_t *driver = job ? crti_process_get(node, job->driver) : NULL;

    if (driver && driver->on_drained && --driver->drained_by == 0)
        drained(driver);
}

/* ---------------------------------------------------------------- a driver that waits */

/* To the driver, if it still waits for it. */
static void confirm_end(crti_process_t *driver)
{
    if (driver == NULL || driver->leave_request == 0)
        return;
    crti_local_send(driver, CRTI_MSG_DONE, driver->leave_request, NULL);
    driver->leave_request = 0;
}

/* What of the job was told to end: all but the detached actors. */
static void await_workers(crti_process_t *driver)
{
    crti_node_t *node = driver->node;
    crti_process_t *p;
    size_t cursor = 0;

    while ((p = crti_process_next(node, &cursor)) != NULL) {
        if (p->job != driver->job || p->role != CRTI_ROLE_WORKER || p->awaited ||
            (!crti_id_is_zero(p->actor) && !p->told_to_end))
            continue;
        p->awaited = true;
        p->job->awaited++;
    }
    if (driver->job->awaited == 0)
        confirm_end(driver);
}

/* The head has heard of the job's end, and what it told this node because of it came before. */
static void on_head_knows(crti_node_t *node, crti_id_t id, uint64_t number,
                          const crti_message_t *answer)
{
    crti_process_t *driver = crti_process_get(node, id);

    if (answer && driver && driver->job && driver->leave_request)
        await_workers(driver);
}

void crti_job_await_end(crti_process_t *driver, uint64_t request)
{
    crti_msg_job_get_t get = {.job = crti_job_id(driver->job)};

    driver->leave_request = request;
    if (driver->job == NULL)
        confirm_end(driver);
    else if (!crti_head_is_open(driver->node) ||
             crti_head_ask(driver->node, CRTI_MSG_JOB_GET, &get, on_head_knows,
                           driver->id, 0) != CRT_OK)
        await_workers(driver);
}

/* ---------------------------------------------------------------- the end */

void crti_job_process_gone(crti_process_t *process)
{
    crti_job_t *job = process->job;

    if (job == NULL)
        return;
    process->job = NULL;
    job->processes--;
    if (process->awaited && --job->awaited == 0)
        confirm_end(crti_process_get(job->node, job->driver));
    crti_job_release(job);
}

void crti_job_end(crti_node_t *node, crti_id_t id, const char *text)
{
    crti_job_t *job = crti_job_find(node, id);

    if (job == NULL || job->ended)
        return;
    crti_log(CRTI_LOG_INFO, "job", "%016llx ended: %s", (unsigned long long)id.high,
             text);
    crti_process_flush_job(node, id);
    job->ended = true;
    job->processes++;    /* not released in the middle of this */
    if (job->driver_pid) /* the head ended it: its driver must not wait for ever */
        crti_local_send(crti_process_get(node, job->driver), CRTI_MSG_SHUTDOWN, 0,
                        &(crti_msg_shutdown_t){.text = crti_str(text)});
    crti_worker_table_end_job(node->workers, id, false, false, crti_node_now(node));
    crti_lease_act(node);
    job->processes--;
    crti_job_release(job);
}

void crti_job_driver_gone(crti_process_t *driver, const char *text)
{
    crti_job_t *job = driver->job;
    crti_msg_job_end_t end = {.job = job->id,
                              .text = crti_str(text),
                              .has_exit = driver->reaped,
                              .wait_status = driver->wait_status};

    if (!crti_id_equal(job->driver, driver->id))
        return;
    job->driver_pid = 0;
    crti_head_send(job->node, CRTI_MSG_JOB_END, 0, &end);
    crti_job_end(job->node, job->id, text);
}

void crti_job_stop_all(crti_node_t *node)
{
    CRTI_MAP_FOREACH (void, value, &node->jobs->by_id)
        crti_zygote_kill(value);
}

void crti_job_node_died(crti_node_t *node, crti_id_t dead)
{
    size_t cursor = 0;
    void *value;

    /* Ending a job may take it out of the map: the walk begins anew after each. */
    while (crti_map_next(&node->jobs->by_id, &cursor, NULL, &value)) {
        crti_job_t *job = value;

        if (job->known && crti_id_equal(job->driver_node, dead) &&
            crti_program_driver_died(job)) {
            cursor = 0;
            continue;
        }
        if (!job->known || job->ended || !crti_id_equal(job->driver_node, dead))
            continue;
        crti_job_end(node, job->id, "the driver's node died");
        cursor = 0;
    }
}
