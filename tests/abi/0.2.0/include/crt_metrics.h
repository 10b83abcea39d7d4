/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of a program: counters, gauges and histograms, which the server of the dashboard
 * publishes at /metrics for Prometheus. Part of crt.h.
 *
 *     crt_counter_t *images;
 *     CRT_TRY(crt_counter("images_total", "Images that were read.", "set=train", &images));
 *     crt_counter_add(images, 1);
 *
 * publishes
 * crt_user_images_total{set="train",job_id="...",actor_id="...",class_name="...",node_id="..."}.
 *
 * Values of one name and the same labels are combined over the workers of one job on a node, or
 * over the incarnations of one actor on a node, including processes that have died. Counters and
 * histograms are summed. For a gauge, the value that was set last is published; a gauge that was
 * never set is not published.
 *
 * Names of metrics and labels consist of letters, digits and _. The name of a metric has at most
 * 63 bytes and does not begin with a digit or crt_. The name of a counter ends in _total; the
 * library appends _total if missing. The name contains the unit, which is a base unit: seconds,
 * bytes. Labels are "name=value,name=value" or NULL, each name once, at most 191 bytes. A value is
 * UTF-8 without control characters. The labels job_id, actor_id, class_name, node_id, worker_id,
 * le, job, instance and names that begin with __ are reserved.
 *
 * Limit: a process has at most 64 metrics.
 *
 * Threads: every function here may be called from any thread of a driver or worker, after
 * crt_init.
 */
#ifndef CRT_METRICS_H
#define CRT_METRICS_H

#include "crt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct crt_counter crt_counter_t;
typedef struct crt_gauge crt_gauge_t;
typedef struct crt_histogram crt_histogram_t;

/* Makes a counter: a sum that only grows. Returns the same counter for the same name and labels.
 * `help` describes the metric in one sentence, 1 to 127 bytes. `labels` may be NULL. Stores a
 * handle in `*counter_out`. The library owns the handle; borrowed: valid until the process ends.
 * Values that the program adds after crt_shutdown are not published.
 *
 * Errors: CRT_ERR_INVALID, when Prometheus would not accept the name or a label, the help text has
 * not 1 to 127 bytes, a metric of this name and another kind exists, or a metric exists that is
 * published under the same name (counter "jobs" and gauge "jobs_total"); CRT_ERR_NO_MEMORY, when
 * the process has 64 metrics; CRT_ERR_UNSUPPORTED, when the node has no room for metrics;
 * CRT_ERR_NOT_INITIALIZED, before crt_init; CRT_ERR_FORKED, in a child process after fork. */
CRT_API crt_status_t crt_counter(const char *name, const char *help, const char *labels,
                                 crt_counter_t **counter_out);

/* Adds `amount` to a counter. The cost is one atomic addition. Does nothing if `counter` is NULL,
 * or `amount` is negative or not finite. */
CRT_API void crt_counter_add(crt_counter_t *counter, double amount);

/* Makes a gauge: a value that goes up and down. Returns the same gauge for the same name and
 * labels. `help` describes the metric in one sentence, 1 to 127 bytes. `labels` may be NULL.
 * Stores a handle in `*gauge_out`. The library owns the handle; borrowed: valid until the process
 * ends. Values that the program sets after crt_shutdown are not published.
 *
 * Errors: CRT_ERR_INVALID, when Prometheus would not accept the name or a label, the help text has
 * not 1 to 127 bytes, a metric of this name and another kind exists, or a metric exists that is
 * published under the same name (counter "jobs" and gauge "jobs_total"); CRT_ERR_NO_MEMORY, when
 * the process has 64 metrics; CRT_ERR_UNSUPPORTED, when the node has no room for metrics;
 * CRT_ERR_NOT_INITIALIZED, before crt_init; CRT_ERR_FORKED, in a child process after fork. */
CRT_API crt_status_t crt_gauge(const char *name, const char *help, const char *labels,
                               crt_gauge_t **gauge_out);

/* Sets the value of a gauge. Does nothing if `gauge` is NULL. */
CRT_API void crt_gauge_set(crt_gauge_t *gauge, double value);

/* Makes a histogram: for each bound, the number of observed values at or below the bound. `bounds`
 * has `count` finite numbers, 1 to 20, in growing order; the library copies them. Returns the same
 * histogram for the same name, labels and bounds. `help` describes the metric in one sentence, 1
 * to 127 bytes. `labels` may be NULL. Stores a handle in `*histogram_out`. The library owns the
 * handle; borrowed: valid until the process ends. Values that the program observes after
 * crt_shutdown are not published.
 *
 * Errors: CRT_ERR_INVALID, when Prometheus would not accept the name or a label, the help text has
 * not 1 to 127 bytes, a metric of this name and another kind exists, or a metric exists that is
 * published under the same name (counter "jobs" and gauge "jobs_total"), a histogram of this name
 * and these labels has other bounds, or the bounds are not finite and growing; CRT_ERR_NO_MEMORY,
 * when the process has 64 metrics; CRT_ERR_UNSUPPORTED, when the node has no room for metrics;
 * CRT_ERR_NOT_INITIALIZED, before crt_init; CRT_ERR_FORKED, in a child process after fork. */
CRT_API crt_status_t crt_histogram(const char *name, const char *help, const char *labels,
                                   const double *bounds, size_t count,
                                   crt_histogram_t **histogram_out);

/* Adds one observed value to a histogram. Does nothing if `histogram` is NULL or `value` is not a
 * number. */
CRT_API void crt_histogram_observe(crt_histogram_t *histogram, double value);

#ifdef __cplusplus
}
#endif

#endif
