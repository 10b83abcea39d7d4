/* SPDX-License-Identifier: Apache-2.0 */
/* JSON, and JSON as YAML. See json_print.h. */
#include "cli/json_print.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void crti_json_print(const json_t *value, FILE *to)
{
    json_dumpf(value, to, JSON_INDENT(2) | CRTI_JSON_DIGITS);
    fputc('\n', to);
}

/* Texts that mean nothing else in YAML stand without "". */
static bool is_plain(const char *text)
{
    static const char *const words[] = {"true", "false", "null", "yes", "no",
                                        "on",   "off",   "y",    "n"};

    if (!isalpha((unsigned char)*text) && *text != '_')
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcasecmp(text, words[i]) == 0)
            return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("_.-/", *text))
            return false;
    return true;
}

static void print_scalar(const json_t *value, FILE *to)
{
    char *text;

    if (json_is_string(value) && is_plain(json_string_value(value))) {
        fprintf(to, "%s\n", json_string_value(value));
        return;
    }
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | CRTI_JSON_DIGITS);
    fprintf(to, "%s\n", text ? text : "");
    free(text);
}

static void print_key(const char *key, FILE *to)
{
    json_t *text;

    if (is_plain(key)) {
        fprintf(to, "%s:", key);
        return;
    }
    text = json_string(key);
    json_dumpf(text, to, JSON_ENCODE_ANY);
    json_decref(text);
    fputc(':', to);
}

static bool is_block(const json_t *value)
{
    return json_object_size(value) > 0 || json_array_size(value) > 0;
}

/* `is_open`: the line has begun with "- ", so that the first member stands on it. */
static void print(const json_t *value, int indent, bool is_open, FILE *to)
{
    json_t *item;
    const char *key;
    size_t i;

    if (!is_block(value)) {
        print_scalar(value, to);
        return;
    }
    json_array_foreach((json_t *)value, i, item)
    {
        fprintf(to, "%*s- ", is_open ? 0 : indent, "");
        is_open = false;
        print(item, indent + 2, true, to);
    }
    json_object_foreach((json_t *)value, key, item)
    {
        fprintf(to, "%*s", is_open ? 0 : indent, "");
        print_key(key, to);
        fputs(is_block(item) ? "\n" : " ", to);
        is_open = false;
        print(item, indent + (json_is_array(item) ? 0 : 2), false, to);
    }
}

void crti_yaml_print(const json_t *value, FILE *to)
{
    print(value, 0, false, to);
}
