/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments: what the macros of crt.h make of a value. Nothing is checked here; a mistake is
 * reported by the call that the argument is given to. */
#include <stdint.h>

#include "runtime/core/values/value.h"

crt_arg_t crt_arg_none(const void *null)
{
    return (crt_arg_t){.kind = CRT_KIND_NONE};
}

crt_arg_t crt_arg_bool(bool value)
{
    return (crt_arg_t){.kind = CRT_KIND_BOOL, .as.boolean = value};
}

crt_arg_t crt_arg_int(int64_t value)
{
    return (crt_arg_t){.kind = CRT_KIND_INT, .as.integer = value};
}

crt_arg_t crt_arg_unsigned(uint64_t value)
{
    if (value > INT64_MAX)
        return (crt_arg_t){.kind = CRTI_KIND_TOO_BIG, .as.integer = (int64_t)value};
    return crt_arg_int((int64_t)value);
}

crt_arg_t crt_arg_float(double value)
{
    return (crt_arg_t){.kind = CRT_KIND_FLOAT, .as.number = value};
}

crt_arg_t crt_arg_string(const char *value)
{
    return (crt_arg_t){.kind = CRT_KIND_STRING, .as.string = value};
}

crt_arg_t crt_arg_bytes(crt_bytes_t value)
{
    return (crt_arg_t){.kind = CRT_KIND_BYTES, .as.bytes = value};
}

crt_arg_t crt_arg_tensor(const crt_tensor_t *value)
{
    return (crt_arg_t){.kind = CRT_KIND_TENSOR, .as.tensor = value};
}

/* Nothing of a ref is changed for the caller by passing it. */
crt_arg_t crt_arg_ref(const crt_ref_t *value)
{
    return (crt_arg_t){.kind = CRT_KIND_REF, .as.ref = (crt_ref_t *)(uintptr_t)value};
}

crt_arg_t crt_arg_actor(crt_actor_t *value)
{
    return (crt_arg_t){.kind = CRT_KIND_ACTOR, .as.actor = value};
}

crt_arg_t crt_arg_object(crt_object_t *value)
{
    return (crt_arg_t){.kind = CRT_KIND_OBJECT, .as.object = value};
}

crt_arg_t crt_arg_value(const crt_value_t *value)
{
    switch (crt_value_kind(value)) {
    case CRT_KIND_BOOL: return crt_arg_bool(value->as.boolean);
    case CRT_KIND_INT: return crt_arg_int(value->as.integer);
    case CRT_KIND_FLOAT: return crt_arg_float(value->as.number);
    case CRT_KIND_STRING: return crt_arg_string(value->as.bytes.data);
    case CRT_KIND_BYTES:
        return crt_arg_bytes((crt_bytes_t){value->as.bytes.data, value->as.bytes.size});
    case CRT_KIND_TENSOR: return crt_arg_tensor(value->as.tensor);
    case CRT_KIND_REF: return crt_arg_ref(value->as.ref);
    case CRT_KIND_ACTOR: return crt_arg_actor(value->as.actor);
    case CRT_KIND_LIST:
    case CRT_KIND_MAP: return (crt_arg_t){.kind = CRT_KIND_VALUE, .as.value = value};
    default: return crt_arg_none(NULL);
    }
}

crt_kind_t crti_arg_kind(const crt_arg_t *arg)
{
    switch (arg->kind) {
    case CRT_KIND_VALUE: return crt_value_kind(arg->as.value);
    case CRT_KIND_OBJECT: return CRT_KIND_TENSOR; /* as which it arrives */
    default: return arg->kind;
    }
}

crt_arg_t crt_arg_self(crt_arg_t value)
{
    return value;
}

crt_arg_t crt_arg_each(crt_ref_t *const *refs, size_t count)
{
    return (crt_arg_t){.kind = CRT_KIND_SPREAD, .as.spread = {refs, count}};
}

crt_arg_t crt_list(const crt_arg_t *items, size_t count)
{
    return (crt_arg_t){.kind = CRT_KIND_LIST, .as.list = {items, count}};
}

crt_arg_t crt_map(const crt_arg_t *items, size_t count)
{
    return (crt_arg_t){.kind = CRT_KIND_MAP, .as.list = {items, count}};
}
