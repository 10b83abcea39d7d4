/* SPDX-License-Identifier: Apache-2.0 */
/* Inner refs: what a value's table of refs and actors becomes in this process.
 *
 * Where it sits
 *     refs.c, value_of.c, incoming.c -> [ inner.c ] -> refs.c, actor.c
 * Ownership
 *     HELD: each ref is held until the close. COVERED: each ref is covered by what it came in.
 */
#include <stdlib.h>

#include "runtime/core/core.h"

typedef struct opening {
    crti_core_t *core;
    crti_inner_t *inner;
    bool has_tokens;
    crt_status_t lost; /* why a ref could not be made */
} opening_t;

static crt_status_t open_ref(void *user, uint32_t index, const crti_ref_name_t *name)
{
    opening_t *o = user;
    crt_ref_t *ref;
    crt_status_t status = crti_ref_arrive(o->core, name, &ref);

    if (status != CRT_OK && o->has_tokens)
        o->lost =
            status; /* the others' tokens are ours all the same: they are given back */
    if (status != CRT_OK)
        return o->has_tokens ? CRT_OK : status;
    if (o->inner->mode == CRTI_INNER_HELD)
        crti_ref_hold(ref);
    else
        crti_ref_cover(ref);
    if (o->has_tokens)
        crti_ref_add_token(ref);
    o->inner->refs[o->inner->ref_count++] = ref;
    return CRT_OK;
}

static crt_status_t open_actor(void *user, uint32_t index, const crti_actor_name_t *name)
{
    opening_t *o = user;
    crt_status_t status =
        crti_actor_get(o->core, name->id, name->class_name, &o->inner->actors[index]);

    if (status != CRT_OK)
        return status;
    o->inner->actor_count = index + 1;
    crti_actor_hear_place(o->inner->actors[index], name);
    return CRT_OK;
}

crt_status_t crti_inner_open(crti_core_t *core, crti_span_t bytes, crti_inner_mode_t mode,
                             bool has_tokens, crti_inner_t *inner)
{
    opening_t opening = {core, inner, has_tokens, CRT_OK};
    crti_table_visitor_t visitor = {&opening, open_ref, open_actor};
    crti_table_t table;
    crt_status_t status = crti_table_open(bytes, &table);

    *inner = (crti_inner_t){.mode = mode};
    if (status != CRT_OK || bytes.size == 0)
        return status;
    inner->refs = calloc(table.ref_count + 1, sizeof(*inner->refs));
    inner->actors = calloc(table.actor_count + 1, sizeof(*inner->actors));
    if (!inner->refs || !inner->actors)
        status = crt_raise(CRT_ERR_NO_MEMORY, "a value with %u refs", table.ref_count);
    else
        status = crti_table_visit(&table, &visitor);
    if (status == CRT_OK)
        status = opening.lost;
    if (status != CRT_OK)
        crti_inner_close(inner, NULL);
    return status;
}

bool crti_inner_is_kept(const crti_inner_t *inner)
{
    if (inner->mode != CRTI_INNER_COVERED)
        return false;
    for (uint32_t i = 0; i < inner->ref_count; i++) {
        const crt_ref_t *ref = inner->refs[i];

        if (!ref->is_owned &&
            (ref->borrow.state == CRTI_BORROW_REGISTERING ||
             (ref->borrow.state == CRTI_BORROW_COVERED && ref->borrow.holds) ||
             ref->inner.ref_count > 0))
            return true;
    }
    return false;
}

void crti_inner_close(crti_inner_t *inner, crti_ending_t *ending)
{
    crti_inner_t taken = *inner;

    *inner = (crti_inner_t){0}; /* closing one may come back here */
    for (uint32_t i = 0; i < taken.ref_count; i++) {
        if (taken.mode == CRTI_INNER_HELD)
            crti_ref_release(taken.refs[i]);
        else
            crti_ref_uncover(taken.refs[i], ending);
    }
    for (uint32_t i = 0; i < taken.actor_count; i++)
        crti_actor_release(taken.actors[i]);
    free(taken.refs);
    free(taken.actors);
}
