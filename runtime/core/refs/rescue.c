/* SPDX-License-Identifier: Apache-2.0 */
/* Rescue: while a node is drained, who owns objects that are stored there brings them to its own
 * node.
 *
 * Where it sits
 *     node_messages.c (NODE_DRAIN), deaths.c (NODE_DIED), the tick -> [ rescue.c ] -> value_of.c
 *     (fetch), store_access.c
 * Threads
 *     The core's lock.
 * Idea
 *     What was fetched stays mapped here until the ref goes, so that it is not evicted. Then the
 *     copy there is freed: the node sees by that when it may end. Results that are stored there
 *     later are found by the next look.
 * Failure
 *     An object that can't be fetched fails as it would for whoever wants it. The node's end is a
 *     death as any other.
 */
#include "runtime/core/refs/rescue.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/refs/copies.h"
#include "runtime/core/refs/kept_copies.h"
#include "runtime/core/refs/missing.h"
#include "runtime/core/refs/refs_int.h"
#include "runtime/core/refs/value_of.h"

#define LOOK_NS (200 * CRTI_MS)

static bool is_on(const crt_ref_t *ref, const void *what)
{
    const crti_id_t *node = what;

    for (uint32_t i = 0; i < ref->owned.node_count; i++)
        if (crti_id_equal(ref->owned.nodes[i], *node))
            return ref->content == CRTI_CONTENT_STORED;
    return false;
}

static void rescue(crt_ref_t *ref, crti_id_t node)
{
    if (!ref->more->view.data)
        (void)crti_value_fetch(ref);
    if (!ref->more->view.data)
        return;
    crti_ref_add_copy(ref, ref->core->node);
    crti_object_unstore(ref->core, ref->more->object, &node, 1);
    crti_ref_node_died(ref, node);
    if (ref->more->copies)
        crti_kept_copies_moved(ref, node);
}

static void rescue_from(crti_core_t *core, crti_id_t node)
{
    size_t count;
    crt_ref_t **refs = crti_refs_gather(core, false, is_on, &node, &count);

    for (size_t i = 0; i < count; i++) {
        rescue(refs[i], node);
        crti_ref_release(refs[i]);
    }
    free(refs);
}

static crti_id_t *drained(crti_core_t *core, size_t *count_out)
{
    *count_out = core->refs->drained.size / sizeof(crti_id_t);
    return (crti_id_t *)(void *)core->refs->drained.data;
}

void crti_rescue_begin(crti_core_t *core, crti_id_t node)
{
    crti_rescue_end(core, node);
    if (crti_id_equal(node, core->node) ||
        crti_buffer_append(&core->refs->drained, &node, sizeof(node)) != CRT_OK)
        return;
    core->refs->rescue_ns = 0;
    crti_core_wake_at(core, crti_now_ns());
}

void crti_rescue_end(crti_core_t *core, crti_id_t node)
{
    size_t count, kept = 0;
    crti_id_t *ids = drained(core, &count);

    for (size_t i = 0; i < count; i++)
        if (!crti_id_equal(ids[i], node))
            ids[kept++] = ids[i];
    core->refs->drained.size = kept * sizeof(node);
}

void crti_rescue_tick(crti_core_t *core, uint64_t now_ns)
{
    size_t count;
    crti_id_t node;

    if (core->refs->drained.size == 0)
        return;
    if (now_ns >= core->refs->rescue_ns) {
        core->refs->rescue_ns = now_ns + LOOK_NS;
        for (size_t i = 0; drained(core, &count) && i < count; i++) {
            node = drained(core, &count)[i];
            rescue_from(core, node);
        }
    }
    crti_core_wake_at(core, core->refs->rescue_ns);
}
