/* SPDX-License-Identifier: Apache-2.0 */
/* The state of this module: made and taken apart. See calls.h. */
#include "runtime/base/environment.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/calls/placement_group.h"
#include "runtime/core/calls/stream.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/borrowed.h"
#include "runtime/core/values/handles.h"

void crti_calls_init(crti_calls_t *calls)
{
    crti_pool_init(&calls->pool, sizeof(crti_pending_t), CRTI_POOL_KEEPS,
                   crti_pending_fini);
    crti_map_init(&calls->actors, sizeof(crti_id_t));
    crti_list_init(&calls->due_actors);
    crti_list_init(&calls->task_pools);
    crti_map_init(&calls->placement_groups, sizeof(crti_id_t));
    crti_lineages_init(&calls->lineages);
    calls->on_placement_group = crti_tasks_of_placement_group;
}

crt_status_t crti_calls_in_environment(crti_calls_t *calls, crti_span_t bytes)
{
    return crti_environment_read(bytes, &calls->environment);
}

void crti_calls_orphan(crti_core_t *core)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&core->calls->actors, &cursor, NULL, &value))
        crti_actor_orphan(value);
    crti_placement_groups_orphan(core);
    crti_objects_orphan(core);
    crti_call_streams_orphan(core);
    crti_tasks_fini(core);
}

void crti_calls_fini(crti_calls_t *calls)
{
    crti_lineages_fini(&calls->lineages);
    crti_backups_fini(calls->backups);
    crti_environment_drop(calls->environment);
    crti_map_fini(&calls->actors);
    crti_map_fini(&calls->placement_groups);
    crti_numbers_fini(&calls->retried);
    crti_numbers_fini(&calls->objects);
    crti_numbers_fini(&calls->streams);
    crti_numbers_fini(&calls->handles);
    crti_deadlines_fini(&calls->deadlines);
    crti_pool_fini(&calls->pool);
}

bool crti_calls_have_handle(const crti_core_t *core, const void *handle)
{
    return crti_handles_have(&core->calls->handles, handle);
}

bool crti_calls_have_stream(const crti_core_t *core, const crt_stream_t *stream)
{
    return crti_handles_have(&core->calls->streams, stream);
}

/* An actor that this process made is of its own job, and so are the workers of its tasks. Whose one
 * is that came with a handle, or a process whose objects are held here, the head knows. */
static bool is_made_here(const crt_actor_t *actor)
{
    return actor->lifetime && actor->lifetime->is_owned;
}

static crt_status_t add(crti_buffer_t *ids, crti_id_t id)
{
    unsigned char bytes[16];

    crti_id_pack(id, bytes);
    return crti_buffer_append(ids, bytes, sizeof(bytes));
}

crt_status_t crti_calls_awaited(const crti_core_t *core, crti_buffer_t *ids)
{
    crt_status_t status = CRT_OK;

    CRTI_MAP_FOREACH (const crt_actor_t, actor, &core->calls->actors)
        if (status == CRT_OK && actor->pending_calls > 0 && !is_made_here(actor))
            status = add(ids, actor->id);
    CRTI_MAP_FOREACH (const crti_remote_t, remote, &core->remotes->table)
        if (status == CRT_OK && crti_borrowed_any(remote))
            status = add(ids, remote->address.process);
    return status;
}
