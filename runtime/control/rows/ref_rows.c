/* SPDX-License-Identifier: Apache-2.0 */
/* The refs of all processes, by who holds them, as nodes tell of them (docs/design/state.md,
 * "refs"): all, or those that a query wants, the largest first.
 *
 * Where it sits
 *     control_forward.c (answers of all nodes) -> [ control/rows/ref_rows.c ] -> STATE_ANSWER
 * Each answer is a node's records (base/object_records.h), which stay where they are while rows are
 * made of them. Trust: what is no record ends what that process, or that node, is believed. Where
 * an object was made its owner knows.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/object_records.h"
#include "runtime/control/rows/column_list.h"
#include "runtime/control/rows/row_query.h"
#include "runtime/control/rows/state_rows.h"

typedef struct row {
    crti_ref_record_t ref; /* its place is that which the owner tells */
    size_t process;
} row_t;

typedef struct process {
    crti_holder_record_t record;
    crti_id_t node;
    const char *ip;
} process_t;

typedef struct refs {
    crti_buffer_t processes, rows; /* process_t, row_t */
    crti_map_t places;             /* texts that owners tell, by object */
    uint64_t count, bytes, mute;
} refs_t;

/* ---------------------------------------------------------------- what nodes have answered */

static crt_status_t take_ref(refs_t *refs, const process_t *process,
                             const crti_ref_record_t *ref)
{
    row_t row = {.ref = *ref, .process = refs->processes.size / sizeof(process_t) - 1};
    crt_status_t status = crti_buffer_append(&refs->rows, &row, sizeof(row));

    if (status == CRT_OK && *ref->place &&
        crti_id_equal(process->record.worker, ref->id.owner))
        status = crti_map_put(&refs->places, &ref->id, (void *)(uintptr_t)ref->place);
    return status;
}

static crt_status_t take_process(refs_t *refs, const process_t *process)
{
    crti_ref_records_t told;
    crti_ref_record_t ref;
    crt_status_t status = crti_buffer_append(&refs->processes, process, sizeof(*process));

    if (status != CRT_OK)
        return status;
    if (crti_ref_records_open(process->record.told, &told) != CRT_OK) {
        refs->mute++;
        return CRT_OK;
    }
    refs->count += told.count;
    refs->bytes += told.bytes;
    while (status == CRT_OK && crti_ref_records_next(&told, &ref) == CRT_OK)
        status = take_ref(refs, process, &ref);
    return status;
}

static crt_status_t take_answer(refs_t *refs, crti_span_t answer)
{
    crti_object_records_t records;
    process_t process;
    crt_status_t status = CRT_OK;

    if (crti_object_records_open(answer, &records) != CRT_OK)
        return CRT_OK;
    process.node = records.node;
    process.ip = records.ip;
    while (status == CRT_OK &&
           crti_object_records_next_holder(&records, &process.record) == CRT_OK)
        status = take_process(refs, &process);
    return status;
}

static crt_status_t refs_take(refs_t *refs, crti_span_t answers)
{
    crt_status_t status = CRT_OK;
    crti_span_t answer;

    *refs = (refs_t){0};
    crti_map_init(&refs->places, sizeof(crti_object_id_t));
    while (status == CRT_OK && crti_list_unpack(&answers, &answer) == CRT_OK)
        status = take_answer(refs, answer);
    return status;
}

static void refs_fini(refs_t *refs)
{
    crti_buffer_fini(&refs->processes);
    crti_buffer_fini(&refs->rows);
    crti_map_fini(&refs->places);
}

static row_t *rows_of(const refs_t *refs, size_t *count_out)
{
    *count_out = refs->rows.size / sizeof(row_t);
    return (row_t *)(void *)refs->rows.data;
}

/* All that the owners tell is known. */
static void set_places(refs_t *refs)
{
    size_t count;
    row_t *rows = rows_of(refs, &count);

    for (size_t i = 0; i < count; i++) {
        const char *place = crti_map_get(&refs->places, &rows[i].ref.id);

        rows[i].ref.place = place ? place : "";
    }
}

/* The largest first; of one size in the order in which they came. */
static int by_size(const void *a, const void *b)
{
    const row_t *x = a, *y = b;

    if (x->ref.size != y->ref.size)
        return x->ref.size < y->ref.size ? 1 : -1;
    if (x->process != y->process)
        return x->process < y->process ? -1 : 1;
    return x->ref.id.number < y->ref.id.number ? -1 : x->ref.id.number > y->ref.id.number;
}

/* ---------------------------------------------------------------- cells */

CRTI_COLUMN_IDS(CRTI_REF_COLUMNS);
CRTI_COLUMN_KEYS(CRTI_REF_COLUMNS);

/* What cells are made of. */
typedef struct view {
    const process_t *processes;
    char hex[ACTOR_ID + 1][CRTI_OBJECT_HEX]; /* the texts of those that are ids */
} view_t;

/* Only an owner knows. */
static crti_cell_t owned_cell(const crti_ref_record_t *ref, uint32_t number)
{
    return ref->is_owned ? crti_cell_number(number) : (crti_cell_t){0};
}

static crti_cell_t ref_cell(void *user, const void *entry, size_t column)
{
    view_t *view = user;
    const row_t *row = entry;
    const crti_ref_record_t *ref = &row->ref;
    const process_t *process = &view->processes[row->process];
    const crti_holder_record_t *holder = &process->record;

    switch (column) {
    case OBJECT_ID: return crti_cell_object(ref->id, view->hex[column]);
    case WORKER_ID: return crti_cell_id(holder->worker, view->hex[column]);
    case NODE_ID: return crti_cell_id(process->node, view->hex[column]);
    case JOB_ID: return crti_cell_id(holder->job, view->hex[column]);
    case ACTOR_ID: return crti_cell_id(holder->actor, view->hex[column]);
    case SIZE: return crti_cell_number((double)ref->size);
    case CONTENT: return crti_cell_text(crti_ref_value_name(ref->value));
    case KIND: return crti_cell_text(crti_ref_kind_name(ref->kind));
    case CALL_SITE: return crti_cell_text(ref->place);
    case HANDLES: return crti_cell_number(ref->handles);
    case CALLS: return owned_cell(ref, ref->calls);
    case BORROWER_COUNT: return owned_cell(ref, ref->borrowers);
    case WORKER_TYPE: return crti_cell_text(holder->is_driver ? "DRIVER" : "WORKER");
    case PID: return crti_cell_number(holder->pid);
    default: return crti_cell_text(process->ip);
    }
}

static crti_row_table_t table_of(view_t *view)
{
    return (crti_row_table_t){
        .name = "refs", .columns = columns, .cell = ref_cell, .user = view};
}

/* ---------------------------------------------------------------- rows */

static void write_row(void *user, crti_json_writer_t *w, const void *row)
{
    const crti_row_table_t table = table_of(user);

    crti_json_open(w, '{');
    crti_row_columns_write(w, &table, row, COLUMNS);
    crti_json_close(w, '}');
}

/* NULL: all are wanted. */
static void write_rows(crti_json_writer_t *w, const refs_t *refs,
                       const crti_row_query_t *q, const crti_row_table_t *table)
{
    crti_row_picker_t picker = {.table = table, .query = q, .write = write_row, .w = w};
    size_t count;
    const row_t *rows = rows_of(refs, &count);

    crti_row_picker_begin(&picker);
    for (size_t i = 0; i < count; i++)
        crti_row_picker_offer(&picker, &rows[i]);
    crti_row_picker_end(&picker);
}

static void write_number(crti_json_writer_t *w, const char *key, uint64_t number)
{
    crti_json_key(w, key);
    crti_json_integer(w, (int64_t)number);
}

static void write_refs(crti_json_writer_t *w, const refs_t *refs,
                       const crti_row_query_t *q, const crti_row_table_t *table,
                       unsigned silent)
{
    crti_json_open(w, '{');
    write_rows(w, refs, q, table);
    write_number(w, "count", refs->count);
    write_number(w, "bytes", refs->bytes);
    write_number(w, "silent_processes", refs->mute);
    write_number(w, "silent_nodes", silent);
    crti_json_close(w, '}');
}

static crt_status_t write_answer(crti_json_writer_t *w, refs_t *refs, crti_span_t filter,
                                 unsigned silent)
{
    view_t view = {.processes = (const process_t *)(const void *)refs->processes.data};
    crti_row_table_t table = table_of(&view);
    crti_row_query_t query;
    crt_status_t status;
    size_t count;
    row_t *rows = rows_of(refs, &count);

    set_places(refs);
    if (!crti_row_query_is(filter)) {
        write_refs(w, refs, NULL, &table, silent);
        return w->status;
    }
    status = crti_row_query_parse(filter, &table, &query);
    if (status != CRT_OK)
        return status;
    if (count)
        qsort(rows, count, sizeof(*rows), by_size);
    write_refs(w, refs, &query, &table, silent);
    crti_row_query_fini(&query);
    return w->status;
}

crt_status_t crti_ref_rows_check(crti_span_t filter)
{
    view_t view = {.processes = NULL};
    crti_row_table_t table = table_of(&view);
    crti_row_query_t query;
    crt_status_t status;

    if (!crti_row_query_is(filter))
        return CRT_OK;
    status = crti_row_query_parse(filter, &table, &query);
    if (status != CRT_OK)
        return status;
    if (query.grouped_count)
        status = crt_raise(CRT_ERR_INVALID, "refs are not counted by their columns");
    crti_row_query_fini(&query);
    return status;
}

char *crti_ref_rows_join(crti_span_t answers, crti_span_t filter, unsigned silent)
{
    crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};
    refs_t refs;
    crt_status_t status = refs_take(&refs, answers);

    if (status == CRT_OK)
        status = write_answer(&w, &refs, filter, silent);
    refs_fini(&refs);
    return crti_json_take(&w, status);
}
