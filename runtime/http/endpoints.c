/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: what each route does. Codes, keys and texts are those of Ray's jobs and state API,
 * so that its clients work; what is ours is in docs/design/http.md.
 *
 * Where it sits
 *     http/exchange.c -> [ http/endpoints.c ] -> http/head_link.c; http/views.c -> reply
 * Threads: the loop's.
 */
#include "runtime/http/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "crt_config.h"
#include "runtime/http/page.h"
#include "runtime/http/submission.h"
#include "runtime/http/views.h"

#define LOG_PART    (1u << 20)  /* bytes of one LOG_READ */
#define LOG_WHOLE   (16u << 20) /* bytes of a whole log in one reply; the end counts */
#define WAIT_MAX_MS 30000
#define ROWS_MAX    10000

static void json_decref_auto(json_t **json)
{
    json_decref(*json);
}

/* ---------------------------------------------------------------- answers of the head */

/* The JSON of a STATE_ANSWER; NULL with the reply made when there is none. */
static json_t *state_of(crti_exchange_t *x, crt_status_t status,
                        const crti_message_t *message)
{
    json_t *json = NULL;

    if (status == CRT_OK && message->kind == CRTI_MSG_STATE_ANSWER)
        json = json_loadb(message->state_answer.json.data,
                          message->state_answer.json.size, JSON_DECODE_ANY, NULL);
    if (json)
        return json;
    if (status == CRT_OK)
        status =
            crt_raise(CRT_ERR_PROTOCOL, "the head's answer is not the JSON expected");
    if (x->route == CRTI_ROUTE_STATE) /* its clients take a text for a lost connection */
        crti_exchange_json(x, 500, crti_view_state_error(crt_error_detail()));
    else
        crti_exchange_fail(x, status);
    return NULL;
}

static void ask_state(crti_exchange_t *x, const char *what, const char *filter,
                      void (*on_answer)(crti_exchange_t *x, crt_status_t status,
                                        const crti_message_t *message))
{
    crti_msg_state_query_t query = {.what = crti_str(what), .filter = crti_str(filter)};

    crti_exchange_ask(x, CRTI_MSG_STATE_QUERY, &query, 0, on_answer);
}

static void on_cluster(crti_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *cluster = state_of(x, status, message);

    if (cluster)
        crti_exchange_json(x, 200, crti_view_cluster(cluster, x->as_text));
}

static void on_state(crti_exchange_t *x, crt_status_t status,
                     const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *rows = state_of(x, status, message);

    if (rows)
        crti_exchange_json(x, 200, crti_view_state(x->id, rows, x->limit, x->level));
}

static void on_job_list(crti_exchange_t *x, crt_status_t status,
                        const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *jobs = state_of(x, status, message);

    if (jobs)
        crti_exchange_json(x, 200, crti_view_jobs(jobs));
}

/* The one job of x->id, borrowed from `jobs`; NULL with the reply made. */
static const json_t *the_job(crti_exchange_t *x, const json_t *jobs)
{
    const json_t *job = json_array_get(jobs, 0);

    if (!job)
        crti_exchange_text(x, 404, "Job %s does not exist", x->id);
    return job;
}

static void on_job(crti_exchange_t *x, crt_status_t status, const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *jobs = state_of(x, status, message);
    const json_t *job = jobs ? the_job(x, jobs) : NULL;

    if (job)
        crti_exchange_json(x, 200, crti_view_job(job));
}

static bool is_submission(const json_t *job)
{
    return strcmp(crti_view_text(job, "type"), "DRIVER") != 0;
}

static bool has_ended(const json_t *job)
{
    const char *status = crti_view_text(job, "status");

    return strcmp(status, "PENDING") != 0 && strcmp(status, "RUNNING") != 0;
}

/* ---------------------------------------------------------------- submit, stop, delete */

static void on_submitted(crti_exchange_t *x, crt_status_t status,
                         const crti_message_t *message)
{
    if (status == CRT_OK)
        crti_exchange_json(
            x, 200, json_pack("{s:s, s:s}", "job_id", x->id, "submission_id", x->id));
    else if (status == CRT_ERR_EXISTS)
        crti_exchange_text(
            x, 400,
            "Job with submission_id %s already exists. Please use a different "
            "submission_id.",
            x->id);
    else
        crti_exchange_fail(x, status);
}

static void submit(crti_exchange_t *x)
{
    CRTI_AUTO(crti_submission_fini) crti_submission_t s = {0};
    crt_status_t status = crti_submission_parse(x->body.data, x->body.size, &s);

    if (status == CRT_OK && s.sha[0] && !crti_program_exists(x->http->programs, s.sha))
        status = crt_raise(CRT_ERR_INVALID,
                           "the program %s was not uploaded; PUT it to "
                           "/api/packages/crt/%s first",
                           s.sha, s.sha);
    if (status != CRT_OK) {
        crti_exchange_fail(x, status);
        return;
    }
    snprintf(x->id, sizeof(x->id), "%s", s.id);
    crti_exchange_ask(
        x, CRTI_MSG_JOB_SUBMIT,
        &(crti_msg_job_submit_t){.submission = crti_str(s.id),
                                 .entrypoint = crti_str(s.entrypoint),
                                 .argv = crti_span(s.argv.data, s.argv.size),
                                 .sha = crti_str(s.sha),
                                 .environment =
                                     crti_span(s.environment.data, s.environment.size),
                                 .metadata = crti_str(s.metadata)},
        0, on_submitted);
}

static void on_stopped(crti_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    if (status == CRT_OK || status == CRT_ERR_NOT_FOUND) /* it ended meanwhile */
        crti_exchange_json(x, 200, json_pack("{s:b}", "stopped", status == CRT_OK));
    else
        crti_exchange_fail(x, status);
}

static void on_job_to_stop(crti_exchange_t *x, crt_status_t status,
                           const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *jobs = state_of(x, status, message);
    const json_t *job = jobs ? the_job(x, jobs) : NULL;
    crti_msg_job_stop_t stop;

    if (!job)
        return;
    if (!is_submission(job)) {
        crti_exchange_text(x, 400, "Can only stop submission type jobs");
    } else if (has_ended(job)) {
        crti_exchange_json(x, 200, json_pack("{s:b}", "stopped", 0));
    } else {
        stop.submission = crti_str(crti_view_text(job, "submission_id"));
        crti_exchange_ask(x, CRTI_MSG_JOB_STOP, &stop, 10000, on_stopped);
    }
}

static void on_deleted(crti_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    if (status == CRT_OK)
        crti_exchange_json(x, 200, json_pack("{s:b}", "deleted", 1));
    else
        crti_exchange_fail(x, status);
}

static void on_job_to_delete(crti_exchange_t *x, crt_status_t status,
                             const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *jobs = state_of(x, status, message);
    const json_t *job = jobs ? the_job(x, jobs) : NULL;
    crti_msg_job_delete_t delete;

    if (!job)
        return;
    if (!is_submission(job)) {
        crti_exchange_text(x, 400, "Can only delete submission type jobs");
    } else if (!has_ended(job)) {
        crti_exchange_text(
            x, 500,
            "Attempted to delete job '%s', but it is in a non-terminal state "
            "%s.",
            x->id, crti_view_text(job, "status"));
    } else {
        delete.submission = crti_str(crti_view_text(job, "submission_id"));
        crti_exchange_ask(x, CRTI_MSG_JOB_DELETE, &delete, 0, on_deleted);
    }
}

/* ---------------------------------------------------------------- logs */

static void ask_log(crti_exchange_t *x,
                    void (*on_answer)(crti_exchange_t *x, crt_status_t status,
                                      const crti_message_t *message))
{
    crti_msg_log_read_t read = {.name = crti_str(x->log_name),
                                .offset = x->offset,
                                .limit = LOG_PART,
                                .wait_ms = x->wait_ms};

    crti_exchange_ask(x, CRTI_MSG_LOG_READ, &read, x->wait_ms, on_answer);
}

/* A failure, and a log that is not there yet: a job's is empty then. */
static bool log_failed(crti_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    if (status == CRT_OK && message->kind != CRTI_MSG_LOG_DATA)
        status = crt_raise(CRT_ERR_PROTOCOL, "the head's answer is not a log");
    if (status == CRT_OK)
        return false;
    if (status != CRT_ERR_NOT_FOUND || x->route != CRTI_ROUTE_JOB_LOGS)
        crti_exchange_fail(x, status);
    else if (x->wants_part)
        crti_exchange_json(x, 200,
                           json_pack("{s:s, s:I, s:b}", "logs", "", "next",
                                     (json_int_t)x->offset, "ended", x->has_ended));
    else
        crti_exchange_json(x, 200, json_pack("{s:s}", "logs", ""));
    return true;
}

/* One part, and where to go on. */
static void on_log_part(crti_exchange_t *x, crt_status_t status,
                        const crti_message_t *message)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    crti_span_t data;
    size_t used = 0;
    bool ended;

    if (log_failed(x, status, message))
        return;
    data = message->log_data.data;
    ended = message->log_data.ended;
    status = crti_utf8_clean(data, ended, &text, &used);
    if (status != CRT_OK) {
        crti_exchange_fail(x, status);
        return;
    }
    /* A character cut at the end is read again, whole, with the next part. */
    crti_exchange_json(
        x, 200,
        json_pack("{s:s%, s:I, s:b}", "logs", text.size ? (const char *)text.data : "",
                  text.size, "next",
                  (json_int_t)(message->log_data.next - (data.size - used)), "ended",
                  ended));
}

/* Keeps the last `lines` lines of what was gathered. */
static void keep_lines(crti_buffer_t *text, uint64_t lines)
{
    size_t at = text->size;

    if (at && text->data[at - 1] == '\n')
        at--;
    while (at && lines) {
        at--;
        if (text->data[at] == '\n' && --lines == 0)
            at++;
        if (!lines)
            break;
    }
    crti_buffer_consume(text, at);
}

static void on_log_more(crti_exchange_t *x, crt_status_t status,
                        const crti_message_t *message)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    size_t used;

    if (log_failed(x, status, message))
        return;
    status = crti_buffer_append(&x->gathered, message->log_data.data.data,
                                message->log_data.data.size);
    if (x->gathered.size > LOG_WHOLE)
        crti_buffer_consume(&x->gathered, x->gathered.size - LOG_WHOLE);
    if (status == CRT_OK && message->log_data.data.size > 0 &&
        message->log_data.next > x->offset) {
        x->offset = message->log_data.next;
        ask_log(x, on_log_more);
        return;
    }
    if (x->limit)
        keep_lines(&x->gathered, x->limit);
    if (status == CRT_OK)
        status = crti_utf8_clean(crti_span(x->gathered.data, x->gathered.size), true,
                                 &text, &used);
    if (status != CRT_OK)
        crti_exchange_fail(x, status);
    else if (x->route == CRTI_ROUTE_LOG_FILE)
        crti_exchange_buffer(x, "text/plain; charset=utf-8", &text);
    else
        crti_exchange_json(x, 200,
                           json_pack("{s:s%}", "logs",
                                     text.size ? (const char *)text.data : "",
                                     text.size));
}

static void on_job_to_read(crti_exchange_t *x, crt_status_t status,
                           const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *jobs = state_of(x, status, message);
    const json_t *job = jobs ? the_job(x, jobs) : NULL;

    if (!job)
        return;
    if (!is_submission(job)) {
        crti_exchange_text(x, 400, "Can only get logs of submission type jobs");
        return;
    }
    x->has_ended = has_ended(job);
    snprintf(x->log_name, sizeof(x->log_name), "job:%s",
             crti_view_text(job, "submission_id"));
    ask_log(x, x->wants_part ? on_log_part : on_log_more);
}

static void begin_log_file(crti_exchange_t *x, const crti_http_request_t *request)
{
    static const char *const keys[] = {"actor_id", "worker_id", "submission_id",
                                       "filename"};
    const char *name = NULL, *key = NULL;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !name; i++) {
        key = keys[i];
        name = crti_http_arg(request, key);
    }
    if (!name || !*name || strlen(name) > 128) {
        crti_exchange_text(x, 400,
                           "give one of actor_id, worker_id, submission_id and filename");
        return;
    }
    snprintf(x->log_name, sizeof(x->log_name), "%s%s",
             strcmp(key, "submission_id") == 0 ? "job:" : "", name);
    if (!crti_http_arg_number(request, "lines", 1000000, 1000, &x->limit)) {
        crti_exchange_text(x, 400, "lines must be a number up to 1000000");
        return;
    }
    ask_log(x, on_log_more);
}

static void begin_job_logs(crti_exchange_t *x, const crti_http_request_t *request)
{
    x->wants_part = crti_http_arg(request, "offset") != NULL;
    if (!crti_http_arg_number(request, "offset", INT64_MAX, 0, &x->offset) ||
        !crti_http_arg_number(request, "wait_ms", WAIT_MAX_MS, 0, &x->wait_ms)) {
        crti_exchange_text(x, 400, "offset must be a number, wait_ms one up to %d",
                           WAIT_MAX_MS);
        return;
    }
    ask_state(x, "jobs", x->id, on_job_to_read);
}

/* ---------------------------------------------------------------- programs */

static void begin_upload(crti_exchange_t *x)
{
    crt_status_t status =
        crti_upload_new(x->http->programs, x->id, x->body_size, &x->upload);

    if (status != CRT_OK)
        crti_exchange_fail(x, status);
}

static void finish_upload(crti_exchange_t *x)
{
    crt_status_t status = crti_upload_finish(x->upload);

    if (status != CRT_OK)
        crti_exchange_fail(x, status);
    else
        crti_exchange_text(x, 200, "%s", "");
}

/* ---------------------------------------------------------------- the rest */

static void reply_version(crti_exchange_t *x)
{
    crti_exchange_json(x, 200,
                       json_pack("{s:s, s:s, s:s, s:s, s:s}", "version", "4",
                                 "ray_version", "2.52.0", "ray_commit",
                                 "0000000000000000000000000000000000000000",
                                 "session_name", "crt", "crt_version", CRT_VERSION));
}

static void reply_health(crti_exchange_t *x)
{
    if (crti_head_link_is_up(x->http->link))
        crti_exchange_text(x, 200, "success");
    else
        crti_exchange_text(x, 503, "the head can't be reached");
}

/* The token comes as a bearer header; a browser keeps it as a cookie that scripts can't read. */
static void login(crti_exchange_t *x, const crti_http_request_t *request)
{
    const char *header =
        request->authorization[0] ? request->authorization : request->ray_authorization;

    if (!header[0]) {
        crti_exchange_text(x, 401, "Unauthorized: Missing authentication token");
    } else if (strncasecmp(header, "Bearer ", 7) != 0 ||
               !crti_http_token_is(&x->http->policy, header + 7)) {
        crti_exchange_text(x, 403, "Forbidden: Invalid authentication token");
    } else {
        x->sets_cookie = true;
        crti_exchange_json(x, 200, json_pack("{s:s}", "status", "authenticated"));
    }
}

static void begin_state(crti_exchange_t *x, const crti_http_request_t *request)
{
    const char *detail = crti_http_arg(request, "detail");

    if (!crti_http_arg_number(request, "limit", ROWS_MAX, 100, &x->limit)) {
        crti_exchange_json(x, 400,
                           crti_view_state_error("limit must be a number up to 10000"));
        return;
    }
    x->level = !detail                      ? CRTI_VIEW_BASE
               : strcmp(detail, "crt") == 0 ? CRTI_VIEW_ALL
               : strcasecmp(detail, "true") == 0 || strcmp(detail, "1") == 0
                   ? CRTI_VIEW_DETAIL
                   : CRTI_VIEW_BASE;
    ask_state(x, x->id, "", on_state);
}

static void reply_page(crti_exchange_t *x)
{
    const crti_page_file_t *file = crti_page_find(x->id);

    if (file)
        crti_exchange_bytes(x, file->type, file->bytes);
    else
        crti_exchange_text(x, 404, "404: Not Found");
}

void crti_endpoint_begin(crti_exchange_t *x, const crti_http_request_t *request)
{
    switch (x->route) {
    case CRTI_ROUTE_PAGE: reply_page(x); break;
    case CRTI_ROUTE_HEALTH: reply_health(x); break;
    case CRTI_ROUTE_VERSION: reply_version(x); break;
    case CRTI_ROUTE_AUTH_MODE:
        crti_exchange_json(x, 200, json_pack("{s:s}", "authentication_mode", "token"));
        break;
    case CRTI_ROUTE_LOGIN: login(x, request); break;
    case CRTI_ROUTE_CLUSTER_STATUS: {
        const char *format = crti_http_arg(request, "format");

        x->as_text = format && strcmp(format, "1") == 0;
        ask_state(x, "cluster", "", on_cluster);
        break;
    }
    case CRTI_ROUTE_STATE: begin_state(x, request); break;
    case CRTI_ROUTE_PACKAGE_GET:
        if (crti_program_exists(x->http->programs, x->id))
            crti_exchange_text(x, 200, "%s", "");
        else
            crti_exchange_text(x, 404, "Package crt://%s does not exist", x->id);
        break;
    case CRTI_ROUTE_PACKAGE_PUT: begin_upload(x); break;
    case CRTI_ROUTE_JOB_SUBMIT:
        if (x->body_size > CRTI_JOB_JSON_MAX)
            crti_exchange_text(x, 413,
                               "a job description of %llu bytes; the limit is %zu",
                               (unsigned long long)x->body_size, CRTI_JOB_JSON_MAX);
        break;
    case CRTI_ROUTE_JOB_LIST: ask_state(x, "jobs", "", on_job_list); break;
    case CRTI_ROUTE_JOB_GET: ask_state(x, "jobs", x->id, on_job); break;
    case CRTI_ROUTE_JOB_LOGS: begin_job_logs(x, request); break;
    case CRTI_ROUTE_LOG_FILE: begin_log_file(x, request); break;
    /* Their bodies, if any, are passed over. */
    case CRTI_ROUTE_JOB_STOP:
    case CRTI_ROUTE_JOB_DELETE: break;
    }
}

void crti_endpoint_body(crti_exchange_t *x)
{
    switch (x->route) {
    case CRTI_ROUTE_PACKAGE_PUT: finish_upload(x); break;
    case CRTI_ROUTE_JOB_SUBMIT: submit(x); break;
    case CRTI_ROUTE_JOB_STOP: ask_state(x, "jobs", x->id, on_job_to_stop); break;
    case CRTI_ROUTE_JOB_DELETE: ask_state(x, "jobs", x->id, on_job_to_delete); break;
    default: break; /* the others replied, or asked, at once */
    }
}
