/* SPDX-License-Identifier: Apache-2.0 */
/* Instances: what was asked for, what has joined, and what is to end. See autoscaler.h.
 *
 * Where it sits
 *     autoscaler.c (each look), the provider's answers -> [ autoscale/instances.c ] -> orders
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/control/autoscale/autoscaler_int.h"

/* ---------------------------------------------------------------- what is told */

void crti_scale_tell(crti_autoscaler_t *s, crti_scale_severity_t severity,
                     const char *format, ...)
{
    crti_scale_event_t *event = &s->events[s->event_count % CRTI_SCALE_EVENTS];
    va_list arguments;

    event->serial = ++s->event_count;
    event->wall_ms = (int64_t)(s->now_ns / CRTI_MS) + s->config.wall_offset_ms;
    event->severity = severity;
    va_start(arguments, format);
    vsnprintf(event->text, sizeof(event->text), format, arguments);
    va_end(arguments);
}

const char *crti_instance_state_name(crti_instance_state_t state)
{
    static const char *const names[CRTI_INSTANCE_STATES] = {
        "ASKED", "STARTING", "RUNNING", "DRAINING", "ENDING"};

    return names[state];
}

static const char *short_id(crti_id_t id, char hex[CRTI_ID_HEX])
{
    crti_id_hex(id, hex);
    hex[CRTI_SCALE_ID - 1] = '\0';
    return hex;
}

static double seconds(uint64_t ns)
{
    return (double)ns / (double)CRTI_S;
}

/* ---------------------------------------------------------------- life */

static crti_instance_t *find(const crti_autoscaler_t *s, const char *name)
{
    return crti_map_get(&s->by_name, name);
}

static void change_state(crti_autoscaler_t *s, crti_instance_t *instance,
                         crti_instance_state_t state)
{
    size_t *counts = s->counts[instance->type];

    if (!instance->is_stray) {
        counts[instance->state]--;
        counts[state]++;
    }
    instance->state = state;
}

/* NULL: there is no memory, or there are too many. */
static crti_instance_t *add(crti_autoscaler_t *s, const char *name, size_t type,
                            crti_instance_state_t state)
{
    crti_instance_t *instance =
        s->by_name.count < CRTI_INSTANCES_MAX ? calloc(1, sizeof(*instance)) : NULL;

    if (!instance)
        return NULL;
    snprintf(instance->name, sizeof(instance->name), "%s", name);
    if (crti_map_put(&s->by_name, instance->name, instance) != CRT_OK) {
        free(instance);
        return NULL;
    }
    instance->type = type;
    instance->state = state;
    instance->since_ns = s->now_ns;
    s->counts[type][state]++;
    crti_list_append(&s->instances, &instance->link);
    return instance;
}

static void forget(crti_autoscaler_t *s, crti_instance_t *instance)
{
    if (!instance->is_stray)
        s->counts[instance->type][instance->state]--;
    crti_map_remove(&s->by_name, instance->name);
    crti_list_remove(&instance->link);
    free(instance);
}

static void set_state(crti_autoscaler_t *s, crti_instance_t *instance,
                      crti_instance_state_t state, const char *why)
{
    change_state(s, instance, state);
    instance->since_ns = s->now_ns;
    instance->idle_ns = 0;
    snprintf(instance->text, sizeof(instance->text), "%s", why);
}

static void order_end(crti_autoscaler_t *s, crti_instance_t *instance)
{
    instance->is_end_asked = true;
    s->orders.end(s->orders.user, instance->name, &s->types[instance->type],
                  instance->node);
}

/* Ordered by a look, which sees whether its node has come meanwhile. */
static void end(crti_autoscaler_t *s, crti_instance_t *instance, const char *why)
{
    set_state(s, instance, CRTI_INSTANCE_ENDING, why);
    instance->retry_ns = s->now_ns;
    instance->end_failures = 0;
    instance->is_end_asked = false;
}

/* FIRST, twice that, ..., MOST. */
static uint64_t pause_after(unsigned failures)
{
    uint64_t pause = CRTI_SCALE_FIRST_NS;

    while (--failures && pause < CRTI_SCALE_MOST_NS)
        pause *= 2;
    return pause < CRTI_SCALE_MOST_NS ? pause : CRTI_SCALE_MOST_NS;
}

/* Failures of one attempt count once. */
static void fail_type(crti_autoscaler_t *s, size_t type, const char *why)
{
    crti_scale_type_state_t *state = &s->states[type];
    uint64_t pause;

    snprintf(state->text, sizeof(state->text), "%s", why);
    if (s->now_ns < state->retry_ns)
        return;
    pause = pause_after(++state->failures);
    state->retry_ns = s->now_ns + pause;
    crti_scale_tell(s, CRTI_SCALE_WARNING,
                    "node type %s failed %u time%s in a row, and is not asked for within "
                    "%.0f s: %s",
                    s->types[type].name, state->failures, state->failures > 1 ? "s" : "",
                    seconds(pause), why);
}

/* ---------------------------------------------------------------- up and down */

static uint32_t draw(crti_autoscaler_t *s)
{
    uint64_t x = s->random += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)(x >> 32);
}

bool crti_scale_ask(crti_autoscaler_t *s, size_t type)
{
    char name[CRTI_INSTANCE_NAME];
    crti_instance_t *instance;

    do
        snprintf(name, sizeof(name), "%s-%s-%08" PRIx32, s->types[type].name, s->cluster,
                 draw(s));
    while (find(s, name));
    instance = add(s, name, type, CRTI_INSTANCE_ASKED);
    if (instance)
        s->orders.ask(s->orders.user, instance->name, &s->types[type]);
    return instance != NULL;
}

void crti_scale_drain(crti_autoscaler_t *s, crti_instance_t *instance, const char *why)
{
    char hex[CRTI_ID_HEX];

    set_state(s, instance, CRTI_INSTANCE_DRAINING, why);
    crti_scale_tell(s, CRTI_SCALE_INFO, "node %s (%s) is drained and ends: %s",
                    short_id(instance->node, hex), s->types[instance->type].name, why);
    s->orders.drain(s->orders.user, instance->node);
}

/* ---------------------------------------------------------------- nodes of the cluster */

typedef struct said {
    char instance[CRTI_INSTANCE_NAME], type[CRTI_NODE_TYPE_NAME];
} said_t;

static void take_label(void *user, const char *key, size_t key_size, const char *value,
                       size_t value_size)
{
    said_t *said = user;

    if (key_size == strlen(CRTI_LABEL_INSTANCE) &&
        memcmp(key, CRTI_LABEL_INSTANCE, key_size) == 0)
        snprintf(said->instance, sizeof(said->instance), "%.*s", (int)value_size, value);
    if (key_size == strlen(CRTI_LABEL_NODE_TYPE) &&
        memcmp(key, CRTI_LABEL_NODE_TYPE, key_size) == 0)
        snprintf(said->type, sizeof(said->type), "%.*s", (int)value_size, value);
}

/* -1: there is no such type. */
static int find_type(const crti_autoscaler_t *s, const char *name)
{
    for (size_t i = 0; i < s->config.type_count; i++)
        if (strcmp(s->types[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* What nobody wrote down, memory above all, is known from the first node of a type. */
static void learn(crti_autoscaler_t *s, size_t type, const crti_resources_t *total)
{
    crti_resources_t *known = &s->types[type].resources;

    if (s->states[type].knows_memory)
        return;
    s->states[type].knows_memory = true;
    for (unsigned i = 0; i < total->count; i++)
        if ((crti_resources_get(known, total->item[i].name) == 0 ||
             strcmp(total->item[i].name, CRTI_RESOURCE_MEMORY) == 0) &&
            strncmp(total->item[i].name, CRTI_RESOURCE_NODE,
                    strlen(CRTI_RESOURCE_NODE)) != 0)
            (void)crti_resources_set(known, total->item[i].name, total->item[i].amount);
}

static void join(crti_autoscaler_t *s, crti_instance_t *instance,
                 const crti_scale_node_t *node)
{
    char hex[CRTI_ID_HEX];

    crti_scale_tell(s, CRTI_SCALE_INFO, "node %s (%s) has joined, after %.1f s",
                    short_id(node->node, hex), s->types[instance->type].name,
                    seconds(s->now_ns - instance->since_ns));
    instance->node = node->node;
    set_state(s, instance, CRTI_INSTANCE_RUNNING, "");
    s->states[instance->type].text[0] = '\0';
    s->states[instance->type].retry_ns = 0;
    learn(s, instance->type, node->total);
}

/* The instance of a node; NULL: it is not one of the scaler's. */
static crti_instance_t *instance_of(crti_autoscaler_t *s, const crti_scale_node_t *node)
{
    said_t said = {"", ""};
    crti_instance_t *instance;
    int type;

    crti_labels_walk(node->labels, take_label, &said);
    instance = *said.instance ? find(s, said.instance) : NULL;
    if (instance || !*said.instance)
        return instance;
    type = find_type(s, said.type);
    instance =
        type >= 0 ? add(s, said.instance, (size_t)type, CRTI_INSTANCE_RUNNING) : NULL;
    if (instance) { /* of the head before, or one that was given up */
        instance->node = node->node;
        learn(s, (size_t)type, node->total);
    }
    return instance;
}

static void follow_node(crti_autoscaler_t *s, const crti_scale_input_t *input, size_t at)
{
    const crti_scale_node_t *node = &input->nodes[at];
    crti_instance_t *instance = instance_of(s, node);

    if (!instance)
        return;
    if (crti_scale_is_coming(instance))
        join(s, instance, node);
    if (instance->state == CRTI_INSTANCE_ENDING) {
        instance->node = node->node;
        crti_scale_drain(s, instance, "it has come after it was given up");
    }
    if (!crti_id_equal(instance->node, node->node))
        return; /* another one says that it is this instance */
    instance->is_seen = true;
    instance->node_at = at;
    if (instance->state == CRTI_INSTANCE_RUNNING && node->is_drained)
        set_state(s, instance, CRTI_INSTANCE_DRAINING, "it is drained");
    if (node->is_busy || node->is_away)
        instance->idle_ns = 0;
    else if (instance->idle_ns == 0)
        instance->idle_ns = s->now_ns;
}

static void node_gone(crti_autoscaler_t *s, crti_instance_t *instance)
{
    bool is_young = s->now_ns - instance->since_ns < CRTI_SCALE_YOUNG_NS;
    char hex[CRTI_ID_HEX], why[CRTI_SCALE_TEXT];

    if (instance->state == CRTI_INSTANCE_DRAINING) {
        end(s, instance, "it was drained, and its node has left");
        return;
    }
    snprintf(why, sizeof(why), "node %s is gone %.1f s after it had joined",
             short_id(instance->node, hex), seconds(s->now_ns - instance->since_ns));
    crti_scale_tell(s, CRTI_SCALE_WARNING, "%s (%s); another one comes if it is needed",
                    why, s->types[instance->type].name);
    if (is_young)
        fail_type(s, instance->type, why);
    end(s, instance, why);
}

static void not_in_time(crti_autoscaler_t *s, crti_instance_t *instance)
{
    char why[CRTI_SCALE_TEXT];

    snprintf(why, sizeof(why), "%s did not join within %.0f s%s", instance->name,
             seconds(s->config.start_ns),
             instance->state == CRTI_INSTANCE_STARTING
                 ? " (the provider says that it runs)"
                 : "");
    fail_type(s, instance->type, why);
    end(s, instance, why);
}

static void follow_instance(crti_autoscaler_t *s, crti_instance_t *instance)
{
    if (crti_scale_is_coming(instance)) {
        if (s->now_ns - instance->since_ns >= s->config.start_ns)
            not_in_time(s, instance);
    } else if (instance->state != CRTI_INSTANCE_ENDING && !instance->is_seen) {
        node_gone(s, instance);
    } else if (instance->state == CRTI_INSTANCE_RUNNING &&
               s->now_ns - instance->since_ns >= CRTI_SCALE_YOUNG_NS) {
        s->states[instance->type].failures = 0; /* it has come, and stays */
    }
    if (instance->state == CRTI_INSTANCE_ENDING && !instance->is_end_asked &&
        s->now_ns >= instance->retry_ns)
        order_end(s, instance);
}

void crti_scale_follow(crti_autoscaler_t *s, const crti_scale_input_t *input)
{
    CRTI_LIST_FOREACH (item, &s->instances)
        CRTI_INSTANCE_OF(item)->is_seen = false;
    for (size_t i = 0; i < input->node_count; i++)
        follow_node(s, input, i);
    CRTI_LIST_FOREACH (item, &s->instances)
        follow_instance(s, CRTI_INSTANCE_OF(item));
}

/* ---------------------------------------------------------------- what the provider says */

/* A provider that did what it was asked for is there again: what it has is asked at once, so that
 * nobody reads for half a minute more that it does not say. */
static void provider_answers(crti_autoscaler_t *s)
{
    if (s->list_text[0] != '\0')
        s->list_ns = s->now_ns;
}

void crti_autoscaler_asked(crti_autoscaler_t *s, const char *name, bool is_done,
                           const char *text, uint64_t now_ns)
{
    crti_instance_t *instance = find(s, name);
    char why[CRTI_SCALE_TEXT];

    s->now_ns = now_ns;
    s->due_ns = now_ns;
    if (is_done)
        provider_answers(s);
    if (!instance || instance->state != CRTI_INSTANCE_ASKED)
        return;    /* it has joined already, or was given up */
    if (is_done) { /* its time runs since it was asked for */
        change_state(s, instance, CRTI_INSTANCE_STARTING);
        return;
    }
    snprintf(why, sizeof(why), "%s could not be started: %s", name, text);
    fail_type(s, instance->type, why);
    end(s, instance, why);
}

void crti_autoscaler_ended(crti_autoscaler_t *s, const char *name, bool is_done,
                           const char *text, uint64_t now_ns)
{
    crti_instance_t *instance = find(s, name);

    s->now_ns = now_ns;
    s->due_ns = now_ns;
    if (is_done)
        provider_answers(s);
    if (!instance || instance->state != CRTI_INSTANCE_ENDING)
        return;
    if (is_done) {
        forget(s, instance);
        return;
    }
    instance->is_end_asked = false;
    instance->retry_ns = now_ns + pause_after(++instance->end_failures);
    snprintf(instance->text, sizeof(instance->text), "its end is asked for again: %s",
             text);
    crti_scale_tell(s, CRTI_SCALE_WARNING, "the end of %s failed %u time%s in a row: %s",
                    name, instance->end_failures, instance->end_failures > 1 ? "s" : "",
                    text);
}

/* "TYPE-CLUSTER-NUMBER" of this cluster; -1: it is none. */
static int type_of_name(const crti_autoscaler_t *s, const char *name)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                               "0123456789._-";
    const char *number = strrchr(name, '-');
    size_t tail = strlen(s->cluster) + 1;
    char type[CRTI_NODE_TYPE_NAME];

    if (!number || (size_t)(number - name) <= tail || number[-(ptrdiff_t)tail] != '-' ||
        strncmp(number - tail + 1, s->cluster, tail - 1) != 0 ||
        strlen(name) >= CRTI_INSTANCE_NAME || name[strspn(name, good)] != '\0')
        return -1;
    snprintf(type, sizeof(type), "%.*s", (int)((size_t)(number - name) - tail), name);
    return find_type(s, type);
}

/* The provider has one that nobody here knows: the head before asked for it, or it should have
 * ended. */
static void take_stray(crti_autoscaler_t *s, const char *name, bool may_come)
{
    int type = type_of_name(s, name);
    crti_instance_t *instance;

    if (type < 0)
        return;
    instance = add(s, name, (size_t)type, CRTI_INSTANCE_STARTING);
    if (!instance || may_come)
        return;
    s->counts[type][instance->state]--;
    instance->is_stray = true;
    crti_scale_tell(s, CRTI_SCALE_WARNING,
                    "the provider has %s, which was ended: it is "
                    "ended again",
                    name);
    end(s, instance, "the provider has it still");
}

/* One that starts, and that the provider does not have. */
static void miss(crti_autoscaler_t *s, const char *const *names, size_t count)
{
    CRTI_LIST_FOREACH (item, &s->instances) {
        crti_instance_t *instance = CRTI_INSTANCE_OF(item);
        char why[CRTI_SCALE_TEXT];
        size_t at = 0;

        if (instance->state != CRTI_INSTANCE_STARTING ||
            s->now_ns - instance->since_ns < CRTI_SCALE_LIST_NS)
            continue;
        while (at < count && strcmp(names[at], instance->name) != 0)
            at++;
        if (at < count)
            continue;
        snprintf(why, sizeof(why), "%s has not joined, and the provider does not have it",
                 instance->name);
        fail_type(s, instance->type, why);
        end(s, instance, why);
    }
}

void crti_autoscaler_listed(crti_autoscaler_t *s, bool is_done, const char *text,
                            const char *const *names, size_t count, uint64_t now_ns)
{
    s->now_ns = now_ns;
    s->due_ns = now_ns;
    s->is_listing = false;
    s->list_ns = now_ns + CRTI_SCALE_LIST_NS;
    if (!is_done && strcmp(s->list_text, text) != 0)
        crti_scale_tell(s, CRTI_SCALE_WARNING,
                        "the provider does not say which nodes it has: %s", text);
    snprintf(s->list_text, sizeof(s->list_text), "%s", is_done ? "" : text);
    for (size_t i = 0; is_done && i < count; i++)
        if (!find(s, names[i]))
            take_stray(s, names[i], !s->has_listed);
    if (is_done)
        miss(s, names, count);
    s->has_listed = true;
}
