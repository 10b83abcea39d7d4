/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows of a table are wanted. See row_query.h. */
#include "runtime/control/rows/row_query.h"

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

/* It is written as it is. */
static bool is_plain(const char *name)
{
    return name && *name && strspn(name, "abcdefghijklmnopqrstuvwxyz_") == strlen(name);
}

static bool is_dictionary(const json_t *instead)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)instead, key, value)
    {
        if (!json_is_string(value) && !json_is_null(value))
            return false;
    }
    return json_is_object(instead);
}

static crt_status_t read_shown(const crti_row_table_t *table, const json_t *source,
                               crti_row_shown_t *shown)
{
    const json_t *column = json_array_get(source, 1), *third = json_array_get(source, 2);

    *shown = (crti_row_shown_t){.name = json_string_value(json_array_get(source, 0)),
                                .is_constant = json_is_null(column)};
    if (!is_plain(shown->name))
        return crt_raise(CRT_ERR_INVALID, "a name has letters and '_' only");
    if (shown->is_constant)
        return json_is_null(third) || read_value(third, &shown->constant)
                   ? CRT_OK
                   : crt_raise(CRT_ERR_INVALID, "a constant is a text, a number, true, "
                                                "false or null");
    shown->instead = third;
    if (third && !is_dictionary(third))
        return crt_raise(CRT_ERR_INVALID,
                         "what stands for a text is another one, or null");
    return find_column(table, column, &shown->column);
}

static crt_status_t read_shape(const crti_row_table_t *table, crti_row_query_t *q)
{
    const json_t *shown = json_object_get(q->source, "show");
    crt_status_t status = CRT_OK;

    q->shown_count = json_array_size(shown);
    if (q->shown_count > CRTI_ROW_SHOWN)
        return crt_raise(CRT_ERR_INVALID, "a row is shown with up to %d members",
                         CRTI_ROW_SHOWN);
    for (size_t i = 0; i < q->shown_count && status == CRT_OK; i++)
        status = read_shown(table, json_array_get(shown, i), &q->shown[i]);
    return status;
}

static crt_status_t read_members(const crti_row_table_t *table, crti_row_query_t *q)
{
    const json_t *filters = json_object_get(q->source, "filters");
    const json_t *grouped = json_object_get(q->source, "count_by");
    const json_t *limit = json_object_get(q->source, "limit");
    const json_t *offset = json_object_get(q->source, "offset");
    const json_t *sum = json_object_get(q->source, "sum");
    crt_status_t status = CRT_OK;

    q->filter_count = json_array_size(filters);
    q->grouped_count = json_array_size(grouped);
    q->limit = SIZE_MAX;
    if (limit && (!json_is_integer(limit) || json_integer_value(limit) < 0))
        return crt_raise(CRT_ERR_INVALID, "a limit is a number, 0 or more");
    if (limit)
        q->limit = (size_t)json_integer_value(limit);
    if (offset && (!json_is_integer(offset) || json_integer_value(offset) < 0))
        return crt_raise(CRT_ERR_INVALID, "an offset is a number, 0 or more");
    q->offset = (size_t)json_integer_value(offset);
    if (q->filter_count > CRTI_ROW_FILTERS || q->grouped_count > CRTI_ROW_GROUPED)
        return crt_raise(CRT_ERR_INVALID,
                         "a query has up to %d filters, and counts by up to %d columns",
                         CRTI_ROW_FILTERS, CRTI_ROW_GROUPED);
    for (size_t i = 0; i < q->filter_count && status == CRT_OK; i++)
        status = read_filter(table, json_array_get(filters, i), &q->filters[i]);
    for (size_t i = 0; i < q->grouped_count && status == CRT_OK; i++)
        status = find_column(table, json_array_get(grouped, i), &q->grouped[i]);
    q->has_sum = sum != NULL;
    return status == CRT_OK && sum ? find_column(table, sum, &q->summed) : status;
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
    if (status == CRT_OK)
        status = read_shape(table, query_out);
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

/* ---------------------------------------------------------------- rows */

static bool is_equal(const crti_cell_t *a, const crti_cell_t *b)
{
    if (a->kind != b->kind || a->kind == CRTI_CELL_NULL || a->kind == CRTI_CELL_JSON)
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

bool crti_row_query_is_of_one(const crti_row_query_t *query, size_t column)
{
    for (size_t i = 0; i < query->filter_count; i++)
        if (query->filters[i].column == column && !query->filters[i].is_not &&
            query->filters[i].count == 1)
            return true;
    return false;
}

const char *crti_list_text(const char *text, char cut[CRTI_LIST_TEXT])
{
    const size_t most = CRTI_LIST_TEXT - sizeof("...");
    size_t size = text ? strnlen(text, CRTI_LIST_TEXT) : 0;

    if (size < CRTI_LIST_TEXT)
        return text ? text : "";
    size = most;
    while (size > most - 4 && ((unsigned char)text[size] & 0xc0) == 0x80)
        size--;
    memcpy(cut, text, size);
    memcpy(cut + size, "...", sizeof("..."));
    return cut;
}

crti_cell_t crti_cell_object(crti_object_id_t id, char text[CRTI_OBJECT_HEX])
{
    crti_id_hex(id.owner, text);
    snprintf(text + CRTI_ID_HEX - 1, CRTI_OBJECT_HEX - CRTI_ID_HEX + 1, "%016llx",
             (unsigned long long)id.number);
    return crti_cell_text(id.number ? text : "");
}

void crti_cell_write(crti_json_writer_t *w, const crti_cell_t *cell)
{
    switch (cell->kind) {
    case CRTI_CELL_NULL: crti_json_null(w); break;
    case CRTI_CELL_TEXT: crti_json_text(w, cell->text); break;
    case CRTI_CELL_NUMBER: crti_json_integer(w, (int64_t)cell->number); break;
    case CRTI_CELL_BOOL: crti_json_bool(w, cell->number != 0); break;
    case CRTI_CELL_JSON: crti_json_raw(w, cell->text); break;
    }
}

void crti_row_column_write(crti_json_writer_t *w, const crti_row_table_t *table,
                           const void *row, size_t column)
{
    crti_cell_t cell = table->cell(table->user, row, column);

    crti_json_key(w, table->columns[column]);
    crti_cell_write(w, &cell);
}

void crti_row_columns_write(crti_json_writer_t *w, const crti_row_table_t *table,
                            const void *row, size_t count)
{
    for (size_t column = 0; column < count; column++)
        crti_row_column_write(w, table, row, column);
}

/* What stands for what it has. */
static void replace(const crti_row_shown_t *shown, crti_cell_t *cell)
{
    const char *text = cell->kind == CRTI_CELL_TEXT   ? cell->text
                       : cell->kind == CRTI_CELL_BOOL ? cell->number ? "true" : "false"
                                                      : NULL;
    const json_t *other = text ? json_object_get(shown->instead, text) : NULL;

    if (json_is_null(other))
        *cell = (crti_cell_t){0};
    else if (other)
        *cell = crti_cell_text(json_string_value(other));
}

void crti_row_query_write(const crti_row_query_t *query, const crti_row_table_t *table,
                          const void *row, crti_json_writer_t *w)
{
    crti_json_open(w, '{');
    for (size_t i = 0; i < query->shown_count; i++) {
        const crti_row_shown_t *shown = &query->shown[i];
        crti_cell_t cell = shown->is_constant
                               ? shown->constant
                               : table->cell(table->user, row, shown->column);

        if (shown->instead)
            replace(shown, &cell);
        crti_json_key(w, shown->name);
        crti_cell_write(w, &cell);
    }
    crti_json_close(w, '}');
}

/* ---------------------------------------------------------------- numbers of rows */

typedef struct group {
    size_t count;
    double sum;
    crti_cell_t cells[CRTI_ROW_GROUPED];
    char texts[]; /* of cells, each ended by a zero */
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

/* What the row has in the query's columns. */
static void read_cells(const crti_row_query_t *query, const crti_row_table_t *table,
                       const void *row, crti_cell_t cells[CRTI_ROW_GROUPED])
{
    for (size_t i = 0; i < query->grouped_count; i++)
        cells[i] = table->cell(table->user, row, query->grouped[i]);
}

/* Kinds, numbers, and texts behind their lengths: no two rows that differ have the same. */
static crt_status_t name_group(const crti_cell_t *cells, size_t count,
                               crti_buffer_t *name)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < count && status == CRT_OK; i++) {
        bool is_text = cells[i].kind == CRTI_CELL_TEXT;
        char front[48];

        if (is_text)
            snprintf(front, sizeof(front), "%zu:", strlen(cells[i].text));
        else
            snprintf(front, sizeof(front), "%c%.17g,", "n?#bj"[cells[i].kind],
                     cells[i].number);
        status = crti_buffer_append(name, front, strlen(front));
        if (status == CRT_OK && is_text)
            status = crti_buffer_append(name, cells[i].text, strlen(cells[i].text));
    }
    return status == CRT_OK ? crti_buffer_append(name, "", 1) : status;
}

static group_t *new_group(const crti_cell_t *cells, size_t count)
{
    size_t size = 0;
    group_t *group;
    char *at;

    for (size_t i = 0; i < count; i++)
        size += cells[i].kind == CRTI_CELL_TEXT ? strlen(cells[i].text) + 1 : 0;
    group = calloc(1, sizeof(*group) + size);
    if (!group)
        return NULL;
    at = group->texts;
    for (size_t i = 0; i < count; i++) {
        group->cells[i] = cells[i];
        if (cells[i].kind != CRTI_CELL_TEXT)
            continue;
        strcpy(at, cells[i].text);
        group->cells[i].text = at;
        at += strlen(at) + 1;
    }
    return group;
}

static crt_status_t keep_group(crti_row_counts_t *counts, const char *name,
                               group_t *group)
{
    crt_status_t status = group
                              ? crti_buffer_append(&counts->groups, &group, sizeof(group))
                              : crt_raise(CRT_ERR_NO_MEMORY, "a group of rows");

    if (status == CRT_OK)
        return crti_map_put(&counts->by_name, name, group);
    free(group);
    return status;
}

crt_status_t crti_row_counts_add(crti_row_counts_t *counts, const crti_row_query_t *query,
                                 const crti_row_table_t *table, const void *row)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t name = {0};
    crti_cell_t cells[CRTI_ROW_GROUPED], summed;
    crt_status_t status;
    group_t *group;

    read_cells(query, table, row, cells);
    status = name_group(cells, query->grouped_count, &name);
    if (status != CRT_OK)
        return status;
    group = crti_map_get(&counts->by_name, name.data);
    if (!group) {
        group = new_group(cells, query->grouped_count);
        status = keep_group(counts, (const char *)name.data, group);
        if (status != CRT_OK)
            return status;
    }
    group->count++;
    if (!query->has_sum)
        return CRT_OK;
    summed = table->cell(table->user, row, query->summed);
    group->sum += summed.kind == CRTI_CELL_NUMBER ? summed.number : 0;
    return CRT_OK;
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
            crti_cell_write(w, &groups[i]->cells[k]);
        }
        crti_json_key(w, "count");
        crti_json_integer(w, (int64_t)groups[i]->count);
        if (query->has_sum) {
            crti_json_key(w, "sum");
            crti_json_integer(w, groups[i]->sum < 9e18 ? (int64_t)groups[i]->sum
                                                       : INT64_MAX);
        }
        crti_json_close(w, '}');
    }
    crti_json_close(w, ']');
}

/* ---------------------------------------------------------------- rows of an answer */

void crti_row_picker_begin(crti_row_picker_t *picker)
{
    crti_row_counts_init(&picker->counts);
    crti_json_key(picker->w, picker->table->name);
    crti_json_open(picker->w, '[');
}

static void write_row(crti_row_picker_t *picker, const void *row)
{
    if (picker->query && picker->query->shown_count)
        crti_row_query_write(picker->query, picker->table, row, picker->w);
    else
        picker->write(picker->table->user, picker->w, row);
    picker->shown++;
}

/* Without a query nobody could tell that some are missing. */
static void offer_of_all(crti_row_picker_t *picker, const void *row)
{
    if (picker->w->status == CRT_OK && picker->w->out->size > CRTI_ROWS_BYTES)
        picker->w->status =
            crt_raise(CRT_ERR_TOO_LARGE,
                      "the list of %s is larger than %zu bytes: ask for a part of it "
                      "({\"limit\": 1000, \"offset\": 0})",
                      picker->table->name, CRTI_ROWS_BYTES);
    if (picker->w->status == CRT_OK)
        write_row(picker, row);
}

void crti_row_picker_offer(crti_row_picker_t *picker, const void *row)
{
    const crti_row_query_t *q = picker->query;
    crti_json_writer_t *w = picker->w;

    picker->all++;
    if (!q) {
        picker->matched++;
        offer_of_all(picker, row);
        return;
    }
    if (!crti_row_query_matches(q, picker->table, row))
        return;
    if (q->grouped_count && w->status == CRT_OK)
        w->status = crti_row_counts_add(&picker->counts, q, picker->table, row);
    else if (picker->matched >= q->offset && picker->shown < q->limit &&
             w->out->size <= CRTI_ROWS_BYTES)
        write_row(picker, row);
    picker->matched++;
}

void crti_row_picker_end(crti_row_picker_t *picker)
{
    crti_json_writer_t *w = picker->w;

    crti_json_close(w, ']');
    if (picker->query && picker->query->grouped_count) {
        crti_json_key(w, "groups");
        crti_row_counts_write(&picker->counts, picker->query, picker->table, w);
    }
    crti_json_key(w, "all");
    crti_json_integer(w, (int64_t)picker->all);
    crti_json_key(w, "matched");
    crti_json_integer(w, (int64_t)picker->matched);
    crti_row_counts_fini(&picker->counts);
}
