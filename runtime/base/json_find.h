/* SPDX-License-Identifier: Apache-2.0 */
/* A value of the head's JSON, for libraries that have no parser of it: sentences to people are made
 * of what is found, so what is missing or odd makes a poorer one.
 */
#ifndef CRTI_BASE_JSON_FIND_H
#define CRTI_BASE_JSON_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The text, or the digits, behind the first `"key":` before `end` (NULL: the end of the text); ""
 * without one. Quotation marks within texts are escaped, so no text looks like a key. */
static inline const char *crti_json_find(const char *json, const char *end,
                                         const char *key, char *value, size_t size)
{
    char pattern[48];
    const char *at;
    size_t used = 0;
    bool is_text;

    snprintf(pattern, sizeof(pattern), "\"%s\":", key);
    at = strstr(json, pattern);
    value[0] = '\0';
    if (!at || (end && at >= end))
        return value;
    at += strlen(pattern);
    is_text = *at == '"';
    at += is_text;
    while (*at && used + 1 < size && !strchr(is_text ? "\"" : ",}]", *at)) {
        at += *at == '\\' && at[1];
        value[used++] = *at++;
    }
    value[used] = '\0';
    return value;
}

#endif
