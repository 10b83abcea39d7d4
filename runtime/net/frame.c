/* SPDX-License-Identifier: Apache-2.0 */
/* Frame: encoder and decoder of a session's transport messages. See frame.h.
 *
 * Hot path: no allocation, one pass over the lengths of the records.
 */
#include "runtime/net/frame.h"

#include <endian.h>
#include <string.h>

#define MAGIC 0xC5

static uint32_t get_u32(const unsigned char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

static uint64_t get_u64(const unsigned char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

static unsigned char *put_u32(unsigned char *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof(v));
    return p + sizeof(v);
}

static unsigned char *put_u64(unsigned char *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof(v));
    return p + sizeof(v);
}

static unsigned char *put_id(unsigned char *p, crti_id_t id)
{
    return put_u64(put_u64(p, id.high), id.low);
}

static crti_id_t get_id(const unsigned char *p)
{
    return (crti_id_t){get_u64(p), get_u64(p + 8)};
}

static void encode_greeting(const crti_greeting_t *g, unsigned char *p)
{
    p = put_u32(p, g->protocol);
    p = put_u64(p, g->window);
    p = put_id(p, g->from);
    p = put_u64(p, g->from_incarnation);
    p = put_id(p, g->from_node);
    p = put_id(p, g->to);
    p = put_u64(p, g->to_incarnation);
    p = put_u64(p, g->session);
    put_u64(p, g->spare);
}

static void decode_greeting(const unsigned char *p, crti_greeting_t *g)
{
    *g = (crti_greeting_t){
        .protocol = get_u32(p),
        .window = get_u64(p + 4),
        .from = get_id(p + 12),
        .from_incarnation = get_u64(p + 28),
        .from_node = get_id(p + 36),
        .to = get_id(p + 52),
        .to_incarnation = get_u64(p + 68),
        .session = get_u64(p + 76),
        .spare = get_u64(p + 84),
    };
}

/* True when the body is exactly `count` records, none of them empty. */
static bool records_are_whole(crti_span_t body, uint32_t count)
{
    crti_span_t record;
    bool control;

    while (count > 0 && crti_frame_next_record(&body, &record, &control)) {
        if (record.size == 0)
            return false;
        count--;
    }
    return count == 0 && body.size == 0;
}

static crt_status_t malformed(const char *what, const crti_frame_t *frame, size_t size)
{
    return crt_raise(CRT_ERR_PROTOCOL, "malformed frame: %s (type %d, %zu bytes)", what,
                     (int)frame->type, size);
}

static crt_status_t decode_body(const unsigned char *body, size_t size, crti_frame_t *f)
{
    switch (f->type) {
    case CRTI_FRAME_HELLO:
    case CRTI_FRAME_WELCOME:
        if (size != CRTI_FRAME_GREETING)
            return malformed("size of a greeting", f, size);
        decode_greeting(body, &f->greeting);
        return CRT_OK;
    case CRTI_FRAME_REFUSED:
        if (size < 4 || size > 4 + CRTI_FRAME_TEXT)
            return malformed("size of a refusal", f, size);
        f->status = (crt_status_t)(int32_t)get_u32(body);
        f->body = crti_span(body + 4, size - 4);
        return CRT_OK;
    case CRTI_FRAME_DATA:
        f->body = crti_span(body, size);
        if (f->count == 0 || f->first == 0 || !records_are_whole(f->body, f->count))
            return malformed("records", f, size);
        return CRT_OK;
    case CRTI_FRAME_ACK:
    case CRTI_FRAME_NACK:
    case CRTI_FRAME_PROBE:
    case CRTI_FRAME_BYE:
    case CRTI_FRAME_RESET:
        if (size != 0 || f->count != 0)
            return malformed("bytes behind the header", f, size);
        return CRT_OK;
    }
    return malformed("unknown type", f, size);
}

crt_status_t crti_frame_decode(const void *data, size_t size, crti_frame_t *frame_out)
{
    const unsigned char *p = data;
    crti_frame_t *f = frame_out;

    *f = (crti_frame_t){0};
    if (size < CRTI_FRAME_HEADER || p[0] != MAGIC)
        return malformed("no header", f, size);
    f->version = p[1];
    f->type = p[2];
    f->count = get_u32(p + 4);
    f->session = get_u64(p + 8);
    f->first = get_u64(p + 16);
    f->ack = get_u64(p + 24);
    f->credit = get_u64(p + 32);
    if (f->version != CRTI_FRAME_VERSION && f->type != CRTI_FRAME_REFUSED)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "peer speaks frame version %u, this process %d", f->version,
                         CRTI_FRAME_VERSION);
    return decode_body(p + CRTI_FRAME_HEADER, size - CRTI_FRAME_HEADER, f);
}

bool crti_frame_next_record(crti_span_t *body, crti_span_t *record_out, bool *control_out)
{
    const unsigned char *p = body->data;
    uint32_t word, size;

    if (body->size < CRTI_FRAME_RECORD)
        return false;
    word = get_u32(p);
    size = word & CRTI_FRAME_RECORD_LIMIT;
    if (size > body->size - CRTI_FRAME_RECORD)
        return false;
    *record_out = crti_span(p + CRTI_FRAME_RECORD, size);
    *control_out = (word & CRTI_FRAME_CONTROL) != 0;
    *body =
        crti_span(p + CRTI_FRAME_RECORD + size, body->size - CRTI_FRAME_RECORD - size);
    return true;
}

void crti_frame_encode_header(const crti_frame_t *f, unsigned char out[CRTI_FRAME_HEADER])
{
    out[0] = MAGIC;
    out[1] = CRTI_FRAME_VERSION;
    out[2] = (unsigned char)f->type;
    out[3] = 0;
    put_u32(out + 4, f->count);
    put_u64(out + 8, f->session);
    put_u64(out + 16, f->first);
    put_u64(out + 24, f->ack);
    put_u64(out + 32, f->credit);
}

size_t crti_frame_encode(const crti_frame_t *f, unsigned char out[CRTI_FRAME_SMALL])
{
    unsigned char *body = out + CRTI_FRAME_HEADER;
    size_t text = f->body.size < CRTI_FRAME_TEXT ? f->body.size : CRTI_FRAME_TEXT;

    crti_frame_encode_header(f, out);
    if (f->type == CRTI_FRAME_HELLO || f->type == CRTI_FRAME_WELCOME) {
        encode_greeting(&f->greeting, body);
        return CRTI_FRAME_HEADER + CRTI_FRAME_GREETING;
    }
    if (f->type == CRTI_FRAME_REFUSED) {
        put_u32(body, (uint32_t)(int32_t)f->status);
        if (text > 0)
            memcpy(body + 4, f->body.data, text);
        return CRTI_FRAME_HEADER + 4 + text;
    }
    return CRTI_FRAME_HEADER;
}

void crti_frame_encode_size(uint32_t size, bool control,
                            unsigned char out[CRTI_FRAME_RECORD])
{
    put_u32(out, size | (control ? CRTI_FRAME_CONTROL : 0));
}

const char *crti_frame_name(crti_frame_type_t type)
{
    static const char *const names[] = {"?",   "HELLO", "WELCOME", "REFUSED", "DATA",
                                        "ACK", "NACK",  "PROBE",   "BYE",     "RESET"};

    return (unsigned)type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}
