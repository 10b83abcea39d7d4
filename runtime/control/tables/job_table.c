/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs: drivers and submissions. See job_table.h. */
#include "runtime/control/tables/job_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "runtime/base/arrow.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"

#define TO(state) (1u << CRTI_JOB_##state)
static const crti_state_row_t states[CRTI_JOB_STATES] = {
    [CRTI_JOB_PENDING] = {"PENDING", TO(RUNNING) | TO(STOPPED) | TO(FAILED)},
    [CRTI_JOB_RUNNING] = {"RUNNING", TO(STOPPED) | TO(SUCCEEDED) | TO(FAILED)},
    [CRTI_JOB_STOPPED] = {"STOPPED", 0},
    [CRTI_JOB_SUCCEEDED] = {"SUCCEEDED", 0},
    [CRTI_JOB_FAILED] = {"FAILED", 0},
};
static const char *const messages[CRTI_JOB_STATES] = {
    [CRTI_JOB_PENDING] = "Job has not started yet.",
    [CRTI_JOB_RUNNING] = "Job is currently running.",
    [CRTI_JOB_STOPPED] = "Job was intentionally stopped.",
    [CRTI_JOB_SUCCEEDED] = "Job finished successfully.",
    [CRTI_JOB_FAILED] = "Job failed.",
};

const char *crti_job_state_name(crti_job_entry_state_t state)
{
    return states[state].name;
}

bool crti_job_entry_is_ended(const crti_job_entry_t *job)
{
    return states[job->state].next == 0;
}

bool crti_job_entry_is_submission(const crti_job_entry_t *job)
{
    return job->made->submission.size > 0;
}

bool crti_job_entry_asks_for_node(const crti_job_entry_t *job)
{
    return job->made->resources.count > 0 || job->made->selector.size > 0;
}

static void set_state(crti_job_table_t *table, crti_job_entry_t *job,
                      crti_job_entry_state_t state)
{
    char hex[CRTI_ID_HEX];

    assert(states[job->state].next & (1u << state));
    crti_log(CRTI_LOG_DEBUG, "control", "job %s: %s -> %s", crti_id_hex(job->id, hex),
             states[job->state].name, states[state].name);
    CRTI_ARROW("job", states, job->state, state);
    table->counts[job->state]--;
    table->counts[state]++;
    job->state = state;
    if (crti_job_entry_is_ended(job)) {
        crti_list_remove(&job->in_state);
        crti_list_append(&table->ended, &job->in_state);
    }
    if (table->on_change)
        table->on_change(table->user, job);
}

/* ---------------------------------------------------------------- the table */

void crti_job_table_init(crti_job_table_t *table, crti_job_changed_t *on_change,
                         void *user)
{
    *table = (crti_job_table_t){.on_change = on_change, .user = user};
    crti_map_init(&table->by_id, sizeof(crti_id_t));
    crti_map_init(&table->by_submission, 0);
    crti_list_init(&table->running);
    crti_list_init(&table->ended);
}

static void free_job(crti_job_entry_t *job)
{
    free(job->made);
    free(job->error_type);
    free(job->text);
    free(job);
}

void crti_job_table_fini(crti_job_table_t *table)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&table->running)))
        free_job(CRTI_JOB_OF(item));
    while ((item = crti_list_pop(&table->ended)))
        free_job(CRTI_JOB_OF(item));
    crti_map_fini(&table->by_id);
    crti_map_fini(&table->by_submission);
}

crti_job_entry_t *crti_job_table_get(const crti_job_table_t *table, crti_id_t id)
{
    return crti_map_get(&table->by_id, &id);
}

crti_job_entry_t *crti_job_table_find(const crti_job_table_t *table,
                                      crti_span_t submission)
{
    CRTI_AUTO(free) char *text = crti_str_dup(submission);

    return text && *text ? crti_map_get(&table->by_submission, text) : NULL;
}

/* What it is asked for as is this from now on. */
static crt_status_t change(crti_job_entry_t *job, const crti_msg_row_job_t *row)
{
    crti_msg_row_job_t *made = crti_message_copy(CRTI_MSG_ROW_JOB, row);

    if (made == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "job entry");
    free(job->made);
    job->made = made;
    return CRT_OK;
}

static crti_job_entry_t *make(const crti_msg_row_job_t *from)
{
    crti_job_entry_t *job = calloc(1, sizeof(*job));

    if (job == NULL)
        return NULL;
    job->id = from->job;
    job->error_type = crti_str_dup(crti_str(""));
    job->text = crti_str_dup(crti_str(""));
    if (job->error_type && job->text && change(job, from) == CRT_OK)
        return job;
    free_job(job);
    return NULL;
}

static const char *submission_of(const crti_job_entry_t *job)
{
    return crti_copied_text(job->made->submission);
}

static crt_status_t insert(crti_job_table_t *table, const crti_msg_row_job_t *from,
                           crti_job_entry_state_t state, crti_job_entry_t **job_out)
{
    crti_job_entry_t *job = make(from);

    if (job == NULL || crti_map_put(&table->by_id, &job->id, job) != CRT_OK) {
        if (job)
            free_job(job);
        return crt_raise(CRT_ERR_NO_MEMORY, "job entry");
    }
    if (crti_job_entry_is_submission(job) &&
        crti_map_put(&table->by_submission, submission_of(job), job) != CRT_OK) {
        crti_map_remove(&table->by_id, &job->id);
        free_job(job);
        return crt_raise(CRT_ERR_NO_MEMORY, "job entry");
    }
    if (from->number > table->last_number)
        table->last_number = from->number;
    job->state = state;
    table->counts[state]++;
    crti_list_append(&table->running, &job->in_state);
    *job_out = job;
    return CRT_OK;
}

static void attach_driver(crti_job_entry_t *job, const crti_msg_job_add_t *m)
{
    if (!crti_id_equal(job->node, m->node))
        job->node_incarnation = 0;
    job->driver = m->driver;
    job->node = m->node;
    job->pid = m->pid;
}

crt_status_t crti_job_table_add(crti_job_table_t *table,
                                const crti_msg_job_add_t *message, int64_t wall_ms,
                                crti_job_entry_t **job_out, bool *is_new_out)
{
    crti_job_entry_t *job = crti_job_table_get(table, message->job);
    crti_msg_row_job_t row = {.job = message->job,
                              .number = table->last_number + 1,
                              .submission = message->submission,
                              .entrypoint = message->entrypoint,
                              .program = message->program,
                              .sha = message->sha,
                              .argv = message->argv,
                              .environment = message->environment,
                              .directory = message->directory};
    char hex[CRTI_ID_HEX];
    crt_status_t status;

    *is_new_out = false;
    if (job && crti_job_entry_is_ended(job))
        return crt_raise(CRT_ERR_CLOSED, "job %s has ended (%s)",
                         crti_id_hex(job->id, hex), states[job->state].name);
    if (job && !crti_id_is_zero(job->driver) &&
        !crti_id_equal(job->driver, message->driver) &&
        !crti_id_equal(job->node, message->node))
        return crt_raise(CRT_ERR_EXISTS, "job %s has a driver already, on another node",
                         crti_id_hex(job->id, hex));
    if (job) {
        /* A submission's driver: what it runs replaces what was asked for. */
        if (crti_id_is_zero(job->driver) && crti_job_entry_is_submission(job)) {
            row = *job->made;
            row.program = message->program;
            row.sha = message->sha;
            row.directory = message->directory;
            row.argv = message->argv;
            row.environment = message->environment;
            CRT_TRY(change(job, &row));
            *is_new_out = true;
        }
        attach_driver(job, message);
        *job_out = job;
        return CRT_OK;
    }
    status = insert(table, &row, CRTI_JOB_RUNNING, &job);
    if (status != CRT_OK)
        return status;
    attach_driver(job, message);
    job->start_ms = wall_ms;
    job->unsaved = true;
    *is_new_out = true;
    *job_out = job;
    return CRT_OK;
}

/* Of a submission, in its environment; 1 where it is not given. */
static uint64_t priority_of(crti_span_t environment)
{
    static const char name[] = CRTI_JOB_PRIORITY "=";
    crti_span_t entry;
    uint64_t priority = 1;
    char text[32];

    while (crti_list_unpack(&environment, &entry) == CRT_OK)
        if (entry.size >= sizeof(name) && entry.size < sizeof(text) &&
            memcmp(entry.data, name, sizeof(name) - 1) == 0)
            priority = strtoull(crti_text(entry, text, sizeof(text)) + sizeof(name) - 1,
                                NULL, 10);
    return priority;
}

/* What will be submitted when it has failed, if it may be run again. */
static crt_status_t next_attempt(const crti_msg_job_submit_t *message, crti_buffer_t *out)
{
    crti_msg_job_submit_t next = *message;

    if (message->retries == 0)
        return CRT_OK;
    next.retries--;
    return crti_message_encode(CRTI_MSG_JOB_SUBMIT, 0, &next, out);
}

crt_status_t crti_job_table_submit(crti_job_table_t *table,
                                   const crti_msg_job_submit_t *message, crti_id_t id,
                                   int64_t wall_ms, crti_job_entry_t **job_out)
{
    crti_msg_row_job_t row = {.job = id,
                              .number = table->last_number + 1,
                              .submission = message->submission,
                              .entrypoint = message->entrypoint,
                              .sha = message->sha,
                              .argv = message->argv,
                              .environment = message->environment,
                              .metadata = message->metadata,
                              .runtime_env = message->runtime_env,
                              .resources = message->resources,
                              .selector = message->selector,
                              .priority = priority_of(message->environment),
                              .retries = message->retries};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t submitted = {0};
    crt_status_t status;

    if (message->submission.size == 0)
        return crt_raise(CRT_ERR_INVALID, "the submission has no id");
    if (crti_job_table_find(table, message->submission))
        return crt_raise(
            CRT_ERR_EXISTS,
            "Job with submission_id %.*s already exists. Please use a different "
            "submission_id.",
            (int)message->submission.size, (const char *)message->submission.data);
    status = next_attempt(message, &submitted);
    row.submitted = crti_span(submitted.data, submitted.size);
    if (status == CRT_OK)
        status = insert(table, &row, CRTI_JOB_PENDING, job_out);
    if (status != CRT_OK)
        return status;
    (*job_out)->start_ms = wall_ms;
    (*job_out)->unsaved = true;
    return CRT_OK;
}

/* A name that no other submission has. */
static char *name_attempt(const crti_job_table_t *table, const crti_job_entry_t *job)
{
    char *name = NULL;

    for (uint64_t number = job->made->attempt + 1;; number++) {
        free(name);
        if (asprintf(&name, "%.80s.attempt-%llu", submission_of(job),
                     (unsigned long long)number) < 0)
            return NULL;
        if (!crti_map_get(&table->by_submission, name))
            return name;
    }
}

static crt_status_t rename_submission(crti_job_table_t *table, crti_job_entry_t *job,
                                      const char *name)
{
    CRTI_AUTO(free) char *former = crti_str_dup(job->made->submission);
    crti_msg_row_job_t row = *job->made;
    crt_status_t status;

    row.submission = crti_str(name);
    if (former == NULL || crti_map_put(&table->by_submission, name, job) != CRT_OK)
        return crt_raise(CRT_ERR_NO_MEMORY, "job entry");
    status = change(job, &row);
    crti_map_remove(&table->by_submission, status == CRT_OK ? former : name);
    return status;
}

crt_status_t crti_job_table_retry(crti_job_table_t *table, crti_job_entry_t *failed,
                                  crti_id_t id, int64_t wall_ms,
                                  crti_job_entry_t **job_out)
{
    CRTI_AUTO(free) char *name = name_attempt(table, failed);
    CRTI_AUTO(free) char *former = crti_str_dup(failed->made->submission);
    crti_msg_row_job_t row;
    crti_message_t m;
    crt_status_t status;

    if (name == NULL || former == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "job entry");
    CRT_TRY(rename_submission(table, failed, name));
    status = crti_message_decode(failed->made->submitted.data,
                                 failed->made->submitted.size, &m);
    if (status == CRT_OK && m.kind != CRTI_MSG_JOB_SUBMIT)
        status = crt_raise(CRT_ERR_CORRUPT, "the row of a job is none");
    if (status == CRT_OK)
        status = crti_job_table_submit(table, &m.job_submit, id, wall_ms, job_out);
    if (status == CRT_OK)
        (*job_out)->made->attempt = failed->made->attempt + 1;
    else
        (void)rename_submission(table, failed, former); /* as it was */
    row = *failed->made;
    row.retries = 0;
    row.submitted = crti_span(NULL, 0);
    if (change(failed, &row) != CRT_OK)
        failed->made->retries = 0;
    return status;
}

static void drop(crti_job_table_t *table, crti_job_entry_t *job)
{
    if (crti_job_entry_is_submission(job) &&
        crti_map_get(&table->by_submission, submission_of(job)) == job)
        crti_map_remove(&table->by_submission, submission_of(job));
    crti_map_remove(&table->by_id, &job->id);
    crti_list_remove(&job->in_state);
    table->counts[job->state]--;
    free_job(job);
}

void crti_job_table_undo(crti_job_table_t *table, crti_job_entry_t *job)
{
    drop(table, job);
}

crt_status_t crti_job_table_load(crti_job_table_t *table, const crti_msg_row_job_t *row,
                                 crti_job_entry_t **job_out)
{
    *job_out = crti_job_table_get(table, row->job);
    if (*job_out)
        return CRT_OK;
    return insert(table, row, CRTI_JOB_PENDING, job_out);
}

crt_status_t crti_job_table_load_state(crti_job_table_t *table, crti_job_entry_t *job,
                                       const crti_msg_row_job_state_t *row,
                                       uint64_t now_ns)
{
    if (row->state >= CRTI_JOB_STATES)
        return crt_raise(CRT_ERR_CORRUPT, "job row with state %llu",
                         (unsigned long long)row->state);
    table->counts[job->state]--;
    table->counts[row->state]++;
    job->state = (crti_job_entry_state_t)row->state;
    job->driver = row->driver;
    job->node = row->node;
    job->node_incarnation = row->node_incarnation;
    job->start_sent = row->state == CRTI_JOB_PENDING && !crti_id_is_zero(row->node);
    job->pid = row->pid;
    job->stopping = row->stopping;
    job->has_exit = row->has_exit;
    job->exit_code = row->exit_code;
    job->has_groups =
        row->has_groups || row->state <= CRTI_JOB_RUNNING; /* or not known */
    job->start_ms = row->start_ms;
    job->end_ms = row->end_ms;
    job->expires_ns = now_ns + CRTI_LIMIT(ended_jobs_time);
    crti_str_replace(&job->error_type, row->error_type);
    crti_str_replace(&job->text, row->text);
    if (crti_job_entry_is_ended(job)) {
        crti_list_remove(&job->in_state);
        crti_list_append(&table->ended, &job->in_state);
    }
    return CRT_OK;
}

/* ---------------------------------------------------------------- events */

void crti_job_entry_runs(crti_job_table_t *table, crti_job_entry_t *job, crti_id_t node)
{
    job->node = node;
    crti_str_replace(&job->text, crti_str(""));
    if (job->state == CRTI_JOB_PENDING)
        set_state(table, job, CRTI_JOB_RUNNING);
}

void crti_job_entry_waits(crti_job_table_t *table, crti_job_entry_t *job,
                          const char *text)
{
    crti_str_replace(&job->text, crti_str(text));
}

void crti_job_entry_end(crti_job_table_t *table, crti_job_entry_t *job,
                        crti_job_entry_state_t state, const char *error_type,
                        const char *text, uint64_t now_ns, int64_t wall_ms)
{
    if (crti_job_entry_is_ended(job))
        return;
    job->end_ms = wall_ms;
    job->expires_ns = now_ns + CRTI_LIMIT(ended_jobs_time);
    crti_str_replace(&job->error_type, crti_str(error_type));
    crti_str_replace(&job->text, crti_str(text));
    set_state(table, job, state);
    crti_job_entry_release(job);
}

void crti_job_entry_stop(crti_job_table_t *table, crti_job_entry_t *job, uint64_t now_ns,
                         int64_t wall_ms)
{
    job->stopping = true;
    if (job->state == CRTI_JOB_PENDING && !job->start_sent)
        crti_job_entry_end(table, job, CRTI_JOB_STOPPED, "", "", now_ns, wall_ms);
}

static void set_exit(crti_job_entry_t *job, int ended)
{
    job->has_exit = true;
    job->exit_code = WIFEXITED(ended) ? WEXITSTATUS(ended) : -WTERMSIG(ended);
}

void crti_job_entry_driver_left(crti_job_table_t *table, crti_job_entry_t *job,
                                const char *text, const int64_t *wait_status,
                                uint64_t now_ns, int64_t wall_ms)
{
    bool has_failed = wait_status ? *wait_status != 0 : *text != '\0';
    char how[64];

    if (crti_job_entry_is_ended(job))
        return;
    if (wait_status)
        set_exit(job, (int)*wait_status);
    snprintf(how, sizeof(how), "driver exited with status %d", (int)job->exit_code);
    crti_job_entry_end(table, job, has_failed ? CRTI_JOB_FAILED : CRTI_JOB_SUCCEEDED, "",
                       !has_failed ? ""
                       : *text     ? text
                                   : how,
                       now_ns, wall_ms);
}

void crti_job_entry_exited(crti_job_table_t *table, crti_job_entry_t *job,
                           int64_t wait_status, const char *output, uint64_t now_ns,
                           int64_t wall_ms)
{
    int ended = (int)wait_status;
    char text[CRTI_JOB_MESSAGE];

    if (crti_job_entry_is_ended(job))
        return;
    if (job->state == CRTI_JOB_PENDING) /* the exit came before the answer to JOB_START */
        crti_job_entry_runs(table, job, job->node);
    set_exit(job, ended);
    if (job->stopping) {
        crti_job_entry_end(table, job, CRTI_JOB_STOPPED, "", "", now_ns, wall_ms);
    } else if (WIFEXITED(ended) && WEXITSTATUS(ended) == 0) {
        crti_job_entry_end(table, job, CRTI_JOB_SUCCEEDED, "", "", now_ns, wall_ms);
    } else {
        if (WIFSIGNALED(ended))
            snprintf(
                text, sizeof(text),
                "Job entrypoint command was killed by signal %d (%s), last available "
                "logs (truncated to 20,000 chars):\n%s",
                WTERMSIG(ended), strsignal(WTERMSIG(ended)), output);
        else
            snprintf(text, sizeof(text),
                     "Job entrypoint command failed with exit code %d, last available "
                     "logs (truncated to 20,000 chars):\n%s",
                     WEXITSTATUS(ended), output);
        crti_job_entry_end(table, job, CRTI_JOB_FAILED, "JOB_ENTRYPOINT_COMMAND_ERROR",
                           text, now_ns, wall_ms);
    }
}

void crti_job_entry_release(crti_job_entry_t *job)
{
    crti_msg_row_job_t row = *job->made;

    if (!crti_job_entry_is_ended(job) || job->actors)
        return;
    row.argv = row.environment = crti_span(NULL, 0);
    (void)change(job, &row); /* without memory they are kept */
}

/* ---------------------------------------------------------------- expiry */

crti_job_entry_t *crti_job_table_expired(const crti_job_table_t *table, uint64_t now_ns)
{
    size_t count = table->counts[CRTI_JOB_STOPPED] + table->counts[CRTI_JOB_SUCCEEDED] +
                   table->counts[CRTI_JOB_FAILED];

    CRTI_LIST_FOREACH (item, &table->ended) {
        crti_job_entry_t *job = CRTI_JOB_OF(item);

        if (count <= CRTI_LIMIT(ended_jobs) && job->expires_ns > now_ns)
            return NULL;
        if (job->actors == 0)
            return job;
    }
    return NULL;
}

void crti_job_table_forget(crti_job_table_t *table, crti_job_entry_t *job)
{
    assert(crti_job_entry_is_ended(job));
    drop(table, job);
}

uint64_t crti_job_table_deadline(const crti_job_table_t *table)
{
    CRTI_LIST_FOREACH (item, &table->ended) {
        if (CRTI_JOB_OF(item)->actors == 0)
            return CRTI_JOB_OF(item)->expires_ns;
    }
    return UINT64_MAX;
}

/* ---------------------------------------------------------------- shown and stored */

const char *crti_job_entry_message(const crti_job_entry_t *job, char *text, size_t size)
{
    int most = (int)size - 1; /* snprintf goes through all of what is longer, slowly */

    if (job->state == CRTI_JOB_PENDING && *job->text)
        snprintf(text, size, "%s %.*s", messages[job->state], most, job->text);
    else
        snprintf(text, size, "%.*s", most, *job->text ? job->text : messages[job->state]);
    return text;
}

crti_msg_row_job_state_t crti_job_entry_state_row(const crti_job_entry_t *job)
{
    return (crti_msg_row_job_state_t){
        .job = job->id,
        .state = job->state,
        .driver = job->driver,
        .node = job->node,
        .pid = job->pid,
        .stopping = job->stopping,
        .has_exit = job->has_exit,
        .exit_code = job->exit_code,
        .error_type = crti_str(job->error_type),
        .text = crti_str(job->text),
        .start_ms = job->start_ms,
        .end_ms = job->end_ms,
        .has_groups = job->has_groups,
        .node_incarnation = job->node_incarnation,
    };
}

crti_msg_job_info_t crti_job_entry_info(const crti_job_entry_t *job)
{
    return (crti_msg_job_info_t){
        .job = job->id,
        .driver = job->driver,
        .driver_node = job->node,
        .program = job->made->program,
        .sha = job->made->sha,
        .argv = job->made->argv,
        .environment = job->made->environment,
        .directory = job->made->directory,
    };
}
