/* SPDX-License-Identifier: Apache-2.0 */
/* Refs: their life, and the content that comes to them. The rules are in ownership.h and
 * borrow.h; here is what they ask for.
 *
 * Where it sits
 *     outgoing, incoming, peers, crt_ref_* -> [ refs.c ] -> records to owners, frees, waiters
 * Threads
 *     The core's lock.
 * Invariants
 *     Content has one writer, set_content, and comes once; only a stored one may go missing and be
 *     found again. A waiter is notified exactly once, also when the content is a failure.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/arrow.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/refs/borrowed.h"
#include "runtime/core/refs/owner_requests.h"
#include "runtime/core/refs/peek.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/core/refs/value_of.h"
#include "runtime/core/values/error.h"
#include "runtime/net/message.h"

/* ------------------------------------------------------------------ the machine of content */

#define TO(content) (1u << CRTI_CONTENT_##content)

static const crti_state_row_t states[] = {
    [CRTI_CONTENT_NONE] = {"none", TO(INLINE) | TO(STORED) | TO(FAILED)},
    [CRTI_CONTENT_INLINE] = {"inline", TO(NONE)}, /* freed */
    [CRTI_CONTENT_STORED] = {"stored", TO(NONE)}, /* missing, lost or freed */
    [CRTI_CONTENT_FAILED] = {"failed", TO(NONE)}, /* freed */
};

static void set_content(crt_ref_t *ref, crti_content_t next)
{
    assert(states[ref->content].next >> next & 1);
    CRTI_ARROW("content", states, ref->content, next);
    ref->content = next;
}

/* ------------------------------------------------------------------ the end of one */

void crti_ref_free_content(crt_ref_t *ref)
{
    crti_ref_more_t *more = ref->more;

    if (ref->content == CRTI_CONTENT_INLINE && ref->size > sizeof(ref->small))
        free(ref->long_bytes);
    if (ref->content == CRTI_CONTENT_FAILED)
        free(ref->error);
    if (more == &crti_ref_no_more)
        return;
    free(more->memory);
    free(more->nodes);
    if (ref->core && more->view.data)
        crti_store_release(ref->core->store, &more->view);
}

/* All but its memory, in which it can be seen that it was freed. */
static void end_ref(crti_core_t *core, crt_ref_t *ref)
{
    crti_peek_may_not(ref);
    if (ref->is_peeked)
        ref->owner->peeked--;
    crti_ref_free_content(ref);
    if (ref->more != &crti_ref_no_more)
        crti_pool_put(&core->refs->more_pool, ref->more);
    ref->more = CRTI_REF_NO_MORE;
    ref->core = NULL;
    ref->is_free = true;
    if (ref->content != CRTI_CONTENT_NONE)
        set_content(ref, CRTI_CONTENT_NONE);
}

static void free_owned(crt_ref_t *ref)
{
    end_ref(ref->core, ref);
    crti_owned_fini(&ref->owned);
    crti_slab_put(ref);
}

/* Something that ends after the refs inside it were registered. */
typedef struct late_end {
    crti_completion_t ending;
    crt_ref_t *ref; /* held until then */
} late_end_t;

static void on_late_end(crti_completion_t *ending)
{
    late_end_t *late = CRTI_CONTAINER(ending, late_end_t, ending);
    crt_ref_t *ref = late->ref;

    free(late);
    crti_ref_release(ref);
}

/* Closes `inner` when its refs are covered; `held` is released once what was kept of it is
 * registered. False: there is nothing to wait for, and `held` is still the caller's. */
static bool close_late(crti_contained_t *inner, crt_ref_t *held)
{
    bool are_covered = inner->core && inner->mode == CRTI_CONTAINED_COVERED;
    late_end_t *late = are_covered ? calloc(1, sizeof(*late)) : NULL;

    if (!late)
        return false;
    *late = (late_end_t){{.waits = 1, .on_end = on_late_end}, held};
    crti_contained_close(inner, &late->ending);
    if (late->ending.waits == 1) {
        free(late);
        return false;
    }
    crti_completion_done(&late->ending);
    return true;
}

/* Refs inside a forwarded value live by the hold on the ref that it came from. */
static void end_forward(crt_ref_t *ref)
{
    crt_ref_t *forward = ref->more->forward;

    if (!forward)
        return;
    ref->more->forward = NULL;
    crti_list_remove(&ref->more->forward_waiting.link);
    if (!close_late(&ref->more->inner, forward))
        crti_contained_release(forward);
}

void crti_owned_apply(crt_ref_t *ref, unsigned bits)
{
    crti_core_t *core = ref->core;

    if (bits == 0)
        return;
    if (bits & CRTI_OWNED_MISSED)
        core->refs->handlers.missed(ref);
    if (bits & CRTI_OWNED_FOUND)
        core->refs->handlers.found(ref);
    if (bits & CRTI_OWNED_LOST && !ref->more->view.data)
        crti_ref_lose(
            ref, core->refs->handlers.raise_lost(ref, "no node has the object any more"));
    if (bits & CRTI_OWNED_SPARE)
        core->refs->handlers.spare(ref);
    if (!(bits & CRTI_OWNED_FREE))
        return;
    if (ref->more->lineage || ref->more->is_spared)
        core->refs->handlers.forgotten(ref);
    if (ref->more->copies)
        core->refs->handlers.copies_end(ref);
    crti_numbers_remove(&core->refs->owned, ref->number);
    if (ref->is_lifetime)
        core->refs->handlers.lifetime_ended(ref);
    if (ref->more->object.number && !ref->more->forward)
        crti_object_unstore(core, ref->more->object, ref->owned.nodes,
                            ref->owned.node_count);
    end_forward(ref);
    crti_contained_close(&ref->more->inner, NULL);
    free_owned(ref);
}

void crti_ref_hold(crt_ref_t *ref)
{
    if (ref->is_owned)
        crti_owned_hold(&ref->owned);
    else
        crti_borrow_hold(&ref->borrow);
}

/* Refs inside that are kept must be registered before the ref that brought them may end. */
static void drop_borrowed(crt_ref_t *ref)
{
    const crti_borrow_t *b = &ref->borrow;

    if (b->holds == 1 && b->covers == 0 && b->state == CRTI_BORROW_HELD &&
        close_late(&ref->more->inner, ref))
        return;
    crti_borrowed_apply(ref, crti_borrow_drop(&ref->borrow));
}

void crti_ref_release(crt_ref_t *ref)
{
    if (ref->is_owned)
        crti_owned_apply(ref, crti_owned_drop(&ref->owned));
    else
        drop_borrowed(ref);
}

void crti_ref_pin(crt_ref_t *ref)
{
    if (ref->is_owned)
        crti_owned_pin(&ref->owned);
    else
        crti_borrow_hold(&ref->borrow);
}

void crti_ref_unpin(crt_ref_t *ref)
{
    if (ref->is_owned)
        crti_owned_apply(ref, crti_owned_unpin(&ref->owned));
    else
        drop_borrowed(ref);
}

/* ------------------------------------------------------------------ borrowed ones */

static void forget(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    crti_remote_t *owner = ref->owner;

    crti_borrowed_forget(ref);
    core->refs->borrowed--;
    end_ref(core, ref);
    crti_borrowed_give_back(core, owner, ref);
    crti_remote_unuse(core, owner);
}

void crti_ref_end_covers(crt_ref_t *ref)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&ref->more->uncovering))) {
        crti_end_wait_t *wait = CRTI_CONTAINER(item, crti_end_wait_t, link);
        crti_completion_t *ending = wait->ending;

        free(wait);
        crti_completion_done(ending);
    }
}

void crti_borrowed_apply(crt_ref_t *ref, unsigned bits)
{
    if (bits & CRTI_BORROW_UNCOVER)
        crti_ref_end_covers(ref);
    if (bits & CRTI_BORROW_FORGET) {
        crti_contained_close(&ref->more->inner, NULL);
        if (bits & CRTI_BORROW_RELEASE)
            crti_owner_request_release(ref);
        forget(ref);
    }
}

void crti_ref_cover(crt_ref_t *ref)
{
    if (ref->is_owned)
        crti_owned_hold(&ref->owned);
    else
        crti_borrow_cover(&ref->borrow);
}

/* It has been asked for. */
static void wait_for_registration(crt_ref_t *ref, crti_completion_t *ending)
{
    crti_ref_more_t *more = ending ? crti_ref_more(ref) : NULL;
    crti_end_wait_t *wait = more ? calloc(1, sizeof(*wait)) : NULL;

    if (!wait)
        return; /* out of memory: the cover ends early, which the owner may notice */
    wait->ending = ending;
    ending->waits++;
    crti_list_append(&more->uncovering, &wait->link);
}

void crti_ref_uncover(crt_ref_t *ref, crti_completion_t *ending)
{
    unsigned bits;

    if (ref->is_owned) {
        crti_owned_apply(ref, crti_owned_drop(&ref->owned));
        return;
    }
    /* If this is its end, what it holds inside ends first. */
    if (ref->borrow.covers == 1 && ref->borrow.holds == 0 &&
        ref->borrow.state != CRTI_BORROW_REGISTERING)
        crti_contained_close(&ref->more->inner, ending);
    bits = crti_borrow_uncover(&ref->borrow);
    if (bits & CRTI_BORROW_REGISTER)
        crti_owner_request_borrow(ref, ending);
    else if (bits & CRTI_BORROW_WAIT)
        wait_for_registration(ref, ending);
    else
        crti_borrowed_apply(ref, bits);
}

static bool is_held_by_cover_only(const crt_ref_t *ref)
{
    const crti_borrow_t *b = &ref->borrow;

    return b->state == CRTI_BORROW_COVERED && b->covers == 1 && b->holds == 0 &&
           ref->more == &crti_ref_no_more;
}

bool crti_ref_uncover_block(crt_ref_t *const *refs)
{
    crti_ref_block_t *block = crti_borrowed_block(refs);
    crti_core_t *core = refs[0]->core;
    crti_remote_t *owner;

    if (!block)
        return false;
    for (unsigned i = 0; i < CRTI_REF_BLOCK; i++)
        if (!is_held_by_cover_only(refs[i]))
            return false;
    owner = refs[0]->owner;
    for (unsigned i = 0; i < CRTI_REF_BLOCK; i++) {
        (void)crti_borrow_uncover(&refs[i]->borrow); /* forget it */
        end_ref(core, refs[i]);
    }
    crti_borrowed_end_block(core, owner, block);
    core->refs->borrowed -= CRTI_REF_BLOCK;
    owner->uses -= CRTI_REF_BLOCK - 1;
    crti_remote_unuse(core, owner);
    return true;
}

void crti_ref_add_token(crt_ref_t *ref)
{
    const crti_core_t *core = ref->core;
    crti_id_t giver =
        crti_id_is_zero(core->refs->sender) ? core->process : core->refs->sender;

    if (ref->is_owned) /* it was kept for us until now (borrowers.c) */
        crti_owned_apply(ref, crti_owned_release(&ref->owned, giver, 1));
    else
        crti_borrowed_apply(ref, crti_borrow_token(&ref->borrow));
}

void crti_completion_done(crti_completion_t *ending)
{
    if (--ending->waits == 0)
        ending->on_end(ending);
}

void crti_ref_owner_answered(crt_ref_t *ref, bool gone)
{
    unsigned bits = crti_borrow_answered(&ref->borrow, gone);

    if (ref->borrow.state == CRTI_BORROW_ORPHANED && ref->content == CRTI_CONTENT_NONE)
        crti_ref_fail(ref,
                      crt_raise(CRT_ERR_OBJECT_LOST, "its owner has freed the object"));
    crti_borrowed_apply(ref, bits);
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

/* ------------------------------------------------------------------ content */

static void tell(crti_list_t *waiters, crt_ref_t *ref)
{
    crti_list_t *item;

    while ((item = crti_list_pop(waiters))) {
        crti_waiting_t *waiting = CRTI_CONTAINER(item, crti_waiting_t, link);

        waiting->on_ready(waiting, ref);
    }
}

static void tell_now(crt_ref_t *ref)
{
    if (!crti_list_is_empty(&ref->more->forwards))
        ref->core->refs->handlers.moved(ref);
    tell(&ref->more->waiters, ref);
    if (!crti_list_is_empty(&ref->more->local_waiters) &&
        ref->core->refs->handlers.fetch(ref))
        tell(&ref->more->local_waiters, ref);
    crti_ref_release(ref);
}

/* And goes on for those who want to read it. Who is told may have a result by that (its argument
 * had failed), for which others wait: they are told in turn, not one inside the other, since such a
 * chain may be longer than any stack. Takes the caller's hold. */
static void tell_held(crt_ref_t *ref)
{
    crti_core_t *core = ref->core;
    crti_list_t *item;

    core->refs->changes.came++;
    if (ref->more == &crti_ref_no_more || /* nobody waits, or they will be told */
        !crti_list_is_empty(&ref->more->turn)) {
        crti_ref_release(ref);
        return;
    }
    if (core->refs->is_telling) {
        crti_list_append(&core->refs->to_tell, &ref->more->turn);
        return;
    }
    core->refs->is_telling = true;
    tell_now(ref);
    while ((item = crti_list_pop(&core->refs->to_tell)))
        tell_now(CRTI_CONTAINER(item, crti_ref_more_t, turn)->ref);
    core->refs->is_telling = false;
}

void crti_ref_tell(crt_ref_t *ref)
{
    crti_ref_hold(ref);
    tell_held(ref);
}

/* Moves both machines; then tells. An object that nobody else holds is freed when that was done. */
static void content_came(crt_ref_t *ref, crti_content_t content, crti_id_t node)
{
    static const crti_owned_state_t owned[] = {
        [CRTI_CONTENT_INLINE] = CRTI_OWNED_INLINE,
        [CRTI_CONTENT_STORED] = CRTI_OWNED_STORED,
        [CRTI_CONTENT_FAILED] = CRTI_OWNED_FAILED,
    };

    set_content(ref, content);
    ref->is_locating = false;
    crti_peek_may_not(ref);
    if (!ref->is_owned && ref->more == &crti_ref_no_more) { /* nobody is to be told */
        ref->core->refs->changes.came++;
        return;
    }
    crti_ref_hold(ref);
    if (ref->is_owned)
        crti_owned_resolve(&ref->owned, owned[content], node);
    tell_held(ref);
}

void crti_ref_set_inline(crt_ref_t *ref, const void *bytes, size_t size)
{
    if (ref->content != CRTI_CONTENT_NONE)
        return;
    if (size > sizeof(ref->small) &&
        posix_memalign(&ref->long_bytes, crti_value_has_data(bytes, size) ? 64 : 16,
                       size) != 0) {
        crti_ref_fail(ref, crt_raise(CRT_ERR_NO_MEMORY, "a value of %zu bytes", size));
        return;
    }
    ref->size = size;
    memcpy(crti_ref_bytes(ref), bytes, size);
    content_came(ref, CRTI_CONTENT_INLINE, (crti_id_t){0, 0});
}

static crt_status_t keep_nodes(crt_ref_t *ref, const crti_location_t *location)
{
    crti_ref_more_t *more = ref->more;

    more->nodes = calloc(location->node_count, sizeof(*more->nodes));
    if (!more->nodes)
        return crt_raise(CRT_ERR_NO_MEMORY, "%u copies of an object",
                         location->node_count);
    for (uint32_t i = 0; i < location->node_count; i++)
        more->nodes[i] = crti_location_node(location, i);
    more->node_count = location->node_count;
    return CRT_OK;
}

crt_status_t crti_ref_move(crt_ref_t *ref, const crti_location_t *location)
{
    if (location->node_count == 0)
        return crt_raise(CRT_ERR_OBJECT_LOST, "no node has the object");
    free(ref->more->nodes);
    ref->more->node_count = 0;
    return keep_nodes(ref, location);
}

/* A result of ours that can't be used: its bytes are needed nowhere. */
static void unstore_result(crt_ref_t *ref, const crti_location_t *location)
{
    for (uint32_t i = 0; i < location->node_count; i++) {
        crti_id_t node = crti_location_node(location, i);

        crti_object_unstore(ref->core, location->object, &node, 1);
    }
}

void crti_ref_set_stored(crt_ref_t *ref, const crti_location_t *location,
                         crti_span_t table, bool has_tokens)
{
    crt_status_t status = CRT_OK;
    crti_id_t first = {0, 0};

    if (ref->content != CRTI_CONTENT_NONE)
        return;
    if (location->node_count == 0)
        status = crt_raise(CRT_ERR_OBJECT_LOST, "no node has the object");
    else if (!crti_ref_more(ref))
        status = CRT_ERR_NO_MEMORY;
    else if (!ref->is_owned)
        status = keep_nodes(ref, location);
    if (status == CRT_OK && table.size && ref->is_owned)
        status = crti_contained_open(ref->core, table, CRTI_CONTAINED_HELD, has_tokens,
                                     &ref->more->inner);
    if (status != CRT_OK) {
        if (ref->is_owned && has_tokens)
            unstore_result(ref, location);
        crti_ref_fail(ref, status);
        return;
    }
    if (location->node_count)
        first = crti_location_node(location, 0);
    ref->more->object = location->object;
    ref->size = location->size;
    if (ref->more->copies && ref->is_owned && !ref->more->forward)
        ref->core->refs->handlers.copies_stored(ref, first);
    content_came(ref, CRTI_CONTENT_STORED, first);
}

void crti_ref_set_failed(crt_ref_t *ref, const crti_failure_t *failure)
{
    if (ref->content != CRTI_CONTENT_NONE)
        return;
    ref->error = crti_error_new(failure);
    content_came(ref, CRTI_CONTENT_FAILED, (crti_id_t){0, 0});
}

void crti_ref_fail(crt_ref_t *ref, crt_status_t status)
{
    crti_failure_t failure = {.status = status,
                              .may_have_run = true, /* what is lost may be a result */
                              .text = crti_str(crt_error_detail()),
                              .node = ref->core->node,
                              .pid = getpid()};

    crti_ref_set_failed(ref, &failure);
}

/* An inline value with refs inside: the refs are made first, so that they are held before
 * anybody is told. */
void crti_ref_set_value(crt_ref_t *ref, crti_span_t value, bool has_tokens)
{
    crti_span_t table = {"", 0};
    crt_status_t status = CRT_OK;

    if (!crti_value_is_flat(value.data, value.size))
        status = crti_value_table(value.data, value.size, &table);
    if (status == CRT_OK && table.size)
        status = crti_ref_more(ref)
                     ? crti_contained_open(ref->core, table,
                                           has_tokens ? CRTI_CONTAINED_HELD
                                                      : CRTI_CONTAINED_COVERED,
                                           has_tokens, &ref->more->inner)
                     : CRT_ERR_NO_MEMORY;
    if (status != CRT_OK)
        crti_ref_fail(ref, status);
    else
        crti_ref_set_inline(ref, value.data, value.size);
}

void crti_ref_describe(crt_ref_t *ref, crti_result_t *result, crti_buffer_t *nodes)
{
    uint32_t count = ref->is_owned ? ref->owned.node_count : ref->more->node_count;
    const crti_id_t *ids = ref->is_owned ? ref->owned.nodes : ref->more->nodes;

    if (ref->is_owned)
        crti_owned_tell(&ref->owned);
    *result = (crti_result_t){.form = CRTI_RESULT_VALUE};
    if (ref->content == CRTI_CONTENT_INLINE) {
        result->value = crti_span(crti_ref_bytes(ref), ref->size);
        return;
    }
    if (ref->content == CRTI_CONTENT_FAILED) {
        result->form = CRTI_RESULT_ERROR;
        result->failure = crti_error_failure(ref->error);
        return;
    }
    result->form = CRTI_RESULT_STORED;
    for (uint32_t i = 0; i < count; i++) {
        unsigned char id[16];

        crti_put_id(id, ids[i]);
        if (crti_buffer_append(nodes, id, sizeof(id)) != CRT_OK)
            break;
    }
    result->location = (crti_location_t){ref->more->object, ref->size, nodes->data,
                                         (uint32_t)(nodes->size / 16)};
}

/* ------------------------------------------------------------------ where it is */

static void forget_nodes(crt_ref_t *ref)
{
    if (!ref->more->nodes)
        return;
    free(ref->more->nodes);
    ref->more->nodes = NULL;
    ref->more->node_count = 0;
}

crt_status_t crti_ref_ask_owner(crt_ref_t *ref, uint64_t missed)
{
    crti_core_t *core = ref->core;
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t out = {0};
    crt_status_t status = crti_remote_connect(core, ref->owner);

    if (status == CRT_ERR_WORKER_DIED)
        return crt_raise(CRT_ERR_OWNER_DIED, "the owner of the object has ended");
    if (status == CRT_OK)
        status = crti_put_locate(&out, missed, ref->number);
    if (status != CRT_OK)
        return status;
    ref->is_locating = true;
    ref->is_unconfirmed = false;
    crti_peek_may_not(ref);
    crti_remote_send(core, ref->owner, &out);
    return CRT_OK;
}

void crti_ref_miss(crt_ref_t *ref)
{
    set_content(ref, CRTI_CONTENT_NONE);
}

void crti_ref_find(crt_ref_t *ref)
{
    set_content(ref, CRTI_CONTENT_STORED);
}

void crti_ref_vacate(crt_ref_t *ref)
{
    crti_ref_more_t *more = ref->more;

    if (!more->forward)
        crti_object_unstore(ref->core, more->object, ref->owned.nodes,
                            ref->owned.node_count);
    if (more->view.data)
        crti_store_release(ref->core->store, &more->view);
    more->view = (crti_store_view_t){0};
    free(more->memory);
    more->memory = NULL;
    more->value = (crt_value_t){0};
    ref->is_decoded = ref->is_checked = false;
    if (!more->forward)
        crti_contained_close(&more->inner, NULL);
    crti_owned_vacate(&ref->owned);
    more->missing_until_ns = 0;
    crti_ref_miss(ref);
}

void crti_ref_repeat(crt_ref_t *ref)
{
    if (ref->owned.state != CRTI_OWNED_PENDING)
        crti_owned_repeat(&ref->owned);
    ref->more->evictions = 0;
    end_forward(ref);
    crti_contained_close(&ref->more->inner, NULL);
}

void crti_ref_free_value(crt_ref_t *ref, const char *text)
{
    crti_ref_more_t *more = ref->more;

    if (ref->owned.state != CRTI_OWNED_STORED && ref->owned.state != CRTI_OWNED_MISSING)
        return;
    crti_owned_set_repeatable(&ref->owned, false);
    if (more->lineage || more->is_spared)
        ref->core->refs->handlers.forgotten(ref);
    more->is_spared = false;
    crti_ref_hold(ref); /* refs in its value may be the last that keep it */
    if (more->forward && more->forward->is_owned)
        crti_ref_free_value(more->forward, text);
    if (ref->owned.state == CRTI_OWNED_STORED && ref->is_decoded) {
        /* the program may have pointers into it */
        if (!more->forward)
            crti_object_unstore(ref->core, more->object, ref->owned.nodes,
                                ref->owned.node_count);
        crti_owned_vacate(&ref->owned);
        crti_ref_miss(ref);
    } else if (ref->owned.state == CRTI_OWNED_STORED) {
        crti_ref_vacate(ref);
    }
    if (ref->content == CRTI_CONTENT_NONE)
        crti_ref_fail(ref, crt_raise(CRT_ERR_OBJECT_LOST, "%s", text));
    if (!ref->is_decoded)
        end_forward(ref);
    crti_ref_release(ref);
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
    ref->core->refs->handlers.locate(ref);
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

void crti_ref_await(crt_ref_t *ref, crti_waiting_t *waiting, bool local)
{
    bool is_ready;

    if (local) {
        is_ready = ref->core->refs->handlers.fetch(ref);
    } else {
        ref->core->refs->handlers.locate(ref);
        is_ready = ref->content != CRTI_CONTENT_NONE;
    }
    if (!is_ready && !crti_ref_more(ref)) {
        crti_ref_fail(ref, CRT_ERR_NO_MEMORY);
        is_ready = true;
    }
    if (is_ready) {
        crti_list_init(&waiting->link);
        waiting->on_ready(waiting, ref);
    } else {
        crti_list_append(local ? &ref->more->local_waiters : &ref->more->waiters,
                         &waiting->link);
    }
}

/* ------------------------------------------------------------------ failed ones */

crt_ref_t *crti_ref_failed(crti_core_t *core, crt_status_t status)
{
    crti_failure_t failure = {.status = status,
                              .text = crti_str(crt_error_detail()),
                              .class_name = crti_str(""),
                              .method = crti_str(""),
                              .pid = getpid()};
    crt_ref_t *ref = core ? crti_ref_new(core) : calloc(1, sizeof(*ref));

    if (!ref)
        return &crti_ref_out_of_memory;
    if (core) {
        crti_ref_set_failed(ref, &failure);
        return ref;
    }
    ref->is_owned = true;
    ref->more = CRTI_REF_NO_MORE;
    ref->error = crti_error_new(&failure);
    set_content(ref, CRTI_CONTENT_FAILED);
    return ref;
}
