/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a table are wanted. See row_query.h. */
#include "runtime/control/row_query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

/* ---------------------------------------------------------------- reading a query */

bool crti_row_query_is(crti_span_t filter)
{
    return filter.size && *(const char *)filter.data == '{';
}

static crt_status_t find_column(const crti_row_table_t *table, const json_t *name,
                                size_t *column_out)
{
    const char *text = json_string_value(name);

    for (size_t i = 0; text && table->columns[i]; i++)
        if (strcmp(table->columns[i], text) == 0) {
            *column_out = i;
            return CRT_OK;
        }
    return crt_raise(CRT_ERR_INVALID, "%s have no column \"%.64s\"", table->name,
                     text ? text : "");
}

static bool read_value(const json_t *value, crti_cell_t *cell_out)
{
    if (json_is_string(value))
        *cell_out = crti_cell_text(json_string_value(value));
    else if (json_is_number(value))
        *cell_out = crti_cell_number(json_number_value(value));
    else if (json_is_boolean(value))
        *cell_out = crti_cell_bool(json_is_true(value));
    else
        return false;
    return true;
}

static crt_status_t read_filter(const crti_row_table_t *table, const json_t *source,
                                crti_row_filter_t *filter)
{
    const json_t *values = json_array_get(source, 2);

    filter->is_not = json_is_true(json_array_get(source, 1));
    filter->count = json_array_size(values);
    if (json_array_size(source) != 3 || !json_is_array(values) ||
        filter->count > CRTI_ROW_VALUES)
        return crt_raise(CRT_ERR_INVALID,
                         "a filter is [column, is it not, up to %d values]",
                         CRTI_ROW_VALUES);
    for (size_t i = 0; i < filter->count; i++)
        if (!read_value(json_array_get(values, i), &filter->values[i]))
            return crt_raise(CRT_ERR_INVALID,
                             "a filter's value is a text, a number, true or false");
    return find_column(table, json_array_get(source, 0), &filter->column);
}

static crt_status_t read_members(const crti_row_table_t *table, crti_row_query_t *q)
{
    const json_t *filters = json_object_get(q->source, "filters");
    const json_t *grouped = json_object_get(q->source, "count_by");
    const json_t *limit = json_object_get(q->source, "limit");
    crt_status_t status = CRT_OK;

    q->filter_count = json_array_size(filters);
    q->grouped_count = json_array_size(grouped);
    q->limit = SIZE_MAX;
    if (limit && (!json_is_integer(limit) || json_integer_value(limit) < 0))
        return crt_raise(CRT_ERR_INVALID, "a limit is a number, 0 or more");
    if (limit)
        q->limit = (size_t)json_integer_value(limit);
    if (q->filter_count > CRTI_ROW_FILTERS || q->grouped_count > CRTI_ROW_GROUPED)
        return crt_raise(CRT_ERR_INVALID,
                         "a query has up to %d filters, and counts by up to %d columns",
                         CRTI_ROW_FILTERS, CRTI_ROW_GROUPED);
    for (size_t i = 0; i < q->filter_count && status == CRT_OK; i++)
        status = read_filter(table, json_array_get(filters, i), &q->filters[i]);
    for (size_t i = 0; i < q->grouped_count && status == CRT_OK; i++)
        status = find_column(table, json_array_get(grouped, i), &q->grouped[i]);
    return status;
}

crt_status_t crti_row_query_parse(crti_span_t filter, const crti_row_table_t *table,
                                  crti_row_query_t *query_out)
{
    crt_status_t status;

    *query_out =
        (crti_row_query_t){.source = json_loadb(filter.data, filter.size, 0, NULL)};
    if (!json_is_object(query_out->source))
        status = crt_raise(CRT_ERR_INVALID, "a query is an object of JSON");
    else
        status = read_members(table, query_out);
    if (status != CRT_OK)
        crti_row_query_fini(query_out);
    return status;
}

void crti_row_query_fini(crti_row_query_t *query)
{
    json_decref(query->source);
    query->source = NULL;
}

crt_status_t crti_row_query_check(crti_span_t filter, const crti_row_table_t *table)
{
    crti_row_query_t query;
    crt_status_t status;

    if (!crti_row_query_is(filter))
        return CRT_OK;
    status = crti_row_query_parse(filter, table, &query);
    if (status == CRT_OK)
        crti_row_query_fini(&query);
    return status;
}

bool crti_row_query_reads(const crti_row_query_t *query, const crti_row_table_t *table,
                          const char *column)
{
    for (size_t i = 0; i < query->filter_count; i++)
        if (strcmp(table->columns[query->filters[i].column], column) == 0)
            return true;
    return false;
}

/* ---------------------------------------------------------------- rows */

static bool is_equal(const crti_cell_t *a, const crti_cell_t *b)
{
    if (a->kind != b->kind || a->kind == CRTI_CELL_NULL)
        return false;
    return a->kind == CRTI_CELL_TEXT ? strcasecmp(a->text, b->text) == 0
                                     : a->number == b->number;
}

static bool is_one_of(const crti_cell_t *cell, const crti_row_filter_t *filter)
{
    for (size_t i = 0; i < filter->count; i++)
        if (is_equal(cell, &filter->values[i]))
            return true;
    return false;
}

bool crti_row_query_matches(const crti_row_query_t *query, const crti_row_table_t *table,
                            const void *row)
{
    for (size_t i = 0; i < query->filter_count; i++) {
        const crti_row_filter_t *filter = &query->filters[i];
        crti_cell_t cell = table->cell(table->user, row, filter->column);

        if (is_one_of(&cell, filter) == filter->is_not)
            return false;
    }
    return true;
}

void crti_cell_write(crti_json_writer_t *w, const crti_cell_t *cell)
{
    switch (cell->kind) {
    case CRTI_CELL_NULL: crti_json_null(w); break;
    case CRTI_CELL_TEXT: crti_json_text(w, cell->text); break;
    case CRTI_CELL_NUMBER: crti_json_integer(w, (int64_t)cell->number); break;
    case CRTI_CELL_BOOL: crti_json_bool(w, cell->number != 0); break;
    }
}

/* ---------------------------------------------------------------- numbers of rows */

typedef struct group {
    size_t count;
    size_t at[CRTI_ROW_GROUPED]; /* where its texts begin in `texts` */
    char texts[];                /* each ended by a zero */
} group_t;

void crti_row_counts_init(crti_row_counts_t *counts)
{
    *counts = (crti_row_counts_t){0};
    crti_map_init(&counts->by_name, 0);
}

static group_t **groups_of(const crti_row_counts_t *counts, size_t *count_out)
{
    *count_out = counts->groups.size / sizeof(group_t *);
    return (group_t **)(void *)counts->groups.data;
}

void crti_row_counts_fini(crti_row_counts_t *counts)
{
    size_t count;
    group_t **groups = groups_of(counts, &count);

    for (size_t i = 0; i < count; i++)
        free(groups[i]);
    crti_buffer_fini(&counts->groups);
    crti_map_fini(&counts->by_name);
}

static const char *text_of(const crti_row_table_t *table, const void *row, size_t column)
{
    crti_cell_t cell = table->cell(table->user, row, column);

    return cell.kind == CRTI_CELL_TEXT ? cell.text : "";
}

/* The texts, each behind its length: no two rows that differ have the same. */
static crt_status_t name_group(const crti_row_query_t *query,
                               const crti_row_table_t *table, const void *row,
                               crti_buffer_t *name)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < query->grouped_count && status == CRT_OK; i++) {
        const char *text = text_of(table, row, query->grouped[i]);
        char length[24];

        snprintf(length, sizeof(length), "%zu:", strlen(text));
        status = crti_buffer_append(name, length, strlen(length));
        if (status == CRT_OK)
            status = crti_buffer_append(name, text, strlen(text));
    }
    return status == CRT_OK ? crti_buffer_append(name, "", 1) : status;
}

static group_t *new_group(const crti_row_query_t *query, const crti_row_table_t *table,
                          const void *row)
{
    size_t size = 0;
    group_t *group;

    for (size_t i = 0; i < query->grouped_count; i++)
        size += strlen(text_of(table, row, query->grouped[i])) + 1;
    group = calloc(1, sizeof(*group) + size);
    size = 0;
    for (size_t i = 0; group && i < query->grouped_count; i++) {
        group->at[i] = size;
        strcpy(group->texts + size, text_of(table, row, query->grouped[i]));
        size += strlen(group->texts + size) + 1;
    }
    return group;
}

crt_status_t crti_row_counts_add(crti_row_counts_t *counts, const crti_row_query_t *query,
                                 const crti_row_table_t *table, const void *row)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t name = {0};
    crt_status_t status = name_group(query, table, row, &name);
    group_t *group;

    if (status != CRT_OK)
        return status;
    group = crti_map_get(&counts->by_name, name.data);
    if (!group) {
        group = new_group(query, table, row);
        if (!group)
            return crt_raise(CRT_ERR_NO_MEMORY, "a group of rows");
        status = crti_buffer_append(&counts->groups, &group, sizeof(group));
        if (status != CRT_OK) {
            free(group);
            return status;
        }
        status = crti_map_put(&counts->by_name, name.data, group);
    }
    group->count++;
    return status;
}

void crti_row_counts_write(const crti_row_counts_t *counts, const crti_row_query_t *query,
                           const crti_row_table_t *table, crti_json_writer_t *w)
{
    size_t count;
    group_t **groups = groups_of(counts, &count);

    crti_json_open(w, '[');
    for (size_t i = 0; i < count; i++) {
        crti_json_open(w, '{');
        for (size_t k = 0; k < query->grouped_count; k++) {
            crti_json_key(w, table->columns[query->grouped[k]]);
            crti_json_text(w, groups[i]->texts + groups[i]->at[k]);
        }
        crti_json_key(w, "count");
        crti_json_integer(w, (int64_t)groups[i]->count);
        crti_json_close(w, '}');
    }
    crti_json_close(w, ']');
}
