/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowed refs of one owner: found by their numbers, and the memory they lie in.
 *
 * Where it sits
 *     new_ref.c, refs.c, peek.c, dispatch.c -> [ borrowed.c ] -> slabs, tables of numbers
 * Threads
 *     The core's lock; blocks of before a shutdown: that of orphans.c.
 * Idea
 *     The refs in a list mostly have numbers that follow each other. Such refs are made, found and
 *     ended by blocks: CRTI_REF_BLOCK of them side by side, with one entry in a table, so that
 *     little has to be done for each ref of a long list. Others are one by one in slabs and in a
 *     table.
 * Invariants
 *     While a block is there, each ref whose number is of it lies in it.
 * Ownership
 *     A block lives as long as one of its refs.
 */
#ifndef CRTI_CORE_REFS_BORROWED_H
#define CRTI_CORE_REFS_BORROWED_H

#include "runtime/core/process/remotes.h"
#include "runtime/core/refs/refs.h"

typedef struct crti_ref_block {
    uint64_t key; /* in remote->blocks; first: a pool writes there */
    /* Bit sets: of the refs that there are; of those that may be peeked (peek.h), so many that it
     * is in remote->unasked_blocks. */
    uint32_t used, may_peek;
    crti_list_t unasked;
    _Alignas(64) crt_ref_t refs[CRTI_REF_BLOCK];
} crti_ref_block_t;

static inline bool crti_borrowed_any(const crti_remote_t *owner)
{
    return owner->borrowed.count || owner->blocks.count;
}
static inline uint32_t crti_borrowed_bit(uint64_t number)
{
    return 1u << number % CRTI_REF_BLOCK;
}
static inline crti_ref_block_t *crti_borrowed_block_of(crt_ref_t *ref)
{
    return CRTI_CONTAINER(ref - ref->number % CRTI_REF_BLOCK, crti_ref_block_t, refs);
}
/* NULL: there is none. */
crt_ref_t *crti_borrowed_get(crti_remote_t *owner, uint64_t number);
/* Soon it will be looked for. */
void crti_borrowed_prefetch(const crti_remote_t *owner, uint64_t number);
/* Its memory, of any value when the number (not 0) is new. NULL without memory. */
crt_ref_t *crti_borrowed_place(crti_core_t *core, crti_remote_t *owner, uint64_t number,
                               bool *is_new_out, bool *is_in_block_out);
/* A block for the numbers from `first` on, which is a multiple of CRTI_REF_BLOCK; its refs are of
 * any value. NULL: there is no memory, or there is a ref of one of the numbers. */
crti_ref_block_t *crti_borrowed_new_block(crti_core_t *core, crti_remote_t *owner,
                                          uint64_t first);
/* The block of which these CRTI_REF_BLOCK refs are all, in order; NULL: of none. */
crti_ref_block_t *crti_borrowed_block(crt_ref_t *const *refs);
/* No ref of it is left. */
void crti_borrowed_end_block(crti_core_t *core, crti_remote_t *owner,
                             crti_ref_block_t *block);
/* The ref is not found any more; then its memory is given back. */
void crti_borrowed_forget(const crt_ref_t *ref);
void crti_borrowed_give_back(crti_core_t *core, crti_remote_t *owner, crt_ref_t *ref);
/* The same after a shutdown. */
void crti_borrowed_give_back_orphan(crt_ref_t *ref);
/* All of them. `each` may give the memory of a ref back (as an orphan), and changes nothing
 * else. */
void crti_borrowed_walk(const crti_remote_t *owner,
                        void (*each)(crt_ref_t *ref, void *user), void *user);

#endif
