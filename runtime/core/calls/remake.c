/* SPDX-License-Identifier: Apache-2.0 */
/* Remaking: the call of a lineage is run once more, since a result of it was lost. See lineage.h.
 *
 * Where it sits
 *     refs/missing.c, refs/forward.c (no copy is left) -> [ remake.c ] -> slots.c -> actor.c or
 *     submit.c; pending.c tells lineage.c of its end
 * Threads
 *     The core's lock.
 */
#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/core/calls/call_events.h"
#include "runtime/core/calls/call_options.h"
#include "runtime/core/calls/lineage_int.h"
#include "runtime/core/calls/tasks.h"
#include "runtime/core/process/timer.h"

#define TELL_NS (10 * CRTI_S) /* so long a program waits without a word */

static crt_ref_t *result_again(crti_core_t *core, crti_lineage_t *l, unsigned index)
{
    crt_ref_t *ref = l->refs[index];

    if (!ref) /* nobody wants that one */
        return index || l->items ? crti_ref_new(core)
                                 : crti_ref_new_numbered(core, l->first);
    crti_ref_hold(ref);
    return ref;
}

/* There was no memory for all of them. */
static void give_result_back(crt_ref_t *ref)
{
    if (ref->owned.state == CRTI_OWNED_PENDING)
        crti_ref_fail(ref, CRT_ERR_NO_MEMORY);
    crti_ref_release(ref);
}

/* All of its results, each held; false: no memory. */
static bool take_results(crti_pending_t *p, crti_lineage_t *l)
{
    p->result = result_again(p->core, l, 0);
    if (!p->result)
        return false;
    p->more = l->returns > 1 ? calloc(l->returns - 1u, sizeof(*p->more)) : NULL;
    for (unsigned i = 1; i < l->returns; i++) {
        crt_ref_t *ref = p->more ? result_again(p->core, l, i) : NULL;

        if (!ref) {
            while (p->more && --i)
                give_result_back(p->more[i - 1]);
            free(p->more);
            give_result_back(p->result);
            return false;
        }
        p->more[i - 1] = ref;
    }
    return true;
}

static crti_pending_t *new_attempt(crti_core_t *core, crti_lineage_t *l, crt_ref_t *asked)
{
    crti_pending_t *p = crti_pending_blank(core);

    if (!p)
        return NULL;
    p->spec.returns = l->returns;
    if (!take_results(p, l)) {
        crti_pending_free(p);
        return NULL;
    }
    p->lineage = l;
    p->spec.function = l->function;
    p->spec.max_retries = l->max_retries;
    p->spec.group = l->group;
    if (crti_lineage_is_task(l)) {
        p->pool = l->pool;
        p->pool->users++;
    } else {
        p->spec.actor = l->actor;
        crti_actor_hold(l->actor);
    }
    p->number = crti_new_number(core);
    crti_attempt_follow(&p->attempt, l->retries);
    for (unsigned i = 0; i < l->returns; i++) {
        crt_ref_t *ref = crti_pending_result(p, i);

        ref->call = p;
        ref->is_result = true;
        if (ref == asked || ref->owned.state == CRTI_OWNED_MISSING)
            crti_ref_repeat(ref);
    }
    if (l->items)
        crti_items_await(p, l, asked);
    return p;
}

/* It yields into a stream of its own. */
static crt_status_t begin_stream(crti_pending_t *p, const crti_lineage_t *l)
{
    crt_stream_t *stream = crti_call_stream_unread(p->core, crti_items_first(l));

    if (!stream)
        return crt_raise(CRT_ERR_NO_MEMORY, "a stream of %s", l->function->display);
    crti_call_stream_begin(stream, p);
    crti_call_stream_restart(p);
    return CRT_OK;
}

static crt_status_t prepare(crti_pending_t *p, const crti_lineage_t *l)
{
    crt_status_t status = crti_numbers_add(&p->core->calls->retried, p->number, p);

    if (status == CRT_OK && l->options)
        status = crti_call_options_again(p, l->options, true);
    for (uint32_t i = 0; i < l->pin_count && status == CRT_OK; i++)
        status = crti_call_spec_pin(&p->spec, crti_lineage_pins(l)[i]);
    if (status == CRT_OK)
        status = crti_slot_record(p, crti_lineage_record(l));
    return status == CRT_OK && l->items ? begin_stream(p, l) : status;
}

static void refuse(crt_ref_t *asked, crti_not_again_t why)
{
    crti_lineage_t *l = asked->more->lineage;

    asked->more->not_again = (unsigned char)why;
    for (unsigned i = 0; i < l->returns; i++)
        if (l->refs[i])
            l->refs[i]->more->not_again = (unsigned char)why;
}

static crti_not_again_t why_no_more(const crti_lineage_t *l)
{
    return crti_lineage_is_task(l) || l->actor->phase != CRTI_ACTOR_GONE
               ? CRTI_NOT_AGAIN_USED_UP
               : CRTI_NOT_AGAIN_ACTOR_GONE;
}

static void log_again(const crti_pending_t *p, const crt_ref_t *ref, crti_id_t node)
{
    char hex[CRTI_ID_HEX];

    crti_log(CRTI_LOG_INFO, "core", "%s is made again (%lld): object %llu was lost%s%.8s",
             crti_call_name(p), (long long)p->attempt.retries,
             (unsigned long long)ref->number, crti_id_is_zero(node) ? "" : " with node ",
             crti_id_is_zero(node) ? "" : crti_id_hex(node, hex));
}

bool crti_lineage_make_again(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    crti_lineage_t *l = ref->more->lineage;
    crti_id_t node = crti_owned_lost_with(&ref->owned);
    crti_pending_t *p;
    crt_status_t status;
    crti_remake_t *remake;

    if (!l || core->is_closing || core->broken != CRT_OK)
        return false;
    if (l->remake) {
        if (ref->more->item)
            crti_items_join(l, ref);
        else if (ref->owned.state == CRTI_OWNED_PENDING)
            crti_ref_repeat(ref); /* no longer another one's value */
        return true;
    }
    if (l->items)
        crti_items_count_retries(l);
    if (!crti_lineage_may_repeat(l)) {
        refuse(ref, why_no_more(l));
        return false;
    }
    remake = calloc(1, sizeof(*remake));
    p = remake ? new_attempt(core, l, ref) : NULL;
    if (!p) {
        free(remake);
        refuse(ref, CRTI_NOT_AGAIN_MEMORY);
        return false;
    }
    *remake = (crti_remake_t){.lineage = l, .since_ns = crti_now_ns()};
    l->remake = remake;
    crti_list_append(&core->calls->lineages.under_way, &remake->link);
    crti_core_wake_at(core, remake->since_ns + TELL_NS);
    status = prepare(p, l);
    if (status != CRT_OK) {
        crti_pending_fail(p, status, crt_error_detail(), false);
        return true;
    }
    log_again(p, ref, node);
    crti_call_event_again(p, "an object that it had made was lost");
    for (unsigned i = 0; i < l->returns; i++)
        if (l->refs[i] && l->refs[i]->content == CRTI_CONTENT_NONE)
            crti_tasks_give_back(core, l->refs[i]);
    if (ref->more->item)
        crti_tasks_give_back(core, ref);
    crti_call_await_slots(p);
    return true;
}

/* ------------------------------------------------------------------ what is told */

void crti_lineage_tick(crti_core_t *core, uint64_t now_ns)
{
    const crti_lineage_t *first = NULL;
    uint64_t next = UINT64_MAX;
    unsigned count = 0;

    CRTI_LIST_FOREACH (item, &core->calls->lineages.under_way) {
        crti_remake_t *remake = CRTI_CONTAINER(item, crti_remake_t, link);
        uint64_t at = remake->since_ns + TELL_NS;

        if (remake->is_told)
            continue;
        if (at > now_ns) {
            next = at < next ? at : next;
            continue;
        }
        remake->is_told = true;
        first = first ? first : remake->lineage;
        count++;
    }
    if (count)
        crti_log(
            CRTI_LOG_WARN, "core",
            "whoever gets them waits: for 10 s now %u lost object%s made again, by %s%s",
            count, count == 1 ? " is" : "s are", first->function->display,
            count == 1 ? "" : " and others");
    if (next != UINT64_MAX)
        crti_core_wake_at(core, next);
}
