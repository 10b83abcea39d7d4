/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of objects, seen from above. See test_objects.c. */
#include "tests/sim/objects.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/holder_int.h"

#define DEPTH 8

bool sim_objects_is_dead(const scene_t *scene, crti_id_t process)
{
    for (size_t i = 0; i < scene->dead_count; i++)
        if (crti_id_equal(scene->dead[i], process))
            return true;
    return false;
}

/* The living holder that is this process, NULL: it is dead. */
sim_holder_t *sim_objects_holder(scene_t *scene, crti_id_t process)
{
    for (unsigned i = 0; i < PLACES; i++)
        if (scene->holder[i].process.is_alive &&
            crti_id_equal(scene->holder[i].process.id, process))
            return &scene->holder[i];
    return NULL;
}

uint64_t sim_objects_serial(sim_holder_t *h)
{
    return h->process.world->serial++;
}

/* ---------------------------------------------------------------- circles */

void sim_objects_made_of(scene_t *scene, crti_object_id_t object, sim_ref_t *const *inner,
                         unsigned count)
{
    made_t *made;

    if (count == 0)
        return;
    made = calloc(1, sizeof(*made));
    if (!made || crti_map_put(&scene->made_by_id, &object, made) != CRT_OK)
        abort();
    crti_list_append(&scene->made, &made->link);
    for (unsigned i = 0; i < count; i++)
        made->inner[made->count++] = inner[i]->id;
}

/* Gives up, and says yes, after `*budget` steps. */
static bool leads_to(const scene_t *scene, crti_object_id_t from, crti_object_id_t to,
                     int *budget)
{
    const made_t *made = crti_map_get(&scene->made_by_id, &from);

    if (crti_object_id_equal(from, to) || --*budget < 0)
        return true;
    for (unsigned i = 0; made && i < made->count; i++)
        if (leads_to(scene, made->inner[i], to, budget))
            return true;
    return false;
}

bool sim_objects_lead_to(const scene_t *scene, crti_object_id_t from, crti_object_id_t to)
{
    int budget = 100;

    return leads_to(scene, from, to, &budget);
}

/* ---------------------------------------------------------------- is a ref backed? */

static bool is_backed(scene_t *scene, const sim_holder_t *h, const sim_ref_t *ref,
                      int depth);

/* Does process `id` have a backed ref to the object? */
static bool backs(scene_t *scene, crti_id_t id, crti_object_id_t object, int depth)
{
    const sim_holder_t *h = sim_objects_holder(scene, id);
    const sim_ref_t *ref = h ? sim_holder_ref(h, object) : NULL;

    return ref && is_backed(scene, h, ref, depth);
}

/* Is `object` in the value of `outer`, at its living owner? */
static bool contains(scene_t *scene, crti_object_id_t outer, crti_object_id_t object,
                     int depth)
{
    const sim_holder_t *owner = sim_objects_holder(scene, outer.owner);
    const sim_ref_t *ref = owner ? sim_holder_ref(owner, outer) : NULL;

    for (unsigned i = 0; ref && i < ref->inner_count; i++)
        if (crti_object_id_equal(ref->inner[i]->id, object))
            return is_backed(scene, owner, ref->inner[i], depth);
    return false;
}

/* The caller still waits for this call, so it keeps its arguments. */
static bool is_awaited(scene_t *scene, const sim_holder_t *h, const sim_call_t *call)
{
    const sim_holder_t *caller = sim_objects_holder(scene, call->caller);
    const sim_remote_t *r =
        caller ? crti_map_get(&caller->by_process, &h->process.id) : NULL;

    if (!r)
        return false;
    CRTI_LIST_FOREACH (item, &r->in_flight) {
        if (CRTI_CONTAINER(item, sim_pending_t, link)->number == call->number)
            return true;
    }
    return false;
}

static bool is_covered(scene_t *scene, const sim_holder_t *h, crti_object_id_t object,
                       int depth)
{
    CRTI_LIST_FOREACH (item, &h->calls) {
        const sim_call_t *call = SIM_CALL_OF(item);

        for (unsigned i = 0; i < call->arg_count; i++)
            if (is_awaited(scene, h, call) &&
                (crti_object_id_equal(call->arg_ids[i], object) ||
                 contains(scene, call->arg_ids[i], object, depth)) &&
                backs(scene, call->caller, call->arg_ids[i], depth))
                return true;
    }
    CRTI_LIST_FOREACH (item, &h->refs) {
        const sim_ref_t *outer = SIM_REF_OF(item);

        if (!crti_object_id_equal(outer->id, object) && !outer->is_owned &&
            outer->content == SIM_VALUE && contains(scene, outer->id, object, depth) &&
            is_backed(scene, h, outer, depth))
            return true;
    }
    return false;
}

static bool is_backed(scene_t *scene, const sim_holder_t *h, const sim_ref_t *ref,
                      int depth)
{
    if (ref->is_owned)
        return true;
    if (depth == 0 || !sim_objects_holder(scene, ref->owner->id))
        return false;
    switch (ref->borrow.state) {
    case CRTI_BORROW_HELD: return !ref->is_void;
    case CRTI_BORROW_COVERED:
    case CRTI_BORROW_REGISTERING: return is_covered(scene, h, ref->id, depth - 1);
    default: return false;
    }
}

/* ---------------------------------------------------------------- while it runs */

void sim_objects_check_free(sim_holder_t *h, sim_ref_t *ref)
{
    scene_t *scene = h->process.user;

    sim_fold(scene->world, ref->id.number ^ h->process.id.high << 20);
    for (size_t i = 0; i < scene->grant_count; i++)
        if (crti_object_id_equal(scene->grants[i].object, ref->id) &&
            sim_objects_holder(scene, scene->grants[i].to))
            sim_fail(scene->world, "freed while a registration for it is on its way");
    for (unsigned i = 0; i < PLACES; i++) {
        const sim_holder_t *other = &scene->holder[i];
        const sim_ref_t *held = other == h || !other->process.is_alive
                                    ? NULL
                                    : sim_holder_ref(other, ref->id);

        if (held && is_backed(scene, other, held, DEPTH))
            sim_fail(scene->world,
                     "object %llu of place %u is freed while place %u has it (%s)",
                     (unsigned long long)ref->id.number, h->process.place, i,
                     crti_borrow_state_name(held->borrow.state));
    }
}

void sim_objects_check_content(scene_t *scene, sim_holder_t *h, sim_ref_t *ref,
                               crt_status_t status)
{
    sim_fold(scene->world, ref->id.number ^ (uint64_t)(unsigned)status << 32);
    if (status == CRT_ERR_OWNER_DIED && !sim_objects_is_dead(scene, ref->id.owner))
        sim_fail(scene->world, "OWNER_DIED, but the owner lives");
    if (status == CRT_ERR_OBJECT_LOST && scene->dead_count == 0)
        sim_fail(scene->world, "place %u: an object is lost and nobody died",
                 h->process.place);
    if (status == CRT_ERR_WORKER_DIED && scene->dead_count == 0)
        sim_fail(scene->world, "place %u: a call is lost and nobody died",
                 h->process.place);
}

void sim_objects_on_grant(sim_holder_t *owner, sim_ref_t *ref, crti_id_t to,
                          crti_id_t via)
{
    scene_t *scene = owner->process.user;

    if (scene->grant_count == scene->grant_room) {
        scene->grant_room = scene->grant_room ? scene->grant_room * 2 : 64;
        scene->grants =
            realloc(scene->grants, scene->grant_room * sizeof(*scene->grants));
        if (!scene->grants)
            abort();
    }
    scene->grants[scene->grant_count++] = (grant_t){ref->id, to, via};
}

void sim_objects_on_token(sim_holder_t *h, sim_ref_t *ref, crti_id_t via)
{
    scene_t *scene = h->process.user;

    for (size_t i = 0; i < scene->grant_count; i++) {
        grant_t *g = &scene->grants[i];

        if (crti_object_id_equal(g->object, ref->id) &&
            crti_id_equal(g->to, h->process.id) && crti_id_equal(g->via, via)) {
            *g = scene->grants[--scene->grant_count];
            return;
        }
    }
    sim_fail(scene->world, "a token that nobody granted");
}

/* ---------------------------------------------------------------- at the end */

void sim_objects_end_lost_grants(scene_t *scene)
{
    while (scene->grant_count && !scene->world->failed) {
        grant_t g = scene->grants[--scene->grant_count];
        sim_holder_t *owner = sim_objects_holder(scene, g.object.owner);
        sim_ref_t *ref = owner ? sim_holder_ref(owner, g.object) : NULL;

        if (!ref || !sim_objects_holder(scene, g.to))
            continue;
        if (!sim_objects_is_dead(scene, g.via))
            sim_fail(scene->world, "a registration never arrived, and its giver lives");
        sim_note(scene->world, "  a grant was lost with its giver");
        sim_ref_released(ref, g.to, 1);
    }
}

/* Who still has a registration. `*is_stray_out`: somebody who has no ref. */
static const char *borrower_text(scene_t *scene, const sim_ref_t *ref, char *text,
                                 size_t size, bool *is_stray_out)
{
    const crti_borrower_t *b = ref->owned.borrowers;
    const sim_holder_t *h =
        ref->owned.borrower_count ? sim_objects_holder(scene, b->process) : NULL;

    *is_stray_out = false;
    if (ref->owned.borrower_count == 0) {
        snprintf(text, size, "no borrower");
    } else if (!h) {
        snprintf(text, size, "a dead borrower");
        *is_stray_out = true;
    } else {
        *is_stray_out = !sim_holder_ref(h, ref->id);
        snprintf(text, size, "borrower place %u with %llu tokens, which has %s",
                 h->process.place, (unsigned long long)b->tokens,
                 *is_stray_out ? "no ref" : "a ref");
    }
    return text;
}

static void check_owned(scene_t *scene, const sim_ref_t *ref, bool stray_only)
{
    char text[100];
    bool is_stray;

    borrower_text(scene, ref, text, sizeof(text), &is_stray);
    sim_note(scene->world, "object %llu of place %u, %u inside, %s",
             (unsigned long long)ref->id.number, ref->holder->process.place,
             ref->inner_count, text);
    if (is_stray || !stray_only)
        sim_fail(scene->world,
                 "object %llu of place %u is never freed: %s, %u held, %u pins, %s",
                 (unsigned long long)ref->id.number, ref->holder->process.place,
                 crti_owned_state_name(ref->owned.state), ref->owned.local,
                 ref->owned.pins, text);
}

static void check_waits(scene_t *scene, const sim_holder_t *h)
{
    unsigned place = h->process.place;

    if (!crti_list_is_empty(&h->calls))
        sim_fail(scene->world, "a call at place %u never ends", place);
    CRTI_LIST_FOREACH (item, &h->remotes) {
        const sim_remote_t *r = CRTI_CONTAINER(item, sim_remote_t, link);

        if (!crti_list_is_empty(&r->in_flight) || !crti_list_is_empty(&r->borrowing))
            sim_fail(scene->world, "place %u waits for an answer for ever", place);
    }
    CRTI_LIST_FOREACH (item, &h->refs) {
        if (SIM_REF_OF(item)->gets)
            sim_fail(scene->world, "place %u waits for an object for ever", place);
    }
}

/* The causes first: waits, registrations of nobody, then refs, then what they keep. */
static void check_refs(scene_t *scene, const sim_holder_t *h, int round)
{
    if (round == 0)
        check_waits(scene, h);
    CRTI_LIST_FOREACH (item, &h->refs) {
        const sim_ref_t *ref = SIM_REF_OF(item);

        if (ref->is_owned && round != 1)
            check_owned(scene, ref, round == 0);
        if (!ref->is_owned && round == 1)
            sim_fail(scene->world, "place %u keeps a ref: %s, %u holds, %u covers",
                     h->process.place, crti_borrow_state_name(ref->borrow.state),
                     ref->borrow.holds, ref->borrow.covers);
    }
}

void sim_objects_check_rest(scene_t *scene)
{
    for (int round = 0; round < 3; round++)
        for (unsigned i = 0; i < PLACES; i++)
            if (scene->holder[i].process.is_alive)
                check_refs(scene, &scene->holder[i], round);
    for (unsigned i = 0; i < NODES; i++)
        if (scene->node[i].is_alive && crti_pull_table_count(scene->node[i].pulls))
            sim_fail(scene->world, "node %u pulls for ever", i);
    sim_stores_check_empty(scene);
}
