/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the node: reads it, ends the worker that memory_watch.c names, and says why.
 *
 * Where it sits
 *     timer -> [ node/process/memory.c ] -> base/memory.c (host, groups, workers) -> memory_watch.c
 *         -> SIGKILL -> death.c (the report that the callers get)
 * Threads: the loop.
 * Cost
 *     Some 50 us once a second; below 70 % of the memory no worker is read.
 * Failure
 *     The kernel can be faster. Workers are the first that it takes (spawn.c), and the report says
 *     that it was the kernel, and why.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/base/memory.h"
#include "runtime/node/host/host.h"
#include "runtime/node/process/process_int.h"

#define GIB    (1024.0 * 1024 * 1024)
#define ADVICE "run fewer at a time (num_cpus, resources) or give the node more memory"

static crti_memory_worker_t look_at(crti_process_t *p)
{
    return (crti_memory_worker_t){
        .record = &p->memory,
        .bytes = crti_memory_of_tree(p->pid), /* its process group ends with it */
        .call =
            p->board ? atomic_load_explicit(&p->board->calls, memory_order_relaxed) : 0,
        .running = p->board &&
                   atomic_load_explicit(&p->board->running, memory_order_relaxed) == 1};
}

void crti_memory_began(crti_process_t *process)
{
    crti_memory_worker_t worker = look_at(process);

    crti_memory_watch_began(&process->node->memory->watch, &worker);
}

/* All workers of a job are born alike, and a look at one costs as much as many messages. */
uint64_t crti_memory_born(crti_process_t *process, uint64_t bytes)
{
    crti_memory_worker_t worker = {.record = &process->memory,
                                   .bytes = bytes ? bytes : look_at(process).bytes};

    crti_memory_watch_began(&process->node->memory->watch, &worker);
    return worker.bytes;
}

void crti_memory_gone(const crti_process_t *process)
{
    crti_node_t *node = process->node;

    if (!crti_id_equal(process->id, node->memory->ending))
        return;
    node->memory->ending = (crti_id_t){0};
    crti_memory_watch_gone(&node->memory->watch);
    crti_loop_start(node->loop, &node->memory->timer, crti_node_now(node));
}

/* All workers that could be ended, with their processes beside them. */
static crt_status_t look_at_all(crti_node_t *node, crti_buffer_t *workers,
                                crti_buffer_t *processes)
{
    CRTI_MAP_FOREACH (crti_process_t, p, &node->processes->by_id) {
        crti_memory_worker_t worker;
        crt_status_t status;

        if (p->role != CRTI_ROLE_WORKER || p->pid <= 1 || p->dying || p->told_to_end)
            continue;
        worker = look_at(p);
        status = crti_buffer_append(workers, &worker, sizeof(worker));
        if (status == CRT_OK)
            status = crti_buffer_append(processes, &p, sizeof(p));
        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

/* "22.90 of 24.00 GiB of the node's memory were in use (limit 95 %), 1.20 GiB of it by the object
 * store" */
static void describe(crti_node_t *node, char *text, size_t size)
{
    struct crti_store_stats stats;

    crti_store_stats(node->store, &stats);
    snprintf(
        text, size,
        "%.2f of %.2f GiB of the node's memory were in use (limit %u %%), %.2f GiB of "
        "it by the object store",
        (double)node->memory->used / GIB, (double)node->memory->total / GIB,
        node->memory->watch.limit, (double)stats.used / GIB);
}

static void end_worker(crti_node_t *node, crti_process_t *p,
                       const crti_memory_worker_t *worker,
                       const crti_memory_verdict_t *verdict)
{
    char state[200];
    const char *since = verdict->in_call            ? "lately in its call"
                        : crti_id_is_zero(p->actor) ? "in its last tasks"
                                                    : "since the actor began";

    describe(node, state, sizeof(state));
    crti_process_explain(
        p,
        "out of memory: %s; this worker had %.2f GiB and grew most, by %.2f GiB "
        "%s; " ADVICE,
        state, (double)worker->bytes / GIB, (double)verdict->grown / GIB, since);
    node->memory->ended++;
    crti_process_kill(p);
}

static void warn(crti_node_t *node, const crti_buffer_t *workers)
{
    const crti_memory_worker_t *w = (const void *)workers->data;
    char state[200];
    uint64_t sum = 0;

    for (size_t i = 0; i < workers->size / sizeof(*w); i++)
        sum += w[i].bytes;
    describe(node, state, sizeof(state));
    crti_log(CRTI_LOG_WARN, "memory",
             "%s; its %zu workers have %.2f GiB and did not grow: none is ended", state,
             workers->size / sizeof(*w), (double)sum / GIB);
}

static void on_time(void *user)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t workers = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t processes = {0};
    crti_node_t *node = user;
    crti_memory_watch_t *watch = &node->memory->watch;
    crti_memory_t memory;
    crti_memory_level_t level;
    crti_memory_verdict_t verdict;
    crti_process_t *process;
    const crti_memory_worker_t *worker;

    crti_memory_read(crti_host_root(), &memory);
    level = crti_memory_tightest(&memory);
    node->memory->used = level.used;
    node->memory->total = level.total;
    if (crti_memory_watch_wants(watch, level.used, level.total) &&
        look_at_all(node, &workers, &processes) != CRT_OK)
        workers.size = 0;
    worker = (const void *)workers.data;
    verdict = crti_memory_watch_read(watch, crti_node_now(node), level.used, level.total,
                                     worker, workers.size / sizeof(*worker));
    crti_loop_start(node->loop, &node->memory->timer, verdict.next_ns);
    if (verdict.verb == CRTI_MEMORY_WARN)
        warn(node, &workers);
    if (verdict.verb != CRTI_MEMORY_END && verdict.verb != CRTI_MEMORY_AWAIT)
        return;
    memcpy(&process, processes.data + verdict.worker * sizeof(process), sizeof(process));
    node->memory->ending = process->id;
    if (verdict.verb == CRTI_MEMORY_END)
        end_worker(node, process, &worker[verdict.worker], &verdict);
}

bool crti_memory_kernel_killed(crti_node_t *node)
{
    uint64_t kills = crti_memory_kills(crti_host_root());
    bool more = kills > node->memory->kills;

    node->memory->kills = kills;
    return more;
}

void crti_memory_figures(const crti_node_t *node, uint64_t *used_out, uint64_t *total_out,
                         uint64_t *ended_out)
{
    *used_out = node->memory->used;
    *total_out = node->memory->total;
    *ended_out = node->memory->ended;
}

crt_status_t crti_memory_start(crti_node_t *node)
{
    crti_memory_watch_init(&node->memory->watch, (unsigned)CRTI_LIMIT(memory_limit));
    node->memory->kills = crti_memory_kills(crti_host_root());
    node->memory->timer = (crti_timer_t){.on_expired = on_time, .user = node};
    return crti_loop_start(node->loop, &node->memory->timer, crti_node_now(node));
}
