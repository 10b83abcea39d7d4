/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of all stores with who holds them, as nodes tell of them (docs/design/state.md,
 * "objects"): those that are wanted are written, or counted.
 *
 * Where it sits
 *     control_forward.c (answers of all nodes) -> [ control/rows/object_rows.c ] -> STATE_ANSWER
 * Each answer is a node's records (base/object_records.h), which stay where they are while rows are
 * made of them: texts and what processes told are borrowed. Who holds an object is looked up for
 * those that are wanted, or for all where a query looks at what processes tell. Trust: what is no
 * record ends what that process, or that node, is believed. Where an object was made and why it is
 * kept a process is believed only if it owns it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/object_records.h"
#include "runtime/control/rows/column_list.h"
#include "runtime/control/rows/row_query.h"
#include "runtime/control/rows/state_rows.h"

#define NOBODY UINT32_MAX

typedef struct place {
    crti_id_t id;
    const char *ip;
} place_t; /* a node */

typedef struct process {
    crti_holder_record_t record;
    place_t node;
} process_t;

/* Who holds an object. */
typedef struct holder {
    const process_t *process;
    uint32_t handles, next; /* in all holders; NOBODY: it is the last one */
    bool is_owner;
} holder_t;

/* What processes tell of an object. */
typedef struct told {
    crti_ref_record_t owners; /* what its owner says of it */
    bool has_owner;
    uint32_t first, last; /* of its holders */
} told_t;

typedef struct row {
    crti_object_record_t record;
    place_t node;
    told_t *told; /* NULL: nobody was asked for */
} row_t;

typedef struct rows {
    crti_buffer_t processes, objects, holders; /* process_t, row_t, holder_t */
    told_t *told;                              /* room for one of each object */
    size_t told_count;
    crti_map_t by_id; /* told_t */
    row_t **wanted;   /* room for all */
    size_t wanted_count, matched;
} rows_t;

/* ---------------------------------------------------------------- what nodes have answered */

static crt_status_t take_answer(rows_t *rows, crti_span_t answer)
{
    crti_object_records_t records;
    process_t process;
    row_t row = {.told = NULL};
    crt_status_t status = CRT_OK;

    if (crti_object_records_open(answer, &records) != CRT_OK)
        return CRT_OK;
    process.node = row.node = (place_t){records.node, records.ip};
    while (status == CRT_OK &&
           crti_object_records_next_holder(&records, &process.record) == CRT_OK)
        status = crti_buffer_append(&rows->processes, &process, sizeof(process));
    while (status == CRT_OK && crti_object_records_next(&records, &row.record) == CRT_OK)
        status = crti_buffer_append(&rows->objects, &row, sizeof(row));
    return status;
}

static row_t *objects_of(const rows_t *rows, size_t *count_out)
{
    *count_out = rows->objects.size / sizeof(row_t);
    return (row_t *)(void *)rows->objects.data;
}

static const process_t *processes_of(const rows_t *rows, size_t *count_out)
{
    *count_out = rows->processes.size / sizeof(process_t);
    return (const process_t *)(const void *)rows->processes.data;
}

static crt_status_t rows_take(rows_t *rows, crti_span_t answers)
{
    crt_status_t status = CRT_OK;
    crti_span_t answer;
    size_t count;

    *rows = (rows_t){0};
    crti_map_init(&rows->by_id, sizeof(crti_object_id_t));
    while (status == CRT_OK && crti_list_unpack(&answers, &answer) == CRT_OK)
        status = take_answer(rows, answer);
    objects_of(rows, &count);
    rows->told = calloc(count + 1, sizeof(*rows->told));
    rows->wanted = calloc(count + 1, sizeof(*rows->wanted));
    if (status == CRT_OK && (!rows->told || !rows->wanted))
        status = crt_raise(CRT_ERR_NO_MEMORY, "%zu objects", count);
    return status;
}

static void rows_fini(rows_t *rows)
{
    crti_buffer_fini(&rows->processes);
    crti_buffer_fini(&rows->objects);
    crti_buffer_fini(&rows->holders);
    crti_map_fini(&rows->by_id);
    free(rows->told);
    free(rows->wanted);
}

/* ---------------------------------------------------------------- who holds them */

static crt_status_t ask_for(rows_t *rows, row_t *row)
{
    row->told = crti_map_get(&rows->by_id, &row->record.id);
    if (row->told)
        return CRT_OK; /* a copy of it on another node was before */
    row->told = &rows->told[rows->told_count++];
    row->told->first = row->told->last = NOBODY;
    return crti_map_put(&rows->by_id, &row->record.id, row->told);
}

static bool owns(const process_t *process, const crti_ref_record_t *ref)
{
    return crti_id_equal(process->record.worker, ref->id.owner);
}

static crt_status_t add_holder(rows_t *rows, told_t *told, const process_t *process,
                               const crti_ref_record_t *ref)
{
    holder_t holder = {.process = process,
                       .handles = ref->handles,
                       .next = NOBODY,
                       .is_owner = owns(process, ref)};
    uint32_t index = (uint32_t)(rows->holders.size / sizeof(holder));
    crt_status_t status = crti_buffer_append(&rows->holders, &holder, sizeof(holder));

    if (status != CRT_OK)
        return status;
    if (told->first == NOBODY)
        told->first = index;
    else
        ((holder_t *)(void *)rows->holders.data)[told->last].next = index;
    told->last = index;
    if (holder.is_owner) {
        told->owners = *ref;
        told->has_owner = true;
    }
    return CRT_OK;
}

/* Of the objects that were asked for. */
static crt_status_t hear_processes(rows_t *rows)
{
    size_t count;
    const process_t *processes = processes_of(rows, &count);
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < count && rows->told_count; i++) {
        crti_ref_records_t records;
        crti_ref_record_t ref;

        if (crti_ref_records_open(processes[i].record.told, &records) != CRT_OK)
            continue;
        while (status == CRT_OK && crti_ref_records_next(&records, &ref) == CRT_OK) {
            told_t *told = crti_map_get(&rows->by_id, &ref.id);

            if (told)
                status = add_holder(rows, told, &processes[i], &ref);
        }
    }
    return status;
}

/* ---------------------------------------------------------------- cells */

CRTI_COLUMN_IDS(CRTI_OBJECT_COLUMNS);
CRTI_COLUMN_KEYS(CRTI_OBJECT_COLUMNS);

/* Where the texts of cells are: one of each column, for those that are ids. */
typedef char hex_t[COLUMNS][CRTI_OBJECT_HEX];

/* Processes tell of it. */
static bool is_told(size_t column)
{
    return column == CALL_SITE || column == KIND || column == REFERENCE_TYPE ||
           column == CALLS;
}

static const char *kind_of(const row_t *row)
{
    return row->told && row->told->has_owner ? crti_ref_kind_name(row->told->owners.kind)
                                             : "";
}

/* Why the owner keeps it, as far as Ray has words for that. */
static const char *reference_type(const row_t *row)
{
    if (row->told && row->told->has_owner)
        switch (row->told->owners.kind) {
        case CRTI_REF_LOCAL:
        case CRTI_REF_USED_BY_CALL:
        case CRTI_REF_CAPTURED: return kind_of(row);
        default: break;
        }
    return row->record.pins ? "PINNED_IN_MEMORY" : "UNKNOWN_STATUS";
}

static crti_cell_t object_cell(void *user, const void *entry, size_t column)
{
    const row_t *row = entry;
    const crti_object_record_t *object = &row->record;
    bool has_owner = row->told && row->told->has_owner;
    char(*hex)[CRTI_OBJECT_HEX] = user;

    switch (column) {
    case OBJECT_ID: return crti_cell_object(object->id, hex[column]);
    case OWNER_ID: return crti_cell_text(crti_id_hex(object->id.owner, hex[column]));
    case OWNER_PID: return crti_cell_number(object->owner_pid);
    case OWNER_TYPE: return crti_cell_text(object->is_of_driver ? "DRIVER" : "WORKER");
    case NODE_ID: return crti_cell_text(crti_id_hex(row->node.id, hex[column]));
    case IP: return crti_cell_text(row->node.ip);
    case SIZE: return crti_cell_number((double)object->size);
    case PINS: return crti_cell_number(object->pins);
    case IS_SEALED: return crti_cell_bool(object->is_sealed);
    case IS_COPY: return crti_cell_bool(object->is_copy);
    case CALL_SITE: return crti_cell_text(has_owner ? row->told->owners.place : "");
    case KIND: return crti_cell_text(kind_of(row));
    case REFERENCE_TYPE: return crti_cell_text(reference_type(row));
    default:
        return has_owner ? crti_cell_number(row->told->owners.calls) : (crti_cell_t){0};
    }
}

static crti_row_table_t table_of(hex_t hex)
{
    return (crti_row_table_t){
        .name = "objects", .columns = columns, .cell = object_cell, .user = hex};
}

/* ---------------------------------------------------------------- which are wanted */

/* Who processes have to be heard of for the query itself. */
static bool reads_told(const crti_row_query_t *q)
{
    for (size_t i = 0; i < q->filter_count; i++)
        if (is_told(q->filters[i].column))
            return true;
    for (size_t i = 0; i < q->grouped_count; i++)
        if (is_told(q->grouped[i]))
            return true;
    return false;
}

static crt_status_t hear_of_all(rows_t *rows)
{
    crt_status_t status = CRT_OK;
    size_t count;
    row_t *objects = objects_of(rows, &count);

    for (size_t i = 0; i < count && status == CRT_OK; i++)
        status = ask_for(rows, &objects[i]);
    return status == CRT_OK ? hear_processes(rows) : status;
}

static crt_status_t hear_of_wanted(rows_t *rows)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < rows->wanted_count && status == CRT_OK; i++)
        status = ask_for(rows, rows->wanted[i]);
    return status == CRT_OK ? hear_processes(rows) : status;
}

/* By a query, or by id; "": all. */
static void pick(rows_t *rows, const crti_row_query_t *q, const crti_row_table_t *table,
                 crti_span_t id)
{
    size_t count;
    row_t *objects = objects_of(rows, &count);

    for (size_t i = 0; i < count; i++) {
        bool is_meant =
            q ? crti_row_query_matches(q, table, &objects[i])
              : !id.size ||
                    crti_str_equal(id,
                                   object_cell(table->user, &objects[i], OBJECT_ID).text);

        if (!is_meant)
            continue;
        if (!q || q->grouped_count ||
            (rows->matched >= q->offset && rows->wanted_count < q->limit))
            rows->wanted[rows->wanted_count++] = &objects[i];
        rows->matched++;
    }
}

/* ---------------------------------------------------------------- rows */

static void write_holders(crti_json_writer_t *w, const rows_t *rows, const told_t *told)
{
    const holder_t *holders = (const holder_t *)(const void *)rows->holders.data;

    crti_json_open(w, '[');
    for (uint32_t i = told->first; i != NOBODY; i = holders[i].next) {
        const process_t *process = holders[i].process;

        crti_json_open(w, '{');
        crti_json_key(w, "worker_id");
        crti_json_id(w, process->record.worker);
        crti_json_key(w, "pid");
        crti_json_integer(w, process->record.pid);
        crti_json_key(w, "node_id");
        crti_json_id(w, process->node.id);
        crti_json_key(w, "handles");
        crti_json_integer(w, holders[i].handles);
        crti_json_key(w, "is_owner");
        crti_json_bool(w, holders[i].is_owner);
        crti_json_close(w, '}');
    }
    crti_json_close(w, ']');
}

static void write_row(crti_json_writer_t *w, const rows_t *rows, const row_t *row,
                      const crti_row_table_t *table)
{
    crti_json_open(w, '{');
    crti_row_columns_write(w, table, row, COLUMNS);
    crti_json_key(w, "holders");
    write_holders(w, rows, row->told);
    crti_json_close(w, '}');
}

/* `q` may be NULL. */
static void write_rows(crti_json_writer_t *w, const rows_t *rows,
                       const crti_row_query_t *q, const crti_row_table_t *table)
{
    crti_json_open(w, '[');
    for (size_t i = 0; i < rows->wanted_count && w->out->size <= CRTI_ROWS_BYTES; i++)
        if (q && q->shown_count)
            crti_row_query_write(q, table, rows->wanted[i], w);
        else
            write_row(w, rows, rows->wanted[i], table);
    crti_json_close(w, ']');
}

static void write_groups(crti_json_writer_t *w, const rows_t *rows,
                         const crti_row_query_t *q, const crti_row_table_t *table)
{
    crti_row_counts_t counts;

    crti_row_counts_init(&counts);
    for (size_t i = 0; i < rows->wanted_count && w->status == CRT_OK; i++)
        w->status = crti_row_counts_add(&counts, q, table, rows->wanted[i]);
    crti_json_key(w, "groups");
    crti_row_counts_write(&counts, q, table, w);
    crti_row_counts_fini(&counts);
}

static void write_picked(crti_json_writer_t *w, const rows_t *rows,
                         const crti_row_query_t *q, const crti_row_table_t *table)
{
    size_t count;

    objects_of(rows, &count);
    crti_json_open(w, '{');
    if (q->grouped_count) {
        write_groups(w, rows, q, table);
    } else {
        crti_json_key(w, "objects");
        write_rows(w, rows, q, table);
    }
    crti_json_key(w, "all");
    crti_json_integer(w, (int64_t)count);
    crti_json_key(w, "matched");
    crti_json_integer(w, (int64_t)rows->matched);
    crti_json_close(w, '}');
}

static crt_status_t write_query(crti_json_writer_t *w, rows_t *rows,
                                const crti_row_query_t *q, const crti_row_table_t *table)
{
    bool hears_all = reads_told(q);
    crt_status_t status = hears_all ? hear_of_all(rows) : CRT_OK;

    if (status == CRT_OK)
        pick(rows, q, table, crti_span(NULL, 0));
    if (status == CRT_OK && !hears_all && !q->grouped_count)
        status = hear_of_wanted(rows);
    if (status != CRT_OK)
        return status;
    write_picked(w, rows, q, table);
    return w->status;
}

static crt_status_t write_objects(crti_json_writer_t *w, rows_t *rows, crti_span_t filter)
{
    hex_t hex;
    crti_row_table_t table = table_of(hex);
    crti_row_query_t query;
    crt_status_t status;

    if (!crti_row_query_is(filter)) {
        pick(rows, NULL, &table, filter);
        status = hear_of_wanted(rows);
        if (status != CRT_OK)
            return status;
        write_rows(w, rows, NULL, &table);
        return w->status;
    }
    status = crti_row_query_parse(filter, &table, &query);
    if (status != CRT_OK)
        return status;
    status = write_query(w, rows, &query, &table);
    crti_row_query_fini(&query);
    return status;
}

crt_status_t crti_object_rows_check(crti_span_t filter)
{
    hex_t hex;
    crti_row_table_t table = table_of(hex);

    return crti_row_query_check(filter, &table);
}

char *crti_object_rows_join(crti_span_t answers, crti_span_t filter)
{
    crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};
    rows_t rows;
    crt_status_t status = rows_take(&rows, answers);

    if (status == CRT_OK)
        status = write_objects(&w, &rows, filter);
    rows_fini(&rows);
    return crti_json_take(&w, status);
}
