/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of the jobs and state API. See views.h. */
#include "runtime/http/views.h"

#include <stdio.h>
#include <string.h>

#include "runtime/http/filter.h"

const char *crti_view_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

/* The member itself, or null. */
static json_t *member(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return value ? json_incref(value) : json_null();
}

/* A text; "" counts as nothing. */
static json_t *text_or_null(const json_t *object, const char *key)
{
    const char *text = crti_view_text(object, key);

    return *text ? json_string(text) : json_null();
}

static json_t *object_or_empty(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return json_is_object(value) ? json_incref(value) : json_object();
}

static json_t *number_or_zero(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_incref(value) : json_integer(0);
}

/* ---------------------------------------------------------------- jobs */

static json_t *driver_info(const json_t *job)
{
    json_int_t pid = json_integer_value(json_object_get(job, "driver_pid"));
    char text[24];

    if (pid == 0)
        return json_null();
    snprintf(text, sizeof(text), "%lld", (long long)pid);
    return json_pack("{s:s, s:s, s:s}", "id", crti_view_text(job, "job_id"),
                     "node_ip_address", crti_view_text(job, "driver_node_ip"), "pid",
                     text);
}

json_t *crti_view_job(const json_t *job)
{
    const char *type = crti_view_text(job, "type");
    const char *status = crti_view_text(job, "status");

    return json_pack(
        "{s:s, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:{}, s:n, s:o, s:o}",
        "type", *type ? type : "SUBMISSION", "job_id", text_or_null(job, "job_id"),
        "submission_id", text_or_null(job, "submission_id"), "driver_info",
        driver_info(job), "status", *status ? status : "PENDING", "entrypoint",
        crti_view_text(job, "entrypoint"), "message", text_or_null(job, "message"),
        "error_type", text_or_null(job, "error_type"), "start_time",
        member(job, "start_time"), "end_time", member(job, "end_time"), "metadata",
        object_or_empty(job, "metadata"), "runtime_env", "driver_agent_http_address",
        "driver_node_id", text_or_null(job, "driver_node_id"), "driver_exit_code",
        member(job, "driver_exit_code"));
}

json_t *crti_view_jobs(const json_t *jobs)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < json_array_size(jobs); i++)
        if (json_array_append_new(list, crti_view_job(json_array_get(jobs, i))) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

bool crti_view_is_submission(const json_t *job)
{
    return strcmp(crti_view_text(job, "type"), "DRIVER") != 0;
}

bool crti_view_has_ended(const json_t *job)
{
    const char *status = crti_view_text(job, "status");

    return strcmp(status, "PENDING") != 0 && strcmp(status, "RUNNING") != 0;
}

/* ---------------------------------------------------------------- cluster */

/* {"CPU": [used, total], ...} over the living nodes. */
static json_t *usage(const json_t *nodes)
{
    json_t *sums = json_object();

    for (size_t i = 0; sums && i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);
        json_t *total = json_object_get(node, "resources_total");
        json_t *available = json_object_get(node, "resources_available");
        const char *name;
        json_t *amount;

        if (strcmp(crti_view_text(node, "state"), "ALIVE") != 0)
            continue;
        json_object_foreach(total, name, amount)
        {
            json_t *pair = json_object_get(sums, name);
            double all = json_number_value(amount);
            double used = all - json_number_value(json_object_get(available, name));

            json_object_set_new(
                sums, name,
                json_pack("[f, f]", used + json_number_value(json_array_get(pair, 0)),
                          all + json_number_value(json_array_get(pair, 1))));
        }
    }
    return sums;
}

/* [[{"CPU": 3}, count], ...] */
static json_t *demand_pairs(const json_t *demand)
{
    json_t *pairs = json_array();

    for (size_t i = 0; pairs && i < json_array_size(demand); i++) {
        const json_t *entry = json_array_get(demand, i);

        json_array_append_new(pairs,
                              json_pack("[o, o]", object_or_empty(entry, "resources"),
                                        number_or_zero(entry, "count")));
    }
    return pairs;
}

static json_t *nodes_of_state(const json_t *nodes, bool alive)
{
    json_t *out = alive ? json_object() : json_array();

    for (size_t i = 0; out && i < json_array_size(nodes); i++) {
        const json_t *node = json_array_get(nodes, i);

        if (strcmp(crti_view_text(node, "state"), alive ? "ALIVE" : "DEAD") != 0)
            continue;
        if (alive)
            json_object_set_new(out, crti_view_text(node, "node_id"), json_integer(1));
        else
            json_array_append_new(out, json_pack("[s, s]", crti_view_text(node, "ip"),
                                                 crti_view_text(node, "node_id")));
    }
    return out;
}

static json_t *cluster_object(const json_t *cluster)
{
    const json_t *nodes = json_object_get(cluster, "nodes");

    return json_pack("{s:{s:o, s:o, s:[], s:[], s:[]}, s:{s:o, s:[], s:o}, s:O}",
                     "loadMetricsReport", "usage", usage(nodes), "resourceDemand",
                     demand_pairs(json_object_get(cluster, "demand")), "pgDemand",
                     "requestDemand", "nodeTypes", "autoscalerReport", "activeNodes",
                     nodes_of_state(nodes, true), "pendingNodes", "failedNodes",
                     nodes_of_state(nodes, false), "crt", cluster);
}

json_t *crti_view_cluster(const json_t *cluster, bool as_text)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    json_t *status;

    if (as_text) {
        if (crti_status_text(cluster, &text) != CRT_OK)
            return NULL;
        status = json_stringn((const char *)text.data, text.size);
    } else {
        status = cluster_object(cluster);
    }
    return json_pack("{s:b, s:s, s:{s:n, s:n, s:o}}", "result", 1, "msg",
                     "Got cluster status.", "data", "autoscalingStatus",
                     "autoscalingError", "clusterStatus", status);
}

/* ---------------------------------------------------------------- state API */

static json_t *actor_row(const json_t *actor, crti_view_level_t level)
{
    static const char *const states[][2] = {{"PENDING", "PENDING_CREATION"},
                                            {"STARTING", "PENDING_CREATION"}};
    const char *state = crti_view_text(actor, "state");
    const char *message = crti_view_text(actor, "message");
    json_t *row, *cause = json_null();

    /* Ray has a fixed list of states. */
    for (size_t i = 0; i < 2; i++)
        if (strcmp(state, states[i][0]) == 0)
            state = states[i][1];
    row =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:s}", "actor_id",
                  crti_view_text(actor, "actor_id"), "class_name",
                  crti_view_text(actor, "class_name"), "state", state, "job_id",
                  crti_view_text(actor, "job_id"), "name", crti_view_text(actor, "name"),
                  "node_id", text_or_null(actor, "node_id"), "pid", member(actor, "pid"),
                  "ray_namespace", "default");
    if (!row || level == CRTI_VIEW_BASE)
        return row;
    if (strcmp(state, "DEAD") == 0)
        cause = json_pack("{s:s}", "error_message", message);
    json_object_set_new(row, "serialized_runtime_env", json_null());
    json_object_set_new(row, "required_resources",
                        object_or_empty(actor, "required_resources"));
    json_object_set_new(row, "death_cause", cause);
    json_object_set_new(
        row, "is_detached",
        json_boolean(json_is_true(json_object_get(actor, "is_detached"))));
    json_object_set_new(row, "placement_group_id", json_null());
    json_object_set_new(row, "repr_name", json_null());
    json_object_set_new(row, "num_restarts", number_or_zero(actor, "num_restarts"));
    json_object_set_new(row, "num_restarts_due_to_lineage_reconstruction",
                        json_integer(0));
    if (level < CRTI_VIEW_ALL)
        return row;
    json_object_set_new(row, "is_fenced",
                        json_boolean(json_is_true(json_object_get(actor, "is_fenced"))));
    json_object_set_new(row, "has_failed",
                        json_boolean(json_is_true(json_object_get(actor, "has_failed"))));
    json_object_set_new(row, "message", text_or_null(actor, "message"));
    return row;
}

static json_t *node_row(const json_t *node, crti_view_level_t level)
{
    json_t *row =
        json_pack("{s:s, s:s, s:b, s:s, s:o, s:s, s:o, s:{}}", "node_id",
                  crti_view_text(node, "node_id"), "node_ip", crti_view_text(node, "ip"),
                  "is_head_node", json_is_true(json_object_get(node, "is_head_node")),
                  "state", crti_view_text(node, "state"), "state_message",
                  text_or_null(node, "state_message"), "node_name",
                  crti_view_text(node, "hostname"), "resources_total",
                  object_or_empty(node, "resources_total"), "labels");

    if (row && level >= CRTI_VIEW_DETAIL) {
        json_object_set_new(row, "start_time_ms", member(node, "start_time"));
        json_object_set_new(row, "end_time_ms", member(node, "end_time"));
    }
    if (row && level == CRTI_VIEW_ALL)
        json_object_set_new(row, "heard_time_ms", member(node, "heard_time"));
    return row;
}

static json_t *state_row(const char *what, const json_t *row, crti_view_level_t level)
{
    return strcmp(what, "nodes") == 0 ? node_row(row, level) : actor_row(row, level);
}

crt_status_t crti_view_check_filters(const char *what, const json_t *filters)
{
    /* A dead one has all columns. */
    json_t *dead = json_pack("{s:s}", "state", "DEAD");
    json_t *row = state_row(what, dead, CRTI_VIEW_ALL);
    crt_status_t status = crti_filters_check(filters, row, what);

    json_decref(row);
    json_decref(dead);
    return status;
}

/* Whether a row is wanted; filters look at all columns, also at those that are not shown. */
static bool is_wanted(const char *what, const json_t *row, const json_t *filters)
{
    json_t *whole = filters ? state_row(what, row, CRTI_VIEW_ALL) : NULL;
    bool wanted = !filters || crti_filters_match(filters, whole);

    json_decref(whole);
    return wanted;
}

json_t *crti_view_state(const char *what, const json_t *rows, const json_t *filters,
                        size_t limit, crti_view_level_t level)
{
    size_t total = json_array_size(rows), wanted = 0;
    json_t *list = json_array();

    for (size_t i = 0; list && i < total; i++) {
        const json_t *row = json_array_get(rows, i);

        if (!is_wanted(what, row, filters) || wanted++ >= limit)
            continue;
        if (json_array_append_new(list, state_row(what, row, level)) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    /* Ray's clients take fewer after truncation for an answer that is not complete: only the limit
     * makes it so. */
    return json_pack(
        "{s:b, s:s, s:{s:{s:I, s:I, s:I, s:o, s:s, s:n}}}", "result", 1, "msg", "",
        "data", "result", "total", (json_int_t)total, "num_after_truncation",
        (json_int_t)(total - (wanted - json_array_size(list))), "num_filtered",
        (json_int_t)wanted, "result", list, "partial_failure_warning", "", "warnings");
}

json_t *crti_view_state_error(const char *text)
{
    return json_pack("{s:b, s:s, s:{s:n}}", "result", 0, "msg", text, "data", "result");
}

/* ---------------------------------------------------------------- text */

/* Length of the UTF-8 character at `at`: 0 when it is none, -1 when more bytes could make one. */
static int character(const unsigned char *at, size_t size)
{
    static const struct {
        unsigned char mask, lead, low, high; /* range of the second byte */
        int length;
    } forms[] = {{0xe0, 0xc0, 0x80, 0xbf, 2}, {0xff, 0xe0, 0xa0, 0xbf, 3},
                 {0xff, 0xed, 0x80, 0x9f, 3}, {0xf0, 0xe0, 0x80, 0xbf, 3},
                 {0xff, 0xf0, 0x90, 0xbf, 4}, {0xff, 0xf4, 0x80, 0x8f, 4},
                 {0xfc, 0xf0, 0x80, 0xbf, 4}};

    if (at[0] < 0x80)
        return 1;
    if (at[0] == 0xc0 || at[0] == 0xc1)
        return 0;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        if ((at[0] & forms[i].mask) != forms[i].lead)
            continue;
        if (size > 1 && (at[1] < forms[i].low || at[1] > forms[i].high))
            return 0;
        for (int k = 2; k < forms[i].length && (size_t)k < size; k++)
            if ((at[k] & 0xc0) != 0x80)
                return 0;
        return size < (size_t)forms[i].length ? -1 : forms[i].length;
    }
    return 0;
}

crt_status_t crti_utf8_clean(crti_span_t bytes, bool final, crti_buffer_t *out,
                             size_t *used_out)
{
    const unsigned char *data = bytes.data;
    size_t i = 0, run = 0; /* [run, i) is good and not yet copied */
    crt_status_t status = CRT_OK;

    *used_out = 0;
    if (bytes.size == 0)
        return CRT_OK;
    while (i < bytes.size) {
        int length = character(data + i, bytes.size - i);

        if (length < 0 && !final)
            break;
        if (length > 0) {
            i += (size_t)length;
            continue;
        }
        status = crti_buffer_append(out, data + run, i - run);
        if (status == CRT_OK)
            status = crti_buffer_append(out, "\xef\xbf\xbd", 3);
        if (status != CRT_OK)
            return status;
        run = ++i;
    }
    *used_out = i;
    return crti_buffer_append(out, data + run, i - run);
}

crt_status_t crti_json_escape(crti_span_t text, crti_buffer_t *out)
{
    static const char names[] = "\b\f\n\r\t\"\\", letters[] = "bfnrt\"\\";
    const unsigned char *data = text.data;
    size_t run = 0; /* [run, i) needs no escape and is not yet copied */
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < text.size && status == CRT_OK; i++) {
        const char *name;
        char escape[8];

        if (data[i] >= 0x20 && data[i] != '"' && data[i] != '\\')
            continue;
        name = data[i] ? strchr(names, data[i]) : NULL;
        if (name)
            snprintf(escape, sizeof(escape), "\\%c", letters[name - names]);
        else
            snprintf(escape, sizeof(escape), "\\u%04x", data[i]);
        status = crti_buffer_append(out, data + run, i - run);
        if (status == CRT_OK)
            status = crti_buffer_append(out, escape, strlen(escape));
        run = i + 1;
    }
    return status == CRT_OK && run < text.size
               ? crti_buffer_append(out, data + run, text.size - run)
               : status;
}
