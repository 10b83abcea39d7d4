/* SPDX-License-Identifier: Apache-2.0 */
/* Filters as a query to the head. See row_columns.h. */
#include "runtime/http/row_columns.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/http/filter.h"

#define TEXT    CRTI_COLUMN_TEXT
#define OR_NULL CRTI_COLUMN_TEXT_OR_NULL
#define NUMBER  CRTI_COLUMN_NUMBER
#define BOOL    CRTI_COLUMN_BOOL
#define FIXED   CRTI_COLUMN_FIXED

const crti_column_t crti_actor_columns[] = {
    {"actor_id", "actor_id", TEXT},
    {"class_name", "class_name", TEXT},
    {"state", "state", CRTI_COLUMN_ACTOR_STATE},
    {"job_id", "job_id", TEXT},
    {"name", "name", TEXT},
    {"node_id", "node_id", OR_NULL},
    {"pid", "pid", NUMBER},
    {"ray_namespace", "namespace", TEXT},
    {"serialized_runtime_env", NULL, FIXED},
    {"is_detached", "is_detached", BOOL},
    {"placement_group_id", "placement_group_id", OR_NULL},
    {"repr_name", NULL, FIXED},
    {"num_restarts", "num_restarts", NUMBER},
    {"num_restarts_due_to_lineage_reconstruction", "0", CRTI_COLUMN_FIXED_NUMBER},
    {"is_fenced", "is_fenced", BOOL},
    {"has_failed", "has_failed", BOOL},
    {"message", "message", OR_NULL},
    {"queue_length", "queue_length", NUMBER, true},
    {"queue_wait_ms", "queue_wait_ms", NUMBER, true},
    {NULL, NULL, TEXT}};

const crti_column_t crti_task_columns[] = {{"task_id", "task_id", TEXT},
                                           {"attempt_number", "attempt_number", NUMBER},
                                           {"name", "name", TEXT},
                                           {"state", "state", TEXT},
                                           {"job_id", "job_id", TEXT},
                                           {"actor_id", "actor_id", OR_NULL},
                                           {"type", "type", TEXT},
                                           {"func_or_class_name", "name", TEXT},
                                           {"parent_task_id", "parent_task_id", TEXT},
                                           {"node_id", "node_id", OR_NULL},
                                           {"worker_id", "worker_id", OR_NULL},
                                           {"worker_pid", "worker_pid", NUMBER},
                                           {"error_type", "error_type", OR_NULL},
                                           {"language", "C", FIXED},
                                           {"creation_time_ms", "creation_time", NUMBER},
                                           {"start_time_ms", "start_time", NUMBER},
                                           {"end_time_ms", "end_time", NUMBER},
                                           {"error_message", "error_message", OR_NULL},
                                           {"is_debugger_paused", NULL, FIXED},
                                           {"required_resources", NULL, FIXED},
                                           {"runtime_env_info", NULL, FIXED},
                                           {"placement_group_id", NULL, FIXED},
                                           {"profiling_data", NULL, FIXED},
                                           {"task_log_info", NULL, FIXED},
                                           {"call_site", NULL, FIXED},
                                           {"label_selector", NULL, FIXED},
                                           {"fallback_strategy", NULL, FIXED},
                                           {NULL, NULL, TEXT}};

const crti_column_t crti_object_columns[] = {
    {"object_id", "object_id", TEXT},
    {"object_size", "size", NUMBER},
    {"task_status", "is_sealed", CRTI_COLUMN_SEALED},
    {"attempt_number", "1", CRTI_COLUMN_FIXED_NUMBER},
    {"reference_type", "reference_type", TEXT},
    {"call_site", "call_site", TEXT},
    {"type", "owner_type", TEXT},
    {"pid", "owner_pid", NUMBER},
    {"ip", "ip", TEXT},
    {"node_id", "node_id", OR_NULL},
    {"owner_id", "owner_id", OR_NULL},
    {"pins", "pins", NUMBER},
    {"is_copy", "is_copy", BOOL},
    {"calls", "calls", NUMBER},
    {"holders", NULL, FIXED},
    {NULL, NULL, TEXT}};

const crti_column_t crti_job_columns[] = {
    {"type", "type", TEXT},
    {"job_id", "job_id", OR_NULL},
    {"submission_id", "submission_id", OR_NULL},
    {"driver_info", "driver_info", TEXT},
    {"status", "status", TEXT},
    {"entrypoint", "entrypoint", TEXT},
    {"message", "message", OR_NULL},
    {"error_type", "error_type", OR_NULL},
    {"start_time", "start_time", NUMBER},
    {"end_time", "end_time", NUMBER},
    {"metadata", "metadata", TEXT},
    {"runtime_env", "runtime_env", TEXT},
    {"driver_agent_http_address", NULL, FIXED},
    {"driver_node_id", "driver_node_id", OR_NULL},
    {"driver_exit_code", "driver_exit_code", NUMBER},
    {"attempt_number", "attempt_number", NUMBER},
    {NULL, NULL, TEXT}};

const crti_column_t crti_runtime_env_columns[] = {
    {"runtime_env", "runtime_env", TEXT},
    {"creation_time_ms", "start_time", NUMBER},
    {"node_id", "driver_node_id", TEXT},
    {NULL, NULL, TEXT}};

const crti_column_t crti_event_columns[] = {
    {"severity", "severity", TEXT},       {"time", "time", TEXT},
    {"source_type", "source_type", TEXT}, {"message", "message", TEXT},
    {"event_id", "event_id", TEXT},       {NULL, NULL, TEXT}};

/* ---------------------------------------------------------------- one filter */

static const crti_column_t *find(const crti_column_t *columns, const json_t *filter)
{
    const char *name = json_string_value(json_array_get(filter, 0));

    while (columns->name && strcmp(columns->name, name) != 0)
        columns++;
    return columns->name ? columns : NULL;
}

static bool reads_number(const char *text, double *number_out)
{
    char *end;

    *number_out = strtod(text, &end);
    return *text && *end == '\0';
}

/* Clients know two of its states as one. */
static json_t *states(const char *text)
{
    if (strcasecmp(text, "PENDING_CREATION") == 0)
        return json_pack("[s, s]", "PENDING", "STARTING");
    if (strcasecmp(text, "PENDING") == 0 || strcasecmp(text, "STARTING") == 0)
        return json_array();
    return json_pack("[s]", text);
}

/* What the head's column has where the client's equals `text`: one of these. */
static json_t *values_of(const crti_column_t *column, const char *text)
{
    double number;
    bool yes;

    switch (column->kind) {
    case CRTI_COLUMN_TEXT: return json_pack("[s]", text);
    case CRTI_COLUMN_TEXT_OR_NULL: return *text ? json_pack("[s]", text) : json_array();
    case CRTI_COLUMN_NUMBER:
        return reads_number(text, &number) ? json_pack("[f]", number) : json_array();
    case CRTI_COLUMN_BOOL:
        return crti_http_is_yes(text, &yes) ? json_pack("[b]", yes) : json_array();
    case CRTI_COLUMN_ACTOR_STATE: return states(text);
    case CRTI_COLUMN_SEALED:
        return strcasecmp(text, "FINISHED") == 0  ? json_pack("[b]", 1)
               : strcasecmp(text, "RUNNING") == 0 ? json_pack("[b]", 0)
                                                  : json_array();
    default: return json_array();
    }
}

/* Of a column that is the same in all rows. */
static bool is_constant(const crti_column_t *column, const char *text, bool *equal_out)
{
    double number;

    *equal_out = false;
    if (column->kind == CRTI_COLUMN_FIXED)
        *equal_out = column->key && strcasecmp(column->key, text) == 0;
    else if (column->kind == CRTI_COLUMN_FIXED_NUMBER)
        *equal_out = reads_number(text, &number) && number == strtod(column->key, NULL);
    else
        return false;
    return true;
}

/* Nothing is one of no values: such a filter matches no row, or with "not" all. */
static void add_filter(json_t *list, const crti_column_t *columns, const json_t *filter)
{
    const crti_column_t *column = find(columns, filter);
    const char *text = json_string_value(json_array_get(filter, 2));
    bool is_not = json_is_true(json_array_get(filter, 1)), is_equal;

    if (column && is_constant(column, text, &is_equal))
        json_array_append_new(list,
                              json_pack("[s, b, []]", columns->key, is_equal != is_not));
    else if (column)
        json_array_append_new(
            list, json_pack("[s, b, o]", column->key, is_not, values_of(column, text)));
}

/* ---------------------------------------------------------------- the query */

bool crti_columns_know(const crti_column_t *columns, const json_t *filters)
{
    for (size_t i = 0; i < json_array_size(filters); i++)
        if (!find(columns, json_array_get(filters, i)))
            return false;
    return true;
}

bool crti_columns_need_nodes(const crti_column_t *columns, const json_t *filters)
{
    for (size_t i = 0; i < json_array_size(filters); i++) {
        const crti_column_t *column = find(columns, json_array_get(filters, i));

        if (column && column->is_told_by_nodes)
            return true;
    }
    return false;
}

/* As the client has it: its name, the head's column or null, and what stands for what. */
static json_t *show(const crti_column_t *column)
{
    switch (column->kind) {
    case CRTI_COLUMN_TEXT_OR_NULL:
        return json_pack("[s, s, {s:n}]", column->name, column->key, "");
    case CRTI_COLUMN_ACTOR_STATE:
        return json_pack("[s, s, {s:s, s:s}]", column->name, column->key, "PENDING",
                         "PENDING_CREATION", "STARTING", "PENDING_CREATION");
    case CRTI_COLUMN_SEALED:
        return json_pack("[s, s, {s:s, s:s}]", column->name, column->key, "true",
                         "FINISHED", "false", "RUNNING");
    case CRTI_COLUMN_FIXED: return json_pack("[s, n, s?]", column->name, column->key);
    case CRTI_COLUMN_FIXED_NUMBER:
        return json_pack("[s, n, f]", column->name, strtod(column->key, NULL));
    default: return json_pack("[s, s]", column->name, column->key);
    }
}

char *crti_columns_query(const crti_column_t *columns, const json_t *filters,
                         crti_row_page_t page, const crti_counting_t *counting)
{
    json_t *list = json_array(), *by = json_array(), *shape = json_array(), *query;
    char *text;

    for (size_t i = 0; i < json_array_size(filters); i++)
        add_filter(list, columns, json_array_get(filters, i));
    for (size_t i = 0; counting && counting->columns[i]; i++)
        json_array_append_new(by, json_string(counting->columns[i]));
    if (page.only)
        json_array_append_new(list, json_pack("[s, b, [b]]", page.only, 0, 1));
    for (size_t i = 0; i < page.shown; i++)
        json_array_append_new(shape, show(&columns[i]));
    query = json_pack("{s:I, s:I, s:o, s:o}", "limit", (json_int_t)page.limit, "offset",
                      (json_int_t)page.offset, "filters", list, "count_by", by);
    if (page.shown)
        json_object_set(query, "show", shape);
    json_decref(shape);
    if (counting && counting->sum)
        json_object_set_new(query, "sum", json_string(counting->sum));
    text = json_dumps(query, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(query);
    return text;
}
