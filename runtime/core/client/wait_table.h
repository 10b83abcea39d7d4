/* SPDX-License-Identifier: Apache-2.0 */
/* Wait table: what is in a wait set, which of it is ready, in the order in which it became so, and
 * which of it has a pointer of the program's. A state machine without I/O; everything is O(1).
 *
 * Where it sits
 *     waitset.c -> [ wait_table.c ]
 * Threads
 *     The lock of who owns the table.
 * Ownership
 *     Entries are members of their maker's structs.
 */
#ifndef CRTI_CORE_CLIENT_WAIT_TABLE_H
#define CRTI_CORE_CLIENT_WAIT_TABLE_H

#include "runtime/base/list.h"
#include "runtime/core/values/numbers.h"

typedef struct crti_wait_entry {
    crti_list_t link; /* in the table's `ready` or `idle` */
    crti_list_t same; /* a ring of those that have the same `user` */
    void *user;
    bool is_ready;
} crti_wait_entry_t;

typedef struct crti_wait_table {
    crti_list_t ready, idle;
    crti_numbers_t users; /* of each pointer, but NULL, one entry of its ring */
    size_t count;
} crti_wait_table_t;

void crti_wait_table_init(crti_wait_table_t *table);
/* It is empty. */
void crti_wait_table_fini(crti_wait_table_t *table);

/* The entry is idle. CRT_ERR_NO_MEMORY: it is not in the table. */
crt_status_t crti_wait_table_add(crti_wait_table_t *table, crti_wait_entry_t *entry,
                                 void *user);
void crti_wait_table_remove(crti_wait_table_t *table, crti_wait_entry_t *entry);

/* It is the last of the ready ones now, unless it is one already. */
void crti_wait_table_ready(crti_wait_table_t *table, crti_wait_entry_t *entry);
void crti_wait_table_idle(crti_wait_table_t *table, crti_wait_entry_t *entry);
/* The first that became ready; it stays. NULL: none is. */
crti_wait_entry_t *crti_wait_table_first(const crti_wait_table_t *table);
/* One after the other, ready or not, as they are taken out; NULL: the table is empty. */
crti_wait_entry_t *crti_wait_table_any(const crti_wait_table_t *table);
/* One that was added with this pointer; NULL: none. */
crti_wait_entry_t *crti_wait_table_find(const crti_wait_table_t *table, const void *user);

#endif
