/* SPDX-License-Identifier: Apache-2.0 */
/* What this node tells the head of calls: its part of STATE_QUERY "tasks" (docs/design/state.md), a
 * list of task records (base/task_records.h) and of the JSON of transfers. The head joins what the
 * caller's node and the worker's node say of one attempt (control/rows/task_rows.c).
 *
 * Where it sits
 *     state.c -> [ node/dispatch/task_rows.c ] -> process/task_archive.c
 * Threads: the loop.
 */
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/json_write.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/objects/pull_table.h"
#include "runtime/node/objects/transfer.h"
#include "runtime/node/objects/transfer_log.h"
#include "runtime/node/process/task_archive.h"

/* Both clocks of one moment. */
typedef struct wall {
    uint64_t wall_ns, now_ns;
} wall_t;

/* Since 1970, of a moment of this host's monotonic clock; 0: it has not come. */
static uint64_t wall_ns(const wall_t *wall, uint64_t at_ns)
{
    return at_ns ? wall->wall_ns - (wall->now_ns - at_ns) : 0;
}

static crt_status_t put_records(crti_node_t *node, size_t limit, const wall_t *wall,
                                crti_buffer_t *out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t records = {0};
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crti_task_record_t *all;
    uint64_t dropped;
    crt_status_t status = crti_task_archive_list(node, limit, &records, &dropped);

    if (status == CRT_OK)
        status = crti_task_records_begin(dropped, &bytes);
    all = (crti_task_record_t *)(void *)records.data;
    for (size_t i = 0; i < records.size / sizeof(*all) && status == CRT_OK; i++) {
        for (int k = 0; k < CRTI_TASK_STATES; k++)
            all[i].event.at_ns[k] = wall_ns(wall, all[i].event.at_ns[k]);
        status = crti_task_records_add(&all[i], &bytes);
    }
    return status == CRT_OK ? crti_list_pack(out, bytes.data, bytes.size) : status;
}

/* One that was on its way when its process ended is not told: nobody waits for it any more. */
static bool is_told(crti_node_t *node, const crti_transfer_t *t)
{
    return t->ended_ns || crti_process_get(node, t->requester.process);
}

static void put_transfer(crti_json_writer_t *w, crti_node_t *node,
                         const crti_transfer_t *t, const wall_t *wall)
{
    crti_json_open(w, '{');
    crti_json_key(w, "object_id");
    crti_json_object_id(w, t->object);
    crti_json_key(w, "size");
    crti_json_integer(w, (int64_t)t->size);
    crti_json_key(w, "node_id");
    crti_json_text(w, node->hex);
    crti_json_key(w, "from_node_id");
    crti_json_id(w, t->from);
    crti_json_key(w, "worker_id");
    crti_json_id(w, t->requester.process);
    crti_json_key(w, "worker_pid");
    crti_json_integer(w, t->pid);
    crti_json_key(w, "job_id");
    crti_json_id(w, t->job);
    crti_json_key(w, "start_time");
    crti_json_ms(w, wall_ns(wall, t->begun_ns));
    crti_json_key(w, "end_time");
    if (t->ended_ns)
        crti_json_ms(w, wall_ns(wall, t->ended_ns));
    else
        crti_json_null(w);
    crti_json_key(w, "error_type");
    crti_json_text(w, t->status == CRT_OK ? "" : crt_status_name(t->status));
    crti_json_close(w, '}');
}

static crt_status_t put_transfers(crti_node_t *node, const wall_t *wall,
                                  crti_buffer_t *out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t json = {0};
    crti_json_writer_t w = {.out = &json};
    const crti_transfer_t *t;

    crti_json_open(&w, '[');
    for (size_t i = 0; (t = crti_pull_logged(node, i)) != NULL; i++)
        if (is_told(node, t))
            put_transfer(&w, node, t, wall);
    crti_json_close(&w, ']');
    return w.status == CRT_OK ? crti_list_pack(out, json.data, json.size) : w.status;
}

crt_status_t crti_task_rows(crti_node_t *node, size_t limit, crti_buffer_t *out)
{
    wall_t wall = {(uint64_t)crti_wall_ms() * CRTI_MS, crti_now_ns()};
    crt_status_t status = put_records(node, limit, &wall, out);

    return status == CRT_OK ? put_transfers(node, &wall, out) : status;
}
