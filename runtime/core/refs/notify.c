/* SPDX-License-Identifier: Apache-2.0 */
/* Notifying: whoever waits for what has changed of a ref hears of it.
 *
 * Where it sits
 *     what changes a ref -> refs.c (core->refs->to_notify) -> [ notify.c ] -> waiters, forward.c,
 *     value_of.c (who waits for bytes)
 *     functions of crt.h -> [ notify.c ] -> value_of.c;  pending.c (REPLY), dispatch.c (LOCATED) ->
 *     [ notify.c ] -> content.c, forward.c
 * Threads
 *     The core's lock.
 * Idea
 *     What changes a ref only puts it into the queue, so nothing below calls up. Who is told may
 *     have a result by that (its argument had failed), for which others wait: those go behind in
 *     the same queue, not one inside the other, since such a chain may be longer than any stack.
 * Ownership
 *     The queue holds its refs.
 */
#include "runtime/core/refs/forward.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/core/refs/value_of.h"

static void tell(crti_list_t *waiters, crt_ref_t *ref)
{
    crti_list_t *item;

    while ((item = crti_list_pop(waiters))) {
        crti_waiting_t *waiting = CRTI_CONTAINER(item, crti_waiting_t, link);

        waiting->on_ready(waiting, ref);
    }
}

static void notify(crt_ref_t *ref)
{
    crti_forward_moved(ref);
    if (ref->content != CRTI_CONTENT_NONE)
        tell(&ref->more->waiters, ref);
    if (!crti_list_is_empty(&ref->more->local_waiters) && crti_value_fetch(ref))
        tell(&ref->more->local_waiters, ref);
    crti_ref_release(ref);
}

static void notify_all(crti_refs_t *refs)
{
    crti_list_t *item;

    refs->is_notifying = true;
    while ((item = crti_list_pop(&refs->to_notify)))
        notify(CRTI_CONTAINER(item, crti_ref_more_t, turn)->ref);
    refs->is_notifying = false;
}

void crti_refs_notify(crti_core_t *core)
{
    crti_refs_t *refs = core->refs;

    if (!crti_list_is_empty(&refs->to_notify) && !refs->is_notifying)
        notify_all(refs);
}

void crti_ref_locate(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;

    crti_value_locate(ref);
    crti_refs_notify(core);
}

bool crti_ref_fetch(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    bool is_here = crti_value_fetch(ref);

    crti_refs_notify(core);
    return is_here;
}

void crti_ref_await(crt_ref_t *ref, crti_waiting_t *waiting, bool local)
{
    crti_core_t *core = ref->core;

    crti_value_await(ref, waiting, local);
    crti_refs_notify(core);
}

void crti_ref_set_result(crt_ref_t *ref, const crti_result_t *result, bool has_tokens)
{
    crti_core_t *core = ref->core;

    if (ref->content != CRTI_CONTENT_NONE)
        return;
    if (result->form == CRTI_RESULT_FORWARD && ref->is_owned)
        crti_forward_begin(ref, &result->ref, has_tokens);
    else
        crti_ref_take_result(ref, result, has_tokens);
    crti_refs_notify(core);
}
