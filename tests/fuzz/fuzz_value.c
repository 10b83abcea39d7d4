/* SPDX-License-Identifier: Apache-2.0 */
/* Encoded values: table, decoding, and reading of everything that was decoded. */
#include <stdlib.h>
#include <string.h>

#include "runtime/core/values/value.h"

#include "fuzz.h"

static crt_status_t name_ref(void *user, crt_ref_t *ref, crti_ref_name_t *name)
{
    *name = (crti_ref_name_t){{{1, 2}, 3}, 4, {5, 6}, {"tcp://x:1", 9}};
    return CRT_OK;
}

static crt_status_t name_actor(void *user, crt_actor_t *actor, crti_actor_name_t *name)
{
    *name = (crti_actor_name_t){{1, 2}, {"Counter", 7}};
    return CRT_OK;
}

static const crti_naming_t naming = {name_ref, name_actor};

static uint64_t touch(const crt_value_t *value)
{
    uint64_t sum = value->kind;

    if (value->kind == CRT_KIND_STRING)
        sum += strlen(value->as.bytes.data) + value->as.bytes.size;
    if (value->kind == CRT_KIND_BYTES)
        for (size_t i = 0; i < value->as.bytes.size; i++)
            sum += (unsigned char)value->as.bytes.data[i];
    if (value->kind == CRT_KIND_TENSOR)
        for (size_t i = 0; i < crt_tensor_bytes(value->as.tensor); i++)
            sum += ((unsigned char *)value->as.tensor->data)[i];
    for (size_t i = 0; i < value->count; i++) {
        crt_value_key(value, i);
        sum += touch(crt_value_at(value, i));
    }
    return sum;
}

static crt_status_t see_ref(void *user, uint32_t index, const crti_ref_name_t *name)
{
    *(uint64_t *)user += name->id.number + name->tcp.size;
    return CRT_OK;
}

static crt_status_t see_actor(void *user, uint32_t index, const crti_actor_name_t *name)
{
    *(uint64_t *)user += name->class_name.size;
    return CRT_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *value = aligned_alloc(64, (size + 64) & ~(size_t)63);
    uint64_t sum = 0;
    crti_span_t table;
    crti_table_t open;
    crti_handles_t handles = {.ref_count = 2, .actor_count = 1};
    crt_value_t root;
    void *memory;

    if (!value)
        return 0;
    memcpy(value, data, size);
    if (crti_value_table(value, size, &table) == CRT_OK &&
        crti_table_open(table, &open) == CRT_OK)
        crti_table_visit(&open, &(crti_table_visitor_t){&sum, see_ref, see_actor});
    if (crti_decode(value, size, &handles, &root, &memory) == CRT_OK) {
        sum += touch(&root);
        free(memory);
    }
    free(value);
    return sum == UINT64_MAX;
}

size_t fuzz_seed(unsigned index, uint8_t *out, size_t room)
{
    float numbers[20] = {1, 2};
    crt_tensor_t tensor = crt_tensor_floats(numbers, 20);
    crt_ref_t *ref = (crt_ref_t *)(void *)numbers;
    crt_actor_t *actor = (crt_actor_t *)(void *)numbers;
    crt_arg_t items[] = {
        crt_arg_int(70000),      crt_arg_string("text"),
        crt_arg_tensor(&tensor), crt_arg_ref(ref),
        crt_arg_actor(actor),    crt_arg_float(2.5),
        crt_arg_ref(ref),        crt_arg_bytes((crt_bytes_t){numbers, 40})};
    crt_arg_t map[] = {crt_arg_string("a"), crt_list(items, 8), crt_arg_string("b"),
                       crt_arg_none(NULL)};
    crt_arg_t seeds[] = {crt_arg_int(-5), items[1], items[2], crt_list(items, 8),
                         crt_map(map, 4)};
    crti_encoder_t e = {0};
    size_t size = 0;

    if (index >= sizeof(seeds) / sizeof(seeds[0]))
        return 0;
    if (crti_encode(&e, &naming, &seeds[index]) == CRT_OK &&
        crti_encoder_size(&e) <= room) {
        size = crti_encoder_size(&e);
        crti_encoder_write(&e, out);
    }
    crti_encoder_fini(&e);
    return size;
}
