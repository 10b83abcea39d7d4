/* SPDX-License-Identifier: Apache-2.0 */
/* All refs of this process: their tables, and those among them that something happens to. See
 * refs.h. */
#include <stdlib.h>

#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/borrowed.h"
#include "runtime/core/refs/refs_int.h"

void crti_refs_init(crti_refs_t *refs, const crti_ref_handlers_t *handlers)
{
    refs->next_number = refs->next_request = 1;
    refs->handlers = *handlers;
    crti_slabs_init(&refs->slabs, sizeof(crt_ref_t), CRTI_POOL_KEEPS);
    crti_pool_init(&refs->block_pool, sizeof(crti_ref_block_t),
                   CRTI_POOL_KEEPS / CRTI_REF_BLOCK, NULL);
    refs->block_pool.is_aligned = true;
    crti_pool_init(&refs->more_pool, sizeof(crti_ref_more_t), CRTI_POOL_KEEPS, NULL);
    crti_list_init(&refs->to_notify);
    crti_list_init(&refs->to_close);
    crti_list_init(&refs->gathering);
    crti_list_init(&refs->missing);
    crti_list_init(&refs->copies_due);
    crti_list_init(&refs->copies_settled);
    crti_list_init(&refs->copy_queries);
    crti_list_init(&refs->retries);
}

void crti_refs_leave(crti_core_t *core)
{
    crti_slabs_leave(&core->refs->slabs);
}

void crti_refs_fini(crti_refs_t *refs)
{
    crti_numbers_fini(&refs->owned);
    crti_slabs_leave(&refs->slabs);
    crti_pool_fini(&refs->block_pool);
    crti_pool_fini(&refs->more_pool);
    crti_buffer_fini(&refs->drained);
}

typedef struct gathered {
    crti_ref_wants_t *wants;
    const void *what;
    crt_ref_t **refs;
    size_t count;
} gathered_t;

static void gather(crt_ref_t *ref, void *gathered)
{
    gathered_t *g = gathered;

    if (g->wants(ref, g->what))
        g->refs[g->count++] = ref;
}

static void walk_owned(const crti_core_t *core, void (*each)(crt_ref_t *ref, void *user),
                       void *user)
{
    size_t cursor = 0;
    crt_ref_t *ref;

    while ((ref = crti_numbers_next(&core->refs->owned, &cursor)))
        each(ref, user);
}

static void walk_borrowed(const crti_core_t *core,
                          void (*each)(crt_ref_t *ref, void *user), void *user)
{
    CRTI_MAP_FOREACH (const crti_remote_t, owner, &core->remotes->table)
        crti_borrowed_walk(owner, each, user);
}

crt_ref_t **crti_refs_gather(crti_core_t *core, bool borrowed, crti_ref_wants_t *wants,
                             const void *what, size_t *count_out)
{
    size_t room = borrowed ? core->refs->borrowed : core->refs->owned.count;
    gathered_t g = {wants, what, malloc((room + 1) * sizeof(crt_ref_t *)), 0};

    *count_out = 0;
    if (!g.refs)
        return NULL;
    if (borrowed)
        walk_borrowed(core, gather, &g);
    else
        walk_owned(core, gather, &g);
    for (size_t i = 0; i < g.count; i++)
        crti_ref_hold(g.refs[i]);
    *count_out = g.count;
    return g.refs;
}

crt_ref_t *crti_ref_owned(const crti_core_t *core, uint64_t number)
{
    return crti_numbers_get(&core->refs->owned, number);
}

crti_ref_changes_t crti_ref_changes(const crti_core_t *core)
{
    return core->refs->changes;
}

void crti_refs_walk(crti_core_t *core, void (*each)(crt_ref_t *ref, void *user),
                    void *user)
{
    walk_owned(core, each, user);
    walk_borrowed(core, each, user);
}
