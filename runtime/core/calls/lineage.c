/* SPDX-License-Identifier: Apache-2.0 */
/* Lineage. See lineage.h. */
#include "runtime/core/calls/lineage_int.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/timer.h"

#define OVERHEAD 16 /* of a block of the heap */
/* Of the limit for spare objects: they take room in a store that others want, too. */
#define SPARES_PART 8

void crti_lineages_init(crti_lineages_t *lineages)
{
    crti_list_init(&lineages->all);
    crti_list_init(&lineages->under_way);
    crti_list_init(&lineages->ending);
    lineages->limit = CRTI_LIMIT(lineage_limit);
}

/* For the node, which shows it. */
static void show(const crti_core_t *core)
{
    const crti_lineages_t *lineages = &core->calls->lineages;
    crti_blackboard_t *board = core->board;

    if (!board)
        return;
    atomic_store_explicit(&board->lineage_bytes, lineages->bytes + lineages->spare_bytes,
                          memory_order_relaxed);
    atomic_store_explicit(&board->lineage_limit, lineages->limit, memory_order_relaxed);
    atomic_store_explicit(&board->lineage_forgotten, lineages->forgotten,
                          memory_order_relaxed);
}

void crti_lineages_add_bytes(crti_core_t *core, int64_t bytes)
{
    core->calls->lineages.bytes += (size_t)bytes;
    show(core);
}

static void add_spare_bytes(crti_core_t *core, int64_t bytes)
{
    core->calls->lineages.spare_bytes += (size_t)bytes;
    show(core);
}

static void count_forgotten(crti_core_t *core)
{
    core->calls->lineages.forgotten++;
    show(core);
}

/* The refs that it knows are orphans by now. */
void crti_lineages_fini(crti_lineages_t *lineages)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&lineages->under_way)))
        free(CRTI_CONTAINER(item, crti_remake_t, link));
    while ((item = crti_list_pop(&lineages->all))) {
        crti_lineage_t *l = CRTI_CONTAINER(item, crti_lineage_t, link);

        crti_call_options_free(l->options);
        if (l->items)
            l->items->stream = NULL; /* likewise */
        crti_items_free(l->items);
        free(l);
    }
}

/* ------------------------------------------------------------------ the end of one */

size_t crti_lineage_bytes(const crti_lineage_t *l)
{
    const crti_items_t *items = l->items;
    size_t more =
        items ? sizeof(*items) + items->refs.capacity * sizeof(*items->refs.slots) : 0;

    return sizeof(*l) + ((size_t)l->returns + l->pin_count) * sizeof(crt_ref_t *) +
           l->record_size + OVERHEAD + more;
}

static bool keep_ref(crt_ref_t *ref)
{
    if (!ref->is_owned) {
        crti_ref_pin(ref);
        return true;
    }
    if (!crti_ref_more(ref))
        return false;
    ref->more->dependents++;
    crti_owned_keep(&ref->owned);
    return true;
}

static void unkeep_ref(crt_ref_t *ref)
{
    if (!ref->is_owned)
        crti_ref_unpin(ref);
    else if (--ref->more->dependents == 0)
        crti_owned_apply(ref, crti_owned_unkeep(&ref->owned));
}

static void free_lineage(crti_lineage_t *l)
{
    for (uint32_t i = 0; i < l->pin_count; i++)
        unkeep_ref(crti_lineage_pins(l)[i]);
    crti_call_options_free(l->options);
    crti_items_free(l->items);
    if (crti_lineage_is_task(l))
        l->pool->users--;
    else
        crti_actor_release_weakly(l->actor);
    free(l);
}

/* One after the other, since the chain of those that end with it may be longer than any stack. */
static void end_lineage(crti_core_t *core, crti_lineage_t *l)
{
    crti_lineages_t *lineages = &core->calls->lineages;
    crti_list_t *item;

    crti_lineages_add_bytes(core, -(int64_t)crti_lineage_bytes(l));
    crti_list_remove(&l->link);
    crti_list_append(&lineages->ending, &l->link);
    if (lineages->is_ending)
        return;
    lineages->is_ending = true;
    while ((item = crti_list_pop(&lineages->ending)))
        free_lineage(CRTI_CONTAINER(item, crti_lineage_t, link));
    lineages->is_ending = false;
}

void crti_lineage_end_unused(crti_core_t *core, crti_lineage_t *l)
{
    if (l->living == 0 && !l->remake && !(l->items && l->items->stream))
        end_lineage(core, l);
}

void crti_lineage_leave(crt_ref_t *ref, crti_not_again_t why)
{
    ref->more->lineage = NULL;
    ref->more->not_again = (unsigned char)why;
    crti_owned_set_repeatable(&ref->owned, false);
}

/* The oldest ones go, but for those under way. */
void crti_lineage_make_room(crti_core_t *core)
{
    crti_lineages_t *lineages = &core->calls->lineages;
    crti_list_t *item = lineages->all.next;

    while (lineages->bytes + lineages->spare_bytes > lineages->limit &&
           item != &lineages->all) {
        crti_lineage_t *l = CRTI_CONTAINER(item, crti_lineage_t, link);

        item = item->next;
        if (l->remake)
            continue;
        for (unsigned i = 0; i < l->returns; i++)
            if (l->refs[i])
                crti_lineage_leave(l->refs[i], CRTI_NOT_AGAIN_BOUND);
        if (l->items)
            crti_items_leave(l, CRTI_NOT_AGAIN_BOUND);
        count_forgotten(core);
        end_lineage(core, l);
        item = lineages->all.next; /* others may have ended with it */
    }
}

void crti_lineage_forgotten(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    crti_lineage_t *l = CRTI_TAKE(ref->more->lineage);

    if (ref->more->is_spared)
        add_spare_bytes(core, -(int64_t)ref->size);
    if (!l)
        return;
    for (unsigned i = 0; i < l->returns; i++)
        if (l->refs[i] == ref)
            l->refs[i] = NULL;
    if (ref->more->item)
        crti_items_forget(core, l, ref);
    l->living--;
    crti_lineage_end_unused(core, l);
}

/* ------------------------------------------------------------------ kept */

static void set_not_kept(crt_ref_t *ref, const crti_function_t *function,
                         crti_not_again_t why)
{
    if (ref->content != CRTI_CONTENT_STORED || ref->more->lineage)
        return;
    ref->more->made_by = function;
    ref->more->not_again = (unsigned char)why;
}

crti_not_again_t crti_lineage_why_not(const crti_pending_t *p)
{
    int64_t most = crti_most_retries(p->spec.actor, p->spec.max_retries);

    if (most == 0 || p->spec.record.size == 0)
        return p->spec.actor ? CRTI_NOT_AGAIN_ACTOR : CRTI_NOT_AGAIN_ONCE;
    if (most > 0 && p->attempt.retries + crti_backup_lost(p) >= most)
        return CRTI_NOT_AGAIN_USED_UP;
    return CRTI_NOT_AGAIN_PUT;
}

static bool is_wanted(const crt_ref_t *ref)
{
    return ref->owned.local > 1 || ref->owned.pins || ref->owned.borrower_count;
}

/* What others hold of it may be lost: its own bytes, or those of what it was forwarded to. */
static bool may_be_lost(const crt_ref_t *ref)
{
    return (ref->content == CRTI_CONTENT_STORED || ref->more->forward) && is_wanted(ref);
}

/* Of a stream before its end: that goes on with them. False: no memory. */
static bool take_options(crti_lineage_t *l, crti_call_spec_t *s)
{
    if (!s->options || !l->items) {
        l->options = CRTI_TAKE(s->options);
        return true;
    }
    l->options = crti_call_options_copy(s->options);
    return l->options != NULL;
}

static crti_lineage_t *new_lineage(crti_pending_t *p, crti_items_t *items)
{
    crti_call_spec_t *s = &p->spec;
    crti_lineage_t *l = malloc(
        sizeof(*l) + (s->returns + s->pin_count) * sizeof(crt_ref_t *) + s->record.size);

    if (!l)
        return NULL;
    *l = (crti_lineage_t){.function = s->function,
                          .items = items,
                          .first = p->result->number,
                          .max_retries = s->max_retries,
                          .retries = (uint32_t)p->attempt.retries + crti_backup_lost(p),
                          .record_size = (uint32_t)s->record.size,
                          .returns = (uint16_t)s->returns,
                          .group = (uint8_t)s->group};
    crti_list_init(&l->link);
    if (!take_options(l, s)) {
        free(l);
        return NULL;
    }
    if (s->actor) {
        l->actor = s->actor;
        crti_actor_hold_weakly(l->actor);
    } else {
        l->pool = p->pool->base;
        l->pool->users++;
    }
    return l;
}

/* Its pins and its record; false: no memory for one of them. */
static bool fill(crti_lineage_t *l, const crti_pending_t *p)
{
    memset(l->refs, 0, l->returns * sizeof(*l->refs));
    for (uint32_t i = 0; i < p->spec.pin_count; i++) {
        if (!keep_ref(p->spec.pins[i]))
            return false;
        crti_lineage_pins(l)[l->pin_count++] = p->spec.pins[i];
    }
    memcpy(crti_lineage_pins(l) + l->pin_count, p->spec.record.data, l->record_size);
    return true;
}

crti_lineage_t *crti_lineage_open(crti_pending_t *p, crti_items_t *items)
{
    crti_lineage_t *l = new_lineage(p, items);

    if (!l)
        return NULL;
    if (!fill(l, p)) {
        l->items = NULL;
        free_lineage(l);
        return NULL;
    }
    crti_list_append(&p->core->calls->lineages.all, &l->link);
    crti_lineages_add_bytes(p->core, (int64_t)crti_lineage_bytes(l));
    return l;
}

static void take_results(crti_lineage_t *l, const crti_pending_t *p)
{
    for (unsigned i = 0; i < l->returns; i++) {
        crt_ref_t *ref = crti_pending_result(p, i);

        if (!is_wanted(ref) || !crti_ref_more(ref))
            continue;
        l->refs[i] = ref;
        l->living++;
        ref->more->lineage = l;
        ref->more->made_by = l->function;
        crti_owned_set_repeatable(&ref->owned, may_be_lost(ref));
    }
}

static void keep_new(crti_pending_t *p)
{
    crti_lineage_t *l = p->stream ? crti_items_lineage(p) : crti_lineage_open(p, NULL);

    if (!l)
        return;
    take_results(l, p);
    crti_lineage_end_unused(p->core, l);
    crti_lineage_make_room(p->core);
}

/* The attempt that made something again has ended, well or not. */
static void end_remake(crti_pending_t *p, const crti_result_t *result)
{
    crti_lineage_t *l = CRTI_TAKE(p->lineage);
    crti_remake_t *remake;

    l->retries = (uint32_t)p->attempt.retries + crti_backup_lost(p);
    crti_core_wake_at(p->core,
                      crti_now_ns()); /* missing.c: a result may have been lost again */
    for (unsigned i = 0; i < l->returns; i++)
        if (l->refs[i])
            crti_owned_set_repeatable(&l->refs[i]->owned,
                                      l->refs[i]->content == CRTI_CONTENT_STORED ||
                                          l->refs[i]->more->forward ||
                                          l->refs[i]->owned.state == CRTI_OWNED_MISSING);
    if (l->items)
        crti_items_run_ended(l, result);
    remake = CRTI_TAKE(l->remake);
    crti_list_remove(&remake->link);
    free(remake);
    crti_lineage_end_unused(p->core, l);
}

void crti_lineage_keep(crti_pending_t *p, const crti_result_t *result)
{
    crti_not_again_t why = crti_lineage_why_not(p);
    bool is_any = false;

    if (p->lineage) {
        end_remake(p, result);
        return;
    }
    for (unsigned i = 0; i < p->spec.returns; i++) {
        crt_ref_t *ref = crti_pending_result(p, i);

        is_any = is_any || may_be_lost(ref);
        set_not_kept(ref, p->spec.function,
                     why == CRTI_NOT_AGAIN_PUT ? CRTI_NOT_AGAIN_MEMORY : why);
    }
    if (is_any && why == CRTI_NOT_AGAIN_PUT)
        keep_new(p);
}

/* Its stream holds it. */
void crti_lineage_keep_item(crti_pending_t *p, uint64_t index, crt_ref_t *ref)
{
    crti_not_again_t why = crti_lineage_why_not(p);
    crti_lineage_t *l;
    size_t before;

    set_not_kept(ref, p->spec.function,
                 why == CRTI_NOT_AGAIN_PUT ? CRTI_NOT_AGAIN_MEMORY : why);
    if (why != CRTI_NOT_AGAIN_PUT ||
        (ref->content != CRTI_CONTENT_STORED && !ref->more->forward) ||
        !(l = crti_items_lineage(p)))
        return;
    before = crti_lineage_bytes(l);
    if (!crti_ref_more(ref) ||
        crti_numbers_add(&l->items->refs, index + 1, ref) != CRT_OK)
        return;
    ref->more->item = index + 1;
    ref->more->lineage = l;
    ref->more->made_by = l->function;
    l->living++;
    crti_owned_set_repeatable(&ref->owned, true);
    crti_lineages_add_bytes(p->core, (int64_t)(crti_lineage_bytes(l) - before));
    crti_lineage_make_room(p->core);
}

/* ------------------------------------------------------------------ spare bytes */

/* Refs in its value may have been made from it, and be the last that keep it. */
static void vacate(crt_ref_t *ref)
{
    crti_ref_hold(ref);
    crti_ref_vacate(ref);
    crti_ref_release(ref);
}

/* What a call can make again needs no bytes until then. Others are kept while there is room for
 * them: what was made from them can't be made again without them. */
void crti_lineage_spare(crt_ref_t *ref)
{
    const crti_lineages_t *lineages = &ref->core->calls->lineages;

    if (ref->owned.state != CRTI_OWNED_STORED || ref->more->is_spared)
        return;
    if (ref->more->lineage && crti_lineage_may_repeat(ref->more->lineage)) {
        vacate(ref);
        return;
    }
    if (ref->size <= lineages->limit / SPARES_PART - lineages->spare_bytes) {
        ref->more->is_spared = true;
        add_spare_bytes(ref->core, (int64_t)ref->size);
        return;
    }
    count_forgotten(ref->core);
    if (!ref->more->lineage)
        ref->more->not_again = CRTI_NOT_AGAIN_BOUND;
    vacate(ref);
}

/* ------------------------------------------------------------------ why not */

static void tell_bound(const crt_ref_t *ref, const char *name, char *text, size_t size)
{
    size_t limit = ref->core->calls->lineages.limit;

    if (ref->more->made_by)
        snprintf(text, size,
                 "%s made it, and how was forgotten: what is kept to make lost objects "
                 "again had reached %zu bytes (CRT_LINEAGE_LIMIT)",
                 name, limit);
    else
        snprintf(text, size,
                 "it was put and dropped, and its bytes were not kept: those of such "
                 "objects are at most %zu (an eighth of CRT_LINEAGE_LIMIT)",
                 limit / SPARES_PART);
}

static void tell_why(const crt_ref_t *ref, char *text, size_t size)
{
    const crti_ref_more_t *more = ref->more;
    const char *name = more->made_by ? more->made_by->display : "a call";

    switch ((crti_not_again_t)more->not_again) {
    case CRTI_NOT_AGAIN_PUT:
        snprintf(text, size,
                 "it was put, and only what a task returns can be made again");
        break;
    case CRTI_NOT_AGAIN_ONCE:
        snprintf(text, size, "%s made it, which may run once (max_attempts)", name);
        break;
    case CRTI_NOT_AGAIN_ACTOR:
        snprintf(text, size,
                 "the actor's method %s made it, which may run once (max_task_retries)",
                 name);
        break;
    case CRTI_NOT_AGAIN_ACTOR_GONE:
        snprintf(text, size, "%s made it, whose actor has ended", name);
        break;
    case CRTI_NOT_AGAIN_BOUND: tell_bound(ref, name, text, size); break;
    case CRTI_NOT_AGAIN_USED_UP:
        snprintf(text, size,
                 "%s made it, which has run as often as it may "
                 "(max_attempts, max_task_retries)",
                 name);
        break;
    case CRTI_NOT_AGAIN_MEMORY:
        snprintf(text, size, "%s made it, and memory was short", name);
        break;
    }
}

crt_status_t crti_lineage_raise_lost(const crt_ref_t *ref, const char *text)
{
    crti_id_t node = crti_owned_lost_with(&ref->owned);
    char why[300], hex[CRTI_ID_HEX], what[1100];

    snprintf(what, sizeof(what), "%s", text);
    if (!crti_id_is_zero(node))
        snprintf(what, sizeof(what),
                 "node %.8s, which had the last copy of the object, has died",
                 crti_id_hex(node, hex));
    tell_why(ref, why, sizeof(why));
    return crt_raise(CRT_ERR_OBJECT_LOST, "%s; %s", what, why);
}
