/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of the state API. See state_views.h. */
#include "runtime/http/state_views.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/json_write.h"
#include "runtime/http/filter.h"
#include "runtime/http/view_parts.h"

/* ---------------------------------------------------------------- rows */

static json_t *actor_row(const json_t *actor, crti_view_level_t level)
{
    json_t *row = crti_columns_row(crti_actor_columns, actor, level);

    if (!row || level == CRTI_VIEW_BASE)
        return row;
    json_object_set_new(row, "required_resources",
                        crti_part_object(actor, "required_resources"));
    if (strcmp(crti_view_text(actor, "state"), "DEAD") == 0)
        json_object_set_new(
            row, "death_cause",
            json_pack("{s:s}", "error_message", crti_view_text(actor, "message")));
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
    json_t *row = crti_columns_row(crti_node_columns, node, level);

    json_object_set_new(row, "labels", labels_of(node));
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
    return crti_columns_row(crti_worker_columns, worker, level);
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

static json_t *task_row(const json_t *task, crti_view_level_t level)
{
    json_t *row = crti_columns_row(crti_task_columns, task, level);

    if (!row || level == CRTI_VIEW_BASE)
        return row;
    json_object_set_new(row, "events", task_events(task));
    json_object_set_new(row, "task_log_info", task_log(task));
    return row;
}

static json_t *object_row(const json_t *object, crti_view_level_t level)
{
    json_t *row = crti_columns_row(crti_object_columns, object, level);

    if (row && level == CRTI_VIEW_ALL)
        json_object_set_new(row, "holders", crti_part(object, "holders"));
    return row;
}

static json_t *runtime_env_row(const json_t *job, crti_view_level_t level)
{
    json_t *row = crti_columns_row(crti_runtime_env_columns, job, level);

    json_object_set_new(row, "success", json_true());
    return row;
}

static bool has_runtime_env(const json_t *job)
{
    return json_object_size(json_object_get(job, "runtime_env")) > 0;
}

static json_t *event_row(const json_t *event, crti_view_level_t level)
{
    return crti_columns_row(crti_event_columns, event, level);
}

/* ---------------------------------------------------------------- which there are */

static const crti_listing_t resources[] = {
    {"actors", "actors", "actors_detail", "actors", actor_row, NULL, crti_actor_columns},
    {"nodes", "nodes", NULL, NULL, node_row},
    {"jobs", "jobs", NULL, "jobs", job_row, NULL, crti_job_columns},
    {"placement_groups", "placement_groups", NULL, NULL, placement_group_row},
    {"workers", "workers", NULL, NULL, worker_row},
    {"tasks", "tasks", NULL, "tasks", task_row, NULL, crti_task_columns},
    {"objects", "objects", NULL, "objects", object_row, NULL, crti_object_columns},
    {"runtime_envs", "jobs", NULL, "jobs", runtime_env_row, has_runtime_env,
     crti_runtime_env_columns, "has_runtime_env"},
    {"cluster_events", "events", NULL, "events", event_row, NULL, crti_event_columns},
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
