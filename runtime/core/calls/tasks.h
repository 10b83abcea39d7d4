/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks: calls that go to leased workers. See submit.c; what to lease is decided in lease.c. */
#ifndef CRTI_CORE_CALLS_TASKS_H
#define CRTI_CORE_CALLS_TASKS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/environment.h"
#include "runtime/base/list.h"
#include "runtime/base/resources.h"
#include "runtime/base/scheduling.h"
#include "runtime/core/calls/backlog.h"
#include "runtime/core/calls/calls.h"
#include "runtime/core/calls/lease.h"
#include "runtime/net/channel.h"

/* What a task needs of the node that runs it. */
typedef struct crti_task_shape {
    crti_resources_t resources;
    int64_t if_infeasible;           /* CRTI_INFEASIBLE */
    const crti_scheduling_t *how;    /* of a pool: its own, or crti_scheduling_default */
    crti_environment_t *environment; /* of a pool: kept; NULL: the job's */
    bool captures_children;          /* what it makes is in its placement group, too */
    crti_id_t prefer; /* the node with most bytes of their arguments, zero: any */
    crti_id_t avoid;  /* of second runs (backup.h): where the first one is; zero: none */
} crti_task_shape_t;

/* Tasks of one shape. */
struct crti_task_pool {
    crti_list_t link; /* core->calls->task_pools */
    crti_core_t *core;
    crti_task_shape_t shape;
    crti_scheduling_t how;
    crti_lease_pool_t leases;
    crti_list_t queue;      /* crti_pending_t.link: ready to be sent; */
    crti_backlog_t backlog; /* behind them, when they are many: the rest */
    size_t queue_bytes;     /* of all pools that have this one as their base */
    /* of tasks of the same shape without `prefer`, itself for these */
    crti_task_pool_t *base;
    /* of this pool: pending calls, lineages, requests for leases that were not answered, threads
     * that wait for room */
    unsigned users;
    crt_placement_group_t *group; /* held; NULL: none */
    crti_id_t bundle_node;        /* where its next lease is asked for */
    unsigned turn;                /* of its bundles */
    uint64_t asked_ns, retry_ns, pause_ns;
    uint64_t refused_version; /* of the group, when a node lacked its bundle last */
    char reason[160];         /* for waiting, since the last grant; shown, */
    bool is_told;
    uint64_t tell_ns; /* but not before: turns come and go */
    /* when its node said last that all workers are in use, since the last grant; 0: it did not */
    uint64_t lacks_worker_ns;
};

struct crti_task_lease {
    crti_lease_t lease;
    crti_task_pool_t *pool;
    crti_id_t id;
    crti_id_t node;
    crti_remote_t *remote; /* HELD, STUCK */
    bool retires;          /* its worker takes no more tasks, and ends */
};

/* The tasks of that shape; found or made. */
crt_status_t crti_task_pool(crti_core_t *core, const crti_task_shape_t *shape,
                            crti_task_pool_t **pool_out);
void crti_task_submit(crti_pending_t *pending); /* its record is built */
crt_status_t crti_task_room(crti_task_pool_t *pool, bool try_only); /* as for actors */
void crti_task_pump(crti_task_pool_t *pool);
/* A handle of one of its results was dropped: if nobody is left who could ask for one, and it has
 * not been sent, it never runs, and is gone. */
void crti_task_forsaken(crt_ref_t *result);
/* The worker that runs it is to end with it: nothing more is sent there. */
void crti_task_close_lease(const crti_pending_t *pending);
/* An answer came: `given_back` means run it elsewhere. */
void crti_task_answered(crti_pending_t *pending, bool given_back);
/* The ref is made again: tasks that were sent and wait for it shall not hold up its own. */
void crti_tasks_give_back(crti_core_t *core, const crt_ref_t *ref);
/* Others wait: what runs there ends, all else of it is sent elsewhere; or what is to run there,
 * too. */
void crti_task_yield_lease(crti_core_t *core, const crti_msg_lease_yield_t *message);
void crti_lease_message(crti_core_t *core, const crti_message_t *message);
/* It takes no more tasks: its lease goes back when what it has begun was answered. */
void crti_tasks_worker_retires(crti_core_t *core, const crti_remote_t *remote);
void crti_leases_lost(crti_core_t *core, crti_remote_t *remote);
/* Something of that placement group has changed. */
void crti_tasks_of_placement_group(crti_core_t *core, crti_id_t group);
void crti_tasks_tick(crti_core_t *core, uint64_t now_ns);
void crti_tasks_end(crti_core_t *core);
void crti_tasks_fini(crti_core_t *core);
/* Whether crti_task_take would give one; `is_late`: only because it gets no worker. */
bool crti_task_may_take(crti_core_t *core, crt_ref_t *ref, bool is_late);
/* The task that makes this ref, if it can be run by the worker's own thread now. */
crti_pending_t *crti_task_take(crti_core_t *core, crt_ref_t *ref);

#endif
