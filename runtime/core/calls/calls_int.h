/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of calls/, which its own files see. */
#ifndef CRTI_CORE_CALLS_CALLS_INT_H
#define CRTI_CORE_CALLS_CALLS_INT_H

#include "runtime/core/calls/calls.h"
#include "runtime/core/calls/lineage.h"
#include "runtime/core/process/context.h"
#include "runtime/core/values/pool.h"
#include "runtime/net/deadlines.h"

struct crti_calls {
    crti_pool_t pool;
    crti_numbers_t retried; /* number -> crti_pending_t, of calls that were made again */
    crti_map_t actors;      /* id -> crt_actor_t */
    crti_numbers_t handles; /* handles.h: of actors; */
    crti_numbers_t objects; /* of objects that are being written; */
    crti_numbers_t streams; /* of streams */
    crti_list_t due_actors; /* crt_actor_t.in_due: the tick looks at them */
    crti_list_t task_pools;
    crti_deadlines_t deadlines; /* of calls with a timeout */
    crti_lineages_t lineages;
    struct crti_environment *environment; /* of this worker; NULL: the job's */
    struct crti_backups *backups;         /* backup.h; NULL: no task has had the option */
    crti_map_t placement_groups;          /* id -> crt_placement_group_t */
    /* That one is another one now; set once. */
    void (*on_placement_group)(crti_core_t *core, crti_id_t group);
    uint64_t warned_ns; /* when it was told last that an actor waits */
    uint64_t tell_failures;
};

#endif
