/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of the program as values: a list of what their type packs, or their bytes. */
#include <string.h>

#include "runtime/core/values/value.h"
#include "runtime/crt_define.h"

crt_arg_t crt_arg_typed(const crt_type_t *type, const void *value, crt_arg_t *items)
{
    return type->pack ? crt_list(items, type->pack(value, items))
                      : crt_arg_bytes(crt_bytes(value, type->size));
}

static crt_status_t read_plain(const crt_value_t *value, const crt_type_t *type, void *to)
{
    if (value->kind != CRT_KIND_BYTES)
        return crt_raise(CRT_ERR_INVALID,
                         "the value is of kind %s, bytes of %s are wanted",
                         crt_kind_name(value->kind), type->name);
    if (value->as.bytes.size != type->size)
        return crt_raise(CRT_ERR_INVALID, "the value has %zu bytes, %s has %zu",
                         value->as.bytes.size, type->name, type->size);
    memcpy(to, value->as.bytes.data, type->size);
    return CRT_OK;
}

crt_status_t crt_value_read_typed(const crt_value_t *value, const crt_type_t *type,
                                  void *to)
{
    if (!value)
        return crt_raise(CRT_ERR_INVALID, "the value is NULL");
    if (!type->unpack)
        return read_plain(value, type, to);
    if (value->kind != CRT_KIND_LIST)
        return crt_raise(CRT_ERR_INVALID,
                         "the value is of kind %s, a list for %s is wanted",
                         crt_kind_name(value->kind), type->name);
    memset(to, 0, type->size);
    return type->unpack(value, to);
}

crt_status_t crt_return_typed(crt_call_t *call, const crt_type_t *type, const void *value)
{
    crt_arg_t items[CRT_TYPE_ITEMS], arg = crt_arg_typed(type, value, items);

    return crt_return_v(call, &arg);
}

crt_status_t crt_get_typed(crt_ref_t *ref, int64_t wait_ms, const crt_type_t *type,
                           void *to)
{
    const crt_value_t *value;
    crt_status_t status = crt_get_v(ref, wait_ms, (crt_out_t){CRT_OUT_VALUE, &value});

    return status == CRT_OK ? crt_value_read_typed(value, type, to) : status;
}
