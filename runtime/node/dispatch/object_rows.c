/* SPDX-License-Identifier: Apache-2.0 */
/* What this node tells the head of objects in its store: its part of STATE_QUERY "objects" (docs/design/state.md).
 *
 * Where it sits
 *     state.c -> [ node/dispatch/object_rows.c ] -> store/space.c
 * The JSON holds ids, numbers and fixed words only: nothing in it needs an escape.
 * Threads: the loop. A walk of hints: a busy store is told of as it was near this moment.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/node/node.h"
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

static crt_status_t add_row(crti_node_t *node, const crti_seen_t *seen,
                            crti_buffer_t *json)
{
    crti_entry_state_t state = crti_state_of(seen->state);
    const crti_process_t *owner = crti_process_get(node, seen->id.owner);
    char row[600], hex[CRTI_ID_HEX];

    snprintf(row, sizeof(row),
             "%s{\"object_id\":\"%s%016" PRIx64 "\",\"owner_id\":\"%s\",\"owner_pid\":%d,"
             "\"owner_type\":\"%s\",\"node_id\":\"%s\",\"ip\":\"%s\",\"size\":%" PRIu64
             ",\"pins\":%u,\"is_sealed\":%s,\"is_copy\":%s}",
             json->size > 1 ? "," : "", crti_id_hex(seen->id.owner, hex), seen->id.number,
             hex, owner ? (int)owner->pid : 0,
             owner && owner->role == CRTI_ROLE_DRIVER ? "DRIVER" : "WORKER", node->hex,
             node->ip, seen->size, (unsigned)crti_state_pins(seen->state),
             state == CRTI_ENTRY_WRITING || state == CRTI_ENTRY_UNWANTED ? "false"
                                                                         : "true",
             crti_state_flags(seen->state) & CRTI_ENTRY_PRIMARY ? "false" : "true");
    return crti_buffer_append(json, row, strlen(row));
}

crt_status_t crti_object_rows(crti_node_t *node, size_t limit, crti_buffer_t *json)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t list = {0};
    const crti_seen_t *seen;
    crt_status_t status = crti_buffer_append(json, "[", 1);
    size_t count;

    crti_space_gather(node->store, want_all, NULL, &list);
    seen = (const crti_seen_t *)(const void *)list.data;
    count = list.size / sizeof(*seen);
    if (count)
        qsort(list.data, count, sizeof(*seen), by_size);
    for (size_t i = 0; i < count && i < limit && status == CRT_OK; i++)
        status = add_row(node, &seen[i], json);
    return status == CRT_OK ? crti_buffer_append(json, "]", 1) : status;
}
