/* SPDX-License-Identifier: Apache-2.0 */
/* Task archive: what became of calls (base/task_events.h), of the processes that live and of the
 * last ones that died.
 *
 * Where it sits
 *     the rings of local processes -> [ process/task_archive.c ] -> dispatch/task_rows.c
 *     the end of a process         -> [ its entries are kept: the oldest go ]
 * Threads: the loop.
 */
#ifndef CRTI_NODE_TASK_ARCHIVE_H
#define CRTI_NODE_TASK_ARCHIVE_H

#include "runtime/base/buffer.h"
#include "runtime/base/task_records.h"
#include "runtime/node/types.h"

#define CRTI_TASK_ARCHIVE 16384 /* entries of dead processes */

typedef struct crti_task_archive {
    crti_buffer_t records; /* crti_task_record_t; used round when it is full */
    size_t next;
    uint64_t overwritten; /* entries that are gone, here and in the rings of the dead */
    uint64_t skipped;     /* attempts that the dead did not record */
} crti_task_archive_t;

/* How many entries the ring of the process has. */
size_t crti_task_slots(const crti_process_t *process);
/* The process is gone: its entries are kept. What had not ended has failed. */
void crti_task_archive_take(crti_process_t *process);
void crti_task_archive_fini(crti_task_archive_t *archive);

/* The newest entries, at most `limit`, the newest first, as an array of crti_task_record_t; and how
 * many attempts are not among them. */
crt_status_t crti_task_archive_list(const crti_node_t *node, size_t limit,
                                    crti_buffer_t *records_out, uint64_t *dropped_out);

/* When the entry's attempt began, as far as it was seen. */
uint64_t crti_task_began_ns(const crti_task_event_t *event);

#endif
