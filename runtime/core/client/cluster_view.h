/* SPDX-License-Identifier: Apache-2.0 */
/* Views of the cluster that the head gives row by row, and lists that grow with the library. See
 * cluster_view.c. */
#ifndef CRTI_CORE_CLUSTER_VIEW_H
#define CRTI_CORE_CLUSTER_VIEW_H

#include "runtime/core/types.h"
#include "runtime/net/message.h"

/* A list that the program wants filled. */
typedef struct crti_view_list {
    void *items;
    size_t element_size, room;
    size_t count; /* so far, also of those that find no room */
} crti_view_list_t;

/* One request to the head; the answer must be of `kind`. */
crt_status_t crti_head_question(crti_message_kind_t request, const void *body,
                                crti_message_kind_t kind, int64_t timeout_ms,
                                crti_message_t *answer, crti_buffer_t *storage);

/* Asks the head, and takes each row. A row of another kind is CRT_ERR_PROTOCOL. */
crt_status_t crti_view_ask(const char *what, const char *filter, crti_message_kind_t kind,
                           crt_status_t (*take)(void *user, const crti_message_t *row),
                           void *user);

/* CRT_ERR_INVALID: no list, or its elements are smaller than `first_size`, that of the first
 * version. */
crt_status_t crti_view_list(void *items, size_t element_size, size_t first_size,
                            size_t room, const size_t *count_out,
                            crti_view_list_t *list_out);
/* The next element: what the caller knows of `item`, zero behind that. */
void crti_view_add(crti_view_list_t *list, const void *item, size_t size);

#endif
