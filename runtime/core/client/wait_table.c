/* SPDX-License-Identifier: Apache-2.0 */
/* Wait table. See wait_table.h. */
#include "runtime/core/client/wait_table.h"

/* Of a pointer, which may be any number; one number for each, and never 0. Neighbours are
 * scattered. */
static uint64_t number_of(const void *user)
{
    uint64_t n = (uint64_t)(uintptr_t)user;

    n = (n ^ n >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    return n ^ n >> 29;
}

static crti_wait_entry_t *entry_at(crti_list_t *link)
{
    return CRTI_CONTAINER(link, crti_wait_entry_t, link);
}

void crti_wait_table_init(crti_wait_table_t *t)
{
    *t = (crti_wait_table_t){.count = 0};
    crti_list_init(&t->ready);
    crti_list_init(&t->idle);
}

void crti_wait_table_fini(crti_wait_table_t *t)
{
    crti_numbers_fini(&t->users);
}

crt_status_t crti_wait_table_add(crti_wait_table_t *t, crti_wait_entry_t *entry,
                                 void *user)
{
    crti_wait_entry_t *other = user ? crti_wait_table_find(t, user) : NULL;
    crt_status_t status = CRT_OK;

    crti_list_init(&entry->same);
    entry->user = user;
    entry->is_ready = false;
    if (other)
        crti_list_append(&other->same, &entry->same);
    else if (user)
        status = crti_numbers_add(&t->users, number_of(user), entry);
    if (status != CRT_OK)
        return status;
    crti_list_append(&t->idle, &entry->link);
    t->count++;
    return CRT_OK;
}

/* The ring has another one that stands for it, or ends. Room for that was just given back. */
static void leave_ring(crti_wait_table_t *t, crti_wait_entry_t *entry)
{
    crti_list_t *next = entry->same.next;
    bool is_last = next == &entry->same;

    crti_list_remove(&entry->same);
    if (crti_wait_table_find(t, entry->user) != entry)
        return;
    crti_numbers_remove(&t->users, number_of(entry->user));
    if (!is_last)
        (void)crti_numbers_add(&t->users, number_of(entry->user),
                               CRTI_CONTAINER(next, crti_wait_entry_t, same));
}

void crti_wait_table_remove(crti_wait_table_t *t, crti_wait_entry_t *entry)
{
    if (entry->user)
        leave_ring(t, entry);
    crti_list_remove(&entry->link);
    t->count--;
}

void crti_wait_table_ready(crti_wait_table_t *t, crti_wait_entry_t *entry)
{
    if (entry->is_ready)
        return;
    entry->is_ready = true;
    crti_list_remove(&entry->link);
    crti_list_append(&t->ready, &entry->link);
}

void crti_wait_table_idle(crti_wait_table_t *t, crti_wait_entry_t *entry)
{
    entry->is_ready = false;
    crti_list_remove(&entry->link);
    crti_list_append(&t->idle, &entry->link);
}

crti_wait_entry_t *crti_wait_table_first(const crti_wait_table_t *t)
{
    return crti_list_is_empty(&t->ready) ? NULL : entry_at(t->ready.next);
}

crti_wait_entry_t *crti_wait_table_any(const crti_wait_table_t *t)
{
    crti_wait_entry_t *first = crti_wait_table_first(t);

    if (first)
        return first;
    return crti_list_is_empty(&t->idle) ? NULL : entry_at(t->idle.next);
}

crti_wait_entry_t *crti_wait_table_find(const crti_wait_table_t *t, const void *user)
{
    return user ? crti_numbers_get(&t->users, number_of(user)) : NULL;
}
