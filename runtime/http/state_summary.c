/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries of the state API. See state_views.h. */
#include "runtime/http/state_views.h"

#include <string.h>

#include "runtime/http/view_parts.h"

#define MIB (1024.0 * 1024.0)

/* counts[key] += 1 */
static void count(json_t *counts, const char *key)
{
    json_int_t so_far = json_integer_value(json_object_get(counts, key));

    json_object_set_new(counts, key, json_integer(so_far + 1));
}

/* A group of that name, made by `fresh` when there is none; borrowed. */
static json_t *group_of(json_t *groups, const char *name, json_t *(*fresh)(const char *))
{
    json_t *group = json_object_get(groups, name);

    if (!group) {
        group = fresh(name);
        json_object_set_new(groups, name, group);
    }
    return group;
}

static json_t *fresh_function(const char *name)
{
    return json_pack("{s:s, s:s, s:{}}", "func_or_class_name", name, "type",
                     "NORMAL_TASK", "state_counts");
}

static json_t *fresh_class(const char *name)
{
    return json_pack("{s:s, s:{}}", "class_name", name, "state_counts");
}

static json_t *fresh_objects(const char *name)
{
    return json_pack("{s:i, s:f, s:{}, s:{}, s:{}, s:{}, s:{}}", "total_objects", 0,
                     "total_size_mb", 0.0, "task_state_counts",
                     "task_attempt_number_counts", "ref_type_counts", "workers", "nodes");
}

/* ---------------------------------------------------------------- each kind */

static json_t *summarize_tasks(const crti_listing_t *resource, const json_t *entries,
                               const json_t *filters)
{
    json_t *groups = json_object(), *entry;
    json_int_t tasks = 0, methods = 0, creations = 0;
    size_t i;

    json_array_foreach((json_t *)entries, i, entry)
    {
        const char *type = crti_view_text(entry, "type");
        json_t *group;

        if (!crti_listing_is_wanted(resource, entry, filters))
            continue;
        group = group_of(groups, crti_view_text(entry, "name"), fresh_function);
        json_object_set_new(group, "type", json_string(type));
        count(json_object_get(group, "state_counts"), crti_view_text(entry, "state"));
        tasks += strcmp(type, "NORMAL_TASK") == 0;
        methods += strcmp(type, "ACTOR_TASK") == 0;
        creations += strcmp(type, "ACTOR_CREATION_TASK") == 0;
    }
    return json_pack("{s:o, s:I, s:I, s:I, s:s}", "summary", groups, "total_tasks", tasks,
                     "total_actor_tasks", methods, "total_actor_scheduled", creations,
                     "summary_by", "func_name");
}

static json_t *summarize_actors(const crti_listing_t *resource, const json_t *entries,
                                const json_t *filters)
{
    json_t *groups = json_object(), *entry;
    json_int_t total = 0;
    size_t i;

    json_array_foreach((json_t *)entries, i, entry)
    {
        json_t *row, *group;

        if (!crti_listing_is_wanted(resource, entry, filters))
            continue;
        row = resource->row(entry, CRTI_VIEW_BASE);
        group = group_of(groups, crti_view_text(row, "class_name"), fresh_class);
        count(json_object_get(group, "state_counts"), crti_view_text(row, "state"));
        json_decref(row);
        total++;
    }
    return json_pack("{s:o, s:I, s:s}", "summary", groups, "total_actors", total,
                     "summary_by", "class");
}

static void add_object(json_t *group, const json_t *row)
{
    double size = json_number_value(json_object_get(row, "object_size")) / MIB;
    double sum = json_number_value(json_object_get(group, "total_size_mb"));
    json_int_t total = json_integer_value(json_object_get(group, "total_objects"));

    json_object_set_new(group, "total_objects", json_integer(total + 1));
    json_object_set_new(group, "total_size_mb", json_real(sum + size));
    count(json_object_get(group, "task_state_counts"),
          crti_view_text(row, "task_status"));
    count(json_object_get(group, "task_attempt_number_counts"), "1");
    count(json_object_get(group, "ref_type_counts"),
          crti_view_text(row, "reference_type"));
    count(json_object_get(group, "workers"), crti_view_text(row, "owner_id"));
    count(json_object_get(group, "nodes"), crti_view_text(row, "node_id"));
}

/* How many processes and nodes each group is of, instead of which. */
static void count_places(json_t *groups)
{
    static const char *const keys[][2] = {{"workers", "total_num_workers"},
                                          {"nodes", "total_num_nodes"}};
    json_t *group;
    const char *name;

    json_object_foreach(groups, name, group) for (size_t i = 0; i < 2; i++)
    {
        size_t size = json_object_size(json_object_get(group, keys[i][0]));

        json_object_set_new(group, keys[i][1], json_integer((json_int_t)size));
        json_object_del(group, keys[i][0]);
    }
}

/* By the line of the program that made them. */
static json_t *summarize_objects(const crti_listing_t *resource, const json_t *entries,
                                 const json_t *filters)
{
    json_t *groups = json_object(), *entry;
    json_int_t total = 0;
    double size_mb = 0;
    size_t i;

    json_array_foreach((json_t *)entries, i, entry)
    {
        const char *place;
        json_t *row;

        if (!crti_listing_is_wanted(resource, entry, filters))
            continue;
        row = resource->row(entry, CRTI_VIEW_ALL);
        place = crti_view_text(row, "call_site");
        add_object(group_of(groups, *place ? place : "unknown", fresh_objects), row);
        size_mb += json_number_value(json_object_get(row, "object_size")) / MIB;
        total++;
        json_decref(row);
    }
    count_places(groups);
    return json_pack("{s:o, s:I, s:f, s:b, s:s}", "summary", groups, "total_objects",
                     total, "total_size_mb", size_mb, "callsite_enabled", 1, "summary_by",
                     "callsite");
}

json_t *crti_view_summary(const crti_listing_t *resource, const json_t *answer,
                          const json_t *filters)
{
    static const struct {
        const char *name;
        json_t *(*summarize)(const crti_listing_t *, const json_t *, const json_t *);
    } kinds[] = {{"tasks", summarize_tasks},
                 {"actors", summarize_actors},
                 {"objects", summarize_objects}};
    const json_t *entries = crti_listing_entries(resource, answer);
    json_int_t total = (json_int_t)json_array_size(entries);

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, resource->name) == 0)
            return json_pack("{s:b, s:s, s:{s:{s:I, s:I, s:I, s:{s:{s:o}}, s:s, s:n}}}",
                             "result", 1, "msg", "", "data", "result", "total", total,
                             "num_after_truncation", total, "num_filtered", total,
                             "result", "node_id_to_summary", "cluster",
                             kinds[i].summarize(resource, entries, filters),
                             "partial_failure_warning", "", "warnings");
    crt_raise(CRT_ERR_NOT_FOUND, "there is no summary of %s", resource->name);
    return NULL;
}
