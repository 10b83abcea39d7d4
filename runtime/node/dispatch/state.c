/* SPDX-License-Identifier: Apache-2.0 */
/* What this node tells the head of its processes: the rows of STATE_QUERY "workers" and "actors_detail" (of "tasks": task_rows.c, "metrics": metric_rows.c)
 * (docs/design/state.md), which the head joins with those of other nodes.
 *
 * Where it sits
 *     head link -> node/links/head.c -> [ node/dispatch/state.c ] -> STATE_ANSWER
 * The JSON holds ids, numbers and fixed words only: nothing in it needs an escape.
 * Threads: the loop.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/node/node.h"

static crt_status_t add_row(const crti_process_t *p, crti_buffer_t *json)
{
    char id[CRTI_ID_HEX], node[CRTI_ID_HEX], job[CRTI_ID_HEX] = "",
                                             actor[CRTI_ID_HEX] = "";
    char row[480];

    if (p->job)
        crti_id_hex(crti_job_id(p->job), job);
    if (!crti_id_is_zero(p->actor))
        crti_id_hex(p->actor, actor);
    snprintf(row, sizeof(row),
             "%s{\"worker_id\":\"%s\",\"node_id\":\"%s\",\"ip\":\"%s\",\"pid\":%d,\"is_"
             "alive\":%s,"
             "\"worker_type\":\"%s\",\"job_id\":\"%s\",\"actor_id\":\"%s\","
             "\"exit_detail\":\"\"}",
             json->size > 1 ? "," : "", crti_id_hex(p->id, id),
             crti_id_hex(p->node->id, node), p->node->ip, (int)p->pid,
             p->dying ? "false" : "true",
             p->role == CRTI_ROLE_DRIVER ? "DRIVER" : "WORKER", job, actor);
    return crti_buffer_append(json, row, strlen(row));
}

static crt_status_t list_processes(const crti_node_t *node, crti_buffer_t *json)
{
    crt_status_t status = crti_buffer_append(json, "[", 1);

    CRTI_MAP_FOREACH (const crti_process_t, p, &node->processes.by_id) {
        if (status == CRT_OK)
            status = add_row(p, json);
    }
    return status == CRT_OK ? crti_buffer_append(json, "]", 1) : status;
}

/* What an actor's process says of its queue: how many wait, and for how many ms one of them does, or the last one that was
 * watched has. */
static crt_status_t add_queue(const crti_process_t *p, uint64_t now_ns,
                              crti_buffer_t *json)
{
    uint64_t queued = atomic_load_explicit(&p->board->queued, memory_order_relaxed);
    uint64_t since =
        atomic_load_explicit(&p->board->waits_since_ns, memory_order_relaxed);
    uint64_t waited = atomic_load_explicit(&p->board->waited_ns, memory_order_relaxed);
    char actor[CRTI_ID_HEX], row[200];

    if (queued == 0)
        waited = 0;
    else if (since && since <= now_ns)
        waited = now_ns - since;
    snprintf(row, sizeof(row),
             "%s{\"actor_id\":\"%s\",\"queue_length\":%" PRIu64
             ",\"queue_wait_ms\":%.3f}",
             json->size > 1 ? "," : "", crti_id_hex(p->actor, actor), queued & INT64_MAX,
             (double)waited / CRTI_MS);
    return crti_buffer_append(json, row, strlen(row));
}

static crt_status_t list_queues(const crti_node_t *node, crti_buffer_t *json)
{
    crt_status_t status = crti_buffer_append(json, "[", 1);
    uint64_t now_ns = crti_now_ns();

    CRTI_MAP_FOREACH (const crti_process_t, p, &node->processes.by_id) {
        if (status == CRT_OK && p->board && !crti_id_is_zero(p->actor))
            status = add_queue(p, now_ns, json);
    }
    return status == CRT_OK ? crti_buffer_append(json, "]", 1) : status;
}

/* How many calls or objects the head wants to hear of. */
static size_t row_limit(crti_span_t filter)
{
    char text[24];
    unsigned long limit = strtoul(crti_text(filter, text, sizeof(text)), NULL, 10);

    return limit > 0 && limit < CRTI_TASK_ARCHIVE ? limit : CRTI_TASK_ARCHIVE;
}

void crti_state_asked(crti_node_t *node, uint64_t request,
                      const crti_msg_state_query_t *query)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t json = {0};
    crti_msg_state_answer_t answer;
    crt_status_t status;

    if (crti_str_equal(query->what, "workers"))
        status = list_processes(node, &json);
    else if (crti_str_equal(query->what, "actors_detail"))
        status = list_queues(node, &json);
    else if (crti_str_equal(query->what, "tasks"))
        status = crti_task_rows(node, row_limit(query->filter), &json);
    else if (crti_str_equal(query->what, "objects"))
        status = crti_object_rows(node, row_limit(query->filter), &json);
    else if (crti_str_equal(query->what, "metrics"))
        status = crti_metric_rows(node, &json);
    else
        status =
            crt_raise(CRT_ERR_INVALID,
                      "a node knows of its workers, actors, tasks, objects and metrics "
                      "only");

    if (status != CRT_OK) {
        crti_head_send_error(node, request, status, crt_error_detail());
        return;
    }
    answer = (crti_msg_state_answer_t){.json = crti_span(json.data, json.size)};
    crti_head_send(node, CRTI_MSG_STATE_ANSWER, request, &answer);
}
