/* SPDX-License-Identifier: Apache-2.0 */
/* What this node tells the head of its processes: the rows of STATE_QUERY "workers" and
 * "actors_detail" (of "tasks": task_rows.c, "metrics": metric_rows.c) (docs/design/state.md), which
 * the head joins with those of other nodes.
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
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/links/head.h"
#include "runtime/node/process/task_archive.h"

#define USAGE_MAX                                                                        \
    1000 /* processes whose /proc is read for an answer: the loop waits for it */

/* Of a process: microseconds of processor time, and bytes of memory that are its own; 0 where /proc
 * does not tell. */
static void read_usage(pid_t pid, uint64_t *cpu_us_out, uint64_t *memory_out)
{
    char path[64];
    unsigned long long user = 0, kernel = 0, resident = 0, shared = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (file) {
        /* The name, in brackets, may hold anything but is at most 15 bytes long. */
        if (fscanf(
                file,
                "%*d (%*15[^\n)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
                &user, &kernel) != 2)
            user = kernel = 0;
        fclose(file);
    }
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
    file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%*u %llu %llu", &resident, &shared) != 2)
            resident = shared = 0;
        fclose(file);
    }
    *cpu_us_out = (user + kernel) * (1000000 / (uint64_t)sysconf(_SC_CLK_TCK));
    *memory_out =
        resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static crt_status_t add_row(const crti_process_t *p, bool with_usage, crti_buffer_t *json)
{
    char id[CRTI_ID_HEX], node[CRTI_ID_HEX], job[CRTI_ID_HEX] = "",
                                             actor[CRTI_ID_HEX] = "";
    uint64_t cpu_us = 0, memory = 0;
    char row[640];

    if (with_usage)
        read_usage(p->pid, &cpu_us, &memory);
    if (p->job)
        crti_id_hex(crti_job_id(p->job), job);
    if (!crti_id_is_zero(p->actor))
        crti_id_hex(p->actor, actor);
    snprintf(
        row, sizeof(row),
        "%s{\"worker_id\":\"%s\",\"node_id\":\"%s\",\"ip\":\"%s\",\"pid\":%d,\"is_"
        "alive\":%s,"
        "\"worker_type\":\"%s\",\"job_id\":\"%s\",\"actor_id\":\"%s\","
        "\"exit_detail\":\"\",\"cpu_us\":%" PRIu64 ",\"memory_bytes\":%" PRIu64 "}",
        json->size > 1 ? "," : "", crti_id_hex(p->id, id), crti_id_hex(p->node->id, node),
        p->node->ip, (int)p->pid, p->dying ? "false" : "true",
        p->role == CRTI_ROLE_DRIVER ? "DRIVER" : "WORKER", job, actor, cpu_us, memory);
    return crti_buffer_append(json, row, strlen(row));
}

static crt_status_t list_processes(const crti_node_t *node, crti_buffer_t *json)
{
    crt_status_t status = crti_buffer_append(json, "[", 1);
    const crti_process_t *p;
    size_t cursor = 0, count = 0;

    while ((p = crti_process_next(node, &cursor)) != NULL) {
        if (status == CRT_OK)
            status = add_row(p, count++ < USAGE_MAX, json);
    }
    return status == CRT_OK ? crti_buffer_append(json, "]", 1) : status;
}

/* What an actor's process says of its queue: how many wait, and for how many ms one of them does,
 * or the last one that was watched has. */
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
    const crti_process_t *p;
    size_t cursor = 0;

    while ((p = crti_process_next(node, &cursor)) != NULL) {
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

static void ask_processes(crti_node_t *node, uint64_t request,
                          const crti_msg_state_query_t *query)
{
    bool is_stacks = crti_str_equal(query->what, "stacks");
    /* Of objects the filter is how many; all processes are asked. */
    crt_status_t status =
        crti_question_asked(node, request, is_stacks, row_limit(query->filter),
                            is_stacks ? query->filter : crti_str(""));

    if (status != CRT_OK)
        crti_head_send_error(node, request, status, crt_error_detail());
}

void crti_state_asked(crti_node_t *node, uint64_t request,
                      const crti_msg_state_query_t *query)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t json = {0};
    crti_msg_state_answer_t answer;
    crt_status_t status;

    if (crti_str_equal(query->what, "stacks") || crti_str_equal(query->what, "objects")) {
        ask_processes(node, request, query);
        return;
    }
    if (crti_str_equal(query->what, "rest")) {
        crti_rest_asked(node, request, query->filter);
        return;
    }
    if (crti_str_equal(query->what, "workers"))
        status = list_processes(node, &json);
    else if (crti_str_equal(query->what, "actors_detail"))
        status = list_queues(node, &json);
    else if (crti_str_equal(query->what, "tasks"))
        status = crti_task_rows(node, row_limit(query->filter), &json);
    else if (crti_str_equal(query->what, "metrics"))
        status = crti_metric_rows(node, crti_str_equal(query->filter, "recent"), &json);
    else
        status = crt_raise(
            CRT_ERR_INVALID,
            "a node knows of its workers, actors, tasks, objects, stacks and metrics "
            "only");

    if (status != CRT_OK) {
        crti_head_send_error(node, request, status, crt_error_detail());
        return;
    }
    answer = (crti_msg_state_answer_t){.json = crti_span(json.data, json.size)};
    crti_head_send(node, CRTI_MSG_STATE_ANSWER, request, &answer);
}
