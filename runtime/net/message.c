/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages: one table per message, one encoder and one decoder for all. See message.h. */
#include "runtime/net/message.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack.h>

typedef enum field_type {
    U64,
    I64,
    F64,
    BOOL,
    ID,
    OBJECT,
    STR,
    BIN,
    RES,
    ROOM
} field_type_t;

typedef struct field {
    field_type_t type;
    size_t offset;
} field_t;

static bool is_resources(field_type_t type)
{
    return type == RES || type == ROOM;
}

#define FIELD(field_kind, name) {field_kind, offsetof(body_t, name)},
#define TABLE(NAME, name, number)                                                        \
    static const field_t *fields_##name(size_t *count_out)                               \
    {                                                                                    \
        typedef crti_msg_##name##_t body_t;                                              \
        static const field_t fields[] = {                                                \
            CRTI_FIELDS_##NAME(FIELD){BOOL, offsetof(body_t, unused)}};                  \
        *count_out = sizeof(fields) / sizeof(fields[0]) - 1; /* the last is no field */  \
        return fields;                                                                   \
    }
CRTI_MESSAGE_MAP(TABLE)

static const field_t *fields_of(crti_message_kind_t kind, size_t *count_out,
                                size_t *size_out)
{
    switch (kind) {
#define CASE(NAME, name, number)                                                         \
    case CRTI_MSG_##NAME:                                                                \
        *size_out = sizeof(crti_msg_##name##_t);                                         \
        return fields_##name(count_out);
        CRTI_MESSAGE_MAP(CASE)
#undef CASE
    case CRTI_MSG_NONE: break;
    }
    return NULL;
}

const char *crti_message_name(crti_message_kind_t kind)
{
    switch (kind) {
#define CASE(NAME, name, number)                                                         \
    case CRTI_MSG_##NAME: return #NAME;
        CRTI_MESSAGE_MAP(CASE)
#undef CASE
    case CRTI_MSG_NONE: break;
    }
    return "unknown";
}

/* ---------------------------------------------------------------- encode */

static int append(void *data, const char *bytes, size_t size)
{
    return crti_buffer_append(data, bytes, size) == CRT_OK ? 0 : -1;
}

static void put_be64(unsigned char *to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)(value >> (56 - 8 * i));
}

static int pack_bin(msgpack_packer *packer, const void *data, size_t size)
{
    int failed = msgpack_pack_bin(packer, size);

    return size ? failed | msgpack_pack_bin_body(packer, data, size) : failed;
}

static int pack_str(msgpack_packer *packer, const void *data, size_t size)
{
    int failed = msgpack_pack_str(packer, size);

    return size ? failed | msgpack_pack_str_body(packer, data, size) : failed;
}

static int pack_resources(msgpack_packer *packer, const crti_resources_t *r)
{
    int failed = msgpack_pack_uint64(packer, r->count);

    for (unsigned i = 0; i < r->count; i++) {
        failed |= pack_str(packer, r->item[i].name, strlen(r->item[i].name));
        failed |= msgpack_pack_int64(packer, r->item[i].amount);
    }
    return failed;
}

static int pack_field(msgpack_packer *packer, field_type_t type, const void *value)
{
    const crti_object_id_t *object = value;
    const crti_span_t *span = value;
    const crti_id_t *id = value;
    unsigned char bytes[24];

    switch (type) {
    case U64: return msgpack_pack_uint64(packer, *(const uint64_t *)value);
    case I64: return msgpack_pack_int64(packer, *(const int64_t *)value);
    case F64: return msgpack_pack_double(packer, *(const double *)value);
    case BOOL:
        return *(const bool *)value ? msgpack_pack_true(packer)
                                    : msgpack_pack_false(packer);
    case ID:
        put_be64(bytes, id->high);
        put_be64(bytes + 8, id->low);
        return pack_bin(packer, bytes, 16);
    case OBJECT:
        put_be64(bytes, object->owner.high);
        put_be64(bytes + 8, object->owner.low);
        put_be64(bytes + 16, object->number);
        return pack_bin(packer, bytes, 24);
    case STR: return pack_str(packer, span->data, span->size);
    case BIN: return pack_bin(packer, span->data, span->size);
    case RES:
    case ROOM: return pack_resources(packer, value);
    }
    return -1;
}

/* Elements of the msgpack array: RES and ROOM take 1 + 2 per name, all else 1. */
static size_t element_count(const field_t *fields, size_t count,
                            const unsigned char *body)
{
    size_t elements = 2 + count;

    for (size_t i = 0; i < count; i++)
        if (is_resources(fields[i].type))
            elements +=
                2 * ((const crti_resources_t *)(const void *)(body + fields[i].offset))
                        ->count;
    return elements;
}

crt_status_t crti_message_encode(crti_message_kind_t kind, uint64_t request,
                                 const void *body, crti_buffer_t *out)
{
    static const crti_message_t empty;
    size_t count = 0, size = 0, start = out->size;
    const field_t *fields = fields_of(kind, &count, &size);
    const unsigned char *from = body ? body : (const void *)&empty;
    msgpack_packer packer;
    int failed;

    if (fields == NULL)
        return crt_raise(CRT_ERR_INVALID, "message kind %d", (int)kind);
    msgpack_packer_init(&packer, out, append);
    failed = msgpack_pack_array(&packer, element_count(fields, count, from));
    failed |= msgpack_pack_uint64(&packer, (uint64_t)kind);
    failed |= msgpack_pack_uint64(&packer, request);
    for (size_t i = 0; i < count && !failed; i++)
        failed |= pack_field(&packer, fields[i].type, from + fields[i].offset);
    if (failed) {
        out->size = start;
        return crt_raise(CRT_ERR_NO_MEMORY, "message %s", crti_message_name(kind));
    }
    return CRT_OK;
}

/* ---------------------------------------------------------------- decode */

/* The decoder is written out: the messages hold scalars only, so it is short, every length is
 * checked in one place, and unlike msgpack-c's it allocates nothing. */

static uint64_t get_be(const unsigned char *from, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++)
        value = value << 8 | from[i];
    return value;
}

/* The next `size` bytes; NULL when there are fewer. */
static const unsigned char *take(crti_span_t *rest, size_t size)
{
    const unsigned char *data = rest->data;

    if (rest->size < size)
        return NULL;
    *rest = crti_span(data + size, rest->size - size);
    return data;
}

/* Big-endian number of 1, 2, 4 or 8 bytes: `width` is its exponent. */
static bool take_be(crti_span_t *rest, unsigned width, uint64_t *value_out)
{
    const unsigned char *data = take(rest, (size_t)1 << width);

    if (data == NULL)
        return false;
    *value_out = get_be(data, (size_t)1 << width);
    return true;
}

static bool take_u64(crti_span_t *rest, uint64_t *value_out)
{
    const unsigned char *first = take(rest, 1);

    if (first == NULL)
        return false;
    if (*first <= 0x7f) {
        *value_out = *first;
        return true;
    }
    return *first >= 0xcc && *first <= 0xcf && take_be(rest, *first - 0xccu, value_out);
}

static bool take_i64(crti_span_t *rest, int64_t *value_out)
{
    const unsigned char *first = rest->data;
    uint64_t value;
    unsigned width;

    if (rest->size && *first >= 0xe0) { /* -32..-1 */
        *value_out = (int64_t)(int8_t)*first;
        return take(rest, 1) != NULL;
    }
    if (rest->size && *first >= 0xd0 && *first <= 0xd3) {
        width = *first - 0xd0u;
        if (take(rest, 1) == NULL || !take_be(rest, width, &value))
            return false;
        value <<= 64 - (8u << width); /* the sign goes to the top, and back down */
        *value_out = (int64_t)value >> (64 - (8u << width));
        return true;
    }
    if (!take_u64(rest, &value) || value > INT64_MAX)
        return false;
    *value_out = (int64_t)value;
    return true;
}

static bool take_f64(crti_span_t *rest, double *value_out)
{
    const unsigned char *first = take(rest, 1);
    uint64_t bits;

    if (first == NULL || *first != 0xcb || !take_be(rest, 3, &bits))
        return false;
    memcpy(value_out, &bits, sizeof(bits));
    return true;
}

static bool take_bool(crti_span_t *rest, bool *value_out)
{
    const unsigned char *first = take(rest, 1);

    if (first == NULL || (*first != 0xc2 && *first != 0xc3))
        return false;
    *value_out = *first == 0xc3;
    return true;
}

static bool take_span(crti_span_t *rest, uint64_t size, crti_span_t *value_out)
{
    const unsigned char *data = size <= rest->size ? take(rest, (size_t)size) : NULL;

    if (data == NULL)
        return false;
    *value_out = crti_span(data, (size_t)size);
    return true;
}

static bool take_str(crti_span_t *rest, crti_span_t *value_out)
{
    const unsigned char *first = take(rest, 1);
    uint64_t size;

    if (first == NULL)
        return false;
    if (*first >= 0xa0 && *first <= 0xbf)
        size = *first & 31u;
    else if (*first < 0xd9 || *first > 0xdb || !take_be(rest, *first - 0xd9u, &size))
        return false;
    return take_span(rest, size, value_out) &&
           (size == 0 || !memchr(value_out->data, '\0', (size_t)size));
}

static bool take_bin(crti_span_t *rest, crti_span_t *value_out)
{
    const unsigned char *first = take(rest, 1);
    uint64_t size;

    return first && *first >= 0xc4 && *first <= 0xc6 &&
           take_be(rest, *first - 0xc4u, &size) && take_span(rest, size, value_out);
}

static bool take_resources(crti_span_t *rest, crti_resources_t *r, size_t *elements)
{
    uint64_t count;

    *r = (crti_resources_t){0};
    if (!take_u64(rest, &count) || count > CRTI_RESOURCES_MAX)
        return false;
    *elements += 2 * count;
    for (uint64_t i = 0; i < count; i++) {
        char name[CRTI_RESOURCE_NAME];
        crti_span_t text;
        int64_t amount;

        if (!take_str(rest, &text) || text.size >= sizeof(name) ||
            !take_i64(rest, &amount))
            return false;
        if (crti_resources_get(r, crti_text(text, name, sizeof(name))) != 0 ||
            crti_resources_set(r, name, amount) != CRT_OK)
            return false;
    }
    return true;
}

static bool take_field(crti_span_t *rest, field_type_t type, void *to, size_t *elements)
{
    crti_object_id_t *object_id = to;
    crti_id_t *id = to;
    crti_span_t bin;

    switch (type) {
    case U64: return take_u64(rest, to);
    case I64: return take_i64(rest, to);
    case STR: return take_str(rest, to);
    case BIN: return take_bin(rest, to);
    case RES:
        return take_resources(rest, to, elements) && crti_resources_check(to) == CRT_OK;
    case ROOM: return take_resources(rest, to, elements);
    case F64: return take_f64(rest, to);
    case BOOL: return take_bool(rest, to);
    case ID:
        if (!take_bin(rest, &bin) || bin.size != 16)
            return false;
        *id = (crti_id_t){get_be(bin.data, 8),
                          get_be((const unsigned char *)bin.data + 8, 8)};
        return true;
    case OBJECT:
        if (!take_bin(rest, &bin) || bin.size != 24)
            return false;
        object_id->owner = (crti_id_t){get_be(bin.data, 8),
                                       get_be((const unsigned char *)bin.data + 8, 8)};
        object_id->number = get_be((const unsigned char *)bin.data + 16, 8);
        return true;
    }
    return false;
}

/* The array's element count from its header. */
static bool take_array(crti_span_t *rest, size_t *elements_out)
{
    const unsigned char *data = rest->data;
    size_t header = 1;

    if (rest->size >= 1 && data[0] >= 0x90 && data[0] <= 0x9f) {
        *elements_out = data[0] & 15u;
    } else if (rest->size >= 3 && data[0] == 0xdc) {
        *elements_out = (size_t)data[1] << 8 | data[2];
        header = 3;
    } else {
        return false;
    }
    *rest = crti_span(data + header, rest->size - header);
    return true;
}

crt_status_t crti_message_decode(const void *data, size_t size,
                                 crti_message_t *message_out)
{
    size_t count = 0, body_size = 0, elements = 0, expected;
    crti_span_t rest = crti_span(data, size);
    const field_t *fields;
    uint64_t kind;

    if (!take_array(&rest, &elements) || !take_u64(&rest, &kind) ||
        !take_u64(&rest, &message_out->request))
        return crt_raise(CRT_ERR_PROTOCOL, "%zu bytes are no message", size);
    fields =
        kind <= INT_MAX ? fields_of((crti_message_kind_t)kind, &count, &body_size) : NULL;
    if (fields == NULL)
        return crt_raise(CRT_ERR_PROTOCOL, "unknown message kind %llu",
                         (unsigned long long)kind);
    message_out->kind = (crti_message_kind_t)kind;
    expected = 2 + count;
    for (size_t i = 0; i < count; i++)
        if (!take_field(&rest, fields[i].type,
                        (unsigned char *)&message_out->error + fields[i].offset,
                        &expected))
            return crt_raise(
                CRT_ERR_PROTOCOL, "message %s: field %zu is missing or of another kind%s",
                crti_message_name(message_out->kind), i + 1,
                is_resources(fields[i].type) ? ", or an amount in it is none" : "");
    if (elements != expected || rest.size != 0)
        return crt_raise(CRT_ERR_PROTOCOL, "message %s: %zu elements, expected %zu",
                         crti_message_name(message_out->kind), elements, expected);
    return CRT_OK;
}

/* ---------------------------------------------------------------- copies */

void *crti_message_copy(crti_message_kind_t kind, const void *body)
{
    size_t count = 0, size = 0, bytes = 0;
    const field_t *fields = fields_of(kind, &count, &size);
    char *copy, *at;

    for (size_t i = 0; i < count; i++)
        if (fields[i].type == STR || fields[i].type == BIN)
            bytes += ((const crti_span_t *)(const void *)((const char *)body +
                                                          fields[i].offset))
                         ->size +
                     1;
    copy = malloc(size + bytes);
    if (copy == NULL)
        return NULL;
    memcpy(copy, body, size);
    at = copy + size;
    for (size_t i = 0; i < count; i++) {
        crti_span_t *span = (crti_span_t *)(void *)(copy + fields[i].offset);

        if (fields[i].type != STR && fields[i].type != BIN)
            continue;
        if (span->size)
            memcpy(at, span->data, span->size);
        at[span->size] = '\0';
        span->data = at;
        at += span->size + 1;
    }
    return copy;
}

/* ---------------------------------------------------------------- text and lists */

const char *crti_text(crti_span_t str, char *text, size_t size)
{
    size_t length = str.size < size - 1 ? str.size : size - 1;

    if (length)
        memcpy(text, str.data, length);
    text[length] = '\0';
    return text;
}

bool crti_str_equal(crti_span_t str, const char *text)
{
    return str.size == strlen(text) &&
           memcmp(str.data ? str.data : "", text, str.size) == 0;
}

char *crti_str_dup(crti_span_t str)
{
    char *text = malloc(str.size + 1);

    if (text)
        crti_text(str, text, str.size + 1);
    return text;
}

bool crti_str_replace(char **field, crti_span_t str)
{
    char *copy = crti_str_dup(str);

    if (copy == NULL)
        return false;
    free(*field);
    *field = copy;
    return true;
}

crt_status_t crti_list_pack(crti_buffer_t *list, const void *entry, size_t size)
{
    unsigned char length[4] = {(unsigned char)size, (unsigned char)(size >> 8),
                               (unsigned char)(size >> 16), (unsigned char)(size >> 24)};
    crt_status_t status = crti_buffer_reserve(list, size + sizeof(length));

    if (size > UINT32_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "list entry of %zu bytes", size);
    if (status != CRT_OK)
        return status;
    crti_buffer_append(list, length, sizeof(length));
    return crti_buffer_append(list, entry, size);
}

crt_status_t crti_list_unpack(crti_span_t *rest, crti_span_t *entry_out)
{
    const unsigned char *data = rest->data;
    size_t size;

    if (rest->size == 0)
        return CRT_ERR_NOT_FOUND;
    if (rest->size < 4)
        return crt_raise(CRT_ERR_PROTOCOL, "list is cut");
    size = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16 | (size_t)data[3] << 24;
    if (size > rest->size - 4)
        return crt_raise(CRT_ERR_PROTOCOL, "list entry of %zu bytes in %zu", size,
                         rest->size - 4);
    *entry_out = crti_span(data + 4, size);
    *rest = crti_span(data + 4 + size, rest->size - 4 - size);
    return CRT_OK;
}
