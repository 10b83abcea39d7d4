/* SPDX-License-Identifier: Apache-2.0 */
/* What processes said of themselves, as their nodes pass it on: their stacks and waits as one list, who holds the
 * objects of the stores, and all refs (docs/design/state.md, "stacks", "objects" and "refs").
 *
 * Where it sits
 *     control_forward.c (answers of all nodes) -> [ control/process_rows.c ] -> STATE_ANSWER
 * Trust
 *     "said" and "stack" are texts of JSON that a process wrote: what is none is left out, and of objects a process is
 *     believed where they are made only if it owns them.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "runtime/control/control_int.h"
#include "runtime/control/row_query.h"

#define OWNER_DIGITS 32 /* of an object's id */

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));

    return text ? text : "";
}

/* The text under `key` becomes what it says; null when it is no JSON. */
static void decode(json_t *row, const char *key)
{
    json_t *value = json_loads(text_of(row, key), 0, NULL);

    json_object_set_new(row, key, value ? value : json_null());
}

/* ---------------------------------------------------------------- stacks */

char *crti_stack_rows_join(crti_span_t answers, unsigned silent)
{
    json_t *processes = json_array(), *errors = json_array(), *one, *row, *all;
    crti_span_t entry;
    char *text;
    size_t i;

    while (crti_list_unpack(&answers, &entry) == CRT_OK) {
        one = json_loadb(entry.data, entry.size, 0, NULL);
        if (*text_of(one, "error"))
            json_array_append(errors, json_object_get(one, "error"));
        json_array_foreach(json_object_get(one, "processes"), i, row)
        {
            decode(row, "said");
            decode(row, "stack");
            json_array_append(processes, row);
        }
        json_decref(one);
    }
    all = json_pack("{s:o, s:o, s:i}", "processes", processes, "errors", errors,
                    "silent_nodes", (int)silent);
    text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(all);
    return text;
}

/* ---------------------------------------------------------------- objects */

static bool owns_object(const json_t *process, const char *id)
{
    return strlen(id) > OWNER_DIGITS &&
           strncmp(id, text_of(process, "worker_id"), OWNER_DIGITS) == 0;
}

/* Adds who holds the object: {"object id": {"call_site": ..., "holders": [...]}} */
static void add_holder(json_t *holders, const json_t *process, const json_t *ref)
{
    const char *id = text_of(ref, "object_id"), *worker = text_of(process, "worker_id");
    json_t *object = json_object_get(holders, id);
    bool owns = owns_object(process, id);

    if (!*id)
        return;
    if (!object) {
        object = json_pack("{s:[]}", "holders");
        json_object_set_new(holders, id, object);
    }
    if (owns) {
        json_object_set(object, "call_site", json_object_get(ref, "place"));
        json_object_set(object, "kind", json_object_get(ref, "kind"));
        json_object_set(object, "calls", json_object_get(ref, "calls"));
    }
    json_array_append_new(json_object_get(object, "holders"),
                          json_pack("{s:s, s:O?, s:s, s:O?, s:b}", "worker_id", worker,
                                    "pid", json_object_get(process, "pid"), "node_id",
                                    text_of(process, "node_id"), "handles",
                                    json_object_get(ref, "handles"), "is_owner", owns));
}

/* Of the objects in `ids`. */
static void take_processes(json_t *holders, json_t *processes, const json_t *ids)
{
    json_t *process, *ref;
    size_t i, k;

    json_array_foreach(processes, i, process)
    {
        decode(process, "said");
        json_array_foreach(json_object_get(json_object_get(process, "said"), "refs"), k,
                           ref) if (json_object_get(ids, text_of(ref, "object_id")))
            add_holder(holders, process, ref);
    }
}

static json_t *with_holders(const json_t *holders, json_t *object)
{
    const json_t *known = json_object_get(holders, text_of(object, "object_id"));
    json_t *list = json_object_get(known, "holders"),
           *calls = json_object_get(known, "calls");

    json_object_set_new(object, "call_site", json_string(text_of(known, "call_site")));
    json_object_set_new(object, "kind", json_string(text_of(known, "kind")));
    json_object_set_new(object, "calls", calls ? json_incref(calls) : json_null());
    json_object_set_new(object, "holders", list ? json_incref(list) : json_array());
    return object;
}

/* What nodes say of objects themselves: a query looks at nothing else. */
static const char *const columns[] = {"object_id",  "size",    "owner_pid", "owner_id",
                                      "owner_type", "node_id", "ip",        "pins",
                                      "is_sealed",  "is_copy", NULL};

static crti_cell_t object_cell(void *user, const void *row, size_t column)
{
    const json_t *value = json_object_get(row, columns[column]);

    return json_is_string(value)    ? crti_cell_text(json_string_value(value))
           : json_is_number(value)  ? crti_cell_number(json_number_value(value))
           : json_is_boolean(value) ? crti_cell_bool(json_is_true(value))
                                    : (crti_cell_t){0};
}

static const crti_row_table_t table = {
    .name = "objects", .columns = columns, .cell = object_cell};

/* What nodes have answered, and which of the objects are meant. */
typedef struct object_rows {
    json_t *processes, *objects, *wanted;
    size_t all, matched;
} object_rows_t;

static void pick(object_rows_t *rows, const crti_row_query_t *query, crti_span_t id)
{
    json_t *object;
    size_t i;

    rows->all = json_array_size(rows->objects);
    json_array_foreach(rows->objects, i, object)
    {
        bool is_meant =
            query ? crti_row_query_matches(query, &table, object)
                  : !id.size || crti_str_equal(id, text_of(object, "object_id"));

        if (is_meant && rows->matched++ < (query ? query->limit : SIZE_MAX))
            json_array_append(rows->wanted, object);
    }
}

static json_t *with_all_holders(const object_rows_t *rows)
{
    json_t *ids = json_object(), *holders = json_object(), *list = json_array(), *object;
    size_t i;

    json_array_foreach(rows->wanted, i, object)
        json_object_set_new(ids, text_of(object, "object_id"), json_true());
    take_processes(holders, rows->processes, ids);
    json_array_foreach(rows->wanted, i, object)
        json_array_append(list, with_holders(holders, object));
    json_decref(ids);
    json_decref(holders);
    return list;
}

crt_status_t crti_object_rows_check(crti_span_t filter)
{
    crti_row_query_t query;
    crt_status_t status;

    if (!crti_row_query_is(filter))
        return CRT_OK;
    status = crti_row_query_parse(filter, &table, &query);
    if (status != CRT_OK)
        return status;
    if (query.grouped_count)
        status = crt_raise(CRT_ERR_INVALID, "objects are not counted by their columns");
    crti_row_query_fini(&query);
    return status;
}

char *crti_object_rows_join(crti_span_t answers, crti_span_t filter)
{
    object_rows_t rows = {
        .processes = json_array(), .objects = json_array(), .wanted = json_array()};
    bool is_query = crti_row_query_is(filter);
    crti_row_query_t query = {0};
    json_t *all = NULL, *one;
    crti_span_t entry;
    char *text;

    while (crti_list_unpack(&answers, &entry) == CRT_OK) {
        one = json_loadb(entry.data, entry.size, 0, NULL);
        json_array_extend(rows.processes, json_object_get(one, "processes"));
        json_array_extend(rows.objects, json_object_get(one, "objects"));
        json_decref(one);
    }
    if (!is_query || crti_row_query_parse(filter, &table, &query) == CRT_OK) {
        pick(&rows, is_query ? &query : NULL, filter);
        all = with_all_holders(&rows);
    }
    if (is_query && all)
        all = json_pack("{s:o, s:I, s:I}", "objects", all, "all", (json_int_t)rows.all,
                        "matched", (json_int_t)rows.matched);
    text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    crti_row_query_fini(&query);
    json_decref(all);
    json_decref(rows.processes);
    json_decref(rows.objects);
    json_decref(rows.wanted);
    return text;
}

/* ---------------------------------------------------------------- refs */

/* Where the owner says that it was made, for those who borrow it. */
static void take_places(json_t *places, const json_t *process)
{
    const json_t *refs = json_object_get(json_object_get(process, "said"), "refs");

    for (size_t i = 0; i < json_array_size(refs); i++) {
        const json_t *ref = json_array_get(refs, i);
        const char *id = text_of(ref, "object_id");

        if (*text_of(ref, "place") && owns_object(process, id))
            json_object_set(places, id, json_object_get(ref, "place"));
    }
}

static json_t *ref_row(const json_t *places, const json_t *process, const json_t *ref)
{
    const char *id = text_of(ref, "object_id");
    json_t *place = json_object_get(places, id), *calls = json_object_get(ref, "calls"),
           *borrowers = json_object_get(ref, "borrower_count");

    return json_pack(
        "{s:s, s:O?, s:s, s:s, s:s, s:O?, s:O?, s:O?, s:s, s:s, s:O?, s:s, s:s, s:s, "
        "s:s}",
        "object_id", id, "size", json_object_get(ref, "size"), "content",
        text_of(ref, "content"), "kind", text_of(ref, "kind"), "call_site",
        place ? json_string_value(place) : "", "handles", json_object_get(ref, "handles"),
        "calls", calls, "borrower_count", borrowers, "worker_id",
        text_of(process, "worker_id"), "worker_type", text_of(process, "worker_type"),
        "pid", json_object_get(process, "pid"), "node_id", text_of(process, "node_id"),
        "ip", text_of(process, "ip"), "job_id", text_of(process, "job_id"), "actor_id",
        text_of(process, "actor_id"));
}

static void add_refs(json_t *all, const json_t *places, const json_t *process)
{
    const json_t *refs = json_object_get(json_object_get(process, "said"), "refs");

    for (size_t i = 0; i < json_array_size(refs); i++) {
        json_t *row = ref_row(places, process, json_array_get(refs, i));

        if (row)
            json_array_append_new(all, row);
    }
}

static json_int_t said_number(const json_t *process, const char *key)
{
    return json_integer_value(json_object_get(json_object_get(process, "said"), key));
}

char *crti_ref_rows_join(crti_span_t answers, unsigned silent)
{
    json_t *processes = json_array(), *places = json_object(), *rows = json_array(), *one,
           *process, *all;
    json_int_t count = 0, bytes = 0, mute = 0;
    crti_span_t entry;
    char *text;
    size_t i;

    while (crti_list_unpack(&answers, &entry) == CRT_OK) {
        one = json_loadb(entry.data, entry.size, 0, NULL);
        json_array_extend(processes, json_object_get(one, "processes"));
        json_decref(one);
    }
    json_array_foreach(processes, i, process)
    {
        decode(process, "said");
        mute += !json_is_object(json_object_get(process, "said"));
        count += said_number(process, "count");
        bytes += said_number(process, "bytes");
        take_places(places, process);
    }
    json_array_foreach(processes, i, process) add_refs(rows, places, process);
    all = json_pack("{s:o, s:I, s:I, s:I, s:I}", "refs", rows, "count", count, "bytes",
                    bytes, "silent_processes", mute, "silent_nodes", (json_int_t)silent);
    text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    json_decref(places);
    json_decref(processes);
    return text;
}
