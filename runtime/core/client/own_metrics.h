/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of the library itself on the page of a process's metrics (base/metrics.h); their names
 * begin with crt_. Threads: any. */
#ifndef CRTI_CORE_OWN_METRICS_H
#define CRTI_CORE_OWN_METRICS_H

#include "runtime/base/metrics.h"

/* NULL: this process has not joined a cluster, or has no room. Valid until the process ends. */
crti_metric_t *crti_own_counter(const char *name, const char *help, const char *labels);

#endif
