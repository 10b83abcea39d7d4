/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: drivers that come and go, programs that were submitted. See control.h. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json_shape.h"
#include "runtime/base/log.h"
#include "runtime/control/control_actor.h"
#include "runtime/control/control_forward.h"
#include "runtime/control/control_job.h"
#include "runtime/control/control_placement_group.h"
#include "runtime/control/control_request.h"
#include "runtime/control/control_resource_request.h"
#include "runtime/control/control_revoke.h"
#include "runtime/control/control_state.h"
#include "runtime/control/kv.h"
#include "runtime/control/outbox.h"

static void put_job(crti_control_t *c, const crti_job_entry_t *job)
{
    crti_control_put(c, CRTI_STORE_JOBS, job->id, CRTI_MSG_ROW_JOB, job->made);
}

static void put_state(crti_control_t *c, const crti_job_entry_t *job)
{
    crti_msg_row_job_state_t row = crti_job_entry_state_row(job);

    crti_control_put(c, CRTI_STORE_JOB_STATES, job->id, CRTI_MSG_ROW_JOB_STATE, &row);
}

/* The second row goes first, as with actors. */
void crti_control_forget_job(crti_control_t *c, crti_job_entry_t *job)
{
    bool is_submission = crti_job_entry_is_submission(job);
    const crti_node_entry_t *node = crti_node_table_get(&c->nodes, job->node);
    crti_id_t id = job->id;

    crti_control_delete_job(c, id);
    crti_job_table_forget(&c->jobs, job);
    if (is_submission && c->config.actions.forget_job)
        c->config.actions.forget_job(c->config.actions.user, id);
    if (is_submission && node && node->link && !node->is_head_host)
        crti_control_send(c, node->link, CRTI_MSG_JOB_FORGET, 0,
                          &(crti_msg_job_forget_t){.job = id});
}

bool crti_control_has_job(const crti_control_t *control, crti_id_t job)
{
    return crti_job_table_get(&control->jobs, job) != NULL;
}

void crti_control_on_job(void *user, crti_job_entry_t *job)
{
    if (!job->unsaved || crti_job_entry_is_ended(job)) /* its end outlives the head */
        put_state(user, job);
    crti_control_clear_groups(user, job);
    if (crti_job_entry_is_ended(job))
        crti_control_resource_requests_end(user, false);
    if (job->state != CRTI_JOB_PENDING)
        crti_control_job_begun(user, job);
}

void crti_control_job_cleared(crti_control_t *c, crti_id_t id)
{
    crti_job_entry_t *job = crti_job_table_get(&c->jobs, id);

    if (job == NULL || !job->has_groups)
        return;
    job->has_groups = false;
    put_state(c, job);
}

static void random_id(crti_control_t *c, crti_id_t *id_out)
{
    uint64_t *halves[2] = {&id_out->high, &id_out->low};

    for (int i = 0; i < 2;
         i++) { /* splitmix64: seeded from the kernel outside of tests */
        uint64_t z = (c->random += 0x9e3779b97f4a7c15ull);

        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ z >> 27) * 0x94d049bb133111ebull;
        *halves[i] = z ^ z >> 31;
    }
}

/* Its rows could not be stored; one of them may have arrived. */
static void take_back(crti_control_t *c, crti_job_entry_t *job,
                      const crti_outgoing_t *out)
{
    crti_msg_error_t error = {.status = CRT_ERR_IO};

    /* A driver that was told so does not run: nothing begins. */
    if (crti_job_entry_is_submission(job))
        crti_control_revoke(c, out->id, out->text ? out->text : "");
    error.text = crti_str(crt_error_detail());
    if (out->request)
        crti_control_send(c, out->link, CRTI_MSG_ERROR, out->request, &error);
    crti_control_delete_revoked_rows(c, out->id);
    crti_job_table_undo(&c->jobs, job);
}

/* The rows of a new entry are durable, or not; `request`: of its submission. */
static void after_added(crti_control_t *c, const crti_outgoing_t *out)
{
    crti_job_entry_t *job = crti_job_table_get(&c->jobs, out->id);

    bool is_retry = job && !out->request && crti_job_entry_is_submission(job);

    /* Nobody would hear that a retry is not made: its rows are stored when that is possible. */
    if (out->status != CRT_OK && job && job->unsaved && !is_retry) {
        take_back(c, job, out);
        return;
    }
    if (out->request)
        crti_control_send(c, out->link, CRTI_MSG_DONE, out->request, NULL);
    if (job == NULL || !job->unsaved)
        return;
    job->unsaved = false;
    if (crti_job_entry_is_ended(job)) /* meanwhile */
        put_state(c, job);
    crti_control_start_jobs(c);
}

static void put_new(crti_control_t *c, const crti_job_entry_t *job)
{
    crti_control_put_meta(c);
    put_job(c, job);
    put_state(c, job);
}

/* It has failed, and is run again if that was asked for. */
static void retry(crti_control_t *c, crti_job_entry_t *job)
{
    crti_job_entry_t *next;
    crti_id_t id;

    if (job->state != CRTI_JOB_FAILED || job->made->retries == 0 ||
        job->made->submitted.size == 0)
        return;
    random_id(c, &id);
    if (crti_job_table_retry(&c->jobs, job, id, crti_control_wall(c), &next) != CRT_OK) {
        crti_log(CRTI_LOG_WARN, "control", "job %s is not run again: %s",
                 crti_copied_text(job->made->submission), crt_error_detail());
        return;
    }
    put_job(c, job); /* it has another name */
    put_new(c, next);
    crti_control_after(c, after_added, next->id, 0);
}

/* ---------------------------------------------------------------- drivers */

static void answer_info(crti_control_t *c, uint64_t link, uint64_t request,
                        const crti_job_entry_t *job)
{
    crti_msg_job_info_t info = crti_job_entry_info(job);

    crti_control_answer(c, link, CRTI_MSG_JOB_INFO, request, &info, true);
}

/* The rows of a driver's job are durable, now or since it was asked for the first time; or not. */
static void after_known(crti_control_t *c, const crti_outgoing_t *out)
{
    const crti_job_entry_t *job = crti_job_table_get(&c->jobs, out->id);

    if (job && out->status == CRT_OK) {
        answer_info(c, out->link, out->request, job);
        return;
    }
    crt_raise(CRT_ERR_IO, "%s",
              out->text ? out->text : "the control store could not write the job");
    crti_control_refuse(c, out->link, out->request, CRT_ERR_IO);
}

void crti_control_job_add(crti_control_t *c, uint64_t link, uint64_t request,
                          const crti_msg_job_add_t *m)
{
    crti_job_entry_t *job = NULL;
    bool is_new = false;
    crt_status_t status =
        crti_job_table_add(&c->jobs, m, crti_control_wall(c), &job, &is_new);

    if (status != CRT_OK) {
        crti_control_refuse(c, link, request, status);
        return;
    }
    if (is_new)
        put_new(c, job);
    if (is_new && job->unsaved)
        crti_control_after(c, after_added, job->id, 0);
    if (!is_new && !job->unsaved) { /* rows of the first time may still fail, or have */
        put_job(c, job);
        put_state(c, job);
    }
    if (request)
        crti_control_after_for(c, after_known, job->id, link, request);
}

bool crti_control_job_running(crti_control_t *c, const crti_msg_job_add_t *m)
{
    crti_job_entry_t *job = NULL;
    bool is_new = false;

    if (crti_job_table_add(&c->jobs, m, crti_control_wall(c), &job, &is_new) != CRT_OK)
        return false;
    if (is_new) {
        job->unsaved = false; /* it runs: a fact, not a request */
        put_new(c, job);
    }
    return true;
}

/* Its actors and workers end everywhere. */
static void relay_end(crti_control_t *c, const crti_job_entry_t *job, const char *text)
{
    crti_msg_job_end_t notice = {.job = job->id, .text = crti_str(text)};

    crti_control_broadcast(c, CRTI_MSG_JOB_END, &notice, 0);
    crti_control_actors_of_job(c, job->id, text);
    crti_control_placement_groups_of_job(c, job->id);
}

/* `end` NULL: nobody saw how. */
static void driver_left(crti_control_t *c, crti_job_entry_t *job, const char *text,
                        const crti_msg_job_end_t *end)
{
    job->driver = (crti_id_t){0, 0};
    if (!crti_job_entry_is_submission(job)) /* else JOB_EXITED says how it went */
        crti_job_entry_driver_left(&c->jobs, job, text,
                                   end && end->has_exit ? &end->wait_status : NULL,
                                   c->now_ns, crti_control_wall(c));
    relay_end(c, job, text);
}

void crti_control_job_end(crti_control_t *c, crti_control_link_t *link,
                          const crti_msg_job_end_t *m)
{
    crti_job_entry_t *job = crti_job_table_get(&c->jobs, m->job);
    char text[2048];

    /* Of its driver's node only: another one's driver was refused, and ends nothing. */
    if (job && !crti_job_entry_is_ended(job) && crti_id_equal(job->node, link->node->id))
        driver_left(c, job, crti_text(m->text, text, sizeof(text)), m);
}

void crti_control_job_get(crti_control_t *c, uint64_t link, uint64_t request,
                          crti_id_t id)
{
    const crti_job_entry_t *job = crti_job_table_get(&c->jobs, id);
    char hex[CRTI_ID_HEX];

    if (job == NULL || (crti_job_entry_is_ended(job) && job->actors == 0)) {
        crt_raise(CRT_ERR_NOT_FOUND, "job %s %s", crti_id_hex(id, hex),
                  job ? "has ended" : "is not known");
        crti_control_refuse(c, link, request, CRT_ERR_NOT_FOUND);
        return;
    }
    /* For a detached actor of an ended job. The node may not have known the job when its end was
     * told, and nobody else would tell it. */
    if (crti_job_entry_is_ended(job))
        crti_control_answer(c, link, CRTI_MSG_JOB_END, 0,
                            &(crti_msg_job_end_t){.job = id, .text = crti_str("")},
                            false);
    answer_info(c, link, request, job);
}

static bool was_reported(crti_span_t reported, crti_id_t job)
{
    crti_message_t m;
    crti_span_t entry;

    while (crti_list_unpack(&reported, &entry) == CRT_OK)
        if (crti_message_decode(entry.data, entry.size, &m) == CRT_OK &&
            m.kind == CRTI_MSG_JOB_ADD && crti_id_equal(m.job_add.job, job))
            return !crti_id_is_zero(m.job_add.driver);
    return false;
}

bool crti_control_job_goes_on(const crti_control_t *c, crti_id_t id)
{
    const crti_job_entry_t *job = crti_job_table_get(&c->jobs, id);

    return job && !crti_job_entry_is_ended(job);
}

/* Its node died, the row that said so was not stored, and the head died, too. */
static bool died_with_node(const crti_job_entry_t *job, const crti_node_entry_t *node)
{
    return job->node_incarnation && job->node_incarnation < node->incarnation &&
           (job->state == CRTI_JOB_RUNNING || job->start_sent);
}

static void end_with_node(crti_control_t *c, crti_job_entry_t *job, const char *text)
{
    crti_job_entry_end(&c->jobs, job, job->stopping ? CRTI_JOB_STOPPED : CRTI_JOB_FAILED,
                       crti_job_entry_is_submission(job) ? "JOB_SUPERVISOR_ACTOR_DIED"
                                                         : "",
                       text, c->now_ns, crti_control_wall(c));
    relay_end(c, job, text);
    retry(c, job);
}

void crti_control_jobs_missing(crti_control_t *c, const crti_node_entry_t *node,
                               crti_span_t reported)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->jobs.running) {
        crti_job_entry_t *job = CRTI_JOB_OF(item);

        if (!crti_id_equal(job->node, node->id))
            continue;
        if (died_with_node(job, node))
            end_with_node(c, job, "the node that ran it died");
        else if (job->state == CRTI_JOB_PENDING)
            job->start_sent = false; /* sent again: the node knows the submission */
        else if (!crti_id_is_zero(job->driver) && !was_reported(reported, job->id))
            driver_left(c, job, "", NULL);
    }
}

void crti_control_jobs_of_node(crti_control_t *c, const crti_node_entry_t *node,
                               const char *text)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->jobs.running) {
        crti_job_entry_t *job = CRTI_JOB_OF(item);

        if (!crti_id_equal(job->node, node->id))
            continue;
        if (job->state == CRTI_JOB_PENDING && !job->start_sent)
            continue;
        end_with_node(c, job, text);
    }
}

/* ---------------------------------------------------------------- submissions */

static void after_submitted(crti_control_t *c, const crti_outgoing_t *out)
{
    const crti_job_entry_t *job = crti_job_table_get(&c->jobs, out->id);
    crt_status_t status =
        job ? crt_raise(
                  CRT_ERR_EXISTS,
                  "Job with submission_id %s already exists. Please use a different "
                  "submission_id.",
                  crti_copied_text(job->made->submission))
            : crt_raise(CRT_ERR_IO, "the control store could not write the submission");

    crti_control_refuse(c, out->link, out->request, status);
}

/* It was sent again: the answer to the first time was lost. */
static void after_submitted_again(crti_control_t *c, const crti_outgoing_t *out)
{
    if (out->status == CRT_OK && crti_job_table_get(&c->jobs, out->id))
        crti_control_send(c, out->link, CRTI_MSG_DONE, out->request, NULL);
    else
        after_submitted(c, out);
}

static bool is_same(const crti_job_entry_t *job, const crti_msg_job_submit_t *m)
{
    const char *metadata = crti_copied_text(job->made->metadata);

    return crti_str_equal(m->metadata, metadata) &&
           strncmp(metadata, CRTI_JOB_TOKEN, sizeof(CRTI_JOB_TOKEN) - 1) == 0;
}

/* What lists have to show, any reader of JSON takes. */
static crt_status_t check_object(crti_span_t json, const char *name)
{
    crti_json_shape_t shape = crti_json_shape(json);

    if (shape.depth > CRTI_JSON_DEPTH_MAX)
        return crt_raise(CRT_ERR_INVALID, "\"%s\" is nested %zu deep; the limit is %d",
                         name, shape.depth, CRTI_JSON_DEPTH_MAX);
    return shape.has_zero
               ? crt_raise(CRT_ERR_INVALID, "\"%s\" holds a zero character", name)
               : CRT_OK;
}

void crti_control_job_submit(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_job_submit_t *m)
{
    crti_job_entry_t *job = NULL;
    crt_status_t status;
    crti_id_t id;

    job = crti_job_table_find(&c->jobs, m->submission);
    if (job && is_same(job, m)) {
        crti_control_after_for(c, after_submitted_again, job->id, link, request);
        return;
    }
    if (job && job->unsaved) { /* asked again: whether it exists is not certain yet */
        crti_control_after_for(c, after_submitted, job->id, link, request);
        return;
    }
    random_id(c, &id);
    status = check_object(m->metadata, "metadata");
    if (status == CRT_OK)
        status = check_object(m->runtime_env, "runtime_env");
    if (status == CRT_OK)
        status = crti_job_table_submit(&c->jobs, m, id, crti_control_wall(c), &job);
    if (status != CRT_OK) {
        crti_control_refuse(c, link, request, status);
        return;
    }
    put_new(c, job);
    crti_control_after_for(c, after_added, job->id, link, request);
}

static crti_job_entry_t *submission(crti_control_t *c, crti_span_t name, const char *verb)
{
    crti_job_entry_t *job = crti_job_table_find(&c->jobs, name);
    char text[CRTI_ID_HEX + 1];
    crti_id_t id;

    if (job)
        return job;
    if (crti_id_parse(crti_text(name, text, sizeof(text)), &id) &&
        crti_job_table_get(&c->jobs, id))
        crt_raise(CRT_ERR_INVALID, "Can only %s submission type jobs", verb);
    else
        crt_raise(CRT_ERR_NOT_FOUND, "Job %.*s does not exist", (int)name.size,
                  name.size ? (const char *)name.data : "");
    return NULL;
}

static crt_status_t raised(crti_span_t name)
{
    return strncmp(crt_error_detail(), "Can only", 8) == 0 ? CRT_ERR_INVALID
                                                           : CRT_ERR_NOT_FOUND;
}

void crti_control_job_stop(crti_control_t *c, uint64_t link, uint64_t request,
                           const crti_msg_job_stop_t *m)
{
    crti_job_entry_t *job = submission(c, m->submission, "stop");

    if (job == NULL) {
        crti_control_refuse(c, link, request, raised(m->submission));
        return;
    }
    if (crti_job_entry_is_ended(job)) {
        crt_raise(CRT_ERR_CLOSED, "Job %s has ended already (%s)",
                  crti_copied_text(job->made->submission),
                  crti_job_state_name(job->state));
        crti_control_refuse(c, link, request, CRT_ERR_CLOSED);
        return;
    }
    crti_job_entry_stop(&c->jobs, job, c->now_ns, crti_control_wall(c));
    if (!crti_job_entry_is_ended(job))
        put_state(c, job); /* that it was asked for outlives the head */
    if (job->state == CRTI_JOB_RUNNING) {
        crti_control_stop_process(c, job, link, request);
        return;
    }
    if (job->state == CRTI_JOB_PENDING) /* a node makes its folder: that ends now */
        crti_control_stop_process(c, job, 0, 0);
    crti_control_answer(c, link, CRTI_MSG_DONE, request, NULL, true);
}

void crti_control_job_delete(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_job_delete_t *m)
{
    crti_job_entry_t *job = submission(c, m->submission, "delete");

    if (job == NULL) {
        crti_control_refuse(c, link, request, raised(m->submission));
        return;
    }
    if (!crti_job_entry_is_ended(job)) {
        crt_raise(CRT_ERR_INVALID,
                  "Attempted to delete job '%s', but it is in a non-terminal state %s.",
                  crti_copied_text(job->made->submission),
                  crti_job_state_name(job->state));
        crti_control_refuse(c, link, request, CRT_ERR_INVALID);
        return;
    }
    if (job->actors) {
        crt_raise(CRT_ERR_INVALID,
                  "Attempted to delete job '%s', but %zu detached actor%s of it may need "
                  "its program: end what lives first.",
                  crti_copied_text(job->made->submission), job->actors,
                  job->actors == 1 ? "" : "s");
        crti_control_refuse(c, link, request, CRT_ERR_INVALID);
        return;
    }
    crti_control_forget_job(c, job);
    crti_control_answer(c, link, CRTI_MSG_DONE, request, NULL, true);
}

void crti_control_job_exited(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_job_exited_t *m)
{
    crti_job_entry_t *job = crti_job_table_get(&c->jobs, m->job);
    CRTI_AUTO(free) char *text = crti_str_dup(m->text);

    if (job && !crti_job_entry_is_ended(job)) {
        crti_job_entry_exited(&c->jobs, job, m->wait_status, text ? text : "", c->now_ns,
                              crti_control_wall(c));
        relay_end(c, job, "");
        retry(c, job);
    } else if (job && !job->unsaved) {
        put_state(c, job); /* the row of the first time may still fail, or has */
    }
    if (request)
        crti_control_answer(c, link, CRTI_MSG_DONE, request, NULL, true);
    crti_control_start_jobs(c);
}

void crti_control_job_answer(crti_control_t *c, const crti_request_t *request,
                             const crti_message_t *answer)
{
    crti_job_entry_t *job = crti_job_table_get(&c->jobs, request->subject);
    char text[2048];
    bool is_setup;

    if (job == NULL || job->state != CRTI_JOB_PENDING)
        return;
    job->start_sent = false;
    if (answer->kind == CRTI_MSG_DONE) {
        crti_job_entry_runs(&c->jobs, job, request->node);
        if (job->stopping)
            crti_control_stop_process(c, job, 0, 0);
        return;
    }
    if (answer->kind != CRTI_MSG_ERROR)
        return;
    crti_text(answer->error.text, text, sizeof(text));
    if (answer->error.status == CRT_ERR_BACKPRESSURE && !job->stopping) {
        job->node = (crti_id_t){0, 0};
        crti_job_entry_waits(&c->jobs, job, text);
        put_state(c, job);
        crti_control_start_jobs(c);
        return;
    }
    is_setup = strncmp(text, CRTI_JOB_SETUP_FAILED, strlen(CRTI_JOB_SETUP_FAILED)) == 0;
    if (job->stopping)
        crti_job_entry_end(&c->jobs, job, CRTI_JOB_STOPPED, "", "", c->now_ns,
                           crti_control_wall(c));
    else
        crti_job_entry_end(&c->jobs, job, CRTI_JOB_FAILED,
                           is_setup ? "RUNTIME_ENV_SETUP_FAILURE"
                                    : "JOB_ENTRYPOINT_COMMAND_START_ERROR",
                           text, c->now_ns, crti_control_wall(c));
    crti_control_start_jobs(c);
}
