/* SPDX-License-Identifier: Apache-2.0 */
/* What has happened in the cluster, from the tables, as STATE_QUERY "events" tells it
 * (docs/design/state.md): all, or those that a query wants.
 *
 * Where it sits
 *     state_json.c -> [ control/rows/state_events.c ]
 * Texts are made of those that are looked at, the newest first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/control/autoscale/autoscaler.h"
#include "runtime/control/control_state.h"
#include "runtime/control/rows/column_list.h"
#include "runtime/control/rows/row_query.h"
#include "runtime/control/rows/state_rows.h"

#define EVENTS_MAX 10000 /* the newest */

CRTI_COLUMN_IDS(CRTI_EVENT_COLUMNS);
CRTI_COLUMN_KEYS(CRTI_EVENT_COLUMNS);

/* One of them is set. */
typedef struct event {
    int64_t at_ms;
    const crti_node_entry_t *node;
    const crti_job_entry_t *job;
    const crti_actor_entry_t *actor;
    const crti_deadlock_report_t *deadlock;
    const crti_scale_event_t *scale;
    bool is_end;
    bool is_trouble; /* of a node with its disk */
} event_t;

/* Texts of cells. */
typedef struct view {
    char time[40], id[CRTI_ID_HEX + 8], message[2048], cut[CRTI_LIST_TEXT];
} view_t;

/* ---------------------------------------------------------------- cells */

static const char *severity_of(const event_t *event)
{
    if (event->scale)
        return event->scale->severity == CRTI_SCALE_WARNING ? "WARNING" : "INFO";
    if (event->actor || event->is_trouble || (event->deadlock && !event->is_end))
        return "WARNING";
    if (event->deadlock)
        return "INFO";
    if (event->node)
        return event->is_end ? "ERROR" : "INFO";
    return event->is_end && event->job->state == CRTI_JOB_FAILED ? "ERROR" : "INFO";
}

static const char *source_of(const event_t *event)
{
    return event->node       ? "NODE"
           : event->job      ? "JOB"
           : event->deadlock ? "CLUSTER"
           : event->scale    ? "AUTOSCALER"
                             : "ACTOR";
}

static const char *time_of(const event_t *event, char *text, size_t size)
{
    time_t seconds = (time_t)(event->at_ms / 1000);
    char when[32];
    struct tm parts;

    gmtime_r(&seconds, &parts);
    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &parts);
    snprintf(text, size, "%s.%03d", when, (int)(event->at_ms % 1000));
    return text;
}

static const char *id_of_entry(const event_t *event, char *text, size_t size)
{
    crti_id_t id = event->node       ? event->node->id
                   : event->job      ? event->job->id
                   : event->deadlock ? event->deadlock->id
                                     : event->actor->id;
    char hex[CRTI_ID_HEX];

    snprintf(text, size, "%s%s", crti_id_hex(id, hex),
             event->is_trouble ? "-spill"
             : event->is_end   ? "-end"
                               : "-begin");
    return text;
}

static const char *id_of(const event_t *event, char *text, size_t size)
{
    if (event->scale)
        snprintf(text, size, "autoscaler-%llu", (unsigned long long)event->scale->serial);
    return event->scale ? text : id_of_entry(event, text, size);
}

static void say_node(const event_t *event, view_t *view)
{
    const crti_node_entry_t *node = event->node;

    if (event->is_trouble)
        snprintf(view->message, sizeof(view->message), "node %s (%s): %s", node->hostname,
                 node->ip,
                 *node->spill_trouble ? node->spill_trouble
                                      : "objects could not be spilled for a while");
    else if (!event->is_end)
        snprintf(view->message, sizeof(view->message), "node %s (%s) has joined",
                 node->hostname, node->ip);
    else
        snprintf(view->message, sizeof(view->message), "node %s (%s) is gone: %s",
                 node->hostname, node->ip, crti_list_text(node->text, view->cut));
}

static void say_job(const event_t *event, view_t *view)
{
    const crti_job_entry_t *job = event->job;

    if (!event->is_end)
        snprintf(view->message, sizeof(view->message), "job %s has begun: %s",
                 crti_copied_text(job->made->submission),
                 crti_list_text(crti_copied_text(job->made->entrypoint), view->cut));
    else
        snprintf(view->message, sizeof(view->message), "job %s has ended: %s",
                 crti_copied_text(job->made->submission),
                 crti_job_state_name(job->state));
}

static const char *message_of(const event_t *event, view_t *view)
{
    char class_name[CRTI_LIST_TEXT];

    if (event->node)
        say_node(event, view);
    else if (event->job)
        say_job(event, view);
    else if (event->scale)
        snprintf(view->message, sizeof(view->message), "%s", event->scale->text);
    else if (event->deadlock)
        snprintf(view->message, sizeof(view->message), "%s%s",
                 event->is_end ? "it has ended: " : "", event->deadlock->text);
    else
        snprintf(
            view->message, sizeof(view->message), "actor %.200s has died: %s",
            crti_list_text(crti_copied_text(event->actor->made->class_name), class_name),
            crti_list_text(event->actor->text, view->cut));
    return view->message;
}

static crti_cell_t event_cell(void *user, const void *row, size_t column)
{
    const event_t *event = row;
    view_t *view = user;

    switch (column) {
    case SEVERITY: return crti_cell_text(severity_of(event));
    case TIME: return crti_cell_text(time_of(event, view->time, sizeof(view->time)));
    case SOURCE_TYPE: return crti_cell_text(source_of(event));
    case EVENT_ID: return crti_cell_text(id_of(event, view->id, sizeof(view->id)));
    default: return crti_cell_text(message_of(event, view));
    }
}

static crti_row_table_t table_of(view_t *view)
{
    return (crti_row_table_t){
        .name = "events", .columns = columns, .cell = event_cell, .user = view};
}

static void write_event(void *user, crti_json_writer_t *w, const void *row)
{
    const crti_row_table_t table = table_of(user);

    crti_json_open(w, '{');
    crti_row_columns_write(w, &table, row, COLUMNS);
    crti_json_close(w, '}');
}

/* ---------------------------------------------------------------- which there are */

static void add(crti_buffer_t *events, const event_t *event)
{
    if (event->at_ms)
        (void)crti_buffer_append(events, event, sizeof(*event)); /* else one less */
}

static void add_all(const crti_control_t *c, crti_buffer_t *events)
{
    const crti_list_t *nodes[] = {&c->nodes.living, &c->nodes.dead};
    const crti_list_t *jobs[] = {&c->jobs.running, &c->jobs.ended};

    for (size_t i = 0; i < 2; i++) {
        CRTI_LIST_FOREACH (item, nodes[i]) {
            const crti_node_entry_t *node = CRTI_NODE_OF(item);

            add(events, &(event_t){.at_ms = node->start_ms, .node = node});
            add(events, &(event_t){.at_ms = node->spill_trouble_ms,
                                   .node = node,
                                   .is_trouble = true});
            if (node->state == CRTI_NODE_DEAD)
                add(events,
                    &(event_t){.at_ms = node->end_ms, .node = node, .is_end = true});
        }
        CRTI_LIST_FOREACH (item, jobs[i]) {
            const crti_job_entry_t *job = CRTI_JOB_OF(item);

            add(events, &(event_t){.at_ms = job->start_ms, .job = job});
            add(events, &(event_t){.at_ms = job->end_ms, .job = job, .is_end = true});
        }
    }
    CRTI_LIST_FOREACH (item, &c->deadlocks.reports) {
        const crti_deadlock_report_t *report =
            CRTI_CONTAINER(item, crti_deadlock_report_t, link);

        add(events, &(event_t){.at_ms = report->start_ms, .deadlock = report});
        add(events,
            &(event_t){.at_ms = report->end_ms, .deadlock = report, .is_end = true});
    }
    for (uint64_t i = 0; c->autoscaler && i < CRTI_SCALE_EVENTS; i++)
        add(events, &(event_t){.at_ms = c->autoscaler->events[i].wall_ms,
                               .scale = &c->autoscaler->events[i]});
    CRTI_LIST_FOREACH (item, &c->actors.dead) {
        const crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);

        if (!crti_actor_entry_has_ended_well(actor))
            add(events,
                &(event_t){.at_ms = actor->end_ms, .actor = actor, .is_end = true});
    }
}

/* The newest first. */
static int by_time(const void *a, const void *b)
{
    int64_t x = ((const event_t *)a)->at_ms, y = ((const event_t *)b)->at_ms;

    return (x < y) - (x > y);
}

/* ---------------------------------------------------------------- answers */

static void offer(const crti_buffer_t *events, crti_row_picker_t *picker)
{
    const event_t *all = (const event_t *)(const void *)events->data;
    size_t count = events->size / sizeof(event_t);

    for (size_t i = 0; i < count && i < EVENTS_MAX; i++)
        crti_row_picker_offer(picker, &all[i]);
}

crt_status_t crti_state_events_check(crti_span_t filter)
{
    crti_row_table_t table = table_of(NULL);

    return crti_row_query_check(filter, &table);
}

static crt_status_t write_answer(crti_json_writer_t *w, const crti_buffer_t *events,
                                 crti_span_t filter)
{
    view_t view;
    crti_row_table_t table = table_of(&view);
    crti_row_query_t query;
    crti_row_picker_t picker = {.table = &table, .write = write_event, .w = w};
    crt_status_t status;

    if (!crti_row_query_is(filter)) {
        crti_json_open(w, '[');
        offer(events, &picker);
        crti_json_close(w, ']');
        return w->status;
    }
    status = crti_row_query_parse(filter, &table, &query);
    if (status != CRT_OK)
        return status;
    picker.query = &query;
    crti_json_open(w, '{');
    crti_row_picker_begin(&picker);
    offer(events, &picker);
    crti_row_picker_end(&picker);
    crti_json_close(w, '}');
    crti_row_query_fini(&query);
    return w->status;
}

char *crti_state_events(const crti_control_t *c, crti_span_t filter)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t events = {0};
    crti_buffer_t text = {0};
    crti_json_writer_t w = {.out = &text};
    crt_status_t status;

    add_all(c, &events);
    if (events.size)
        qsort(events.data, events.size / sizeof(event_t), sizeof(event_t), by_time);
    status = write_answer(&w, &events, filter);
    return crti_json_take(&w, status);
}
