/* SPDX-License-Identifier: Apache-2.0 */
/* How long an actor lives: until nobody anywhere has a handle of it, or a call that it owes an
 * answer.
 *
 * Where it sits
 *     actor_create.c, actor_find.c (which registers), actor_handle.c -> [ actor_lifetime.c ] ->
 *     refs.c (who holds it); node daemon -> head (its end)
 * Threads
 *     The core's lock.
 * Idea
 *     The process that makes an actor makes a ref with it, its lifetime, which has no value that
 *     anybody reads. Every handle that is in a value brings that ref along, and whoever has the
 *     actor holds it. So borrowers, covers, tokens and deaths are those of refs, and the owner
 *     hears when nobody is left: it then asks the head to end the actor when its calls are
 *     answered. Detached actors have none.
 * Failure
 *     The owner dies: the head ends its actors. The head is away: the node keeps the request for
 *     it. A holder dies: its registrations end with it.
 */
#include "runtime/base/log.h"
#include "runtime/core/calls/actor.h"
#include "runtime/core/process/node_link.h"

/* ------------------------------------------------------------------ the owner's */

crt_status_t crti_actor_lifetime_new(crt_actor_t *actor)
{
    unsigned char id[16];
    crt_ref_t *ref = crti_ref_new(actor->core);

    if (!ref)
        return crt_raise(CRT_ERR_NO_MEMORY, "an actor");
    crti_put_id(id, actor->id);
    ref->is_lifetime = true;
    crti_ref_set_inline(ref, id, sizeof(id));
    actor->lifetime = ref;
    return CRT_OK;
}

static void on_released(void *user, const crti_message_t *answer)
{
    if (answer && answer->kind == CRTI_MSG_ERROR)
        crti_log(CRTI_LOG_WARN, "core", "an actor without handles could not be ended");
}

void crti_actor_lifetime_ended(crt_ref_t *ref)
{
    crti_reader_t r = crti_reader(crti_ref_bytes(ref), ref->size);
    const crti_msg_actor_kill_t body = {
        .actor = crti_read_id(&r),
        .no_restart = true,
        .graceful = true,
        .text = crti_str("nobody has a handle of it any more")};

    /* Without a link to the node the job has ended, and its actors with it. */
    (void)crti_node_request(ref->core, CRTI_MSG_ACTOR_KILL, &body, on_released, NULL);
}

/* ------------------------------------------------------------------ everybody's */

void crti_actor_lifetime_hold(crt_actor_t *actor, crt_ref_t *lifetime)
{
    if (actor->lifetime || !lifetime)
        return;
    crti_ref_hold(lifetime);
    actor->lifetime = lifetime;
}

void crti_actor_lifetime_drop(crt_actor_t *actor)
{
    crt_ref_t *lifetime = CRTI_TAKE(actor->lifetime);

    if (lifetime)
        crti_ref_release(lifetime);
}

void crti_actor_lifetime_spent(crt_actor_t *actor)
{
    if (actor->lifetime)
        actor->lifetime->is_lifetime = false;
}
