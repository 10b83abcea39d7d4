/* SPDX-License-Identifier: Apache-2.0 */
/* Operations and their bytes. See figures.h. */
#include "collective/figures.h"

#include <stdatomic.h>
#include <stdio.h>

#include "collective/operation_signature.h"
#include "runtime/core/client/own_metrics.h"

typedef struct counters {
    crti_metric_t *_Atomic operations, *_Atomic bytes, *_Atomic failures;
} counters_t;

static counters_t counters[CRT_COLLECTIVE_BARRIER + 1];

/* Looked up once: two threads that do so at once find the same. */
static crti_metric_t *counter(crti_metric_t *_Atomic *place, crt_collective_kind_t kind,
                              const char *name, const char *help)
{
    crti_metric_t *metric = atomic_load_explicit(place, memory_order_acquire);
    char labels[64];

    if (metric)
        return metric;
    snprintf(labels, sizeof(labels), "operation=%s",
             crti_operation_kind_name((int32_t)kind));
    metric = crti_own_counter(name, help, labels);
    if (metric)
        atomic_store_explicit(place, metric, memory_order_release);
    return metric;
}

static void add(crti_metric_t *metric, double amount)
{
    if (metric)
        crti_metric_add(metric, amount);
}

void crti_figures_count(const crti_step_t *step, crt_status_t status)
{
    counters_t *c = &counters[step->kind];

    if (status != CRT_OK) {
        add(counter(&c->failures, step->kind, "crt_collective_failures_total",
                    "Operations of collectives that have failed here."),
            1);
        return;
    }
    add(counter(&c->operations, step->kind, "crt_collective_operations_total",
                "Operations of collectives that members have completed."),
        1);
    if (step->count)
        add(counter(&c->bytes, step->kind, "crt_collective_bytes_total",
                    "Bytes of the tensors of these operations."),
            (double)step->count * (double)crt_dtype_size(step->dtype));
}
