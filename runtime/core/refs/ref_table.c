/* SPDX-License-Identifier: Apache-2.0 */
/* All refs of this process: their tables, and those among them that something happens to. See refs.h. */
#include <stdlib.h>

#include "runtime/core/core.h"
#include "runtime/core/refs/owner_requests.h"

void crti_refs_init(crti_refs_t *refs, const crti_ref_handlers_t *handlers)
{
    refs->next_number = refs->next_request = 1;
    refs->handlers = *handlers;
    crti_map_init(&refs->borrowed, sizeof(crti_object_id_t));
    crti_pool_init(&refs->pool, sizeof(crt_ref_t), CRTI_POOL_KEEPS, NULL);
    crti_list_init(&refs->to_tell);
    crti_list_init(&refs->to_close);
    crti_list_init(&refs->missing);
    crti_list_init(&refs->copy_queries);
    crti_list_init(&refs->retries);
}

void crti_refs_orphan(crti_core_t *core)
{
    size_t cursor = 0;
    crt_ref_t *ref;
    void *value;

    while ((ref = crti_numbers_next(&core->refs.owned, &cursor)))
        crti_ref_orphan(ref);
    cursor = 0;
    while (crti_map_next(&core->refs.borrowed, &cursor, NULL, &value))
        crti_ref_orphan(value);
    cursor = 0;
    while (crti_map_next(&core->remotes.table, &cursor, NULL, &value))
        crti_owner_requests_free(value);
}

void crti_refs_fini(crti_refs_t *refs)
{
    crti_map_fini(&refs->borrowed);
    crti_numbers_fini(&refs->owned);
    crti_pool_fini(&refs->pool);
    crti_buffer_fini(&refs->drained);
}

crt_ref_t **crti_refs_gather(crti_core_t *core, bool borrowed, crti_ref_wants_t *wants,
                             const void *what, size_t *count_out)
{
    size_t room = borrowed ? core->refs.borrowed.count : core->refs.owned.count,
           cursor = 0;
    crt_ref_t **refs = malloc((room + 1) * sizeof(*refs)), *ref;
    void *value;

    *count_out = 0;
    if (!refs)
        return NULL;
    if (borrowed) {
        while (crti_map_next(&core->refs.borrowed, &cursor, NULL, &value))
            if (wants(value, what))
                refs[(*count_out)++] = value;
    } else {
        while ((ref = crti_numbers_next(&core->refs.owned, &cursor)))
            if (wants(ref, what))
                refs[(*count_out)++] = ref;
    }
    for (size_t i = 0; i < *count_out; i++)
        crti_ref_hold(refs[i]);
    return refs;
}
