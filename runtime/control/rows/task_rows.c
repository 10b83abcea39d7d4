/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes tell of calls, as one table: the caller's node and the worker's node know a part
 * each of an attempt (docs/design/state.md, "tasks"). Of its rows those that are wanted are
 * written.
 *
 * Where it sits
 *     control_forward.c (answers of all nodes) -> [ control/rows/task_rows.c ] -> STATE_ANSWER
 * Each answer is a list of task records (base/task_records.h) and of the JSON of transfers. What is
 * no such record ends what that node is believed: it is a node's bytes.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "runtime/base/task_records.h"
#include "runtime/control/rows/column_list.h"
#include "runtime/control/rows/row_query.h"
#include "runtime/control/rows/state_rows.h"

CRTI_COLUMN_IDS(CRTI_TASK_COLUMNS);
CRTI_COLUMN_KEYS(CRTI_TASK_COLUMNS);

/* An attempt, with what both sides know of it. */
typedef struct row {
    crti_task_record_t record;
    uint64_t first_ns, last_ns; /* moments that are known of it */
} row_t;

typedef struct rows {
    /* row_t *, owned; key: who made the call, and the attempt's number */
    crti_map_t by_attempt;
    crti_buffer_t collectives; /* row_t */
    json_t *transfers;
    uint64_t dropped;
} rows_t;

/* ---------------------------------------------------------------- joining */

/* Who runs it knows where, and when that began; the end is the caller's to tell, who may have been
 * told another one. */
static void join_run(crti_task_event_t *e, const crti_task_event_t *run)
{
    if (!crti_id_is_zero(run->worker)) {
        e->node = run->node;
        e->worker = run->worker;
        e->pid = run->pid;
        e->actor = run->actor;
    }
    e->log_from = run->log_from;
    e->log_to = run->log_to;
    for (int i = 0; i < CRTI_TASK_STATES; i++)
        if (!e->at_ns[i])
            e->at_ns[i] = run->at_ns[i];
    if (crti_task_has_ended(e))
        return;
    e->state = run->state;
    e->status = run->status;
    memcpy(e->text, run->text, sizeof(e->text));
}

static crt_status_t keep(rows_t *rows, const crti_object_id_t *key,
                         const crti_task_record_t *record)
{
    row_t *row = malloc(sizeof(*row));
    crt_status_t status;

    if (!row)
        return crt_raise(CRT_ERR_NO_MEMORY, "a call");
    row->record = *record;
    status = crti_map_put(&rows->by_attempt, key, row);
    if (status != CRT_OK)
        free(row);
    return status;
}

static crt_status_t take_record(rows_t *rows, crti_task_record_t *record)
{
    crti_object_id_t key = {record->event.owner, record->event.attempt};
    row_t *other, collective = {.record = *record};

    if (record->event.kind == CRTI_TASK_COLLECTIVE) /* has no other half */
        return crti_buffer_append(&rows->collectives, &collective, sizeof(collective));
    other = crti_map_get(&rows->by_attempt, &key);
    if (!other)
        return keep(rows, &key, record);
    if (other->record.event.is_run == record->event.is_run) {
        other->record = *record;
    } else if (record->event.is_run) {
        join_run(&other->record.event, &record->event);
    } else {
        join_run(&record->event, &other->record.event);
        other->record = *record;
    }
    return CRT_OK;
}

/* What one node has answered. */
static crt_status_t take_answer(rows_t *rows, crti_span_t answer)
{
    crti_span_t part, rest;
    crti_task_record_t record;
    crt_status_t status = CRT_OK;
    json_t *transfers;
    uint64_t dropped;

    if (crti_list_unpack(&answer, &part) != CRT_OK ||
        crti_task_records_open(part, &dropped, &rest) != CRT_OK)
        return CRT_OK;
    rows->dropped += dropped;
    while (status == CRT_OK && crti_task_records_next(&rest, &record) == CRT_OK)
        status = take_record(rows, &record);
    if (status != CRT_OK || crti_list_unpack(&answer, &part) != CRT_OK)
        return status;
    transfers = json_loadb(part.data, part.size, 0, NULL);
    json_array_extend(rows->transfers, transfers);
    json_decref(transfers);
    return CRT_OK;
}

static crt_status_t rows_take(rows_t *rows, crti_span_t answers)
{
    crt_status_t status = CRT_OK;
    crti_span_t answer;

    *rows = (rows_t){.transfers = json_array()};
    crti_map_init(&rows->by_attempt, sizeof(crti_object_id_t));
    while (status == CRT_OK && crti_list_unpack(&answers, &answer) == CRT_OK)
        status = take_answer(rows, answer);
    return status;
}

static void rows_fini(rows_t *rows)
{
    CRTI_MAP_FOREACH (row_t, row, &rows->by_attempt)
        free(row);
    crti_map_fini(&rows->by_attempt);
    crti_buffer_fini(&rows->collectives);
    json_decref(rows->transfers);
}

/* ---------------------------------------------------------------- cells */

/* The first and the last moment that are known of it. */
static void find_moments(row_t *row)
{
    const uint64_t *at_ns = row->record.event.at_ns;

    row->first_ns = row->last_ns = 0;
    for (int i = 0; i < CRTI_TASK_STATES; i++) {
        if (!at_ns[i])
            continue;
        if (!row->first_ns || at_ns[i] < row->first_ns)
            row->first_ns = at_ns[i];
        if (at_ns[i] > row->last_ns)
            row->last_ns = at_ns[i];
    }
}

static const char *error_type(const crti_task_event_t *e)
{
    return e->state == CRTI_TASK_FAILED ? crt_status_name((crt_status_t)e->status) : "";
}

/* Where the texts of cells are: one of each column, for those that are ids. */
typedef char hex_t[COLUMNS][CRTI_OBJECT_HEX];

static crti_cell_t task_id_cell(crti_id_t owner, uint64_t number,
                                char text[CRTI_OBJECT_HEX])
{
    return crti_cell_object((crti_object_id_t){owner, number}, text);
}

/* In whole milliseconds. */
static crti_cell_t time_cell(uint64_t ns)
{
    uint64_t ms = ns / CRTI_MS;

    return ns ? crti_cell_number((double)ms) : (crti_cell_t){0};
}

static crti_cell_t task_cell(void *user, const void *entry, size_t column)
{
    const row_t *row = entry;
    const crti_task_event_t *e = &row->record.event;
    char(*hex)[CRTI_OBJECT_HEX] = user;

    switch (column) {
    case TASK_ID: return task_id_cell(e->owner, e->number, hex[column]);
    case PARENT_TASK_ID: return task_id_cell(e->parent_owner, e->parent, hex[column]);
    case JOB_ID: return crti_cell_id(row->record.job, hex[column]);
    case ACTOR_ID: return crti_cell_id(e->actor, hex[column]);
    case NODE_ID: return crti_cell_id(e->node, hex[column]);
    case WORKER_ID: return crti_cell_id(e->worker, hex[column]);
    case WORKER_PID: return crti_cell_number(e->pid);
    case ATTEMPT_NUMBER: return crti_cell_number(e->attempts);
    case STATE: return crti_cell_text(crti_task_state_name(e->state));
    case TYPE: return crti_cell_text(crti_task_kind_name(e->kind));
    case NAME: return crti_cell_text(e->name);
    case ERROR_TYPE: return crti_cell_text(error_type(e));
    case ERROR_MESSAGE: return crti_cell_text(e->text);
    case CREATION_TIME: return time_cell(row->first_ns);
    case START_TIME: return time_cell(e->at_ns[CRTI_TASK_RUNNING]);
    default: return time_cell(crti_task_has_ended(e) ? row->last_ns : 0);
    }
}

static crti_row_table_t table_of(hex_t hex)
{
    return (crti_row_table_t){
        .name = "tasks", .columns = columns, .cell = task_cell, .user = hex};
}

/* ---------------------------------------------------------------- rows */

static void write_time(crti_json_writer_t *w, const char *key, uint64_t ns)
{
    crti_json_key(w, key);
    if (ns)
        crti_json_ms(w, ns);
    else
        crti_json_null(w);
}

static void write_events(crti_json_writer_t *w, const crti_task_event_t *e)
{
    crti_json_key(w, "events");
    crti_json_open(w, '{');
    for (int i = 0; i < CRTI_TASK_STATES; i++)
        if (e->at_ns[i])
            write_time(w, crti_task_state_name(i), e->at_ns[i]);
    crti_json_close(w, '}');
}

/* Only who runs it knows that it runs, and what it has printed. */
static void write_log(crti_json_writer_t *w, const crti_task_event_t *e)
{
    crti_json_key(w, "log");
    if (!e->at_ns[CRTI_TASK_RUNNING] || e->log_from > INT64_MAX) {
        crti_json_null(w);
        return;
    }
    crti_json_open(w, '{');
    crti_json_key(w, "from");
    crti_json_integer(w, (int64_t)e->log_from);
    crti_json_key(w, "to");
    if (crti_task_has_ended(e) && e->log_to >= e->log_from && e->log_to <= INT64_MAX)
        crti_json_integer(w, (int64_t)e->log_to);
    else
        crti_json_null(w);
    crti_json_close(w, '}');
}

/* Moments as exactly as they are known; an error where there is one. */
static void write_column(crti_json_writer_t *w, const row_t *row, size_t column)
{
    const crti_task_event_t *e = &row->record.event;
    hex_t hex;
    const crti_row_table_t table = table_of(hex);

    switch (column) {
    case CREATION_TIME: write_time(w, columns[column], row->first_ns); return;
    case START_TIME: write_time(w, columns[column], e->at_ns[CRTI_TASK_RUNNING]); return;
    case END_TIME:
        write_time(w, columns[column], crti_task_has_ended(e) ? row->last_ns : 0);
        return;
    case ERROR_TYPE:
    case ERROR_MESSAGE:
        if (!*task_cell(hex, row, column).text)
            return;
    }
    crti_row_column_write(w, &table, row, column);
}

static void write_row(crti_json_writer_t *w, const row_t *row)
{
    crti_json_open(w, '{');
    for (size_t column = 0; column < COLUMNS; column++)
        write_column(w, row, column);
    write_log(w, &row->record.event);
    write_events(w, &row->record.event);
    crti_json_close(w, '}');
}

/* The newest first. */
static int by_creation(const void *a, const void *b)
{
    uint64_t x = (*(row_t *const *)a)->first_ns, y = (*(row_t *const *)b)->first_ns;

    return (x < y) - (x > y);
}

/* In order. Caller frees it; NULL: no memory. */
static row_t **in_order(const rows_t *rows)
{
    row_t **list = calloc(rows->by_attempt.count + 1, sizeof(*list));
    size_t count = 0;

    if (!list) {
        crt_raise(CRT_ERR_NO_MEMORY, "calls in order");
        return NULL;
    }
    CRTI_MAP_FOREACH (row_t, row, &rows->by_attempt) {
        find_moments(row);
        list[count++] = row;
    }
    qsort(list, count, sizeof(*list), by_creation);
    return list;
}

/* ---------------------------------------------------------------- answers */

static void write_number(crti_json_writer_t *w, const char *key, uint64_t number)
{
    crti_json_key(w, key);
    crti_json_integer(w, (int64_t)number);
}

static void write_collectives(crti_json_writer_t *w, const rows_t *rows)
{
    row_t *list = (row_t *)(void *)rows->collectives.data;

    crti_json_key(w, "collectives");
    crti_json_open(w, '[');
    for (size_t i = 0; i < rows->collectives.size / sizeof(*list); i++) {
        find_moments(&list[i]);
        write_row(w, &list[i]);
    }
    crti_json_close(w, ']');
}

static void write_transfers(crti_json_writer_t *w, const rows_t *rows)
{
    char *text = json_dumps(rows->transfers, JSON_COMPACT | JSON_REAL_PRECISION(17));

    crti_json_key(w, "transfers");
    crti_json_raw(w, text ? text : "[]");
    free(text);
}

/* All, or one; of each all attempts. */
static void write_list(crti_json_writer_t *w, const rows_t *rows, row_t **list,
                       crti_span_t filter)
{
    size_t total = 0;
    hex_t hex;

    crti_json_key(w, "tasks");
    crti_json_open(w, '[');
    for (size_t i = 0; i < rows->by_attempt.count; i++) {
        if (filter.size && !crti_str_equal(filter, task_cell(hex, list[i], TASK_ID).text))
            continue;
        if (total++ < CRTI_TASK_ROWS)
            write_row(w, list[i]);
    }
    crti_json_close(w, ']');
    write_collectives(w, rows);
    write_transfers(w, rows);
    write_number(w, "total", total);
}

static void write_one(void *user, crti_json_writer_t *w, const void *row)
{
    write_row(w, row);
}

/* Of the newest, as in the whole list. */
static void write_picked(crti_json_writer_t *w, const rows_t *rows, row_t **list,
                         const crti_row_query_t *q, const crti_row_table_t *table)
{
    crti_row_picker_t picker = {.table = table, .query = q, .write = write_one, .w = w};

    crti_row_picker_begin(&picker);
    for (size_t i = 0; i < rows->by_attempt.count && i < CRTI_TASK_ROWS; i++)
        crti_row_picker_offer(&picker, list[i]);
    crti_row_picker_end(&picker);
}

static crt_status_t write_answer(crti_json_writer_t *w, const rows_t *rows, row_t **list,
                                 crti_span_t filter)
{
    hex_t hex;
    crti_row_table_t table = table_of(hex);
    crti_row_query_t query;
    crt_status_t status;

    if (!crti_row_query_is(filter)) {
        write_list(w, rows, list, filter);
        return w->status;
    }
    status = crti_row_query_parse(filter, &table, &query);
    if (status != CRT_OK)
        return status;
    write_picked(w, rows, list, &query, &table);
    crti_row_query_fini(&query);
    return w->status;
}

crt_status_t crti_task_rows_check(crti_span_t filter)
{
    hex_t hex;
    crti_row_table_t table = table_of(hex);

    return crti_row_query_check(filter, &table);
}

char *crti_task_rows_join(crti_span_t answers, crti_span_t filter, unsigned silent)
{
    crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};
    rows_t rows;
    crt_status_t status = rows_take(&rows, answers);
    row_t **list = status == CRT_OK ? in_order(&rows) : NULL;

    crti_json_open(&w, '{');
    if (list)
        status = write_answer(&w, &rows, list, filter);
    else
        status = CRT_ERR_NO_MEMORY;
    write_number(&w, "dropped", rows.dropped);
    write_number(&w, "silent_nodes", silent);
    crti_json_close(&w, '}');
    free(list);
    rows_fini(&rows);
    return crti_json_take(&w, status);
}
