/* SPDX-License-Identifier: Apache-2.0 */
/* JSON and values. See json_value.h. */
#include "runtime/http/json_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "runtime/base/json_shape.h"
#include "runtime/base/tensor_check.h"

#define SIZE_LIMIT    (INT64_C(1) << 40) /* of one dimension */
#define BRACKET_BYTES ((size_t)288)      /* that a list or an object takes, and */
#define VALUE_BYTES   ((size_t)80)       /* any other value */
#define LARGE_BYTES   ((size_t)32 << 10) /* of a text or bytes; */
#define LARGE_COUNT   ((size_t)4096)     /* elements and entries */

/* ---------------------------------------------------------------- to arguments */

/* Arguments that a JSON value takes, itself included. */
static size_t count_args(const json_t *json)
{
    size_t sum = 1, index;
    const char *key;
    json_t *item;

    if (json_is_array(json)) {
        json_array_foreach(json, index, item) sum += count_args(item);
    } else if (json_is_object(json)) {
        json_object_foreach((json_t *)json, key, item) sum += 1 + count_args(item);
    }
    return sum;
}

/* Where the parts of arguments go. */
typedef struct making {
    crt_arg_t *next;
} making_t;

static crt_arg_t make_arg(making_t *m, const json_t *json);

static crt_arg_t make_list(making_t *m, const json_t *json)
{
    size_t count = json_array_size(json), index;
    crt_arg_t *items = m->next;
    json_t *item;

    m->next += count;
    json_array_foreach(json, index, item) items[index] = make_arg(m, item);
    return crt_list(items, count);
}

static crt_arg_t make_map(making_t *m, const json_t *json)
{
    size_t count = 2 * json_object_size(json), index = 0;
    crt_arg_t *items = m->next;
    const char *key;
    json_t *item;

    m->next += count;
    json_object_foreach((json_t *)json, key, item)
    {
        items[index++] = crt_arg_string(key);
        items[index++] = make_arg(m, item);
    }
    return crt_map(items, count);
}

static crt_arg_t make_arg(making_t *m, const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT: return make_map(m, json);
    case JSON_ARRAY: return make_list(m, json);
    case JSON_STRING: return crt_arg_string(json_string_value(json));
    case JSON_INTEGER: return crt_arg_int(json_integer_value(json));
    case JSON_REAL: return crt_arg_float(json_real_value(json));
    case JSON_TRUE: return crt_arg_bool(true);
    case JSON_FALSE: return crt_arg_bool(false);
    case JSON_NULL: break;
    }
    return crt_arg_none(NULL);
}

/* Before it is parsed: about what it takes as JSON and as arguments. */
static crt_status_t check_shape(crti_span_t text, size_t most)
{
    crti_json_shape_t shape = crti_json_shape(text);
    size_t memory = BRACKET_BYTES * shape.brackets +
                    VALUE_BYTES * (shape.values - shape.brackets) + 2 * text.size;

    if (shape.depth > CRTI_JSON_DEPTH + 1)
        return crt_raise(CRT_ERR_INVALID, "the arguments are nested deeper than %d",
                         CRTI_JSON_DEPTH);
    if (memory > most)
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "the arguments are %zu values; they would take %zu MiB of "
                         "memory, at most %zu are taken for them",
                         shape.values, memory >> 20, most >> 20);
    return CRT_OK;
}

crt_status_t crti_json_args_parse(const void *text, size_t size, size_t most,
                                  crti_json_args_t *args_out)
{
    crti_json_args_t made = {0};
    json_error_t error;
    size_t room;
    making_t m;
    crt_arg_t list;
    crt_status_t status = check_shape(crti_span(text, size), most);

    if (status != CRT_OK)
        return status;
    made.json = json_loadb(size ? text : "[]", size ? size : 2, 0, &error);
    if (!made.json)
        return crt_raise(CRT_ERR_INVALID, "the arguments are no JSON: %s (line %d)",
                         error.text, error.line);
    if (!json_is_array(made.json)) {
        json_decref(made.json);
        return crt_raise(CRT_ERR_INVALID, "the arguments are no JSON array");
    }
    room = count_args(made.json);
    made.args = calloc(room, sizeof(*made.args));
    if (!made.args) {
        json_decref(made.json);
        return crt_raise(CRT_ERR_NO_MEMORY, "%zu parts of arguments", room);
    }
    m.next = made.args;
    list = make_list(&m, made.json);
    made.count = list.as.list.count;
    *args_out = made;
    return CRT_OK;
}

void crti_json_args_fini(crti_json_args_t *args)
{
    json_decref(args->json);
    free(args->args);
    *args = (crti_json_args_t){0};
}

/* ---------------------------------------------------------------- to JSON */

/* Where it goes, and how large it may become. */
typedef struct writer {
    crti_buffer_t *out;
    size_t most;
} writer_t;

static crt_status_t make_room(const writer_t *w, size_t size)
{
    return size <= w->most && w->out->size <= w->most - size
               ? CRT_OK
               : crt_raise(CRT_ERR_TOO_LARGE,
                           "the result has more than %zu bytes as JSON", w->most);
}

static crt_status_t put(writer_t *w, const char *text)
{
    size_t size = strlen(text);
    crt_status_t status = make_room(w, size);

    return status == CRT_OK ? crti_buffer_append(w->out, text, size) : status;
}

/* The shortest form that reads as the same number. */
static crt_status_t put_number(writer_t *w, double number, bool is_single)
{
    char text[32];
    int digits = is_single ? 6 : 15, most = is_single ? 9 : 17;

    if (!isfinite(number))
        return put(w, "null");
    if (fabs(number) < 1e15 && number == (double)(int64_t)number) {
        snprintf(text, sizeof(text), "%" PRId64 ".0", (int64_t)number);
        return put(w, text);
    }
    for (; digits <= most; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, number);
        if (is_single ? strtof(text, NULL) == (float)number
                      : strtod(text, NULL) == number)
            break;
    }
    return put(w, text);
}

static crt_status_t put_whole(writer_t *w, int64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, number);
    return put(w, text);
}

static crt_status_t put_unsigned(writer_t *w, uint64_t number)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, number);
    return put(w, text);
}

static crt_status_t put_text(writer_t *w, const char *text, size_t size)
{
    crt_status_t status = make_room(w, size);
    json_t *json = status == CRT_OK ? json_stringn(text, size) : NULL;
    char *made;

    if (status != CRT_OK)
        return status;
    if (!json) /* not UTF-8 */
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "the result holds a text that is not UTF-8");
    made = json_dumps(json, JSON_ENCODE_ANY);
    json_decref(json);
    if (!made)
        return crt_raise(CRT_ERR_NO_MEMORY, "a text of %zu bytes", size);
    status = put(w, made);
    free(made);
    return status;
}

static crt_status_t put_bytes(writer_t *w, const void *data, size_t size)
{
    size_t room = sodium_base64_encoded_len(size, sodium_base64_VARIANT_ORIGINAL);
    crt_status_t status = make_room(w, room + 2);
    char *to;

    if (status == CRT_OK)
        status = crti_buffer_reserve(w->out, room + 2);

    if (status != CRT_OK)
        return status;
    to = (char *)w->out->data + w->out->size;
    *to = '"';
    sodium_bin2base64(to + 1, room, data, size, sodium_base64_VARIANT_ORIGINAL);
    to[room] = '"'; /* instead of the final zero */
    w->out->size += room + 1;
    return CRT_OK;
}

static float from_half(uint16_t half)
{
    int exponent = half >> 10 & 31;
    float fraction = (float)(half & 1023);
    float size = exponent == 0    ? ldexpf(fraction, -24)
                 : exponent == 31 ? (half & 1023 ? NAN : INFINITY)
                                  : ldexpf(1024 + fraction, exponent - 25);

    return half & 0x8000 ? -size : size;
}

static float from_bfloat(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float number;

    memcpy(&number, &bits, sizeof(number));
    return number;
}

#define READ(type) (*(const type *)at)
static crt_status_t put_element(writer_t *w, crt_dtype_t dtype, const void *at)
{
    switch (dtype) {
    case CRT_DTYPE_FLOAT32: return put_number(w, READ(float), true);
    case CRT_DTYPE_FLOAT64: return put_number(w, READ(double), false);
    case CRT_DTYPE_FLOAT16: return put_number(w, from_half(READ(uint16_t)), true);
    case CRT_DTYPE_BFLOAT16: return put_number(w, from_bfloat(READ(uint16_t)), true);
    case CRT_DTYPE_INT8: return put_whole(w, READ(int8_t));
    case CRT_DTYPE_INT16: return put_whole(w, READ(int16_t));
    case CRT_DTYPE_INT32: return put_whole(w, READ(int32_t));
    case CRT_DTYPE_INT64: return put_whole(w, READ(int64_t));
    case CRT_DTYPE_UINT8: return put_whole(w, READ(uint8_t));
    case CRT_DTYPE_UINT16: return put_whole(w, READ(uint16_t));
    case CRT_DTYPE_UINT32: return put_whole(w, READ(uint32_t));
    case CRT_DTYPE_UINT64: return put_unsigned(w, READ(uint64_t));
    case CRT_DTYPE_BOOL: /* a byte of anybody's, which need be no bool */
        return put(w, READ(uint8_t) ? "true" : "false");
    }
    return crt_raise(CRT_ERR_UNSUPPORTED, "a tensor of an unknown dtype");
}

static crt_status_t put_tensor(writer_t *w, const crt_tensor_t *t, int depth,
                               const unsigned char **at)
{
    crt_status_t status;

    if (depth == t->rank) {
        status = put_element(w, t->dtype, *at);
        *at += crt_dtype_size(t->dtype);
        return status;
    }
    status = put(w, "[");
    for (int64_t i = 0; i < t->shape[depth] && status == CRT_OK; i++) {
        if (i)
            status = put(w, ",");
        if (status == CRT_OK)
            status = put_tensor(w, t, depth + 1, at);
    }
    return status == CRT_OK ? put(w, "]") : status;
}

static crt_status_t put_value(writer_t *w, const crt_value_t *value);

static crt_status_t put_entries(writer_t *w, const crt_value_t *value, bool is_map)
{
    crt_status_t status = put(w, is_map ? "{" : "[");

    for (size_t i = 0; i < crt_value_count(value) && status == CRT_OK; i++) {
        const char *key = is_map ? crt_value_key(value, i) : NULL;

        if (i)
            status = put(w, ",");
        if (status == CRT_OK && is_map)
            status = put_text(w, key, strlen(key));
        if (status == CRT_OK && is_map)
            status = put(w, ":");
        if (status == CRT_OK)
            status = put_value(w, crt_value_at(value, i));
    }
    return status == CRT_OK ? put(w, is_map ? "}" : "]") : status;
}

static crt_status_t put_value(writer_t *w, const crt_value_t *value)
{
    const crt_tensor_t *tensor;
    const unsigned char *at;
    crt_bytes_t bytes;
    const char *text;
    double number;
    int64_t whole;
    bool truth;
    crt_status_t status;

    switch (crt_value_kind(value)) {
    case CRT_KIND_NONE: return put(w, "null");
    case CRT_KIND_BOOL:
        status = crt_value_read(value, &truth);
        return status == CRT_OK ? put(w, truth ? "true" : "false") : status;
    case CRT_KIND_INT:
        status = crt_value_read_v(value, (crt_out_t){CRT_OUT_INT64, &whole});
        return status == CRT_OK ? put_whole(w, whole) : status;
    case CRT_KIND_FLOAT:
        status = crt_value_read(value, &number);
        return status == CRT_OK ? put_number(w, number, false) : status;
    case CRT_KIND_STRING:
        status = crt_value_read(value, &text);
        return status == CRT_OK ? put_text(w, text, strlen(text)) : status;
    case CRT_KIND_BYTES:
        status = crt_value_read(value, &bytes);
        return status == CRT_OK ? put_bytes(w, bytes.data, bytes.size) : status;
    case CRT_KIND_TENSOR:
        status = crt_value_read(value, &tensor);
        at = status == CRT_OK ? tensor->data : NULL;
        return status == CRT_OK ? put_tensor(w, tensor, 0, &at) : status;
    case CRT_KIND_LIST: return put_entries(w, value, false);
    case CRT_KIND_MAP: return put_entries(w, value, true);
    default:
        return crt_raise(CRT_ERR_UNSUPPORTED, "the result holds a %s, which JSON has not",
                         crt_kind_name(crt_value_kind(value)));
    }
}

crt_status_t crti_json_value_write(const crt_value_t *value, size_t most,
                                   crti_buffer_t *out)
{
    return put_value(&(writer_t){.out = out, .most = most}, value);
}

/* Elements, and brackets of one that has none. */
static size_t count_parts(const crt_tensor_t *t)
{
    size_t count = 1;

    for (int i = 0; i < t->rank && count <= LARGE_COUNT; i++)
        count *= t->shape[i] ? (size_t)t->shape[i] : 1;
    return count;
}

/* Takes what there is to write from `*left`; false: there is more. */
static bool take_work(const crt_value_t *value, size_t *left)
{
    const crt_tensor_t *tensor;
    const char *text;
    crt_bytes_t bytes;
    size_t work = 1;

    switch (crt_value_kind(value)) {
    case CRT_KIND_STRING:
        if (crt_value_read(value, &text) == CRT_OK)
            work += strnlen(text, LARGE_BYTES) / (LARGE_BYTES / LARGE_COUNT);
        break;
    case CRT_KIND_BYTES:
        if (crt_value_read(value, &bytes) == CRT_OK)
            work += bytes.size / (LARGE_BYTES / LARGE_COUNT);
        break;
    case CRT_KIND_TENSOR:
        if (crt_value_read(value, &tensor) == CRT_OK)
            work += count_parts(tensor);
        break;
    default: break;
    }
    if (work > *left)
        return false;
    *left -= work;
    for (size_t i = 0; i < crt_value_count(value); i++)
        if (!take_work(crt_value_at(value, i), left))
            return false;
    return true;
}

bool crti_json_value_is_large(const crt_value_t *value)
{
    size_t left = LARGE_COUNT;

    return !take_work(value, &left);
}

/* ---------------------------------------------------------------- tensors by headers */

bool crti_dtype_parse(const char *name, crt_dtype_t *dtype_out)
{
    for (int d = CRT_DTYPE_FLOAT32; d <= CRTI_DTYPE_LAST; d++)
        if (strcmp(name, crt_dtype_name((crt_dtype_t)d)) == 0) {
            *dtype_out = (crt_dtype_t)d;
            return true;
        }
    return false;
}

bool crti_shape_parse(const char *text, int64_t shape[CRT_TENSOR_DIMS], int *rank_out)
{
    int rank = 0;

    text += strspn(text, " ");
    while (*text) {
        char *end;
        int64_t size;

        if (rank == CRT_TENSOR_DIMS || *text < '0' || *text > '9')
            return false;
        size = strtoll(text, &end, 10);
        if (size > SIZE_LIMIT)
            return false;
        shape[rank++] = size;
        text = end + strspn(end, " ");
        if (*text == ',')
            text += 1 + strspn(text + 1, " ");
        else if (*text)
            return false;
    }
    *rank_out = rank;
    return true;
}

crt_status_t crti_tensor_parse(const char *dtype, const char *shape, crti_span_t body,
                               crt_tensor_t *tensor_out)
{
    int64_t sizes[CRT_TENSOR_DIMS] = {0};
    crt_dtype_t type;
    size_t size, bytes;
    int rank = 1;
    crt_status_t status;

    if (!crti_dtype_parse(dtype, &type))
        return crt_raise(CRT_ERR_INVALID, "X-CRT-Dtype: %.20s is no dtype", dtype);
    size = crt_dtype_size(type);
    if (!*shape)
        sizes[0] = (int64_t)(body.size / size);
    else if (!crti_shape_parse(shape, sizes, &rank))
        return crt_raise(CRT_ERR_INVALID,
                         "X-CRT-Shape is no list of at most %d sizes: 2,3,4",
                         CRT_TENSOR_DIMS);
    status = crti_tensor_size(type, rank, sizes, CRTI_TENSOR_ROWS_FAR, &bytes);
    if (status != CRT_OK)
        return status;
    if (bytes != body.size)
        return crt_raise(CRT_ERR_INVALID,
                         "a body of %zu bytes is no %s tensor of that shape", body.size,
                         dtype);
    if (type == CRT_DTYPE_BOOL && !crti_tensor_are_bools(body.data, body.size))
        return crt_raise(CRT_ERR_INVALID, "a bool tensor has bytes of 0 and 1 only");
    *tensor_out = crt_tensor_view(type, rank, sizes, (void *)body.data);
    return CRT_OK;
}

void crti_shape_text(const crt_tensor_t *t, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < t->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? "," : "",
                                 t->shape[i]);
}
