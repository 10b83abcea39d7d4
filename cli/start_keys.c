/* SPDX-License-Identifier: Apache-2.0 */
/* Options of crt start as keys of YAML files. See start_keys.h. */
#include "cli/start_keys.h"

#include <stdio.h>
#include <string.h>

#include "cli/start_options.h"

typedef struct joined {
    char text[4096]; /* K=V,K=V */
    size_t used;
} joined_t;

static crt_status_t take_pair(yaml_reader_t *reader, const char *name,
                              const yaml_node_t *key, const yaml_node_t *value, void *to)
{
    joined_t *joined = to;
    size_t room = sizeof(joined->text) - joined->used;
    const char *text;
    int size;

    CRT_TRY(crti_yaml_text(reader, value, name, &text));
    if (strpbrk(name, "=,") || strchr(text, ','))
        return crti_yaml_wrong(reader, key, "\",\" or \"=\" in %s", name);
    size = snprintf(joined->text + joined->used, room, "%s%s=%s", joined->used ? "," : "",
                    name, text);
    if (size < 0 || (size_t)size >= room)
        return crti_yaml_wrong(reader, key, "more than %zu bytes",
                               sizeof(joined->text) - 1);
    joined->used += (size_t)size;
    return CRT_OK;
}

/* Labels and resources may be a map. */
static crt_status_t option_text(yaml_reader_t *reader, const char *name,
                                const yaml_node_t *value, joined_t *joined,
                                const char **text_out)
{
    if (value->type != YAML_MAPPING_NODE ||
        (strcmp(name, "labels") != 0 && strcmp(name, "resources") != 0))
        return crti_yaml_text(reader, value, name, text_out);
    *text_out = joined->text;
    return crti_yaml_each_key(reader, value, name, take_pair, joined);
}

static bool is_given(const json_t *options, const char *dashed)
{
    const json_t *item;
    size_t i;

    json_array_foreach((json_t *)options, i, item)
    {
        if (strcmp(json_string_value(item), dashed) == 0)
            return true;
    }
    return false;
}

const char *crti_start_key_name(size_t index)
{
    for (size_t i = 0; i < crti_start_spec.count; i++)
        if (crti_start_is_key(&crti_start_spec.options[i]) && index-- == 0)
            return crti_start_spec.options[i].name;
    return NULL;
}

crt_status_t crti_start_key_take(yaml_reader_t *reader, const option_spec_t *option,
                                 const yaml_node_t *key, const yaml_node_t *value,
                                 json_t *options)
{
    char dashed[YAML_KEY_MAX + 2];
    joined_t joined = {0};
    const char *text, *expected = "";
    bool is_off;

    snprintf(dashed, sizeof(dashed), "--%s", option->name);
    if (is_given(options, dashed))
        return crti_yaml_wrong(reader, key, "%s is there already", option->name);
    CRT_TRY(option_text(reader, option->name, value, &joined, &text));
    if (option->kind == OPTION_FLAG) {
        is_off = strcmp(text, "false") == 0;
        if (!is_off && strcmp(text, "true") != 0)
            return crti_yaml_wrong(reader, value, "%s is true or false", option->name);
        if (!is_off)
            json_array_append_new(options, json_string(dashed));
        return CRT_OK;
    }
    if (!crti_cli_is_value(option, text, &expected))
        return crti_yaml_wrong(reader, value, "%s takes %s, not \"%s\"", option->name,
                               expected, text);
    json_array_append_new(options, json_string(dashed));
    if (json_array_append_new(options, json_string(text)) != 0)
        return crti_yaml_wrong(reader, value, "%s is not UTF-8", option->name);
    return CRT_OK;
}
