/* SPDX-License-Identifier: Apache-2.0 */
/* Missing objects of ours: every node that we know to have the bytes is gone, but somebody was told
 * where they were and may have made a copy, of which we hear later than of the death.
 *
 * Where it sits
 *     deaths.c (NODE_DIED, an owner's end), value_of.c (a pull failed) -> [ missing.c ] -> refs.c
 *     (it is lost), copy_query.c (is there another copy?)
 * Threads
 *     The core's lock.
 * Idea
 *     Meanwhile the ref is as if its value had not come yet: whoever wants it waits. Who had it
 *     already keeps it. When it is wanted, all who may have a copy are asked (copy_query.c); it is
 *     lost when they have answered, or when MISSING_NS have passed since the death was told. Then
 *     it is final. As long as nobody wants it, word of a copy is welcome however late.
 * Ownership
 *     A record holds a ref that is wanted, until its fate is decided. The others cost nothing.
 */
#include "runtime/core/refs/missing.h"

#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/copies.h"
#include "runtime/core/refs/copy_query.h"
#include "runtime/core/refs/kept_copies.h"
#include "runtime/core/refs/refs_int.h"

/* For those who do not answer: a node that is silent for longer counts as dead, and what was lost
 * on the way is sent again (net/session.h). */
#define MISSING_NS (CRTI_LIMIT(heartbeat_timeout) + CRTI_LIMIT(session_probe_max))

typedef struct wanted {
    crti_list_t link; /* core->refs->missing */
    crt_ref_t *ref;   /* held */
    uint64_t round;   /* of questions that it is in, 0: none yet */
} wanted_t;

/* It was found since it was asked for, and is missing again. */
static void ask_anew(const crt_ref_t *ref)
{
    CRTI_LIST_FOREACH (item, &ref->core->refs->missing) {
        wanted_t *wanted = CRTI_CONTAINER(item, wanted_t, link);

        if (wanted->ref == ref)
            wanted->round = 0;
    }
}

/* No copy of it is known any more. */
static void begin(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;

    if (ref->more->view.data) { /* the bytes are in use here */
        (void)crti_owned_copy(&ref->owned, core->node);
        return;
    }
    crti_ref_miss(ref);
    core->refs->changes.went++;
    /* Nobody else has one when nobody was told of it. */
    ref->more->missing_until_ns = ref->owned.is_told ? crti_now_ns() + MISSING_NS : 0;
    if (ref->is_locating)
        ask_anew(ref);
    if (!crti_list_is_empty(&ref->more->local_waiters))
        crti_missing_wanted(ref);
    crti_net_wake(core->net); /* those who look at it want it */
}

static void take_loss(crt_ref_t *ref, unsigned bits)
{
    if (bits & CRTI_OWNED_MISSED)
        begin(ref);
    if (bits & CRTI_OWNED_LOST && !ref->more->view.data)
        crti_ref_lose(ref, ref->core->refs->handlers.raise_lost(
                               ref, "no node has the object any more"));
    crti_owned_apply(ref, bits);
}

/* There is no copy: it is made again, or lost. */
static void give_up(crt_ref_t *ref)
{
    if (ref->core->refs->handlers.make_again(ref))
        return;
    crti_ref_changed(ref);
    take_loss(ref, crti_owned_give_up(&ref->owned));
}

void crti_missing_begin(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    wanted_t *wanted = calloc(1, sizeof(*wanted));

    if (!wanted) {
        give_up(ref);
        return;
    }
    wanted->ref = ref;
    ref->is_locating = true;
    crti_ref_hold(ref);
    crti_list_append(&core->refs->missing, &wanted->link);
    crti_core_wake_at(core,
                      crti_now_ns()); /* those of one death are asked for together */
}

/* ------------------------------------------------------------------ lost */

static void forget_nodes(crt_ref_t *ref)
{
    if (!ref->more->nodes)
        return;
    free(ref->more->nodes);
    ref->more->nodes = NULL;
    ref->more->node_count = 0;
}

/* Its bytes can't be had, but its call can be run once more: whoever wants them waits for that. */
static bool is_made_again(crt_ref_t *ref, crt_status_t status)
{
    const crti_core_t *core = ref->core;

    if (!ref->is_owned || ref->owned.state != CRTI_OWNED_STORED ||
        !ref->owned.is_repeatable || ref->more->view.data || core->is_closing ||
        core->broken != CRT_OK ||
        (status != CRT_ERR_OBJECT_LOST && status != CRT_ERR_OWNER_DIED))
        return false;
    crti_ref_vacate(ref);
    crti_missing_wanted(ref);
    return true;
}

void crti_ref_missed_by_borrower(crt_ref_t *ref, uint64_t object)
{
    if (ref->more->forward || ref->more->object.number != object)
        return;
    crti_ref_hold(ref);
    (void)is_made_again(ref, CRT_ERR_OBJECT_LOST);
    crti_ref_release(ref);
}

void crti_ref_lose(crt_ref_t *ref, crt_status_t status)
{
    if (is_made_again(ref, status))
        return;
    if (ref->content == CRTI_CONTENT_STORED)
        crti_ref_miss(ref);
    forget_nodes(ref);
    crti_ref_fail(ref, status);
}

void crti_ref_node_died(crt_ref_t *ref, crti_id_t node)
{
    take_loss(ref, crti_owned_node_died(&ref->owned, node));
}

void crti_ref_abandon(crt_ref_t *ref, crti_id_t node)
{
    take_loss(ref, crti_owned_abandon(&ref->owned, node));
    if (ref->more->copies)
        crti_kept_copies_lost(ref, node);
}

void crti_ref_owner_died(crt_ref_t *ref, const char *text)
{
    bool is_here = ref->content == CRTI_CONTENT_INLINE || ref->more->view.data;
    unsigned bits = crti_borrow_owner_died(&ref->borrow);

    /* The node drops the objects of a dead owner: only what is pinned here stays readable. */
    if (!is_here && ref->content != CRTI_CONTENT_FAILED)
        crti_ref_lose(
            ref, crt_raise(CRT_ERR_OWNER_DIED, "the owner of the object died: %s", text));
    crti_borrowed_apply(ref, bits);
}

/* ------------------------------------------------------------------ asked for */

static bool is_target_asked_for(const crt_ref_t *ref)
{
    const crt_ref_t *target = ref->more->forward;

    return target && (target->is_locating || target->is_pulling ||
                      (target->is_owned && target->owned.state == CRTI_OWNED_PENDING));
}

void crti_missing_ask_target(crt_ref_t *ref)
{
    crt_ref_t *target = ref->more->forward;

    if (target->is_owned)
        crti_missing_wanted(target);
    if (target->content != CRTI_CONTENT_STORED)
        return;
    if (target->is_owned || target->more->view.data)
        crti_ref_take_places(ref);
    else if (!is_target_asked_for(ref))      /* what we were told once has been taken */
        (void)crti_ref_ask_owner(target, 0); /* if it has ended, that is told */
}

static void end(wanted_t *wanted)
{
    crt_ref_t *ref = wanted->ref;

    crti_list_remove(&wanted->link);
    free(wanted);
    ref->is_locating = false;
    crti_ref_release(ref);
}

/* Who is stopped may leave a round open that is about nothing any more. */
static bool is_round_over(crti_core_t *core)
{
    if (core->refs->copy_query_open == 0)
        return true;
    CRTI_LIST_FOREACH (item, &core->refs->missing) {
        const wanted_t *wanted = CRTI_CONTAINER(item, wanted_t, link);

        if (wanted->round == core->refs->copy_query_round &&
            crti_ref_is_missing(wanted->ref))
            return false;
    }
    return true;
}

static void ask_for_new(crti_core_t *core)
{
    wanted_t *asked[CRTI_COPY_QUERY_MAX];
    uint64_t numbers[CRTI_COPY_QUERY_MAX];
    uint32_t count = 0;

    CRTI_LIST_FOREACH (item, &core->refs->missing) {
        wanted_t *wanted = CRTI_CONTAINER(item, wanted_t, link);

        if (wanted->round || !crti_ref_is_missing(wanted->ref) ||
            count == CRTI_COPY_QUERY_MAX || wanted->ref->more->missing_until_ns == 0)
            continue;
        asked[count] = wanted;
        numbers[count++] = wanted->ref->number;
    }
    if (count == 0)
        return;
    if (crti_copy_query_ask(core, numbers, count) !=
        CRT_OK) { /* the next tick tries again */
        crti_log(CRTI_LOG_ERROR, "core", "copies of objects: %s", crt_error_detail());
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        asked[i]->round = core->refs->copy_query_round;
        if (asked[i]->ref->more->forward)
            crti_missing_ask_target(asked[i]->ref);
    }
}

/* Everybody has said that there is no other copy; we have none, either. */
static bool is_sought(const wanted_t *wanted)
{
    const crti_core_t *core = wanted->ref->core;

    return wanted->round && !wanted->ref->is_pulling &&
           !is_target_asked_for(wanted->ref) &&
           (wanted->round < core->refs->copy_query_round ||
            (wanted->round == core->refs->copy_query_round &&
             core->refs->copy_query_open == 0));
}

/* A copy may still be found, or be brought by the call that makes it again; whose end, and the
 * answer of the owner of what it was forwarded to, make a tick. */
static bool is_waited_for(const wanted_t *wanted, uint64_t now_ns, uint64_t *next)
{
    const crt_ref_t *ref = wanted->ref;

    if (ref->call || is_target_asked_for(ref) || crti_kept_copies_are_coming(ref))
        return true;
    if (ref->more->missing_until_ns <= now_ns || is_sought(wanted))
        return false;
    if (ref->more->missing_until_ns < *next)
        *next = ref->more->missing_until_ns;
    return true;
}

void crti_missing_tick(crti_core_t *core, uint64_t now_ns)
{
    uint64_t next = UINT64_MAX;

    if (is_round_over(core))
        ask_for_new(core);
    CRTI_LIST_FOREACH_SAFE (item, &core->refs->missing) {
        wanted_t *wanted = CRTI_CONTAINER(item, wanted_t, link);
        crt_ref_t *ref = wanted->ref;

        if (crti_ref_is_missing(ref) && is_waited_for(wanted, now_ns, &next))
            continue;
        if (crti_ref_is_missing(ref))
            give_up(ref);
        if (!crti_ref_is_missing(ref)) /* else the call runs, and will bring it or not */
            end(wanted);
    }
    if (next != UINT64_MAX)
        crti_core_wake_at(core, next);
}

void crti_missing_end(crti_core_t *core)
{
    while (!crti_list_is_empty(&core->refs->missing))
        end(CRTI_CONTAINER(core->refs->missing.next, wanted_t, link));
}
