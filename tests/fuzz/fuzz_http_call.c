/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: arguments of calls by HTTP (http/json_value.c). The first byte chooses: JSON, which
 * becomes arguments, the bytes of a call, a value and JSON again; or lines with a dtype and a
 * shape, and the bytes of a tensor behind them. */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/values/value.h"
#include "runtime/http/json_value.h"

/* JSON names no refs and no actors. */
static const crti_naming_t naming = {0};

static void *copy_aligned(const void *data, size_t size)
{
    void *copy = aligned_alloc(64, (size + 64) & ~(size_t)63);

    if (!copy)
        abort();
    if (size)
        memcpy(copy, data, size);
    return copy;
}

static bool is_same(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *item;
    size_t i;

    if (json_is_number(a) && json_is_number(b))
        return json_number_value(a) == json_number_value(b);
    if (json_typeof(a) != json_typeof(b))
        return false;
    if (json_is_array(a)) {
        json_array_foreach(a, i,
                           item) if (!is_same(item, json_array_get(b, i))) return false;
        return json_array_size(a) == json_array_size(b);
    }
    if (json_is_object(a)) {
        json_object_foreach(
            (json_t *)a, key,
            item) if (!json_object_get(b, key) ||
                      !is_same(item, json_object_get(b, key))) return false;
        return json_object_size(a) == json_object_size(b);
    }
    return json_equal(a, b);
}

/* What an actor that returns its argument gives is what was sent. */
static void send(const crt_arg_t *arg, const json_t *sent)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    crti_encoder_t encoder = {0};
    crti_handles_t handles = {0};
    crt_value_t value;
    void *memory, *bytes;
    json_t *came;
    size_t size;

    if (crti_encode(&encoder, &naming, arg) != CRT_OK)
        abort();
    size = crti_encoder_size(&encoder);
    bytes = aligned_alloc(64, (size + 64) & ~(size_t)63);
    if (!bytes)
        abort();
    crti_encoder_write(&encoder, bytes);
    if (crti_decode(bytes, size, &handles, &value, &memory) != CRT_OK ||
        crti_json_value_write(&value, SIZE_MAX, &text) != CRT_OK)
        abort();
    came = json_loadb((const char *)text.data, text.size, JSON_DECODE_ANY, NULL);
    if (!came || !is_same(sent, came))
        abort();
    json_decref(came);
    free(memory);
    free(bytes);
    crti_encoder_fini(&encoder);
}

static void read_json(const uint8_t *data, size_t size)
{
    crti_json_args_t args;

    if (crti_json_args_parse(data, size, (size_t)16 << 20, &args) != CRT_OK)
        return;
    if (args.count != json_array_size(args.json))
        abort();
    for (size_t i = 0; i < args.count; i++)
        send(&args.args[i], json_array_get(args.json, i));
    crti_json_args_fini(&args);
}

/* The tensor is what its headers say, and is written as so many lists. */
static void check_tensor(const crt_tensor_t *tensor, size_t size)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t text = {0};
    crt_value_t value = {.kind = CRT_KIND_TENSOR, .as.tensor = tensor};
    int64_t again[CRT_TENSOR_DIMS];
    char shape[256];
    json_t *json;
    int rank;

    crti_shape_text(tensor, shape, sizeof(shape));
    if (crt_tensor_bytes(tensor) != size || !crti_shape_parse(shape, again, &rank) ||
        rank != tensor->rank)
        abort();
    for (int i = 0; i < rank; i++)
        if (again[i] != tensor->shape[i])
            abort();
    for (size_t i = 0; tensor->dtype == CRT_DTYPE_BOOL && i < size; i++)
        if (((const unsigned char *)tensor->data)[i] > 1)
            abort();
    for (int i = 0; i < rank; i++) /* of no elements there may be any number of lists */
        if (tensor->shape[i] > 4096)
            return;
    if (rank > 2)
        return;
    if (crti_json_value_write(&value, SIZE_MAX, &text) != CRT_OK)
        abort();
    json = json_loadb((const char *)text.data, text.size, JSON_DECODE_ANY, NULL);
    if (!json || (rank > 0 && json_array_size(json) != (size_t)tensor->shape[0]))
        abort();
    json_decref(json);
}

/* The next line; the rest when there is none. */
static char *take_line(const uint8_t **data, size_t *size)
{
    const uint8_t *end = *size ? memchr(*data, '\n', *size) : NULL;
    size_t length = end ? (size_t)(end - *data) : *size;
    char *line = calloc(1, length + 1);

    if (!line)
        abort();
    if (length)
        memcpy(line, *data, length);
    *data += length + (end != NULL);
    *size -= length + (end != NULL);
    return line;
}

static void read_tensor(const uint8_t *data, size_t size)
{
    char *dtype = take_line(&data, &size), *shape = take_line(&data, &size);
    void *body = copy_aligned(data, size);
    crt_tensor_t tensor;

    if (crti_tensor_parse(dtype, shape, crti_span(body, size), &tensor) == CRT_OK)
        check_tensor(&tensor, size);
    free(body);
    free(dtype);
    free(shape);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] % 2)
        read_tensor(data + 1, size - 1);
    else
        read_json(data + 1, size - 1);
    return 0;
}

#define SEED(text)                                                                       \
    {                                                                                    \
        text, sizeof(text) - 1                                                           \
    }

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    static const crti_span_t seeds[] = {
        SEED("\0[1,-2.5,\"text\",null,true,[[1,2],[3,[4]]],{\"a\":{\"b\":[]},\"c\":1e300}"
             "]"),
        SEED("\0[]"),
        SEED("\0[\"gr\\u00fc\\u00df \\ud83d\\ude00\",9223372036854775807]"),
        SEED("\001float32\n2,2\n\0\0\200?\0\0\0@\0\0\300\177\0\0\200\177"),
        SEED("\001bool\n3\n\0\1\7"),
        SEED("\001int64\n\n\1\0\0\0\0\0\0\200"),
        SEED("\001bfloat16\n1, 2\n\200?\300\177"),
        SEED("\001uint8\n0,4\n"),
        SEED("\001float32\n400000000,0\n"),
        SEED("\001float64\n0,1099511627776,1099511627776\n"),
        SEED("\001bool\n2\n\0\1"),
        SEED("\0[\"a\\u0000b\"]"),
        SEED("\0[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
             "]"),
    };

    if (index >= sizeof(seeds) / sizeof(seeds[0]) || seeds[index].size > room)
        return 0;
    memcpy(out, seeds[index].data, seeds[index].size);
    return seeds[index].size;
}
