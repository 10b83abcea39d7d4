/* SPDX-License-Identifier: Apache-2.0 */
/* Values: from what was decoded to the user's variables. See value.h and crt.h. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/core/values/value.h"

const char *crt_kind_name(crt_kind_t kind)
{
    static const char *const names[] = {"none",  "bool",   "int",    "float", "string",
                                        "bytes", "tensor", "ref",    "actor", "list",
                                        "map",   "spread", "object", "value"};

    return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "unknown";
}

/* What an out pointer wants, as users say it. */
static const char *out_name(crt_out_t out)
{
    static const char *const names[] = {
        [CRT_OUT_NONE] = "none",     [CRT_OUT_BOOL] = "bool",
        [CRT_OUT_INT8] = "int8",     [CRT_OUT_INT16] = "int16",
        [CRT_OUT_INT32] = "int32",   [CRT_OUT_INT64] = "int64",
        [CRT_OUT_UINT8] = "uint8",   [CRT_OUT_UINT16] = "uint16",
        [CRT_OUT_UINT32] = "uint32", [CRT_OUT_UINT64] = "uint64",
        [CRT_OUT_FLOAT] = "float32", [CRT_OUT_DOUBLE] = "float",
        [CRT_OUT_STRING] = "string", [CRT_OUT_BYTES] = "bytes",
        [CRT_OUT_TENSOR] = "tensor", [CRT_OUT_REF] = "ref",
        [CRT_OUT_ACTOR] = "actor",   [CRT_OUT_VALUE] = "any",
    };

    return (unsigned)out.kind < sizeof(names) / sizeof(names[0]) ? names[out.kind]
                                                                 : "unknown";
}

/* "Counter.add: argument 2", "the value". */
static const char *place_text(const crti_place_t *place, char *text, size_t size)
{
    if (!place || !place->method)
        return "the value";
    snprintf(text, size, "%s%s%s: argument %zu",
             place->class_name ? place->class_name : "",
             place->class_name && *place->class_name ? "." : "", place->method,
             place->index + 1);
    return text;
}

static crt_status_t mismatch(const crt_value_t *v, crt_out_t out,
                             const crti_place_t *place)
{
    char text[256];

    return crt_raise(CRT_ERR_INVALID, "%s is of kind %s, %s is wanted",
                     place_text(place, text, sizeof(text)), crt_kind_name(v->kind),
                     out_name(out));
}

static crt_status_t loses(const crt_value_t *v, crt_out_t out, const crti_place_t *place)
{
    char text[256];

    if (v->kind == CRT_KIND_INT)
        return crt_raise(CRT_ERR_INVALID, "%s is the int %lld, which does not fit in %s",
                         place_text(place, text, sizeof(text)), (long long)v->as.integer,
                         out_name(out));
    return crt_raise(CRT_ERR_INVALID, "%s is the float %.17g, which does not fit in %s",
                     place_text(place, text, sizeof(text)), v->as.number, out_name(out));
}

static crt_status_t to_integer(const crt_value_t *v, crt_out_t out,
                               const crti_place_t *place)
{
    static const struct {
        int64_t low, high;
        size_t size;
    } ranges[] = {
        [CRT_OUT_INT8] = {INT8_MIN, INT8_MAX, 1},
        [CRT_OUT_INT16] = {INT16_MIN, INT16_MAX, 2},
        [CRT_OUT_INT32] = {INT32_MIN, INT32_MAX, 4},
        [CRT_OUT_INT64] = {INT64_MIN, INT64_MAX, 8},
        [CRT_OUT_UINT8] = {0, UINT8_MAX, 1},
        [CRT_OUT_UINT16] = {0, UINT16_MAX, 2},
        [CRT_OUT_UINT32] = {0, UINT32_MAX, 4},
        [CRT_OUT_UINT64] = {0, INT64_MAX, 8},
    };
    int64_t integer = v->as.integer;

    if (v->kind == CRT_KIND_FLOAT) {
        /* 2^63 itself is a double, and one too large. */
        if (!(v->as.number >= -ldexp(1, 63) && v->as.number < ldexp(1, 63)) ||
            v->as.number != trunc(v->as.number))
            return loses(v, out, place);
        integer = (int64_t)v->as.number;
    } else if (v->kind != CRT_KIND_INT) {
        return mismatch(v, out, place);
    }
    if (integer < ranges[out.kind].low || integer > ranges[out.kind].high)
        return loses(v, out, place);
    memcpy(out.to, &integer, ranges[out.kind].size);
    return CRT_OK;
}

static crt_status_t to_bool(const crt_value_t *v, crt_out_t out,
                            const crti_place_t *place)
{
    if (v->kind == CRT_KIND_BOOL)
        *(bool *)out.to = v->as.boolean;
    else if (v->kind != CRT_KIND_INT)
        return mismatch(v, out, place);
    else if (v->as.integer != 0 && v->as.integer != 1)
        return loses(v, out, place);
    else
        *(bool *)out.to = v->as.integer == 1;
    return CRT_OK;
}

static crt_status_t to_double(const crt_value_t *v, crt_out_t out,
                              const crti_place_t *place)
{
    double number = v->as.number;

    if (v->kind == CRT_KIND_INT) {
        number = (double)v->as.integer;
        if (!(number < 0x1p63) || (int64_t)number != v->as.integer)
            return loses(v, out, place);
    } else if (v->kind != CRT_KIND_FLOAT) {
        return mismatch(v, out, place);
    }
    *(double *)out.to = number;
    return CRT_OK;
}

/* A float is rounded to the nearest, as C does; out of range is an error, and so is an int that
 * a float can't hold. */
static crt_status_t to_float(const crt_value_t *v, crt_out_t out,
                             const crti_place_t *place)
{
    crt_out_t through = {CRT_OUT_DOUBLE, &(double){0}};
    crt_status_t status = to_double(v, through, place);
    double number = *(double *)through.to;

    if (status != CRT_OK)
        return v->kind == CRT_KIND_INT ? loses(v, out, place) : mismatch(v, out, place);
    if (v->kind == CRT_KIND_INT ? (double)(float)number != number
                                : isfinite(number) && fabs(number) > FLT_MAX)
        return loses(v, out, place);
    *(float *)out.to = (float)number;
    return CRT_OK;
}

static crt_status_t to_pointer(const crt_value_t *v, crt_out_t out,
                               const crti_place_t *place)
{
    static const crt_kind_t wanted[] = {[CRT_OUT_STRING] = CRT_KIND_STRING,
                                        [CRT_OUT_BYTES] = CRT_KIND_BYTES,
                                        [CRT_OUT_TENSOR] = CRT_KIND_TENSOR,
                                        [CRT_OUT_REF] = CRT_KIND_REF,
                                        [CRT_OUT_ACTOR] = CRT_KIND_ACTOR};

    if (v->kind != wanted[out.kind])
        return mismatch(v, out, place);
    switch (v->kind) {
    case CRT_KIND_STRING: *(const char **)out.to = v->as.bytes.data; break;
    case CRT_KIND_BYTES:
        *(crt_bytes_t *)out.to = (crt_bytes_t){v->as.bytes.data, v->as.bytes.size};
        break;
    case CRT_KIND_TENSOR: *(const crt_tensor_t **)out.to = v->as.tensor; break;
    case CRT_KIND_REF: *(crt_ref_t **)out.to = v->as.ref; break;
    default: *(crt_actor_t **)out.to = v->as.actor; break;
    }
    return CRT_OK;
}

crt_status_t crti_value_to(const crt_value_t *v, crt_out_t out, const crti_place_t *place)
{
    if (out.kind == CRT_OUT_NONE || !out.to)
        return CRT_OK; /* the value is not wanted */
    switch (out.kind) {
    case CRT_OUT_BOOL: return to_bool(v, out, place);
    case CRT_OUT_INT8:
    case CRT_OUT_INT16:
    case CRT_OUT_INT32:
    case CRT_OUT_INT64:
    case CRT_OUT_UINT8:
    case CRT_OUT_UINT16:
    case CRT_OUT_UINT32:
    case CRT_OUT_UINT64: return to_integer(v, out, place);
    case CRT_OUT_FLOAT: return to_float(v, out, place);
    case CRT_OUT_DOUBLE: return to_double(v, out, place);
    case CRT_OUT_VALUE: *(const crt_value_t **)out.to = v; return CRT_OK;
    case CRT_OUT_STRING:
    case CRT_OUT_BYTES:
    case CRT_OUT_TENSOR:
    case CRT_OUT_REF:
    case CRT_OUT_ACTOR: return to_pointer(v, out, place);
    default:
        return crt_raise(CRT_ERR_INVALID, "crt_out_t of unknown kind %d", (int)out.kind);
    }
}

/* ------------------------------------------------------------------ public */

crt_kind_t crt_value_kind(const crt_value_t *value)
{
    return value ? value->kind : CRT_KIND_NONE;
}

size_t crt_value_count(const crt_value_t *value)
{
    return value ? value->count : 0;
}

const crt_value_t *crt_value_at(const crt_value_t *v, size_t index)
{
    if (!v || index >= v->count)
        return NULL;
    return v->kind == CRT_KIND_MAP ? &v->as.items[2 * index + 1] : &v->as.items[index];
}

const char *crt_value_key(const crt_value_t *map, size_t index)
{
    if (!map || map->kind != CRT_KIND_MAP || index >= map->count)
        return NULL;
    return map->as.items[2 * index].as.bytes.data;
}

const crt_value_t *crt_value_find(const crt_value_t *map, const char *key)
{
    const char *found;

    for (size_t i = 0; key && (found = crt_value_key(map, i)); i++)
        if (strcmp(found, key) == 0)
            return crt_value_at(map, i);
    return NULL;
}

crt_status_t crt_value_read_v(const crt_value_t *value, crt_out_t out)
{
    if (!value)
        return crt_raise(CRT_ERR_INVALID, "the value is NULL");
    return crti_value_to(value, out, NULL);
}
