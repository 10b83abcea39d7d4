/* SPDX-License-Identifier: Apache-2.0 */
/* Results that are other refs. See forward.h. */
#include "runtime/core/refs/forward.h"

#include "runtime/base/clock.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/missing.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/core/refs/value_of.h"

/* ------------------------------------------------------------------ content */

/* Also of those that are found no more: then the pull says so. */
static void take_places(crt_ref_t *ref)
{
    const crt_ref_t *target = ref->more->forward;
    uint32_t count =
        target->is_owned ? target->owned.node_count : target->more->node_count;
    const crti_id_t *nodes = target->is_owned ? target->owned.nodes : target->more->nodes;
    unsigned bits = 0;

    ref->more->object = target->more->object; /* another one, when it was made again */
    ref->size = target->size;
    if (target->more->view.data)
        bits |= crti_owned_copy(&ref->owned, ref->core->node);
    for (uint32_t i = 0; i < count; i++)
        bits |= crti_owned_copy(&ref->owned, nodes[i]);
    crti_owned_apply(ref, bits);
}

/* Of an object, not of what makes it. */
static bool is_loss(crt_status_t status)
{
    return status == CRT_ERR_OWNER_DIED || status == CRT_ERR_OBJECT_LOST;
}

static void on_ready(crti_waiting_t *waiting, crt_ref_t *target)
{
    crt_ref_t *ref = CRTI_CONTAINER(waiting, crti_ref_more_t, forward_waiting)->ref;
    crti_buffer_t nodes = {0};
    crti_result_t result;

    crti_ref_hold(ref);
    crti_ref_describe(target, &result, &nodes);
    if (result.form == CRTI_RESULT_ERROR) {
        if (!is_loss(result.failure.status) || !ref->owned.is_repeatable ||
            !ref->core->refs->handlers.make_again(ref))
            crti_ref_set_failed(ref, &result.failure);
    } else if (result.form == CRTI_RESULT_STORED) {
        crti_owned_tell(&ref->owned); /* others know of the target */
        crti_ref_set_stored(ref, &result.location, (crti_span_t){"", 0}, false);
        take_places(ref);
        crti_list_append(&target->more->forwards, &waiting->link);
    } else {
        crti_ref_set_value(ref, result.value, false);
    }
    crti_buffer_fini(&nodes);
    crti_ref_release(ref);
}

void crti_forward_begin(crt_ref_t *ref, const crti_ref_name_t *name, bool has_tokens)
{
    crt_ref_t *target;
    crt_status_t status = crti_ref_arrive(ref->core, name, &target);

    if (status != CRT_OK) {
        crti_ref_fail(ref, status);
        return;
    }
    crti_ref_hold(target);
    if (has_tokens)
        crti_ref_add_token(target);
    status = crti_ref_more(ref) ? ref->core->refs->handlers.check_forward(ref, target)
                                : CRT_ERR_NO_MEMORY;
    if (status != CRT_OK) {
        crti_ref_fail(ref, status);
        crti_ref_release(target);
        return;
    }
    ref->more->forward = target;
    ref->more->forward_waiting.on_ready = on_ready;
    crti_ref_await(target, &ref->more->forward_waiting, false);
}

/* ------------------------------------------------------------------ where it is */

void crti_forward_query(crt_ref_t *ref)
{
    crt_ref_t *target = ref->more->forward;

    if (target->is_owned)
        crti_missing_wanted(target);
    if (target->content != CRTI_CONTENT_STORED)
        return;
    if (target->is_owned || target->more->view.data)
        take_places(ref);
    else if (!crti_forward_is_queried(ref))  /* what we were told once has been taken */
        (void)crti_ref_ask_owner(target, 0); /* if it has ended, that is told */
}

bool crti_forward_is_queried(const crt_ref_t *ref)
{
    const crt_ref_t *target = ref->more->forward;

    return target && (target->is_locating || target->is_pulling ||
                      (target->is_owned && target->owned.state == CRTI_OWNED_PENDING));
}

void crti_forward_moved(crt_ref_t *target)
{
    crti_list_t moved, *item;

    if (crti_list_is_empty(&target->more->forwards))
        return;
    crti_list_init(&moved);
    while ((item = crti_list_pop(&target->more->forwards)))
        crti_list_append(&moved, item);
    crti_ref_hold(target);
    while ((item = crti_list_pop(&moved))) { /* who is told may end others of them */
        crt_ref_t *ref = CRTI_CONTAINER(item, crti_ref_more_t, forward_waiting.link)->ref;

        crti_list_append(&target->more->forwards, item);
        crti_ref_hold(ref);
        if (target->content == CRTI_CONTENT_STORED)
            take_places(ref);
        crti_ref_release(ref);
    }
    crti_core_wake_at(target->core, crti_now_ns()); /* missing.c decides */
    crti_ref_release(target);
}
