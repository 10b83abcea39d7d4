/* SPDX-License-Identifier: Apache-2.0 */
/* Frame: what one transport message of a session looks like, and its decoder.
 *
 *      0  u8   magic      0xC5
 *      1  u8   version    CRTI_FRAME_VERSION
 *      2  u8   type       crti_frame_type_t
 *      3  u8   zero
 *      4  u32  count      records in DATA, else 0
 *      8  u64  session    HELLO, WELCOME, REFUSED: the initiator's nonce; else the id which the
 *                         acceptor chose
 *     16  u64  first      DATA: number of its first record; PROBE: number of the probe; ACK: the
 *                         probe it answers, 0 none
 *     24  u64  ack        records 1..ack of the other direction were delivered
 *     32  u64  credit     bytes of the other direction that were consumed
 *     40  body            DATA: count times { u32 size, u8 size bytes }, the top bit of the size
 *                         marks a control record; HELLO, WELCOME: struct crti_greeting;
 *                         REFUSED: i32 status and a text
 *
 * All numbers little endian. The first 16 bytes, and REFUSED as a whole, are the same in every
 * version, so that two versions can tell each other so.
 *
 * Where it sits
 *     zmq link -> [ frame ] -> session
 * Invariants
 *     A decoded frame lies completely inside the bytes it was decoded from: every length was
 *     checked, also those of all records, so that a DATA frame is taken or refused as a whole.
 */
#ifndef CRTI_NET_FRAME_H
#define CRTI_NET_FRAME_H

#include "runtime/base/buffer.h"
#include "runtime/base/id.h"

#define CRTI_FRAME_VERSION      1
#define CRTI_FRAME_HEADER       40
#define CRTI_FRAME_RECORD       4           /* bytes before each record */
#define CRTI_FRAME_CONTROL      0x80000000u /* in a record's size: outside the window */
#define CRTI_FRAME_RECORD_LIMIT 0x7fffffffu
#define CRTI_FRAME_GREETING     92  /* bytes of a greeting */
#define CRTI_FRAME_SMALL        256 /* no frame but DATA is longer */
#define CRTI_FRAME_TEXT         160 /* longest text in REFUSED */

typedef enum crti_frame_type {
    CRTI_FRAME_HELLO = 1,
    CRTI_FRAME_WELCOME = 2,
    CRTI_FRAME_REFUSED = 3,
    CRTI_FRAME_DATA = 4,
    CRTI_FRAME_ACK = 5,
    CRTI_FRAME_NACK = 6, /* an ACK that says: something behind `ack` is missing */
    CRTI_FRAME_PROBE = 7,
    CRTI_FRAME_BYE = 8,   /* everything was delivered, the session is closed */
    CRTI_FRAME_RESET = 9, /* the receiver does not know this session, or gave it up */
} crti_frame_type_t;

/* Body of HELLO (from the initiator: itself and the process that it means) and of WELCOME (the same
 * with the roles exchanged, and the session's id). */
typedef struct crti_greeting {
    uint32_t protocol; /* CRTI_PROTOCOL_VERSION */
    uint64_t window; /* bytes that the sender of this greeting keeps in flight at most */
    crti_id_t from, from_node, to;
    uint64_t from_incarnation, to_incarnation;
    uint64_t session; /* WELCOME; 0 in HELLO */
    uint64_t spare;   /* 0 */
} crti_greeting_t;

typedef struct crti_frame {
    crti_frame_type_t type;
    uint8_t version;
    uint32_t count;
    uint64_t session, first, ack, credit;
    crti_greeting_t greeting; /* HELLO, WELCOME */
    crt_status_t status;      /* REFUSED */
    crti_span_t body; /* DATA: the records; REFUSED: the text. Borrowed from the bytes */
} crti_frame_t;

/* Decodes and checks everything. CRT_ERR_PROTOCOL: malformed. CRT_ERR_UNSUPPORTED: well
 * formed so far but of another version; type and session are set. */
crt_status_t crti_frame_decode(const void *data, size_t size, crti_frame_t *frame_out);

/* Takes the next record off the body of a decoded DATA frame; false when there is none. */
bool crti_frame_next_record(crti_span_t *body, crti_span_t *record_out,
                            bool *control_out);

/* Writes the header of `frame`; DATA's body is the caller's. */
void crti_frame_encode_header(const crti_frame_t *frame,
                              unsigned char out[CRTI_FRAME_HEADER]);

/* Writes a whole frame other than DATA and returns its size. A REFUSED text is cut at
 * CRTI_FRAME_TEXT bytes. */
size_t crti_frame_encode(const crti_frame_t *frame, unsigned char out[CRTI_FRAME_SMALL]);

/* The four bytes before a record. */
void crti_frame_encode_size(uint32_t size, bool control,
                            unsigned char out[CRTI_FRAME_RECORD]);

/* "HELLO" and so on; static text. */
const char *crti_frame_name(crti_frame_type_t type);

#endif
