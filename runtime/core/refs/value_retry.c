/* SPDX-License-Identifier: Apache-2.0 */
/* Values asked for again: the nodes that the owner had named can't give the object any more, but it
 * may have been copied to others since. So the owner is asked once more before the object counts as
 * lost, and again for a while: it may not have heard yet of the copy, or of the death. With the
 * last question it is told that the bytes are nowhere: a copy that was the last one, since the
 * others died with their nodes, may have been evicted, of which nobody is told.
 *
 * Where it sits
 *     value_of.c (a pull failed) -> [ value_retry.c ] -> LOCATE, or the owner's own list -> PULL
 * Threads
 *     The core's lock.
 * Ownership
 *     A record holds its ref until the bytes are here or the ref has failed; a tick ends it then.
 * Failure
 *     After fetch_tries times the ref fails with what the last pull said, or is made again. The
 *     owner's death, and a session with it that is lost, end it at once.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/missing.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/core/refs/value_of.h"

/* Within 2 s. The pauses grow: as a rule the owner hears of a death a moment after our node did. */
#define ASKS_AGAIN 4 /* of what can be made again instead */

typedef struct crti_again {
    crti_list_t link; /* core->refs->retries */
    crt_ref_t *ref;   /* held */
    uint64_t at_ns;   /* looked at next */
    unsigned asked;
} retry_t;

static retry_t *make(crt_ref_t *ref)
{
    retry_t *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    a->ref = ref;
    ref->more->again = a;
    crti_ref_hold(ref);
    crti_list_append(&ref->core->refs->retries, &a->link);
    return a;
}

static uint64_t pause_of(const retry_t *a)
{
    uint64_t pause = CRTI_LIMIT(fetch_pause) << (a->asked < 8 ? a->asked : 8);

    return pause < CRTI_LIMIT(fetch_pause_max) ? pause : CRTI_LIMIT(fetch_pause_max);
}

static void end(retry_t *a)
{
    crt_ref_t *ref = a->ref;

    crti_list_remove(&a->link);
    ref->more->again = NULL;
    free(a);
    crti_ref_release(ref);
}

static bool is_over(const crt_ref_t *ref)
{
    return ref->content != CRTI_CONTENT_STORED || ref->more->view.data;
}

/* Where it is, its target's owner knows; the answer is in time for the next try. */
static crt_status_t pull_forwarded(crt_ref_t *ref)
{
    if (ref->more->forward->content == CRTI_CONTENT_FAILED)
        return crti_ref_raise(ref->more->forward);
    crti_missing_ask_target(ref);
    crti_ref_pull(ref);
    return CRT_OK;
}

static void ask(retry_t *a)
{
    crt_ref_t *ref = a->ref;
    crt_status_t status;

    a->asked++;
    if (ref->is_owned && !ref->more->forward) {
        crti_ref_pull(ref);
        return;
    }
    if (ref->more->forward)
        status = pull_forwarded(ref);
    else
        status = crti_ref_ask_owner(
            ref, a->asked >= CRTI_LIMIT(fetch_tries) ? ref->more->object.number : 0);
    if (status != CRT_OK)
        crti_ref_lose(ref, status);
}

bool crti_ref_is_asked_again(const crt_ref_t *ref)
{
    return !is_over(ref);
}

static unsigned asks_of(const crt_ref_t *ref)
{
    return ref->is_owned && ref->owned.is_repeatable ? ASKS_AGAIN
                                                     : (unsigned)CRTI_LIMIT(fetch_tries);
}

bool crti_ref_ask_again(crt_ref_t *ref, crt_status_t status)
{
    crti_core_t *core = ref->core;
    retry_t *a = ref->more->again;

    if (status != CRT_ERR_OBJECT_LOST || core->is_closing || core->broken != CRT_OK ||
        (a && a->asked >= asks_of(ref)))
        return false;
    if (!a)
        a = make(ref);
    if (!a)
        return false;
    a->at_ns = crti_now_ns() + pause_of(a);
    crti_core_wake_at(core, a->at_ns);
    if (a->asked == 0 && !ref->is_owned)
        ask(a);
    return ref->content == CRTI_CONTENT_STORED;
}

/* Whether only a result that is this ref has asked. */
static bool is_only_forwarded(const crt_ref_t *ref)
{
    return !crti_list_is_empty(&ref->more->forwards) &&
           crti_list_is_empty(&ref->more->local_waiters) &&
           !(ref->more->again && crti_ref_is_asked_again(ref));
}

static void take_location(crt_ref_t *ref, const crti_location_t *location)
{
    crt_status_t status = crti_ref_move(ref, location);

    if (ref->more->again && location->object.number != ref->more->object.number)
        ref->more->again->asked = 0; /* it was made again, and is another one */
    ref->more->object = location->object;
    ref->size = location->size;
    if (status != CRT_OK)
        crti_ref_lose(ref, status);
    else if (is_only_forwarded(ref))
        crti_net_wake(ref->core->net); /* who looks at it pulls it */
    else
        crti_ref_pull(ref);
}

static void take_answer(crt_ref_t *ref, const crti_result_t *result)
{
    if (is_over(ref) || ref->is_pulling)
        return;
    if (result->form == CRTI_RESULT_STORED) {
        take_location(ref, &result->location);
    } else if (result->form == CRTI_RESULT_VALUE || result->form == CRTI_RESULT_DATA) {
        crti_ref_miss(ref); /* it was made again, and is short now */
        crti_ref_set_value(ref, result->value, false);
    } else if (result->form == CRTI_RESULT_ERROR) {
        crti_ref_lose(ref, crt_raise(result->failure.status, "%.*s",
                                     (int)result->failure.text.size,
                                     (const char *)result->failure.text.data));
    } else {
        crti_ref_lose(ref,
                      crt_raise(CRT_ERR_PROTOCOL, "a stored object is no longer stored"));
    }
}

void crti_ref_located_again(crt_ref_t *ref, const crti_result_t *result)
{
    crti_ref_hold(ref);
    ref->is_locating = false;
    take_answer(ref, result);
    crti_ref_changed(ref);
    crti_ref_release(ref);
}

void crti_ref_unlocated(crt_ref_t *ref, const crti_net_loss_t *loss)
{
    bool lives = loss->status == CRT_ERR_UNREACHABLE; /* for all we know */

    ref->is_locating = false;
    if (ref->content != CRTI_CONTENT_NONE && (is_over(ref) || ref->is_pulling))
        return;
    crti_ref_hold(ref);
    crti_ref_lose(ref, crt_raise(lives ? CRT_ERR_UNREACHABLE : CRT_ERR_OWNER_DIED, "%s",
                                 loss->detail));
    crti_ref_changed(ref);
    crti_ref_release(ref);
}

void crti_value_retry_tick(crti_core_t *core, uint64_t now_ns)
{
    uint64_t next = UINT64_MAX;

    CRTI_LIST_FOREACH_SAFE (item, &core->refs->retries) {
        retry_t *a = CRTI_CONTAINER(item, retry_t, link);

        if (is_over(a->ref)) {
            end(a);
            continue;
        }
        if (a->at_ns <= now_ns) {
            a->at_ns = now_ns + pause_of(a);
            if (!a->ref->is_pulling && !a->ref->is_locating)
                ask(a);
        }
        next = a->at_ns < next ? a->at_ns : next;
    }
    if (next != UINT64_MAX)
        crti_core_wake_at(core, next);
}

void crti_value_retry_end(crti_core_t *core, crt_status_t status, const char *text)
{
    while (!crti_list_is_empty(&core->refs->retries)) {
        retry_t *a = CRTI_CONTAINER(core->refs->retries.next, retry_t, link);

        if (!is_over(a->ref))
            crti_ref_lose(a->ref, crt_raise(status, "%s", text));
        end(a);
    }
}
