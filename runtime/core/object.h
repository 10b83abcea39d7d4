/* SPDX-License-Identifier: Apache-2.0 */
/* Objects: values in the store, and the tensors that a program writes there. A part of core.h, which says
 * the rest. */
#ifndef CRTI_CORE_OBJECT_H
#define CRTI_CORE_OBJECT_H

struct crt_object {
    crti_core_t *core;
    crti_object_id_t id;
    size_t size;
    void *data;
};

/* ------------------------------------------------------------------ object.c */

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
/* A value as a new ref, held once. Lock not held. */
crt_ref_t *crti_put(crti_core_t *core, const crt_arg_t *arg);

#endif
