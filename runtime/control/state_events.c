/* SPDX-License-Identifier: Apache-2.0 */
/* What has happened in the cluster, from the tables, as STATE_QUERY "events" tells it (docs/design/state.md).
 *
 * Where it sits
 *     state_json.c -> [ control/state_events.c ]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "runtime/control/control_int.h"

#define EVENTS_MAX 10000

typedef struct event {
    int64_t at_ms;
    const char *severity, *source;
    char id[CRTI_ID_HEX + 8];
    char message[512];
} event_t;

static void add(crti_buffer_t *events, int64_t at_ms, const char *severity,
                const char *source, crti_id_t id, const char *what, const char *text)
{
    event_t event = {.at_ms = at_ms, .severity = severity, .source = source};
    char hex[CRTI_ID_HEX];

    if (at_ms == 0 || events->size >= EVENTS_MAX * sizeof(event))
        return;
    snprintf(event.id, sizeof(event.id), "%s%s", crti_id_hex(id, hex), what);
    snprintf(event.message, sizeof(event.message), "%s", text);
    (void)crti_buffer_append(events, &event,
                             sizeof(event)); /* without memory: one less */
}

static void add_node(crti_buffer_t *events, const crti_node_entry_t *node)
{
    char text[400];

    snprintf(text, sizeof(text), "node %s (%s) has joined", node->hostname, node->ip);
    add(events, node->start_ms, "INFO", "NODE", node->id, "-begin", text);
    if (node->state != CRTI_NODE_DEAD)
        return;
    snprintf(text, sizeof(text), "node %s (%s) is gone: %s", node->hostname, node->ip,
             node->text ? node->text : "");
    add(events, node->end_ms, "ERROR", "NODE", node->id, "-end", text);
}

static void add_job(crti_buffer_t *events, const crti_job_entry_t *job)
{
    bool has_failed = job->state == CRTI_JOB_FAILED;
    char text[400];

    snprintf(text, sizeof(text), "job %s has begun: %.200s", job->submission,
             job->entrypoint);
    add(events, job->start_ms, "INFO", "JOB", job->id, "-begin", text);
    if (!job->end_ms)
        return;
    snprintf(text, sizeof(text), "job %s has ended: %s", job->submission,
             crti_job_state_name(job->state));
    add(events, job->end_ms, has_failed ? "ERROR" : "INFO", "JOB", job->id, "-end", text);
}

static void add_actor(crti_buffer_t *events, const crti_actor_entry_t *actor)
{
    char text[480];

    if (crti_actor_entry_has_ended_well(actor))
        return;
    snprintf(text, sizeof(text), "actor %s has died: %s", actor->class_name,
             actor->text ? actor->text : "");
    add(events, actor->end_ms, "WARNING", "ACTOR", actor->id, "-end", text);
}

/* The newest first. */
static int by_time(const void *a, const void *b)
{
    int64_t x = ((const event_t *)a)->at_ms, y = ((const event_t *)b)->at_ms;

    return (x < y) - (x > y);
}

static json_t *event_json(const event_t *event)
{
    time_t seconds = (time_t)(event->at_ms / 1000);
    char at[40], when[32], message[512];
    struct tm parts;
    json_t *json;

    gmtime_r(&seconds, &parts);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(at, sizeof(at), "%s.%03d", when, (int)(event->at_ms % 1000));
    snprintf(message, sizeof(message), "%s", event->message);
    json = json_pack("{s:s, s:s, s:s, s:s, s:s}", "severity", event->severity, "time", at,
                     "source_type", event->source, "event_id", event->id, "message",
                     message);
    if (json)
        return json;
    for (char *c = message; *c; c++) /* a text of users that is no UTF-8 */
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "severity", event->severity, "time", at,
                     "source_type", event->source, "event_id", event->id, "message",
                     message);
}

json_t *crti_state_events(const crti_control_t *c)
{
    const crti_list_t *nodes[] = {&c->nodes.living, &c->nodes.dead};
    const crti_list_t *jobs[] = {&c->jobs.running, &c->jobs.ended};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t events = {0};
    json_t *list = json_array();
    const event_t *all;

    for (size_t i = 0; i < 2; i++) {
        CRTI_LIST_FOREACH (item, nodes[i])
            add_node(&events, CRTI_NODE_OF(item));
        CRTI_LIST_FOREACH (item, jobs[i])
            add_job(&events, CRTI_JOB_OF(item));
    }
    CRTI_LIST_FOREACH (item, &c->actors.dead)
        add_actor(&events, CRTI_ACTOR_OF(item));
    if (events.size)
        qsort(events.data, events.size / sizeof(event_t), sizeof(event_t), by_time);
    all = (const event_t *)(const void *)events.data;
    for (size_t i = 0; i < events.size / sizeof(event_t); i++)
        json_array_append_new(list, event_json(&all[i]));
    return list;
}
