/* SPDX-License-Identifier: Apache-2.0 */
/* The autoscaler and the tables.
 *
 * Where it sits
 *     control.c (messages, time) -> [ control_autoscale.c ] -> autoscale/autoscaler.h (decides)
 *         -> actions.scale (nodes of a provider), control_drain.c
 * Rules
 *     A look at most every LOOK_NS, however much happens.
 */
#include "runtime/control/control_autoscale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/control/autoscale/provider.h"
#include "runtime/control/control_demand.h"
#include "runtime/control/control_drain.h"
#include "runtime/control/control_machine_names.h"

#define LOOK_NS (50 * CRTI_MS)

/* ---------------------------------------------------------------- orders */

static void order(crti_control_t *c, crti_provider_order_t what)
{
    what.cluster = c->autoscaler->cluster;
    c->config.actions.scale(c->config.actions.user, &what);
}

static void on_ask(void *user, const char *instance, const crti_node_type_t *type)
{
    order(user, (crti_provider_order_t){
                    .verb = CRTI_PROVIDER_ASK, .instance = instance, .type = type->name});
}

static void on_end(void *user, const char *instance, const crti_node_type_t *type,
                   crti_id_t node)
{
    order(user,
          (crti_provider_order_t){.verb = CRTI_PROVIDER_END,
                                  .instance = instance,
                                  .type = type->name,
                                  .node = node,
                                  .machine = crti_control_machine_of(user, instance)});
}

static void on_list(void *user)
{
    order(user, (crti_provider_order_t){.verb = CRTI_PROVIDER_LIST});
}

static void on_drain(void *user, crti_id_t id)
{
    crti_control_t *c = user;
    crti_node_entry_t *node = crti_node_table_get(&c->nodes, id);

    if (node)
        crti_control_drain_node(c, node, CRTI_SCALE_DRAIN_MS);
}

/* ---------------------------------------------------------------- what it sees */

/* Whether something of the user's is there, or waits to be. */
static bool is_busy(const crti_node_entry_t *node)
{
    return node->is_busy || node->demand.size || !crti_list_is_empty(&node->actors) ||
           !crti_resources_fit(&node->available, &node->resources);
}

static crti_scale_node_t see(crti_control_t *c, const crti_node_entry_t *node)
{
    return (crti_scale_node_t){.node = node->id,
                               .labels = crti_control_machine_labels(c, node),
                               .total = &node->resources,
                               .available = &node->available,
                               .is_away = node->state != CRTI_NODE_ALIVE,
                               .is_drained = node->drain_ns != 0,
                               .is_busy = is_busy(node),
                               .store_used = node->store_used,
                               .store_bytes = node->store_bytes};
}

static void look(crti_control_t *c)
{
    CRTI_AUTO(crti_demand_fini) crti_demand_t demand;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t nodes = {0};
    crti_scale_input_t input = {
        .now_ns = c->now_ns, .demand = &demand, .is_joining = c->joining};
    crt_status_t status = CRT_OK;

    crti_demand_init(&demand);
    crti_control_demand(c, &demand);
    CRTI_LIST_FOREACH (item, &c->nodes.living) {
        crti_scale_node_t node = see(c, CRTI_NODE_OF(item));

        if (status == CRT_OK)
            status = crti_buffer_append(&nodes, &node, sizeof(node));
    }
    if (status != CRT_OK)
        return; /* a node that is not seen would count as dead */
    input.nodes = (const crti_scale_node_t *)(const void *)nodes.data;
    input.node_count = nodes.size / sizeof(crti_scale_node_t);
    crti_autoscaler_look(c->autoscaler, &input);
}

/* ---------------------------------------------------------------- decisions are told */

static void log_events(crti_control_t *c)
{
    const crti_autoscaler_t *s = c->autoscaler;

    for (; c->scale_logged < s->event_count; c->scale_logged++) {
        const crti_scale_event_t *event = &s->events[c->scale_logged % CRTI_SCALE_EVENTS];

        crti_log(event->severity == CRTI_SCALE_WARNING ? CRTI_LOG_WARN : CRTI_LOG_INFO,
                 "autoscaler", "%s", event->text);
    }
}

void crti_control_autoscale_touch(crti_control_t *c)
{
    uint64_t at = c->scale_looked_ns + LOOK_NS;

    if (c->autoscaler && at < c->scale_due_ns)
        c->scale_due_ns = at;
}

void crti_control_autoscale_tick(crti_control_t *c)
{
    if (!c->autoscaler || c->now_ns < c->scale_due_ns)
        return;
    c->scale_looked_ns = c->now_ns;
    look(c);
    c->scale_due_ns = crti_autoscaler_deadline(c->autoscaler);
    log_events(c);
}

/* The names alone, of which some have a machine behind them. What is a node already is taken by the
 * next look, by its labels. */
static void take_list(crti_control_t *c, const crti_provider_answer_t *answer,
                      uint64_t now_ns)
{
    char **names = calloc(answer->count + 1, sizeof(*names));
    bool is_done = answer->is_done && names;
    size_t count = 0;

    for (size_t i = 0; is_done && i < answer->count; i++) {
        if (crti_control_machine_is_found(c, answer->names[i]))
            continue;
        names[count] = strndup(answer->names[i], strcspn(answer->names[i], "="));
        count += names[count] != NULL;
    }
    crti_control_machines_learn(c, answer);
    crti_autoscaler_listed(c->autoscaler, is_done,
                           answer->is_done && !is_done ? "out of memory" : answer->text,
                           (const char *const *)names, count, now_ns);
    while (count)
        free(names[--count]);
    free(names);
}

void crti_control_scaled(crti_control_t *c, const crti_provider_answer_t *answer,
                         uint64_t now_ns)
{
    crti_autoscaler_t *s = c->autoscaler;

    if (!s)
        return;
    switch (answer->verb) {
    case CRTI_PROVIDER_ASK:
        crti_control_machines_learn(c, answer);
        crti_autoscaler_asked(s, answer->instance, answer->is_done, answer->text, now_ns);
        break;
    case CRTI_PROVIDER_END:
        crti_control_machines_learn(c, answer);
        crti_autoscaler_ended(s, answer->instance, answer->is_done, answer->text, now_ns);
        if (answer->is_done)
            crti_control_machine_forget(c, answer->instance);
        break;
    default: take_list(c, answer, now_ns); break;
    }
    log_events(c);
    crti_control_autoscale_touch(c);
}

/* ---------------------------------------------------------------- life */

void crti_control_autoscale_begin(crti_control_t *c)
{
    static const crti_scale_orders_t orders = {
        .ask = on_ask, .end = on_end, .drain = on_drain, .list = on_list};
    crti_scale_orders_t mine = orders;
    crti_scale_config_t config;
    char cluster[CRTI_ID_HEX];

    if (!c->config.autoscale)
        return;
    config = *c->config.autoscale;
    crti_id_hex(c->cluster, cluster);
    cluster[8] = '\0'; /* enough to tell apart clusters that share an account */
    config.cluster = cluster;
    config.wall_offset_ms = c->config.wall_offset_ms;
    config.seed = c->random;
    mine.user = c;
    if (crti_autoscaler_new(&config, &mine, &c->autoscaler) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "control", "no autoscaler: %s", crt_error_detail());
        return;
    }
    c->scale_due_ns = c->now_ns;
}

void crti_control_autoscale_end(crti_control_t *c)
{
    crti_autoscaler_free(c->autoscaler);
    c->autoscaler = NULL;
}
