/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages: structs made from the lists in protocol.h, encoded as one msgpack array.
 *
 *     [ kind, request, field, field, ... ]
 *
 * Where it sits
 *     crti_msg_*_t structs <-> [ net/message.c ] <-> net/channel.c, net/stream.c (frames)
 * Encoding
 *     U64, I64, BOOL, STR, BIN as in msgpack; F64 as float 64; ID as bin of 16 bytes (big
 *     endian high, low); OBJECT as bin of 24; RES as a count followed by (str, int) pairs, ROOM
 *     like it. `request` is chosen by the asking side and comes back in the answer; 0: no answer is
 *     expected. Every request has exactly one answer: the message named in protocol.h or ERROR.
 * Trust
 *     The decoder takes any bytes: kinds, counts, types and lengths are checked, text has no
 *     zero byte inside, amounts of resources are 0 to CRTI_RESOURCE_MAX (ROOM, what is free: from
 *     -CRTI_RESOURCE_MAX, as workers that wait lend what they have), unknown kinds are
 *     CRT_ERR_PROTOCOL. Nothing is allocated.
 * Ownership
 *     STR and BIN of a decoded message are borrowed from the frame. STR is made a C string by
 *     crti_text() where one is needed.
 */
#ifndef CRTI_NET_MESSAGE_H
#define CRTI_NET_MESSAGE_H

#include "runtime/base/actor_terms.h"
#include "runtime/base/buffer.h"
#include "runtime/base/id.h"
#include "runtime/base/resources.h"
#include "runtime/net/protocol.h"

typedef enum crti_message_kind {
    CRTI_MSG_NONE = 0,
#define KIND(NAME, name, number) CRTI_MSG_##NAME = number,
    CRTI_MESSAGE_MAP(KIND)
#undef KIND
} crti_message_kind_t;

/* One struct per message, e.g. crti_msg_attach_t. */
#define CRTI_C_U64              uint64_t
#define CRTI_C_I64              int64_t
#define CRTI_C_F64              double
#define CRTI_C_BOOL             bool
#define CRTI_C_ID               crti_id_t
#define CRTI_C_OBJECT           crti_object_id_t
#define CRTI_C_STR              crti_span_t
#define CRTI_C_BIN              crti_span_t
#define CRTI_C_RES              crti_resources_t
#define CRTI_C_ROOM             crti_resources_t
#define CRTI_MEMBER(type, name) CRTI_C_##type name;
#define CRTI_STRUCT(NAME, name, number)                                                  \
    typedef struct crti_msg_##name {                                                     \
        CRTI_FIELDS_##NAME(CRTI_MEMBER) char unused; /* a message may have no fields */  \
    } crti_msg_##name##_t;
CRTI_MESSAGE_MAP(CRTI_STRUCT)

typedef struct crti_message {
    crti_message_kind_t kind;
    uint64_t request;
    union {
#define BODY(NAME, name, number) crti_msg_##name##_t name;
        CRTI_MESSAGE_MAP(BODY)
#undef BODY
    };
} crti_message_t;

/* Appends the encoded message to `out`. `body` is the struct of `kind` (NULL: all zero). */
crt_status_t crti_message_encode(crti_message_kind_t kind, uint64_t request,
                                 const void *body, crti_buffer_t *out);

/* CRT_ERR_PROTOCOL with the reason when the bytes are no message. */
crt_status_t crti_message_decode(const void *data, size_t size,
                                 crti_message_t *message_out);

/* A copy of a body and of its STR and BIN, each ended by a zero, in one block, which the caller
 * frees. NULL: out of memory. */
void *crti_message_copy(crti_message_kind_t kind, const void *body);
/* A STR of such a copy. */
static inline const char *crti_copied_text(crti_span_t str)
{
    return str.data;
}

/* "ATTACH" and so on; "unknown" for other numbers. */
const char *crti_message_name(crti_message_kind_t kind);

/* Copies STR into `text`, cut to size - 1 bytes, always ended by a zero. Returns `text`. */
const char *crti_text(crti_span_t str, char *text, size_t size);

/* True when STR equals the C string. */
bool crti_str_equal(crti_span_t str, const char *text);

/* A copy on the heap, ended by a zero; NULL when out of memory. Caller frees it. */
char *crti_str_dup(crti_span_t str);
/* Replaces *field by a copy. False when out of memory: it keeps the old text. */
bool crti_str_replace(char **field, crti_span_t str);

/* Lists inside BIN: each entry is a 32-bit little-endian length and that many bytes. Argument
 * vectors and environments are lists of text, lists of messages are encoded messages. */
crt_status_t crti_list_pack(crti_buffer_t *list, const void *entry, size_t size);

/* The next entry; `*rest` is moved behind it. CRT_ERR_NOT_FOUND at the end, CRT_ERR_PROTOCOL for
 * a length that does not fit. */
crt_status_t crti_list_unpack(crti_span_t *rest, crti_span_t *entry_out);

#endif
