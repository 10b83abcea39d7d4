/* SPDX-License-Identifier: Apache-2.0 */
/* Inner refs. See contained.h. */
#include "runtime/core/refs/contained.h"

#include <stdlib.h>

#include "runtime/core/refs/refs_int.h"

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
