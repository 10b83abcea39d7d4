/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments and filters. See filter.h. */
#include "runtime/http/filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---------------------------------------------------------------- arguments */

/* What Ray's clients send, too: node_id and node_ip say where a pid is; the rest changes
 * nothing. */
#define LOG_ARGUMENTS                                                                    \
    "actor_id, task_id, worker_id, submission_id, filename, pid, lines, node_id, "       \
    "node_ip, "                                                                          \
    "media_type, timeout, interval, suffix, attempt_number, format, download_filename, " \
    "filter_ansi_code"

/* Of the routes that look at arguments. Ray's clients send all of those of the state API. */
static const struct {
    crti_http_route_t route;
    const char *takes;
} arguments[] = {
    {CRTI_ROUTE_STATE, "limit, timeout, detail, exclude_driver, filter_keys, "
                       "filter_predicates, filter_values, server_timeout_multiplier"},
    {CRTI_ROUTE_STATE_SUMMARY, "limit, timeout, detail, exclude_driver, filter_keys, "
                               "filter_predicates, filter_values, "
                               "server_timeout_multiplier, summary_by"},
    {CRTI_ROUTE_TIMELINE, "job_id, download"},
    {CRTI_ROUTE_USER_METRICS, "job_id, recent"},
    {CRTI_ROUTE_LOG_LIST, "node_id, node_ip, glob, timeout, server_timeout_multiplier"},
    {CRTI_ROUTE_CLUSTER_STATUS, "format"},
    {CRTI_ROUTE_JOB_LIST, "limit, offset"},
    {CRTI_ROUTE_JOB_LOGS, "offset, wait_ms, tail, attempt"},
    {CRTI_ROUTE_JOB_TAIL, "offset"},
    {CRTI_ROUTE_ACTOR_CALL, "timeout_ms"},
    {CRTI_ROUTE_LOG_FILE, LOG_ARGUMENTS},
    {CRTI_ROUTE_LOG_STREAM, LOG_ARGUMENTS},
};

static bool takes(const char *list, const char *name, size_t length)
{
    for (const char *at = list; *at;) {
        size_t word = strcspn(at, ", ");

        if (word == length && memcmp(at, name, length) == 0)
            return true;
        at += word;
        at += strspn(at, ", ");
    }
    return false;
}

static bool came_before(const crti_http_request_t *request, size_t index, size_t length)
{
    for (size_t i = 0; i < index; i++)
        if (strcspn(request->args[i], "=") == length &&
            memcmp(request->args[i], request->args[index], length) == 0)
            return true;
    return false;
}

/* How much of a stranger's text may be repeated to it: what is plain, so that a reply is UTF-8. */
static int plain(const char *text, size_t length)
{
    int i = 0;

    while (i < 64 && (size_t)i < length && text[i] >= ' ' && text[i] <= '~')
        i++;
    return i;
}

crt_status_t crti_http_check_args(const crti_http_request_t *request,
                                  crti_http_route_t route)
{
    const char *list = NULL;

    for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)
        if (arguments[i].route == route)
            list = arguments[i].takes;
    for (size_t i = 0; list && i < request->arg_count; i++) {
        const char *arg = request->args[i];
        size_t length = strcspn(arg, "=");
        int shown = plain(arg, length);

        if (length == 0 && arg[0] == '\0')
            continue; /* "a=1&&b=2" */
        if (!takes(list, arg, length))
            return crt_raise(CRT_ERR_INVALID,
                             "there is no parameter \"%.*s\"; this path takes %s", shown,
                             arg, list);
        if (strncmp(arg, "filter_", 7) != 0 && came_before(request, i, length))
            return crt_raise(CRT_ERR_INVALID, "%.*s is given twice", shown, arg);
    }
    return CRT_OK;
}

bool crti_http_is_yes(const char *text, bool *yes_out)
{
    *yes_out = strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0;
    return *yes_out || strcasecmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

/* ---------------------------------------------------------------- filters */

/* Value of the argument `name` that comes after `index` others of that name. */
static const char *nth(const crti_http_request_t *request, const char *name, size_t index)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < request->arg_count; i++)
        if (strncmp(request->args[i], name, length) == 0 &&
            request->args[i][length] == '=' && index-- == 0)
            return request->args[i] + length + 1;
    return NULL;
}

crt_status_t crti_http_filters(const crti_http_request_t *request, json_t **filters_out)
{
    json_t *filters = NULL;
    size_t count = 0;

    *filters_out = NULL;
    for (;; count++) {
        const char *key = nth(request, "filter_keys", count);
        const char *predicate = nth(request, "filter_predicates", count);
        const char *value = nth(request, "filter_values", count);
        bool is_not = predicate && strcmp(predicate, "!=") == 0;
        crt_status_t status = CRT_OK;

        if (!key && !predicate && !value)
            break;
        if (!key || !predicate || !value)
            status = crt_raise(CRT_ERR_INVALID,
                               "filter_keys, filter_predicates and filter_values come in "
                               "equal numbers");
        else if (!is_not && strcmp(predicate, "=") != 0)
            status =
                crt_raise(CRT_ERR_INVALID, "filter_predicates are = and !=, not \"%.*s\"",
                          plain(predicate, strlen(predicate)), predicate);
        else if ((!filters && !(filters = json_array())) ||
                 json_array_append_new(filters,
                                       json_pack("[s, b, s]", key, is_not, value)) != 0)
            status = crt_raise(CRT_ERR_INVALID, "a filter that is not UTF-8");
        if (status != CRT_OK) {
            json_decref(filters);
            return status;
        }
    }
    *filters_out = filters;
    return CRT_OK;
}

crt_status_t crti_filters_check(const json_t *filters, const json_t *row,
                                const char *what)
{
    for (size_t i = 0; i < json_array_size(filters); i++) {
        const char *key =
            json_string_value(json_array_get(json_array_get(filters, i), 0));
        const json_t *value = json_object_get(row, key);

        if (!value)
            return crt_raise(CRT_ERR_INVALID,
                             "the filter's key \"%.*s\" is no column of %s",
                             plain(key, strlen(key)), key, what);
        if (json_is_object(value) || json_is_array(value))
            return crt_raise(CRT_ERR_INVALID, "%s of %s can't be filtered", key, what);
    }
    return CRT_OK;
}

static bool is_equal(const json_t *value, const char *text)
{
    bool yes;
    char *end;

    if (json_is_string(value))
        return strcasecmp(json_string_value(value), text) == 0;
    if (json_is_boolean(value))
        return crti_http_is_yes(text, &yes) && yes == json_is_true(value);
    if (json_is_number(value))
        return *text && strtod(text, &end) == json_number_value(value) && *end == '\0';
    return false;
}

bool crti_filters_match(const json_t *filters, const json_t *row)
{
    for (size_t i = 0; i < json_array_size(filters); i++) {
        const json_t *filter = json_array_get(filters, i);
        const json_t *value =
            json_object_get(row, json_string_value(json_array_get(filter, 0)));
        const char *text = json_string_value(json_array_get(filter, 2));

        if (is_equal(value, text) == json_is_true(json_array_get(filter, 1)))
            return false;
    }
    return true;
}
