/* SPDX-License-Identifier: Apache-2.0 */
/* Logs: the endpoints that read them.
 *
 * Where it sits
 *     http/endpoints.c -> [ http/logs.c ] -> http/head_link.c -> the node that has the file
 * A whole log is read and sent in parts, each when the client has taken the one before: an
 * exchange holds one part, whatever the size of the log. It ends where the log ended when the
 * reply began.
 * Threads: the loop's.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/http/exchange.h"

#define PART        ((uint64_t)128 << 10) /* bytes of one LOG_READ */
#define WAIT_MAX_MS 30000
#define LINES       1000 /* of a log file where the request does not say */
#define LINES_MAX   1000000

#define NAME_MAX_BYTES 128

static const char as_json[] = "application/json; charset=utf-8";
static const char as_text[] = "text/plain; charset=utf-8";

static void ask(crti_http_exchange_t *x, uint64_t offset, uint64_t limit,
                crti_http_exchange_answer_t *on_answer)
{
    crti_msg_log_read_t read = {.name = crti_str(x->log_name),
                                .offset = offset,
                                .limit = limit,
                                .wait_ms = x->wait_ms};

    crti_http_exchange_ask(x, CRTI_MSG_LOG_READ, &read, x->wait_ms, on_answer);
}

/* A failure, and a log that is not there yet: a job's is empty then. */
static bool has_failed(crti_http_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    if (status == CRT_OK && message->kind != CRTI_MSG_LOG_DATA)
        status = crt_raise(CRT_ERR_PROTOCOL, "the head's answer is not a log");
    if (status == CRT_OK)
        return false;
    if (x->headers_sent)
        crti_http_exchange_break(x);
    else if (status != CRT_ERR_NOT_FOUND || x->route != CRTI_ROUTE_JOB_LOGS)
        crti_http_exchange_fail(x, status);
    else if (x->wants_part)
        crti_http_exchange_json(x, 200,
                                json_pack("{s:s, s:I, s:b}", "logs", "", "next",
                                          (json_int_t)x->offset, "ended", x->has_ended));
    else
        crti_http_exchange_json(x, 200, json_pack("{s:s}", "logs", ""));
    return true;
}

/* ---------------------------------------------------------------- one part */

/* It, and where to go on. */
static void on_part(crti_http_exchange_t *x, crt_status_t status,
                    const crti_message_t *message)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    crti_span_t data;
    size_t used = 0;
    bool ended;

    if (has_failed(x, status, message))
        return;
    data = message->log_data.data;
    ended = message->log_data.ended;
    status = crti_utf8_clean(data, ended, &text, &used);
    if (status != CRT_OK) {
        crti_http_exchange_fail(x, status);
        return;
    }
    /* A character cut at the end is read again, whole, with the next part. */
    crti_http_exchange_json(
        x, 200,
        json_pack("{s:s%, s:I, s:b}", "logs", text.size ? (const char *)text.data : "",
                  text.size, "next",
                  (json_int_t)(message->log_data.next - (data.size - used)), "ended",
                  ended));
}

/* ---------------------------------------------------------------- all of it */

static void on_more(crti_http_exchange_t *x, crt_status_t status,
                    const crti_message_t *message);

static void ask_more(crti_http_exchange_t *x)
{
    uint64_t left = x->log_end - x->offset;

    ask(x, x->offset, left < PART ? left : PART, on_more);
}

static crt_status_t append_text(crti_http_exchange_t *x, crti_span_t data, bool is_last,
                                size_t *used_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t clean = {0};
    crt_status_t status = crti_utf8_clean(data, is_last, &clean, used_out);

    if (status != CRT_OK)
        return status;
    return x->route == CRTI_ROUTE_LOG_FILE
               ? crti_buffer_append(&x->reply, clean.data, clean.size)
               : crti_json_escape(crti_span(clean.data, clean.size), &x->reply);
}

/* One part more, with what stands around all of them. */
static crt_status_t append_part(crti_http_exchange_t *x, const crti_msg_log_data_t *data,
                                bool *is_last)
{
    bool is_json = x->route != CRTI_ROUTE_LOG_FILE;
    crt_status_t status = CRT_OK;
    size_t used;

    *is_last = data->data.size == 0 || data->next >= x->log_end;
    if (is_json && !x->headers_sent)
        status = crti_buffer_append(&x->reply, "{\"logs\":\"", 9);
    if (status == CRT_OK)
        status = append_text(x, data->data, *is_last, &used);
    if (status == CRT_OK && !*is_last && used == 0) /* a few bytes, cut from the rest */
        status = append_text(x, data->data, true, &used);
    if (status == CRT_OK && is_json && *is_last)
        status = crti_buffer_append(&x->reply, "\"}", 2);
    /* A character cut at the end is read again, whole, with the next part. */
    if (status == CRT_OK)
        x->offset = data->next - (data->data.size - used);
    return status;
}

static void on_more(crti_http_exchange_t *x, crt_status_t status,
                    const crti_message_t *message)
{
    bool is_last;

    if (has_failed(x, status, message))
        return;
    status = append_part(x, &message->log_data, &is_last);
    if (status != CRT_OK && x->headers_sent)
        crti_http_exchange_break(x);
    else if (status != CRT_OK)
        crti_http_exchange_fail(x, status);
    else if (x->headers_sent)
        crti_http_exchange_part(x, is_last);
    else
        crti_http_exchange_stream(x, x->route == CRTI_ROUTE_LOG_FILE ? as_text : as_json,
                                  is_last, ask_more);
}

/* ---------------------------------------------------------------- its last lines */

static void on_earlier(crti_http_exchange_t *x, crt_status_t status,
                       const crti_message_t *message);

/* Where the last lines begin is known. */
static void begin_there(crti_http_exchange_t *x)
{
    if (x->wants_part)
        ask(x, x->offset, PART, on_part);
    else
        ask_more(x);
}

/* x->offset goes back from the end, part by part, until `limit` lines are behind it. */
static void ask_earlier(crti_http_exchange_t *x)
{
    uint64_t part = x->offset < PART ? x->offset : PART;

    ask(x, x->offset - part, part, on_earlier);
}

static void on_earlier(crti_http_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    uint64_t to = x->offset, asked = to < PART ? 0 : to - PART, from;
    const char *bytes;
    size_t size;

    if (has_failed(x, status, message))
        return;
    bytes = message->log_data.data.data;
    size = message->log_data.data.size;
    from = message->log_data.next -
           size; /* later than asked: the quota took what was there */
    if (from >= to || size == 0) {
        begin_there(x);
        return;
    }
    size = size < to - from ? size : (size_t)(to - from);
    for (; size > 0; size--) {
        bool ends_all = from + size == x->log_end;

        if (bytes[size - 1] == '\n' && !ends_all && --x->limit == 0)
            break;
    }
    x->offset = from + size;
    if (x->limit > 0 && from == asked && from > 0)
        ask_earlier(x);
    else
        begin_there(x);
}

static void on_end(crti_http_exchange_t *x, crt_status_t status,
                   const crti_message_t *message)
{
    if (has_failed(x, status, message))
        return;
    x->log_end = message->log_data.next;
    if (x->wants_tail && x->limit == 0) {
        x->offset = x->log_end;
        begin_there(x);
    } else if (x->limit == 0 || x->log_end == 0) {
        begin_there(x);
    } else {
        x->offset = x->log_end;
        ask_earlier(x);
    }
}

/* ---------------------------------------------------------------- the requests */

static void on_job(crti_http_exchange_t *x, crt_status_t status,
                   const crti_message_t *message)
{
    json_t *jobs = crti_endpoint_state(x, status, message);
    const json_t *job = jobs ? crti_endpoint_job(x, jobs) : NULL;

    if (job && !crti_view_is_submission(job)) {
        crti_http_exchange_text(x, 400, "Can only get logs of submission type jobs");
    } else if (job) {
        x->has_ended = crti_view_has_ended(job);
        snprintf(x->log_name, sizeof(x->log_name), "job:%s",
                 crti_view_text(job, "submission_id"));
        if (x->wants_part && !x->wants_tail)
            ask(x, x->offset, PART, on_part);
        else
            ask(x, 0, 0, on_end);
    }
    json_decref(jobs);
}

void crti_logs_begin_job(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    x->wants_tail = crti_http_arg(request, "tail") != NULL;
    x->wants_part = x->wants_tail || crti_http_arg(request, "offset") != NULL;
    if (x->wants_tail &&
        (crti_http_arg(request, "offset") ||
         !crti_http_arg_number(request, "tail", LINES_MAX, 0, &x->limit))) {
        crti_http_exchange_text(
            x, 400, "tail must be a number up to %d, and goes without offset", LINES_MAX);
        return;
    }
    if (!crti_http_arg_number(request, "offset", INT64_MAX, 0, &x->offset) ||
        !crti_http_arg_number(request, "wait_ms", WAIT_MAX_MS, 0, &x->wait_ms)) {
        crti_http_exchange_text(x, 400, "offset must be a number, wait_ms one up to %d",
                                WAIT_MAX_MS);
        return;
    }
    if (!x->wants_part || x->wants_tail)
        x->wait_ms = 0;
    crti_endpoint_ask_state(x, "jobs", x->id, on_job);
}

void crti_logs_begin_file(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    static const char *const keys[] = {"actor_id", "worker_id", "submission_id",
                                       "filename"};
    const char *name = NULL, *key = NULL, *lines = crti_http_arg(request, "lines");

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !name; i++) {
        key = keys[i];
        name = crti_http_arg(request, key);
    }
    if (!name || !*name) {
        crti_http_exchange_text(
            x, 400, "give one of actor_id, worker_id, submission_id and filename");
        return;
    }
    if (strlen(name) > NAME_MAX_BYTES) {
        crti_http_exchange_text(x, 400, "%s has at most %d bytes", key, NAME_MAX_BYTES);
        return;
    }
    snprintf(x->log_name, sizeof(x->log_name), "%s%s",
             strcmp(key, "submission_id") == 0 ? "job:" : "", name);
    if (lines && strcmp(lines, "-1") == 0) { /* all, as Ray's clients say it */
        x->limit = 0;
    } else if (!crti_http_arg_number(request, "lines", LINES_MAX, LINES, &x->limit)) {
        crti_http_exchange_text(x, 400, "lines must be a number up to %d, or -1 for all",
                                LINES_MAX);
        return;
    }
    ask(x, 0, 0, on_end);
}
