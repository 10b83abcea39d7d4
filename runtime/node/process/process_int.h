/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of process/, which its own files see. */
#ifndef CRTI_NODE_PROCESS_INT_H
#define CRTI_NODE_PROCESS_INT_H

#include "runtime/node/process/context.h"
#include "runtime/node/process/memory_watch.h"
#include "runtime/node/process/metric_totals.h"
#include "runtime/node/process/process.h"
#include "runtime/node/process/task_archive.h"

struct crti_processes {
    const crti_process_handlers_t *handlers;
    crti_map_t by_id;
    crti_map_t by_pid;                    /* workers whose pid is known */
    unsigned char slots[CRTI_NODE_SLOTS]; /* 1: taken */
    unsigned slots_full; /* 1 ... this one are taken, or were not free when looked at */
    crti_offload_t *offload; /* NULL: nothing was offloaded yet */
    bool cannot_offload;     /* was told */
    crti_task_archive_t tasks;
    crti_metric_totals_t metrics;
    size_t offloaded_count;
    crti_timer_t stall_timer;
    uint64_t host_fresh_ns; /* until when the host is known to have room for workers */
};

struct crti_node_memory {
    crti_memory_watch_t watch;
    crti_timer_t timer;
    uint64_t used, total; /* at the last reading */
    uint64_t ended;       /* workers, for lack of memory */
    crti_id_t ending;     /* the last of them until it is gone */
    uint64_t kills;       /* of the kernel, when last looked at */
};

#endif
