/* SPDX-License-Identifier: Apache-2.0 */
/* What programs count, by job and actor. See metric_totals.h. */
#include "runtime/node/process/metric_totals.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/node/process/process_int.h"

#define TOTALS_MAX 4096
#define KEPT_NS    (600 * CRTI_S)

void crti_metric_totals_init(crti_metric_totals_t *totals)
{
    *totals = (crti_metric_totals_t){0};
    crti_map_init(&totals->by_key, sizeof(crti_metric_key_t));
}

void crti_metric_totals_fini(crti_metric_totals_t *totals)
{
    CRTI_MAP_FOREACH (crti_metric_total_t, total, &totals->by_key)
        free(total);
    crti_map_fini(&totals->by_key);
}

static crti_metric_total_t *add(crti_metric_totals_t *totals,
                                const crti_metric_key_t *key,
                                const crti_metric_view_t *view)
{
    crti_metric_total_t *total = crti_map_get(&totals->by_key, key);

    if (total)
        return crti_metric_merge(&total->view, view) ? total : NULL;
    total = totals->by_key.count < TOTALS_MAX ? calloc(1, sizeof(*total)) : NULL;
    if (!total || crti_map_put(&totals->by_key, key, total) != CRT_OK) {
        free(total);
        return NULL;
    }
    total->key = *key;
    total->view = *view;
    return total;
}

static void add_process(crti_metric_totals_t *totals, const crti_process_t *process,
                        uint64_t now_ns, bool is_dead)
{
    crti_metric_key_t key = {.job = process->job_id, .actor = process->actor};
    crti_metric_view_t view;
    size_t cursor = 0;

    while (crti_metric_read(crti_board_metrics(process->board), &cursor, &view)) {
        crti_metric_total_t *total;

        key.id = view.id;
        total = add(totals, &key, &view);
        if (total == NULL) {
            totals->refused++;
            continue;
        }
        total->used_ns = now_ns;
        total->is_past = is_dead && view.kind == CRTI_METRIC_GAUGE;
    }
}

static void add_calls(crti_call_figures_t *f, const crti_process_t *process)
{
    const crti_task_ring_t *ring = crti_board_events(process->board);

    f->made += atomic_load_explicit(&ring->made, memory_order_relaxed);
    f->failed += atomic_load_explicit(&ring->failed, memory_order_relaxed);
    f->run += atomic_load_explicit(&process->board->calls, memory_order_relaxed);
    f->unrecorded += atomic_load_explicit(&ring->skipped, memory_order_relaxed);
}

static uint64_t word(const _Atomic uint64_t *of)
{
    return atomic_load_explicit(of, memory_order_relaxed);
}

/* Of what a process says, which may be anything: JSON has no larger number. */
static uint64_t sum(uint64_t a, uint64_t b)
{
    return b > INT64_MAX - a ? INT64_MAX : a + b;
}

crti_lineage_figures_t crti_metric_lineage(const crti_node_t *node)
{
    crti_lineage_figures_t all = node->processes->metrics.lineage;

    CRTI_MAP_FOREACH (const crti_process_t, p, &node->processes->by_id) {
        uint64_t bytes = p->board ? word(&p->board->lineage_bytes) : 0;

        if (!p->board)
            continue;
        all.bytes = sum(all.bytes, bytes);
        all.limit = sum(all.limit, bytes ? word(&p->board->lineage_limit) : 0);
        all.forgotten = sum(all.forgotten, word(&p->board->lineage_forgotten));
    }
    return all;
}

void crti_metric_totals_take(crti_process_t *process)
{
    crti_metric_totals_t *totals = &process->node->processes->metrics;

    if (!process->board)
        return;
    add_process(totals, process, crti_node_now(process->node), true);
    add_calls(&totals->dead, process);
    totals->lineage.forgotten =
        sum(totals->lineage.forgotten, word(&process->board->lineage_forgotten));
    totals->processes_died++;
}

/* ---------------------------------------------------------------- all */

static void forget_old(crti_metric_totals_t *totals, uint64_t now_ns)
{
    crti_metric_total_t *old;

    do {
        old = NULL;
        CRTI_MAP_FOREACH (crti_metric_total_t, total, &totals->by_key)
            if (now_ns > total->used_ns + KEPT_NS)
                old = total;
        if (old)
            crti_map_remove(&totals->by_key, &old->key);
        free(old);
    } while (old);
}

/* A part of a living process keeps the sum of the dead alive. */
static void note_use(crti_metric_totals_t *dead, const crti_metric_totals_t *all)
{
    CRTI_MAP_FOREACH (const crti_metric_total_t, total, &all->by_key) {
        crti_metric_total_t *kept = crti_map_get(&dead->by_key, &total->key);

        if (kept)
            kept->used_ns = total->used_ns;
    }
}

crt_status_t crti_metric_totals_all(crti_node_t *node, crti_metric_totals_t *totals_out)
{
    crti_metric_totals_t *dead = &node->processes->metrics;
    uint64_t now = crti_node_now(node);

    forget_old(dead, now);
    crti_metric_totals_init(totals_out);
    totals_out->dead = dead->dead;
    totals_out->lineage = crti_metric_lineage(node);
    totals_out->processes_died = dead->processes_died;
    totals_out->refused = dead->refused;
    CRTI_MAP_FOREACH (const crti_metric_total_t, total, &dead->by_key) {
        crti_metric_total_t *copy = add(totals_out, &total->key, &total->view);

        if (copy == NULL)
            return crt_raise(CRT_ERR_NO_MEMORY, "the metrics of this node");
        copy->used_ns = total->used_ns;
        copy->is_past = total->is_past;
    }
    CRTI_MAP_FOREACH (const crti_process_t, p, &node->processes->by_id) {
        if (!p->board)
            continue;
        add_process(totals_out, p, now, false);
        add_calls(&totals_out->dead, p);
    }
    note_use(dead, totals_out);
    return CRT_OK;
}
