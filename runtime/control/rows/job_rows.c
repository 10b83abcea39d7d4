/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs as JSON: all, one, those that a query wants, or their numbers (docs/design/state.md,
 * "jobs").
 *
 * Where it sits
 *     STATE_QUERY -> state_json.c -> [ control/rows/job_rows.c ] -> STATE_ANSWER
 * Lists have the beginning of a long text only; all of it is in the answer for one job.
 * Trust: metadata and runtime_env are JSON of users, also of a store that others wrote: what is no
 * object, or is nested deeper than a submission may be, is shown as an empty one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "runtime/base/json_shape.h"
#include "runtime/control/control_state.h"
#include "runtime/control/rows/column_list.h"
#include "runtime/control/rows/row_query.h"
#include "runtime/control/rows/state_rows.h"

#define OBJECT_BYTES ((size_t)4096) /* of an object of users that a list shows */

CRTI_COLUMN_IDS(CRTI_JOB_COLUMNS);
CRTI_COLUMN_KEYS(CRTI_JOB_COLUMNS);

/* What rows are read from, and texts of their cells. */
typedef struct view {
    const crti_control_t *c;
    bool is_whole; /* of one job: no text is cut */
    char hex[2][CRTI_ID_HEX];
    char entrypoint[CRTI_LIST_TEXT], cut[CRTI_LIST_TEXT], info[256];
    char message[CRTI_JOB_MESSAGE];
    char left_out[2][128];
} view_t;

/* ---------------------------------------------------------------- cells */

static crti_cell_t time_cell(int64_t ms)
{
    return ms ? crti_cell_number((double)ms) : (crti_cell_t){0};
}

static crti_cell_t long_cell(const view_t *view, const char *text,
                             char cut[CRTI_LIST_TEXT])
{
    return crti_cell_text(view->is_whole ? text : crti_list_text(text, cut));
}

static crti_cell_t message_cell(view_t *view, const crti_job_entry_t *job)
{
    crti_job_entry_message(job, view->message,
                           view->is_whole ? CRTI_JOB_MESSAGE : CRTI_LIST_TEXT + 1);
    return long_cell(view, view->message, view->cut);
}

static bool is_object(const char *text)
{
    crti_json_shape_t shape = crti_json_shape(crti_str(text));
    json_t *json;
    bool yes;

    if (shape.depth > CRTI_JSON_DEPTH_MAX || shape.has_zero)
        return false;
    json = json_loads(text, 0, NULL);
    yes = json_is_object(json);
    json_decref(json);
    return yes;
}

static crti_cell_t object_cell(const view_t *view, const char *text, char left_out[128])
{
    size_t size = strlen(text);

    if (!view->is_whole && size > OBJECT_BYTES) {
        snprintf(left_out, 128,
                 "{\"...\":\"%zu bytes, which are shown of one job only\"}", size);
        return crti_cell_json(left_out);
    }
    if (size <= 2 || !is_object(text))
        return crti_cell_json("{}");
    return crti_cell_json(text);
}

static crti_cell_t ip_cell(const view_t *view, const crti_job_entry_t *job)
{
    const crti_node_entry_t *node = crti_node_table_get(&view->c->nodes, job->node);

    return crti_cell_text(node && node->ip ? node->ip : "");
}

/* Of who runs, as clients of jobs have it: {"id": ..., "node_ip_address": ..., "pid": "17"}, or
 * null. */
static crti_cell_t info_cell(view_t *view, const crti_job_entry_t *job)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};
    char pid[24];

    if (job->pid == 0)
        return crti_cell_json("null");
    snprintf(pid, sizeof(pid), "%lld", (long long)job->pid);
    crti_json_open(&w, '{');
    crti_json_key(&w, "id");
    crti_json_id(&w, job->id);
    crti_json_key(&w, "node_ip_address");
    crti_json_text(&w, ip_cell(view, job).text);
    crti_json_key(&w, "pid");
    crti_json_text(&w, pid);
    crti_json_close(&w, '}');
    if (w.status != CRT_OK || text.size >= sizeof(view->info))
        return crti_cell_json("null");
    memcpy(view->info, text.data, text.size);
    view->info[text.size] = '\0';
    return crti_cell_json(view->info);
}

static crti_cell_t driver_cell(view_t *view, const crti_job_entry_t *job, size_t column)
{
    switch (column) {
    case DRIVER_NODE_ID: return crti_cell_id(job->node, view->hex[1]);
    case DRIVER_NODE_IP: return ip_cell(view, job);
    case DRIVER_PID:
        return job->pid ? crti_cell_number((double)job->pid) : (crti_cell_t){0};
    case DRIVER_EXIT_CODE:
        return job->has_exit ? crti_cell_number((double)job->exit_code)
                             : (crti_cell_t){0};
    default: return info_cell(view, job);
    }
}

static crti_cell_t job_cell(void *user, const void *row, size_t column)
{
    const crti_job_entry_t *job = row;
    view_t *view = user;

    switch (column) {
    case TYPE:
        return crti_cell_text(crti_job_entry_is_submission(job) ? "SUBMISSION"
                                                                : "DRIVER");
    case JOB_ID: return crti_cell_id(job->id, view->hex[0]);
    case NUMBER: return crti_cell_number((double)job->made->number);
    case SUBMISSION_ID: return crti_cell_text(crti_copied_text(job->made->submission));
    case ATTEMPT_NUMBER: return crti_cell_number((double)job->made->attempt);
    case RETRIES_LEFT: return crti_cell_number((double)job->made->retries);
    case STATUS: return crti_cell_text(crti_job_state_name(job->state));
    case ENTRYPOINT:
        return long_cell(view, crti_copied_text(job->made->entrypoint), view->entrypoint);
    case MESSAGE: return message_cell(view, job);
    case ERROR_TYPE: return crti_cell_text(job->error_type);
    case START_TIME: return time_cell(job->start_ms);
    case END_TIME: return time_cell(job->end_ms);
    case METADATA:
        return object_cell(view, crti_copied_text(job->made->metadata),
                           view->left_out[0]);
    case RUNTIME_ENV:
        return object_cell(view, crti_copied_text(job->made->runtime_env),
                           view->left_out[1]);
    case HAS_RUNTIME_ENV: return crti_cell_bool(job->made->runtime_env.size > 2);
    default: return driver_cell(view, job, column);
    }
}

static crti_row_table_t table_of(view_t *view)
{
    return (crti_row_table_t){
        .name = "jobs", .columns = columns, .cell = job_cell, .user = view};
}

/* ---------------------------------------------------------------- answers */

static void write_job(crti_json_writer_t *w, view_t *view, const crti_job_entry_t *job)
{
    const crti_row_table_t table = table_of(view);

    crti_json_open(w, '{');
    for (size_t column = 0; column < COLUMNS; column++)
        if (column != HAS_RUNTIME_ENV && column != DRIVER_INFO)
            crti_row_column_write(w, &table, job, column);
    crti_json_close(w, '}');
}

static void write_one(void *user, crti_json_writer_t *w, const void *row)
{
    write_job(w, user, row);
}

/* Submitted ones, or the other drivers, backwards: the newest first. */
static void offer(const crti_control_t *c, crti_row_picker_t *picker, bool submissions)
{
    const crti_list_t *lists[] = {&c->jobs.running, &c->jobs.ended};

    for (size_t i = 0; i < 2; i++)
        for (const crti_list_t *at = lists[i]->prev; at != lists[i]; at = at->prev)
            if (crti_job_entry_is_submission(CRTI_JOB_OF(at)) == submissions)
                crti_row_picker_offer(picker, CRTI_JOB_OF(at));
}

static const crti_job_entry_t *find(const crti_control_t *c, crti_span_t name)
{
    const crti_job_entry_t *job = crti_job_table_find(&c->jobs, name);
    char text[CRTI_ID_HEX + 1];
    crti_id_t id;

    if (!job && crti_id_parse(crti_text(name, text, sizeof(text)), &id))
        job = crti_job_table_get(&c->jobs, id);
    return job;
}

static void write_list(crti_json_writer_t *w, view_t *view, crti_span_t name)
{
    const crti_job_entry_t *job = name.size ? find(view->c, name) : NULL;
    crti_row_table_t table = table_of(view);
    crti_row_picker_t picker = {.table = &table, .write = write_one, .w = w};

    view->is_whole = name.size > 0;
    crti_json_open(w, '[');
    if (job)
        write_job(w, view, job);
    for (int i = 0; i < 2 && !name.size; i++)
        offer(view->c, &picker, i == 0);
    crti_json_close(w, ']');
}

crt_status_t crti_job_rows_check(crti_span_t filter)
{
    crti_row_table_t table = table_of(NULL);

    return crti_row_query_check(filter, &table);
}

static crt_status_t write_answer(crti_json_writer_t *w, view_t *view, crti_span_t filter)
{
    crti_row_table_t table = table_of(view);
    crti_row_query_t query;
    crti_row_picker_t picker = {
        .table = &table, .query = &query, .write = write_one, .w = w};
    crt_status_t status;

    if (!crti_row_query_is(filter)) {
        write_list(w, view, filter);
        return w->status;
    }
    status = crti_row_query_parse(filter, &table, &query);
    if (status != CRT_OK)
        return status;
    view->is_whole = crti_row_query_is_of_one(&query, SUBMISSION_ID) ||
                     crti_row_query_is_of_one(&query, JOB_ID);
    crti_json_open(w, '{');
    crti_row_picker_begin(&picker);
    offer(view->c, &picker, true);
    offer(view->c, &picker, false);
    crti_row_picker_end(&picker);
    crti_json_close(w, '}');
    crti_row_query_fini(&query);
    return w->status;
}

char *crti_job_rows(const crti_control_t *c, crti_span_t filter)
{
    crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};
    view_t view = {.c = c};
    crt_status_t status = write_answer(&w, &view, filter);

    return crti_json_take(&w, status);
}
