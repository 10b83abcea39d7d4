/* SPDX-License-Identifier: Apache-2.0 */
/* What became of calls. See task_archive.h. */
#include "runtime/node/process/task_archive.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/node/process/process_int.h"

size_t crti_task_slots(const crti_process_t *process)
{
    return process->role == CRTI_ROLE_DRIVER ? CRTI_TASK_SLOTS_DRIVER
                                             : CRTI_TASK_SLOTS_WORKER;
}

static const crti_task_ring_t *ring_of(const crti_process_t *process)
{
    return process->board ? crti_board_events(process->board) : NULL;
}

static uint64_t lost(const crti_task_ring_t *ring)
{
    return atomic_load_explicit(&ring->overwritten, memory_order_relaxed) +
           atomic_load_explicit(&ring->skipped, memory_order_relaxed);
}

uint64_t crti_task_began_ns(const crti_task_event_t *event)
{
    for (int i = 0; i < CRTI_TASK_STATES; i++)
        if (event->at_ns[i])
            return event->at_ns[i];
    return 0;
}

/* ---------------------------------------------------------------- the dead */

static void put(crti_task_archive_t *archive, const crti_task_record_t *record)
{
    crti_task_record_t *records;

    if (archive->records.size < CRTI_TASK_ARCHIVE * sizeof(*record)) {
        if (crti_buffer_append(&archive->records, record, sizeof(*record)) != CRT_OK)
            archive->overwritten++;
        return;
    }
    records = (crti_task_record_t *)(void *)archive->records.data;
    records[archive->next] = *record;
    archive->next = (archive->next + 1) % CRTI_TASK_ARCHIVE;
    archive->overwritten++;
}

static void end_with_process(const crti_process_t *process, crti_task_event_t *event)
{
    static const char who_ran[] = "the process that ran it has ended",
                      who_called[] = "the process that made the call has ended";
    const char *text = event->is_run ? who_ran : who_called;

    event->status = CRT_ERR_WORKER_DIED;
    crti_task_set_text(event->text, sizeof(event->text), text, strlen(text));
    if (event->is_run)
        event->log_to = process->log_flushed;
    crti_task_set_state(event, CRTI_TASK_FAILED, crti_node_now(process->node));
}

void crti_task_archive_take(crti_process_t *process)
{
    crti_task_archive_t *archive = &process->node->processes->tasks;
    const crti_task_ring_t *ring = ring_of(process);
    crti_task_record_t record = {.process = process->id, .job = process->job_id};
    size_t cursor = 0;

    if (!ring)
        return;
    while (crti_task_read(ring, crti_task_slots(process), true, &cursor, &record.event)) {
        if (!crti_task_has_ended(&record.event))
            end_with_process(process, &record.event);
        put(archive, &record);
    }
    archive->skipped += atomic_load_explicit(&ring->skipped, memory_order_relaxed);
    archive->overwritten +=
        atomic_load_explicit(&ring->overwritten, memory_order_relaxed);
}

void crti_task_archive_fini(crti_task_archive_t *archive)
{
    crti_buffer_fini(&archive->records);
}

/* ---------------------------------------------------------------- all */

/* The newest of what was offered: twice as many are kept, and the older half goes when there is no
 * room. */
typedef struct newest {
    crti_buffer_t *records;
    size_t limit;
    uint64_t dropped;
    crt_status_t status;
} newest_t;

static int newer(const void *a, const void *b)
{
    uint64_t x = crti_task_began_ns(&((const crti_task_record_t *)a)->event),
             y = crti_task_began_ns(&((const crti_task_record_t *)b)->event);

    return (x < y) - (x > y);
}

static void cut(newest_t *n)
{
    size_t count = n->records->size / sizeof(crti_task_record_t);

    if (count)
        qsort(n->records->data, count, sizeof(crti_task_record_t), newer);
    if (count <= n->limit)
        return;
    n->dropped += count - n->limit;
    n->records->size = n->limit * sizeof(crti_task_record_t);
}

static void offer(newest_t *n, const crti_task_record_t *record)
{
    if (n->records->size >= 2 * n->limit * sizeof(*record))
        cut(n);
    if (n->status == CRT_OK)
        n->status = crti_buffer_append(n->records, record, sizeof(*record));
}

static void offer_living(newest_t *n, const crti_process_t *process)
{
    const crti_task_ring_t *ring = ring_of(process);
    crti_task_record_t record = {.process = process->id, .job = process->job_id};
    size_t cursor = 0;

    if (!ring)
        return;
    n->dropped += lost(ring);
    while (crti_task_read(ring, crti_task_slots(process), false, &cursor, &record.event))
        offer(n, &record);
}

crt_status_t crti_task_archive_list(const crti_node_t *node, size_t limit,
                                    crti_buffer_t *records_out, uint64_t *dropped_out)
{
    const crti_task_archive_t *archive = &node->processes->tasks;
    const crti_task_record_t *dead =
        (const crti_task_record_t *)(const void *)archive->records.data;
    newest_t n = {.records = records_out,
                  .limit = limit,
                  .dropped = archive->overwritten + archive->skipped};

    for (size_t i = 0; i < archive->records.size / sizeof(*dead); i++)
        offer(&n, &dead[i]);
    CRTI_MAP_FOREACH (const crti_process_t, p, &node->processes->by_id)
        offer_living(&n, p);
    cut(&n);
    *dropped_out = n.dropped;
    return n.status;
}
