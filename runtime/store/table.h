/* SPDX-License-Identifier: Apache-2.0 */
/* Table: the entries of all objects of the node, found by id through buckets. Called inside a
 * transaction; find, add and at take the bucket's lock for it.
 */
#ifndef CRTI_STORE_TABLE_H
#define CRTI_STORE_TABLE_H

#include "runtime/store/slab.h"

/* An entry that the transaction has locked. */
typedef struct crti_found {
    crti_bucket_t *bucket;
    crti_entry_t *entry; /* NULL: there is none */
    uint64_t ref;
    uint64_t state; /* its state word */
} crti_found_t;

crti_bucket_t *crti_table_bucket(const crti_store_t *store, crti_object_id_t id);

/* The entry of an id that is not doomed. Not finding one is CRT_OK too. */
crt_status_t crti_table_find(crti_store_t *store, crti_object_id_t id,
                             crti_found_t *found_out);

/* The entry behind a reference that can't vanish (it is pinned). */
crt_status_t crti_table_at(crti_store_t *store, uint64_t ref, crti_found_t *found_out);

/* Adds an entry in state WRITING with room for `size` bytes after a find that found none.
 * CRT_ERR_STORE_FULL. */
crt_status_t crti_table_add(crti_store_t *store, crti_object_id_t id, size_t size,
                            crti_found_t *found);

/* Deletes the entry and its memory; no process pins it. That of a saved object goes to the list of
 * those that are gone. */
crt_status_t crti_table_remove(crti_store_t *store, crti_found_t *found);

/* A saved object without pins gives its memory back and stays as SPILLED; and gets memory again, as
 * WRITING by this process. CRT_ERR_STORE_FULL. */
crt_status_t crti_table_spill(crti_store_t *store, crti_found_t *found);
crt_status_t crti_table_restore(crti_store_t *store, crti_found_t *found);

/* Takes the first entry from the list of those that are gone. CRT_ERR_NOT_FOUND: it is empty.
 * CRT_IN_PROGRESS: another came before it meanwhile. */
crt_status_t crti_table_take_gone(crti_store_t *store, crti_object_id_t *id_out);

/* Changes state, flags and pins; the one place that does, so every arrow is checked here. */
crt_status_t crti_table_move(crti_store_t *store, crti_found_t *found,
                             crti_entry_state_t state, unsigned flags, uint32_t pins);

/* It was used just now. */
void crti_table_stamp(crti_store_t *store, const crti_found_t *found);

/* One pin less; a doomed entry goes with its last pin. */
crt_status_t crti_table_unpin(crti_store_t *store, crti_found_t *found);

/* Where an entry's data lies in the file, and its size; checked against the descriptor of its
 * page. CRT_ERR_CORRUPT. */
crt_status_t crti_table_place(crti_store_t *store, const crti_entry_t *entry,
                              uint64_t *offset_out, uint64_t *size_out);

/* The same for readers: whatever the entry holds, the span lies among the data. The descriptor,
 * one more line that another processor wrote, is not looked at. */
crt_status_t crti_table_span(crti_store_t *store, const crti_entry_t *entry,
                             uint64_t *offset_out, uint64_t *size_out);

#endif
