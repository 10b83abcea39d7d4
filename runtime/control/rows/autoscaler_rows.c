/* SPDX-License-Identifier: Apache-2.0 */
/* The autoscaler as JSON: its node types, what was asked for and has come, and why.
 *
 * Where it sits
 *     state_json.c ("cluster") -> [ control/rows/autoscaler_rows.c ]
 */
#include "runtime/control/rows/autoscaler_rows.h"
#include "runtime/control/autoscale/autoscaler.h"
#include "runtime/control/control_resource_request.h"
#include "runtime/control/control_state.h"

#define INSTANCES_MAX 200 /* that are shown */
#define DECISIONS_MAX 20  /* the newest */

static json_t *utf8(const char *text)
{
    json_t *json = json_string(text);

    return json ? json : json_string("(not UTF-8)");
}

static int64_t wall_of(const crti_control_t *c, uint64_t ns)
{
    return (int64_t)(ns / CRTI_MS) + c->config.wall_offset_ms;
}

static json_t *type_json(const crti_control_t *c, size_t type)
{
    const crti_autoscaler_t *s = c->autoscaler;
    const crti_scale_type_state_t *state = &s->states[type];
    json_t *counts = json_object();
    bool is_closed = c->now_ns < state->retry_ns;

    for (unsigned i = 0; i < CRTI_INSTANCE_STATES; i++)
        json_object_set_new(counts, crti_instance_state_name((crti_instance_state_t)i),
                            json_integer((json_int_t)s->counts[type][i]));
    return json_pack("{s:o, s:I, s:I, s:o, s:I, s:o, s:o}", "name",
                     utf8(s->types[type].name), "min", (json_int_t)s->types[type].min,
                     "max", (json_int_t)s->types[type].max, "instances", counts,
                     "failures", (json_int_t)state->failures, "retry_time",
                     is_closed ? json_integer(wall_of(c, state->retry_ns)) : json_null(),
                     "message", utf8(is_closed || state->failures ? state->text : ""));
}

static json_t *instance_json(const crti_control_t *c, const crti_instance_t *instance)
{
    char hex[CRTI_ID_HEX] = "";

    if (!crti_id_is_zero(instance->node))
        crti_id_hex(instance->node, hex);
    return json_pack("{s:o, s:o, s:s, s:s, s:I, s:o}", "name", utf8(instance->name),
                     "node_type", utf8(c->autoscaler->types[instance->type].name),
                     "state", crti_instance_state_name(instance->state), "node_id", hex,
                     "since", (json_int_t)wall_of(c, instance->since_ns), "message",
                     utf8(instance->text));
}

/* The newest first. */
static json_t *decisions_json(const crti_autoscaler_t *s)
{
    json_t *list = json_array();

    for (uint64_t i = 0; i < DECISIONS_MAX && i < s->event_count; i++) {
        const crti_scale_event_t *event =
            &s->events[(s->event_count - 1 - i) % CRTI_SCALE_EVENTS];

        json_array_append_new(list,
                              json_pack("{s:I, s:o}", "time", (json_int_t)event->wall_ms,
                                        "message", utf8(event->text)));
    }
    return list;
}

/* What users ask the cluster to have. */
static json_t *requests_json(const crti_control_t *c)
{
    CRTI_AUTO(crti_demand_fini) crti_demand_t demand;
    json_t *list = json_array();
    char text[300];

    crti_demand_init(&demand);
    crti_control_resource_requests_add(c, &demand);
    for (size_t i = 0; i < demand.count; i++) {
        const crti_demand_entry_t *entry = &demand.entries[i];

        crti_resources_format(&entry->need, text, sizeof(text));
        json_array_append_new(list,
                              json_pack("{s:I, s:s, s:o}", "count",
                                        (json_int_t)entry->count, "resources", text,
                                        "label_selector", utf8(entry->how.selector)));
    }
    return list;
}

json_t *crti_autoscaler_rows(const crti_control_t *c)
{
    const crti_autoscaler_t *s = c->autoscaler;
    json_t *types, *instances;

    if (!s)
        return json_null();
    types = json_array();
    instances = json_array();
    for (size_t i = 0; i < s->config.type_count; i++)
        json_array_append_new(types, type_json(c, i));
    CRTI_LIST_FOREACH (item, &s->instances)
        if (json_array_size(instances) < INSTANCES_MAX)
            json_array_append_new(instances, instance_json(c, CRTI_INSTANCE_OF(item)));
    return json_pack("{s:f, s:o, s:o, s:o, s:o, s:o, s:o}", "idle_timeout",
                     (double)s->config.idle_ns / (double)CRTI_S, "node_types", types,
                     "instances", instances, "decisions", decisions_json(s), "waits",
                     utf8(s->waits), "requested", requests_json(c), "provider_message",
                     utf8(s->list_text));
}
