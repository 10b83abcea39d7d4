/* SPDX-License-Identifier: Apache-2.0 */
/* Results that are other refs. See forward.h. */
#include "runtime/core/refs/forward.h"

#include "runtime/base/clock.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/copies.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/core/refs/value_of.h"

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
        crti_ref_take_places(ref);
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
    crti_value_await(target, &ref->more->forward_waiting, false);
}

void crti_forward_moved(crt_ref_t *target)
{
    if (crti_list_is_empty(&target->more->forwards))
        return;
    if (target->content == CRTI_CONTENT_STORED)
        CRTI_LIST_FOREACH (item, &target->more->forwards)
            crti_ref_take_places(
                CRTI_CONTAINER(item, crti_ref_more_t, forward_waiting.link)->ref);
    crti_core_wake_at(target->core, crti_now_ns()); /* missing.c decides */
}
