/* SPDX-License-Identifier: Apache-2.0 */
/* Slots: a call waits until the refs among its arguments are ready, and then goes on.
 *
 * Where it sits
 *     outgoing.c (a call), submit.c (an argument is missing again), remake.c (a call is run once
 *     more) -> [ slots.c ] -> encode_call.c -> actor.c or submit.c
 * Threads
 *     The core's lock.
 */
#include "runtime/core/calls/actor.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/refs/value_of.h"

/* One of what it waits for is there; with the last one it goes on. */
static void go_on(crti_pending_t *p)
{
    crt_actor_t *actor = p->spec.actor;
    crt_ref_t *failed = NULL;
    crt_status_t status;

    if (--p->missing)
        return;
    if (actor)
        crti_actor_hold(actor);
    status = crti_put_slots(p, &failed);
    if (failed) {
        crti_pending_fail_by(p, failed);
    } else if (status != CRT_OK) {
        crti_pending_fail(p, status, crt_error_detail(), false);
    } else {
        crti_drop_slots(p);
        if (actor)
            crti_actor_complete(p);
        else
            crti_task_submit(p);
    }
    if (actor) {
        crti_actor_drain(actor); /* it may have held up those behind it */
        crti_actor_release(actor);
    }
}

static void on_slot_ready(crti_waiting_t *waiting, crt_ref_t *ref)
{
    go_on(CRTI_CONTAINER(waiting, crti_slot_t, waiting)->pending);
}

void crti_call_await_slots(crti_pending_t *p)
{
    crti_attempt_await(&p->attempt);
    if (p->spec.actor)
        crti_actor_reserve(p);
    p->missing = 1; /* until all are asked */
    for (unsigned i = 0; i < p->slot_count; i++) {
        crti_slot_t *slot = &p->slots[i];

        if (!slot->ref || slot->ref->content != CRTI_CONTENT_NONE ||
            (p->spec.actor && !slot->ref->is_owned)) /* its process asks the owner */
            continue;
        p->missing++;
        slot->waiting.on_ready = on_slot_ready;
        crti_ref_await(slot->ref, &slot->waiting, false);
    }
    go_on(p);
}
