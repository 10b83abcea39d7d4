/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline: calls as a trace in the format of Chrome. See state_views.h. */
#include <stdio.h>
#include <string.h>

#include "runtime/http/state_views.h"

#define US_PER_MS 1000.0

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

static void add_slice(json_t *trace, const json_t *task, const char *category,
                      const char *place, const char *lane, double begin, double end)
{
    json_array_append_new(
        trace,
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:f, s:f, s:{s:s, s:s, s:s, s:I, s:s}}",
                  "ph", "X", "cat", category, "name", crti_view_text(task, "name"), "pid",
                  place, "tid", lane, "ts", begin, "dur", end > begin ? end - begin : 0.0,
                  "args", "task_id", crti_view_text(task, "task_id"), "job_id",
                  crti_view_text(task, "job_id"), "state", crti_view_text(task, "state"),
                  "attempt_number",
                  json_integer_value(json_object_get(task, "attempt_number")), "error",
                  crti_view_text(task, "error_message")));
}

/* One end of an arrow. */
static void add_flow(json_t *trace, const json_t *task, const char *phase,
                     const char *place, const char *lane, double at)
{
    char id[80];

    snprintf(id, sizeof(id), "%s-%lld", crti_view_text(task, "task_id"),
             (long long)json_integer_value(json_object_get(task, "attempt_number")));
    json_array_append_new(trace,
                          json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:s}", "ph",
                                    phase, "cat", "call", "name", "call", "id", id, "pid",
                                    place, "tid", lane, "ts", at, "bp", "e"));
}

/* "node 9c00.." and "worker 3f2a.. (pid 17)": where it ran. */
static void name_places(const json_t *task, char place[64], char lane[64])
{
    snprintf(place, 64, "node %.8s", crti_view_text(task, "node_id"));
    snprintf(lane, 64, "worker %.8s (pid %lld)", crti_view_text(task, "worker_id"),
             (long long)json_integer_value(json_object_get(task, "worker_pid")));
}

static void add_task(json_t *trace, const json_t *task, double now)
{
    double made = event_at(task, "PENDING_ARGS_AVAIL"), begun = event_at(task, "RUNNING");
    char place[64], lane[64], caller[64];

    /* Who made it is the first half of its id. */
    snprintf(caller, sizeof(caller), "calls of %.8s", crti_view_text(task, "task_id"));
    name_places(task, place, lane);
    if (made > 0)
        add_slice(trace, task, "waiting", "callers", caller, made,
                  begun > 0 ? begun : end_of(task, now));
    if (begun <= 0)
        return;
    add_slice(trace, task, "task", place, lane, begun, end_of(task, now));
    if (made <= 0)
        return;
    add_flow(trace, task, "s", "callers", caller, made);
    add_flow(trace, task, "f", place, lane, begun);
}

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

json_t *crti_view_timeline(const json_t *answer, const char *job)
{
    const json_t *tasks = json_object_get(answer, "tasks");
    double now = last_moment(tasks);
    json_t *trace = json_array(), *task;
    size_t i;

    json_array_foreach((json_t *)tasks, i,
                       task) if (*job == '\0' ||
                                 strcmp(crti_view_text(task, "job_id"), job) == 0)
        add_task(trace, task, now);
    return trace;
}
