/* SPDX-License-Identifier: Apache-2.0 */
/* Worker lines: what workers print, on the terminal of their driver.
 *
 * Where it sits
 *     node_messages.c (LOG) -> [ core/client/worker_lines.c ] -> stdout, stderr; base/line_fold.c,
 *     ranks.c
 * Threads
 *     The core's lock.
 */
#ifndef CRTI_CORE_WORKER_LINES_H
#define CRTI_CORE_WORKER_LINES_H

#include "runtime/core/types.h"
#include "runtime/net/message.h"

/* Of a driver: by its options and by CRT_DEDUP_LOGS, which counts instead. CRT_ERR_INVALID: that is
 * neither 0 nor 1. */
crt_status_t crti_worker_lines_begin(crti_core_t *core, const crt_options_t *options);
void crti_worker_lines_came(crti_core_t *core, const crti_msg_log_t *message);
void crti_worker_lines_tick(crti_core_t *core, uint64_t now_ns);
/* No more come: what is held is shown. */
void crti_worker_lines_end(crti_core_t *core);

#endif
