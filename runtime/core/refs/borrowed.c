/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowed refs of one owner. See borrowed.h. */
#include "runtime/core/refs/borrowed.h"

#include <stdlib.h>

#include "runtime/core/refs/refs_int.h"

#define ALL_USED ((uint32_t)((UINT64_C(1) << CRTI_REF_BLOCK) - 1))

_Static_assert(CRTI_REF_BLOCK <= 32, "a block's bit set");

/* Not 0, which no table takes. */
static uint64_t key_of(uint64_t number)
{
    return number / CRTI_REF_BLOCK + 1;
}

/* Refs come in order, mostly: so the block is that of the last one. */
static crti_ref_block_t *find_block(crti_remote_t *owner, uint64_t number)
{
    uint64_t key = key_of(number);
    crti_ref_block_t *block = owner->last_block;

    if (block && block->key == key)
        return block;
    block = crti_numbers_get(&owner->blocks, key);
    if (block)
        owner->last_block = block;
    return block;
}

crt_ref_t *crti_borrowed_get(crti_remote_t *owner, uint64_t number)
{
    crti_ref_block_t *block = find_block(owner, number);

    if (!block)
        return crti_numbers_get(&owner->borrowed, number);
    return block->used & crti_borrowed_bit(number) ? &block->refs[number % CRTI_REF_BLOCK]
                                                   : NULL;
}

void crti_borrowed_prefetch(const crti_remote_t *owner, uint64_t number)
{
    if (!owner->last_block)
        crti_numbers_prefetch(&owner->borrowed, number);
}

static crt_ref_t *place_in_table(crti_core_t *core, crti_remote_t *owner, uint64_t number,
                                 bool *is_new_out)
{
    void **place = crti_numbers_place(&owner->borrowed, number);
    crt_ref_t *ref = place ? *place : NULL;

    *is_new_out = place && !ref;
    if (!*is_new_out)
        return ref;
    ref = *place = crti_slab_get(&core->refs->slabs);
    if (!ref)
        crti_numbers_remove(&owner->borrowed, number);
    return ref;
}

crt_ref_t *crti_borrowed_place(crti_core_t *core, crti_remote_t *owner, uint64_t number,
                               bool *is_new_out, bool *is_in_block_out)
{
    crti_ref_block_t *block = find_block(owner, number);

    *is_in_block_out = block != NULL;
    if (!block)
        return place_in_table(core, owner, number, is_new_out);
    *is_new_out = !(block->used & crti_borrowed_bit(number));
    block->used |= crti_borrowed_bit(number);
    return &block->refs[number % CRTI_REF_BLOCK];
}

/* ------------------------------------------------------------------ blocks */

static bool is_any_in_table(const crti_remote_t *owner, uint64_t first)
{
    for (uint64_t i = 0; owner->borrowed.count > 0 && i < CRTI_REF_BLOCK; i++)
        if (crti_numbers_get(&owner->borrowed, first + i))
            return true;
    return false;
}

crti_ref_block_t *crti_borrowed_new_block(crti_core_t *core, crti_remote_t *owner,
                                          uint64_t first)
{
    crti_ref_block_t *block;

    if (find_block(owner, first) || is_any_in_table(owner, first))
        return NULL;
    block = crti_pool_get(&core->refs->block_pool);
    if (!block)
        return NULL;
    block->key = key_of(first);
    if (crti_numbers_add(&owner->blocks, block->key, block) != CRT_OK) {
        crti_pool_put(&core->refs->block_pool, block);
        return NULL;
    }
    block->used = ALL_USED;
    block->may_peek = 0;
    crti_list_init(&block->unasked);
    owner->last_block = block;
    return block;
}

crti_ref_block_t *crti_borrowed_block(crt_ref_t *const *refs)
{
    crti_ref_block_t *block;

    if (!refs[0]->is_in_block || refs[0]->number % CRTI_REF_BLOCK != 0)
        return NULL;
    block = crti_borrowed_block_of(refs[0]);
    for (size_t i = 0; i < CRTI_REF_BLOCK; i++)
        if (refs[i] != &block->refs[i])
            return NULL;
    return block;
}

void crti_borrowed_end_block(crti_core_t *core, crti_remote_t *owner,
                             crti_ref_block_t *block)
{
    if (owner->last_block == block)
        owner->last_block = NULL;
    crti_numbers_remove(&owner->blocks, block->key);
    crti_pool_put(&core->refs->block_pool, block);
}

/* ------------------------------------------------------------------ the end of one */

void crti_borrowed_forget(const crt_ref_t *ref)
{
    if (!ref->is_in_block) /* there its memory says so */
        crti_numbers_remove(&ref->owner->borrowed, ref->number);
}

/* True when it was the last one of its block. */
static bool leave_block(crti_ref_block_t *block, const crt_ref_t *ref)
{
    block->used &= ~crti_borrowed_bit(ref->number);
    return block->used == 0;
}

void crti_borrowed_give_back(crti_core_t *core, crti_remote_t *owner, crt_ref_t *ref)
{
    crti_ref_block_t *block;

    if (!ref->is_in_block) {
        crti_slab_put(ref);
        return;
    }
    block = crti_borrowed_block_of(ref);
    if (leave_block(block, ref))
        crti_borrowed_end_block(core, owner, block);
}

void crti_borrowed_give_back_orphan(crt_ref_t *ref)
{
    crti_ref_block_t *block;

    if (ref->is_in_slab) {
        crti_slab_put(ref);
    } else if (ref->is_in_block) {
        block = crti_borrowed_block_of(ref);
        if (leave_block(block, ref))
            free(block);
    } else {
        free(ref);
    }
}

/* ------------------------------------------------------------------ all of them */

/* With its last ref the block may go. */
static void walk_block(crti_ref_block_t *block, void (*each)(crt_ref_t *ref, void *user),
                       void *user)
{
    uint32_t used = block->used;

    for (; used; used &= used - 1)
        each(&block->refs[__builtin_ctz(used)], user);
}

void crti_borrowed_walk(const crti_remote_t *owner,
                        void (*each)(crt_ref_t *ref, void *user), void *user)
{
    size_t cursor = 0;
    crti_ref_block_t *block;
    crt_ref_t *ref;

    while ((block = crti_numbers_next(&owner->blocks, &cursor)))
        walk_block(block, each, user);
    cursor = 0;
    while ((ref = crti_numbers_next(&owner->borrowed, &cursor)))
        each(ref, user);
}
