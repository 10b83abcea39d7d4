/* SPDX-License-Identifier: Apache-2.0 */
/* The tables as JSON (docs/design/state.md). */
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "crt_config.h"
#include "runtime/control/control_demand.h"
#include "runtime/control/control_job.h"
#include "runtime/control/control_state.h"
#include "runtime/control/placement/bundle_placement.h"
#include "runtime/control/rows/autoscaler_rows.h"
#include "runtime/control/rows/row_query.h"
#include "runtime/control/rows/state_rows.h"

#define DEMAND_MAX 1000 /* lines of what waits; those of more are counted together */

static json_t *id_json(crti_id_t id)
{
    char hex[CRTI_ID_HEX];

    return json_string(crti_id_is_zero(id) ? "" : crti_id_hex(id, hex));
}

/* Text from users may be no UTF-8: what is not becomes '?'. */
static json_t *text_json(const char *text)
{
    json_t *json = json_string(text ? text : "");
    char copy[4096];

    if (json)
        return json;
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *at = copy; *at; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    return json_string(copy);
}

/* Of one all of it, in a list the beginning. */
static json_t *long_json(const char *text, bool is_list)
{
    char cut[CRTI_LIST_TEXT];

    return text_json(is_list ? crti_list_text(text, cut) : text);
}

static json_t *time_json(int64_t ms)
{
    return ms ? json_integer(ms) : json_null();
}

static json_t *amount_json(int64_t amount)
{
    if (amount % CRTI_RESOURCE_ONE == 0)
        return json_integer(amount / CRTI_RESOURCE_ONE);
    return json_real((double)amount / CRTI_RESOURCE_ONE);
}

static json_t *resources_json(const crti_resources_t *r)
{
    json_t *json = json_object();

    for (unsigned i = 0; i < r->count; i++)
        json_object_set_new(json, r->item[i].name, amount_json(r->item[i].amount));
    return json;
}

static bool is_meant(const char *filter, crti_id_t id)
{
    char hex[CRTI_ID_HEX];

    return *filter == '\0' || strcmp(filter, crti_id_hex(id, hex)) == 0;
}

/* ---------------------------------------------------------------- nodes */

/* AWAY: the rows name it, and it has not come back since the head was started again. */
static const char *node_state(const crti_node_entry_t *node)
{
    return node->state == CRTI_NODE_DEAD       ? "DEAD"
           : node->state == CRTI_NODE_EXPECTED ? "AWAY"
                                               : "ALIVE";
}

/* When it was last heard of; what the head before heard is not known. */
static json_t *heard_json(const crti_control_t *c, const crti_node_entry_t *node)
{
    int64_t ago_ms = (int64_t)((c->now_ns - node->heard_ns) / CRTI_MS);

    return time_json(node->was_heard ? crti_control_wall(c) - ago_ms : 0);
}

/* The one of the head's host that jobs run on: others of that host are nodes like any. */
static const crti_node_entry_t *head_node(const crti_control_t *c)
{
    const crti_node_entry_t *node = crti_node_table_head_host(&c->nodes);

    for (const crti_list_t *at = c->nodes.living.next; !node && at != &c->nodes.living;
         at = at->next)
        if (CRTI_NODE_OF(at)->is_head_host)
            node = CRTI_NODE_OF(at); /* it is not back yet */
    return node;
}

static json_t *node_json(const crti_control_t *c, const crti_node_entry_t *node,
                         bool is_head, bool is_list)
{
    bool is_dead = node->state == CRTI_NODE_DEAD;
    json_t *json = json_object();

    json_object_set_new(json, "node_id", id_json(node->id));
    json_object_set_new(json, "state", json_string(node_state(node)));
    json_object_set_new(
        json, "drain_ms",
        node->drain_ns && !is_dead
            ? json_integer((json_int_t)(node->drain_ns > c->now_ns
                                            ? (node->drain_ns - c->now_ns) / CRTI_MS
                                            : 0))
            : json_null());
    json_object_set_new(json, "state_message",
                        long_json(node->state == CRTI_NODE_EXPECTED
                                      ? "not back yet since the head was started again"
                                      : node->text,
                                  is_list));
    json_object_set_new(json, "ip", text_json(node->ip));
    json_object_set_new(json, "hostname", text_json(node->hostname));
    json_object_set_new(json, "endpoint", text_json(node->endpoint));
    json_object_set_new(json, "labels", text_json(node->labels));
    json_object_set_new(json, "pid", json_integer(node->pid));
    json_object_set_new(json, "is_head_node", json_boolean(is_head));
    json_object_set_new(json, "start_time", time_json(node->start_ms));
    json_object_set_new(json, "end_time", time_json(is_dead ? node->end_ms : 0));
    json_object_set_new(json, "heard_time", heard_json(c, node));
    json_object_set_new(json, "resources_total", resources_json(&node->resources));
    json_object_set_new(json, "resources_available", resources_json(&node->available));
    json_object_set_new(json, "store_bytes", json_integer((json_int_t)node->store_bytes));
    json_object_set_new(json, "store_used", json_integer((json_int_t)node->store_used));
    json_object_set_new(json, "workers", json_integer((json_int_t)node->workers));
    json_object_set_new(json, "memory_bytes",
                        json_integer((json_int_t)node->memory_bytes));
    json_object_set_new(json, "memory_used", json_integer((json_int_t)node->memory_used));
    json_object_set_new(json, "memory_ended",
                        json_integer((json_int_t)node->memory_ended));
    json_object_set_new(json, "spilled_objects",
                        json_integer((json_int_t)node->spilled_objects));
    json_object_set_new(json, "spilled_bytes",
                        json_integer((json_int_t)node->spilled_bytes));
    json_object_set_new(json, "spill_trouble", text_json(node->spill_trouble));
    json_object_set_new(json, "lineage_bytes",
                        json_integer((json_int_t)node->lineage_bytes));
    json_object_set_new(json, "lineage_limit",
                        json_integer((json_int_t)node->lineage_limit));
    json_object_set_new(json, "lineage_forgotten",
                        json_integer((json_int_t)node->lineage_forgotten));
    return json;
}

static json_t *nodes_json(const crti_control_t *c, const char *filter)
{
    const crti_list_t *lists[] = {&c->nodes.living, &c->nodes.dead};
    const crti_node_entry_t *head = head_node(c);
    json_t *json = json_array();

    for (size_t i = 0; i < 2; i++)
        CRTI_LIST_FOREACH (item, lists[i]) {
            const crti_node_entry_t *node = CRTI_NODE_OF(item);

            if (is_meant(filter, node->id))
                json_array_append_new(json, node_json(c, node, node == head, !*filter));
        }
    return json;
}

/* ---------------------------------------------------------------- demand */

/* Why a task waits, and by whom what it needs is held for long. */
static const char *reason_of(const crti_control_t *c, const crti_resources_t *need,
                             const crti_scheduling_t *how, char *text, size_t size)
{
    size_t used;

    crti_placement_reason(&c->nodes.offers, need, how, &c->resource_names, text, size);
    used = strlen(text);
    if (used + 2 < size &&
        crti_control_drivers_hold(c, need, text + used + 2, size - used - 2)) {
        text[used] = ';';
        text[used + 1] = ' ';
    }
    return text;
}

/* One line for all that wait for the same thing under the same name. */
typedef struct demand {
    json_t *list;
    crti_map_t by_what; /* what names a line -> the line, borrowed from the list */
} demand_t;

static void name_demand(const crti_resources_t *need, const char *kind, const char *name,
                        crti_buffer_t *what)
{
    char amount[32];

    crti_buffer_append(what, kind, strlen(kind));
    crti_buffer_append(what, "\n", 1);
    crti_buffer_append(what, name, strlen(name));
    for (unsigned i = 0; i < need->count; i++) {
        snprintf(amount, sizeof(amount), "\n%lld ", (long long)need->item[i].amount);
        crti_buffer_append(what, amount, strlen(amount));
        crti_buffer_append(what, need->item[i].name, strlen(need->item[i].name));
    }
}

static json_t *new_demand(demand_t *demand, const char *what, json_t *resources_take,
                          const char *kind, const char *name, const char *reason)
{
    json_t *entry = json_object();

    json_object_set_new(entry, "resources", resources_take);
    json_object_set_new(entry, "count", json_integer(0));
    json_object_set_new(entry, "kind", json_string(kind));
    json_object_set_new(entry, "name", text_json(name));
    json_object_set_new(entry, "reason", long_json(reason, true));
    json_array_append_new(demand->list, entry);
    crti_map_put(&demand->by_what, what, entry);
    return entry;
}

static json_t *others_of(demand_t *demand)
{
    static const char others[] = "others";
    json_t *entry = crti_map_get(&demand->by_what, others);

    return entry ? entry : new_demand(demand, others, json_object(), others, "", "");
}

static void count_demand(json_t *entry, uint64_t more)
{
    json_t *count = json_object_get(entry, "count");

    json_integer_set(count, json_integer_value(count) + (json_int_t)more);
}

/* What is alike but for where it may run has one line. */
static void add_demand(const crti_control_t *c, demand_t *demand,
                       const crti_demand_entry_t *waits)
{
    const char *kind = crti_demand_kind_name(waits->kind), *reason = waits->reason;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t what = {0};
    char text[512];
    json_t *entry;

    name_demand(&waits->need, kind, waits->name, &what);
    if (crti_buffer_append(&what, "", 1) != CRT_OK)
        return;
    entry = crti_map_get(&demand->by_what, what.data);
    if (!entry && json_array_size(demand->list) >= DEMAND_MAX) {
        entry = others_of(demand);
    } else if (!entry) {
        if (!reason)
            reason = reason_of(c, &waits->need, &waits->how, text, sizeof(text));
        entry = new_demand(demand, (const char *)what.data, resources_json(&waits->need),
                           kind, waits->name, reason);
    }
    count_demand(entry, waits->count);
}

static json_t *demand_json(const crti_control_t *c)
{
    CRTI_AUTO(crti_demand_fini) crti_demand_t waiting;
    demand_t demand = {.list = json_array()};

    crti_demand_init(&waiting);
    crti_map_init(&demand.by_what, 0);
    crti_control_demand(c, &waiting);
    for (size_t i = 0; i < waiting.count; i++)
        if (waiting.entries[i].kind != CRTI_DEMAND_REQUEST) /* that waits for nothing */
            add_demand(c, &demand, &waiting.entries[i]);
    if (waiting.others)
        count_demand(others_of(&demand), waiting.others);
    crti_map_fini(&demand.by_what);
    return demand.list;
}

/* ---------------------------------------------------------------- the cluster */

static json_t *counts_json(const size_t *counts, unsigned states,
                           const char *(*name)(unsigned state))
{
    json_t *json = json_object();

    for (unsigned i = 0; i < states; i++)
        if (counts[i])
            json_object_set_new(json, name(i), json_integer((json_int_t)counts[i]));
    return json;
}

static const char *job_state_name(unsigned state)
{
    return crti_job_state_name((crti_job_entry_state_t)state);
}

/* ---------------------------------------------------------------- deadlocks */

static json_t *deadlock_json(const crti_control_t *c)
{
    const crti_deadlock_report_t *report = crti_deadlocks_now(&c->deadlocks);
    json_t *json, *jobs;

    if (report == NULL)
        return json_null();
    jobs = json_array();
    for (size_t i = 0; i < report->count && i < DEMAND_MAX; i++) {
        const crti_deadlock_member_t *member = &report->members[i];
        json_t *one = json_object();

        json_object_set_new(one, "job_id", id_json(member->job));
        json_object_set_new(one, "name", text_json(member->name));
        json_object_set_new(one, "holds", text_json(member->holds));
        json_object_set_new(one, "waits_for", text_json(member->wants));
        json_array_append_new(jobs, one);
    }
    json = json_object();
    json_object_set_new(json, "start_time", time_json(report->start_ms));
    json_object_set_new(json, "message", text_json(report->text));
    json_object_set_new(json, "jobs", jobs);
    return json;
}

/* ---------------------------------------------------------------- placement groups */

static json_t *bundles_json(const crti_placement_group_entry_t *group)
{
    json_t *list = json_array();

    for (size_t i = 0; i < group->bundle_count; i++) {
        const crti_bundle_entry_t *bundle = &group->bundles[i];
        json_t *json = json_object();

        json_object_set_new(json, "bundle_index", json_integer((json_int_t)i));
        json_object_set_new(json, "resources", resources_json(&bundle->resources));
        json_object_set_new(json, "label_selector", text_json(bundle->how.selector));
        json_object_set_new(json, "node_id",
                            bundle->state == CRTI_BUNDLE_RESERVED ? id_json(bundle->node)
                                                                  : json_null());
        json_array_append_new(list, json);
    }
    return list;
}

static json_t *placement_group_json(const crti_placement_group_entry_t *group,
                                    bool is_list)
{
    json_t *json = json_object();

    json_object_set_new(json, "placement_group_id", id_json(group->id));
    json_object_set_new(json, "name", text_json(group->name));
    json_object_set_new(json, "namespace", text_json(group->name_space));
    json_object_set_new(json, "state",
                        json_string(crti_placement_group_state_name(group->state)));
    json_object_set_new(json, "strategy",
                        json_string(crti_placement_strategy_name(group->strategy)));
    json_object_set_new(json, "creator_job_id", id_json(group->job));
    json_object_set_new(json, "is_detached", json_boolean(group->detached));
    json_object_set_new(json, "bundles", bundles_json(group));
    json_object_set_new(json, "reason", long_json(group->text, is_list));
    return json;
}

static json_t *placement_groups_json(const crti_control_t *c, const char *filter)
{
    const crti_list_t *lists[] = {&c->placement_groups.waiting,
                                  &c->placement_groups.created,
                                  &c->placement_groups.removed};
    json_t *json = json_array();

    for (size_t i = 0; i < 3; i++)
        CRTI_LIST_FOREACH (item, lists[i])
            if (is_meant(filter, CRTI_PLACEMENT_GROUP_OF(item)->id))
                json_array_append_new(
                    json, placement_group_json(CRTI_PLACEMENT_GROUP_OF(item), !*filter));
    return json;
}

/* ---------------------------------------------------------------- the cluster */

/* Those that ended as they were meant to are counted apart: DEAD are the ones to look at. */
static json_t *actor_counts_json(const crti_control_t *c)
{
    size_t counts[CRTI_ACTOR_STATES], ended = 0;
    json_t *json;

    memcpy(counts, c->actors.counts, sizeof(counts));
    CRTI_LIST_FOREACH (item, &c->actors.dead)
        ended += crti_actor_entry_has_ended_well(CRTI_ACTOR_OF(item));
    counts[CRTI_ACTOR_DEAD] -= ended;
    json = counts_json(counts, CRTI_ACTOR_STATES, crti_actor_state_name);
    if (ended)
        json_object_set_new(json, "ENDED", json_integer((json_int_t)ended));
    return json;
}

static json_t *cluster_json(const crti_control_t *c)
{
    json_t *json = json_object();

    json_object_set_new(json, "cluster", id_json(c->cluster));
    json_object_set_new(json, "address", text_json(c->address));
    json_object_set_new(json, "version", json_string(CRTI_VERSION));
    json_object_set_new(json, "time", json_integer(crti_control_wall(c)));
    json_object_set_new(json, "start_time", json_integer(c->start_ms));
    json_object_set_new(json, "nodes", nodes_json(c, ""));
    json_object_set_new(json, "demand", demand_json(c));
    json_object_set_new(json, "autoscaler", crti_autoscaler_rows(c));
    json_object_set_new(json, "resource_deadlock", deadlock_json(c));
    json_object_set_new(json, "actors", actor_counts_json(c));
    json_object_set_new(json, "placement_groups",
                        counts_json(c->placement_groups.counts,
                                    CRTI_PLACEMENT_GROUP_STATES,
                                    crti_placement_group_state_name));
    json_object_set_new(json, "jobs",
                        counts_json(c->jobs.counts, CRTI_JOB_STATES, job_state_name));
    return json;
}

char *crti_state_json(crti_control_t *c, crti_span_t what, crti_span_t filter)
{
    char filter_text[256], *text;
    json_t *json;

    if (crti_str_equal(what, "actors"))
        return crti_actor_rows(c, filter);
    if (crti_str_equal(what, "jobs"))
        return crti_job_rows(c, filter);
    if (crti_str_equal(what, "events"))
        return crti_state_events(c, filter);
    crti_text(filter, filter_text, sizeof(filter_text));
    if (crti_str_equal(what, "cluster"))
        json = cluster_json(c);
    else if (crti_str_equal(what, "nodes"))
        json = nodes_json(c, filter_text);
    else
        json = placement_groups_json(c, filter_text);
    text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(json);
    if (text == NULL)
        crt_raise(CRT_ERR_NO_MEMORY, "state as JSON");
    return text;
}

char *crti_state_join(crti_span_t answers, const char *key, const char *filter)
{
    json_t *all = json_array(), *one, *row;
    crti_span_t entry;
    char *text;
    size_t i;

    while (crti_list_unpack(&answers, &entry) == CRT_OK) {
        one = json_loadb(entry.data, entry.size, 0, NULL);
        json_array_foreach(one, i, row)
        {
            const char *id = json_string_value(json_object_get(row, key));

            if (*filter == '\0' || (id && strcmp(id, filter) == 0))
                json_array_append(all, row);
        }
        json_decref(one);
    }
    text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    return text;
}

char *crti_state_metrics(const crti_control_t *c, crti_span_t answers, unsigned silent)
{
    json_t *nodes = json_array(), *all = json_object(), *one;
    crti_span_t entry;
    char *text;

    while (crti_list_unpack(&answers, &entry) == CRT_OK) {
        one = json_loadb(entry.data, entry.size, 0, NULL);
        if (json_is_object(one))
            json_array_append(nodes, one);
        json_decref(one);
    }
    json_object_set_new(all, "cluster", cluster_json(c));
    json_object_set_new(all, "nodes", nodes);
    json_object_set_new(all, "silent_nodes", json_integer(silent));
    text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(all);
    return text;
}

/* ---------------------------------------------------------------- figures */

crti_control_figures_t crti_control_figures(const crti_control_t *c)
{
    crti_control_figures_t f = {.links = c->links.count,
                                .outbox = c->outbox_count,
                                .requests = c->request_map.count,
                                .dirty = c->dirty_count,
                                .actors_dead = c->actors.counts[CRTI_ACTOR_DEAD],
                                .rows_unreadable = c->rows_unreadable,
                                .messages_refused = c->messages_refused};

    CRTI_LIST_FOREACH (item, &c->nodes.living)
        f.nodes_alive += CRTI_NODE_OF(item)->state == CRTI_NODE_ALIVE;
    for (unsigned i = 0; i < CRTI_ACTOR_DEAD; i++)
        f.actors_living += c->actors.counts[i];
    for (unsigned i = 0; i < CRTI_PLACEMENT_GROUP_REMOVED; i++)
        f.placement_groups += c->placement_groups.counts[i];
    f.jobs_running = c->jobs.counts[CRTI_JOB_PENDING] + c->jobs.counts[CRTI_JOB_RUNNING];
    return f;
}
