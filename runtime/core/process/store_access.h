/* SPDX-License-Identifier: Apache-2.0 */
/* The node's store as this process writes to it, and what it has freed there. */
#ifndef CRTI_CORE_PROCESS_STORE_ACCESS_H
#define CRTI_CORE_PROCESS_STORE_ACCESS_H

#include <stddef.h>

#include "runtime/base/buffer.h"
#include "runtime/core/types.h"
#include "runtime/store/store.h"

/* Objects of ours on other nodes that are free; FREE tells the daemon at the next tick. */
struct crti_frees {
    crti_buffer_t queue;
};

/* Maps this node's store, which most actors never look into: before anything is made there or read.
 * Any thread, with or without the lock. */
crt_status_t crti_core_join_store(crti_core_t *core);

/* Writes an encoded value to the store under `id` and seals it as the primary copy. Lock not
 * held: it may wait for room. */
crt_status_t crti_object_write(crti_core_t *core, crti_object_id_t id,
                               const crti_encoder_t *encoder);
crt_status_t crti_object_room(crti_core_t *core, crti_object_id_t id, size_t size,
                              void **data_out);

/* The bytes of an owned object are needed on no node any more. */
void crti_object_unstore(crti_core_t *core, crti_object_id_t object,
                         const crti_id_t *nodes, uint32_t count);
/* The process at `node` that ran our call has died: what it made for it is nobody's. */
void crti_object_abandon(crti_core_t *core, uint64_t call, crti_id_t node);
void crti_object_flush_frees(crti_core_t *core);

#endif
