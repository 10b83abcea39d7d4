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

crt_arg_t crt_arg_ref(crt_ref_t *value)
{
    return (crt_arg_t){.kind = CRT_KIND_REF, .as.ref = value};
}

crt_arg_t crt_arg_actor(crt_actor_t *value)
{
    return (crt_arg_t){.kind = CRT_KIND_ACTOR, .as.actor = value};
}

crt_arg_t crt_arg_object(crt_object_t *value)
{
    return (crt_arg_t){.kind = CRT_KIND_OBJECT, .as.object = value};
}

crt_arg_t crt_arg_self(crt_arg_t value)
{
    return value;
}

crt_arg_t crt_spread(crt_ref_t *const *refs, size_t count)
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
