/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline: calls, what they waited for, collectives and transfers of objects as a trace in the
 * format of Chrome. See state_views.h.
 *
 * Slices of one lane lie inside each other or beside each other: what overlaps is put into lanes of
 * the same name with numbers. Arrows lead from who made a call to where it ran, from a call to the
 * transfer that it waited for, and from a transfer to the call whose argument it brought.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/http/state_views.h"

#define US_PER_MS 1000.0
#define LANES     64 /* of one name; what does not fit overlaps in the last one */

typedef struct trace {
    json_t *events;
    /* of lanes: name -> moment of the last end in each, in the order of time */
    json_t *ends;
    json_t *runs; /* worker -> its calls, in the order of their begins */
    size_t transfers;
    double now; /* what has not ended has gone on until then */
} trace_t;

/* Where a slice is drawn. */
typedef struct lane {
    char place[64], name[80];
} lane_t;

static double event_at(const json_t *task, const char *state)
{
    return json_number_value(json_object_get(json_object_get(task, "events"), state)) *
           US_PER_MS;
}

/* When it ended, or `now`. */
static double end_of(const json_t *task, double now)
{
    double end = json_number_value(json_object_get(task, "end_time")) * US_PER_MS;

    return end > 0 ? end : now;
}

/* A lane of that name that is free at `begin`; what is drawn there comes in the order of time. */
static void take_lane(trace_t *trace, lane_t *lane, double begin, double end)
{
    char key[160];
    json_t *ends;
    size_t i = 0;

    snprintf(key, sizeof(key), "%s %s", lane->place, lane->name);
    ends = json_object_get(trace->ends, key);
    if (!ends) {
        ends = json_array();
        json_object_set_new(trace->ends, key, ends);
    }
    while (i < json_array_size(ends) && i + 1 < LANES &&
           json_real_value(json_array_get(ends, i)) > begin)
        i++;
    if (i < json_array_size(ends))
        json_array_set_new(ends, i, json_real(end));
    else
        json_array_append_new(ends, json_real(end));
    if (i) {
        size_t size = strlen(lane->name);

        snprintf(lane->name + size, sizeof(lane->name) - size, " (%zu)", i + 1);
    }
}

static void add_slice(trace_t *trace, const char *category, const char *name,
                      const lane_t *lane, double begin, double end, json_t *args)
{
    json_array_append_new(trace->events,
                          json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:o}", "ph", "X",
                                    "cat", category, "name", name, "pid", lane->place,
                                    "tid", lane->name, "ts", begin, "dur",
                                    end > begin ? end - begin : 0.0, "args", args));
}

static void add_arrow(trace_t *trace, const char *what, const char *id,
                      const lane_t *from, double from_at, const lane_t *to, double to_at)
{
    const lane_t *lanes[] = {from, to};
    double at[] = {from_at, to_at};

    for (int i = 0; i < 2; i++)
        json_array_append_new(trace->events,
                              json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:s}", "ph",
                                        i ? "f" : "s", "cat", what, "name", what, "id",
                                        id, "pid", lanes[i]->place, "tid", lanes[i]->name,
                                        "ts", at[i], "bp", "e"));
}

/* ---------------------------------------------------------------- calls */

static json_t *task_args(const json_t *task)
{
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:s}", "task_id", crti_view_text(task, "task_id"), "job_id",
        crti_view_text(task, "job_id"), "state", crti_view_text(task, "state"),
        "attempt_number", json_integer_value(json_object_get(task, "attempt_number")),
        "error", crti_view_text(task, "error_message"));
}

/* "node 9c00.." and "worker 3f2a.. (pid 17)": where it ran. */
static lane_t worker_lane(const json_t *row)
{
    lane_t lane;

    snprintf(lane.place, sizeof(lane.place), "node %.8s", crti_view_text(row, "node_id"));
    snprintf(lane.name, sizeof(lane.name), "worker %.8s (pid %lld)",
             crti_view_text(row, "worker_id"),
             (long long)json_integer_value(json_object_get(row, "worker_pid")));
    return lane;
}

/* What it waited for, inside of its wait: arguments, a worker or its turn, the way there. */
static void add_queueing(trace_t *trace, const json_t *task, const lane_t *lane,
                         double until)
{
    static const char *const states[][2] = {{"PENDING_ARGS_AVAIL", "arguments"},
                                            {"PENDING_NODE_ASSIGNMENT", "queued"},
                                            {"SUBMITTED_TO_WORKER", "sent"}};
    double end = until;

    for (int i = 2; i >= 0; i--) {
        double begin = event_at(task, states[i][0]);

        if (begin <= 0 || begin >= end)
            continue;
        add_slice(trace, "queueing", states[i][1], lane, begin, end, json_object());
        end = begin;
    }
}

static void remember_run(trace_t *trace, json_t *task)
{
    const char *worker = crti_view_text(task, "worker_id");
    json_t *runs = json_object_get(trace->runs, worker);

    if (!runs) {
        runs = json_array();
        json_object_set_new(trace->runs, worker, runs);
    }
    json_array_append(runs, task);
}

static void add_wait(trace_t *trace, json_t *task)
{
    double made = event_at(task, "PENDING_ARGS_AVAIL"), begun = event_at(task, "RUNNING");
    double waited = begun > 0 ? begun : end_of(task, trace->now);
    lane_t caller = {.place = "callers"};

    if (made <= 0)
        return;
    /* Who made it is the first half of its id. */
    snprintf(caller.name, sizeof(caller.name), "calls of %.8s",
             crti_view_text(task, "task_id"));
    take_lane(trace, &caller, made, waited);
    add_slice(trace, "waiting", crti_view_text(task, "name"), &caller, made, waited,
              task_args(task));
    add_queueing(trace, task, &caller, waited);
    json_object_set_new(task, "caller", json_string(caller.name));
}

static void add_run(trace_t *trace, json_t *task)
{
    double begun = event_at(task, "RUNNING"), end = end_of(task, trace->now);
    lane_t caller = {.place = "callers"}, worker = worker_lane(task);
    char id[80];

    if (begun <= 0)
        return;
    take_lane(trace, &worker, begun, end);
    add_slice(trace, "task", crti_view_text(task, "name"), &worker, begun, end,
              task_args(task));
    remember_run(trace, task);
    snprintf(caller.name, sizeof(caller.name), "%s", crti_view_text(task, "caller"));
    snprintf(id, sizeof(id), "%s-%lld", crti_view_text(task, "task_id"),
             (long long)json_integer_value(json_object_get(task, "attempt_number")));
    if (*caller.name)
        add_arrow(trace, "call", id, &caller, event_at(task, "PENDING_ARGS_AVAIL"),
                  &worker, begun);
}

/* ---------------------------------------------------------------- collectives, transfers */

static void add_collective(trace_t *trace, json_t *row)
{
    lane_t lane = worker_lane(row);

    add_slice(trace, "collective", crti_view_text(row, "name"), &lane,
              event_at(row, "RUNNING"), end_of(row, trace->now),
              json_pack("{s:s, s:s}", "task_id", crti_view_text(row, "parent_task_id"),
                        "state", crti_view_text(row, "state")));
}

/* The call of that worker that ran at `begin`, or else the first one that began after `end`. */
static const json_t *call_of(const trace_t *trace, const json_t *transfer, double begin,
                             double end, bool *waits_out)
{
    const json_t *runs =
        json_object_get(trace->runs, crti_view_text(transfer, "worker_id"));

    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *task = json_array_get(runs, i);
        double begun = event_at(task, "RUNNING");

        *waits_out = begun <= begin;
        if ((*waits_out && end_of(task, trace->now) >= begin) || begun >= end)
            return task;
    }
    return NULL;
}

static void add_transfer(trace_t *trace, json_t *transfer)
{
    double begin = json_number_value(json_object_get(transfer, "start_time")) * US_PER_MS,
           end = end_of(transfer, trace->now);
    json_int_t size = json_integer_value(json_object_get(transfer, "size"));
    lane_t lane = {.name = "transfers"}, worker = worker_lane(transfer);
    bool waits = false;
    const json_t *task = call_of(trace, transfer, begin, end, &waits);
    char name[96], id[32];

    snprintf(lane.place, sizeof(lane.place), "node %.8s",
             crti_view_text(transfer, "node_id"));
    snprintf(name, sizeof(name), "%lld bytes from node %.8s", (long long)size,
             crti_view_text(transfer, "from_node_id"));
    take_lane(trace, &lane, begin, end);
    add_slice(trace, "transfer", name, &lane, begin, end,
              json_pack("{s:s, s:I, s:s, s:s}", "object_id",
                        crti_view_text(transfer, "object_id"), "size", size, "worker_id",
                        crti_view_text(transfer, "worker_id"), "error",
                        crti_view_text(transfer, "error_type")));
    snprintf(id, sizeof(id), "transfer-%zu", trace->transfers++);
    if (task && waits)
        add_arrow(trace, "transfer", id, &worker, begin, &lane, begin);
    else if (task)
        add_arrow(trace, "transfer", id, &lane, end, &worker, event_at(task, "RUNNING"));
}

/* ---------------------------------------------------------------- all */

/* The last moment that is told of: what runs has run until then. */
static double last_moment(const json_t *tasks)
{
    double last = 0;
    json_t *task, *value;
    const char *key;
    size_t i;

    json_array_foreach((json_t *)tasks, i, task)
        json_object_foreach(json_object_get(task, "events"), key,
                            value) if (json_number_value(value) * US_PER_MS > last) last =
            json_number_value(value) * US_PER_MS;
    return last;
}

static double time_of(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static int by_creation(const void *a, const void *b)
{
    double x = time_of(*(json_t *const *)a, "creation_time"),
           y = time_of(*(json_t *const *)b, "creation_time");

    return (x > y) - (x < y);
}

static int by_start(const void *a, const void *b)
{
    double x = time_of(*(json_t *const *)a, "start_time"),
           y = time_of(*(json_t *const *)b, "start_time");

    return (x > y) - (x < y);
}

/* Each of those of the job ("": of all), in that order. */
static void add_each(trace_t *trace, const json_t *rows, const char *job,
                     int (*order)(const void *, const void *),
                     void (*add)(trace_t *trace, json_t *row))
{
    json_t **list = calloc(json_array_size(rows) + 1, sizeof(json_t *));
    size_t count = 0;

    for (size_t i = 0; list && i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);

        if (*job == '\0' || strcmp(crti_view_text(row, "job_id"), job) == 0)
            list[count++] = row;
    }
    if (list)
        qsort(list, count, sizeof(json_t *), order);
    for (size_t i = 0; i < count; i++)
        add(trace, list[i]);
    free(list);
}

json_t *crti_view_timeline(const json_t *answer, const char *job)
{
    const json_t *tasks = json_object_get(answer, "tasks");
    trace_t trace = {.events = json_array(),
                     .ends = json_object(),
                     .runs = json_object(),
                     .now = last_moment(tasks)};

    add_each(&trace, tasks, job, by_creation, add_wait);
    add_each(&trace, tasks, job, by_start, add_run);
    add_each(&trace, json_object_get(answer, "collectives"), job, by_start,
             add_collective);
    add_each(&trace, json_object_get(answer, "transfers"), job, by_start, add_transfer);
    json_decref(trace.ends);
    json_decref(trace.runs);
    return trace.events;
}
