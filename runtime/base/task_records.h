/* SPDX-License-Identifier: Apache-2.0 */
/* Task records: entries of task events (task_events.h) as the bytes in which a node tells the head
 * of them.
 *
 * Where it sits
 *     node/dispatch/task_rows.c -> [ base/task_records.c ] -> STATE_ANSWER -> [ base/task_records.c
 *     ] -> control/rows/task_rows.c
 *
 *     dropped (u64), then each record:
 *     what is there (u16), state, kind (u8), owner (id), number, attempt (u64), attempts, pid,
 *     status (u32), [parent owner, parent (u64)], [actor], [worker], [node], [job], the times that
 *     are there (u64), [log from, to (u64)], name, text (u8 length each)
 *
 * Numbers are little endian. Times are nanoseconds since 1970 here: another host can't read this
 * one's clock. Trust: the decoder takes any bytes; what it gives is as sound as what crti_task_read
 * does.
 */
#ifndef CRTI_BASE_TASK_RECORDS_H
#define CRTI_BASE_TASK_RECORDS_H

#include "runtime/base/buffer.h"
#include "runtime/base/task_events.h"

/* An entry, and whose ring it is from. */
typedef struct crti_task_record {
    crti_task_event_t event;
    crti_id_t process, job; /* the process is not told */
} crti_task_record_t;

/* Begins the bytes: how many attempts are not among them. */
crt_status_t crti_task_records_begin(uint64_t dropped, crti_buffer_t *out);
crt_status_t crti_task_records_add(const crti_task_record_t *record, crti_buffer_t *out);

/* CRT_ERR_PROTOCOL: these are no such bytes. `*rest` is what crti_task_records_next goes on
 * from. */
crt_status_t crti_task_records_open(crti_span_t bytes, uint64_t *dropped_out,
                                    crti_span_t *rest);
/* CRT_ERR_NOT_FOUND: that was the last one; CRT_ERR_PROTOCOL: the rest is no record. */
crt_status_t crti_task_records_next(crti_span_t *rest, crti_task_record_t *record_out);

#endif
