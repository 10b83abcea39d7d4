/* SPDX-License-Identifier: Apache-2.0 */
/* Pack: numbers, ids and texts as bytes, and back: for records of which an answer has thousands
 * (task_records.c, object_records.c). Numbers are little endian. What takes reads any bytes: where
 * there are too few it says so, and the rest is empty. */
#ifndef CRTI_BASE_PACK_H
#define CRTI_BASE_PACK_H

#include <string.h>

#include "runtime/base/buffer.h"
#include "runtime/base/id.h"

/* Behind what was put. */
static inline unsigned char *crti_put_number(unsigned char *at, uint64_t number,
                                             unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        *at++ = (unsigned char)(number >> 8 * i);
    return at;
}

static inline unsigned char *crti_put_id(unsigned char *at, crti_id_t id)
{
    crti_id_pack(id, at);
    return at + 16;
}

/* The next `size` bytes; NULL, and the rest is empty, when there are not as many. */
static inline const unsigned char *crti_take(crti_span_t *rest, size_t size)
{
    const unsigned char *at = rest->data;

    if (rest->size < size) {
        *rest = crti_span(NULL, 0);
        return NULL;
    }
    *rest = crti_span(at + size, rest->size - size);
    return at;
}

static inline bool crti_take_number(crti_span_t *rest, unsigned bytes,
                                    uint64_t *number_out)
{
    const unsigned char *at = crti_take(rest, bytes);

    *number_out = 0;
    for (unsigned i = 0; at && i < bytes; i++)
        *number_out |= (uint64_t)at[i] << 8 * i;
    return at != NULL;
}

/* Zero where it is not there. */
static inline bool crti_take_id(crti_span_t *rest, bool is_there, crti_id_t *id_out)
{
    const unsigned char *at = is_there ? crti_take(rest, 16) : NULL;

    *id_out = at ? crti_id_unpack(at) : (crti_id_t){0, 0};
    return at || !is_there;
}

#endif
