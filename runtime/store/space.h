/* SPDX-License-Identifier: Apache-2.0 */
/* Space: walks over all objects, evicting copies, and the users of the memory. */
#ifndef CRTI_STORE_SPACE_H
#define CRTI_STORE_SPACE_H

#include "runtime/base/buffer.h"
#include "runtime/store/table.h"

/* What a walk saw of one object: a hint; a caller that acts on it checks again by id, locked. */
typedef struct crti_seen {
    crti_object_id_t id;
    uint64_t size, state, stamp;
} crti_seen_t;

/* Calls `look` for every object that is there during the whole walk. Takes the heap's lock for
 * a moment, not for the walk. Outside transactions. */
crt_status_t crti_space_walk(crti_store_t *store,
                             void (*look)(void *user, const crti_seen_t *seen),
                             void *user);

/* The same but for those that have no memory, which are on disk: it costs little more than there
 * are others. */
crt_status_t crti_space_walk_memory(crti_store_t *store,
                                    void (*look)(void *user, const crti_seen_t *seen),
                                    void *user);

/* All objects that `wanted` agrees to, as crti_seen_t. Outside transactions. */
void crti_space_gather(crti_store_t *store,
                       bool (*wanted)(void *user, const crti_seen_t *seen), void *user,
                       crti_buffer_t *list);

/* Whether an object in that state may lose its memory: an unpinned copy, or saved. */
bool crti_space_is_evictable(uint64_t state);

/* Appends the first pages of the slabs in a list, uint32_t each. Inside a transaction that has the
 * list's lock. */
crt_status_t crti_space_slabs(crti_store_t *store, const crti_arena_list_t *list,
                              crti_arena_chain_t chain, crti_buffer_t *pages);

/* Evicts unpinned copies, then saved objects, longest unused first, until an object of `size` bytes
 * finds room or nothing is left to evict. Outside transactions. *room_out says which. */
crt_status_t crti_space_make(crti_store_t *store, size_t size, bool *room_out);

/* "N of M MiB used by 12 objects; largest users: ..." */
void crti_space_describe(crti_store_t *store, char *text, size_t text_bytes);

#endif
