/* SPDX-License-Identifier: Apache-2.0 */
/* Values, writing side. See value.h. */
#include <string.h>

#include "runtime/base/tensor_check.h"
#include "runtime/core/types.h"
#include "runtime/core/values/bytes.h"
#include "runtime/core/values/value.h"
#include "runtime/store/store.h"

#define HEADER 24
/* Of a table entry without its texts, at most. */
#define ACTOR_BYTES (76 + sizeof(crti_actor_terms_t))
#define LARGE       ((size_t)256 << 10) /* from here on the caches are left to others */

static size_t aligned(size_t size)
{
    return (size + CRTI_VALUE_ALIGN - 1) & ~(size_t)(CRTI_VALUE_ALIGN - 1);
}

/* ------------------------------------------------------------------ msgpack */

static unsigned char *put_be(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> (8 * (bytes - 1 - i)));
    return to + bytes;
}

static unsigned char *put_tag(unsigned char *to, unsigned tag, uint64_t value, int bytes)
{
    return put_be(crti_put_u8(to, (uint8_t)tag), value, bytes);
}

/* A tag, a big-endian number behind it (at most 9 bytes), and `data`. */
static crt_status_t pack_with(crti_buffer_t *head, unsigned tag, uint64_t value,
                              int bytes, const void *data, size_t size)
{
    crt_status_t status = crti_buffer_reserve(head, 9 + size);
    unsigned char *to;

    if (status != CRT_OK)
        return status;
    to = put_tag(head->data + head->size, tag, value, bytes);
    head->size = (size_t)(crti_put_bytes(to, data, size) - head->data);
    return CRT_OK;
}

static crt_status_t pack(crti_buffer_t *head, unsigned tag, uint64_t value, int bytes)
{
    return pack_with(head, tag, value, bytes, NULL, 0);
}

static unsigned char *put_int(unsigned char *to, int64_t value)
{
    if (value >= -32 && value <= 127)
        return put_tag(to, (unsigned)value & 0xff, 0, 0);
    if (value >= INT8_MIN && value <= INT8_MAX)
        return put_tag(to, 0xd0, (uint64_t)value, 1);
    if (value >= INT16_MIN && value <= INT16_MAX)
        return put_tag(to, 0xd1, (uint64_t)value, 2);
    if (value >= INT32_MIN && value <= INT32_MAX)
        return put_tag(to, 0xd2, (uint64_t)value, 4);
    return put_tag(to, 0xd3, (uint64_t)value, 8);
}

static unsigned char *put_float(unsigned char *to, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return put_tag(to, 0xcb, bits, 8);
}

/* At most 9 bytes; none for other kinds. */
static unsigned char *put_scalar(unsigned char *to, const crt_arg_t *arg)
{
    switch (arg->kind) {
    case CRT_KIND_NONE: return put_tag(to, 0xc0, 0, 0);
    case CRT_KIND_BOOL: return put_tag(to, arg->as.boolean ? 0xc3 : 0xc2, 0, 0);
    case CRT_KIND_INT: return put_int(to, arg->as.integer);
    case CRT_KIND_FLOAT: return put_float(to, arg->as.number);
    default: return to;
    }
}

size_t crti_encode_scalar(const crt_arg_t *arg, unsigned char to[CRTI_SCALAR_MAX])
{
    unsigned char *begin = crti_put_u8(to, 0), *end = put_scalar(begin, arg);

    return end == begin ? 0 : (size_t)(end - to);
}

static crt_status_t pack_scalar(crti_buffer_t *head, const crt_arg_t *arg)
{
    crt_status_t status = crti_buffer_reserve(head, 9);

    if (status == CRT_OK)
        head->size = (size_t)(put_scalar(head->data + head->size, arg) - head->data);
    return status;
}

static crt_status_t pack_count(crti_buffer_t *head, unsigned fix, unsigned tag16,
                               size_t count)
{
    if (count < 16)
        return pack(head, fix | (unsigned)count, 0, 0);
    if (count <= UINT16_MAX)
        return pack(head, tag16, count, 2);
    return pack(head, tag16 + 1, count, 4);
}

static crt_status_t pack_text(crti_buffer_t *head, const char *text, size_t size)
{
    if (size < 32)
        return pack_with(head, 0xa0 | (unsigned)size, 0, 0, text, size);
    if (size <= UINT8_MAX)
        return pack_with(head, 0xd9, size, 1, text, size);
    return pack_with(head, 0xda, size, 2, text, size);
}

static crt_status_t pack_bytes(crti_buffer_t *head, const void *data, size_t size)
{
    if (size <= UINT8_MAX)
        return pack_with(head, 0xc4, size, 1, data, size);
    return pack_with(head, 0xc5, size, 2, data, size);
}

static crt_status_t pack_ext(crti_buffer_t *head, int type, const void *data, size_t size)
{
    return pack_with(head, 0xc7, size << 8 | (unsigned)type, 2, data, size);
}

/* ------------------------------------------------------------------ parts */

static crt_status_t refuse(const crti_encoder_t *e, crt_status_t status, const char *why)
{
    return e->what ? crt_raise(status, "%s: %s", e->what, why)
                   : crt_raise(status, "%s", why);
}

static crt_status_t add_segment(crti_encoder_t *e, const crt_tensor_t *tensor,
                                size_t bytes, uint64_t *place_out)
{
    crti_segment_t segment = {*tensor, bytes, e->data_size};

    *place_out = e->data_size;
    e->data_size += aligned(bytes);
    return crti_buffer_append(&e->segments, &segment, sizeof(segment));
}

static crt_status_t add_apart(crti_encoder_t *e, int type, const void *data, size_t size)
{
    crt_tensor_t dense = {.dtype = CRT_DTYPE_UINT8,
                          .rank = 1,
                          .shape = {(int64_t)size},
                          .data = (void *)(uintptr_t)data};
    unsigned char payload[16];
    uint64_t place;
    crt_status_t status = add_segment(e, &dense, size, &place);

    if (status != CRT_OK)
        return status;
    crti_put_u64(crti_put_u64(payload, place), size);
    return pack_ext(&e->head, type, payload, sizeof(payload));
}

static crt_status_t encode_tensor(crti_encoder_t *e, const crt_tensor_t *tensor)
{
    unsigned char payload[2 + 8 * CRT_TENSOR_DIMS + 8], *to = payload;
    uint64_t place;
    size_t bytes;
    crt_status_t status = crti_tensor_check_host(tensor, &bytes);

    if (status != CRT_OK)
        return refuse(e, status, crt_error_detail());
    status = add_segment(e, tensor, bytes, &place);
    if (status != CRT_OK)
        return status;
    to = crti_put_u8(to, (uint8_t)tensor->dtype);
    to = crti_put_u8(to, (uint8_t)tensor->rank);
    for (int i = 0; i < tensor->rank; i++)
        to = crti_put_u64(to, (uint64_t)tensor->shape[i]);
    to = crti_put_u64(to, place);
    return pack_ext(&e->head, 1, payload, (size_t)(to - payload));
}

static crt_status_t add_owner(crti_encoder_t *e, const crti_ref_name_t *name,
                              uint32_t *index_out)
{
    crti_reader_t r = crti_reader(e->owners.data, e->owners.size);
    crt_status_t status;
    unsigned char *to;

    if (e->owner_count && crti_id_equal(e->last_owner, name->id.owner)) {
        *index_out = e->last_owner_index;
        return CRT_OK;
    }
    e->last_owner = name->id.owner;
    for (uint32_t i = 0; i < e->owner_count; i++) {
        crti_id_t id = crti_read_id(&r);

        crti_read_bytes(&r, 24);
        crti_read_text(&r);
        if (crti_id_equal(id, name->id.owner)) {
            *index_out = e->last_owner_index = i;
            return CRT_OK;
        }
    }
    status = crti_buffer_reserve(&e->owners, 42 + name->tcp.size);
    if (status != CRT_OK)
        return status;
    to = crti_put_id(e->owners.data + e->owners.size, name->id.owner);
    to = crti_put_id(crti_put_u64(to, name->incarnation), name->node);
    e->owners.size = (size_t)(crti_put_text(to, name->tcp) - e->owners.data);
    *index_out = e->last_owner_index = e->owner_count++;
    return CRT_OK;
}

/* An entry in the table. */
static crt_status_t add_ref(crti_encoder_t *e, crt_ref_t *ref)
{
    crti_ref_name_t name;
    unsigned char entry[12];
    uint32_t owner = 0;
    crt_status_t status;

    status = e->naming->name_ref(e->user, ref, &name);
    if (status != CRT_OK)
        return refuse(e, status, crt_error_detail());
    status = add_owner(e, &name, &owner);
    if (status == CRT_OK)
        status = crti_buffer_append(&e->refs, &ref, sizeof(ref));
    crti_put_u64(crti_put_u32(entry, owner), name.id.number);
    if (status == CRT_OK)
        status = crti_buffer_append(&e->ref_entries, entry, sizeof(entry));
    if (status == CRT_OK)
        e->ref_count++;
    return status;
}

static crt_status_t encode_ref(crti_encoder_t *e, crt_ref_t *ref)
{
    unsigned char payload[4];
    crt_status_t status = add_ref(e, ref);

    if (status != CRT_OK)
        return status;
    crti_put_u32(payload, e->ref_count - 1);
    return pack_ext(&e->head, 2, payload, sizeof(payload));
}

#define PUT_I64(to, value)   crti_put_u64(to, (uint64_t)(value))
#define PUT_BOOL(to, value)  crti_put_u8(to, value)
#define PUT_TERM(type, name) to = PUT_##type(to, a->terms.name);

static unsigned char *put_actor(unsigned char *to, const crti_actor_name_t *a)
{
    to = crti_put_text(crti_put_id(to, a->id), a->class_name);
    CRTI_ACTOR_TERMS(PUT_TERM)
    to = crti_put_u64(to, a->incarnation);
    to = crti_put_u64(crti_put_id(to, a->process), a->process_incarnation);
    to = crti_put_text(crti_put_id(to, a->node), a->tcp);
    return crti_put_u32(to, a->lifetime_index);
}

static crt_status_t encode_actor(crti_encoder_t *e, crt_actor_t *actor)
{
    crti_actor_name_t name = {.lifetime = NULL};
    unsigned char payload[4], *to;
    crt_status_t status;

    status = e->naming->name_actor(e->user, actor, &name);
    if (status != CRT_OK)
        return refuse(e, status, crt_error_detail());
    if (name.lifetime)
        status = add_ref(e, name.lifetime);
    if (status != CRT_OK)
        return status;
    name.lifetime_index = name.lifetime ? e->ref_count : 0;
    status = crti_buffer_reserve(&e->actor_entries,
                                 ACTOR_BYTES + name.class_name.size + name.tcp.size);
    if (status != CRT_OK)
        return status;
    to = put_actor(e->actor_entries.data + e->actor_entries.size, &name);
    e->actor_entries.size = (size_t)(to - e->actor_entries.data);
    crti_put_u32(payload, e->actor_count++);
    return pack_ext(&e->head, 3, payload, sizeof(payload));
}

static crt_status_t encode_text(crti_encoder_t *e, const char *text)
{
    size_t size;

    if (!text)
        return refuse(e, CRT_ERR_INVALID, "the string is NULL");
    size = strlen(text) + 1;
    if (size >= CRTI_VALUE_APART)
        return add_apart(e, 5, text, size);
    return pack_text(&e->head, text, size);
}

static crt_status_t encode_bytes(crti_encoder_t *e, crt_bytes_t bytes)
{
    if (!bytes.data && bytes.size)
        return refuse(e, CRT_ERR_INVALID, "the bytes are NULL");
    if (bytes.size >= CRTI_VALUE_APART)
        return add_apart(e, 4, bytes.data, bytes.size);
    return pack_bytes(&e->head, bytes.data, bytes.size);
}

static crt_status_t encode_any(crti_encoder_t *e, const crt_arg_t *arg, int depth);

static crt_status_t encode_items(crti_encoder_t *e, const crt_arg_t *arg, int depth)
{
    bool is_map = arg->kind == CRT_KIND_MAP;
    size_t count = arg->as.list.count;
    crt_status_t status;

    if (depth >= CRTI_VALUE_DEPTH)
        return refuse(e, CRT_ERR_INVALID, "lists are nested deeper than 64");
    if (count > UINT32_MAX || (count && !arg->as.list.items))
        return refuse(e, CRT_ERR_INVALID, "the list has no items or too many");
    if (is_map && count % 2)
        return refuse(e, CRT_ERR_INVALID, "a map needs a value for every key");
    status = is_map ? pack_count(&e->head, 0x80, 0xde, count / 2)
                    : pack_count(&e->head, 0x90, 0xdc, count);
    for (size_t i = 0; i < count && status == CRT_OK; i++) {
        const crt_arg_t *item = &arg->as.list.items[i];

        if (is_map && i % 2 == 0 && item->kind != CRT_KIND_STRING)
            return refuse(e, CRT_ERR_INVALID, "a map's keys are strings");
        status = encode_any(e, item, depth + 1);
    }
    return status;
}

/* A list or map as it was received: decoders let no other through, but a program may put it
 * deeper. */
static crt_status_t encode_received(crti_encoder_t *e, const crt_value_t *value,
                                    int depth)
{
    bool is_map = value->kind == CRT_KIND_MAP;
    crt_status_t status;

    if (depth >= CRTI_VALUE_DEPTH)
        return refuse(e, CRT_ERR_INVALID, "lists are nested deeper than 64");
    status = is_map ? pack_count(&e->head, 0x80, 0xde, value->count)
                    : pack_count(&e->head, 0x90, 0xdc, value->count);
    for (size_t i = 0; i < crti_value_items(value) && status == CRT_OK; i++) {
        crt_arg_t item = crt_arg_value(&value->as.items[i]);

        status = encode_any(e, &item, depth + 1);
    }
    return status;
}

static crt_status_t encode_any(crti_encoder_t *e, const crt_arg_t *arg, int depth)
{
    switch (arg->kind) {
    case CRT_KIND_NONE:
    case CRT_KIND_BOOL:
    case CRT_KIND_INT:
    case CRT_KIND_FLOAT: return pack_scalar(&e->head, arg);
    case CRT_KIND_STRING: return encode_text(e, arg->as.string);
    case CRT_KIND_BYTES: return encode_bytes(e, arg->as.bytes);
    case CRT_KIND_TENSOR: return encode_tensor(e, arg->as.tensor);
    case CRT_KIND_REF: return encode_ref(e, arg->as.ref);
    case CRT_KIND_ACTOR: return encode_actor(e, arg->as.actor);
    case CRT_KIND_LIST:
    case CRT_KIND_MAP: return encode_items(e, arg, depth);
    case CRT_KIND_VALUE: return encode_received(e, arg->as.value, depth);
    case CRT_KIND_SPREAD:
        return refuse(e, CRT_ERR_INVALID,
                      "crt_arg_each stands among a call's arguments only");
    case CRT_KIND_OBJECT: return encode_tensor(e, e->naming->tensor_of(arg->as.object));
    default: break;
    }
    if (arg->kind == CRTI_KIND_TOO_BIG) {
        crt_raise(CRT_ERR_INVALID, "%llu is too large: an int is at most %lld",
                  (unsigned long long)arg->as.integer, (long long)INT64_MAX);
        return refuse(e, CRT_ERR_INVALID, crt_error_detail());
    }
    return refuse(e, CRT_ERR_INVALID, "no kind of value");
}

static size_t table_size(const crti_encoder_t *e)
{
    if (e->ref_count == 0 && e->actor_count == 0)
        return 0;
    return 12 + e->owners.size + e->ref_entries.size + e->actor_entries.size;
}

crt_status_t crti_encode(crti_encoder_t *e, const crti_naming_t *naming,
                         const crt_arg_t *arg)
{
    crt_status_t status;

    e->naming = naming;
    e->head.size = e->owners.size = e->ref_entries.size = e->actor_entries.size = 0;
    e->segments.size = e->refs.size = 0;
    e->owner_count = e->ref_count = e->actor_count = 0;
    e->data_size = 0;
    status = encode_any(e, arg, 0);
    if (status == CRT_OK && (table_size(e) > UINT32_MAX || e->head.size > UINT32_MAX))
        return refuse(e, CRT_ERR_TOO_LARGE, "more than 4 GiB besides tensors and bytes");
    return status;
}

/* ------------------------------------------------------------------ writing */

static bool is_plain(const crti_encoder_t *e)
{
    return e->data_size == 0 && e->segments.size == 0 && e->ref_count == 0 &&
           e->actor_count == 0;
}

static size_t data_offset(const crti_encoder_t *e)
{
    size_t size = HEADER + table_size(e) + e->head.size;

    return e->data_size ? aligned(size) : size;
}

size_t crti_encoder_size(const crti_encoder_t *e)
{
    return is_plain(e) ? 1 + e->head.size : data_offset(e) + e->data_size;
}

bool crti_encoder_has_data(const crti_encoder_t *e)
{
    return e->data_size != 0;
}

static void copy_strided(const crt_tensor_t *t, int axis, const char *from, char **to,
                         size_t width)
{
    if (axis == t->rank) {
        memcpy(*to, from, width);
        *to += width;
        return;
    }
    for (int64_t i = 0; i < t->shape[axis]; i++)
        copy_strided(t, axis + 1, from + i * t->strides[axis] * (int64_t)width, to,
                     width);
}

static void write_segment(const crti_segment_t *segment, char *data)
{
    const crt_tensor_t *t = &segment->tensor;
    size_t size = segment->bytes;
    char *to = data + segment->place;

    if (size == 0)
        return;
    if (crt_tensor_is_dense(t) && size >= LARGE)
        crti_store_copy(to, t->data, size);
    else if (crt_tensor_is_dense(t))
        memcpy(to, t->data, size);
    else
        copy_strided(t, 0, t->data, &to, crt_dtype_size(t->dtype));
    memset(data + segment->place + size, 0, aligned(size) - size);
}

static unsigned char *write_header(unsigned char *to, size_t table, size_t head,
                                   uint64_t data)
{
    memset(to, 0, HEADER);
    to[0] = 1;
    crti_put_u32(crti_put_u32(to + 4, (uint32_t)table), (uint32_t)head);
    crti_put_u64(to + 16, data);
    return to + HEADER;
}

void crti_encoder_write(const crti_encoder_t *e, void *out)
{
    unsigned char *to = out, *data = to + data_offset(e);
    const crti_segment_t *segments = (const void *)e->segments.data;

    if (is_plain(e)) {
        to = crti_put_u8(to, 0);
        crti_put_bytes(to, e->head.data, e->head.size);
        return;
    }
    to = write_header(to, table_size(e), e->head.size, e->data_size);
    if (table_size(e)) {
        to = crti_put_u32(crti_put_u32(to, e->owner_count), e->ref_count);
        to = crti_put_u32(to, e->actor_count);
        to = crti_put_bytes(to, e->owners.data, e->owners.size);
        to = crti_put_bytes(to, e->ref_entries.data, e->ref_entries.size);
        to = crti_put_bytes(to, e->actor_entries.data, e->actor_entries.size);
    }
    to = crti_put_bytes(to, e->head.data, e->head.size);
    memset(to, 0, (size_t)(data - to));
    for (size_t i = 0; i < e->segments.size / sizeof(*segments); i++)
        write_segment(&segments[i], (char *)data);
}

crt_ref_t *const *crti_encoder_refs(const crti_encoder_t *e, size_t *count_out)
{
    *count_out = e->ref_count;
    return (crt_ref_t *const *)(const void *)e->refs.data;
}

void crti_encoder_fini(crti_encoder_t *e)
{
    crti_buffer_fini(&e->head);
    crti_buffer_fini(&e->owners);
    crti_buffer_fini(&e->ref_entries);
    crti_buffer_fini(&e->actor_entries);
    crti_buffer_fini(&e->segments);
    crti_buffer_fini(&e->refs);
}

size_t crti_value_tensor_header(crt_dtype_t dtype, int rank, const int64_t *shape,
                                void *to, size_t *data_offset_out)
{
    unsigned char payload[2 + 8 * CRT_TENSOR_DIMS + 8], *p = payload, *at = to;
    size_t ext, data = crt_dtype_size(dtype);

    p = crti_put_u8(crti_put_u8(p, (uint8_t)dtype), (uint8_t)rank);
    for (int i = 0; i < rank; i++) {
        p = crti_put_u64(p, (uint64_t)shape[i]);
        data *= (size_t)shape[i];
    }
    p = crti_put_u64(p, 0);
    ext = (size_t)(p - payload);
    data = aligned(data);
    *data_offset_out = data ? aligned(HEADER + 3 + ext) : HEADER + 3 + ext;
    if (at) {
        at = write_header(at, 0, 3 + ext, data);
        at = crti_put_u8(crti_put_u8(crti_put_u8(at, 0xc7), (uint8_t)ext), 1);
        at = crti_put_bytes(at, payload, ext);
        memset(at, 0, *data_offset_out - (size_t)(at - (unsigned char *)to));
    }
    return *data_offset_out + data;
}
