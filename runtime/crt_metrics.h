/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of a program: what it counts and measures is shown by the dashboard's server at /metrics, for Prometheus.
 * Part of crt.h.
 *
 *     crt_counter_t *images;
 *     CRT_TRY(crt_counter("images_total", "Images that were read.", "set=train", &images));
 *     crt_counter_add(images, 1);
 *
 * shows crt_user_images_total{set="train",job_id="...",actor_id="...",class_name="...",node_id="..."}. What workers of one job
 * (or incarnations of one actor) on a node count under one name and label is summed, also when they have died; of a
 * gauge the value that was set last is shown, and nothing before it was set.
 *
 * Names and names of labels are letters, digits and _; a counter ends in _total (it is appended where it lacks). Units are
 * base units and part of the name: seconds, bytes. Labels are "name=value,name=value" or NULL, each name once; a value is UTF-8
 * without control characters.
 *
 * Functions may be called from any thread of a driver or worker, after crt_init. A process has at most 64 metrics.
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

/* A sum that only grows; the same one for the same name and labels. `help` says in a sentence what it is. The handle
 * is the library's: borrowed, valid until the process ends; what is added after crt_shutdown is shown to nobody.
 * CRT_ERR_INVALID: a name or label that Prometheus does not take, or there is a metric of that name and another
 * kind, or one that is shown under the same name (counter "jobs" and gauge "jobs_total"); CRT_ERR_NO_MEMORY: the process has 64; CRT_ERR_NOT_INITIALIZED. */
CRT_API crt_status_t crt_counter(const char *name, const char *help, const char *labels,
                                 crt_counter_t **counter_out);
/* Costs an atomic addition. A negative amount, or one that is not finite, is ignored, as is NULL. */
CRT_API void crt_counter_add(crt_counter_t *counter, double amount);

/* A value that goes up and down; as crt_counter. */
CRT_API crt_status_t crt_gauge(const char *name, const char *help, const char *labels,
                               crt_gauge_t **gauge_out);
CRT_API void crt_gauge_set(crt_gauge_t *gauge, double value);

/* How many values lie at or below each of `count` bounds (1 to 20, growing); as crt_counter, and CRT_ERR_INVALID when
 * there is one of that name with other bounds. */
CRT_API crt_status_t crt_histogram(const char *name, const char *help, const char *labels,
                                   const double *bounds, size_t count,
                                   crt_histogram_t **histogram_out);
CRT_API void crt_histogram_observe(crt_histogram_t *histogram, double value);

#ifdef __cplusplus
}
#endif

#endif
