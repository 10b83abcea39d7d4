/* SPDX-License-Identifier: Apache-2.0 */
/* What actors keep for their next process (crt_actor_save). See control.h.
 *
 * Where it sits
 *     ACTOR_SAVE -> [ control_save.c ] -> a row of its own; ACTOR_START takes it to the next
 *     process
 * Rules
 *     Only the process that is the actor's now may save: an earlier one, cut off with its node,
 *     says so too late. It is durable before it is answered. It goes when the actor's death is
 *     durable: a head that begins without that row has the actor again, and what it saved.
 */
#include "runtime/control/control_save.h"
#include "runtime/base/log.h"
#include "runtime/control/control_state.h"
#include "runtime/control/outbox.h"

static crt_status_t check(const crti_actor_entry_t *actor,
                          const crti_control_link_t *link, const crti_msg_actor_save_t *m)
{
    if (!actor || !crti_actor_entry_is_placed(actor) ||
        actor->incarnation != m->actor_incarnation || !link->node ||
        !crti_id_equal(actor->node, link->node->id))
        return crt_raise(CRT_ERR_ACTOR_DIED,
                         "nothing was saved: the process is not the actor's any more");
    if (m->state.size > CRTI_SAVED_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "a state of %zu bytes, at most %u are saved",
                         m->state.size, CRTI_SAVED_MAX);
    return CRT_OK;
}

static crt_status_t keep(crti_actor_entry_t *actor, crti_span_t state)
{
    crti_buffer_t saved = {0};
    crt_status_t status = crti_buffer_append(&saved, state.data, state.size);

    if (status != CRT_OK)
        return crt_raise(status, "a state of %zu bytes", state.size);
    crti_buffer_fini(&actor->saved);
    actor->saved = saved;
    return CRT_OK;
}

void crti_control_put_save(crti_control_t *c, crti_id_t id)
{
    const crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, id);
    crti_msg_actor_save_t row;

    if (!actor || !actor->saved.size) {
        crti_control_delete(c, CRTI_STORE_ACTOR_SAVES, id);
        return;
    }
    row =
        (crti_msg_actor_save_t){.actor = id,
                                .actor_incarnation = actor->incarnation,
                                .state = crti_span(actor->saved.data, actor->saved.size)};
    crti_control_put(c, CRTI_STORE_ACTOR_SAVES, id, CRTI_MSG_ACTOR_SAVE, &row);
}

void crti_control_actor_save(crti_control_t *c, crti_control_link_t *link,
                             uint64_t request, const crti_msg_actor_save_t *m)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, m->actor);
    crt_status_t status = check(actor, link, m);

    if (status == CRT_OK)
        status = keep(actor, m->state);
    if (status != CRT_OK) {
        crti_control_refuse(c, link->number, request, status);
        return;
    }
    crti_control_put_save(c, m->actor);
    crti_control_answer(c, link->number, CRTI_MSG_DONE, request, NULL, true);
}

crt_status_t crti_control_load_save(crti_control_t *c, const crti_msg_actor_save_t *row)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, row->actor);

    if (actor && actor->state != CRTI_ACTOR_DEAD)
        return keep(actor, row->state);
    crti_control_delete(c, CRTI_STORE_ACTOR_SAVES, row->actor);
    return CRT_OK;
}

void crti_control_forget_save(crti_control_t *c, crti_actor_entry_t *actor)
{
    if (!actor->saved.size)
        return;
    crti_buffer_fini(&actor->saved);
    crti_control_delete(c, CRTI_STORE_ACTOR_SAVES, actor->id);
}

/* A death that could not be stored is stored later, and comes here again. */
static void after_death(crti_control_t *c, const crti_outgoing_t *out)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, out->id);

    if (actor && (out->status == CRT_OK ||
                  !crti_control_is_dirty(c, CRTI_STORE_ACTOR_STATES, out->id)))
        crti_control_forget_save(c, actor);
}

void crti_control_put_actor_state(crti_control_t *c, const crti_actor_entry_t *actor)
{
    crti_msg_row_actor_t row = crti_actor_entry_row(actor);

    crti_control_put(c, CRTI_STORE_ACTOR_STATES, actor->id, CRTI_MSG_ROW_ACTOR, &row);
    if (actor->state == CRTI_ACTOR_DEAD && actor->saved.size)
        crti_control_after(c, after_death, actor->id, 0);
}
