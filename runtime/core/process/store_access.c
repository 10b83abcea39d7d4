/* SPDX-License-Identifier: Apache-2.0 */
/* The node's store as this process writes to it, and what it frees there and on other nodes.
 *
 * Where it sits
 *     object.c, call.c (results), value_of.c -> [ store_access.c ] -> store
 *     refs.c, content.c, copies.c (no node needs an object of ours any more) ->
 *     [ store_access.c ] -> store of this node; FREE -> node daemon -> other nodes
 * Threads
 *     Any. Writing happens in the caller's thread without the core's lock: it may wait for room,
 *     and copies of large values take long. Freeing: the core's lock.
 */
#include "runtime/core/process/store_access.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/fault.h"
#include "runtime/base/limit.h"
#include "runtime/core/process/context.h"
#include "runtime/core/process/entry.h"
#include "runtime/core/process/node_link.h"
#include "runtime/core/process/timer.h"
#include "runtime/core/values/value.h"

crt_status_t crti_core_join_store(crti_core_t *core)
{
    static pthread_mutex_t joining = PTHREAD_MUTEX_INITIALIZER;
    crti_store_t *store;
    crt_status_t status = CRT_OK;

    if (__atomic_load_n(&core->store, __ATOMIC_ACQUIRE))
        return CRT_OK;
    pthread_mutex_lock(&joining);
    if (!core->store) {
        status = crti_store_attach(core->arena_fd, core->slot, core->process, &store);
        if (status == CRT_OK) {
            close(core->arena_fd);
            core->arena_fd = -1;
            __atomic_store_n(&core->store, store, __ATOMIC_RELEASE);
        }
    }
    pthread_mutex_unlock(&joining);
    return status;
}

/* As long as objects are being saved on disk, there will be room; or the daemon, which is to save
 * them, has not come to it. */
static crt_status_t wait_for_room(crti_core_t *core, size_t size, uint64_t since)
{
    uint64_t saved, deadline;
    crt_status_t status;

    do {
        saved = crti_store_saved_bytes(core->store);
        deadline = crti_now_ns() + CRTI_LIMIT(store_timeout);
        if (deadline > since + CRTI_LIMIT(store_timeout_max))
            deadline = since + CRTI_LIMIT(store_timeout_max);
        status = crti_store_wait_space(core->store, size, deadline);
    } while (status == CRT_ERR_STORE_FULL &&
             (saved != crti_store_saved_bytes(core->store) ||
              crti_store_spill_is_unheard(core->store)) &&
             crti_now_ns() < since + CRTI_LIMIT(store_timeout_max));
    return status;
}

/* Without its daemon no room is made: then that is the reason, and not the full store. */
static crt_status_t look_after_node(crti_core_t *core)
{
    crt_status_t status;

    crti_net_lock(core->net);
    crti_object_flush_frees(core); /* what we let go of may be what lacks */
    status = crti_core_check(core);
    crti_net_unlock(core->net);
    return status;
}

/* `full` with its text, unless the node is lost meanwhile. */
static crt_status_t or_node_lost(crti_core_t *core, crt_status_t full)
{
    char text[600];
    crt_status_t status;

    snprintf(text, sizeof(text), "%s", crt_error_detail());
    status = look_after_node(core);
    return status == CRT_OK ? crt_raise(full, "%s", text) : status;
}

crt_status_t crti_object_room(crti_core_t *core, crti_object_id_t id, size_t size,
                              void **data_out)
{
    uint64_t since = 0;
    crt_status_t status = crti_core_join_store(core);

    if (status != CRT_OK)
        return status;
    while ((status = crti_store_create(core->store, id, size, data_out)) ==
           CRT_ERR_STORE_FULL) {
        if (since == 0)
            since = crti_now_ns();
        status = look_after_node(core);
        if (status != CRT_OK)
            return status;
        status = wait_for_room(core, size, since);
        if (status == CRT_ERR_STORE_FULL)
            status = or_node_lost(core, status);
        if (status != CRT_OK)
            return status;
    }
    return status;
}

crt_status_t crti_object_write(crti_core_t *core, crti_object_id_t id,
                               const crti_encoder_t *encoder)
{
    void *data;
    crt_status_t status = crti_object_room(core, id, crti_encoder_size(encoder), &data);

    if (status != CRT_OK)
        return status;
    crti_encoder_write(encoder, data);
    return crti_store_seal(core->store, id, !CRTI_FAULT(6));
}

/* ---------------------------------------------------------------- freeing */

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
