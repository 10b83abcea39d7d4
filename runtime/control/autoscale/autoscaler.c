/* SPDX-License-Identifier: Apache-2.0 */
/* When nodes come and go. See autoscaler.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/buffer.h"
#include "runtime/base/cleanup.h"
#include "runtime/control/autoscale/autoscaler_int.h"

#define WAITING                                                                          \
    (1u << CRTI_DEMAND_TASK | 1u << CRTI_DEMAND_ACTOR | 1u << CRTI_DEMAND_BUNDLE |       \
     1u << CRTI_DEMAND_JOB)
#define ASKED_FOR (1u << CRTI_DEMAND_REQUEST)

/* What a look finds out. */
typedef struct plan {
    crti_pack_t free; /* room for what waits, in what is free */
    crti_pack_t all;  /* room for what users ask the cluster to have, in use or not */
    crti_pack_outcome_t *outcomes; /* of each entry of the demand */
} plan_t;

/* ---------------------------------------------------------------- counts */

size_t crti_autoscaler_count_in(const crti_autoscaler_t *s, size_t type,
                                crti_instance_state_t state)
{
    return s->counts[type][state];
}

size_t crti_autoscaler_count(const crti_autoscaler_t *s, size_t type)
{
    size_t count = 0;

    for (unsigned i = 0; i < CRTI_INSTANCE_STATES; i++)
        count += s->counts[type][i];
    return count;
}

/* That stay, as far as is known. */
static size_t count_staying(const crti_autoscaler_t *s, size_t type)
{
    const size_t *counts = s->counts[type];

    return counts[CRTI_INSTANCE_ASKED] + counts[CRTI_INSTANCE_STARTING] +
           counts[CRTI_INSTANCE_RUNNING];
}

static size_t count_all(const crti_autoscaler_t *s, crti_instance_state_t state)
{
    size_t count = 0;

    for (size_t i = 0; i < s->config.type_count; i++)
        count += s->counts[i][state];
    return count;
}

/* How many may be on their way, or be ended, at a time. */
static size_t speed_limit(const crti_autoscaler_t *s, double part)
{
    double most = part * (double)count_all(s, CRTI_INSTANCE_RUNNING);

    return most > CRTI_SCALE_FEW ? (size_t)most : CRTI_SCALE_FEW;
}

/* ---------------------------------------------------------------- the plan */

/* Those that something runs on come first, so that others may become idle. */
static void add_nodes(crti_pack_t *pack, const crti_scale_input_t *input, bool is_total)
{
    for (int busy = 1; busy >= 0; busy--)
        for (size_t i = 0; i < input->node_count; i++) {
            const crti_scale_node_t *node = &input->nodes[i];

            if (node->is_busy == (busy == 1) && !node->is_drained &&
                (is_total || !node->is_away))
                crti_pack_add(pack, node->node, node->labels, -1,
                              is_total ? node->total : node->available);
        }
}

static void add_coming(const crti_autoscaler_t *s, crti_pack_t *pack)
{
    CRTI_LIST_FOREACH (item, &s->instances) {
        const crti_instance_t *instance = CRTI_INSTANCE_OF(item);
        const crti_node_type_t *type = &s->types[instance->type];

        if (crti_scale_is_coming(instance))
            crti_pack_add(pack, (crti_id_t){0, 0}, type->labels, (int)instance->type,
                          &type->resources);
    }
}

static void add_new(crti_pack_t *pack, const crti_pack_t *from)
{
    memcpy(pack->more, from->more, sizeof(pack->more));
    for (size_t i = 0; i < from->bin_count; i++) {
        const crti_pack_bin_t *bin = &from->bins[i];

        if (bin->is_new)
            crti_pack_add(pack, (crti_id_t){0, 0}, bin->labels, bin->type,
                          &pack->types[bin->type].resources);
    }
}

static void begin_pack(const crti_autoscaler_t *s, crti_pack_t *pack,
                       const crti_scale_input_t *input, bool is_total)
{
    crti_pack_init(pack, s->types, s->config.type_count);
    for (size_t i = 0; i < s->config.type_count; i++) {
        size_t count = crti_autoscaler_count(s, i), max = s->types[i].max;

        pack->more[i] = count < max ? max - count : 0;
        pack->is_closed[i] = s->now_ns < s->states[i].retry_ns;
    }
    add_nodes(pack, input, is_total);
    add_coming(s, pack);
}

static void open_least(const crti_autoscaler_t *s, crti_pack_t *pack)
{
    for (size_t i = 0; i < s->config.type_count; i++)
        for (size_t have = count_staying(s, i);
             have < s->types[i].min && pack->more[i] && !pack->is_closed[i]; have++)
            crti_pack_open(pack, i, 0);
}

static void make_plan(const crti_autoscaler_t *s, const crti_scale_input_t *input,
                      plan_t *plan)
{
    const crti_demand_t *demand = input->demand;

    plan->outcomes = calloc(demand->count + 1, sizeof(*plan->outcomes));
    begin_pack(s, &plan->free, input, false);
    begin_pack(s, &plan->all, input, true);
    if (!plan->outcomes)
        return;
    open_least(s, &plan->free);
    crti_pack_demand(&plan->free, demand, WAITING, plan->outcomes);
    add_new(&plan->all, &plan->free);
    crti_pack_demand(&plan->all, demand, ASKED_FOR, plan->outcomes);
}

static void end_plan(plan_t *plan)
{
    crti_pack_fini(&plan->free);
    crti_pack_fini(&plan->all);
    free(plan->outcomes);
}

/* ---------------------------------------------------------------- up */

/* "3 x task train {1 CPU}". */
static void say_entry(const crti_demand_entry_t *entry, char *text, size_t size)
{
    char need[160];

    crti_resources_format(&entry->need, need, sizeof(need));
    snprintf(text, size, "%llu x %s%s%.60s {%s}", (unsigned long long)entry->count,
             crti_demand_kind_name(entry->kind), *entry->name ? " " : "", entry->name,
             need);
}

/* Why these nodes are asked for: by what the first one of them is wanted. */
static void say_reason(const crti_autoscaler_t *s, const crti_demand_t *demand,
                       size_t type, size_t wanted_by, char *text, size_t size)
{
    char entry[300];

    if (wanted_by == 0) {
        snprintf(text, size, "its min is %zu", s->types[type].min);
        return;
    }
    say_entry(&demand->entries[wanted_by - 1], entry, sizeof(entry));
    snprintf(text, size, "no room for %s", entry);
}

/* The new nodes of a plan, in its order, up to the limit. */
static void ask_for(crti_autoscaler_t *s, const crti_pack_t *pack,
                    const crti_demand_t *demand, size_t *room)
{
    for (size_t type = 0; type < s->config.type_count; type++) {
        size_t asked = 0, planned = 0, wanted_by = 0;
        char why[CRTI_SCALE_TEXT - 100];

        for (size_t i = 0; i < pack->bin_count; i++) {
            const crti_pack_bin_t *bin = &pack->bins[i];

            if (!bin->is_new || bin->type != (int)type)
                continue;
            if (planned++ == 0)
                wanted_by = bin->wanted_by;
            if (*room && crti_scale_ask(s, type)) {
                --*room;
                asked++;
            }
        }
        if (asked == 0)
            continue;
        say_reason(s, demand, type, wanted_by, why, sizeof(why));
        crti_scale_tell(s, CRTI_SCALE_INFO, "asks for %zu node%s of type %s%s: %s", asked,
                        asked > 1 ? "s" : "", s->types[type].name,
                        planned > asked ? " now, more later" : "", why);
    }
}

static bool has_new(const crti_pack_t *pack)
{
    for (size_t i = 0; i < pack->bin_count; i++)
        if (pack->bins[i].is_new)
            return true;
    return false;
}

/* What is not there for long may be about to run on what has just become free. */
static void grow(crti_autoscaler_t *s, const crti_scale_input_t *input,
                 const plan_t *plan)
{
    size_t coming =
        count_all(s, CRTI_INSTANCE_ASKED) + count_all(s, CRTI_INSTANCE_STARTING);
    size_t limit = speed_limit(s, s->config.up);
    size_t room = coming < limit ? limit - coming : 0;

    if (input->is_joining || !s->has_listed ||
        (!has_new(&plan->free) && !has_new(&plan->all))) {
        s->need_ns = 0;
        return;
    }
    if (s->need_ns == 0)
        s->need_ns = s->now_ns;
    if (s->now_ns - s->need_ns < CRTI_SCALE_SETTLE)
        return;
    ask_for(s, &plan->free, input->demand, &room);
    ask_for(s, &plan->all, input->demand, &room);
}

/* ---------------------------------------------------------------- down */

static bool is_used(const crti_pack_t *pack, crti_id_t node)
{
    for (size_t i = 0; i < pack->bin_count; i++)
        if (pack->bins[i].is_used && crti_id_equal(pack->bins[i].node, node))
            return true;
    return false;
}

/* Bytes that other nodes have room for. */
static uint64_t room_elsewhere(const crti_scale_input_t *input, crti_id_t id)
{
    uint64_t room = 0;

    for (size_t i = 0; i < input->node_count; i++) {
        const crti_scale_node_t *node = &input->nodes[i];

        if (!crti_id_equal(node->node, id) && !node->is_away && !node->is_drained &&
            node->store_bytes > node->store_used)
            room += node->store_bytes - node->store_used;
    }
    return room;
}

/* Why an idle node stays; NULL: it goes. */
static const char *why_kept(const crti_autoscaler_t *s, const crti_scale_input_t *input,
                            const plan_t *plan, const crti_instance_t *instance,
                            const crti_scale_node_t *node)
{
    if (count_staying(s, instance->type) <= s->types[instance->type].min)
        return "it is one of the min of its type";
    if (is_used(&plan->free, node->node))
        return "something that waits has room there";
    if (is_used(&plan->all, node->node))
        return "its room was asked for";
    if (node->store_used > room_elsewhere(input, node->node))
        return "its objects have no room on other nodes";
    return NULL;
}

static void shrink(crti_autoscaler_t *s, const crti_scale_input_t *input,
                   const plan_t *plan)
{
    size_t limit = speed_limit(s, s->config.down);
    size_t going = count_all(s, CRTI_INSTANCE_DRAINING);
    char why[100];

    if (!plan->outcomes || plan->free.is_short || plan->all.is_short)
        return; /* out of memory: it is not known which ones are needed */

    snprintf(why, sizeof(why), "idle for %.10g s",
             (double)s->config.idle_ns / (double)CRTI_S);
    CRTI_LIST_FOREACH (item, &s->instances) {
        crti_instance_t *instance = CRTI_INSTANCE_OF(item);
        const crti_scale_node_t *node;
        const char *kept;

        if (instance->state != CRTI_INSTANCE_RUNNING || instance->idle_ns == 0 ||
            s->now_ns - instance->idle_ns < s->config.idle_ns)
            continue;
        node = &input->nodes[instance->node_at];
        kept = going >= limit ? "others are being ended"
                              : why_kept(s, input, plan, instance, node);
        snprintf(instance->text, sizeof(instance->text), "%s", kept ? kept : "");
        if (kept)
            continue;
        crti_scale_drain(s, instance, why);
        going++;
    }
}

/* ---------------------------------------------------------------- what has no hope */

static void say_hopeless(const crti_autoscaler_t *s, const crti_demand_entry_t *entry,
                         crti_pack_outcome_t outcome, char *text, size_t size)
{
    const crti_node_type_t *type = NULL;
    size_t at = 0;
    char what[CRTI_SCALE_TEXT / 2];

    for (at = 0; at < s->config.type_count; at++)
        if (crti_pack_type_fits(&s->types[at], entry) && s->types[at].max &&
            (outcome != CRTI_PACK_LATER || s->now_ns < s->states[at].retry_ns)) {
            type = &s->types[at];
            break;
        }
    say_entry(entry, what, sizeof(what));
    if (outcome == CRTI_PACK_LATER && type)
        snprintf(text, size, "%s: type %s is asked for again in %.0f s: %.100s", what,
                 type->name,
                 (double)(s->states[at].retry_ns - s->now_ns) / (double)CRTI_S,
                 s->states[at].text);
    else if (outcome == CRTI_PACK_AT_MAX && type)
        snprintf(text, size,
                 "%s: there are as many nodes of type %s as there may be (%zu)", what,
                 type->name, type->max);
    else
        snprintf(text, size, "%s: no node type has that%s", what,
                 entry->kind == CRTI_DEMAND_BUNDLE ? " for its placement group" : "");
}

/* Told once when no type will ever do. */
static void note_hopeless(crti_autoscaler_t *s, const crti_scale_input_t *input,
                          const plan_t *plan)
{
    bool was_told = *s->never != '\0';
    char text[CRTI_SCALE_TEXT];

    s->waits[0] = s->never[0] = '\0';
    for (size_t i = 0; plan->outcomes && i < input->demand->count; i++) {
        crti_pack_outcome_t outcome = plan->outcomes[i];

        if (outcome == CRTI_PACK_ROOM || outcome == CRTI_PACK_TIED)
            continue;
        say_hopeless(s, &input->demand->entries[i], outcome, text, sizeof(text));
        if (outcome == CRTI_PACK_NEVER && !*s->never)
            snprintf(s->never, sizeof(s->never), "%s", text);
        if (!*s->waits)
            snprintf(s->waits, sizeof(s->waits), "%s", text);
    }
    if (*s->never && !was_told)
        crti_scale_tell(s, CRTI_SCALE_WARNING, "%s", s->never);
}

/* ---------------------------------------------------------------- a look */

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What changes only because time passes. */
static uint64_t next_look(const crti_autoscaler_t *s)
{
    uint64_t next = s->now_ns + CRTI_S;

    if (s->need_ns && s->now_ns - s->need_ns < CRTI_SCALE_SETTLE)
        next = sooner(next, s->need_ns + CRTI_SCALE_SETTLE);
    CRTI_LIST_FOREACH (item, &s->instances) {
        const crti_instance_t *instance = CRTI_INSTANCE_OF(item);

        if (instance->state == CRTI_INSTANCE_RUNNING && instance->idle_ns &&
            instance->idle_ns + s->config.idle_ns > s->now_ns)
            next = sooner(next, instance->idle_ns + s->config.idle_ns);
    }
    return next;
}

void crti_autoscaler_look(crti_autoscaler_t *s, const crti_scale_input_t *input)
{
    plan_t plan = {.outcomes = NULL};

    s->now_ns = input->now_ns;
    crti_scale_follow(s, input);
    make_plan(s, input, &plan);
    grow(s, input, &plan);
    shrink(s, input, &plan);
    note_hopeless(s, input, &plan);
    end_plan(&plan);
    if (!s->is_listing && s->now_ns >= s->list_ns) {
        s->is_listing = true;
        s->orders.list(s->orders.user);
    }
    s->due_ns = next_look(s);
}

uint64_t crti_autoscaler_deadline(const crti_autoscaler_t *s)
{
    return s->due_ns;
}

/* ---------------------------------------------------------------- life */

crt_status_t crti_autoscaler_new(const crti_scale_config_t *config,
                                 const crti_scale_orders_t *orders,
                                 crti_autoscaler_t **scaler_out)
{
    crti_autoscaler_t *s = calloc(1, sizeof(*s));

    if (!s)
        return crt_raise(CRT_ERR_NO_MEMORY, "autoscaler");
    if (config->type_count > CRTI_NODE_TYPES_MAX) {
        free(s);
        return crt_raise(CRT_ERR_INVALID, "%zu node types, at most %d",
                         config->type_count, CRTI_NODE_TYPES_MAX);
    }
    s->config = *config;
    s->config.types = s->types;
    s->config.cluster = s->cluster;
    memcpy(s->types, config->types, config->type_count * sizeof(*config->types));
    for (size_t i = 0; i < config->type_count; i++)
        if (crti_resources_get(&s->types[i].resources, CRTI_RESOURCE_MEMORY) == 0)
            (void)crti_resources_set(
                &s->types[i].resources, CRTI_RESOURCE_MEMORY,
                CRTI_RESOURCE_MAX); /* enough, until one has joined */
    snprintf(s->cluster, sizeof(s->cluster), "%s", config->cluster);
    s->orders = *orders;
    s->random = config->seed;
    crti_map_init(&s->by_name, 0);
    crti_list_init(&s->instances);
    *scaler_out = s;
    return CRT_OK;
}

void crti_autoscaler_free(crti_autoscaler_t *s)
{
    crti_list_t *item;

    if (!s)
        return;
    while ((item = crti_list_pop(&s->instances)))
        free(CRTI_INSTANCE_OF(item));
    crti_map_fini(&s->by_name);
    free(s);
}
