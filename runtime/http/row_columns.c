/* SPDX-License-Identifier: Apache-2.0 */
/* Columns of lists as clients know them. See row_columns.h. */
#include "runtime/http/row_columns.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/control/rows/column_list.h"
#include "runtime/http/filter.h"
#include "runtime/http/view_parts.h"

#define COLUMN(id, key, name, kind, level)                                               \
    {name, key, CRTI_COLUMN_##kind, CRTI_VIEW_##level},
#define CLIENT(key, name, kind, level) {name, key, CRTI_COLUMN_##kind, CRTI_VIEW_##level},
#define HEAD(...)
#define TABLE(LIST)                                                                      \
    {                                                                                    \
        LIST(COLUMN, HEAD, CLIENT)                                                       \
        {                                                                                \
            0                                                                            \
        }                                                                                \
    }

const crti_column_t crti_actor_columns[] = TABLE(CRTI_ACTOR_COLUMNS);
const crti_column_t crti_task_columns[] = TABLE(CRTI_TASK_COLUMNS);
const crti_column_t crti_object_columns[] = TABLE(CRTI_OBJECT_COLUMNS);
const crti_column_t crti_job_columns[] = TABLE(CRTI_JOB_COLUMNS);
const crti_column_t crti_runtime_env_columns[] = TABLE(CRTI_RUNTIME_ENV_COLUMNS);
const crti_column_t crti_event_columns[] = TABLE(CRTI_EVENT_COLUMNS);
const crti_column_t crti_node_columns[] = TABLE(CRTI_NODE_COLUMNS);
const crti_column_t crti_worker_columns[] = TABLE(CRTI_WORKER_COLUMNS);

size_t crti_columns_shown(const crti_column_t *columns)
{
    size_t count = 0;

    for (; columns[count].name && columns[count].level == CRTI_VIEW_BASE; count++)
        if (columns[count].kind == CRTI_COLUMN_HERE)
            return 0;
    return count;
}

/* ---------------------------------------------------------------- a row */

const char *crti_view_actor_state(const json_t *actor)
{
    const char *state = crti_view_text(actor, "state");

    /* Ray has a fixed list of states. */
    if (strcmp(state, "PENDING") == 0 || strcmp(state, "STARTING") == 0)
        return "PENDING_CREATION";
    return state;
}

static json_t *value_of(const crti_column_t *column, const json_t *entry)
{
    const char *key = column->key;

    switch (column->kind) {
    case CRTI_COLUMN_TEXT: return json_string(crti_view_text(entry, key));
    case CRTI_COLUMN_TEXT_OR_NULL: return crti_part_text(entry, key);
    case CRTI_COLUMN_NUMBER:
    case CRTI_COLUMN_NODE_NUMBER: return crti_part(entry, key);
    case CRTI_COLUMN_COUNT: return crti_part_number(entry, key);
    case CRTI_COLUMN_TIME: return crti_part_time(entry, key);
    case CRTI_COLUMN_OBJECT: return crti_part_object(entry, key);
    case CRTI_COLUMN_BOOL: return crti_part_bool(entry, key);
    case CRTI_COLUMN_ACTOR_STATE: return json_string(crti_view_actor_state(entry));
    case CRTI_COLUMN_FIXED: return key ? json_string(key) : json_null();
    case CRTI_COLUMN_FIXED_NUMBER: return json_integer(strtoll(key, NULL, 10));
    case CRTI_COLUMN_SEALED:
        return json_string(json_is_true(json_object_get(entry, key)) ? "FINISHED"
                                                                     : "RUNNING");
    default: return json_null();
    }
}

json_t *crti_columns_row(const crti_column_t *columns, const json_t *entry,
                         crti_view_level_t level)
{
    json_t *row = json_object();

    for (; columns->name; columns++)
        if (columns->level <= level)
            json_object_set_new(row, columns->name, value_of(columns, entry));
    return row;
}

/* ---------------------------------------------------------------- one filter */

static const crti_column_t *find(const crti_column_t *columns, const json_t *filter)
{
    const char *name = json_string_value(json_array_get(filter, 0));

    while (columns->name && strcmp(columns->name, name) != 0)
        columns++;
    return columns->name && columns->kind != CRTI_COLUMN_HERE ? columns : NULL;
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
    case CRTI_COLUMN_TEXT:
    case CRTI_COLUMN_OBJECT: return json_pack("[s]", text);
    case CRTI_COLUMN_TEXT_OR_NULL: return *text ? json_pack("[s]", text) : json_array();
    case CRTI_COLUMN_NUMBER:
    case CRTI_COLUMN_NODE_NUMBER:
    case CRTI_COLUMN_COUNT:
    case CRTI_COLUMN_TIME:
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

        if (column && column->kind == CRTI_COLUMN_NODE_NUMBER)
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
