/* SPDX-License-Identifier: Apache-2.0 */
/* Locality. See locality.h. */
#include "runtime/core/calls/locality.h"

#include "runtime/base/limit.h"
#include "runtime/core/process/context.h"
#include "runtime/core/refs/refs.h"

#define NODES 16 /* counted for one task */

typedef struct tally {
    unsigned count;
    crti_id_t node[NODES];
    size_t bytes[NODES];
} tally_t;

static void add(tally_t *tally, crti_id_t node, size_t bytes)
{
    unsigned at = 0;

    while (at < tally->count && !crti_id_equal(tally->node[at], node))
        at++;
    if (at == NODES)
        return;
    if (at == tally->count) {
        tally->node[at] = node;
        tally->bytes[at] = 0;
        tally->count++;
    }
    tally->bytes[at] += bytes;
}

/* A copy counts on each node that has one. */
static void add_ref(tally_t *tally, const crt_ref_t *ref)
{
    uint32_t count = ref->is_owned ? ref->owned.node_count : ref->more->node_count;
    const crti_id_t *nodes = ref->is_owned ? ref->owned.nodes : ref->more->nodes;

    if (ref->content != CRTI_CONTENT_STORED)
        return;
    for (uint32_t i = 0; i < count; i++)
        add(tally, nodes[i], ref->size);
}

bool crti_locality(const crti_core_t *core, crt_ref_t *const *refs, size_t count,
                   crti_id_t *node_out)
{
    tally_t tally = {.count = 0};
    size_t here = 0, most = 0;

    for (size_t i = 0; i < count; i++)
        add_ref(&tally, refs[i]);
    for (unsigned i = 0; i < tally.count; i++)
        if (crti_id_equal(tally.node[i], core->node))
            here = tally.bytes[i];
    for (unsigned i = 0; i < tally.count; i++)
        if (tally.bytes[i] > most) {
            most = tally.bytes[i];
            *node_out = tally.node[i];
        }
    return most >= here + CRTI_LIMIT(locality_limit);
}
