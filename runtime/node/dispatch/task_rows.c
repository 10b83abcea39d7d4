/* SPDX-License-Identifier: Apache-2.0 */
/* What this node tells the head of calls: its part of STATE_QUERY "tasks" (docs/design/state.md). The head
 * joins what the caller's node and the worker's node say of one attempt (control/task_rows.c).
 *
 * Where it sits
 *     state.c -> [ node/dispatch/task_rows.c ] -> process/task_archive.c
 * Threads: the loop.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/json_escape.h"
#include "runtime/node/node.h"

#define TASK_ID 49 /* 24 bytes in hex, and a zero */

/* Milliseconds since 1970 of a moment of this host's monotonic clock. */
typedef struct wall {
    double wall_ms;
    uint64_t now_ns;
} wall_t;

static double wall_ms(const wall_t *wall, uint64_t at_ns)
{
    return wall->wall_ms - ((double)wall->now_ns - (double)at_ns) / (double)CRTI_MS;
}

static const char *task_id(crti_id_t owner, uint64_t number, char text[TASK_ID])
{
    crti_id_hex(owner, text);
    snprintf(text + 32, TASK_ID - 32, "%016" PRIx64, number);
    return text;
}

static const char *id_text(crti_id_t id, char text[CRTI_ID_HEX])
{
    text[0] = '\0';
    return crti_id_is_zero(id) ? text : crti_id_hex(id, text);
}

static crt_status_t put(crti_buffer_t *json, const char *text)
{
    return crti_buffer_append(json, text, strlen(text));
}

/* ,"key":"text" */
static crt_status_t put_text(crti_buffer_t *json, const char *key, const char *text)
{
    crt_status_t status = put(json, key);

    if (status == CRT_OK)
        status = crti_json_escape(crti_str(text), json);
    return status == CRT_OK ? put(json, "\"") : status;
}

static crt_status_t put_ids(crti_buffer_t *json, const crti_task_record_t *record)
{
    const crti_task_event_t *e = &record->event;
    char task[TASK_ID], attempt[TASK_ID], parent[TASK_ID] = "";
    char job[CRTI_ID_HEX], actor[CRTI_ID_HEX], node[CRTI_ID_HEX], worker[CRTI_ID_HEX];
    char text[640];

    if (e->parent)
        task_id(e->parent_owner, e->parent, parent);
    snprintf(text, sizeof(text),
             "{\"task_id\":\"%s\",\"attempt_id\":\"%s\",\"parent_task_id\":\"%s\","
             "\"job_id\":\"%s\",\"actor_id\":\"%s\",\"node_id\":\"%s\","
             "\"worker_id\":\"%s\",\"worker_pid\":%d,\"attempt_number\":%" PRIu32
             ",\"state\":\"%s\",\"type\":\"%s\",\"is_run\":%s",
             task_id(e->owner, e->number, task), task_id(e->owner, e->attempt, attempt),
             parent, id_text(record->job, job), id_text(e->actor, actor),
             id_text(e->node, node), id_text(e->worker, worker), e->pid, e->attempts,
             crti_task_state_name(e->state), crti_task_kind_name(e->kind),
             e->is_run ? "true" : "false");
    return put(json, text);
}

static crt_status_t put_times(crti_buffer_t *json, const crti_task_event_t *e,
                              const wall_t *wall)
{
    crt_status_t status = put(json, ",\"events\":{");
    const char *before = "";
    char text[80];

    for (int i = 0; i < CRTI_TASK_STATES && status == CRT_OK; i++) {
        if (!e->at_ns[i])
            continue;
        snprintf(text, sizeof(text), "%s\"%s\":%.3f", before, crti_task_state_name(i),
                 wall_ms(wall, e->at_ns[i]));
        before = ",";
        status = put(json, text);
    }
    return status == CRT_OK ? put(json, "}") : status;
}

static crt_status_t put_row(crti_buffer_t *json, const crti_task_record_t *record,
                            const wall_t *wall)
{
    const crti_task_event_t *e = &record->event;
    crt_status_t status = put_ids(json, record);

    if (status == CRT_OK)
        status = put_text(json, ",\"name\":\"", e->name);
    if (status == CRT_OK && e->state == CRTI_TASK_FAILED)
        status = put_text(json, ",\"error_type\":\"", crt_status_name(e->status));
    if (status == CRT_OK && e->text[0])
        status = put_text(json, ",\"error_message\":\"", e->text);
    if (status == CRT_OK)
        status = put_times(json, e, wall);
    return status == CRT_OK ? put(json, "}") : status;
}

/* One that was on its way when its process ended is not told: nobody waits for it any more. */
static bool is_told(crti_node_t *node, const crti_transfer_t *t)
{
    return t->ended_ns || crti_process_get(node, t->requester.process);
}

static crt_status_t put_transfer(crti_buffer_t *json, crti_node_t *node,
                                 const crti_transfer_t *t, const wall_t *wall)
{
    char object[TASK_ID], job[CRTI_ID_HEX], worker[CRTI_ID_HEX], from[CRTI_ID_HEX];
    char text[640], end[40] = "null";

    if (t->ended_ns)
        snprintf(end, sizeof(end), "%.3f", wall_ms(wall, t->ended_ns));
    snprintf(text, sizeof(text),
             "{\"object_id\":\"%s\",\"size\":%" PRIu64 ",\"node_id\":\"%s\","
             "\"from_node_id\":\"%s\",\"worker_id\":\"%s\",\"worker_pid\":%d,"
             "\"job_id\":\"%s\",\"start_time\":%.3f,\"end_time\":%s,"
             "\"error_type\":\"%s\"}",
             task_id(t->object.owner, t->object.number, object), t->size, node->hex,
             id_text(t->from, from), id_text(t->requester.process, worker), t->pid,
             id_text(t->job, job), wall_ms(wall, t->begun_ns), end,
             t->status == CRT_OK ? "" : crt_status_name(t->status));
    return put(json, text);
}

static crt_status_t put_transfers(crti_buffer_t *json, crti_node_t *node,
                                  const wall_t *wall)
{
    crt_status_t status = put(json, ",\"transfers\":[");
    const crti_transfer_t *t;
    const char *before = "";

    for (size_t i = 0;
         status == CRT_OK && (t = crti_transfer_at(&node->pulls.log, i)) != NULL; i++) {
        if (!is_told(node, t))
            continue;
        status = put(json, before);
        before = ",";
        if (status == CRT_OK)
            status = put_transfer(json, node, t, wall);
    }
    return status == CRT_OK ? put(json, "]") : status;
}

crt_status_t crti_task_rows(crti_node_t *node, size_t limit, crti_buffer_t *json)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t records = {0};
    wall_t wall = {(double)crti_wall_ms(), crti_now_ns()};
    const crti_task_record_t *all;
    uint64_t dropped;
    char end[80];
    crt_status_t status = crti_task_archive_list(node, limit, &records, &dropped);

    if (status == CRT_OK)
        status = put(json, "{\"tasks\":[");
    all = (const crti_task_record_t *)(const void *)records.data;
    for (size_t i = 0; i < records.size / sizeof(*all) && status == CRT_OK; i++) {
        if (i)
            status = put(json, ",");
        if (status == CRT_OK)
            status = put_row(json, &all[i], &wall);
    }
    snprintf(end, sizeof(end), "],\"dropped\":%" PRIu64, dropped);
    if (status == CRT_OK)
        status = put(json, end);
    if (status == CRT_OK)
        status = put_transfers(json, node, &wall);
    return status == CRT_OK ? put(json, "}") : status;
}
