/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration: groups, overrides, and references. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ml/configuration.h"
#include "ml/file.h"

/* A text that grows; NULL when there was no memory. */
typedef struct text {
    char *at;
    size_t length;
} text_t;

static const char command_line[] = "command line";

/* ---------------------------------------------------------------- overrides */

crt_status_t crti_configuration_set(crt_configuration_t *c, const char *path,
                                    const char *text)
{
    char section[CRTI_CONFIGURATION_PATH_MAX];
    const char *dot = strrchr(path, '.');
    crti_setting_t *e = crti_configuration_find(c, path);
    json_t *value;
    char *raw;
    crt_status_t status = crti_configuration_value(command_line, 0, text, &value, &raw);

    if (status != CRT_OK)
        return status;
    if (!e) {
        snprintf(section, sizeof(section), "%.*s", (int)(dot - path), path);
        return crti_configuration_add(c, section, dot + 1, value, raw, command_line, 0);
    }
    json_decref(e->value);
    free(e->raw);
    e->value = value;
    e->raw = raw;
    e->file = command_line;
    e->line = 0;
    return CRT_OK;
}

crt_status_t crt_configuration_override(crt_configuration_t *c, const char *argument)
{
    const char *equals = strchr(argument, '=');
    size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
    bool dashes = strncmp(argument, "--", 2) == 0;
    char path[CRTI_CONFIGURATION_PATH_MAX], **overrides;
    crt_status_t status;

    if (length >= sizeof(path))
        return crt_raise(CRT_ERR_INVALID, "%s: a name of %zu bytes", command_line,
                         length);
    snprintf(path, sizeof(path), "%.*s", (int)length, argument);
    if (dashes ? !strchr(path, '.') : !equals || strchr(path, '.'))
        return crt_raise(CRT_ERR_INVALID,
                         "%s: %s: neither --section.key=value nor group=choice",
                         command_line, argument);
    status = crti_configuration_check_path(command_line, 0, dashes ? path + 2 : path);
    if (status != CRT_OK)
        return status;
    overrides = realloc(c->overrides, (c->override_count + 1) * sizeof(*overrides));
    if (overrides)
        c->overrides = overrides;
    if (!overrides || !(overrides[c->override_count] = strdup(argument)))
        return crt_raise(CRT_ERR_NO_MEMORY, "%s", argument);
    c->override_count++;
    return CRT_OK;
}

/* Its path, which may be in [defaults], and its value. */
static void split_override(const char *argument, char path[CRTI_CONFIGURATION_PATH_MAX],
                           const char **value_out)
{
    const char *equals = strchr(argument, '=');
    int length = equals ? (int)(equals - argument) : (int)strlen(argument);

    if (strncmp(argument, "--", 2) == 0)
        snprintf(path, CRTI_CONFIGURATION_PATH_MAX, "%.*s", length - 2, argument + 2);
    else
        snprintf(path, CRTI_CONFIGURATION_PATH_MAX, "defaults.%.*s", length, argument);
    *value_out = equals ? equals + 1 : "true";
}

/* The groups that were chosen (`groups`), or all other overrides. */
static crt_status_t apply_overrides(crt_configuration_t *c, bool groups)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < c->override_count && status == CRT_OK; i++) {
        char path[CRTI_CONFIGURATION_PATH_MAX];
        const char *value;

        split_override(c->overrides[i], path, &value);
        if ((strncmp(path, "defaults.", 9) == 0) != groups)
            continue;
        if (groups && !crti_configuration_find(c, path))
            return crt_raise(CRT_ERR_NOT_FOUND, "%s: [defaults] has no group '%s'",
                             c->name, path + 9);
        status = crti_configuration_set(c, path, value);
    }
    return status == CRT_ERR_EXISTS ? CRT_ERR_INVALID : status;
}

/* ---------------------------------------------------------------- groups */

static bool is_choice(const char *name)
{
    if (name[0] == '.' || name[0] == '\0')
        return false;
    for (; *name; name++)
        if (!(*name >= 'a' && *name <= 'z') && !(*name >= 'A' && *name <= 'Z') &&
            !(*name >= '0' && *name <= '9') && !strchr("_-.", *name))
            return false;
    return true;
}

/* ", there are a, b": the choices of a folder. */
static void list_choices(const char *folder, char *text, size_t room)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    size_t length = 0;

    text[0] = '\0';
    while (dir && (entry = readdir(dir)) != NULL && length < room) {
        size_t name = strlen(entry->d_name);

        if (name > 4 && strcmp(entry->d_name + name - 4, ".cfg") == 0)
            length += (size_t)snprintf(text + length, room - length, "%s%.*s",
                                       length ? ", " : "; there are ", (int)name - 4,
                                       entry->d_name);
    }
    if (dir)
        closedir(dir);
}

static crt_status_t read_choice(crt_configuration_t *c, const crti_setting_t *e,
                                const char *group, const char *choice)
{
    const char *slash = strrchr(c->name, '/');
    int folder = slash ? (int)(slash - c->name + 1) : 0;
    char path[4096], choices[512];
    unsigned char *data;
    size_t size;
    crt_status_t status;

    if ((size_t)snprintf(path, sizeof(path), "%.*s%s/%s.cfg", folder, c->name, group,
                         choice) >= sizeof(path))
        return crt_raise(CRT_ERR_INVALID, "%s: a name too long", c->name);
    status = crti_file_read(path, CRTI_CONFIGURATION_BYTES_MAX, &data, &size);
    if (status == CRT_ERR_NOT_FOUND) {
        snprintf(path, sizeof(path), "%.*s%s", folder, c->name, group);
        list_choices(path, choices, sizeof(choices));
        return crt_configuration_raise(c, e->path, status,
                                       "group '%s' has no choice '%s'%s", group, choice,
                                       choices);
    }
    if (status != CRT_OK)
        return status;
    status = crti_configuration_read_text(c, path, (const char *)data, size, group, true);
    free(data);
    return status;
}

static crt_status_t read_groups(crt_configuration_t *c)
{
    size_t count = c->count; /* groups add keys behind these, and none of [defaults] */
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < count && status == CRT_OK; i++) {
        const crti_setting_t *e = &c->entries[i];
        const char *choice = e->value ? json_string_value(e->value) : NULL;
        char group[CRTI_CONFIGURATION_PATH_MAX];

        if (strncmp(e->path, "defaults.", 9) != 0)
            continue;
        snprintf(group, sizeof(group), "%s", e->path + 9);
        c->entries[i].asked = true;
        if (e->value && json_is_null(e->value))
            continue;
        if (!choice || !is_choice(choice) || !is_choice(group) || strchr(group, '.') ||
            strcmp(group, "defaults") == 0)
            return crt_configuration_raise(c, e->path, CRT_ERR_INVALID,
                                           "'%s' does not choose a file of group '%s'",
                                           choice ? choice : "?", group);
        status = read_choice(c, e, group, choice);
    }
    return status;
}

/* ---------------------------------------------------------------- references */

static crt_status_t no_memory(const crti_setting_t *e)
{
    return crt_raise(CRT_ERR_NO_MEMORY, "%s", e->path);
}

static bool append(text_t *text, const char *from, size_t length)
{
    char *at = realloc(text->at, text->length + length + 1);

    if (!at)
        return false;
    memcpy(at + text->length, from, length);
    text->at = at;
    text->length += length;
    at[text->length] = '\0';
    return true;
}

/* The name in "${name}", with dots for colons; `*length_out` bytes of text are the reference. */
static crt_status_t reference_name(const crt_configuration_t *c, const crti_setting_t *e,
                                   const char *text,
                                   char name[CRTI_CONFIGURATION_PATH_MAX],
                                   size_t *length_out)
{
    const char *end = strchr(text, '}');
    size_t length = end ? (size_t)(end - text) - 2 : 0;

    if (!end || length == 0 || length >= CRTI_CONFIGURATION_PATH_MAX)
        return crt_configuration_raise(c, e->path, CRT_ERR_INVALID,
                                       "%s: no reference: %.40s", e->path, text);
    for (size_t i = 0; i < length; i++)
        name[i] = text[i + 2] == ':' ? '.' : text[i + 2];
    name[length] = '\0';
    *length_out = length + 3;
    return CRT_OK;
}

static crt_status_t not_there(const crt_configuration_t *c, const crti_setting_t *e,
                              const char *name)
{
    const char *nearest = NULL;
    int best = 64;

    for (size_t i = 0; i < c->count; i++) {
        int distance = crti_configuration_distance(c->entries[i].path, name);

        if (distance < best) {
            best = distance;
            nearest = c->entries[i].path;
        }
    }
    return crt_configuration_raise(
        c, e->path, CRT_ERR_NOT_FOUND, "%s refers to ${%s}, which is not there%s%s",
        e->path, name, nearest ? "; the nearest name is " : "", nearest ? nearest : "");
}

static crt_status_t resolve_entry(crt_configuration_t *c, crti_setting_t *e, int depth);

/* What takes the place of a reference: inside of quotes the bare text, else JSON. */
static crt_status_t append_target(crt_configuration_t *c, const crti_setting_t *e,
                                  const char *name, bool json, int depth, text_t *out)
{
    crti_setting_t *target = crti_configuration_find(c, name);
    char *text;
    crt_status_t status;
    bool done;

    if (!target)
        return not_there(c, e, name);
    status = resolve_entry(c, target, depth + 1);
    if (status != CRT_OK)
        return status;
    if (!json && (json_is_object(target->value) || json_is_array(target->value)))
        return crt_configuration_raise(c, e->path, CRT_ERR_INVALID,
                                       "%s has ${%s} in a text, which is no single value",
                                       e->path, name);
    if (!json && json_is_string(target->value))
        return append(out, json_string_value(target->value),
                      json_string_length(target->value))
                   ? CRT_OK
                   : no_memory(e);
    text = crti_configuration_dump(target->value);
    done = text && append(out, text, strlen(text));
    free(text);
    return done ? CRT_OK : no_memory(e);
}

/* Replaces the references of a text. `json`: it is JSON in which those outside of quotes are meant,
 * and is not yet read; else a text without quotes around it. */
static crt_status_t replace(crt_configuration_t *c, const crti_setting_t *e,
                            const char *text, bool json, int depth, text_t *out)
{
    crt_status_t status = append(out, "", 0) ? CRT_OK : no_memory(e);
    bool quoted = false;

    while (*text && status == CRT_OK) {
        char name[CRTI_CONFIGURATION_PATH_MAX];
        size_t length = 1;

        if (json && quoted && text[0] == '\\' && text[1])
            length = 2;
        else if (json && text[0] == '"')
            quoted = !quoted;
        if (quoted || text[0] != '$' || (text[1] != '$' && text[1] != '{')) {
            status = append(out, text, length) ? CRT_OK : no_memory(e);
        } else if (text[1] == '$') {
            length = 2;
            status = append(out, "$", 1) ? CRT_OK : no_memory(e);
        } else {
            status = reference_name(c, e, text, name, &length);
            if (status == CRT_OK)
                status = append_target(c, e, name, json, depth, out);
        }
        text += length;
        if (status == CRT_OK && out->length > CRTI_CONFIGURATION_BYTES_MAX)
            status = crt_configuration_raise(c, e->path, CRT_ERR_TOO_LARGE,
                                             "%s becomes longer than %zu bytes", e->path,
                                             CRTI_CONFIGURATION_BYTES_MAX);
    }
    return status;
}

/* A text with its references replaced; anything else is the same, with the texts in it replaced. */
static crt_status_t replace_value(crt_configuration_t *c, const crti_setting_t *e,
                                  json_t *value, int depth, json_t **value_out)
{
    text_t text = {0};
    size_t index;
    const char *key;
    json_t *item, *made;
    crt_status_t status = CRT_OK;

    *value_out = NULL;
    if (json_is_string(value)) {
        status = replace(c, e, json_string_value(value), false, depth, &text);
        if (status == CRT_OK && !(*value_out = json_stringn(text.at, text.length)))
            status = no_memory(e);
        free(text.at);
        return status;
    }
    if (!json_is_array(value) && !json_is_object(value)) {
        *value_out = json_incref(value);
        return CRT_OK;
    }
    made = json_is_array(value) ? json_array() : json_object();
    json_array_foreach(value, index, item)
    {
        json_t *part;

        status = replace_value(c, e, item, depth, &part);
        if (status == CRT_OK && json_array_append_new(made, part) != 0)
            status = no_memory(e);
        if (status != CRT_OK)
            break;
    }
    json_object_foreach(value, key, item)
    {
        json_t *part;

        status = replace_value(c, e, item, depth, &part);
        if (status == CRT_OK && json_object_set_new(made, key, part) != 0)
            status = no_memory(e);
        if (status != CRT_OK)
            break;
    }
    if (status == CRT_OK)
        *value_out = made;
    else
        json_decref(made);
    return status;
}

static crt_status_t resolve_raw(crt_configuration_t *c, crti_setting_t *e, int depth)
{
    text_t text = {0};
    json_error_t error;
    crt_status_t status = replace(c, e, e->raw, true, depth, &text);

    if (status != CRT_OK) {
        free(text.at);
        return status;
    }
    e->value = json_loads(text.at, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (!e->value && text.at[0] && strchr("[{\"", text.at[0]))
        status = crt_configuration_raise(c, e->path, CRT_ERR_INVALID,
                                         "%s becomes %.80s, which is not JSON: %s",
                                         e->path, text.at, error.text);
    else if (!e->value) { /* as "run-${system.seed}": a text without quotes */
        text.length = 0;
        status = replace(c, e, e->raw, false, depth, &text);
        if (status == CRT_OK && !(e->value = json_string(text.at)))
            status = no_memory(e);
    }
    free(text.at);
    return status;
}

static crt_status_t resolve_entry(crt_configuration_t *c, crti_setting_t *e, int depth)
{
    json_t *value = NULL;
    crt_status_t status;

    if (e->state == CRTI_SETTING_READY)
        return CRT_OK;
    if (e->state == CRTI_SETTING_BUSY)
        return crt_configuration_raise(c, e->path, CRT_ERR_INVALID,
                                       "%s refers to itself, by way of others or not",
                                       e->path);
    if (depth > 256)
        return crt_configuration_raise(c, e->path, CRT_ERR_INVALID,
                                       "%s is behind more than 256 references", e->path);
    e->state = CRTI_SETTING_BUSY;
    if (e->raw) {
        status = resolve_raw(c, e, depth);
    } else {
        status = replace_value(c, e, e->value, depth, &value);
        if (status == CRT_OK) {
            json_decref(e->value);
            e->value = value;
        }
    }
    e->state = status == CRT_OK ? CRTI_SETTING_READY : CRTI_SETTING_OPEN;
    return status;
}

/* ---------------------------------------------------------------- blocks */

/* True when the value is "${section}" and nothing else. */
static bool is_block(const crt_configuration_t *c, const crti_setting_t *e,
                     char name[CRTI_CONFIGURATION_PATH_MAX])
{
    const char *text = e->raw ? e->raw : json_string_value(e->value);
    size_t length;

    if (!text || strncmp(text, "${", 2) != 0 || !strchr(text, '}') ||
        strchr(text, '}')[1] != '\0' || strlen(text) - 3 >= CRTI_CONFIGURATION_PATH_MAX ||
        strlen(text) < 4)
        return false;
    length = strlen(text) - 3;
    for (size_t i = 0; i < length; i++)
        name[i] = text[i + 2] == ':' ? '.' : text[i + 2];
    name[length] = '\0';
    return !crti_configuration_find(c, name) && crti_configuration_has_section(c, name);
}

static bool begins_with(const char *path, const char *section)
{
    size_t length = strlen(section);

    return strncmp(path, section, length) == 0 &&
           (path[length] == '\0' || path[length] == '.');
}

static void remove_entry(crt_configuration_t *c, size_t index)
{
    crti_setting_t *e = &c->entries[index];

    json_decref(e->value);
    free(e->raw);
    free(e->path);
    memmove(e, e + 1, (c->count - index - 1) * sizeof(*e));
    c->count--;
}

/* A copy of one entry below `from`, below `to`. */
static crt_status_t copy_entry(crt_configuration_t *c, size_t index, const char *from,
                               const char *to)
{
    const crti_setting_t *e = &c->entries[index];
    const char *key = e->path + e->section + 1;
    size_t below = strlen(from);
    char section[2 * CRTI_CONFIGURATION_PATH_MAX];
    char *raw = e->raw ? strdup(e->raw) : NULL;

    snprintf(section, sizeof(section), "%s%.*s", to, (int)(e->section - below),
             e->path + below);
    if (strlen(section) >= CRTI_CONFIGURATION_PATH_MAX || (e->raw && !raw)) {
        free(raw);
        return crt_raise(CRT_ERR_INVALID, "%s:%d: the names in [%s] become too long",
                         e->file, e->line, to);
    }
    return crti_configuration_add(c, section, key, json_incref(e->value), raw, e->file,
                                  e->line);
}

static crt_status_t copy_block(crt_configuration_t *c, size_t index, const char *from)
{
    const crti_setting_t *e = &c->entries[index];
    char to[CRTI_CONFIGURATION_PATH_MAX], section[CRTI_CONFIGURATION_PATH_MAX];
    size_t count = c->count;
    int line = e->line;
    crt_status_t status = CRT_OK;

    snprintf(to, sizeof(to), "%s", e->path);
    snprintf(section, sizeof(section), "%.*s", (int)e->section, e->path);
    if (begins_with(to, from) || begins_with(from, to))
        return crt_configuration_raise(
            c, to, CRT_ERR_INVALID, "%s refers to [%s], which it is part of", to, from);
    remove_entry(c, index);
    count--;
    status = crti_configuration_open_section(c, to, line);
    if (status == CRT_ERR_EXISTS)
        status =
            crt_raise(CRT_ERR_INVALID, "%s:%d: '%s' is a section", c->name, line, to);
    for (size_t i = 0; i < count && status == CRT_OK; i++)
        if (begins_with(c->entries[i].path, from))
            status = copy_entry(c, i, from, to);
    return status;
}

/* Blocks that are copied may hold others; those that hold each other would grow until their names
 * are too long. */
static crt_status_t copy_blocks(crt_configuration_t *c)
{
    char name[CRTI_CONFIGURATION_PATH_MAX];
    size_t i = 0;

    while (i < c->count) {
        crt_status_t status = CRT_OK;

        if (!is_block(c, &c->entries[i], name)) {
            i++;
            continue;
        }
        status = copy_block(c, i, name);
        if (status == CRT_ERR_TOO_LARGE)
            return crt_raise(CRT_ERR_INVALID,
                             "%s: sections refer to each other in a circle", c->name);
        if (status != CRT_OK)
            return status;
    }
    return CRT_OK;
}

/* ---------------------------------------------------------------- sections in one line */

static bool names_factory(const json_t *value)
{
    const char *key;
    json_t *member;

    json_object_foreach((json_t *)(uintptr_t)value, key, member) /* only read */
        if (key[0] == '@') return true;
    return false;
}

/* logger = {"@loggers": "...", ...} becomes the section [training.logger]. */
static crt_status_t expand(crt_configuration_t *c, size_t index)
{
    crti_setting_t e = c->entries[index];
    char section[CRTI_CONFIGURATION_PATH_MAX];
    json_t *object = json_incref(e.value), *member;
    const char *key;
    crt_status_t status = CRT_OK;

    snprintf(section, sizeof(section), "%s", e.path);
    remove_entry(c, index);
    json_object_foreach(object, key, member)
    {
        if (status == CRT_OK && strchr(key, '.'))
            status = crt_raise(CRT_ERR_INVALID, "%s:%d: '%s' is no name of a key", e.file,
                               e.line, key);
        if (status == CRT_OK)
            status = crti_configuration_check_path(e.file, e.line, key);
        if (status == CRT_OK)
            status = crti_configuration_add(c, section, key, json_incref(member), NULL,
                                            e.file, e.line);
    }
    json_decref(object);
    return status;
}

static crt_status_t expand_factories(crt_configuration_t *c)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < c->count && status == CRT_OK;)
        if (names_factory(c->entries[i].value))
            status = expand(c, i);
        else
            i++;
    return status;
}

crt_status_t crt_configuration_resolve(crt_configuration_t *c)
{
    crt_status_t status = apply_overrides(c, true);

    if (status == CRT_OK)
        status = read_groups(c);
    if (status == CRT_OK)
        status = expand_factories(c);
    if (status == CRT_OK)
        status = apply_overrides(c, false);
    if (status == CRT_OK)
        status = expand_factories(c); /* those of the command line */
    if (status == CRT_OK)
        status = copy_blocks(c);
    for (size_t i = 0; i < c->count && status == CRT_OK; i++)
        status = resolve_entry(c, &c->entries[i], 0);
    return status == CRT_ERR_EXISTS ? CRT_ERR_INVALID : status;
}

/* ---------------------------------------------------------------- from text to values */

crt_status_t crt_configuration_parse(const char *name, const char *text, size_t size,
                                     crt_configuration_t **configuration_out)
{
    crt_configuration_t *c;
    crt_status_t status;

    if (size > CRTI_CONFIGURATION_BYTES_MAX)
        return crt_raise(CRT_ERR_TOO_LARGE, "%s: %zu bytes, the limit is %zu", name, size,
                         CRTI_CONFIGURATION_BYTES_MAX);
    c = calloc(1, sizeof(*c));
    if (!c || !(c->name = strdup(name))) {
        free(c);
        return crt_raise(CRT_ERR_NO_MEMORY, "%s", name);
    }
    status = crti_configuration_read_text(c, name, text, size, NULL, false);
    if (status != CRT_OK) {
        crt_configuration_drop(&c);
        return status == CRT_ERR_EXISTS ? CRT_ERR_INVALID : status;
    }
    *configuration_out = c;
    return CRT_OK;
}

crt_status_t crt_configuration_read(const char *path,
                                    crt_configuration_t **configuration_out)
{
    unsigned char *data;
    size_t size;
    crt_status_t status =
        crti_file_read(path, CRTI_CONFIGURATION_BYTES_MAX, &data, &size);

    if (status != CRT_OK)
        return status;
    status = crt_configuration_parse(path, (const char *)data, size, configuration_out);
    free(data);
    return status;
}

/* "--section.key", "--section.key=value" or "group=choice". */
static bool is_override(const char *word)
{
    size_t name = strcspn(word, "=");

    if (strncmp(word, "--", 2) == 0)
        return memchr(word, '.', name) != NULL;
    return word[0] != '-' && word[name] == '=';
}

crt_status_t crt_configuration_arguments(int *argc, char **argv,
                                         crt_configuration_t **configuration_out)
{
    crt_configuration_t *c;
    bool has_file = *argc > 1 && argv[1][0] != '-' && !is_override(argv[1]);
    crt_status_t status = has_file ? crt_configuration_read(argv[1], &c)
                                   : crt_configuration_parse(argv[0], "", 0, &c);
    int left = 1;

    if (status != CRT_OK)
        return status;
    for (int i = has_file ? 2 : 1; i < *argc && status == CRT_OK; i++)
        if (is_override(argv[i]))
            status = crt_configuration_override(c, argv[i]);
        else
            argv[left++] = argv[i];
    if (status == CRT_OK)
        status = crt_configuration_resolve(c);
    if (status != CRT_OK) {
        crt_configuration_drop(&c);
        return status;
    }
    argv[left] = NULL;
    *argc = left;
    *configuration_out = c;
    return CRT_OK;
}
