/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of http/views.c and http/status_text.c: shapes that clients rely on. */
#include "runtime/http/state_views.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void json_decref_auto(json_t **json)
{
    json_decref(*json);
}

static json_t *load(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    return json;
}

static void assert_keys(const json_t *object, const char *const *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!json_object_get(object, keys[i]))
            fail_msg("no key %s", keys[i]);
    assert_int_equal(json_object_size(object), count);
}

static void a_job_has_all_keys_and_its_pid_is_a_text(void **state)
{
    static const char *const keys[] = {
        "type",           "job_id",           "submission_id",
        "driver_info",    "status",           "entrypoint",
        "message",        "error_type",       "start_time",
        "end_time",       "metadata",         "runtime_env",
        "driver_node_id", "driver_exit_code", "driver_agent_http_address"};
    CRTI_AUTO(json_decref)
    json_t *job =
        load("{\"type\":\"SUBMISSION\",\"submission_id\":\"a\",\"status\":\"RUNNING\","
             "\"driver_pid\":12,\"job_id\":\"01\",\"driver_node_ip\":\"10.0.0.1\","
             "\"start_time\":5,\"extra\":1,\"error_type\":\"\"}");
    CRTI_AUTO(json_decref) json_t *view = crti_view_job(job);
    const json_t *driver = json_object_get(view, "driver_info");

    assert_keys(view, keys, sizeof(keys) / sizeof(keys[0]));
    assert_string_equal(crti_view_text(driver, "pid"), "12");
    assert_string_equal(crti_view_text(driver, "node_ip_address"), "10.0.0.1");
    assert_true(json_is_null(json_object_get(view, "error_type")));
    assert_true(json_is_null(json_object_get(view, "end_time")));
    assert_true(json_is_object(json_object_get(view, "metadata")));
}

static void an_empty_job_still_has_what_is_required(void **state)
{
    CRTI_AUTO(json_decref) json_t *job = load("{}");
    CRTI_AUTO(json_decref) json_t *view = crti_view_job(job);

    assert_string_equal(crti_view_text(view, "type"), "SUBMISSION");
    assert_string_equal(crti_view_text(view, "status"), "PENDING");
    assert_true(json_is_null(json_object_get(view, "driver_info")));
}

static const char two_nodes[] =
    "{\"nodes\":[{\"node_id\":\"n1\",\"state\":\"ALIVE\",\"resources_total\":{\"CPU\":4,"
    "\"memory\":2147483648},\"resources_available\":{\"CPU\":1,\"memory\":2147483648},"
    "\"store_bytes\":1048576,\"store_used\":0},{\"node_id\":\"n2\",\"state\":\"ALIVE\","
    "\"resources_total\":{\"CPU\":2,\"gpu\":1},\"resources_available\":{\"CPU\":2}},"
    "{\"node_id\":\"n3\",\"state\":\"DEAD\",\"state_message\":\"cut off\","
    "\"resources_total\":{\"CPU\":64}}],\"demand\":[{\"resources\":{\"CPU\":9},\"count\":"
    "2,"
    "\"reason\":\"needs 9 CPU, the cluster has "
    "6\"}],\"actors\":{\"ALIVE\":1},\"jobs\":{}}";

static void usage_is_summed_over_living_nodes(void **state)
{
    CRTI_AUTO(json_decref) json_t *cluster = load(two_nodes);
    CRTI_AUTO(json_decref) json_t *view = crti_view_cluster(cluster, false);
    const json_t *data = json_object_get(view, "data");
    const json_t *status = json_object_get(data, "clusterStatus");
    const json_t *report = json_object_get(status, "loadMetricsReport");
    const json_t *cpu = json_object_get(json_object_get(report, "usage"), "CPU");

    assert_true(json_is_true(json_object_get(view, "result")));
    assert_true(json_number_value(json_array_get(cpu, 0)) == 3);
    assert_true(json_number_value(json_array_get(cpu, 1)) == 6);
    assert_int_equal(json_array_size(json_object_get(report, "resourceDemand")), 1);
    assert_true(json_is_null(json_object_get(data, "autoscalingError")));
    assert_non_null(
        json_object_get(json_object_get(status, "autoscalerReport"), "activeNodes"));
}

static void the_text_has_the_lines_that_scripts_read(void **state)
{
    static const char *const lines[] = {"======== Autoscaler status: ",
                                        "Node status\n---",
                                        "Active:\n 1 node_n1\n 1 node_n2\n",
                                        "Recent failures:\n node_n3: cut off\n",
                                        "Total Usage:\n",
                                        " 3.0/6.0 CPU\n",
                                        " 0B/2.00GiB memory\n",
                                        " 1.0/1.0 gpu\n",
                                        " 0B/1.00MiB object_store_memory\n",
                                        "Pending Demands:\n {'CPU': 9}: 2+ pending tasks",
                                        " (needs 9 CPU, the cluster has 6)\n",
                                        "Actors:\n 1 ALIVE\n",
                                        "Jobs:\n (none)\n"};
    CRTI_AUTO(json_decref) json_t *cluster = load(two_nodes);
    CRTI_AUTO(json_decref) json_t *view = crti_view_cluster(cluster, true);
    const char *text = crti_view_text(json_object_get(view, "data"), "clusterStatus");

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        if (!strstr(text, lines[i]))
            fail_msg("no \"%s\" in:\n%s", lines[i], text);
}

static void an_empty_cluster_is_shown_as_one(void **state)
{
    CRTI_AUTO(json_decref) json_t *cluster = load("{}");
    CRTI_AUTO(json_decref) json_t *as_text = crti_view_cluster(cluster, true);
    CRTI_AUTO(json_decref) json_t *as_object = crti_view_cluster(cluster, false);

    assert_non_null(
        strstr(crti_view_text(json_object_get(as_text, "data"), "clusterStatus"),
               " (no active nodes)\n"));
    assert_non_null(as_object);
}

static void rows_of_the_state_api_have_the_columns_of_their_level(void **state)
{
    static const char *const base[] = {"actor_id", "class_name",   "state",
                                       "job_id",   "name",         "node_id",
                                       "pid",      "ray_namespace"};
    CRTI_AUTO(json_decref)
    json_t *rows =
        load("[{\"actor_id\":\"a\",\"state\":\"STARTING\"},{\"actor_id\":\"b\","
             "\"state\":\"DEAD\",\"message\":\"why\"}]");
    CRTI_AUTO(json_decref)
    json_t *brief =
        crti_view_state(crti_listing_find("actors"), rows, NULL, 1, CRTI_VIEW_BASE);
    CRTI_AUTO(json_decref)
    json_t *full =
        crti_view_state(crti_listing_find("actors"), rows, NULL, 100, CRTI_VIEW_DETAIL);
    const json_t *result = json_object_get(json_object_get(brief, "data"), "result");
    const json_t *row = json_array_get(json_object_get(result, "result"), 0);

    assert_keys(row, base, 8);
    assert_string_equal(crti_view_text(row, "state"), "PENDING_CREATION");
    assert_int_equal(json_integer_value(json_object_get(result, "total")), 2);
    assert_int_equal(json_integer_value(json_object_get(result, "num_after_truncation")),
                     1);
    result = json_object_get(json_object_get(full, "data"), "result");
    row = json_array_get(json_object_get(result, "result"), 1);
    assert_int_equal(json_object_size(row), 16);
    assert_string_equal(
        crti_view_text(json_object_get(row, "death_cause"), "error_message"), "why");
}

static void rows_that_the_head_picked_are_not_picked_again(void **state)
{
    CRTI_AUTO(json_decref)
    json_t *answer = load("{\"actors\":[{\"actor_id\":\"a\",\"state\":\"ALIVE\"}],"
                          "\"all\":7,\"matched\":3}");
    CRTI_AUTO(json_decref)
    json_t *filters = json_pack("[[s, b, s]]", "name", 0, "is not there");
    CRTI_AUTO(json_decref)
    json_t *reply =
        crti_view_state(crti_listing_find("actors"), answer, filters, 1, CRTI_VIEW_BASE);
    const json_t *result = json_object_get(json_object_get(reply, "data"), "result");

    assert_int_equal(json_array_size(json_object_get(result, "result")), 1);
    assert_int_equal(json_integer_value(json_object_get(result, "total")), 7);
    assert_int_equal(json_integer_value(json_object_get(result, "num_filtered")), 3);
    assert_int_equal(json_integer_value(json_object_get(result, "num_after_truncation")),
                     5);
}

static void summaries_add_what_the_head_has_counted(void **state)
{
    CRTI_AUTO(json_decref)
    json_t *answer =
        load("{\"groups\":[{\"class_name\":\"A\",\"state\":\"PENDING\",\"count\":2},"
             "{\"class_name\":\"A\",\"state\":\"STARTING\",\"count\":3},"
             "{\"class_name\":\"B\",\"state\":\"DEAD\",\"count\":1}],"
             "\"all\":9,\"matched\":6}");
    CRTI_AUTO(json_decref)
    json_t *reply = crti_view_summary(crti_listing_find("actors"), answer);
    const json_t *result = json_object_get(json_object_get(reply, "data"), "result");
    json_t *wanted =
        load("{\"node_id_to_summary\":{\"cluster\":{\"summary\":{"
             "\"A\":{\"class_name\":\"A\",\"state_counts\":{\"PENDING_CREATION\":5}},"
             "\"B\":{\"class_name\":\"B\",\"state_counts\":{\"DEAD\":1}}},"
             "\"total_actors\":6,\"summary_by\":\"class\"}}}");

    assert_true(json_equal(json_object_get(result, "result"), wanted));
    assert_int_equal(json_integer_value(json_object_get(result, "total")), 9);
    json_decref(wanted);
}

static void summaries_of_tasks_tell_kinds_apart(void **state)
{
    CRTI_AUTO(json_decref)
    json_t *answer = load(
        "{\"groups\":[{\"name\":\"f\",\"type\":\"NORMAL_TASK\",\"state\":\"FINISHED\","
        "\"count\":4},{\"name\":\"f\",\"type\":\"NORMAL_TASK\",\"state\":\"FAILED\","
        "\"count\":1},{\"name\":\"A.g\",\"type\":\"ACTOR_TASK\",\"state\":\"RUNNING\","
        "\"count\":2},{\"name\":\"A\",\"type\":\"ACTOR_CREATION_TASK\",\"state\":"
        "\"FINISHED\",\"count\":3}],\"all\":10,\"matched\":10}");
    CRTI_AUTO(json_decref)
    json_t *reply = crti_view_summary(crti_listing_find("tasks"), answer);
    const json_t *cluster = json_object_get(
        json_object_get(
            json_object_get(json_object_get(json_object_get(reply, "data"), "result"),
                            "result"),
            "node_id_to_summary"),
        "cluster");
    const json_t *f = json_object_get(json_object_get(cluster, "summary"), "f");
    const json_t *counts = json_object_get(f, "state_counts");

    assert_int_equal(json_integer_value(json_object_get(cluster, "total_tasks")), 5);
    assert_int_equal(json_integer_value(json_object_get(cluster, "total_actor_tasks")),
                     2);
    assert_int_equal(
        json_integer_value(json_object_get(cluster, "total_actor_scheduled")), 3);
    assert_int_equal(json_integer_value(json_object_get(counts, "FINISHED")), 4);
    assert_int_equal(json_integer_value(json_object_get(counts, "FAILED")), 1);
    assert_string_equal(crti_view_text(f, "type"), "NORMAL_TASK");
}

static void summaries_of_objects_are_by_the_line_that_made_them(void **state)
{
    CRTI_AUTO(json_decref)
    json_t *answer = load(
        "{\"groups\":[{\"call_site\":\"a.c:7\",\"is_sealed\":true,\"reference_type\":"
        "\"LOCAL_REFERENCE\",\"owner_id\":\"p\",\"node_id\":\"n\",\"count\":3,\"sum\":"
        "1048576},{\"call_site\":\"a.c:7\",\"is_sealed\":false,\"reference_type\":"
        "\"UNKNOWN_STATUS\",\"owner_id\":\"p\",\"node_id\":\"m\",\"count\":1,\"sum\":"
        "1048576},{\"call_site\":\"\",\"is_sealed\":true,\"reference_type\":"
        "\"PINNED_IN_MEMORY\",\"owner_id\":\"q\",\"node_id\":\"n\",\"count\":1,\"sum\":"
        "524288}],\"all\":9,\"matched\":5}");
    CRTI_AUTO(json_decref)
    json_t *reply = crti_view_summary(crti_listing_find("objects"), answer);
    const json_t *result = json_object_get(json_object_get(reply, "data"), "result");
    json_t *wanted = load(
        "{\"node_id_to_summary\":{\"cluster\":{\"summary\":{\"a.c:7\":{\"total_objects\":"
        "4,"
        "\"total_size_mb\":2.0,\"task_state_counts\":{\"FINISHED\":3,\"RUNNING\":1},"
        "\"task_attempt_number_counts\":{\"1\":4},\"ref_type_counts\":{"
        "\"LOCAL_REFERENCE\":3,\"UNKNOWN_STATUS\":1},\"total_num_workers\":1,"
        "\"total_num_nodes\":2},\"unknown\":{\"total_objects\":1,\"total_size_mb\":0.5,"
        "\"task_state_counts\":{\"FINISHED\":1},\"task_attempt_number_counts\":{\"1\":1},"
        "\"ref_type_counts\":{\"PINNED_IN_MEMORY\":1},\"total_num_workers\":1,"
        "\"total_num_nodes\":1}},\"total_objects\":5,\"total_size_mb\":2.5,"
        "\"callsite_enabled\":true,\"summary_by\":\"callsite\"}}}");

    assert_true(json_equal(json_object_get(result, "result"), wanted));
    assert_int_equal(json_integer_value(json_object_get(result, "total")), 9);
    json_decref(wanted);
}

static const char *reply_to(crti_buffer_t *reply, const char *answer)
{
    reply->size = 0;
    if (crti_view_rows(crti_listing_find("tasks"), crti_span(answer, strlen(answer)), 2,
                       reply) != CRT_OK ||
        crti_buffer_append(reply, "", 1) != CRT_OK)
        return NULL;
    return (const char *)reply->data;
}

static void rows_that_the_head_has_written_are_passed_on(void **state)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t reply = {0};
    static const char *const bad[] = {"",
                                      "{}",
                                      "{\"tasks\":[",
                                      "{\"tasks\":[]}",
                                      "{\"tasks\":[],\"all\":",
                                      "{\"tasks\":[],\"all\":1}",
                                      "{\"actors\":[],\"all\":1,\"matched\":1}",
                                      "[],\"all\":1,\"matched\":1}"};

    assert_string_equal(
        reply_to(&reply, "{\"tasks\":[{\"name\":\"],\\\"all\\\":\"},{}],\"all\":9,"
                         "\"matched\":7,\"silent_nodes\":1}"),
        "{\"result\":true,\"msg\":\"\",\"data\":{\"result\":{\"total\":9,"
        "\"num_after_truncation\":4,\"num_filtered\":7,\"result\":[{\"name\":"
        "\"],\\\"all\\\":\"},{}],\"partial_failure_warning\":"
        "\"1 nodes did not answer in time\",\"warnings\":null}}}");
    assert_non_null(reply_to(&reply, "{\"tasks\":[],\"all\":0,\"matched\":0}"));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (reply_to(&reply, bad[i]))
            fail_msg("%s became %s", bad[i], (const char *)reply.data);
}

/* Rows of one entry, in the columns of that level. */
static const json_t *row_of(json_t **reply_out, const char *what, const char *entry,
                            crti_view_level_t level)
{
    CRTI_AUTO(json_decref) json_t *rows = load(entry);
    const json_t *data;

    *reply_out = crti_view_state(crti_listing_find(what), rows, NULL, 10, level);
    data = json_object_get(json_object_get(*reply_out, "data"), "result");
    return json_array_get(json_object_get(data, "result"), 0);
}

static void our_own_columns_come_only_when_they_are_asked_for(void **state)
{
    static const char actor[] = "[{\"actor_id\":\"a\",\"state\":\"ALIVE\","
                                "\"is_fenced\":true,\"message\":\"no calls\"}]";
    static const char node[] = "[{\"node_id\":\"n\",\"heard_time\":7}]";

    for (int level = CRTI_VIEW_BASE; level <= CRTI_VIEW_ALL; level++) {
        CRTI_AUTO(json_decref) json_t *actors = NULL;
        CRTI_AUTO(json_decref) json_t *nodes = NULL;
        bool is_all = level == CRTI_VIEW_ALL;
        const json_t *row = row_of(&actors, "actors", actor, (crti_view_level_t)level);

        assert_int_equal(json_is_true(json_object_get(row, "is_fenced")), is_all);
        assert_string_equal(crti_view_text(row, "message"), is_all ? "no calls" : "");
        row = row_of(&nodes, "nodes", node, (crti_view_level_t)level);
        assert_int_equal(json_integer_value(json_object_get(row, "heard_time_ms")),
                         is_all ? 7 : 0);
    }
}

static void answers_of_a_wrong_shape_do_no_harm(void **state)
{
    static const char *const odd[] = {"[1,\"x\",null,[],{\"state\":7,\"pid\":\"x\"}]",
                                      "{}", "{\"nodes\":{},\"demand\":7,\"actors\":[]}",
                                      "{\"nodes\":[[],1,{\"resources_total\":[1]}]}"};

    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        CRTI_AUTO(json_decref) json_t *json = load(odd[i]);

        json_decref(
            crti_view_state(crti_listing_find("jobs"), json, NULL, 10, CRTI_VIEW_BASE));
        json_decref(crti_view_cluster(json, false));
        json_decref(crti_view_cluster(json, true));
        json_decref(
            crti_view_state(crti_listing_find("nodes"), json, NULL, 10, CRTI_VIEW_ALL));
        json_decref(
            crti_view_state(crti_listing_find("actors"), json, NULL, 10, CRTI_VIEW_ALL));
    }
}

/* Two calls that overlap in one worker, one that begins when a transfer has come, and a collective
 * in the first. */
static const char moments[] =
    "{\"tasks\":["
    "{\"task_id\":\"c1\",\"name\":\"late\",\"worker_id\":\"w\",\"node_id\":\"n\","
    "\"worker_pid\":9,\"creation_time\":5,\"start_time\":30,\"end_time\":40,"
    "\"events\":{\"PENDING_ARGS_AVAIL\":5,\"PENDING_NODE_ASSIGNMENT\":10,"
    "\"SUBMITTED_TO_WORKER\":28,\"RUNNING\":30,\"FINISHED\":40}},"
    "{\"task_id\":\"c2\",\"name\":\"first\",\"worker_id\":\"w\",\"node_id\":\"n\","
    "\"worker_pid\":9,\"creation_time\":1,\"start_time\":2,\"end_time\":20,"
    "\"events\":{\"RUNNING\":2,\"FINISHED\":20}},"
    "{\"task_id\":\"c3\",\"name\":\"second\",\"worker_id\":\"w\",\"node_id\":\"n\","
    "\"worker_pid\":9,\"creation_time\":3,\"start_time\":3,\"end_time\":15,"
    "\"events\":{\"RUNNING\":3,\"FINISHED\":15}}],"
    "\"collectives\":[{\"name\":\"allreduce\",\"worker_id\":\"w\",\"node_id\":\"n\","
    "\"worker_pid\":9,\"start_time\":4,\"end_time\":6,\"events\":{\"RUNNING\":4}}],"
    "\"transfers\":["
    "{\"size\":7,\"worker_id\":\"w\",\"worker_pid\":9,\"node_id\":\"n\",\"from_node_id\":"
    "\"m\",\"start_time\":22,\"end_time\":25},"
    "{\"size\":8,\"worker_id\":\"w\",\"worker_pid\":9,\"node_id\":\"n\",\"from_node_id\":"
    "\"m\",\"start_time\":4,\"end_time\":24}]}";

/* The event of that phase and name, the first with `key` = `value` in it where `key` is not
 * NULL. */
static const json_t *event_of(const json_t *trace, const char *phase, const char *name,
                              const char *key, const char *value)
{
    for (size_t i = 0; i < json_array_size(trace); i++) {
        const json_t *event = json_array_get(trace, i);

        if (strcmp(crti_view_text(event, "ph"), phase) == 0 &&
            strcmp(crti_view_text(event, "name"), name) == 0 &&
            (!key || strcmp(crti_view_text(event, key), value) == 0))
            return event;
    }
    fail_msg("no event %s %s", phase, name);
    return NULL;
}

static double number_in(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

static void a_timeline_has_calls_waits_collectives_and_transfers(void **state)
{
    CRTI_AUTO(json_decref) json_t *answer = load(moments);
    CRTI_AUTO(json_decref) json_t *trace = crti_view_timeline(answer, "");
    const json_t *run = event_of(trace, "X", "first", "cat", "task");
    const json_t *beside = event_of(trace, "X", "second", "cat", "task");
    const json_t *both = event_of(trace, "X", "allreduce", "cat", "collective");

    assert_string_equal(crti_view_text(run, "tid"), "worker w (pid 9)");
    assert_string_equal(crti_view_text(beside, "tid"), "worker w (pid 9) (2)");
    assert_string_equal(crti_view_text(both, "tid"), "worker w (pid 9)");
    assert_true(number_in(both, "dur") == 2000);
    assert_true(number_in(event_of(trace, "X", "arguments", NULL, NULL), "dur") == 5000);
    assert_true(number_in(event_of(trace, "X", "queued", NULL, NULL), "dur") == 18000);
    assert_true(number_in(event_of(trace, "X", "sent", NULL, NULL), "dur") == 2000);
    assert_true(number_in(event_of(trace, "s", "call", "id", "c1-0"), "ts") == 5000);
    assert_true(number_in(event_of(trace, "f", "call", "id", "c1-0"), "ts") == 30000);
}

/* From the call that waits to it, and from it to the call that needed it first. */
static void arrows_lead_to_a_transfer_and_from_it(void **state)
{
    CRTI_AUTO(json_decref) json_t *answer = load(moments);
    CRTI_AUTO(json_decref) json_t *trace = crti_view_timeline(answer, "");
    const json_t *asks = event_of(trace, "s", "transfer", "id", "transfer-0");
    const json_t *comes = event_of(trace, "f", "transfer", "id", "transfer-0");
    const json_t *ends = event_of(trace, "s", "transfer", "id", "transfer-1");
    const json_t *needs = event_of(trace, "f", "transfer", "id", "transfer-1");

    assert_string_equal(crti_view_text(asks, "tid"), "worker w (pid 9)");
    assert_string_equal(crti_view_text(comes, "tid"), "transfers");
    assert_true(number_in(asks, "ts") == 4000 && number_in(comes, "ts") == 4000);
    assert_string_equal(crti_view_text(ends, "tid"), "transfers (2)");
    assert_true(number_in(ends, "ts") == 25000 && number_in(needs, "ts") == 30000);
    event_of(trace, "X", "7 bytes from node m", "cat", "transfer");
}

static void assert_clean(const char *in, bool final, const char *out,
                         size_t used_expected)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    size_t used;

    assert_int_equal(crti_utf8_clean(crti_span(in, strlen(in)), final, &text, &used),
                     CRT_OK);
    assert_int_equal(used, used_expected);
    assert_int_equal(text.size, strlen(out));
    assert_memory_equal(text.data ? (char *)text.data : "", out, text.size);
}

static void every_text_is_escaped_as_json_wants_it(void **state)
{
    char text[130] = "gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80";
    size_t size = strlen(text);
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};
    json_t *json;

    for (int i = 0; i < 128 && size < sizeof(text); i++) /* also 0 */
        text[size++] = (char)i;
    assert_int_equal(crti_buffer_append(&out, "\"", 1), CRT_OK);
    assert_int_equal(crti_json_escape(crti_span(text, size), &out), CRT_OK);
    assert_int_equal(crti_json_escape(crti_span(NULL, 0), &out), CRT_OK);
    assert_int_equal(crti_buffer_append(&out, "\"", 1), CRT_OK);
    json = json_loadb((char *)out.data, out.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    assert_int_equal(json_string_length(json), size);
    assert_memory_equal(json_string_value(json), text, size);
    json_decref(json);
}

static void bytes_that_are_no_characters_are_replaced(void **state)
{
    assert_clean("", true, "", 0);
    assert_clean("plain\n", true, "plain\n", 6);
    assert_clean("gr\xc3\xbc\xc3\x9f", true, "gr\xc3\xbc\xc3\x9f", 6);
    assert_clean("\xff"
                 "a",
                 true,
                 "\xef\xbf\xbd"
                 "a",
                 2);
    assert_clean("\xc0\x80", true, "\xef\xbf\xbd\xef\xbf\xbd", 2); /* overlong */
    assert_clean("\xed\xa0\x80", true, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
                 3); /* surrogate */
    assert_clean("\xf4\x90\x80\x80", true,
                 "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd",
                 4); /* beyond U+10FFFF */
    assert_clean("\xf0\x9f\x98\x80", true, "\xf0\x9f\x98\x80", 4);
}

static void a_character_cut_at_the_end_waits_for_the_rest(void **state)
{
    assert_clean("ab\xc3", false, "ab", 2);
    assert_clean("ab\xf0\x9f\x98", false, "ab", 2);
    assert_clean("ab\xc3", true, "ab\xef\xbf\xbd", 3);
    assert_clean("\xc3"
                 "ab",
                 false,
                 "\xef\xbf\xbd"
                 "ab",
                 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_has_all_keys_and_its_pid_is_a_text),
        cmocka_unit_test(an_empty_job_still_has_what_is_required),
        cmocka_unit_test(usage_is_summed_over_living_nodes),
        cmocka_unit_test(the_text_has_the_lines_that_scripts_read),
        cmocka_unit_test(an_empty_cluster_is_shown_as_one),
        cmocka_unit_test(rows_of_the_state_api_have_the_columns_of_their_level),
        cmocka_unit_test(rows_that_the_head_picked_are_not_picked_again),
        cmocka_unit_test(summaries_add_what_the_head_has_counted),
        cmocka_unit_test(summaries_of_tasks_tell_kinds_apart),
        cmocka_unit_test(rows_that_the_head_has_written_are_passed_on),
        cmocka_unit_test(summaries_of_objects_are_by_the_line_that_made_them),
        cmocka_unit_test(our_own_columns_come_only_when_they_are_asked_for),
        cmocka_unit_test(answers_of_a_wrong_shape_do_no_harm),
        cmocka_unit_test(a_timeline_has_calls_waits_collectives_and_transfers),
        cmocka_unit_test(arrows_lead_to_a_transfer_and_from_it),
        cmocka_unit_test(every_text_is_escaped_as_json_wants_it),
        cmocka_unit_test(bytes_that_are_no_characters_are_replaced),
        cmocka_unit_test(a_character_cut_at_the_end_waits_for_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
