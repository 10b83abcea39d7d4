/* SPDX-License-Identifier: Apache-2.0 */
/* Refs of a simulated process: what refs.c and contained.c do. See holder.h. */
#include "tests/sim/holder_int.h"

#include <stdlib.h>

/* How long a missing object is waited for. Longer than any word is on its way here, so that an
 * object which is lost although a copy was told of is one that was forgotten. */
#define MISSING_NS (25 * CRTI_S)

/* One ending that waits for one ref's registration. */
typedef struct end_wait {
    crti_list_t link;
    sim_ending_t *ending;
} end_wait_t;

/* ---------------------------------------------------------------- making */

static sim_ref_t *new_ref(sim_holder_t *h, crti_object_id_t id)
{
    sim_ref_t *ref = sim_zeroed(sizeof(*ref));

    ref->holder = h;
    ref->id = id;
    crti_list_init(&ref->uncovering);
    crti_list_append(&h->refs, &ref->link);
    if (crti_map_put(&h->by_id, &id, ref) != CRT_OK)
        abort();
    return ref;
}

sim_ref_t *sim_holder_ref(const sim_holder_t *h, crti_object_id_t id)
{
    return crti_map_get(&h->by_id, &id);
}

sim_ref_t *sim_ref_new(sim_holder_t *h)
{
    sim_ref_t *ref = new_ref(h, (crti_object_id_t){h->process.id, h->next_number++});

    ref->is_owned = true;
    crti_owned_init(&ref->owned);
    return ref;
}

sim_ref_t *sim_ref_arrive(sim_holder_t *h, const sim_name_t *name)
{
    sim_ref_t *ref = sim_holder_ref(h, name->id);

    if (ref || crti_id_equal(name->id.owner, h->process.id))
        return ref;
    ref = new_ref(h, name->id);
    crti_borrow_init(&ref->borrow);
    ref->owner = sim_holder_remote(h, name->id.owner, (unsigned)name->place);
    h->ops->watch(h, name->id.owner);
    return ref;
}

sim_name_t sim_ref_name(const sim_ref_t *ref)
{
    unsigned place = ref->is_owned ? ref->holder->process.place : ref->owner->place;

    return (sim_name_t){.id = ref->id, .incarnation = 1, .place = place};
}

/* ---------------------------------------------------------------- the end */

void sim_ref_discard(sim_ref_t *ref)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&ref->uncovering)))
        free(CRTI_CONTAINER(item, end_wait_t, link));
    crti_list_remove(&ref->link);
    if (ref->is_owned)
        crti_owned_fini(&ref->owned);
    free(ref);
}

static void free_ref(sim_ref_t *ref)
{
    crti_map_remove(&ref->holder->by_id, &ref->id);
    sim_ref_discard(ref);
}

static void found(sim_ref_t *ref);

static void owned_bits(sim_ref_t *ref, unsigned bits)
{
    sim_holder_t *h = ref->holder;

    if (bits & CRTI_OWNED_MISSED) {
        ref->content = SIM_NONE;
        ref->missed_at = h->process.world->now;
        if (ref->gets)
            sim_ref_wanted(ref);
    }
    if (bits & CRTI_OWNED_FOUND)
        found(ref);
    if (bits & CRTI_OWNED_LOST) {
        h->ops->on_lost(h, ref);
        ref->content = SIM_NONE;
        sim_ref_fail(ref, CRT_ERR_OBJECT_LOST);
    }
    if (!(bits & CRTI_OWNED_FREE))
        return;
    h->ops->on_free(h, ref);
    for (uint32_t i = 0; i < ref->owned.node_count; i++)
        h->ops->unstore(h, ref->id, ref->owned.nodes[i]);
    sim_inner_close(ref, NULL);
    free_ref(ref);
}

static void borrowed_bits(sim_ref_t *ref, unsigned bits);

void sim_ref_hold(sim_ref_t *ref)
{
    if (ref->is_owned)
        crti_owned_hold(&ref->owned);
    else
        crti_borrow_hold(&ref->borrow);
}

/* Refs inside that are kept longer, or have refs inside that may be, are registered before `ref`
 * may end. */
static bool inner_is_kept(const sim_ref_t *ref)
{
    for (unsigned i = 0; i < ref->inner_count && !ref->inner_is_held; i++) {
        const sim_ref_t *inner = ref->inner[i];

        if (!inner->is_owned &&
            (inner->borrow.state == CRTI_BORROW_REGISTERING ||
             (inner->borrow.state == CRTI_BORROW_COVERED && inner->borrow.holds) ||
             inner->inner_count > 0))
            return true;
    }
    return false;
}

static void on_late_end(sim_ending_t *ending)
{
    sim_ref_release(CRTI_CONTAINER(ending, sim_ref_t, late));
}

static void drop_borrowed(sim_ref_t *ref)
{
    const crti_borrow_t *b = &ref->borrow;

    if (b->holds == 1 && b->covers == 0 && b->state == CRTI_BORROW_HELD &&
        inner_is_kept(ref)) {
        ref->late = (sim_ending_t){1, on_late_end};
        crti_borrow_hold(&ref->borrow);
        sim_inner_close(ref, &ref->late);
        sim_ending_done(&ref->late);
    }
    borrowed_bits(ref, crti_borrow_drop(&ref->borrow));
}

void sim_ref_release(sim_ref_t *ref)
{
    if (ref->is_owned)
        owned_bits(ref, crti_owned_drop(&ref->owned));
    else
        drop_borrowed(ref);
}

void sim_ref_pin(sim_ref_t *ref)
{
    if (ref->is_owned)
        crti_owned_pin(&ref->owned);
    else
        crti_borrow_hold(&ref->borrow);
}

void sim_ref_unpin(sim_ref_t *ref)
{
    if (ref->is_owned)
        owned_bits(ref, crti_owned_unpin(&ref->owned));
    else
        drop_borrowed(ref);
}

/* ---------------------------------------------------------------- covers */

void sim_ending_done(sim_ending_t *ending)
{
    if (--ending->waits == 0)
        ending->on_end(ending);
}

static void borrowed_bits(sim_ref_t *ref, unsigned bits)
{
    crti_list_t *item;

    if (bits & CRTI_BORROW_UNCOVER)
        while ((item = crti_list_pop(&ref->uncovering))) {
            end_wait_t *wait = CRTI_CONTAINER(item, end_wait_t, link);
            sim_ending_t *ending = wait->ending;

            free(wait);
            sim_ending_done(ending);
        }
    if (bits & CRTI_BORROW_FORGET) {
        sim_inner_close(ref, NULL);
        if (ref->borrow.tokens)
            sim_send_release(ref);
        free_ref(ref);
    }
}

void sim_ref_cover(sim_ref_t *ref)
{
    if (ref->is_owned)
        crti_owned_hold(&ref->owned);
    else
        crti_borrow_cover(&ref->borrow);
}

void sim_ref_uncover(sim_ref_t *ref, sim_ending_t *ending)
{
    end_wait_t *wait;
    unsigned bits;

    if (ref->is_owned) {
        owned_bits(ref, crti_owned_drop(&ref->owned));
        return;
    }
    if (ref->borrow.covers == 1 && ref->borrow.holds == 0 &&
        ref->borrow.state != CRTI_BORROW_REGISTERING)
        sim_inner_close(ref, ending);
    bits = crti_borrow_uncover(&ref->borrow);
    if (bits & CRTI_BORROW_REGISTER) {
        sim_send_borrow(ref, ending);
        return;
    }
    if (bits & CRTI_BORROW_WAIT && ending) {
        wait = sim_zeroed(sizeof(*wait));
        wait->ending = ending;
        ending->waits++;
        crti_list_append(&ref->uncovering, &wait->link);
    }
    borrowed_bits(ref, bits);
}

void sim_ref_add_token(sim_ref_t *ref, bool is_void, crti_id_t via)
{
    sim_holder_t *h = ref->holder;

    if (!is_void)
        h->ops->on_token(h, ref, via);
    if (ref->is_owned) {
        owned_bits(ref, crti_owned_release(&ref->owned, h->process.id, 1));
        return;
    }
    /* A registration that nobody made backs nothing, but takes nothing away either. */
    if (!is_void)
        ref->is_void = false;
    else if (ref->borrow.state == CRTI_BORROW_COVERED)
        ref->is_void = true;
    borrowed_bits(ref, crti_borrow_token(&ref->borrow));
}

void sim_ref_owner_answered(sim_ref_t *ref, bool gone)
{
    unsigned bits = crti_borrow_answered(&ref->borrow, gone);

    if (ref->borrow.state == CRTI_BORROW_ORPHANED && ref->content == SIM_NONE)
        sim_ref_fail(ref, CRT_ERR_OBJECT_LOST);
    borrowed_bits(ref, bits);
}

void sim_ref_owner_died(sim_ref_t *ref)
{
    unsigned bits = crti_borrow_owner_died(&ref->borrow);

    if (ref->content == SIM_NONE)
        sim_ref_fail(ref, CRT_ERR_OWNER_DIED);
    borrowed_bits(ref, bits);
}

void sim_ref_borrower_died(sim_ref_t *ref, crti_id_t process)
{
    owned_bits(ref, crti_owned_process_died(&ref->owned, process));
}

void sim_ref_released(sim_ref_t *ref, crti_id_t process, uint64_t tokens)
{
    owned_bits(ref, crti_owned_release(&ref->owned, process, tokens));
}

void sim_ref_node_died(sim_ref_t *ref, crti_id_t node)
{
    owned_bits(ref, crti_owned_node_died(&ref->owned, node));
}

void sim_ref_copied(sim_ref_t *ref, crti_id_t node)
{
    owned_bits(ref, crti_owned_copy(&ref->owned, node));
}

/* ---------------------------------------------------------------- missing */

/* Its task is run once more, here. */
static bool is_made_again(sim_ref_t *ref)
{
    sim_holder_t *h = ref->holder;

    if (ref->owned.state != CRTI_OWNED_MISSING || !sim_chance(h->process.world, 5000))
        return false;
    crti_owned_repeat(&ref->owned);
    h->ops->store(h, ref->id);
    sim_ref_set_value(ref, true, h->ops->node_id(h));
    return true;
}

void sim_ref_give_up(sim_holder_t *h, uint64_t number)
{
    CRTI_LIST_FOREACH (item, &h->refs) {
        sim_ref_t *ref = SIM_REF_OF(item);

        if (!h->process.is_alive || ref->wanted != number)
            continue;
        ref->wanted = 0;
        if (!is_made_again(ref))
            owned_bits(ref, crti_owned_give_up(&ref->owned));
        sim_ref_release(ref);
        return;
    }
}

/* Those who do not answer are not waited for any longer. */
static void on_waited(void *user, uint64_t number)
{
    sim_ref_give_up(user, number);
}

void sim_ref_wanted(sim_ref_t *ref)
{
    sim_holder_t *h = ref->holder;
    sim_world_t *w = h->process.world;
    uint64_t at = ref->missed_at + MISSING_NS;

    if (!ref->is_owned || ref->owned.state != CRTI_OWNED_MISSING || ref->wanted)
        return;
    sim_ref_hold(ref);
    ref->wanted = h->ops->serial(h);
    sim_after(w, at > w->now ? at - w->now : 0, on_waited, h, ref->wanted);
    sim_seek_begin(ref);
}

/* ---------------------------------------------------------------- content */

bool sim_inner_open(sim_ref_t *ref, const sim_name_t *names, uint64_t count,
                    const crti_id_t *via)
{
    bool is_whole = true;

    ref->inner_is_held = via != NULL;
    for (uint64_t i = 0; i < count; i++) {
        sim_ref_t *inner = sim_ref_arrive(ref->holder, &names[i]);

        if (!inner && !via)
            return false;
        if (!inner) { /* the others' tokens are ours all the same */
            is_whole = false;
            continue;
        }
        if (via)
            sim_ref_hold(inner);
        else
            sim_ref_cover(inner);
        ref->inner[ref->inner_count++] = inner;
        if (via)
            sim_ref_add_token(inner, names[i].is_void, *via);
    }
    return is_whole;
}

void sim_inner_close(sim_ref_t *ref, sim_ending_t *ending)
{
    sim_holder_t *h = ref->holder;
    sim_ref_t *inner[SIM_REFS];
    unsigned count = ref->inner_count;

    for (unsigned i = 0; i < count; i++)
        inner[i] = ref->inner[i];
    ref->inner_count = 0;
    sim_requests_gather(h);
    for (unsigned i = 0; i < count; i++) {
        if (ref->inner_is_held)
            sim_ref_release(inner[i]);
        else
            sim_ref_uncover(inner[i], ending);
    }
    sim_requests_send(h);
}

static void tell(sim_ref_t *ref, crt_status_t status)
{
    sim_holder_t *h = ref->holder;

    sim_ref_hold(ref);
    h->ops->on_content(h, ref, status);
    for (; ref->gets > 0; ref->gets--)
        sim_ref_release(ref);
    if (ref->is_owned)
        sim_answer_locators(ref);
    sim_ref_release(ref);
}

static void content_came(sim_ref_t *ref, sim_content_t content, crti_owned_state_t state,
                         crt_status_t status, crti_id_t node)
{
    ref->content = content;
    ref->status = status;
    ref->is_locating = ref->is_pulling = false;
    sim_ref_hold(ref);
    if (ref->is_owned)
        crti_owned_resolve(&ref->owned, state, node);
    tell(ref, status);
    sim_ref_release(ref);
}

void sim_ref_fail(sim_ref_t *ref, crt_status_t status)
{
    if (ref->content == SIM_NONE)
        content_came(ref, SIM_FAILED, CRTI_OWNED_FAILED, status, (crti_id_t){0, 0});
}

void sim_ref_set_value(sim_ref_t *ref, bool is_stored, crti_id_t node)
{
    if (ref->content != SIM_NONE)
        return;
    ref->is_stored = is_stored;
    if (!ref->is_owned && !sim_inner_open(ref, ref->names, ref->name_count, NULL)) {
        sim_ref_fail(ref, CRT_ERR_OBJECT_LOST);
        return;
    }
    content_came(ref, SIM_VALUE, is_stored ? CRTI_OWNED_STORED : CRTI_OWNED_INLINE,
                 CRT_OK, node);
}

static void get_bytes(sim_ref_t *ref)
{
    sim_holder_t *h = ref->holder;

    if (!ref->is_stored || h->ops->has(h, ref->id)) {
        tell(ref, ref->status);
    } else if (!ref->is_pulling) {
        ref->is_pulling = true;
        h->ops->pull(h, ref);
    }
}

/* Who waits for the place hears it; the program's gets go on. */
static void found(sim_ref_t *ref)
{
    ref->content = SIM_VALUE;
    sim_answer_locators(ref);
    if (ref->gets)
        get_bytes(ref);
}

/* Content is known; if its bytes are elsewhere they are brought here for those who wait. */
void sim_holder_get(sim_ref_t *ref)
{
    sim_ref_hold(ref);
    ref->gets++;
    sim_ref_wanted(ref);
    if (ref->content == SIM_NONE) {
        if (!ref->is_owned && !ref->is_locating && !ref->is_pulling)
            sim_send_locate(ref);
    } else if (ref->content == SIM_VALUE) {
        get_bytes(ref);
    } else {
        tell(ref, ref->status);
    }
}

void sim_holder_pulled(sim_holder_t *h, crti_object_id_t object, crt_status_t status)
{
    sim_ref_t *ref = sim_holder_ref(h, object);

    if (!ref || !ref->is_pulling)
        return;
    ref->is_pulling = false;
    if (status == CRT_OK)
        sim_send_copy(ref);
    sim_seek_pulled(h);
    if (ref->is_owned && ref->content == SIM_NONE)
        return; /* missing: its fate is decided elsewhere */
    if (status != CRT_OK && ref->content == SIM_NONE)
        sim_ref_fail(ref, status);
    else if (ref->content == SIM_NONE)
        sim_ref_set_value(ref, true, (crti_id_t){0, 0});
    else
        tell(ref, status);
}
