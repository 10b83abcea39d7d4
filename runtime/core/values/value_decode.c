/* SPDX-License-Identifier: Apache-2.0 */
/* Values, reading side. See value.h. */
#include "runtime/core/values/value.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/tensor_check.h"
#include "runtime/core/values/bytes.h"

#define HEADER    24
#define REF_BYTES 12u /* in a table: owner 32 | number 64 */

/* The parts of an encoded value, lengths checked. */
typedef struct parts {
    crti_span_t table, head, data;
} parts_t;

static crt_status_t damaged(const char *what)
{
    return crt_raise(CRT_ERR_PROTOCOL, "encoded value: %s", what);
}

static crt_status_t open_parts(const void *value, size_t size, parts_t *p)
{
    const unsigned char *bytes = value;
    crti_reader_t r = crti_reader(bytes, size);
    size_t table, head, before;
    uint64_t data;

    *p = (parts_t){{"", 0}, {"", 0}, {"", 0}};
    if (size < 2)
        return damaged("no bytes");
    if (bytes[0] == CRTI_VALUE_FLAT) {
        p->head = crti_span(bytes + 1, size - 1);
        return CRT_OK;
    }
    crti_read_u32(&r);
    table = crti_read_u32(&r);
    head = crti_read_u32(&r);
    crti_read_u32(&r);
    data = crti_read_u64(&r);
    if (bytes[0] != 1 || r.bad)
        return damaged("unknown format");
    before = HEADER + table + head;
    if (data)
        before = (before + CRTI_VALUE_ALIGN - 1) & ~(size_t)(CRTI_VALUE_ALIGN - 1);
    if (before > size || data != size - before)
        return damaged("its parts do not fit");
    p->table = crti_span(bytes + HEADER, table);
    p->head = crti_span(bytes + HEADER + table, head);
    p->data = crti_span(bytes + before, data);
    return CRT_OK;
}

bool crti_value_has_data(const void *value, size_t size)
{
    parts_t parts;

    return size > HEADER && *(const unsigned char *)value == 1 &&
           open_parts(value, size, &parts) == CRT_OK && parts.data.size;
}

/* ------------------------------------------------------------------ table */

crt_status_t crti_value_table(const void *value, size_t size, crti_span_t *table_out)
{
    parts_t parts;
    crt_status_t status = open_parts(value, size, &parts);

    if (status == CRT_OK)
        *table_out = parts.table;
    return status;
}

/* Skips `count` owners. */
static void skip_owners(crti_reader_t *r, uint32_t count)
{
    for (uint32_t i = 0; i < count && !r->bad; i++) {
        crti_read_bytes(r, 40);
        crti_read_text(r);
    }
}

#define READ_I64(r)           (int64_t) crti_read_u64(r)
#define READ_BOOL(r)          crti_read_u8(r) != 0
#define READ_TERM(type, term) name.terms.term = READ_##type(r);

static crti_actor_name_t read_actor(crti_reader_t *r)
{
    crti_actor_name_t name = {.id = crti_read_id(r)};

    name.class_name = crti_read_text(r);
    CRTI_ACTOR_TERMS(READ_TERM)
    name.incarnation = crti_read_u64(r);
    name.process = crti_read_id(r);
    name.process_incarnation = crti_read_u64(r);
    name.node = crti_read_id(r);
    name.tcp = crti_read_text(r);
    name.lifetime_index = crti_read_u32(r);
    return name;
}

crt_status_t crti_table_open(crti_span_t bytes, crti_table_t *t)
{
    crti_reader_t r = crti_reader(bytes.data, bytes.size);

    *t = (crti_table_t){.bytes = bytes};
    if (bytes.size == 0)
        return CRT_OK;
    t->owner_count = crti_read_u32(&r);
    t->ref_count = crti_read_u32(&r);
    t->actor_count = crti_read_u32(&r);
    t->owners = r.at;
    skip_owners(&r, t->owner_count);
    t->refs = r.at;
    crti_read_bytes(&r, (size_t)t->ref_count * REF_BYTES);
    t->actors = r.at;
    for (uint32_t i = 0; i < t->actor_count && !r.bad; i++)
        read_actor(&r);
    t->end = r.at;
    return r.bad || r.at != r.end ? damaged("its table does not fit") : CRT_OK;
}

/* The names of refs of each owner, but for their numbers. */
static crt_status_t read_owners(const crti_table_t *t, crti_ref_name_t **names_out)
{
    crti_reader_t r = crti_reader(t->owners, (size_t)(t->refs - t->owners));
    crti_ref_name_t *names = calloc(t->owner_count, sizeof(*names));

    if (!names)
        return crt_raise(CRT_ERR_NO_MEMORY, "encoded value: %u owners", t->owner_count);
    for (uint32_t i = 0; i < t->owner_count; i++) {
        names[i].id.owner = crti_read_id(&r);
        names[i].incarnation = crti_read_u64(&r);
        names[i].node = crti_read_id(&r);
        names[i].tcp = crti_read_text(&r);
    }
    *names_out = names;
    return CRT_OK;
}

/* Whether the refs at `at`, of which there are `count`, begin with a block. */
static bool is_block(const unsigned char *at, uint32_t count, uint32_t owner,
                     uint64_t number)
{
    uint64_t differs = number % CRTI_REF_BLOCK;

    if (differs || count < CRTI_REF_BLOCK)
        return false;
    for (unsigned i = 1; i < CRTI_REF_BLOCK; i++) {
        uint32_t its_owner;
        uint64_t its_number;

        memcpy(&its_owner, at + i * REF_BYTES, sizeof(its_owner));
        memcpy(&its_number, at + i * REF_BYTES + sizeof(its_owner), sizeof(its_number));
        differs |= (its_owner ^ owner) | (its_number ^ (number + i));
    }
    return differs == 0;
}

static crt_status_t visit_refs(const crti_table_t *t, const crti_table_visitor_t *v)
{
    crti_reader_t r = crti_reader(t->refs, (size_t)t->ref_count * REF_BYTES);
    CRTI_AUTO(free) crti_ref_name_t *names = NULL;
    crt_status_t status = t->owner_count ? read_owners(t, &names) : CRT_OK;

    for (uint32_t i = 0; i < t->ref_count && status == CRT_OK; i++) {
        const unsigned char *at = r.at;
        uint32_t owner = crti_read_u32(&r);
        uint64_t number = crti_read_u64(&r);

        if (owner >= t->owner_count || !names || number == 0)
            return damaged("a ref without an owner or number");
        names[owner].id.number = number;
        if (v->block && is_block(at, t->ref_count - i, owner, number) &&
            v->block(v->user, i, &names[owner])) {
            crti_read_bytes(&r, (size_t)(CRTI_REF_BLOCK - 1) * REF_BYTES);
            i += CRTI_REF_BLOCK - 1;
            continue;
        }
        status = v->ref(v->user, i, &names[owner]);
    }
    return status;
}

crt_status_t crti_table_visit(const crti_table_t *t, const crti_table_visitor_t *v)
{
    crti_reader_t r = crti_reader(t->actors, (size_t)(t->end - t->actors));
    crt_status_t status = t->ref_count ? visit_refs(t, v) : CRT_OK;

    for (uint32_t i = 0; i < t->actor_count && status == CRT_OK && v->actor; i++) {
        crti_actor_name_t name = read_actor(&r);

        if (name.lifetime_index > t->ref_count)
            return damaged("an actor that a ref keeps alive which is not in its table");
        status = v->actor(v->user, i, &name);
    }
    return status;
}

/* ------------------------------------------------------------------ msgpack */

typedef struct decoder {
    crti_reader_t r;
    crti_span_t data;
    const crti_handles_t *handles;
    size_t values, tensors; /* first pass: how many below the root; second: places left */
    crt_value_t *next_value; /* second pass; NULL in the first */
    crt_tensor_t *next_tensor;
} decoder_t;

/* A ref as it stands in lists of refs, in few bytes; false: it is something else, or damaged, and
 * nothing was read. */
static inline bool take_short_ref(decoder_t *d, crt_value_t *v)
{
    const unsigned char *at = d->r.at;
    uint32_t index;

    if (crti_reader_left(&d->r) < 7 || at[0] != 0xc7 || at[1] != 4 || at[2] != 2)
        return false;
    memcpy(&index, at + 3, sizeof(index));
    index = le32toh(index);
    if (index >= d->handles->ref_count)
        return false;
    d->r.at += 7;
    *v = (crt_value_t){.kind = CRT_KIND_REF};
    v->as.ref = d->handles->refs ? d->handles->refs[index] : NULL;
    return true;
}

/* Counts entries in the first pass, takes their places in the second. The bytes may lie in memory
 * that others write, so the second may find more than the first. */
static crt_status_t count_in(const decoder_t *d, size_t *total, size_t count)
{
    if (!d->next_tensor)
        *total += count;
    else if (count > *total)
        return damaged("it changes while it is read");
    else
        *total -= count;
    return CRT_OK;
}

static uint64_t read_be(crti_reader_t *r, size_t bytes)
{
    const unsigned char *p = crti_read_bytes(r, bytes);
    uint64_t value = 0;

    for (size_t i = 0; p && i < bytes; i++)
        value = value << 8 | p[i];
    return value;
}

static crt_status_t take_text(decoder_t *d, crt_value_t *v, size_t size)
{
    const char *text = crti_read_bytes(&d->r, size);

    if (!text || size == 0 || memchr(text, 0, size) != text + size - 1)
        return damaged("a text without its end");
    v->kind = CRT_KIND_STRING;
    v->as.bytes.data = text;
    v->as.bytes.size = size - 1;
    return CRT_OK;
}

static crt_status_t take_bytes(decoder_t *d, crt_value_t *v, size_t size)
{
    const char *data = crti_read_bytes(&d->r, size);

    if (!data)
        return damaged("bytes that are cut off");
    v->kind = CRT_KIND_BYTES;
    v->as.bytes.data = data;
    v->as.bytes.size = size;
    return CRT_OK;
}

/* True when [place, place + size) lies in the data and begins on a multiple of 64. */
static bool in_data(const decoder_t *d, uint64_t place, uint64_t size)
{
    return place % CRTI_VALUE_ALIGN == 0 && place <= d->data.size &&
           size <= d->data.size - place;
}

static crt_status_t take_tensor(decoder_t *d, crt_value_t *v, crti_reader_t *ext)
{
    int64_t shape[CRT_TENSOR_DIMS] = {0};
    crt_dtype_t dtype = (crt_dtype_t)crti_read_u8(ext);
    unsigned rank = crti_read_u8(ext);
    size_t bytes;
    uint64_t place;
    crt_status_t status;

    for (unsigned i = 0; i < rank && i < CRT_TENSOR_DIMS; i++)
        shape[i] = (int64_t)crti_read_u64(ext);
    if (crti_tensor_size(dtype, (int)rank, shape, CRTI_TENSOR_ROWS_ANY, &bytes) != CRT_OK)
        return damaged("a tensor of no dtype, rank or size");
    place = crti_read_u64(ext);
    if (ext->bad || !in_data(d, place, bytes))
        return damaged("a tensor outside its data");
    if (dtype == CRT_DTYPE_BOOL && d->next_tensor &&
        !crti_tensor_are_bools((const char *)d->data.data + place, bytes))
        return damaged("a bool tensor with other bytes than 0 and 1");
    status = count_in(d, &d->tensors, 1);
    if (status != CRT_OK)
        return status;
    v->kind = CRT_KIND_TENSOR;
    if (d->next_tensor) {
        *d->next_tensor = crt_tensor_view(dtype, (int)rank, shape,
                                          (char *)(uintptr_t)d->data.data + place);
        v->as.tensor = d->next_tensor++;
    }
    return CRT_OK;
}

static crt_status_t take_apart(decoder_t *d, crt_value_t *v, crti_reader_t *ext,
                               bool is_text)
{
    uint64_t place = crti_read_u64(ext), size = crti_read_u64(ext);
    const char *data;

    if (ext->bad || !in_data(d, place, size))
        return damaged("bytes outside their data");
    data = size ? (const char *)d->data.data + place : "";
    if (is_text && (size == 0 || data[size - 1]))
        return damaged("a text without its end");
    v->kind = is_text ? CRT_KIND_STRING : CRT_KIND_BYTES;
    v->as.bytes.data = data;
    v->as.bytes.size = is_text ? size - 1 : size;
    return CRT_OK;
}

static crt_status_t take_ext(decoder_t *d, crt_value_t *v, size_t size)
{
    const crti_handles_t *h = d->handles;
    unsigned type = crti_read_u8(&d->r);
    const void *payload = crti_read_bytes(&d->r, size);
    crti_reader_t ext = crti_reader(payload, payload ? size : 0);
    uint32_t index;

    switch (type) {
    case 1: return take_tensor(d, v, &ext);
    case 2:
    case 3:
        index = crti_read_u32(&ext);
        if (ext.bad || index >= (type == 2 ? h->ref_count : h->actor_count))
            return damaged("a ref or actor that is not in its table");
        v->kind = type == 2 ? CRT_KIND_REF : CRT_KIND_ACTOR;
        if (type == 2)
            v->as.ref = h->refs ? h->refs[index] : NULL;
        else
            v->as.actor = h->actors ? h->actors[index] : NULL;
        return CRT_OK;
    case 4:
    case 5: return take_apart(d, v, &ext, type == 5);
    default: return damaged("an unknown extension");
    }
}

static crt_status_t take_any(decoder_t *d, crt_value_t *v, int depth);

static crt_status_t take_items(decoder_t *d, crt_value_t *v, uint64_t count, bool is_map,
                               int depth)
{
    size_t items = is_map ? count * 2 : count;
    crt_value_t *first = d->next_value, scratch;
    crt_status_t status;

    if (depth >= CRTI_VALUE_DEPTH)
        return damaged("it is nested too deep");
    if (items > crti_reader_left(&d->r))
        return damaged("a list that is cut off");
    status = count_in(d, &d->values, items);
    if (status != CRT_OK)
        return status;
    v->kind = is_map ? CRT_KIND_MAP : CRT_KIND_LIST;
    v->count = (uint32_t)count;
    v->as.items = first;
    if (first)
        d->next_value += items;
    for (size_t i = 0; i < items && status == CRT_OK; i++) {
        crt_value_t *item = first ? &first[i] : &scratch;

        if (!take_short_ref(d, item))
            status = take_any(d, item, depth + 1);
        if (status == CRT_OK && is_map && i % 2 == 0 && item->kind != CRT_KIND_STRING)
            return damaged("a map's key that is no text");
    }
    return status;
}

static crt_status_t take_number(decoder_t *d, crt_value_t *v, unsigned tag)
{
    static const unsigned char widths[] = {1, 2, 4, 8};
    uint64_t bits;

    v->kind = CRT_KIND_INT;
    if (tag == 0xcb) {
        bits = read_be(&d->r, 8);
        v->kind = CRT_KIND_FLOAT;
        memcpy(&v->as.number, &bits, sizeof(bits));
    } else {
        unsigned width = widths[tag & 3];
        int shift = 64 - 8 * (int)width;

        bits = read_be(&d->r, width);
        v->as.integer = (int64_t)(bits << shift) >> shift;
    }
    return d->r.bad ? damaged("a number that is cut off") : CRT_OK;
}

static crt_status_t take_any(decoder_t *d, crt_value_t *v, int depth)
{
    unsigned tag = crti_read_u8(&d->r);

    *v = (crt_value_t){.kind = CRT_KIND_NONE};
    if (d->r.bad)
        return damaged("it is cut off");
    if (tag <= 0x7f || tag >= 0xe0) {
        v->kind = CRT_KIND_INT;
        v->as.integer = (int64_t)(int8_t)tag;
        return CRT_OK;
    }
    if (tag >= 0xa0 && tag <= 0xbf)
        return take_text(d, v, tag & 31);
    if (tag >= 0x80 && tag <= 0x9f)
        return take_items(d, v, tag & 15, tag < 0x90, depth);
    switch (tag) {
    case 0xc0: return CRT_OK;
    case 0xc2:
    case 0xc3:
        v->kind = CRT_KIND_BOOL;
        v->as.boolean = tag == 0xc3;
        return CRT_OK;
    case 0xc4: return take_bytes(d, v, read_be(&d->r, 1));
    case 0xc5: return take_bytes(d, v, read_be(&d->r, 2));
    case 0xc7: return take_ext(d, v, read_be(&d->r, 1));
    case 0xcb:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3: return take_number(d, v, tag);
    case 0xd9: return take_text(d, v, read_be(&d->r, 1));
    case 0xda: return take_text(d, v, read_be(&d->r, 2));
    case 0xdc: return take_items(d, v, read_be(&d->r, 2), false, depth);
    case 0xdd: return take_items(d, v, read_be(&d->r, 4), false, depth);
    case 0xde: return take_items(d, v, read_be(&d->r, 2), true, depth);
    case 0xdf: return take_items(d, v, read_be(&d->r, 4), true, depth);
    default: return damaged("an unknown tag");
    }
}

/* The second pass: the same bytes again, now with places to keep what they say. */
static crt_status_t fill(decoder_t *d, crti_span_t head, crt_value_t *v,
                         void **memory_out)
{
    size_t values = d->values * sizeof(crt_value_t),
           tensors = d->tensors * sizeof(crt_tensor_t);
    char *memory = malloc(values + tensors);
    crt_status_t status;

    if (!memory)
        return crt_raise(CRT_ERR_NO_MEMORY, "a value of %zu entries", d->values);
    d->next_tensor = (crt_tensor_t *)(void *)memory;
    d->next_value = (crt_value_t *)(void *)(memory + tensors);
    d->r = crti_reader(head.data, head.size);
    status = take_any(d, v, 0);
    if (status != CRT_OK)
        free(memory);
    else
        *memory_out = memory;
    return status;
}

bool crti_decode_flat_number(const void *value, size_t size, crt_value_t *number_out)
{
    const unsigned char *bytes = value;
    unsigned tag = bytes[1];
    decoder_t d;

    if (size == 2 && (tag <= 0x7f || tag >= 0xe0)) {
        number_out->kind = CRT_KIND_INT;
        number_out->as.integer = (int64_t)(int8_t)tag;
        return true;
    }
    if (size != 10 || (tag != 0xcb && tag != 0xd3))
        return false;
    d.r = crti_reader(bytes + 2, 8);
    return take_number(&d, number_out, tag) == CRT_OK;
}

crt_status_t crti_decode(const void *value, size_t size, const crti_handles_t *handles,
                         crt_value_t *value_out, void **memory_out)
{
    decoder_t d = {.handles = handles};
    parts_t parts;
    crt_status_t status = open_parts(value, size, &parts);

    if (status != CRT_OK)
        return status;
    d.data = parts.data;
    d.r = crti_reader(parts.head.data, parts.head.size);
    status = take_any(&d, value_out, 0);
    if (status == CRT_OK && d.r.at != d.r.end)
        status = damaged("bytes behind its end");
    *memory_out = NULL;
    if (status == CRT_OK && d.values + d.tensors)
        status = fill(&d, parts.head, value_out, memory_out);
    return status;
}
