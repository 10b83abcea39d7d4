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
#include <stdlib.h>
#include <string.h>

#include "crt_config.h"
#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/http/actor_call.h"
#include "runtime/http/metrics_text.h"
#include "runtime/http/page.h"
#include "runtime/http/state.h"
#include "runtime/http/state_views.h"
#include "runtime/http/submission.h"
#include "runtime/http/views.h"

#define TAIL_NS   (1 * CRTI_S) /* that the loop waits for the head */
#define JOBS_MAX  10000        /* in one list */
#define LOOKS_MAX 10           /* every second or two: for a head that is started again */

static void json_decref_auto(json_t **json)
{
    json_decref(*json);
}

/* ---------------------------------------------------------------- answers of the head */

static void on_cluster(crti_http_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *cluster = crti_http_exchange_state(x, status, message);

    if (cluster)
        crti_http_exchange_json(x, 200, crti_view_cluster(cluster, x->as_text));
}

static void on_metrics(crti_http_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *metrics = crti_http_exchange_state(x, status, message);

    if (!metrics)
        return;
    x->reply.size = 0;
    status = crti_metrics_text(metrics, &x->reply);
    if (status != CRT_OK)
        crti_http_exchange_fail(x, status);
    else
        crti_http_exchange_reply(x, CRTI_METRICS_TYPE);
}

/* What programs count, also those that ended in the last 10 minutes. */
static void on_user_metrics(crti_http_exchange_t *x, crt_status_t status,
                            const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *metrics = crti_http_exchange_state(x, status, message);

    if (metrics)
        crti_http_exchange_json(x, 200, crti_view_user_metrics(metrics, x->log_name));
}

static void on_job_list(crti_http_exchange_t *x, crt_status_t status,
                        const crti_message_t *message)
{
    x->reply.size = 0;
    if (status == CRT_OK && message->kind != CRTI_MSG_STATE_ANSWER)
        status = crt_raise(CRT_ERR_PROTOCOL, "the head's answer is no list of jobs");
    if (status == CRT_OK)
        status = crti_view_row_list(crti_listing_find("jobs"), message->state_answer.json,
                                    &x->reply);
    if (status == CRT_OK)
        crti_http_exchange_reply(x, "application/json; charset=utf-8");
    else
        crti_http_exchange_fail(x, status);
}

/* The head writes the rows as clients have them. */
static void begin_job_list(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    CRTI_AUTO(free) char *query = NULL;
    uint64_t limit, offset;

    if (!crti_http_arg_number(request, "limit", JOBS_MAX, JOBS_MAX, &limit) ||
        !crti_http_arg_number(request, "offset", INT64_MAX, 0, &offset)) {
        crti_http_exchange_text(
            x, 400, "limit and offset must be numbers, limit up to %d", JOBS_MAX);
        return;
    }
    query = crti_columns_query(
        crti_job_columns, NULL,
        (crti_row_page_t){.limit = limit,
                          .offset = offset,
                          .shown = crti_columns_shown(crti_job_columns)},
        NULL);
    if (query)
        crti_http_exchange_ask_state(x, "jobs", query, on_job_list);
    else
        crti_http_exchange_fail(x, crt_raise(CRT_ERR_NO_MEMORY, "a query"));
}

static void on_job(crti_http_exchange_t *x, crt_status_t status,
                   const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *jobs = crti_http_exchange_state(x, status, message);
    const json_t *job = jobs ? crti_http_exchange_job(x, jobs) : NULL;

    if (job)
        crti_http_exchange_json(x, 200, crti_view_job(job));
}

/* ---------------------------------------------------------------- submit, stop, delete */

static void reply_submitted(crti_http_exchange_t *x)
{
    crti_http_exchange_json(
        x, 200, json_pack("{s:s, s:s}", "job_id", x->id, "submission_id", x->id));
}

static void reply_stopped(crti_http_exchange_t *x, bool was_running)
{
    crti_http_exchange_json(x, 200, json_pack("{s:b}", "stopped", was_running));
}

static void reply_deleted(crti_http_exchange_t *x)
{
    crti_http_exchange_json(x, 200, json_pack("{s:b}", "deleted", 1));
}

static void on_looked(crti_http_exchange_t *x, crt_status_t status,
                      const crti_message_t *message);

static void on_time_to_look(crti_http_exchange_t *x, crt_status_t status,
                            const crti_message_t *message)
{
    crti_http_exchange_ask_state(x, "jobs", x->id, on_looked);
}

/* The head did not say what became of a change: it is looked at, when there is a head again. So
 * what is answered with an error was not done, and who asks again does not do it twice. */
static void look_later(crti_http_exchange_t *x)
{
    x->patience_s = 1;
    crti_http_exchange_wait(x, 0, on_time_to_look);
}

static bool is_unknown(crt_status_t status)
{
    return status == CRT_ERR_HEAD_LOST || status == CRT_ERR_TIMED_OUT;
}

/* Whether the change was made, by the job as it is now (NULL: there is none). */
static bool was_made(const crti_http_exchange_t *x, const json_t *job)
{
    switch (x->route) {
    case CRTI_ROUTE_JOB_DELETE: return !job;
    case CRTI_ROUTE_JOB_STOP: return job && crti_view_has_ended(job);
    default: /* another one of that name was there before */
        return job &&
               json_integer_value(json_object_get(job, "start_time")) >= x->asked_ms;
    }
}

static void on_looked(crti_http_exchange_t *x, crt_status_t status,
                      const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *jobs = NULL;

    if (is_unknown(status) && x->looks++ < LOOKS_MAX) {
        look_later(x);
        return;
    }
    if (is_unknown(status)) {
        crti_http_exchange_text(x, 503,
                                "%s; whether it was done is not known: GET "
                                "/api/jobs/%s says so when there is a head again",
                                crt_error_detail(), x->id);
        return;
    }
    jobs = crti_http_exchange_state(x, status, message);
    if (!jobs)
        return;
    if (!was_made(x, json_array_get(jobs, 0)))
        crti_http_exchange_text(x, 503, "the head did not hear of it; try again");
    else if (x->route == CRTI_ROUTE_JOB_SUBMIT)
        reply_submitted(x);
    else if (x->route == CRTI_ROUTE_JOB_STOP)
        reply_stopped(x, true);
    else
        reply_deleted(x);
}

static void on_submitted(crti_http_exchange_t *x, crt_status_t status,
                         const crti_message_t *message)
{
    if (status == CRT_OK)
        reply_submitted(x);
    else if (x->was_sent && is_unknown(status))
        look_later(x);
    else if (status == CRT_ERR_EXISTS)
        crti_http_exchange_text(
            x, 400,
            "Job with submission_id %s already exists. Please use a different "
            "submission_id.",
            x->id);
    else
        crti_http_exchange_fail(x, status);
}

/* What was uploaded for it is there, and stays in the cache for a while. */
static crt_status_t find_uploads(const crti_http_exchange_t *x, crti_http_submission_t *s)
{
    char sha[65];

    if (s->sha[0] && !crti_program_exists(x->http->programs, s->sha))
        return crt_raise(CRT_ERR_INVALID,
                         "the program %s was not uploaded; PUT it to "
                         "/api/packages/crt/%s first",
                         s->sha, s->sha);
    if (!s->package[0])
        return CRT_OK;
    if (!crti_package_exists(x->http->programs, s->package, sha))
        return crt_raise(CRT_ERR_INVALID,
                         "the package gcs://%s was not uploaded; PUT it to "
                         "/api/packages/gcs/%s first",
                         s->package, s->package);
    return crti_submission_variable(s, CRTI_JOB_PACKAGE, sha);
}

static void submit(crti_http_exchange_t *x)
{
    CRTI_AUTO(crti_submission_fini) crti_http_submission_t s = {0};
    crt_status_t status = crti_submission_parse(x->body.data, x->body.size, &s);

    if (status == CRT_OK)
        status = find_uploads(x, &s);
    if (status != CRT_OK) {
        crti_http_exchange_fail(x, status);
        return;
    }
    if (!s.id[0])
        crti_submission_choose_id(&s, x->is_python);
    snprintf(x->id, sizeof(x->id), "%s", s.id);
    x->asked_ms = crti_wall_ms();
    crti_http_exchange_ask(
        x, CRTI_MSG_JOB_SUBMIT,
        &(crti_msg_job_submit_t){.submission = crti_str(s.id),
                                 .entrypoint = crti_str(s.entrypoint),
                                 .argv = crti_span(s.argv.data, s.argv.size),
                                 .sha = crti_str(s.sha),
                                 .environment =
                                     crti_span(s.environment.data, s.environment.size),
                                 .metadata = crti_str(s.metadata),
                                 .runtime_env = crti_str(s.runtime_env),
                                 .resources = s.resources,
                                 .selector = crti_str(s.selector),
                                 .retries = s.retries},
        0, on_submitted);
}

static void on_stopped(crti_http_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    if (status == CRT_OK || status == CRT_ERR_NOT_FOUND) /* it ended meanwhile */
        reply_stopped(x, status == CRT_OK);
    else if (x->was_sent && is_unknown(status))
        look_later(x);
    else
        crti_http_exchange_fail(x, status);
}

static void on_job_to_stop(crti_http_exchange_t *x, crt_status_t status,
                           const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *jobs = crti_http_exchange_state(x, status, message);
    const json_t *job = jobs ? crti_http_exchange_job(x, jobs) : NULL;
    crti_msg_job_stop_t stop;

    if (!job)
        return;
    if (!crti_view_is_submission(job)) {
        crti_http_exchange_text(x, 400, "Can only stop submission type jobs");
    } else if (crti_view_has_ended(job)) {
        crti_http_exchange_json(x, 200, json_pack("{s:b}", "stopped", 0));
    } else {
        stop.submission = crti_str(crti_view_text(job, "submission_id"));
        crti_http_exchange_ask(x, CRTI_MSG_JOB_STOP, &stop, 10000, on_stopped);
    }
}

static void on_deleted(crti_http_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    if (status == CRT_OK)
        reply_deleted(x);
    else if (x->was_sent && is_unknown(status))
        look_later(x);
    else
        crti_http_exchange_fail(x, status);
}

static void on_job_to_delete(crti_http_exchange_t *x, crt_status_t status,
                             const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *jobs = crti_http_exchange_state(x, status, message);
    const json_t *job = jobs ? crti_http_exchange_job(x, jobs) : NULL;
    crti_msg_job_delete_t delete;

    if (!job)
        return;
    if (!crti_view_is_submission(job)) {
        crti_http_exchange_text(x, 400, "Can only delete submission type jobs");
    } else if (!crti_view_has_ended(job)) {
        crti_http_exchange_text(
            x, 500,
            "Attempted to delete job '%s', but it is in a non-terminal state "
            "%s.",
            x->id, crti_view_text(job, "status"));
    } else {
        delete.submission = crti_str(crti_view_text(job, "submission_id"));
        crti_http_exchange_ask(x, CRTI_MSG_JOB_DELETE, &delete, 0, on_deleted);
    }
}

/* ---------------------------------------------------------------- programs, packages */

static void find_package(crti_http_exchange_t *x)
{
    bool is_program = x->route == CRTI_ROUTE_PROGRAM_GET;
    char sha[65];

    if (is_program ? crti_program_exists(x->http->programs, x->id)
                   : crti_package_exists(x->http->programs, x->id, sha))
        crti_http_exchange_text(x, 200, "%s", "");
    else
        crti_http_exchange_text(x, 404, "Package %s://%s does not exist",
                                is_program ? "crt" : "gcs", x->id);
}

static void begin_upload(crti_http_exchange_t *x)
{
    crt_status_t status =
        crti_upload_new(x->http->programs, x->id, x->body_size, &x->upload);

    if (status != CRT_OK)
        crti_http_exchange_fail(x, status);
}

static void finish_upload(crti_http_exchange_t *x)
{
    crt_status_t status = crti_upload_finish(x->upload);

    if (status != CRT_OK)
        crti_http_exchange_fail(x, status);
    else
        crti_http_exchange_text(x, 200, "%s", "");
}

/* ---------------------------------------------------------------- the rest */

static void reply_version(crti_http_exchange_t *x)
{
    crti_http_exchange_json(
        x, 200,
        json_pack("{s:s, s:s, s:s, s:s, s:s}", "version", "4", "ray_version", "2.52.0",
                  "ray_commit", "0000000000000000000000000000000000000000",
                  "session_name", "crt", "crt_version", CRTI_VERSION));
}

static void reply_health(crti_http_exchange_t *x)
{
    if (crti_head_link_is_up(x->http->link))
        crti_http_exchange_text(x, 200, "success");
    else
        crti_http_exchange_text(x, 503, "the head can't be reached");
}

/* A page shows a token, or the code of a link; what it keeps and shows from then on it gets
 * here. */
static void login(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    const char *header =
        request->authorization[0] ? request->authorization : request->ray_authorization;
    const crti_http_policy_t *policy = &x->http->policy;
    crti_http_access_t access = CRTI_HTTP_STRANGER;
    char session[CRTI_TOKEN_TEXT];
    crti_token_t token;
    uint32_t seconds;

    if (strncasecmp(header, "Bearer ", 7) == 0)
        access = crti_http_token_access(policy, header + 7, &token);
    else if (strncasecmp(header, "Code ", 5) == 0 &&
             crti_sign_in_take(&x->http->sign_in, crti_now_ns(), header + 5, &token) &&
             crti_http_token_is_good(policy, &token))
        access = CRTI_HTTP_OWNER;
    if (!header[0]) {
        crti_http_exchange_text(x, 401, "Unauthorized: Missing authentication token");
    } else if (access == CRTI_HTTP_STRANGER) {
        crti_http_exchange_text(x, 403, "Forbidden: Invalid authentication token");
    } else {
        if (!x->audit) /* by a code: who had it was a stranger until now */
            x->audit = crti_audit_begin(request, "owner", lws_get_socket_fd(x->wsi));
        seconds = crti_http_session(policy, &token, access, session);
        crti_http_exchange_json(x, 200,
                                json_pack("{s:s, s:s, s:I}", "status", "authenticated",
                                          "session", session, "expires_s",
                                          (json_int_t)seconds));
    }
}

/* Who is let in without a token needs no code. */
static void reply_code(crti_http_exchange_t *x)
{
    char code[CRTI_SIGN_IN_TEXT] = "";

    if (!x->http->policy.is_open)
        crti_sign_in_make(&x->http->sign_in, crti_now_ns(), &x->token, code);
    crti_http_exchange_json(x, 200,
                            json_pack("{s:s, s:s, s:i}", "url", x->http->url, "code",
                                      code, "expires_s",
                                      (int)(CRTI_LIMIT(http_link_time) / CRTI_S)));
}

static void begin_cluster_status(crti_http_exchange_t *x,
                                 const crti_http_request_t *request)
{
    const char *format = crti_http_arg(request, "format");

    if (format && strcmp(format, "0") != 0 && strcmp(format, "1") != 0) {
        crti_http_exchange_text(x, 400, "format must be 0 (JSON) or 1 (a text)");
        return;
    }
    x->as_text = format && *format == '1';
    crti_http_exchange_ask_state(x, "cluster", "", on_cluster);
}

static void reply_page(crti_http_exchange_t *x)
{
    const crti_page_file_t *file = crti_page_find(x->id);

    if (file)
        crti_http_exchange_bytes(x, file->type, file->bytes);
    else
        crti_http_exchange_text(x, 404, "404: Not Found");
}

/* The handshake can't wait for the loop. Without a refusal the exchange stays as it is, and its id
 * becomes that of the submission. */
static void begin_tail(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    crti_msg_state_query_t query = {.what = crti_str("jobs"), .filter = crti_str(x->id)};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t storage = {0};
    CRTI_AUTO(json_decref) json_t *jobs = NULL;
    crti_message_t message;
    const json_t *job;
    crt_status_t status;

    if (!crti_http_arg_number(request, "offset", INT64_MAX, 0, &x->offset)) {
        crti_http_exchange_text(x, 400, "offset must be a number");
        return;
    }
    status = crti_head_link_ask_now(x->http->link, CRTI_MSG_STATE_QUERY, &query, TAIL_NS,
                                    &message, &storage);
    jobs = crti_http_exchange_state(x, status, &message);
    job = jobs ? crti_http_exchange_job(x, jobs) : NULL;
    if (job && !crti_view_is_submission(job))
        crti_http_exchange_text(x, 400, "Can only get logs of submission type jobs");
    else if (job)
        snprintf(x->id, sizeof(x->id), "%s", crti_view_text(job, "submission_id"));
}

void crti_endpoint_begin(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    switch (x->route) {
    case CRTI_ROUTE_PAGE: reply_page(x); break;
    case CRTI_ROUTE_HEALTH: reply_health(x); break;
    case CRTI_ROUTE_VERSION: reply_version(x); break;
    case CRTI_ROUTE_AUTH_MODE:
        crti_http_exchange_json(x, 200,
                                json_pack("{s:s, s:I}", "authentication_mode",
                                          x->http->policy.is_open ? "disabled" : "token",
                                          "token_generation",
                                          (json_int_t)x->http->policy.generation));
        break;
    case CRTI_ROUTE_LOGIN: login(x, request); break;
    case CRTI_ROUTE_SIGN_IN_CODE: reply_code(x); break;
    case CRTI_ROUTE_CLUSTER_STATUS: begin_cluster_status(x, request); break;
    case CRTI_ROUTE_METRICS:
        crti_http_exchange_ask_state(x, "metrics", "", on_metrics);
        break;
    case CRTI_ROUTE_USER_METRICS:
        snprintf(x->log_name, sizeof(x->log_name), "%s",
                 crti_http_arg(request, "job_id") ? crti_http_arg(request, "job_id")
                                                  : "");
        crti_http_exchange_ask_state(x, "metrics",
                                     crti_http_arg(request, "recent") ? "recent" : "",
                                     on_user_metrics);
        break;
    case CRTI_ROUTE_STATE: crti_state_begin_list(x, request); break;
    case CRTI_ROUTE_STATE_SUMMARY: crti_state_begin_summary(x, request); break;
    case CRTI_ROUTE_TIMELINE: crti_state_begin_timeline(x, request); break;
    case CRTI_ROUTE_LOG_LIST: crti_state_begin_logs(x, request); break;
    case CRTI_ROUTE_PROGRAM_GET:
    case CRTI_ROUTE_PACKAGE_GET: find_package(x); break;
    case CRTI_ROUTE_PROGRAM_PUT:
    case CRTI_ROUTE_PACKAGE_PUT: begin_upload(x); break;
    case CRTI_ROUTE_JOB_SUBMIT:
        if (x->body_size > CRTI_JOB_JSON_MAX)
            crti_http_exchange_text(x, 413,
                                    "a job description of %llu bytes; the limit is %zu",
                                    (unsigned long long)x->body_size, CRTI_JOB_JSON_MAX);
        break;
    case CRTI_ROUTE_JOB_LIST: begin_job_list(x, request); break;
    case CRTI_ROUTE_JOB_GET:
        crti_http_exchange_ask_state(x, "jobs", x->id, on_job);
        break;
    case CRTI_ROUTE_JOB_LOGS: crti_logs_begin_job(x, request); break;
    case CRTI_ROUTE_LOG_FILE:
    case CRTI_ROUTE_LOG_STREAM: crti_logs_begin_file(x, request); break;
    case CRTI_ROUTE_ACTOR_CALL: crti_actor_call_begin(x, request); break;
    /* Their bodies, if any, are passed over. */
    case CRTI_ROUTE_JOB_STOP:
    case CRTI_ROUTE_JOB_DELETE: break;
    case CRTI_ROUTE_JOB_TAIL: begin_tail(x, request); break;
    }
}

void crti_endpoint_body(crti_http_exchange_t *x)
{
    switch (x->route) {
    case CRTI_ROUTE_PROGRAM_PUT:
    case CRTI_ROUTE_PACKAGE_PUT: finish_upload(x); break;
    case CRTI_ROUTE_JOB_SUBMIT: submit(x); break;
    case CRTI_ROUTE_ACTOR_CALL: crti_actor_call_body(x); break;
    case CRTI_ROUTE_JOB_STOP:
        crti_http_exchange_ask_state(x, "jobs", x->id, on_job_to_stop);
        break;
    case CRTI_ROUTE_JOB_DELETE:
        crti_http_exchange_ask_state(x, "jobs", x->id, on_job_to_delete);
        break;
    default: break; /* the others replied, or asked, at once */
    }
}
