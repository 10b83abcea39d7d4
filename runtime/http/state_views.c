/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the state API. See state_views.h. */
#include "runtime/http/state_views.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/json_write.h"
#include "runtime/http/filter.h"
#include "runtime/http/view_parts.h"

/* ---------------------------------------------------------------- rows */

const char *crti_view_actor_state(const json_t *actor)
{
    const char *state = crti_view_text(actor, "state");

    /* Ray has a fixed list of states. */
    if (strcmp(state, "PENDING") == 0 || strcmp(state, "STARTING") == 0)
        return "PENDING_CREATION";
    return state;
}

static json_t *actor_row(const json_t *actor, crti_view_level_t level)
{
    const char *state = crti_view_actor_state(actor);
    json_t *cause = json_null();
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:s}", "actor_id",
        crti_view_text(actor, "actor_id"), "class_name",
        crti_view_text(actor, "class_name"), "state", state, "job_id",
        crti_view_text(actor, "job_id"), "name", crti_view_text(actor, "name"), "node_id",
        crti_part_text(actor, "node_id"), "pid", crti_part(actor, "pid"), "ray_namespace",
        crti_view_text(actor, "namespace"));

    if (!row || level == CRTI_VIEW_BASE)
        return row;
    if (strcmp(state, "DEAD") == 0)
        cause = json_pack("{s:s}", "error_message", crti_view_text(actor, "message"));
    json_object_set_new(row, "serialized_runtime_env", json_null());
    json_object_set_new(row, "required_resources",
                        crti_part_object(actor, "required_resources"));
    json_object_set_new(row, "death_cause", cause);
    json_object_set_new(row, "is_detached", crti_part_bool(actor, "is_detached"));
    json_object_set_new(row, "placement_group_id",
                        crti_part_text(actor, "placement_group_id"));
    json_object_set_new(row, "repr_name", json_null());
    json_object_set_new(row, "num_restarts", crti_part_number(actor, "num_restarts"));
    json_object_set_new(row, "num_restarts_due_to_lineage_reconstruction",
                        json_integer(0));
    if (level < CRTI_VIEW_ALL)
        return row;
    json_object_set_new(row, "is_fenced", crti_part_bool(actor, "is_fenced"));
    json_object_set_new(row, "has_failed", crti_part_bool(actor, "has_failed"));
    json_object_set_new(row, "message", crti_part_text(actor, "message"));
    json_object_set_new(row, "queue_length", crti_part(actor, "queue_length"));
    json_object_set_new(row, "queue_wait_ms", crti_part(actor, "queue_wait_ms"));
    return row;
}

/* "zone=a,disk=fast" as an object. */
static json_t *labels_of(const json_t *node)
{
    const char *at = crti_view_text(node, "labels");
    json_t *labels = json_object();

    while (*at) {
        size_t size = strcspn(at, ","), key = strcspn(at, "=");
        char name[128];

        if (key < size) {
            snprintf(name, sizeof(name), "%.*s", (int)key, at);
            json_object_set_new(labels, name, json_stringn(at + key + 1, size - key - 1));
        }
        at += size + (at[size] == ',');
    }
    return labels;
}

static json_t *node_row(const json_t *node, crti_view_level_t level)
{
    json_t *row =
        json_pack("{s:s, s:s, s:b, s:s, s:o, s:s, s:o, s:o}", "node_id",
                  crti_view_text(node, "node_id"), "node_ip", crti_view_text(node, "ip"),
                  "is_head_node", json_is_true(json_object_get(node, "is_head_node")),
                  "state", crti_view_text(node, "state"), "state_message",
                  crti_part_text(node, "state_message"), "node_name",
                  crti_view_text(node, "hostname"), "resources_total",
                  crti_part_object(node, "resources_total"), "labels", labels_of(node));

    if (row && level >= CRTI_VIEW_DETAIL) {
        json_object_set_new(row, "start_time_ms", crti_part(node, "start_time"));
        json_object_set_new(row, "end_time_ms", crti_part(node, "end_time"));
    }
    if (row && level == CRTI_VIEW_ALL)
        json_object_set_new(row, "heard_time_ms", crti_part(node, "heard_time"));
    return row;
}

static json_t *job_row(const json_t *job, crti_view_level_t level)
{
    return crti_view_job(job);
}

static json_t *placement_group_row(const json_t *group, crti_view_level_t level)
{
    json_t *row = json_pack("{s:s, s:s, s:s, s:s}", "placement_group_id",
                            crti_view_text(group, "placement_group_id"), "name",
                            crti_view_text(group, "name"), "creator_job_id",
                            crti_view_text(group, "creator_job_id"), "state",
                            crti_view_text(group, "state"));
    json_t *bundles = json_object_get(group, "bundles");

    if (!row || level == CRTI_VIEW_BASE)
        return row;
    json_object_set_new(row, "bundles",
                        json_is_array(bundles) ? json_incref(bundles) : json_array());
    json_object_set_new(row, "is_detached", crti_part_bool(group, "is_detached"));
    json_object_set_new(row, "stats",
                        json_pack("{s:s, s:s}", "strategy",
                                  crti_view_text(group, "strategy"), "reason",
                                  crti_view_text(group, "reason")));
    if (level == CRTI_VIEW_ALL)
        json_object_set_new(row, "strategy", crti_part_text(group, "strategy"));
    return row;
}

static json_t *worker_row(const json_t *worker, crti_view_level_t level)
{
    static const char *const unknown[] = {
        "worker_launch_time_ms", "worker_launched_time_ms", "start_time_ms",
        "end_time_ms",           "debugger_port",           "num_paused_threads"};
    json_t *row =
        json_pack("{s:s, s:o, s:s, s:n, s:s, s:s, s:o}", "worker_id",
                  crti_view_text(worker, "worker_id"), "is_alive",
                  crti_part_bool(worker, "is_alive"), "worker_type",
                  crti_view_text(worker, "worker_type"), "exit_type", "node_id",
                  crti_view_text(worker, "node_id"), "ip", crti_view_text(worker, "ip"),
                  "pid", crti_part_number(worker, "pid"));

    if (!row || level == CRTI_VIEW_BASE)
        return row;
    json_object_set_new(row, "exit_detail", crti_part_text(worker, "exit_detail"));
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        json_object_set_new(row, unknown[i], json_null());
    if (level < CRTI_VIEW_ALL)
        return row;
    json_object_set_new(row, "job_id", crti_part_text(worker, "job_id"));
    json_object_set_new(row, "actor_id", crti_part_text(worker, "actor_id"));
    return row;
}

/* [{"state": "RUNNING", "created_ms": 1763700000000}, ...] in the order of time. */
static json_t *task_events(const json_t *task)
{
    static const char *const order[] = {"PENDING_ARGS_AVAIL",
                                        "PENDING_NODE_ASSIGNMENT",
                                        "SUBMITTED_TO_WORKER",
                                        "RUNNING",
                                        "FINISHED",
                                        "FAILED"};
    const json_t *events = json_object_get(task, "events");
    json_t *list = json_array();

    for (size_t i = 0; list && i < sizeof(order) / sizeof(order[0]); i++)
        if (json_object_get(events, order[i]))
            json_array_append_new(list,
                                  json_pack("{s:s, s:o}", "state", order[i], "created_ms",
                                            crti_part_time(events, order[i])));
    return list;
}

/* Where its lines are in the log of its worker, which is one of both streams; null: that is not
 * known. */
static json_t *task_log(const json_t *task)
{
    const json_t *log = json_object_get(task, "log");
    const char *file = crti_view_text(task, "worker_id");
    json_t *from = json_object_get(log, "from"), *to = json_object_get(log, "to");

    if (!json_is_integer(from) || !*file)
        return json_null();
    return json_pack("{s:s, s:s, s:O, s:O?, s:O, s:O?}", "stdout_file", file,
                     "stderr_file", file, "stdout_start", from, "stdout_end", to,
                     "stderr_start", from, "stderr_end", to);
}

static void add_task_detail(json_t *row, const json_t *task)
{
    static const char *const unknown[] = {
        "required_resources", "runtime_env_info", "placement_group_id", "profiling_data",
        "call_site",          "label_selector",   "fallback_strategy"};

    json_object_set_new(row, "language", json_string("C"));
    json_object_set_new(row, "events", task_events(task));
    json_object_set_new(row, "creation_time_ms", crti_part_time(task, "creation_time"));
    json_object_set_new(row, "start_time_ms", crti_part_time(task, "start_time"));
    json_object_set_new(row, "end_time_ms", crti_part_time(task, "end_time"));
    json_object_set_new(row, "error_message", crti_part_text(task, "error_message"));
    json_object_set_new(row, "is_debugger_paused", json_null());
    json_object_set_new(row, "task_log_info", task_log(task));
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++)
        json_object_set_new(row, unknown[i], json_null());
}

static json_t *task_row(const json_t *task, crti_view_level_t level)
{
    const char *name = crti_view_text(task, "name");
    json_t *row = json_pack(
        "{s:s, s:o, s:s, s:s, s:s, s:o, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "task_id",
        crti_view_text(task, "task_id"), "attempt_number",
        crti_part_number(task, "attempt_number"), "name", name, "state",
        crti_view_text(task, "state"), "job_id", crti_view_text(task, "job_id"),
        "actor_id", crti_part_text(task, "actor_id"), "type",
        crti_view_text(task, "type"), "func_or_class_name", name, "parent_task_id",
        crti_view_text(task, "parent_task_id"), "node_id",
        crti_part_text(task, "node_id"), "worker_id", crti_part_text(task, "worker_id"),
        "worker_pid", crti_part(task, "worker_pid"), "error_type",
        crti_part_text(task, "error_type"));

    if (row && level >= CRTI_VIEW_DETAIL)
        add_task_detail(row, task);
    return row;
}

static json_t *object_row(const json_t *object, crti_view_level_t level)
{
    bool is_sealed = json_is_true(json_object_get(object, "is_sealed"));
    const char *type = crti_view_text(object, "owner_type");
    json_t *row = json_pack(
        "{s:s, s:o, s:s, s:i, s:s, s:s, s:s, s:o, s:s}", "object_id",
        crti_view_text(object, "object_id"), "object_size",
        crti_part_number(object, "size"), "task_status",
        is_sealed ? "FINISHED" : "RUNNING", "attempt_number", 1, "reference_type",
        crti_view_text(object, "reference_type"), "call_site",
        crti_view_text(object, "call_site"), "type", *type ? type : "WORKER", "pid",
        crti_part_number(object, "owner_pid"), "ip", crti_view_text(object, "ip"));

    if (!row || level < CRTI_VIEW_ALL)
        return row;
    json_object_set_new(row, "node_id", crti_part_text(object, "node_id"));
    json_object_set_new(row, "owner_id", crti_part_text(object, "owner_id"));
    json_object_set_new(row, "pins", crti_part_number(object, "pins"));
    json_object_set_new(row, "is_copy", crti_part_bool(object, "is_copy"));
    json_object_set_new(row, "calls", crti_part(object, "calls"));
    json_object_set_new(row, "holders", crti_part(object, "holders"));
    return row;
}

static json_t *runtime_env_row(const json_t *job, crti_view_level_t level)
{
    json_t *row = json_pack("{s:o, s:b, s:o, s:s}", "runtime_env",
                            crti_part_object(job, "runtime_env"), "success", 1,
                            "creation_time_ms", crti_part(job, "start_time"), "node_id",
                            crti_view_text(job, "driver_node_id"));

    if (row && level >= CRTI_VIEW_DETAIL) {
        json_object_set_new(row, "ref_cnt", json_integer(1));
        json_object_set_new(row, "error", json_null());
    }
    return row;
}

static bool has_runtime_env(const json_t *job)
{
    return json_object_size(json_object_get(job, "runtime_env")) > 0;
}

static json_t *event_row(const json_t *event, crti_view_level_t level)
{
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:s}", "severity", crti_view_text(event, "severity"),
        "time", crti_view_text(event, "time"), "source_type",
        crti_view_text(event, "source_type"), "message", crti_view_text(event, "message"),
        "event_id", crti_view_text(event, "event_id"));

    if (row && level >= CRTI_VIEW_DETAIL)
        json_object_set_new(row, "custom_fields", json_null());
    return row;
}

/* ---------------------------------------------------------------- which there are */

static const crti_listing_t resources[] = {
    {"actors", "actors", "actors_detail", "actors", actor_row, NULL, crti_actor_columns,
     8},
    {"nodes", "nodes", NULL, NULL, node_row, NULL},
    {"jobs", "jobs", NULL, "jobs", job_row, NULL, crti_job_columns, CRTI_JOB_SHOWN},
    {"placement_groups", "placement_groups", NULL, NULL, placement_group_row, NULL},
    {"workers", "workers", NULL, NULL, worker_row, NULL},
    {"tasks", "tasks", NULL, "tasks", task_row, NULL, crti_task_columns, 13},
    {"objects", "objects", NULL, "objects", object_row, NULL, crti_object_columns, 9},
    {"runtime_envs", "jobs", NULL, "jobs", runtime_env_row, has_runtime_env,
     crti_runtime_env_columns, 0, "has_runtime_env"},
    {"cluster_events", "events", NULL, "events", event_row, NULL, crti_event_columns, 5},
};

const crti_listing_t *crti_listing_find(const char *name)
{
    for (size_t i = 0; i < sizeof(resources) / sizeof(resources[0]); i++)
        if (strcmp(resources[i].name, name) == 0)
            return &resources[i];
    return NULL;
}

/* The entries of an answer. */
static const json_t *entries_of(const crti_listing_t *resource, const json_t *answer)
{
    return resource->list && json_is_object(answer)
               ? json_object_get(answer, resource->list)
               : answer;
}

crt_status_t crti_view_check_filters(const crti_listing_t *resource,
                                     const json_t *filters)
{
    /* A dead one has all columns. */
    json_t *dead = json_pack("{s:s}", "state", "DEAD");
    json_t *row = resource->row(dead, CRTI_VIEW_ALL);
    crt_status_t status = crti_filters_check(filters, row, resource->name);

    json_decref(row);
    json_decref(dead);
    return status;
}

/* It is one, and all filters match: they look at all columns, also at those that are not shown. */
static bool is_wanted(const crti_listing_t *resource, const json_t *entry,
                      const json_t *filters)
{
    json_t *whole;
    bool wanted;

    if (!json_is_object(entry) || (resource->is_shown && !resource->is_shown(entry)))
        return false;
    if (!filters)
        return true;
    whole = resource->row(entry, CRTI_VIEW_ALL);
    wanted = crti_filters_match(filters, whole);
    json_decref(whole);
    return wanted;
}

/* Why the list is not whole; "" when it is. */
static void describe_gaps(const json_t *answer, char *text, size_t size)
{
    json_int_t silent = json_integer_value(json_object_get(answer, "silent_nodes"));

    text[0] = '\0';
    if (silent > 0)
        snprintf(text, size, "%lld nodes did not answer in time", (long long)silent);
}

/* Rows that the head has picked, and how many there are in all and of those that match. */
static bool is_picked(const crti_listing_t *resource, const json_t *answer, size_t *total,
                      size_t *wanted)
{
    const json_t *all = json_object_get(answer, "all"),
                 *matched = json_object_get(answer, "matched");

    if (!resource->columns || !json_is_integer(all) || !json_is_integer(matched))
        return false;
    *wanted = (size_t)json_integer_value(matched);
    *total = resource->only ? *wanted : (size_t)json_integer_value(all);
    return true;
}

json_t *crti_view_state(const crti_listing_t *resource, const json_t *answer,
                        const json_t *filters, size_t limit, crti_view_level_t level)
{
    const json_t *entries = entries_of(resource, answer);
    size_t total = 0, wanted = 0, shown;
    bool picked = is_picked(resource, answer, &total, &wanted);
    json_t *list = json_array();
    char gaps[96];

    for (size_t i = 0; list && i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);

        if (!picked) {
            total += !resource->is_shown || resource->is_shown(entry);
            if (!is_wanted(resource, entry, filters) || wanted++ >= limit)
                continue;
        }
        if (json_array_append_new(list, resource->row(entry, level)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    shown = json_array_size(list);
    describe_gaps(answer, gaps, sizeof(gaps));
    /* Ray's clients take fewer after truncation for an answer that is not complete: only the limit
     * makes it so. */
    return json_pack("{s:b, s:s, s:{s:{s:I, s:I, s:I, s:o, s:s, s:n}}}", "result", 1,
                     "msg", "", "data", "result", "total", (json_int_t)total,
                     "num_after_truncation", (json_int_t)(total - (wanted - shown)),
                     "num_filtered", (json_int_t)wanted, "result", list,
                     "partial_failure_warning", gaps, "warnings");
}

/* {"NAME":[rows],"all":12,...}: the rows, and the rest as an object. Quotes inside of texts are
 * escaped: the last one that looks like the end of the list is it. */
static bool split(const crti_listing_t *resource, crti_span_t answer, crti_span_t *rows,
                  json_t **rest_out)
{
    static const char end[] = "],\"all\":";
    const char *text = answer.data;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t rest = {0};
    char front[48];
    size_t length = (size_t)snprintf(front, sizeof(front), "{\"%s\":[", resource->list);
    size_t at = answer.size > sizeof(end) ? answer.size - sizeof(end) : 0;

    if (answer.size < length || memcmp(text, front, length) != 0)
        return false;
    while (at >= length && memcmp(text + at, end, sizeof(end) - 1) != 0)
        at--;
    if (at < length || crti_buffer_append(&rest, "{", 1) != CRT_OK ||
        crti_buffer_append(&rest, text + at + 2, answer.size - at - 2) != CRT_OK)
        return false;
    *rows = crti_span(text + length - 1, at - length + 2);
    *rest_out = json_loadb((const char *)rest.data, rest.size, 0, NULL);
    return *rest_out != NULL;
}

static void put_number(crti_json_writer_t *w, const char *key, size_t number)
{
    crti_json_key(w, key);
    crti_json_integer(w, (int64_t)number);
}

crt_status_t crti_view_row_list(const crti_listing_t *resource, crti_span_t answer,
                                crti_buffer_t *reply)
{
    json_t *rest = NULL;
    crti_span_t rows;

    if (!split(resource, answer, &rows, &rest))
        return crt_raise(CRT_ERR_PROTOCOL, "the head's answer is no list of %s",
                         resource->name);
    json_decref(rest);
    return crti_buffer_append(reply, rows.data, rows.size);
}

crt_status_t crti_view_rows(const crti_listing_t *resource, crti_span_t answer,
                            size_t limit, crti_buffer_t *reply)
{
    crti_json_writer_t w = {.out = reply};
    json_t *rest = NULL;
    size_t total, wanted;
    crti_span_t rows;
    char gaps[96];

    if (!split(resource, answer, &rows, &rest) ||
        !is_picked(resource, rest, &total, &wanted)) {
        json_decref(rest);
        return crt_raise(CRT_ERR_PROTOCOL, "the head's answer is no list of %s",
                         resource->name);
    }
    describe_gaps(rest, gaps, sizeof(gaps));
    json_decref(rest);
    crti_json_open(&w, '{');
    crti_json_key(&w, "result");
    crti_json_bool(&w, true);
    crti_json_key(&w, "msg");
    crti_json_text(&w, "");
    crti_json_key(&w, "data");
    crti_json_open(&w, '{');
    crti_json_key(&w, "result");
    crti_json_open(&w, '{');
    put_number(&w, "total", total);
    put_number(&w, "num_after_truncation", total - (wanted > limit ? wanted - limit : 0));
    put_number(&w, "num_filtered", wanted);
    crti_json_key(&w, "result");
    crti_json_raw_bytes(&w, rows);
    crti_json_key(&w, "partial_failure_warning");
    crti_json_text(&w, gaps);
    crti_json_key(&w, "warnings");
    crti_json_null(&w);
    crti_json_close(&w, '}');
    crti_json_close(&w, '}');
    crti_json_close(&w, '}');
    return w.status;
}
