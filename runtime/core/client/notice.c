/* SPDX-License-Identifier: Apache-2.0 */
/* Notices as values: a list, which later versions make longer. Pure.
 *
 * Where it sits
 *     watch.c, programs -> [ notice.c ] -> values
 * Trust: a program may give any value; what is no notice is refused.
 */
#include <stddef.h>
#include <string.h>

#include "runtime/base/copy_struct.h"
#include "runtime/crt_watch.h"

/* Of version 0.2, and what a list has at least. */
#define FIRST_SIZE  (offsetof(crt_notice_t, restarts) + sizeof(uint64_t))
#define FIRST_ITEMS 7

size_t crt_notice_pack(const void *value, crt_arg_t *items)
{
    const crt_notice_t *n = value;
    size_t count = 0;

    items[count++] = crt_arg_int((int64_t)n->kind);
    items[count++] = crt_arg_int(n->status);
    items[count++] = crt_arg_string(n->actor_id ? n->actor_id : "");
    items[count++] = crt_arg_string(n->node_id ? n->node_id : "");
    items[count++] = crt_arg_string(n->text ? n->text : "");
    items[count++] = crt_arg_int((int64_t)n->count);
    items[count++] = crt_arg_int((int64_t)n->restarts);
    return count;
}

static crt_status_t read_items(const crt_value_t *list, crt_notice_t *to)
{
    int64_t numbers[4] = {0}; /* kind, status, count, restarts */
    const crt_out_t outs[FIRST_ITEMS] = {CRT_OUT(&numbers[0]),   CRT_OUT(&numbers[1]),
                                         CRT_OUT(&to->actor_id), CRT_OUT(&to->node_id),
                                         CRT_OUT(&to->text),     CRT_OUT(&numbers[2]),
                                         CRT_OUT(&numbers[3])};
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < FIRST_ITEMS && status == CRT_OK; i++)
        status = crt_value_read_v(crt_value_at(list, i), outs[i]);
    to->kind = (crt_event_kind_t)numbers[0];
    to->status = (crt_status_t)numbers[1];
    to->count = (uint64_t)numbers[2];
    to->restarts = (uint64_t)numbers[3];
    return status;
}

crt_status_t crt_notice_read(const crt_value_t *value, size_t size, crt_notice_t *to)
{
    crt_notice_t notice = {.struct_size = size};
    crt_status_t status;

    if (!to || size < FIRST_SIZE || size > CRTI_STRUCT_MAX)
        return crt_raise(CRT_ERR_INVALID,
                         "a notice is read into a crt_notice_t, whose size is given");
    if (crt_value_kind(value) != CRT_KIND_LIST || crt_value_count(value) < FIRST_ITEMS)
        return crt_raise(CRT_ERR_INVALID, "the value is no notice of a watch");
    status = read_items(value, &notice);
    if (status != CRT_OK)
        return status;
    memset(to, 0, size);
    memcpy(to, &notice, size < sizeof(notice) ? size : sizeof(notice));
    return CRT_OK;
}
