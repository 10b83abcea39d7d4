/* SPDX-License-Identifier: Apache-2.0 */
/* Peek: many borrowed refs of one owner are asked for at once, when the first of them is.
 *
 * Where it sits
 *     value_of.c (a ref is wanted) -> [ peek.c ] -> PEEK;  PEEKED -> [ peek.c ] -> content.c
 *     dispatch.c (PEEK, at the owner) -> [ peek.c ] -> PEEKED
 * Threads
 *     The core's lock.
 * Idea
 *     Refs that arrived together, in a list say, are read one after the other, and a question for
 *     each costs the round trip to its owner. So whoever asks for one (LOCATE) lets a PEEK go ahead
 *     for those that arrived after it and were not asked for yet. It binds nobody: the owner
 *     answers what it knows now, as far as it fits into one message and into the window, and nobody
 *     waits for it. What it did not say is asked when it is wanted. The first question is short, so
 *     that reading can begin; some more go behind it, so that reading goes on while the owner
 *     answers. In each of their answers one ref is a mark: when it is read, another question goes.
 *     The others are read without a word to anybody, and so without the lock.
 * Failure
 *     A PEEK or its answer that is lost with its session is not missed.
 */
#ifndef CRTI_CORE_PEEK_H
#define CRTI_CORE_PEEK_H

#include "runtime/core/refs/borrowed.h"

#define CRTI_PEEK_MAX   1024 /* refs of a question, */
#define CRTI_PEEK_FIRST 256  /* of the first one, and of an answer before its mark */
#define CRTI_PEEK_AHEAD 4    /* questions behind the first one */
#define CRTI_PEEK_BYTES (256u << 10)      /* of an answer, about */
#define CRTI_PEEK_VALUE ((size_t)4 << 10) /* longest value in it */

/* It arrived, and may be asked for; so may all of a block, which is new; it is asked for, has
 * content, or ends. */
static inline void crti_peek_may(crt_ref_t *ref)
{
    crti_ref_block_t *block;

    if (!ref->is_in_block) {
        ref->may_peek = true;
        crti_list_append(&ref->owner->unasked, &ref->unasked);
        return;
    }
    block = crti_borrowed_block_of(ref);
    if (!block->may_peek)
        crti_list_append(&ref->owner->unasked_blocks, &block->unasked);
    block->may_peek |= crti_borrowed_bit(ref->number);
}
static inline void crti_peek_may_all(crti_remote_t *owner, crti_ref_block_t *block)
{
    block->may_peek = block->used;
    crti_list_append(&owner->unasked_blocks, &block->unasked);
}
static inline bool crti_peek_is_unasked(crt_ref_t *ref)
{
    return ref->is_in_block
               ? crti_borrowed_block_of(ref)->may_peek & crti_borrowed_bit(ref->number)
               : ref->may_peek;
}
static inline void crti_peek_may_not(crt_ref_t *ref)
{
    crti_ref_block_t *block;

    if (!crti_peek_is_unasked(ref))
        return;
    if (!ref->is_in_block) {
        ref->may_peek = false;
        crti_list_remove(&ref->unasked);
        return;
    }
    block = crti_borrowed_block_of(ref);
    block->may_peek &= ~crti_borrowed_bit(ref->number);
    if (!block->may_peek)
        crti_list_remove(&block->unasked);
}
/* The refs of the same owner behind this one, which is about to be asked for; and those behind
 * these, after it: so many questions. */
void crti_peek_ahead(crt_ref_t *ref);
void crti_peek_behind(crti_core_t *core, crti_remote_t *owner, unsigned questions);
static inline bool crti_peek_is_mark(const crt_ref_t *ref)
{
    return atomic_load_explicit(&ref->is_peek_mark, memory_order_relaxed);
}
/* Its answer is read. */
static inline void crti_peek_read(crt_ref_t *ref)
{
    if (!crti_peek_is_mark(ref))
        return;
    atomic_store_explicit(&ref->is_peek_mark, false, memory_order_relaxed);
    crti_peek_behind(ref->core, ref->owner, 1);
}

crt_status_t crti_peek_asked(crti_client_t *client, const void *data, size_t size);
crt_status_t crti_peek_answered(crti_core_t *core, crti_remote_t *owner, const void *data,
                                size_t size);

#endif
