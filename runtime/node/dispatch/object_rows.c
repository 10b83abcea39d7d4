/* SPDX-License-Identifier: Apache-2.0 */
/* What this node tells the head of objects in its store: its part of STATE_QUERY "objects"
 * (docs/design/state.md).
 *
 * Where it sits
 *     questions.c -> [ node/dispatch/object_rows.c ] -> store/space.c, base/object_records.c
 * Threads: the loop. A walk of hints: a busy store is told of as it was near this moment.
 */
#include <stdlib.h>

#include "runtime/base/object_records.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/store/space.h"

static bool want_all(void *user, const crti_seen_t *seen)
{
    return true;
}

/* The largest first. */
static int by_size(const void *a, const void *b)
{
    uint64_t x = ((const crti_seen_t *)a)->size, y = ((const crti_seen_t *)b)->size;

    return (x < y) - (x > y);
}

static crt_status_t add_object(crti_node_t *node, const crti_seen_t *seen,
                               crti_buffer_t *out)
{
    crti_entry_state_t state = crti_state_of(seen->state);
    const crti_process_t *owner = crti_process_get(node, seen->id.owner);
    crti_object_record_t object = {
        .id = seen->id,
        .size = seen->size,
        .pins = (uint32_t)crti_state_pins(seen->state),
        .owner_pid = owner ? (int32_t)owner->pid : 0,
        .is_of_driver = owner && owner->role == CRTI_ROLE_DRIVER,
        .is_sealed = state != CRTI_ENTRY_WRITING && state != CRTI_ENTRY_UNWANTED,
        .is_copy = !(crti_state_flags(seen->state) & CRTI_ENTRY_PRIMARY)};

    return crti_object_records_add(&object, out);
}

crt_status_t crti_object_rows(crti_node_t *node, size_t limit, crti_buffer_t *out)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    crt_status_t status = CRT_OK;
    const crti_seen_t *seen;
    size_t count;

    crti_space_gather(node->store, want_all, NULL, &list);
    seen = (const crti_seen_t *)(const void *)list.data;
    count = list.size / sizeof(*seen);
    if (count)
        qsort(list.data, count, sizeof(*seen), by_size);
    for (size_t i = 0; i < count && i < limit && status == CRT_OK; i++)
        status = add_object(node, &seen[i], out);
    return status;
}
