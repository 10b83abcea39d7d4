/* SPDX-License-Identifier: Apache-2.0 */
/* Items of streams in lineages: their call is run once more, with a stream of its own that nobody
 * reads, and what it yields is given to those that were lost.
 *
 * Where it sits
 *     stream.c (an item has come, a stream has ended), lineage.c (a lineage ends), remake.c (a run)
 *     -> [ lineage_items.c ] -> lineage.c, refs
 * Threads
 *     The core's lock.
 * Ownership
 *     A lineage does not hold its items; those that wait for a run are held until they have come or
 *     the run has ended. While the first run goes on, its stream and the lineage know each other.
 * Failure
 *     A run that yields fewer items fails those that it did not come to. What is lost again after
 *     it came waits for the end of the run, and then for another one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/core/calls/lineage_int.h"
#include "runtime/core/process/context.h"

/* ---------------------------------------------------------------- kept */

crti_lineage_t *crti_items_lineage(crti_pending_t *p)
{
    crt_stream_t *stream = p->stream;
    crti_items_t *items;

    if (stream->lineage)
        return stream->lineage;
    items = calloc(1, sizeof(*items));
    if (!items)
        return NULL;
    crti_list_init(&items->awaited);
    items->stream = stream;
    items->first_retries = (unsigned)p->attempt.retries;
    stream->lineage = crti_lineage_open(p, items);
    if (!stream->lineage)
        free(items);
    return stream->lineage;
}

void crti_items_free(crti_items_t *items)
{
    if (!items)
        return;
    if (items->stream)
        items->stream->lineage = NULL;
    crti_numbers_fini(&items->refs);
    free(items);
}

void crti_items_forget(crti_core_t *core, crti_lineage_t *l, const crt_ref_t *ref)
{
    size_t before = crti_lineage_bytes(l);

    crti_numbers_remove(&l->items->refs, ref->more->item);
    crti_lineages_add_bytes(core, -(int64_t)(before - crti_lineage_bytes(l)));
}

void crti_items_leave(const crti_lineage_t *l, crti_not_again_t why)
{
    size_t cursor = 0;
    crt_ref_t *ref;

    while ((ref = crti_numbers_next(&l->items->refs, &cursor)))
        crti_lineage_leave(ref, why);
}

void crti_items_count_retries(crti_lineage_t *l)
{
    crti_items_t *items = l->items;
    unsigned retries;

    if (!items->stream || !items->stream->call)
        return;
    retries = (unsigned)items->stream->call->attempt.retries;
    l->retries += retries - items->first_retries;
    items->first_retries = retries;
}

void crti_lineage_stream_ended(crt_stream_t *stream)
{
    crti_lineage_t *l = stream->lineage;

    crti_items_count_retries(l);
    l->items->total = stream->received;
    l->items->stream = NULL;
    stream->lineage = NULL;
    crti_lineage_end_unused(stream->core, l);
}

/* ---------------------------------------------------------------- a run that makes some again */

static bool is_expected(const crti_items_t *items, const crt_ref_t *ref)
{
    const crt_stream_t *stream = items->run->stream;

    return !items->run->attempt.cancel && (!stream || ref->more->item > stream->received);
}

static void await(crti_items_t *items, crt_ref_t *ref)
{
    crti_ref_hold(ref);
    crti_list_append(&items->awaited, &ref->more->awaited);
    ref->call = items->run;
}

/* Those are found first and changed then, since that may end others. */
void crti_items_await(crti_pending_t *p, crti_lineage_t *l, crt_ref_t *asked)
{
    crti_items_t *items = l->items;
    size_t cursor = 0;
    crt_ref_t *ref;

    items->run = p;
    while ((ref = crti_numbers_next(&items->refs, &cursor)))
        if (ref == asked || ref->owned.state == CRTI_OWNED_MISSING)
            await(items, ref);
    CRTI_LIST_FOREACH (link, &items->awaited) {
        crti_ref_repeat(CRTI_CONTAINER(link, crti_ref_more_t, awaited)->ref);
        items->expected++;
    }
}

uint64_t crti_items_first(const crti_lineage_t *l)
{
    const crti_items_t *items = l->items;
    uint64_t first = items->stream ? items->stream->received : items->total;

    CRTI_LIST_FOREACH (link, &items->awaited) {
        uint64_t item = CRTI_CONTAINER(link, crti_ref_more_t, awaited)->item;

        first = item - 1 < first ? item - 1 : first;
    }
    return first;
}

void crti_items_join(crti_lineage_t *l, crt_ref_t *ref)
{
    crti_items_t *items = l->items;

    if (!items->run || ref->call) /* it has just ended, or was asked for before */
        return;
    await(items, ref);
    if (!is_expected(items, ref))
        return;
    crti_ref_repeat(ref);
    items->expected++;
}

/* Its run is of no more use when all have come; an endless one would never end. */
static void cancel_unneeded(crti_pending_t *p)
{
    const crti_lineage_t *l = p->lineage;
    bool is_result_needed = l->refs[0] && l->refs[0]->owned.state == CRTI_OWNED_PENDING;

    if (l->items->expected == 0 && !is_result_needed)
        p->core->cancel_call(p);
}

static void settle(crti_items_t *items, crt_ref_t *ref, const crti_result_t *result)
{
    crti_core_t *core = ref->core;

    crti_list_remove(&ref->more->awaited);
    ref->call = NULL;
    items->expected--;
    crti_ref_set_result(ref, result, true);
    if (ref->more->forward)
        core->on_forwarded(ref, ref->more->made_by);
    crti_ref_release(ref);
}

void crti_lineage_item_again(crti_pending_t *p, uint64_t index,
                             const crti_result_t *result)
{
    crti_items_t *items = p->lineage->items;
    crt_ref_t *ref = crti_numbers_get(&items->refs, index + 1);

    if (!ref || ref->call != p || ref->owned.state != CRTI_OWNED_PENDING) {
        crti_result_late(p->core, result);
        return;
    }
    settle(items, ref, result);
    cancel_unneeded(p);
}

/* ---------------------------------------------------------------- its end */

/* The run has come to an end without it. */
static void fail(crti_items_t *items, crt_ref_t *ref, uint64_t received,
                 const crti_result_t *result)
{
    char text[300];
    crti_result_t failed = {
        .form = CRTI_RESULT_ERROR,
        .failure = {.status = CRT_ERR_USER,
                    .may_have_run = true,
                    .class_name = crti_str(ref->more->made_by->class_name),
                    .method = crti_str(ref->more->made_by->name)}};

    snprintf(text, sizeof(text),
             "%s yielded %llu results when it was run again since some were lost, and "
             "more before: this one was number %llu",
             ref->more->made_by->display, (unsigned long long)received,
             (unsigned long long)ref->more->item);
    failed.failure.text = crti_str(text);
    settle(items, ref, result->form == CRTI_RESULT_ERROR ? result : &failed);
}

void crti_items_run_ended(crti_lineage_t *l, const crti_result_t *result)
{
    crti_items_t *items = l->items;
    const crt_stream_t *stream = items->run ? items->run->stream : NULL;
    uint64_t received = stream ? stream->received : 0;

    items->run = NULL;
    while (!crti_list_is_empty(&items->awaited)) {
        crt_ref_t *ref =
            CRTI_CONTAINER(items->awaited.next, crti_ref_more_t, awaited)->ref;

        if (ref->owned.state == CRTI_OWNED_PENDING) {
            fail(items, ref, received, result);
            continue;
        }
        crti_list_remove(&ref->more->awaited); /* missing.c asks again */
        ref->call = NULL;
        crti_ref_release(ref);
    }
    items->expected = 0;
}
