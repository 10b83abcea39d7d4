/* SPDX-License-Identifier: Apache-2.0 */
/* What the codecs of records share: record.c, call_again.c, waiting_record.c. */
#ifndef CRTI_CORE_RECORD_INT_H
#define CRTI_CORE_RECORD_INT_H

#include "runtime/core/values/record.h"

#define CRTI_CALL_NUMBER_AT 6 /* in a CALL: behind kind, flags, index and count */

static inline crt_status_t malformed(const char *what)
{
    return crt_raise(CRT_ERR_PROTOCOL, "malformed record: %s", what);
}

/* Where the next writes go; the room is made by the caller's one reserve. */
static inline unsigned char *tail(crti_buffer_t *out)
{
    return out->data + out->size;
}

static inline void end_at(crti_buffer_t *out, const unsigned char *end)
{
    out->size = (size_t)(end - out->data);
}

#endif
