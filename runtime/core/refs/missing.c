/* SPDX-License-Identifier: Apache-2.0 */
/* Missing objects of ours: every node that we know to have the bytes is gone, but somebody was told
 * where they were and may have made a copy, of which we hear later than of the death.
 *
 * Where it sits
 *     deaths.c (NODE_DIED) -> refs.c -> [ missing.c ] -> refs.c (found, lost), whoever waits
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
#include "runtime/core/refs/copy_query.h"
#include "runtime/core/refs/forward.h"
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

static bool is_missing(const crt_ref_t *ref)
{
    return ref->is_owned && ref->owned.state == CRTI_OWNED_MISSING;
}

/* It was found since it was asked for, and is missing again. */
static void ask_anew(const crt_ref_t *ref)
{
    CRTI_LIST_FOREACH (item, &ref->core->refs->missing) {
        wanted_t *wanted = CRTI_CONTAINER(item, wanted_t, link);

        if (wanted->ref == ref)
            wanted->round = 0;
    }
}

void crti_missing_begin(crt_ref_t *ref)
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

/* There is no copy: it is made again, or lost. */
static void give_up(crt_ref_t *ref)
{
    if (ref->core->refs->handlers.make_again(ref))
        return;
    crti_owned_apply(ref, crti_owned_give_up(&ref->owned));
    crti_forward_moved(ref);
}

void crti_missing_found(crt_ref_t *ref)
{
    crti_ref_find(ref);
    if (ref->is_locating)
        crti_core_wake_at(ref->core, crti_now_ns()); /* its record ends */
    crti_ref_tell(ref);
    crti_net_wake(ref->core->net);
}

void crti_missing_wanted(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    wanted_t *wanted;

    if (!is_missing(ref) || ref->is_locating)
        return;
    wanted = calloc(1, sizeof(*wanted));
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

        if (wanted->round == core->refs->copy_query_round && is_missing(wanted->ref))
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

        if (wanted->round || !is_missing(wanted->ref) || count == CRTI_COPY_QUERY_MAX ||
            wanted->ref->more->missing_until_ns == 0)
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
            crti_forward_query(asked[i]->ref);
    }
}

/* Everybody has said that there is no other copy; we have none, either. */
static bool is_sought(const wanted_t *wanted)
{
    const crti_core_t *core = wanted->ref->core;

    return wanted->round && !wanted->ref->is_pulling &&
           !crti_forward_is_queried(wanted->ref) &&
           (wanted->round < core->refs->copy_query_round ||
            (wanted->round == core->refs->copy_query_round &&
             core->refs->copy_query_open == 0));
}

/* A copy may still be found, or be brought by the call that makes it again; whose end, and the
 * answer of the owner of what it was forwarded to, make a tick. */
static bool is_waited_for(const wanted_t *wanted, uint64_t now_ns, uint64_t *next)
{
    const crt_ref_t *ref = wanted->ref;

    if (ref->call || crti_forward_is_queried(ref) || crti_kept_copies_are_coming(ref))
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

        if (is_missing(ref) && is_waited_for(wanted, now_ns, &next))
            continue;
        if (is_missing(ref))
            give_up(ref);
        if (!is_missing(ref)) /* else the call runs, and will bring it or not */
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
