/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics page: shared memory in which a process counts and measures what its program wants to see
 * in /metrics. Its node reads it when somebody asks, and once more when the process has died.
 *
 * Where it sits
 *     core/client/metrics_api.c (crt_metrics.h), collective/ -> [ page, behind the blackboard ] ->
 *     node/process/metric_totals.c
 * Threads
 *     Any thread writes values, with atomic operations. A metric is made under a lock of the
 *     process and shown to the reader by its kind, last.
 * Trust
 *     The page belongs to the process: its reader takes any bytes.
 */
#ifndef CRTI_BASE_METRICS_H
#define CRTI_BASE_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/crt_base.h"

#define CRTI_METRICS        64 /* of a process */
#define CRTI_METRIC_NAME    64 /* bytes with the final zero */
#define CRTI_METRIC_HELP    128
#define CRTI_METRIC_LABELS  192
#define CRTI_METRIC_BUCKETS 20 /* and one more: what is above them */
#define CRTI_METRIC_RECENT  20 /* values of a gauge that are kept */

typedef enum crti_metric_kind {
    CRTI_METRIC_NONE,
    CRTI_METRIC_COUNTER,
    CRTI_METRIC_GAUGE,
    CRTI_METRIC_HISTOGRAM,
    CRTI_METRIC_KINDS
} crti_metric_kind_t;

/* What makes two metrics the same one. Texts are zero-filled to their end. */
typedef struct crti_metric_name {
    char name[CRTI_METRIC_NAME];
    char labels[CRTI_METRIC_LABELS]; /* a="b",c="d": as Prometheus writes them */
} crti_metric_name_t;

/* A value that a gauge had. set_ns is 0 while it is written. */
typedef struct crti_metric_slot {
    _Atomic uint64_t set_ns, value;
} crti_metric_slot_t;

typedef struct crti_metric {
    _Atomic uint32_t kind;
    uint32_t bucket_count;
    crti_metric_name_t id;
    char help[CRTI_METRIC_HELP];
    /* bits of a double; of a histogram: the sum of what was observed */
    _Atomic uint64_t value;
    _Atomic uint64_t set_ns; /* of a gauge: CLOCK_MONOTONIC; 0: it has no value yet */
    union {
        struct { /* a histogram */
            double bounds[CRTI_METRIC_BUCKETS];
            _Atomic uint64_t counts[CRTI_METRIC_BUCKETS + 1];
        };
        struct
        { /* a gauge: how often it was set, and the last times, at sets % CRTI_METRIC_RECENT */
            _Atomic uint64_t sets;
            crti_metric_slot_t recent[CRTI_METRIC_RECENT];
        };
    };
} crti_metric_t;

typedef struct crti_metrics {
    _Atomic uint32_t count;
    _Alignas(64) crti_metric_t metric[CRTI_METRICS];
} crti_metrics_t;

/* ------------------------------------------------------------------ writing */

/* CRT_ERR_INVALID: a name that Prometheus does not take, or that begins with crt_, as the library's
 * own do. */
crt_status_t crti_metric_check_name(const char *name);
/* "a=b,c=d" as a="b",c="d". CRT_ERR_INVALID: no such list, a name that is not allowed or given
 * twice, a value that is no UTF-8, too long. */
crt_status_t crti_metric_labels(const char *text, char out[CRTI_METRIC_LABELS]);
/* A sample of one would bear the name of one of the other. */
bool crti_metric_share_family(const char *a, crti_metric_kind_t a_kind, const char *b,
                              crti_metric_kind_t b_kind);
/* The one of that name and labels, made when there is none: one caller at a time. CRT_ERR_INVALID:
 * there is one of that name and another kind, or with other buckets, or one that is shown under
 * that name; CRT_ERR_NO_MEMORY: there are CRTI_METRICS. */
crt_status_t crti_metric_make(crti_metrics_t *metrics, const crti_metric_t *like,
                              crti_metric_kind_t kind, crti_metric_t **metric_out);
void crti_metric_add(crti_metric_t *metric, double amount);
void crti_metric_set(crti_metric_t *metric, double value, uint64_t now_ns);
void crti_metric_observe(crti_metric_t *metric, double value);

/* ------------------------------------------------------------------ reading */

/* A value of a gauge, the `number`th that was set, from 0 on. */
typedef struct crti_metric_record {
    uint64_t number, set_ns;
    double value;
} crti_metric_record_t;

/* A copy of one, checked. A gauge that was not set yet has no value, and is not there. */
typedef struct crti_metric_view {
    crti_metric_kind_t kind;
    crti_metric_name_t id;
    char help[CRTI_METRIC_HELP];
    unsigned bucket_count;
    double bounds[CRTI_METRIC_BUCKETS], value;
    uint64_t set_ns, counts[CRTI_METRIC_BUCKETS + 1];
    unsigned recent_count; /* of a gauge, the oldest first */
    crti_metric_record_t recent[CRTI_METRIC_RECENT];
} crti_metric_view_t;

/* The next one from `*cursor` on (0 at first); false: there is no more. */
bool crti_metric_read(const crti_metrics_t *metrics, size_t *cursor,
                      crti_metric_view_t *view_out);
/* Adds what `from`, of the same name, tells: sums of counters and histograms, the newest of gauges.
 * False: it is of another kind, or has other buckets. */
bool crti_metric_merge(crti_metric_view_t *into, const crti_metric_view_t *from);

#endif
