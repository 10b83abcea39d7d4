/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics text: what the head answers to "metrics" (docs/design/state.md), as Prometheus reads it.
 *
 * Where it sits
 *     STATE_ANSWER -> http/endpoints.c -> [ http/metrics_text.c ] -> GET /metrics
 * Threads: any; no state.
 */
#ifndef CRTI_HTTP_METRICS_TEXT_H
#define CRTI_HTTP_METRICS_TEXT_H

#include "runtime/base/buffer.h"

#include <jansson.h>

#define CRTI_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Appends all families. */
crt_status_t crti_metrics_text(const json_t *answer, crti_buffer_t *out);

#endif
