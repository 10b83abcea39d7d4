/* SPDX-License-Identifier: Apache-2.0 */
/* The state API. See state.h. */
#include "runtime/http/state.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/address.h"
#include "runtime/http/filter.h"
#include "runtime/http/state_views.h"

#define ROWS_MAX    10000
#define TIMEOUT_MAX 3600 /* seconds */

static void json_decref_auto(json_t **json)
{
    json_decref(*json);
}

/* ---------------------------------------------------------------- arguments */

/* "crt" has all columns. */
static crt_status_t read_detail(crti_http_exchange_t *x, const char *detail)
{
    bool yes = false;

    if (detail && strcmp(detail, "crt") == 0) {
        x->level = CRTI_VIEW_ALL;
        return CRT_OK;
    }
    if (detail && !crti_http_is_yes(detail, &yes))
        return crt_raise(CRT_ERR_INVALID, "detail must be True, False or crt");
    x->level = yes ? CRTI_VIEW_DETAIL : CRTI_VIEW_BASE;
    return CRT_OK;
}

/* exclude_driver is about rows that we do not have, and server_timeout_multiplier about Ray's own
 * servers. */
static crt_status_t read_args(crti_http_exchange_t *x, const crti_http_request_t *request,
                              const crti_listing_t *resource)
{
    crt_status_t status = read_detail(x, crti_http_arg(request, "detail"));

    if (status == CRT_OK &&
        !crti_http_arg_number(request, "limit", ROWS_MAX, 100, &x->limit))
        status = crt_raise(CRT_ERR_INVALID, "limit must be a number up to %d", ROWS_MAX);
    if (status == CRT_OK && (!crti_http_arg_number(request, "timeout", TIMEOUT_MAX,
                                                   x->patience_s, &x->patience_s) ||
                             x->patience_s == 0))
        status =
            crt_raise(CRT_ERR_INVALID, "timeout must be seconds, 1 to %d", TIMEOUT_MAX);
    if (status == CRT_OK)
        status = crti_http_filters(request, &x->filters);
    return status == CRT_OK ? crti_view_check_filters(resource, x->filters) : status;
}

static void refuse(crti_http_exchange_t *x)
{
    crti_http_exchange_text(x, 400, "%s", crt_error_detail());
}

/* ---------------------------------------------------------------- lists and summaries */

/* Without details the head writes the rows as clients have them. */
static bool is_written_there(const crti_http_exchange_t *x,
                             const crti_listing_t *resource)
{
    return x->level == CRTI_VIEW_BASE && resource->columns &&
           crti_columns_shown(resource->columns) > 0 &&
           crti_columns_know(resource->columns, x->filters);
}

static void on_rows(crti_http_exchange_t *x, crt_status_t status,
                    const crti_message_t *message)
{
    if (status == CRT_OK && message->kind == CRTI_MSG_STATE_ANSWER) {
        x->reply.size = 0;
        status = crti_view_rows(crti_listing_find(x->id), message->state_answer.json,
                                x->limit, &x->reply);
    } else if (status == CRT_OK) {
        status = crt_raise(CRT_ERR_PROTOCOL, "the head's answer is no list");
    }
    if (status == CRT_OK)
        crti_http_exchange_reply(x, "application/json; charset=utf-8");
    else
        crti_http_exchange_text(x, 500, "%s", crt_error_detail());
}

static void on_list(crti_http_exchange_t *x, crt_status_t status,
                    const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *answer = crti_http_exchange_state(x, status, message);

    if (answer)
        crti_http_exchange_json(x, 200,
                                crti_view_state(crti_listing_find(x->id), answer,
                                                x->filters, x->limit, x->level));
}

/* With all columns the head asks the nodes, too; so it does for a filter that looks at what only
 * they know. */
static const char *question_of(const crti_http_exchange_t *x,
                               const crti_listing_t *resource)
{
    bool is_whole =
        x->level == CRTI_VIEW_ALL ||
        (resource->columns && crti_columns_need_nodes(resource->columns, x->filters));

    return is_whole && resource->detail ? resource->detail : resource->what;
}

/* Rows are picked where they are, if the head can. */
static void ask(crti_http_exchange_t *x, const crti_listing_t *resource,
                const crti_counting_t *counting, crti_http_exchange_answer_t *on_answer)
{
    CRTI_AUTO(free) char *query = NULL;

    if (resource->columns && crti_columns_know(resource->columns, x->filters)) {
        size_t shown = on_answer == on_rows ? crti_columns_shown(resource->columns) : 0;
        crti_row_page_t page = {
            .limit = counting ? 0 : x->limit, .shown = shown, .only = resource->only};

        query = crti_columns_query(resource->columns, x->filters, page, counting);
        if (!query) {
            crti_http_exchange_fail(x, crt_raise(CRT_ERR_NO_MEMORY, "a query"));
            return;
        }
    }
    crti_http_exchange_ask_state(x, question_of(x, resource), query ? query : "",
                                 on_answer);
}

void crti_state_begin_list(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    const crti_listing_t *resource = crti_listing_find(x->id);

    if (read_args(x, request, resource) != CRT_OK)
        refuse(x);
    else
        ask(x, resource, NULL, is_written_there(x, resource) ? on_rows : on_list);
}

static void on_summary(crti_http_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *answer = crti_http_exchange_state(x, status, message);

    if (answer)
        crti_http_exchange_json(x, 200,
                                crti_view_summary(crti_listing_find(x->id), answer));
}

/* By lineage would need calls that are long forgotten. */
void crti_state_begin_summary(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    static const char *const ways[] = {"func_name", "class", "callsite"};
    const crti_listing_t *resource = crti_listing_find(x->id);
    const char *by = crti_http_arg(request, "summary_by");
    crt_status_t status = read_args(x, request, resource);
    bool is_known = !by;

    for (size_t i = 0; by && i < sizeof(ways) / sizeof(ways[0]); i++)
        is_known = is_known || strcmp(by, ways[i]) == 0;
    if (status == CRT_OK && !is_known)
        status = crt_raise(CRT_ERR_INVALID, "summary_by is func_name, class or callsite");
    if (status == CRT_OK)
        ask(x, resource, crti_summary_counting(resource), on_summary);
    else
        refuse(x);
}

/* ---------------------------------------------------------------- the timeline */

static void on_timeline(crti_http_exchange_t *x, crt_status_t status,
                        const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *answer = crti_http_exchange_state(x, status, message);

    if (answer)
        crti_http_exchange_json(x, 200, crti_view_timeline(answer, x->log_name));
}

void crti_state_begin_timeline(crti_http_exchange_t *x,
                               const crti_http_request_t *request)
{
    const char *job = crti_http_arg(request, "job_id");

    snprintf(x->log_name, sizeof(x->log_name), "%s", job ? job : "");
    crti_http_exchange_ask_state(x, "tasks", "", on_timeline);
}

/* ---------------------------------------------------------------- logs */

/* Appends to the list of that kind what matches the pattern. */
static void add_log(json_t *lists, const char *kind, const char *pattern,
                    const char *name)
{
    json_t *list = json_object_get(lists, kind);

    if (*name == '\0' || fnmatch(pattern, name, 0) != 0)
        return;
    if (!list) {
        list = json_array();
        json_object_set_new(lists, kind, list);
    }
    json_array_append_new(list, json_string(name));
}

/* Names that /api/v0/logs/file?filename= takes. */
static void on_workers(crti_http_exchange_t *x, crt_status_t status,
                       const crti_message_t *message)
{
    CRTI_AUTO(json_decref) json_t *workers = crti_http_exchange_state(x, status, message);
    json_t *lists, *worker;
    size_t i;

    if (!workers)
        return;
    lists = json_object();
    json_array_foreach(workers, i, worker)
    {
        bool is_driver = strcmp(crti_view_text(worker, "worker_type"), "DRIVER") == 0;
        bool is_here = *x->node == '\0' ||
                       strcmp(x->node, crti_view_text(worker, "node_id")) == 0 ||
                       strcmp(x->node, crti_view_text(worker, "ip")) == 0;

        if (is_here && !is_driver)
            add_log(lists, "worker_out", x->log_name,
                    crti_view_text(worker, "worker_id"));
        if (is_here)
            add_log(lists, "actor_out", x->log_name, crti_view_text(worker, "actor_id"));
    }
    crti_http_exchange_json(x, 200,
                            json_pack("{s:b, s:s, s:{s:o}}", "result", 1, "msg", "",
                                      "data", "result", lists));
}

void crti_state_begin_logs(crti_http_exchange_t *x, const crti_http_request_t *request)
{
    const char *node = crti_http_arg(request, "node_id"),
               *ip = crti_http_arg(request, "node_ip"),
               *glob = crti_http_arg(request, "glob");

    if ((node && ip) || !crti_http_arg_number(request, "timeout", TIMEOUT_MAX,
                                              x->patience_s, &x->patience_s)) {
        crt_raise(CRT_ERR_INVALID, "node_id or node_ip, and timeout in seconds");
        refuse(x);
        return;
    }
    crti_ip_canonical(node ? node : ip ? ip : "", x->node, sizeof(x->node));
    snprintf(x->log_name, sizeof(x->log_name), "%s", glob ? glob : "*");
    crti_http_exchange_ask_state(x, "workers", "", on_workers);
}
