/* SPDX-License-Identifier: Apache-2.0 */
/* The text format of Prometheus. See metrics_text.h. */
#include "runtime/http/metrics_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/http/views.h"

/* Where the text goes; the first failure stays. */
typedef struct page {
    crti_buffer_t *out;
    crt_status_t status;
} page_t;

static void put(page_t *page, const char *text)
{
    if (page->status == CRT_OK)
        page->status = crti_buffer_append(page->out, text, strlen(text));
}

static void put_family(page_t *page, const char *name, const char *type, const char *help)
{
    put(page, "# HELP ");
    put(page, name);
    put(page, " ");
    put(page, help); /* without a newline or a backslash: they are made so */
    put(page, "\n# TYPE ");
    put(page, name);
    put(page, " ");
    put(page, type);
    put(page, "\n");
}

/* A value inside "". */
static void put_escaped(page_t *page, const char *text)
{
    char one[3] = {'\\', 0, 0};

    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            one[1] = *text;
            put(page, one);
        } else if (*text == '\n') {
            put(page, "\\n");
        } else {
            put(page, (char[]){*text, '\0'});
        }
    }
}

/* The shortest text that reads as the same number. */
static void number_text(double value, char *text, size_t size)
{
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, size, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
}

static void put_value(page_t *page, double value)
{
    char text[40];

    put(page, " ");
    if (isnan(value))
        snprintf(text, sizeof(text), "NaN");
    else if (isinf(value))
        snprintf(text, sizeof(text), value > 0 ? "+Inf" : "-Inf");
    else
        number_text(value, text, sizeof(text));
    put(page, text);
    put(page, "\n");
}

/* name{a="..",b=".."} value; labels are pairs of texts, ended by NULL. */
static void put_sample(page_t *page, const char *name, double value, ...)
{
    const char *before = "{", *label;
    va_list labels;

    put(page, name);
    va_start(labels, value);
    while ((label = va_arg(labels, const char *))) {
        put(page, before);
        put(page, label);
        put(page, "=\"");
        put_escaped(page, va_arg(labels, const char *));
        put(page, "\"");
        before = ",";
    }
    va_end(labels);
    put(page, *before == ',' ? "}" : "");
    put_value(page, value);
}

static double number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* What JSON has no number for is a text, or null. */
static double any_number(const json_t *value)
{
    const char *text = json_string_value(value);

    if (json_is_number(value))
        return json_number_value(value);
    return !text ? NAN : *text == '-' ? -INFINITY : INFINITY;
}

/* ---------------------------------------------------------------- the cluster */

/* One sample for each member of an object of counts. */
static void put_counts(page_t *page, const char *name, const char *help,
                       const char *label, const json_t *counts)
{
    json_t *value;
    const char *key;

    put_family(page, name, "gauge", help);
    json_object_foreach((json_t *)counts, key, value)
        put_sample(page, name, json_number_value(value), label, key, NULL);
}

static void put_demand(page_t *page, const json_t *demand)
{
    static const char *const kinds[] = {"task", "actor", "bundle"};
    static const char name[] = "crt_pending_demand";
    json_t *entry;
    size_t i;

    put_family(page, name, "gauge", "Tasks, actors and bundles that wait for resources.");
    for (size_t k = 0; k < 3; k++) {
        double sum = 0;

        json_array_foreach((json_t *)demand, i,
                           entry) if (strcmp(crti_view_text(entry, "kind"), kinds[k]) ==
                                      0) sum += number(entry, "count");
        put_sample(page, name, sum, "kind", kinds[k], NULL);
    }
}

static void put_node_states(page_t *page, const json_t *nodes)
{
    static const char *const states[] = {"ALIVE", "AWAY", "DEAD"};
    json_t *node;
    size_t i;

    put_family(page, "crt_nodes", "gauge", "Nodes of the cluster.");
    for (size_t k = 0; k < 3; k++) {
        unsigned count = 0;

        json_array_foreach((json_t *)nodes, i, node) count +=
            strcmp(crti_view_text(node, "state"), states[k]) == 0;
        put_sample(page, "crt_nodes", count, "state", states[k], NULL);
    }
}

static void put_cluster(page_t *page, const json_t *cluster)
{
    put_family(page, "crt_build_info", "gauge", "The version of the head; always 1.");
    put_sample(page, "crt_build_info", 1, "version", crti_view_text(cluster, "version"),
               NULL);
    put_family(page, "crt_head_start_time_seconds", "gauge",
               "When the head was started, in seconds since 1970.");
    put_sample(page, "crt_head_start_time_seconds", number(cluster, "start_time") / 1000,
               NULL);
    put_node_states(page, json_object_get(cluster, "nodes"));
    put_counts(page, "crt_actors", "Actors; ENDED are the dead ones that did not fail.",
               "state", json_object_get(cluster, "actors"));
    put_counts(page, "crt_jobs", "Jobs, of drivers and submitted.", "status",
               json_object_get(cluster, "jobs"));
    put_counts(page, "crt_placement_groups", "Placement groups.", "state",
               json_object_get(cluster, "placement_groups"));
    put_demand(page, json_object_get(cluster, "demand"));
}

/* ---------------------------------------------------------------- nodes, as the head knows them */

static bool is_alive(const json_t *node)
{
    return strcmp(crti_view_text(node, "state"), "ALIVE") == 0;
}

static void put_node_figure(page_t *page, const json_t *nodes, const char *name,
                            const char *type, const char *help, const char *key)
{
    json_t *node;
    size_t i;

    put_family(page, name, type, help);
    json_array_foreach((json_t *)nodes, i, node) if (is_alive(node)) put_sample(
        page, name, number(node, key), "node_id", crti_view_text(node, "node_id"),
        "node_ip", crti_view_text(node, "ip"), NULL);
}

static void put_resources(page_t *page, const json_t *nodes, const char *name,
                          const char *help, const char *key)
{
    json_t *node, *amount;
    const char *resource;
    size_t i;

    put_family(page, name, "gauge", help);
    json_array_foreach((json_t *)nodes, i, node)
    {
        if (!is_alive(node))
            continue;
        json_object_foreach(json_object_get(node, key), resource, amount)
            put_sample(page, name, json_number_value(amount), "node_id",
                       crti_view_text(node, "node_id"), "node_ip",
                       crti_view_text(node, "ip"), "resource", resource, NULL);
    }
}

static void put_nodes(page_t *page, const json_t *nodes)
{
    put_resources(page, nodes, "crt_node_resources",
                  "Resources of a node; memory in bytes.", "resources_total");
    put_resources(page, nodes, "crt_node_resources_available",
                  "Resources of a node that nothing holds; memory in bytes.",
                  "resources_available");
    put_node_figure(page, nodes, "crt_node_memory_bytes", "gauge",
                    "Memory of the node's host, or of its control group.",
                    "memory_bytes");
    put_node_figure(page, nodes, "crt_node_memory_used_bytes", "gauge",
                    "Memory of the node's host that is in use.", "memory_used");
    put_node_figure(page, nodes, "crt_node_memory_kills_total", "counter",
                    "Workers that the node has ended for lack of memory.",
                    "memory_ended");
}

/* -------------------------------------------------------------- nodes, as they tell themselves */

typedef struct figure {
    const char *name, *type, *help, *part, *key, *label;
} figure_t;

static const figure_t figures[] = {
    {"crt_store_bytes", "gauge", "Size of the node's object store.", "store", "bytes",
     NULL},
    {"crt_store_used_bytes", "gauge", "Bytes of the object store that are taken.",
     "store", "used", NULL},
    {"crt_store_object_bytes", "gauge", "Sum of the sizes of objects.", "store",
     "object_bytes", NULL},
    {"crt_store_pinned_bytes", "gauge", "Bytes of objects that a process reads.", "store",
     "pinned_bytes", NULL},
    {"crt_store_evictable_bytes", "gauge", "Bytes of copies that make room when needed.",
     "store", "evictable_bytes", NULL},
    {"crt_store_objects", "gauge", "Objects in the store.", "store", "objects", NULL},
    {"crt_store_evictions_total", "counter", "Copies that have made room.", "store",
     "evictions", NULL},
    {"crt_store_spilled_bytes", "gauge", "Bytes of objects that are on disk alone.",
     "store", "spilled_bytes", NULL},
    {"crt_store_spilled_objects", "gauge", "Objects that are on disk alone.", "store",
     "spilled_objects", NULL},
    {"crt_spill_disk_bytes", "gauge", "Bytes of the disk that spilled objects take.",
     "store", "spill_disk_bytes", NULL},
    {"crt_spill_written_bytes_total", "counter", "Bytes of objects written to disk.",
     "store", "spill_written", NULL},
    {"crt_spill_read_bytes_total", "counter", "Bytes of objects read from disk.", "store",
     "spill_read", NULL},
    {"crt_lineage_bytes", "gauge",
     "Bytes that processes keep to make lost objects again.", "lineage", "bytes", NULL},
    {"crt_lineage_limit_bytes", "gauge", "As many as these processes may keep at most.",
     "lineage", "limit", NULL},
    {"crt_lineage_forgotten_total", "counter",
     "Calls and objects for which there was no room below that.", "lineage", "forgotten",
     NULL},
    {"crt_calls_made_total", "counter", "Calls that processes of the node have made.",
     "calls", "made", NULL},
    {"crt_calls_failed_total", "counter", "Of these, calls that have failed.", "calls",
     "failed", NULL},
    {"crt_calls_run_total", "counter",
     "Calls that workers of the node have begun to run.", "calls", "run", NULL},
    {"crt_calls_unrecorded_total", "counter",
     "Attempts of calls of which no task event was written.", "calls", "unrecorded",
     NULL},
    {"crt_processes", "gauge", "Drivers and workers of the node.", "processes", "driver",
     "driver"},
    {NULL, NULL, NULL, "processes", "actor", "actor"},
    {NULL, NULL, NULL, "processes", "task_busy", "task_busy"},
    {NULL, NULL, NULL, "processes", "task_idle", "task_idle"},
    {"crt_processes_ended_total", "counter", "Drivers and workers that have ended.", NULL,
     "processes_died", NULL},
    {"crt_metrics_refused_total", "counter",
     "Metrics of programs that did not fit others of their name.", NULL,
     "metrics_refused", NULL},
};

static void put_own_figures(page_t *page, const json_t *nodes)
{
    const char *name = "";
    json_t *node;
    size_t k;

    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        const figure_t *f = &figures[i];

        if (f->name) {
            name = f->name;
            put_family(page, name, f->type, f->help);
        }
        json_array_foreach((json_t *)nodes, k, node)
        {
            const json_t *part = f->part ? json_object_get(node, f->part) : node;

            put_sample(page, name, number(part, f->key), "node_id",
                       crti_view_text(node, "node_id"), f->label ? "kind" : NULL,
                       f->label, NULL);
        }
    }
    put_family(page, "crt_nodes_silent", "gauge",
               "Nodes that did not answer this scrape in time.");
}

/* ---------------------------------------------------------------- what programs count */

/* One metric of one node, under the name that is shown. */
typedef struct shown {
    char name[112];
    const json_t *metric;
    const char *node;
} shown_t;

static int by_name(const void *a, const void *b)
{
    const shown_t *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order
                 : strcmp(crti_view_text(x->metric, "kind"),
                          crti_view_text(y->metric, "kind"));
}

/* Programs that do not know of each other may give one name to two kinds: one has the name
 * (counters first), the others one that says their kind. */
static void part_kinds(shown_t *shown, size_t count)
{
    char first[sizeof(shown->name)] = "";
    const char *kind = "";

    qsort(shown, count, sizeof(*shown), by_name);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(first, shown[i].name) != 0) {
            snprintf(first, sizeof(first), "%s", shown[i].name);
            kind = crti_view_text(shown[i].metric, "kind");
        }
        if (strcmp(kind, crti_view_text(shown[i].metric, "kind")) != 0) {
            size_t at = strlen(shown[i].name);

            snprintf(shown[i].name + at, sizeof(shown[i].name) - at, "_%s",
                     crti_view_text(shown[i].metric, "kind"));
        }
    }
    qsort(shown, count, sizeof(*shown), by_name);
}

/* The library's own begin with crt_, which programs may not use. */
static void name_it(shown_t *shown)
{
    const char *name = crti_view_text(shown->metric, "name");
    size_t length = strlen(name);
    bool is_counter = strcmp(crti_view_text(shown->metric, "kind"), "counter") == 0;
    bool is_total = length > 6 && strcmp(name + length - 6, "_total") == 0;

    snprintf(shown->name, sizeof(shown->name), "%s%s%s",
             strncmp(name, "crt_", 4) == 0 ? "" : "crt_user_", name,
             is_counter && !is_total ? "_total" : "");
}

/* `extra`: one more label, with its comma; NULL: none. */
static void put_user_sample(page_t *page, const shown_t *s, const char *suffix,
                            const char *extra, double value)
{
    static const char *const keys[] = {"job_id", "actor_id", "class_name"};
    const char *labels = crti_view_text(s->metric, "labels");

    put(page, s->name);
    put(page, suffix);
    put(page, "{");
    put(page, labels);
    put(page, *labels ? ",node_id=\"" : "node_id=\"");
    put_escaped(page, s->node);
    put(page, "\"");
    for (size_t i = 0; i < 3; i++) {
        put(page, ",");
        put(page, keys[i]);
        put(page, "=\"");
        put_escaped(page, crti_view_text(s->metric, keys[i]));
        put(page, "\"");
    }
    put(page, extra ? extra : "");
    put(page, "}");
    put_value(page, value);
}

static void put_histogram(page_t *page, const shown_t *s)
{
    json_t *bucket;
    char extra[64], bound[40];
    size_t i;

    json_array_foreach(json_object_get(s->metric, "buckets"), i, bucket)
    {
        number_text(json_number_value(json_array_get(bucket, 0)), bound, sizeof(bound));
        snprintf(extra, sizeof(extra), ",le=\"%s\"", bound);
        put_user_sample(page, s, "_bucket", extra,
                        json_number_value(json_array_get(bucket, 1)));
    }
    put_user_sample(page, s, "_bucket", ",le=\"+Inf\"", number(s->metric, "count"));
    put_user_sample(page, s, "_sum", NULL,
                    any_number(json_object_get(s->metric, "value")));
    put_user_sample(page, s, "_count", NULL, number(s->metric, "count"));
}

static void put_user(page_t *page, const shown_t *shown, size_t count)
{
    const char *kind = "";

    for (size_t i = 0; i < count; i++) {
        const shown_t *s = &shown[i];

        if (i == 0 || strcmp(shown[i - 1].name, s->name) != 0) {
            char help[160];

            kind = crti_view_text(s->metric, "kind");
            snprintf(help, sizeof(help), "%s", crti_view_text(s->metric, "help"));
            for (char *at = help; *at; at++)
                if (*at == '\\')
                    *at = '/';
            put_family(page, s->name, kind, help);
        }
        if (strcmp(kind, "histogram") == 0)
            put_histogram(page, s);
        else
            put_user_sample(page, s, "", NULL,
                            any_number(json_object_get(s->metric, "value")));
    }
}

static void put_programs(page_t *page, const json_t *nodes)
{
    size_t count = 0, i, k;
    json_t *node, *metric;
    shown_t *shown;

    json_array_foreach((json_t *)nodes, i, node) count +=
        json_array_size(json_object_get(node, "user"));
    shown = calloc(count + 1, sizeof(*shown));
    if (!shown) {
        page->status = crt_raise(CRT_ERR_NO_MEMORY, "%zu metrics", count);
        return;
    }
    count = 0;
    json_array_foreach((json_t *)nodes, i, node)
        json_array_foreach(json_object_get(node, "user"), k, metric)
    {
        if (json_is_true(json_object_get(metric, "is_past")))
            continue; /* nobody would set it to another value */
        shown[count] =
            (shown_t){.metric = metric, .node = crti_view_text(node, "node_id")};
        name_it(&shown[count++]);
    }
    part_kinds(shown, count);
    put_user(page, shown, count);
    free(shown);
}

crt_status_t crti_metrics_text(const json_t *answer, crti_buffer_t *out)
{
    page_t page = {.out = out, .status = CRT_OK};
    const json_t *cluster = json_object_get(answer, "cluster"),
                 *nodes = json_object_get(answer, "nodes");

    put_cluster(&page, cluster);
    put_nodes(&page, json_object_get(cluster, "nodes"));
    put_own_figures(&page, nodes);
    put_sample(&page, "crt_nodes_silent", number(answer, "silent_nodes"), NULL);
    put_programs(&page, nodes);
    return page.status;
}
