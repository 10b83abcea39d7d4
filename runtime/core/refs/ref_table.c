/* SPDX-License-Identifier: Apache-2.0 */
/* All refs of this process: their tables, and those among them that something happens to. See
 * refs.h. */
#include <stdlib.h>

#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/refs_int.h"

void crti_refs_init(crti_refs_t *refs, const crti_ref_handlers_t *handlers)
{
    refs->next_number = refs->next_request = 1;
    refs->handlers = *handlers;
    crti_slabs_init(&refs->slabs, sizeof(crt_ref_t), CRTI_POOL_KEEPS);
    crti_pool_init(&refs->more_pool, sizeof(crti_ref_more_t), CRTI_POOL_KEEPS, NULL);
    crti_list_init(&refs->to_tell);
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
    crti_pool_fini(&refs->more_pool);
    crti_buffer_fini(&refs->drained);
}

typedef struct gathered {
    crti_ref_wants_t *wants;
    const void *what;
    crt_ref_t **refs;
    size_t count;
} gathered_t;

static void gather(gathered_t *g, const crti_numbers_t *table)
{
    size_t cursor = 0;
    crt_ref_t *ref;

    while ((ref = crti_numbers_next(table, &cursor)))
        if (g->wants(ref, g->what))
            g->refs[g->count++] = ref;
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
        CRTI_MAP_FOREACH (crti_remote_t, owner, &core->remotes->table)
            gather(&g, &owner->borrowed);
    else
        gather(&g, &core->refs->owned);
    for (size_t i = 0; i < g.count; i++)
        crti_ref_hold(g.refs[i]);
    *count_out = g.count;
    return g.refs;
}

static void walk(const crti_numbers_t *table, void (*each)(crt_ref_t *ref, void *user),
                 void *user)
{
    size_t cursor = 0;
    crt_ref_t *ref;

    while ((ref = crti_numbers_next(table, &cursor)))
        each(ref, user);
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
    walk(&core->refs->owned, each, user);
    CRTI_MAP_FOREACH (crti_remote_t, owner, &core->remotes->table)
        walk(&owner->borrowed, each, user);
}
