/* SPDX-License-Identifier: Apache-2.0 */
/* Frees: objects of ours that no node needs any more.
 *
 * Where it sits
 *     refs.c, content.c, copies.c -> [ frees.c ] -> store of this node; FREE -> node daemon ->
 *     other nodes
 * Threads
 *     The core's lock.
 */
#include "runtime/base/clock.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/store_access.h"
#include "runtime/core/process/timer.h"

void crti_object_flush_frees(crti_core_t *core)
{
    crti_msg_free_t body = {
        .objects = crti_span(core->frees->queue.data, core->frees->queue.size)};

    if (core->frees->queue.size == 0)
        return;
    crti_node_notice(core, CRTI_MSG_FREE, &body);
    core->frees->queue.size = 0;
}

static void tell_free(crti_core_t *core, crti_object_id_t object, crti_id_t node)
{
    unsigned char entry[40];

    crti_id_pack(object.owner, entry);
    for (int byte = 0; byte < 8; byte++)
        entry[16 + byte] = (unsigned char)(object.number >> (56 - 8 * byte));
    crti_id_pack(node, entry + 24);
    (void)crti_buffer_append(&core->frees->queue, entry, sizeof(entry));
    if (core->frees->queue.size >= 4096)
        crti_object_flush_frees(core);
    else
        crti_core_wake_at(core, crti_now_ns() + 10 * CRTI_MS);
}

void crti_object_unstore(crti_core_t *core, crti_object_id_t object,
                         const crti_id_t *nodes, uint32_t count)
{
    if (core->is_closing)
        return; /* the node drops what a process that ended owned */
    for (uint32_t i = 0; i < count; i++) {
        if (__atomic_load_n(&core->store, __ATOMIC_ACQUIRE) &&
            crti_id_equal(nodes[i], core->node))
            crti_store_free(core->store, object);
        else
            tell_free(core, object, nodes[i]);
    }
}

void crti_object_abandon(crti_core_t *core, uint64_t call, crti_id_t node)
{
    crti_object_id_t parts = {core->process, call | CRTI_EVERY_PART};

    if (!core->is_closing)
        tell_free(core, parts, node);
}
