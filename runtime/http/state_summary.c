/* SPDX-License-Identifier: Apache-2.0 */
/* Summaries of the state API. See state_views.h. */
#include "runtime/http/state_views.h"

#include <string.h>

#include "runtime/http/view_parts.h"

#define MIB (1024.0 * 1024.0)

/* counts[key] += number */
static void add(json_t *counts, const char *key, json_int_t number)
{
    json_int_t so_far = json_integer_value(json_object_get(counts, key));

    json_object_set_new(counts, key, json_integer(so_far + number));
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

/* The head has counted: one entry of `groups` for each name, type and state. */
static json_t *summarize_tasks(const json_t *groups)
{
    json_t *functions = json_object(), *totals = json_object(), *entry, *summary;
    size_t i;

    json_array_foreach((json_t *)groups, i, entry)
    {
        const char *type = crti_view_text(entry, "type");
        json_int_t number = json_integer_value(json_object_get(entry, "count"));
        json_t *function =
            group_of(functions, crti_view_text(entry, "name"), fresh_function);

        json_object_set_new(function, "type", json_string(type));
        add(json_object_get(function, "state_counts"), crti_view_text(entry, "state"),
            number);
        add(totals, type, number);
    }
    summary = json_pack(
        "{s:o, s:I, s:I, s:I, s:s}", "summary", functions, "total_tasks",
        json_integer_value(json_object_get(totals, "NORMAL_TASK")), "total_actor_tasks",
        json_integer_value(json_object_get(totals, "ACTOR_TASK")),
        "total_actor_scheduled",
        json_integer_value(json_object_get(totals, "ACTOR_CREATION_TASK")), "summary_by",
        "func_name");
    json_decref(totals);
    return summary;
}

static json_t *summarize_actors(const json_t *groups)
{
    json_t *classes = json_object(), *entry;
    json_int_t total = 0;
    size_t i;

    json_array_foreach((json_t *)groups, i, entry)
    {
        json_int_t number = json_integer_value(json_object_get(entry, "count"));
        json_t *class =
            group_of(classes, crti_view_text(entry, "class_name"), fresh_class);

        add(json_object_get(class, "state_counts"), crti_view_actor_state(entry), number);
        total += number;
    }
    return json_pack("{s:o, s:I, s:s}", "summary", classes, "total_actors", total,
                     "summary_by", "class");
}

static void add_to(json_t *total, const char *key, double more)
{
    double so_far = json_number_value(json_object_get(total, key));

    json_object_set_new(total, key, json_real(so_far + more));
}

/* Objects that are the same in all that is counted. */
static void add_objects(json_t *group, const json_t *entry)
{
    json_int_t number = json_integer_value(json_object_get(entry, "count"));
    bool is_sealed = json_is_true(json_object_get(entry, "is_sealed"));

    add(group, "total_objects", number);
    add_to(group, "total_size_mb",
           json_number_value(json_object_get(entry, "sum")) / MIB);
    add(json_object_get(group, "task_state_counts"), is_sealed ? "FINISHED" : "RUNNING",
        number);
    add(json_object_get(group, "task_attempt_number_counts"), "1", number);
    add(json_object_get(group, "ref_type_counts"),
        crti_view_text(entry, "reference_type"), number);
    add(json_object_get(group, "workers"), crti_view_text(entry, "owner_id"), number);
    add(json_object_get(group, "nodes"), crti_view_text(entry, "node_id"), number);
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
static json_t *summarize_objects(const json_t *groups)
{
    json_t *places = json_object(), *entry;
    json_int_t total = 0;
    double size_mb = 0;
    size_t i;

    json_array_foreach((json_t *)groups, i, entry)
    {
        const char *place = crti_view_text(entry, "call_site");

        add_objects(group_of(places, *place ? place : "unknown", fresh_objects), entry);
        size_mb += json_number_value(json_object_get(entry, "sum")) / MIB;
        total += json_integer_value(json_object_get(entry, "count"));
    }
    count_places(places);
    return json_pack("{s:o, s:I, s:f, s:b, s:s}", "summary", places, "total_objects",
                     total, "total_size_mb", size_mb, "callsite_enabled", 1, "summary_by",
                     "callsite");
}

const crti_counting_t *crti_summary_counting(const crti_listing_t *resource)
{
    static const crti_counting_t of_tasks = {.columns = {"name", "type", "state"}},
                                 of_actors = {.columns = {"class_name", "state"}},
                                 of_objects = {.columns = {"call_site", "is_sealed",
                                                           "reference_type", "owner_id",
                                                           "node_id"},
                                               .sum = "size"};

    return strcmp(resource->name, "tasks") == 0     ? &of_tasks
           : strcmp(resource->name, "actors") == 0  ? &of_actors
           : strcmp(resource->name, "objects") == 0 ? &of_objects
                                                    : NULL;
}

json_t *crti_view_summary(const crti_listing_t *resource, const json_t *answer)
{
    const json_t *groups = json_object_get(answer, "groups");
    json_int_t total = json_integer_value(json_object_get(answer, "all"));
    json_t *summary = strcmp(resource->name, "tasks") == 0    ? summarize_tasks(groups)
                      : strcmp(resource->name, "actors") == 0 ? summarize_actors(groups)
                                                              : summarize_objects(groups);

    return json_pack("{s:b, s:s, s:{s:{s:I, s:I, s:I, s:{s:{s:o}}, s:s, s:n}}}", "result",
                     1, "msg", "", "data", "result", "total", total,
                     "num_after_truncation", total, "num_filtered", total, "result",
                     "node_id_to_summary", "cluster", summary, "partial_failure_warning",
                     "", "warnings");
}
