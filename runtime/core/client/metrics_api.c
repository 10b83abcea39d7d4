/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of the user's program: crt_metrics.h.
 *
 * Where it sits
 *     user code -> [ core/client/metrics_api.c ] -> base/metrics.c -> the page of this process ->
 *     its node
 * Threads
 *     One is made under the core's lock; values are written without.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/metrics.h"
#include "runtime/core/client/own_metrics.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/crt_metrics.h"

static crt_status_t describe(crti_metric_t *like, const char *name, const char *help,
                             const char *labels)
{
    crt_status_t status = crti_metric_check_name(name);

    if (status != CRT_OK)
        return status;
    if (!help || !*help || strlen(help) >= sizeof(like->help))
        return crt_raise(CRT_ERR_INVALID, "metric %s: its help has 1 to %zu bytes", name,
                         sizeof(like->help) - 1);
    memcpy(like->id.name, name, strlen(name));
    memcpy(like->help, help, strlen(help));
    return crti_metric_labels(labels, like->id.labels);
}

/* Of a process that has joined a cluster; `core` is entered. */
static crt_status_t make_in(crti_core_t *core, crti_metric_t *like,
                            crti_metric_kind_t kind, crti_metric_t **metric_out)
{
    crt_status_t status =
        core->board_bytes >= CRTI_BOARD_EVENTS
            ? crti_metric_make(crti_board_metrics(core->board), like, kind, metric_out)
            : crt_raise(CRT_ERR_UNSUPPORTED, "the node has no room for metrics");

    core->has_metrics = core->has_metrics || status == CRT_OK;
    return status;
}

static crt_status_t make(crti_metric_t *like, crti_metric_kind_t kind, const char *name,
                         const char *help, const char *labels, crti_metric_t **metric_out)
{
    crti_core_t *core;
    crt_status_t status = describe(like, name, help, labels);

    if (status != CRT_OK)
        return status;
    core = crti_enter();
    if (!core)
        return crti_entry_status();
    status = make_in(core, like, kind, metric_out);
    crti_leave(core);
    return status;
}

crt_status_t crt_counter(const char *name, const char *help, const char *labels,
                         crt_counter_t **counter_out)
{
    crti_metric_t like = {0}, *metric = NULL;
    crt_status_t status = make(&like, CRTI_METRIC_COUNTER, name, help, labels, &metric);

    if (status == CRT_OK)
        *counter_out = (crt_counter_t *)metric;
    return status;
}

void crt_counter_add(crt_counter_t *counter, double amount)
{
    if (counter && amount >= 0 && isfinite(amount))
        crti_metric_add((crti_metric_t *)counter, amount);
}

crt_status_t crt_gauge(const char *name, const char *help, const char *labels,
                       crt_gauge_t **gauge_out)
{
    crti_metric_t like = {0}, *metric = NULL;
    crt_status_t status = make(&like, CRTI_METRIC_GAUGE, name, help, labels, &metric);

    if (status == CRT_OK)
        *gauge_out = (crt_gauge_t *)metric;
    return status;
}

void crt_gauge_set(crt_gauge_t *gauge, double value)
{
    if (gauge)
        crti_metric_set((crti_metric_t *)gauge, value, crti_now_ns());
}

crt_status_t crt_histogram(const char *name, const char *help, const char *labels,
                           const double *bounds, size_t count,
                           crt_histogram_t **histogram_out)
{
    crti_metric_t like = {0}, *metric = NULL;
    crt_status_t status;

    if (!bounds || count == 0 || count > CRTI_METRIC_BUCKETS)
        return crt_raise(CRT_ERR_INVALID, "a histogram has 1 to %d bounds, not %zu",
                         CRTI_METRIC_BUCKETS, count);
    for (size_t i = 0; i < count; i++)
        if (!isfinite(bounds[i]) || (i && !(bounds[i] > bounds[i - 1])))
            return crt_raise(CRT_ERR_INVALID, "bound %zu of histogram %s does not grow",
                             i + 1, name ? name : "");
    memcpy(like.bounds, bounds, count * sizeof(*bounds));
    like.bucket_count = (uint32_t)count;
    status = make(&like, CRTI_METRIC_HISTOGRAM, name, help, labels, &metric);
    if (status == CRT_OK)
        *histogram_out = (crt_histogram_t *)metric;
    return status;
}

void crt_histogram_observe(crt_histogram_t *histogram, double value)
{
    if (histogram && !isnan(value))
        crti_metric_observe((crti_metric_t *)histogram, value);
}

/* ------------------------------------------------------------------ the library's own */

crti_metric_t *crti_own_counter(const char *name, const char *help, const char *labels)
{
    crti_metric_t like = {0}, *metric = NULL;
    crti_core_t *core = crti_enter_quiet();

    if (!core)
        return NULL;
    snprintf(like.id.name, sizeof(like.id.name), "%s", name);
    snprintf(like.help, sizeof(like.help), "%s", help);
    if (crti_metric_labels(labels, like.id.labels) != CRT_OK ||
        make_in(core, &like, CRTI_METRIC_COUNTER, &metric) != CRT_OK)
        metric = NULL;
    crti_leave(core);
    return metric;
}
