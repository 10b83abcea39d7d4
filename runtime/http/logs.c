/* SPDX-License-Identifier: Apache-2.0 */
/* Logs: the endpoints that read them.
 *
 * Where it sits
 *     http/endpoints.c -> [ http/logs.c ] -> http/head_link.c -> the node that has the file
 * A whole log is read and sent in parts, each when the client has taken the one before: an
 * exchange holds one part, whatever the size of the log. It ends where the log ended when the
 * reply began. Of a task it is the part of its worker's log between two places that the worker
 * noted. Threads: the loop's.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/base/address.h"
#include "runtime/http/exchange.h"
#include "runtime/http/filter.h"

#define PART           ((uint64_t)128 << 10) /* bytes of one LOG_READ */
#define WAIT_MAX_MS    30000
#define STREAM_WAIT_MS 10000 /* for more of a log that is followed */
#define TASK_WAIT_MS                                                                     \
    1000 /* the same while a task runs: then whether it still does is asked */
#define LINES     1000 /* of a log file where the request does not say */
#define LINES_MAX 1000000

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

/* The reply is the log as it is. */
static bool is_file(const crti_http_exchange_t *x)
{
    return x->route == CRTI_ROUTE_LOG_FILE || x->route == CRTI_ROUTE_LOG_STREAM;
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
                                json_pack("{s:s, s:I, s:b, s:I}", "logs", "", "next",
                                          (json_int_t)x->offset, "ended", x->has_ended,
                                          "attempt", (json_int_t)x->attempt));
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
        json_pack("{s:s%, s:I, s:b, s:I}", "logs",
                  text.size ? (const char *)text.data : "", text.size, "next",
                  (json_int_t)(message->log_data.next - (data.size - used)), "ended",
                  ended, "attempt", (json_int_t)x->attempt));
}

/* ---------------------------------------------------------------- all of it */

static void on_more(crti_http_exchange_t *x, crt_status_t status,
                    const crti_message_t *message);

static void on_task_again(crti_http_exchange_t *x, crt_status_t status,
                          const crti_message_t *message);

static bool is_followed(const crti_http_exchange_t *x)
{
    return x->route == CRTI_ROUTE_LOG_STREAM && (!x->is_task_log || x->is_task_open);
}

static void ask_next(crti_http_exchange_t *x)
{
    uint64_t left = x->log_end > x->offset ? x->log_end - x->offset : 0;

    x->wait_ms = !is_followed(x) ? 0 : x->is_task_open ? TASK_WAIT_MS : STREAM_WAIT_MS;
    if (is_followed(x))
        left = PART;
    ask(x, x->offset, left < PART ? left : PART, on_more);
}

static void ask_more(crti_http_exchange_t *x)
{
    if (is_followed(x) && x->is_task_log)
        crti_http_exchange_ask_state(x, "tasks", x->id, on_task_again);
    else
        ask_next(x);
}

static crt_status_t append_text(crti_http_exchange_t *x, crti_span_t data, bool is_last,
                                size_t *used_out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t clean = {0};
    crt_status_t status = crti_utf8_clean(data, is_last, &clean, used_out);

    if (status != CRT_OK)
        return status;
    return is_file(x) ? crti_buffer_append(&x->reply, clean.data, clean.size)
                      : crti_json_escape(crti_span(clean.data, clean.size), &x->reply);
}

/* One part more, with what stands around all of them. */
static crt_status_t append_part(crti_http_exchange_t *x, const crti_msg_log_data_t *data,
                                bool *is_last)
{
    bool is_json = !is_file(x);
    crt_status_t status = CRT_OK;
    size_t used;

    *is_last =
        is_followed(x) ? data->ended : data->data.size == 0 || data->next >= x->log_end;
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
    if (status == CRT_OK && x->reply.size == 0 && !is_last) {
        ask_more(x); /* nothing came in that time */
        return;
    }
    if (status != CRT_OK && x->headers_sent)
        crti_http_exchange_break(x);
    else if (status != CRT_OK)
        crti_http_exchange_fail(x, status);
    else if (x->headers_sent)
        crti_http_exchange_part(x, is_last);
    else
        crti_http_exchange_stream(x, is_file(x) ? as_text : as_json, is_last, ask_more);
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
    uint64_t before = x->offset - x->log_start, part = before < PART ? before : PART;

    ask(x, x->offset - part, part, on_earlier);
}

static void on_earlier(crti_http_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    uint64_t to = x->offset, from;
    uint64_t asked = to - x->log_start < PART ? x->log_start : to - PART;
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
    if (x->limit > 0 && from == asked && from > x->log_start)
        ask_earlier(x);
    else
        begin_there(x);
}

/* Both ends of what is read are known. */
static void begin_between(crti_http_exchange_t *x)
{
    if (x->log_end < x->log_start)
        x->log_end = x->log_start;
    if (x->wants_tail && x->limit == 0) {
        x->offset = x->log_end;
        begin_there(x);
    } else if (x->limit == 0 || x->log_end == x->log_start) {
        x->offset = x->log_start;
        begin_there(x);
    } else {
        x->offset = x->log_end;
        ask_earlier(x);
    }
}

static void on_end(crti_http_exchange_t *x, crt_status_t status,
                   const crti_message_t *message)
{
    if (has_failed(x, status, message))
        return;
    x->log_end = message->log_data.next;
    begin_between(x);
}

/* ---------------------------------------------------------------- the lines of a task */

/* The attempt that is meant, or the newest; NULL: none is known. */
static const json_t *find_attempt(const crti_http_exchange_t *x, const json_t *answer)
{
    const json_t *rows = json_object_get(answer, "tasks"), *row;
    size_t i;

    json_array_foreach((json_t *)rows, i, row)
    {
        json_int_t attempt = json_integer_value(json_object_get(row, "attempt_number"));

        if (x->attempt == UINT64_MAX || (uint64_t)attempt == x->attempt)
            return row;
    }
    return NULL;
}

/* Where its lines are. False: that is not known. */
static bool read_place(crti_http_exchange_t *x, const json_t *row)
{
    const json_t *log = json_object_get(row, "log"), *from = json_object_get(log, "from"),
                 *to = json_object_get(log, "to");
    const char *state = crti_view_text(row, "state");
    bool has_ended = strcmp(state, "FINISHED") == 0 || strcmp(state, "FAILED") == 0;

    if (!json_is_integer(from) || (has_ended && !json_is_integer(to)))
        return false;
    snprintf(x->log_name, sizeof(x->log_name), "%s", crti_view_text(row, "worker_id"));
    x->log_start = (uint64_t)json_integer_value(from);
    x->is_task_open = !has_ended;
    if (has_ended)
        x->log_end = (uint64_t)json_integer_value(to);
    return true;
}

static void on_task(crti_http_exchange_t *x, crt_status_t status,
                    const crti_message_t *message)
{
    json_t *answer = crti_http_exchange_state(x, status, message);
    const json_t *row = answer ? find_attempt(x, answer) : NULL;

    if (answer && !row)
        crti_http_exchange_text(x, 404, "no task %s is known, or no such attempt", x->id);
    else if (answer && !read_place(x, row))
        crti_http_exchange_text(
            x, 404,
            "where task %s has printed is not known: it has not begun, or its worker has "
            "forgotten it (a worker remembers its last calls only); the log of its "
            "worker "
            "is that of worker_id=%s",
            x->id, crti_view_text(row, "worker_id"));
    else if (answer && x->is_task_open)
        ask(x, 0, 0, on_end);
    else if (answer)
        begin_between(x);
    json_decref(answer);
}

/* It is followed: does it still run? One that is forgotten meanwhile ends where it is. */
static void on_task_again(crti_http_exchange_t *x, crt_status_t status,
                          const crti_message_t *message)
{
    json_t *answer = NULL;
    const json_t *row;

    if (status == CRT_OK && message->kind == CRTI_MSG_STATE_ANSWER)
        answer = json_loadb(message->state_answer.json.data,
                            message->state_answer.json.size, 0, NULL);
    row = find_attempt(x, answer);
    if (!row || !read_place(x, row)) {
        x->is_task_open = false;
        x->log_end = x->offset;
    }
    json_decref(answer);
    ask_next(x);
}

/* ---------------------------------------------------------------- the requests */

/* The log of another attempt than the one that was read begins anew. */
static void begin_attempt(crti_http_exchange_t *x, const json_t *job)
{
    uint64_t attempt =
        (uint64_t)json_integer_value(json_object_get(job, "attempt_number"));

    if (x->attempt != UINT64_MAX && x->attempt != attempt)
        x->offset = 0;
    x->attempt = attempt;
}

static void on_job(crti_http_exchange_t *x, crt_status_t status,
                   const crti_message_t *message)
{
    json_t *jobs = crti_http_exchange_state(x, status, message);
    const json_t *job = jobs ? crti_http_exchange_job(x, jobs) : NULL;

    if (job && !crti_view_is_submission(job)) {
        crti_http_exchange_text(x, 400, "Can only get logs of submission type jobs");
    } else if (job) {
        x->has_ended = crti_view_has_ended(job);
        crti_view_log_name(job, x->log_name, sizeof(x->log_name));
        begin_attempt(x, job);
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
        !crti_http_arg_number(request, "attempt", INT64_MAX, UINT64_MAX, &x->attempt) ||
        !crti_http_arg_number(request, "wait_ms", WAIT_MAX_MS, 0, &x->wait_ms)) {
        crti_http_exchange_text(x, 400, "offset must be a number, wait_ms one up to %d",
                                WAIT_MAX_MS);
        return;
    }
    if (!x->wants_part || x->wants_tail)
        x->wait_ms = 0;
    crti_http_exchange_ask_state(x, "jobs", x->id, on_job);
}

/* Ray's clients name a worker by its pid, which another node may have, too. */
static void on_workers(crti_http_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    json_t *workers = crti_http_exchange_state(x, status, message), *worker;
    size_t i;

    if (!workers)
        return;
    x->log_name[0] = '\0';
    json_array_foreach(workers, i, worker)
    {
        bool is_here = *x->node == '\0' ||
                       strcmp(x->node, crti_view_text(worker, "node_id")) == 0 ||
                       strcmp(x->node, crti_view_text(worker, "ip")) == 0;

        if (is_here &&
            (uint64_t)json_integer_value(json_object_get(worker, "pid")) == x->offset)
            snprintf(x->log_name, sizeof(x->log_name), "%s",
                     crti_view_text(worker, *crti_view_text(worker, "actor_id")
                                                ? "actor_id"
                                                : "worker_id"));
    }
    json_decref(workers);
    if (x->log_name[0] == '\0')
        crti_http_exchange_text(x, 404, "no worker has the pid %llu",
                                (unsigned long long)x->offset);
    else
        ask(x, x->offset = 0, 0, on_end);
}

/* False: the refusal was made. */
static bool read_lines(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    const char *lines = crti_http_arg(request, "lines");

    x->limit = 0;
    if (lines && strcmp(lines, "-1") == 0) /* all, as Ray's clients say it */
        return true;
    if (crti_http_arg_number(request, "lines", LINES_MAX, LINES, &x->limit))
        return true;
    crti_http_exchange_text(x, 400, "lines must be a number up to %d, or -1 for all",
                            LINES_MAX);
    return false;
}

static void begin_pid(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    const char *node = crti_http_arg(request, "node_id");

    if (!node)
        node = crti_http_arg(request, "node_ip");
    crti_ip_canonical(node ? node : "", x->node, sizeof(x->node));
    if (crti_http_arg_number(request, "pid", INT32_MAX, 0, &x->offset))
        crti_http_exchange_ask_state(x, "workers", "", on_workers);
    else
        crti_http_exchange_text(x, 400, "pid must be a number");
}

/* Logs are sent as they are: that escape codes are taken out is refused, not ignored. */
static bool wants_them_filtered(crti_http_exchange_t *x,
                                const crti_http_request_t *request)
{
    const char *filter = crti_http_arg(request, "filter_ansi_code");
    bool yes = false;

    if (!filter || (crti_http_is_yes(filter, &yes) && !yes))
        return false;
    crti_http_exchange_text(x, 400,
                            "filter_ansi_code is False here: logs are sent as they are");
    return true;
}

static void begin_task(crti_http_exchange_t *x, const crti_http_request_t *request,
                       const char *task)
{
    if (strlen(task) != 48 || strspn(task, "0123456789abcdef") != 48) {
        crti_http_exchange_text(x, 400, "task_id is 48 hex digits");
        return;
    }
    if (!crti_http_arg_number(request, "attempt_number", INT32_MAX, UINT64_MAX,
                              &x->attempt)) {
        crti_http_exchange_text(x, 400, "attempt_number must be a number");
        return;
    }
    snprintf(x->id, sizeof(x->id), "%s", task);
    x->is_task_log = true;
    crti_http_exchange_ask_state(x, "tasks", x->id, on_task);
}

void crti_logs_begin_file(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    static const char *const keys[] = {"actor_id", "worker_id", "submission_id",
                                       "filename"};
    static const char one_of[] =
        "give one of actor_id, task_id, worker_id, submission_id, filename and pid";
    const char *name = NULL, *key = NULL;

    if (wants_them_filtered(x, request))
        return;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]) && !name; i++) {
        key = keys[i];
        name = crti_http_arg(request, key);
    }
    if (crti_http_arg(request, "task_id")) {
        if (name || crti_http_arg(request, "pid"))
            crti_http_exchange_text(x, 400, "%s", one_of);
        else if (read_lines(x, request))
            begin_task(x, request, crti_http_arg(request, "task_id"));
        return;
    }
    if (!name && crti_http_arg(request, "pid")) {
        if (read_lines(x, request))
            begin_pid(x, request);
        return;
    }
    if (!name || !*name) {
        crti_http_exchange_text(x, 400, "%s", one_of);
        return;
    }
    if (strlen(name) > NAME_MAX_BYTES) {
        crti_http_exchange_text(x, 400, "%s has at most %d bytes", key, NAME_MAX_BYTES);
        return;
    }
    snprintf(x->log_name, sizeof(x->log_name), "%s%s",
             strcmp(key, "submission_id") == 0 ? "job:" : "", name);
    if (read_lines(x, request))
        ask(x, 0, 0, on_end);
}
