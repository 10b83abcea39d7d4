/* SPDX-License-Identifier: Apache-2.0 */
/* Inner refs. See contained.h. */
#include "runtime/core/refs/contained.h"

#include <stdlib.h>

#include "runtime/core/refs/refs_int.h"

#define AHEAD 4 /* refs are asked of memory so long before they are used */

typedef struct opening {
    crti_core_t *core;
    crti_contained_t *inner;
    bool has_tokens;
    crt_status_t lost; /* why a ref could not be made */
    crti_arrivals_t arrivals;
} opening_t;

static crt_status_t open_ref(void *user, uint32_t index, const crti_ref_name_t *name)
{
    opening_t *o = user;
    crt_ref_t *ref;
    crt_status_t status = crti_ref_arrive_among(o->core, name, &o->arrivals, &ref);

    if (status != CRT_OK && o->has_tokens)
        o->lost =
            status; /* the others' tokens are ours all the same: they are given back */
    if (status != CRT_OK)
        return o->has_tokens ? CRT_OK : status;
    if (o->inner->mode == CRTI_CONTAINED_HELD)
        crti_ref_hold(ref);
    else
        crti_ref_cover(ref);
    if (o->has_tokens)
        crti_ref_add_token(ref);
    o->inner->refs[o->inner->ref_count++] = ref;
    return CRT_OK;
}

/* What is known of a ref that is new here is the same for all of them. */
static bool open_block(void *user, uint32_t index, const crti_ref_name_t *first)
{
    opening_t *o = user;
    crti_contained_t *inner = o->inner;
    crti_borrow_t borrow;

    crti_borrow_init(&borrow);
    if (inner->mode == CRTI_CONTAINED_HELD)
        crti_borrow_hold(&borrow);
    else
        crti_borrow_cover(&borrow);
    if (o->has_tokens)
        (void)crti_borrow_token(&borrow);
    if (!crti_ref_arrive_block(o->core, first, &o->arrivals, borrow,
                               &inner->refs[inner->ref_count]))
        return false;
    inner->ref_count += CRTI_REF_BLOCK;
    return true;
}

static crt_status_t open_actor(void *user, uint32_t index, const crti_actor_name_t *name)
{
    opening_t *o = user;
    bool has_lifetime = name->lifetime_index && o->lost == CRT_OK;
    crt_status_t status = o->core->refs->handlers.open_actor(
        o->core, name, has_lifetime ? o->inner->refs[name->lifetime_index - 1] : NULL,
        &o->inner->actors[index]);

    if (status == CRT_OK)
        o->inner->actor_count = index + 1;
    return status;
}

crt_status_t crti_contained_open(crti_core_t *core, crti_span_t bytes,
                                 crti_contained_mode_t mode, bool has_tokens,
                                 crti_contained_t *inner)
{
    opening_t opening = {core, inner, has_tokens, CRT_OK, {.name = NULL}};
    crti_table_visitor_t visitor = {&opening, open_ref, open_actor, open_block};
    crti_table_t table;
    crt_status_t status = crti_table_open(bytes, &table);

    *inner = (crti_contained_t){.mode = mode};
    if (status != CRT_OK || bytes.size == 0)
        return status;
    inner->core = core;
    inner->refs = calloc(table.ref_count + 1, sizeof(*inner->refs));
    inner->actors = calloc(table.actor_count + 1, sizeof(*inner->actors));
    if (!inner->refs || !inner->actors)
        status = crt_raise(CRT_ERR_NO_MEMORY, "a value with %u refs", table.ref_count);
    else
        status = crti_table_visit(&table, &visitor);
    if (status == CRT_OK)
        status = opening.lost;
    if (status != CRT_OK)
        crti_contained_close(inner, NULL);
    return status;
}

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
