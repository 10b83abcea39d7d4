/* SPDX-License-Identifier: Apache-2.0 */
/* Intrusive doubly linked list: a ring through the members' own links.
 * Not thread-safe; the owner of the list says which lock covers it. */
#ifndef CRTI_BASE_LIST_H
#define CRTI_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct crti_list {
    struct crti_list *next, *prev;
} crti_list_t;

#define CRTI_CONTAINER(pointer, type, member)                                            \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void crti_list_init(crti_list_t *list)
{
    list->next = list->prev = list;
}

static inline bool crti_list_is_empty(const crti_list_t *list)
{
    return list->next == list;
}

static inline void crti_list_append(crti_list_t *list, crti_list_t *item)
{
    item->prev = list->prev;
    item->next = list;
    list->prev->next = item;
    list->prev = item;
}

/* After this the item is a list of its own: removing it twice is harmless. */
static inline void crti_list_remove(crti_list_t *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    crti_list_init(item);
}

/* The first item, taken out; NULL when the list is empty. */
static inline crti_list_t *crti_list_pop(crti_list_t *list)
{
    crti_list_t *item = list->next;

    if (item == list)
        return NULL;
    crti_list_remove(item);
    return item;
}

/* Moves all items of `from`, in their order, before the first of `list`. */
static inline void crti_list_prepend_all(crti_list_t *list, crti_list_t *from)
{
    if (crti_list_is_empty(from))
        return;
    from->prev->next = list->next;
    list->next->prev = from->prev;
    from->next->prev = list;
    list->next = from->next;
    crti_list_init(from);
}

#define CRTI_LIST_FOREACH(item, list)                                                    \
    for (crti_list_t *item = (list)->next; item != (list); item = item->next)

/* The current item may be removed (and freed) inside the loop. */
#define CRTI_LIST_FOREACH_SAFE(item, list)                                               \
    for (crti_list_t *item = (list)->next, *item##_next = item->next; item != (list);    \
         item = item##_next, item##_next = item->next)

#endif
