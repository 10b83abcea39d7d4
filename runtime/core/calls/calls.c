/* SPDX-License-Identifier: Apache-2.0 */
/* The state of this module: made and taken apart. See calls.h. */
#include "runtime/core/core.h"

#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/tasks.h"

void crti_calls_init(crti_calls_t *calls)
{
    crti_pool_init(&calls->pool, sizeof(crti_pending_t), CRTI_POOL_KEEPS,
                   crti_pending_fini);
    crti_map_init(&calls->actors, sizeof(crti_id_t));
    crti_list_init(&calls->checks);
    crti_list_init(&calls->task_pools);
}

void crti_calls_orphan(crti_core_t *core)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&core->calls.actors, &cursor, NULL, &value))
        crti_actor_orphan(value);
    crti_objects_orphan(core);
    crti_tasks_fini(core);
}

void crti_calls_fini(crti_calls_t *calls)
{
    crti_map_fini(&calls->actors);
    crti_numbers_fini(&calls->retried);
    crti_numbers_fini(&calls->objects);
    crti_numbers_fini(&calls->handles);
    crti_pool_fini(&calls->pool);
}
