/* SPDX-License-Identifier: Apache-2.0 */
/* Writes trees of JSON. See json_dump.h. */
#include "runtime/http/json_dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base/json_escape.h"

static crt_status_t put(const char *text, crti_buffer_t *out)
{
    return crti_buffer_append(out, text, strlen(text));
}

/* Texts in a tree are valid UTF-8. */
static crt_status_t put_text(crti_span_t text, crti_buffer_t *out)
{
    crt_status_t status = put("\"", out);

    if (status == CRT_OK)
        status = crti_json_escape(text, out);
    return status == CRT_OK ? put("\"", out) : status;
}

static crt_status_t put_integer(json_int_t number, crti_buffer_t *out)
{
    char text[24];

    snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, number);
    return put(text, out);
}

static crt_status_t put_real(const json_t *real, crti_buffer_t *out)
{
    char text[64];
    size_t size = json_dumpb(real, text, sizeof(text), JSON_ENCODE_ANY);

    return crti_buffer_append(out, text, size < sizeof(text) ? size : sizeof(text));
}

static crt_status_t put_object(const json_t *object, crti_buffer_t *out)
{
    crt_status_t status = put("{", out);
    const char *key, *before = "";
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        if (status == CRT_OK)
            status = put(before, out);
        if (status == CRT_OK)
            status = put_text(crti_span(key, strlen(key)), out);
        if (status == CRT_OK)
            status = put(":", out);
        if (status == CRT_OK)
            status = crti_json_dump(value, out);
        before = ",";
    }
    return status == CRT_OK ? put("}", out) : status;
}

static crt_status_t put_array(const json_t *array, crti_buffer_t *out)
{
    crt_status_t status = put("[", out);

    for (size_t i = 0; i < json_array_size(array) && status == CRT_OK; i++) {
        status = put(i ? "," : "", out);
        if (status == CRT_OK)
            status = crti_json_dump(json_array_get(array, i), out);
    }
    return status == CRT_OK ? put("]", out) : status;
}

crt_status_t crti_json_dump(const json_t *json, crti_buffer_t *out)
{
    switch (json_typeof(json)) {
    case JSON_OBJECT: return put_object(json, out);
    case JSON_ARRAY: return put_array(json, out);
    case JSON_STRING:
        return put_text(crti_span(json_string_value(json), json_string_length(json)),
                        out);
    case JSON_INTEGER: return put_integer(json_integer_value(json), out);
    case JSON_REAL: return put_real(json, out);
    case JSON_TRUE: return put("true", out);
    case JSON_FALSE: return put("false", out);
    default: return put("null", out);
    }
}
