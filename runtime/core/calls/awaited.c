/* SPDX-License-Identifier: Apache-2.0 */
/* Of whom this process awaits something, though they may be of another job. See calls.h.
 *
 * Where it sits
 *     client/told_rest.c -> [ awaited.c ]
 * An actor that this process made is of its own job, and so are the workers of its tasks. Whose an
 * actor is that came with a handle, or a process whose objects are held here, the head knows.
 */
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/calls_int.h"
#include "runtime/core/process/remotes.h"

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
        if (status == CRT_OK && remote->borrowed.count)
            status = add(ids, remote->address.process);
    return status;
}
