/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes of the jobs and state API. See views.h. */
#include "runtime/http/views.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/utf8.h"
#include "runtime/http/view_parts.h"

const char *crti_view_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
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

static json_int_t number_of(const json_t *job, const char *key)
{
    return json_integer_value(json_object_get(job, key));
}

json_t *crti_view_job(const json_t *job)
{
    const char *type = crti_view_text(job, "type");
    const char *status = crti_view_text(job, "status");

    return json_pack(
        "{s:s, s:o, s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:n, s:o, s:o, "
        "s:o*}",
        "type", *type ? type : "SUBMISSION", "job_id", crti_part_text(job, "job_id"),
        "submission_id", crti_part_text(job, "submission_id"), "driver_info",
        driver_info(job), "status", *status ? status : "PENDING", "entrypoint",
        crti_view_text(job, "entrypoint"), "message", crti_part_text(job, "message"),
        "error_type", crti_part_text(job, "error_type"), "start_time",
        crti_part(job, "start_time"), "end_time", crti_part(job, "end_time"), "metadata",
        crti_part_object(job, "metadata"), "runtime_env",
        crti_part_object(job, "runtime_env"), "driver_agent_http_address",
        "driver_node_id", crti_part_text(job, "driver_node_id"), "driver_exit_code",
        crti_part(job, "driver_exit_code"), "attempt_number",
        number_of(job, "attempt_number") ? crti_part(job, "attempt_number") : NULL);
}

void crti_view_log_name(const json_t *job, char *name, size_t size)
{
    bool has_several =
        number_of(job, "attempt_number") > 0 || number_of(job, "retries_left") > 0;

    snprintf(name, size, "job:%s",
             crti_view_text(job, has_several ? "job_id" : "submission_id"));
}

json_t *crti_view_user_metrics(const json_t *answer, const char *job)
{
    const json_t *nodes = json_object_get(answer, "nodes");
    json_t *rows = json_array(), *node, *metric;
    size_t i, k;

    json_array_foreach((json_t *)nodes, i, node)
        json_array_foreach(json_object_get(node, "user"), k, metric)
    {
        json_t *row;

        if (*job && strcmp(job, crti_view_text(metric, "job_id")) != 0)
            continue;
        row = json_copy(metric);
        json_object_set(row, "node_id", json_object_get(node, "node_id"));
        if (!json_is_number(json_object_get(row, "value"))) /* not finite */
            json_object_set_new(row, "value", json_null());
        json_array_append_new(rows, row);
    }
    return rows;
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
                              json_pack("[o, o]", crti_part_object(entry, "resources"),
                                        crti_part_number(entry, "count")));
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

/* ---------------------------------------------------------------- text */

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
        int length = crti_utf8_length(data + i, bytes.size - i);

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
