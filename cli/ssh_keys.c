/* SPDX-License-Identifier: Apache-2.0 */
/* How ssh reaches hosts. See ssh_keys.h. */
#include "cli/ssh_keys.h"

#include <string.h>

#include "cli/options.h"

const char *crti_ssh_key_name(size_t index)
{
    static const char *const names[] = {"user", "port", "options", NULL};

    return names[index];
}

crt_status_t crti_ssh_text_take(yaml_reader_t *reader, const char *name,
                                const yaml_node_t *key, const yaml_node_t *value,
                                void *to)
{
    const char *text;

    (void)name;
    CRT_TRY(crti_yaml_text(reader, value, "an item of this list", &text));
    if (!*text)
        return crti_yaml_wrong(reader, key, "an empty text");
    if (json_array_append_new(to, json_string(text)) != 0)
        return crti_yaml_wrong(reader, key, "a text that is not UTF-8");
    return CRT_OK;
}

crt_status_t crti_ssh_key_take(yaml_reader_t *reader, const char *name,
                               const yaml_node_t *value, json_t *arguments)
{
    const char *text, *expected;
    bool is_user = strcmp(name, "user") == 0;

    if (strcmp(name, "options") == 0)
        return crti_yaml_each_item(reader, value, "options", crti_ssh_text_take,
                                   arguments);
    CRT_TRY(crti_yaml_text(reader, value, name, &text));
    if (is_user && (!*text || *text == '-'))
        return crti_yaml_wrong(reader, value, "\"%s\" is no user", text);
    if (!is_user &&
        !crti_cli_is_value(&(option_spec_t){.kind = OPTION_PORT}, text, &expected))
        return crti_yaml_wrong(reader, value, "port takes %s, not \"%s\"", expected,
                               text);
    json_array_append_new(arguments, json_string(is_user ? "-l" : "-p"));
    if (json_array_append_new(arguments, json_string(text)) != 0)
        return crti_yaml_wrong(reader, value, "%s is not UTF-8", name);
    return CRT_OK;
}
