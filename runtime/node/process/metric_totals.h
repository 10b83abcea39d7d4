/* SPDX-License-Identifier: Apache-2.0 */
/* Metric totals: what the programs of this node count (base/metrics.h), by job and actor, and what
 * its processes have called; of those that live and of those that have died.
 *
 * Where it sits
 *     the boards of local processes -> [ process/metric_totals.c ] -> dispatch/metric_rows.c
 * A total, or the last value of a gauge, of which no living process has a part is forgotten after
 * 10 minutes. Threads: the loop.
 */
#ifndef CRTI_NODE_METRIC_TOTALS_H
#define CRTI_NODE_METRIC_TOTALS_H

#include "runtime/base/board.h"
#include "runtime/base/map.h"
#include "runtime/node/types.h"

/* One metric of a job, or of one of its actors (else zero). */
typedef struct crti_metric_key {
    crti_id_t job, actor;
    crti_metric_name_t id;
} crti_metric_key_t;

typedef struct crti_metric_total {
    crti_metric_key_t key;
    crti_metric_view_t view;
    uint64_t used_ns; /* when a process had a part of it last */
    bool is_past;     /* a gauge that no living process has: its last value */
} crti_metric_total_t;

typedef struct crti_call_figures {
    uint64_t made, failed, run; /* calls */
    uint64_t unrecorded;        /* attempts without a task event */
} crti_call_figures_t;

/* What processes keep to make lost objects again. */
typedef struct crti_lineage_figures {
    uint64_t bytes, limit; /* of those that live and keep something */
    uint64_t forgotten;    /* calls and spare objects for which there was no room */
} crti_lineage_figures_t;

typedef struct crti_metric_totals {
    crti_map_t by_key; /* of the dead: crti_metric_total_t */
    crti_call_figures_t dead;
    crti_lineage_figures_t lineage; /* of the dead: `forgotten` */
    uint64_t processes_died;
    /* metrics that did not fit those of the same name, or found no room */
    uint64_t refused;
} crti_metric_totals_t;

void crti_metric_totals_init(crti_metric_totals_t *totals);
/* The process is gone: what it counted is kept. */
void crti_metric_totals_take(crti_process_t *process);
/* Everything, those that live included: `*totals_out` is the caller's, and freed by
 * crti_metric_totals_fini. */
crt_status_t crti_metric_totals_all(crti_node_t *node, crti_metric_totals_t *totals_out);
/* Those that have died included. */
crti_lineage_figures_t crti_metric_lineage(const crti_node_t *node);
void crti_metric_totals_fini(crti_metric_totals_t *totals);

#endif
