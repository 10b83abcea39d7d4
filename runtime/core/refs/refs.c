/* SPDX-License-Identifier: Apache-2.0 */
/* Refs: their life, and that content came or went. The rules are in ownership.h and borrow.h; here
 * is what they ask for.
 *
 * Where it sits
 *     holds, covers and answers; content.c, missing.c -> [ refs.c ] -> records to owners, frees;
 *     notify.c
 * Threads
 *     The core's lock.
 * Invariants
 *     Content has one writer, set_content, and comes once; only a stored one may go missing and be
 *     found again. Nobody is told here: whose content changed, and who has waiters, is in a queue
 *     that notify.c empties.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/arrow.h"
#include "runtime/base/clock.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/borrowed.h"
#include "runtime/core/refs/kept_copies.h"
#include "runtime/core/refs/owner_requests.h"
#include "runtime/core/refs/peek.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/core/values/error.h"
#include "runtime/net/message.h"

#define AHEAD 4 /* refs are asked of memory so long before they are used */

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
    __atomic_store_n(&ref->content, (uint8_t)next, __ATOMIC_RELEASE);
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
    assert(crti_list_is_empty(&ref->more->turn));
    crti_peek_may_not(ref);
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

/* ------------------------------------------------------------------ what is inside it */

static void release_actors(crti_contained_t *inner)
{
    for (uint32_t i = 0; i < inner->actor_count; i++)
        inner->core->refs->handlers.release_actor(inner->actors[i]);
    free(inner->actors);
}

/* Actors first: a lifetime that nothing else holds need not be registered when its cover ends. The
 * last refs first: most often they have numbers in a row, and a table of them has nothing to move
 * when the last one is taken out. */
static void close_now(crti_contained_t *inner, crti_completion_t *ending)
{
    release_actors(inner);
    for (uint32_t i = inner->ref_count; i-- > 0;) {
        if (i >= AHEAD)
            crti_ref_prefetch(inner->refs[i - AHEAD]);
        if (inner->mode == CRTI_CONTAINED_HELD)
            crti_ref_release(inner->refs[i]);
        else if (i + 1 >= CRTI_REF_BLOCK &&
                 crti_ref_uncover_block(&inner->refs[i + 1 - CRTI_REF_BLOCK]))
            i -= CRTI_REF_BLOCK - 1;
        else
            crti_ref_uncover(inner->refs[i], ending);
    }
    free(inner->refs);
}

/* A close that was asked for inside another one. */
typedef struct later {
    crti_list_t link; /* core->refs->to_close */
    crti_contained_t inner;
    crti_completion_t *ending; /* waits for it; may be NULL */
} later_t;

/* False: without memory it is done at once, one inside the other. */
static bool put_off(crti_core_t *core, const crti_contained_t *inner,
                    crti_completion_t *ending)
{
    later_t *later = calloc(1, sizeof(*later));

    if (!later)
        return false;
    *later = (later_t){.inner = *inner, .ending = ending};
    if (ending)
        ending->waits++;
    crti_list_append(&core->refs->to_close, &later->link);
    return true;
}

static void close_rest(crti_core_t *core)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&core->refs->to_close))) {
        later_t *later = CRTI_CONTAINER(item, later_t, link);

        close_now(&later->inner, later->ending);
        if (later->ending)
            crti_completion_done(later->ending);
        free(later);
    }
}

void crti_contained_close(crti_contained_t *inner, crti_completion_t *ending)
{
    crti_contained_t taken = *inner;
    crti_core_t *core = taken.core;

    if (!core)
        return;
    *inner = (crti_contained_t){0}; /* closing one may come back here */
    if (core->refs->is_closing_contained) {
        if (!put_off(core, &taken, ending))
            close_now(&taken, ending);
        return;
    }
    core->refs->is_closing_contained = true;
    crti_owner_requests_gather(core);
    close_now(&taken, ending);
    close_rest(core);
    crti_owner_requests_send(core);
    core->refs->is_closing_contained = false;
}

void crti_contained_release(crt_ref_t *ref)
{
    crti_contained_t inner = {
        .core = ref->core, .mode = CRTI_CONTAINED_HELD, .ref_count = 1};

    inner.refs = malloc(sizeof(*inner.refs));
    if (!inner.refs) {
        crti_ref_release(ref);
        return;
    }
    inner.refs[0] = ref;
    crti_contained_close(&inner, NULL);
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
void crti_ref_end_forward(crt_ref_t *ref)
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

    if (bits & CRTI_OWNED_SPARE)
        core->refs->handlers.spare(ref);
    if (!(bits & CRTI_OWNED_FREE))
        return;
    if (ref->more->lineage || ref->more->is_spared)
        core->refs->handlers.forgotten(ref);
    if (ref->more->copies)
        crti_kept_copies_end(ref);
    crti_numbers_remove(&core->refs->owned, ref->number);
    if (ref->is_lifetime)
        core->refs->handlers.lifetime_ended(ref);
    if (ref->more->object.number && !ref->more->forward)
        crti_object_unstore(core, ref->more->object, ref->owned.nodes,
                            ref->owned.node_count);
    crti_ref_end_forward(ref);
    crti_contained_close(&ref->more->inner, NULL);
    free_owned(ref);
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

/* ------------------------------------------------------------------ content */

void crti_ref_changed(crt_ref_t *ref)
{
    const crti_ref_more_t *more = ref->more;

    if (more == &crti_ref_no_more || !crti_list_is_empty(&more->turn) ||
        (crti_list_is_empty(&more->waiters) && crti_list_is_empty(&more->local_waiters) &&
         crti_list_is_empty(&more->forwards)))
        return;
    crti_ref_hold(ref);
    crti_list_append(&ref->core->refs->to_notify, &ref->more->turn);
}

/* Moves both machines. An object that nobody holds is freed next, or when its waiters were told. */
void crti_ref_came(crt_ref_t *ref, crti_content_t content, crti_id_t node)
{
    static const crti_owned_state_t owned[] = {
        [CRTI_CONTENT_INLINE] = CRTI_OWNED_INLINE,
        [CRTI_CONTENT_STORED] = CRTI_OWNED_STORED,
        [CRTI_CONTENT_FAILED] = CRTI_OWNED_FAILED,
    };

    set_content(ref, content);
    if (ref->is_owned && ref->is_locating)
        crti_core_wake_at(ref->core, crti_now_ns()); /* its record of missing.c ends */
    ref->is_locating = false;
    crti_peek_may_not(ref);
    ref->core->refs->changes.came++;
    crti_ref_changed(ref);
    if (!ref->is_owned)
        return;
    crti_owned_hold(&ref->owned);
    crti_owned_resolve(&ref->owned, owned[content], node);
    crti_ref_release(ref);
}

void crti_ref_set_failed(crt_ref_t *ref, const crti_failure_t *failure)
{
    if (ref->content != CRTI_CONTENT_NONE)
        return;
    ref->error = crti_error_new(failure);
    crti_ref_came(ref, CRTI_CONTENT_FAILED, (crti_id_t){0, 0});
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

/* ------------------------------------------------------------------ where it is */

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
    ref->core->refs->changes.came++;
    crti_ref_changed(ref);
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
