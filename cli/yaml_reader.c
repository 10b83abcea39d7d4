/* SPDX-License-Identifier: Apache-2.0 */
/* YAML files of people. See yaml_reader.h. */
#include "cli/yaml_reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/base/plain_text.h"
#include "runtime/base/spelling.h"

#define KEYS_MAX 1024

CRTI_LATE_LIBRARY(crti_yaml, CRTI_YAML_SYMBOLS, "libyaml-0.so.2",
                  "YAML files can't be read")

static crt_status_t malformed(const char *path, const yaml_parser_t *parser)
{
    return crt_raise(CRT_ERR_INVALID, "%s:%zu:%zu: %s%s%s", path,
                     parser->problem_mark.line + 1, parser->problem_mark.column + 1,
                     parser->problem ? parser->problem : "no YAML",
                     parser->context ? " " : "", parser->context ? parser->context : "");
}

/* A text behind the document would not be read, and nobody would notice. */
static crt_status_t check_end(yaml_parser_t *parser, const char *path)
{
    yaml_document_t more;
    crt_status_t status = CRT_OK;

    if (!yaml_parser_load(parser, &more))
        return malformed(path, parser);
    if (yaml_document_get_root_node(&more))
        status = crt_raise(CRT_ERR_INVALID, "%s:%zu:%zu: a second document", path,
                           more.start_mark.line + 1, more.start_mark.column + 1);
    yaml_document_delete(&more);
    return status;
}

crt_status_t crti_yaml_open(yaml_reader_t *reader, const char *path, const char *text,
                            size_t size)
{
    yaml_parser_t parser;
    crt_status_t status = CRT_OK;

    CRT_TRY(crti_yaml_library());
    *reader = (yaml_reader_t){.path = path};
    if (size > YAML_BYTES_MAX)
        return crt_raise(CRT_ERR_INVALID, "%s: more than %d bytes", path, YAML_BYTES_MAX);
    if (!yaml_parser_initialize(&parser))
        return crt_raise(CRT_ERR_NO_MEMORY, "%s: out of memory", path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    if (!yaml_parser_load(&parser, &reader->document)) {
        status = malformed(path, &parser);
        yaml_parser_delete(&parser);
        return status;
    }
    if (!yaml_document_get_root_node(&reader->document))
        status = crt_raise(CRT_ERR_INVALID, "%s: nothing is in it", path);
    else
        status = check_end(&parser, path);
    yaml_parser_delete(&parser);
    if (status != CRT_OK)
        crti_yaml_close(reader);
    return status;
}

void crti_yaml_close(yaml_reader_t *reader)
{
    yaml_document_delete(&reader->document);
}

crt_status_t crti_yaml_wrong(const yaml_reader_t *reader, const yaml_node_t *node,
                             const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return crt_raise(CRT_ERR_INVALID, "%s:%zu:%zu: %s", reader->path,
                     node->start_mark.line + 1, node->start_mark.column + 1, text);
}

yaml_node_t *crti_yaml_root(yaml_reader_t *reader)
{
    return yaml_document_get_root_node(&reader->document);
}

crt_status_t crti_yaml_read_file(const char *path, char **text_out)
{
    struct stat st;

    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & S_IWOTH))
        return crt_raise(CRT_ERR_PERMISSION,
                         "%s is not obeyed: every user of this host can write it; chmod "
                         "o-w %s",
                         path, path);
    *text_out = crti_plain_text_read(path, YAML_BYTES_MAX);
    if (*text_out)
        return CRT_OK;
    return crt_raise(errno == ENOENT ? CRT_ERR_NOT_FOUND : CRT_ERR_IO, "%s: %s", path,
                     errno == EILSEQ ? "UTF-16, not UTF-8" : strerror(errno));
}

yaml_node_t *crti_yaml_item(yaml_reader_t *reader, const yaml_node_t *list, size_t index)
{
    const yaml_node_item_t *item = list->data.sequence.items.start + index;

    if (list->type != YAML_SEQUENCE_NODE || item >= list->data.sequence.items.top)
        return NULL;
    return yaml_document_get_node(&reader->document, *item);
}

yaml_node_t *crti_yaml_key(yaml_reader_t *reader, const yaml_node_t *map, size_t index,
                           yaml_node_t **value_out)
{
    const yaml_node_pair_t *pair = map->data.mapping.pairs.start + index;

    if (map->type != YAML_MAPPING_NODE || pair >= map->data.mapping.pairs.top)
        return NULL;
    *value_out = yaml_document_get_node(&reader->document, pair->value);
    return yaml_document_get_node(&reader->document, pair->key);
}

crt_status_t crti_yaml_text(const yaml_reader_t *reader, const yaml_node_t *node,
                            const char *what, const char **text_out)
{
    if (node->type != YAML_SCALAR_NODE)
        return crti_yaml_wrong(reader, node, "%s is a text or a number, not a %s", what,
                               node->type == YAML_MAPPING_NODE ? "map" : "list");
    *text_out = (const char *)node->data.scalar.value;
    if (strlen(*text_out) != node->data.scalar.length)
        return crti_yaml_wrong(reader, node, "%s has a zero byte in it", what);
    return CRT_OK;
}

crt_status_t crti_yaml_each_item(yaml_reader_t *reader, const yaml_node_t *list,
                                 const char *what, yaml_take_t take, void *to)
{
    const yaml_node_t *item;

    if (list->type == YAML_SCALAR_NODE)
        return take(reader, NULL, list, list, to);
    if (list->type != YAML_SEQUENCE_NODE)
        return crti_yaml_wrong(reader, list, "%s is a list, not a map", what);
    for (size_t i = 0; (item = crti_yaml_item(reader, list, i)); i++)
        CRT_TRY(take(reader, NULL, item, item, to));
    return CRT_OK;
}

/* The text of that key was not a key before. */
static crt_status_t check_once(yaml_reader_t *reader, const yaml_node_t *map,
                               const yaml_node_t *key, const char *name, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        yaml_node_t *value;
        const yaml_node_t *before = crti_yaml_key(reader, map, i, &value);

        if (before->type == YAML_SCALAR_NODE &&
            strcmp((const char *)before->data.scalar.value, name) == 0)
            return crti_yaml_wrong(reader, key, "%s is there already, at line %zu", name,
                                   before->start_mark.line + 1);
    }
    return CRT_OK;
}

crt_status_t crti_yaml_each_key(yaml_reader_t *reader, const yaml_node_t *map,
                                const char *what, yaml_take_t take, void *to)
{
    yaml_node_t *key, *value;

    if (map->type != YAML_MAPPING_NODE)
        return crti_yaml_wrong(reader, map, "%s is a map of KEY: VALUE", what);
    for (size_t i = 0; (key = crti_yaml_key(reader, map, i, &value)); i++) {
        const char *name = NULL;

        CRT_TRY(crti_yaml_text(reader, key, "a key", &name));
        if (strlen(name) >= YAML_KEY_MAX)
            return crti_yaml_wrong(reader, key, "a key of more than %d bytes",
                                   YAML_KEY_MAX - 1);
        if (i == KEYS_MAX)
            return crti_yaml_wrong(reader, key, "more than %d keys", KEYS_MAX);
        CRT_TRY(check_once(reader, map, key, name, i));
        CRT_TRY(take(reader, name, key, value, to));
    }
    return CRT_OK;
}

static crt_status_t add_item(yaml_reader_t *reader, const char *name,
                             const yaml_node_t *key, const yaml_node_t *value, void *to)
{
    json_t *item = NULL;

    CRT_TRY(crti_yaml_json(reader, value, &item));
    if (name ? json_object_set_new(to, name, item) != 0
             : json_array_append_new(to, item) != 0)
        return crti_yaml_wrong(reader, key, "a text that is not UTF-8");
    return CRT_OK;
}

crt_status_t crti_yaml_json(yaml_reader_t *reader, const yaml_node_t *node,
                            json_t **json_out)
{
    const char *text = NULL;
    crt_status_t status = CRT_OK;

    if (node->type == YAML_MAPPING_NODE) {
        *json_out = json_object();
        status = crti_yaml_each_key(reader, node, "a map", add_item, *json_out);
    } else if (node->type == YAML_SEQUENCE_NODE) {
        *json_out = json_array();
        status = crti_yaml_each_item(reader, node, "a list", add_item, *json_out);
    } else {
        CRT_TRY(crti_yaml_text(reader, node, "a value", &text));
        *json_out = json_string(text);
        if (!*json_out)
            status = crti_yaml_wrong(reader, node, "a text that is not UTF-8");
    }
    if (status != CRT_OK) {
        json_decref(*json_out);
        *json_out = NULL;
    }
    return status;
}

void crti_yaml_name(const char *key, char name[YAML_KEY_MAX])
{
    snprintf(name, YAML_KEY_MAX, "%s", key);
    for (char *at = name; *at; at++)
        if (*at == '_')
            *at = '-';
}

crt_status_t crti_yaml_unknown(const yaml_reader_t *reader, const yaml_node_t *key,
                               const char *name,
                               const char *(*name_at)(const void *user, size_t index))
{
    const char *nearest = crti_spelling_nearest(name, name_at, NULL);

    return crti_yaml_wrong(reader, key, "unknown key \"%s\"%s%s", name,
                           nearest ? "; the nearest one is " : "",
                           nearest ? nearest : "");
}
