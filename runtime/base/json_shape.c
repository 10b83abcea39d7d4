/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a text of JSON. See json_shape.h. */
#include "runtime/base/json_shape.h"

#include <string.h>

/* Behind the quotation mark that ends the text which begins at `at`. */
static const char *skip_text(const char *at, const char *end, bool *has_zero)
{
    while (at < end && *at != '"') {
        if (*at == '\0' || (end - at >= 6 && memcmp(at, "\\u0000", 6) == 0))
            *has_zero = true;
        at += *at == '\\' && end - at > 1 ? 2 : 1;
    }
    return at < end ? at + 1 : end;
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           c == '-' || c == '+' || c == '.';
}

crti_json_shape_t crti_json_shape(crti_span_t json)
{
    const char *at = json.data, *end = at + json.size;
    crti_json_shape_t shape = {0};
    size_t depth = 0;

    while (at < end) {
        char c = *at++;

        if (c == '[' || c == '{') {
            depth++;
            shape.brackets++;
            shape.values++;
            if (depth > shape.depth)
                shape.depth = depth;
        } else if (c == ']' || c == '}') {
            depth -= depth > 0;
        } else if (c == '"') {
            shape.values++;
            at = skip_text(at, end, &shape.has_zero);
        } else if (is_word(c)) {
            shape.values++;
            while (at < end && is_word(*at))
                at++;
        }
    }
    return shape;
}
