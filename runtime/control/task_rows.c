/* SPDX-License-Identifier: Apache-2.0 */
/* What the nodes tell of calls, as one list: the caller's node and the worker's node know a part each of an
 * attempt (docs/design/state.md, "tasks").
 *
 * Where it sits
 *     control_forward.c (answers of all nodes) -> [ control/task_rows.c ] -> STATE_ANSWER
 * Rows without what joins them, or of a form that is not expected, are left out: they are a node's bytes.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "runtime/control/control_int.h"

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));

    return text ? text : "";
}

static bool has_ended(const json_t *row)
{
    const char *state = text_of(row, "state");

    return strcmp(state, "FINISHED") == 0 || strcmp(state, "FAILED") == 0;
}

/* Who runs it knows where, and when that began; the end is the caller's to tell, who may have been told
 * another one. */
static void join_run(json_t *row, json_t *run)
{
    static const char *const places[] = {"node_id", "worker_id", "worker_pid",
                                         "actor_id"};
    json_t *events = json_object_get(row, "events"),
           *run_events = json_object_get(run, "events");
    bool is_over = has_ended(row);

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        json_t *value = json_object_get(run, places[i]);

        if (value && *text_of(run, "worker_id"))
            json_object_set(row, places[i], value);
    }
    json_object_update_missing(events, run_events);
    if (is_over)
        return;
    json_object_set(row, "state", json_object_get(run, "state"));
    json_object_set(row, "error_type", json_object_get(run, "error_type"));
    json_object_set(row, "error_message", json_object_get(run, "error_message"));
}

/* Into `all`, by the name of the attempt. */
static void take_row(json_t *all, json_t *row)
{
    const char *key = text_of(row, "attempt_id");
    json_t *other = json_object_get(all, key);
    bool is_run = json_is_true(json_object_get(row, "is_run"));

    if (!*key || !json_is_object(json_object_get(row, "events")))
        return;
    if (other && json_is_true(json_object_get(other, "is_run")) != is_run) {
        if (is_run) {
            join_run(other, row);
            return;
        }
        join_run(row, other);
    }
    json_object_set(all, key, row);
}

/* The first, or the last, moment that is known of it. */
static double moment(const json_t *row, bool first)
{
    const char *key;
    double at = 0;
    json_t *value;

    json_object_foreach(json_object_get(row, "events"), key, value)
    {
        double t = json_number_value(value);

        if (at == 0 || (first ? t < at : t > at))
            at = t;
    }
    return at;
}

static json_t *event_time(const json_t *row, const char *state)
{
    json_t *value = json_object_get(json_object_get(row, "events"), state);

    return value ? json_incref(value) : json_null();
}

static void finish_row(json_t *row)
{
    json_object_set_new(row, "creation_time", json_real(moment(row, true)));
    json_object_set_new(row, "start_time", event_time(row, "RUNNING"));
    json_object_set_new(row, "end_time",
                        has_ended(row) ? json_real(moment(row, false)) : json_null());
    json_object_del(row, "attempt_id");
    json_object_del(row, "is_run");
}

/* The newest first. */
static int by_creation(const void *a, const void *b)
{
    double x = json_real_value(json_object_get(*(json_t *const *)a, "creation_time")),
           y = json_real_value(json_object_get(*(json_t *const *)b, "creation_time"));

    return (x < y) - (x > y);
}

static bool is_meant(const json_t *row, const char *filter)
{
    return *filter == '\0' || strcmp(text_of(row, "task_id"), filter) == 0;
}

/* Rows of `all`, finished and in order; at most CRTI_TASK_ROWS. `*total`: how many there are. */
static json_t *in_order(json_t *all, const char *filter, size_t *total)
{
    json_t **rows = calloc(json_object_size(all) + 1, sizeof(*rows));
    json_t *list = json_array(), *row;
    const char *key;
    size_t count = 0;

    json_object_foreach(all, key, row) if (rows && is_meant(row, filter))
    {
        finish_row(row);
        rows[count++] = row;
    }
    *total = count;
    if (rows)
        qsort(rows, count, sizeof(*rows), by_creation);
    for (size_t i = 0; i < count && i < CRTI_TASK_ROWS; i++)
        json_array_append(list, rows[i]);
    free(rows);
    return list;
}

/* What is no call has no other half. */
static void take_collective(json_t *collectives, json_t *row)
{
    if (!json_is_object(json_object_get(row, "events")))
        return;
    finish_row(row);
    json_array_append(collectives, row);
}

char *crti_task_rows_join(crti_span_t answers, const char *filter, unsigned silent)
{
    json_t *all = json_object(), *collectives = json_array(), *transfers = json_array(),
           *result, *one, *row;
    json_int_t dropped = 0;
    crti_span_t entry;
    size_t i, total;
    char *text;

    while (crti_list_unpack(&answers, &entry) == CRT_OK) {
        one = json_loadb(entry.data, entry.size, 0, NULL);
        dropped += json_integer_value(json_object_get(one, "dropped"));
        json_array_foreach(json_object_get(one, "tasks"), i, row)
        {
            if (strcmp(text_of(row, "type"), "COLLECTIVE") == 0)
                take_collective(collectives, row);
            else
                take_row(all, row);
        }
        json_array_extend(transfers, json_object_get(one, "transfers"));
        json_decref(one);
    }
    result = json_object();
    json_object_set_new(result, "tasks", in_order(all, filter, &total));
    json_object_set_new(result, "collectives", collectives);
    json_object_set_new(result, "transfers", transfers);
    json_object_set_new(result, "total", json_integer((json_int_t)total));
    json_object_set_new(result, "dropped", json_integer(dropped));
    json_object_set_new(result, "silent_nodes", json_integer(silent));
    text = json_dumps(result, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(result);
    json_decref(all);
    return text;
}
