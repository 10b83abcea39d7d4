/* SPDX-License-Identifier: Apache-2.0 */
/* Printed: what a call prints is on the driver's terminal before a get returns its result.
 *
 * Where it sits
 *     execute.c, after a call -> [ core/process/printed.c ] -> node daemon: LOG_FLUSH, which it
 *     answers when the lines, an
 *                                unfinished last one too, are on their way to the driver
 *     wait.c, before a value  -> [ core/process/printed.c ] <- blackboard: how many LOG messages
 *     the driver's node sent
 *     run_events.c, of a call -> [ core/process/printed.c ]: where its lines are in the log of the
 *     worker
 * Cost
 *     A call that prints nothing: three loads. glibc counts in a FILE's _offset what it wrote, once
 *     that is not negative (it is, of a pipe), so that nothing has to be asked of the system.
 * What is not seen
 *     write(2) to the descriptor, and what children print: their lines are shown when they come,
 *     and in the log they are those of the next call that prints.
 * Failure
 *     Each wait ends after print_timeout: a slow terminal or a node that is away delays no result
 *     for longer, and a worker whose last question has no answer yet asks no other.
 */
#ifndef CRTI_CORE_PRINTED_H
#define CRTI_CORE_PRINTED_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/core/types.h"

struct crti_core;

/* Part of crti_core_t, under its lock. */
struct crti_printed {
    bool is_flushing; /* the node was asked, and has not answered */
    /* of a driver: LOG messages that came; read without the lock, too */
    _Atomic uint64_t logs;
    /* of a worker: where its log ended when the node wrote it last, or CRTI_TASK_LOG_UNKNOWN */
    uint64_t log_end;
};

/* Of a worker, before it prints. */
void crti_printed_count(void);
/* What the call printed is on its way to the driver, whose node has counted it. */
void crti_printed_flush(struct crti_core *core);
/* All that the node has sent by now is shown. And whether it is already; without the lock. */
void crti_printed_show(struct crti_core *core);
bool crti_printed_are_shown(const struct crti_core *core);

/* A driver: a LOG message came. */
void crti_printed_came(crti_printed_t *printed);

#endif
