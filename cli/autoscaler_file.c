/* SPDX-License-Identifier: Apache-2.0 */
/* How a cluster grows and shrinks, from YAML to one checked object. See autoscaler_file.h. */
#include "cli/autoscaler_file.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/provider_file.h"
#include "cli/start_keys.h"
#include "cli/start_options.h"
#include "cli/yaml_reader.h"

#define TYPES_MAX  32
#define NAME_MOST  31 /* of a node type */
#define NODES_MOST 10000
#define SPEED_MOST 1000.0
#define IDLE_S     60
#define LOCAL_S    60  /* until a node of this host has joined */
#define COMMANDS_S 600 /* until a machine of a provider has */

typedef struct type_reader {
    json_t *type, *options;
    bool has_cpus, has_max;
} type_reader_t;

/* ---------------------------------------------------------------- values */

static crt_status_t take_seconds(yaml_reader_t *reader, const char *name,
                                 const yaml_node_t *value, json_t *file, const char *key)
{
    const char *text;
    uint64_t seconds;

    CRT_TRY(crti_yaml_text(reader, value, name, &text));
    if (!crti_option_seconds(text, &seconds) || seconds > 86400 * 365)
        return crti_yaml_wrong(
            reader, value, "%s takes a time such as 90s or 10m, not \"%s\"", name, text);
    json_object_set_new(file, key, json_integer((json_int_t)seconds));
    return CRT_OK;
}

static crt_status_t take_speed(yaml_reader_t *reader, const char *name,
                               const yaml_node_t *value, json_t *file, const char *key)
{
    const char *text;
    double speed;
    char *end;

    CRT_TRY(crti_yaml_text(reader, value, name, &text));
    speed = strtod(text, &end);
    if (end == text || *end || !isfinite(speed) || speed < 0 || speed > SPEED_MOST)
        return crti_yaml_wrong(reader, value, "%s takes 0 to %g, not \"%s\"", name,
                               SPEED_MOST, text);
    json_object_set_new(file, key, json_real(speed));
    return CRT_OK;
}

static crt_status_t take_count(yaml_reader_t *reader, const char *name,
                               const yaml_node_t *value, json_t *type)
{
    const char *text;
    char *end;
    unsigned long count;

    CRT_TRY(crti_yaml_text(reader, value, name, &text));
    errno = 0;
    count = strtoul(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end || errno || count > NODES_MOST)
        return crti_yaml_wrong(reader, value, "%s takes 0 to %d, not \"%s\"", name,
                               NODES_MOST, text);
    json_object_set_new(type, name, json_integer((json_int_t)count));
    return CRT_OK;
}

/* ---------------------------------------------------------------- node types */

/* What a node of the type has, as far as its options say it: by it nodes are planned. */
static void set_resources(json_t *resources, const char *option, const char *text)
{
    char *copy, *save = NULL;

    if (strcmp(option, "num-cpus") == 0)
        json_object_set_new(resources, "CPU", json_real(strtod(text, NULL)));
    if (strcmp(option, "num-gpus") == 0 && strtod(text, NULL) > 0)
        json_object_set_new(resources, "GPU", json_real(strtod(text, NULL)));
    if (strcmp(option, "resources") != 0 || !(copy = strdup(text)))
        return;
    for (char *pair = strtok_r(copy, ",", &save); pair;
         pair = strtok_r(NULL, ",", &save)) {
        char *equals = strchr(pair, '=');

        if (!equals)
            continue;
        *equals = '\0';
        json_object_set_new(resources, pair, json_real(strtod(equals + 1, NULL)));
    }
    free(copy);
}

/* Labels go with those of the instance, all others are arguments. */
static crt_status_t take_option(yaml_reader_t *reader, const option_spec_t *option,
                                const yaml_node_t *key, const yaml_node_t *value,
                                type_reader_t *t)
{
    size_t before = json_array_size(t->options);
    const char *text;

    CRT_TRY(crti_start_key_take(reader, option, key, value, t->options));
    if (json_array_size(t->options) < before + 2)
        return CRT_OK;
    text = json_string_value(json_array_get(t->options, before + 1));
    if (strpbrk(text, " \t\r\n'\"\\$`"))
        return crti_yaml_wrong(reader, value, "%s with a blank, quote or dollar sign",
                               option->name);
    if (strcmp(option->name, "labels") == 0) {
        json_object_set_new(t->type, "labels", json_string(text));
        json_array_remove(t->options, before + 1);
        json_array_remove(t->options, before);
        return CRT_OK;
    }
    t->has_cpus |= strcmp(option->name, "num-cpus") == 0;
    set_resources(json_object_get(t->type, "resources"), option->name, text);
    return CRT_OK;
}

static const char *type_key_name(const void *user, size_t index)
{
    static const char *const names[] = {"min", "max"};

    return index < 2 ? names[index] : crti_start_key_name(index - 2);
}

static crt_status_t take_type_key(yaml_reader_t *reader, const char *written,
                                  const yaml_node_t *key, const yaml_node_t *value,
                                  void *to)
{
    type_reader_t *t = to;
    const option_spec_t *option;
    char name[YAML_KEY_MAX];

    crti_yaml_name(written, name);
    if (strcmp(name, "min") == 0 || strcmp(name, "max") == 0) {
        t->has_max |= strcmp(name, "max") == 0;
        return take_count(reader, name, value, t->type);
    }
    option = crti_start_option(name);
    if (!option || !crti_start_is_key(option))
        return crti_yaml_unknown(reader, key, written, type_key_name);
    if (crti_start_is_head_only(option) || strcmp(name, "node-ip-address") == 0)
        return crti_yaml_wrong(reader, key, "%s is not of a node type", name);
    return take_option(reader, option, key, value, t);
}

static bool is_type_name(const char *name)
{
    if (!isalnum((unsigned char)*name) || strlen(name) > NAME_MOST)
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
            return false;
    return true;
}

static crt_status_t check_type(yaml_reader_t *reader, const yaml_node_t *key,
                               const char *name, const type_reader_t *t)
{
    json_int_t min = json_integer_value(json_object_get(t->type, "min"));
    json_int_t max = json_integer_value(json_object_get(t->type, "max"));

    if (!t->has_cpus)
        return crti_yaml_wrong(
            reader, key, "node type %s: say by num-cpus how many CPUs a node has", name);
    if (!t->has_max)
        return crti_yaml_wrong(
            reader, key, "node type %s: say by max how many nodes there may be", name);
    if (min > max)
        return crti_yaml_wrong(reader, key, "node type %s: its min is above its max",
                               name);
    return CRT_OK;
}

static crt_status_t take_type(yaml_reader_t *reader, const char *name,
                              const yaml_node_t *key, const yaml_node_t *value, void *to)
{
    type_reader_t t = {.type = json_pack("{s:s, s:i, s:i, s:{}, s:s, s:[]}", "name", name,
                                         "min", 0, "max", 0, "resources", "labels", "",
                                         "options")};

    if (!t.type || !is_type_name(name)) {
        json_decref(t.type);
        return crti_yaml_wrong(
            reader, key,
            "\"%s\" is no name of a node type: letters, digits and . _ "
            "-, at most %d",
            name, NAME_MOST);
    }
    json_array_append_new(to, t.type);
    t.options = json_object_get(t.type, "options");
    if (json_array_size(to) > TYPES_MAX)
        return crti_yaml_wrong(reader, key, "more than %d node types", TYPES_MAX);
    CRT_TRY(crti_yaml_each_key(reader, value, name, take_type_key, &t));
    return check_type(reader, key, name, &t);
}

/* ---------------------------------------------------------------- the whole file */

static const char *file_name(const void *user, size_t index)
{
    static const char *const names[] = {
        "provider",        "node-types",      "idle-timeout",      "start-timeout",
        "command-timeout", "upscaling-speed", "downscaling-speed", NULL};

    return names[index];
}

static crt_status_t take_file_key(yaml_reader_t *reader, const char *written,
                                  const yaml_node_t *key, const yaml_node_t *value,
                                  void *to)
{
    char name[YAML_KEY_MAX], json_key[YAML_KEY_MAX];

    crti_yaml_name(written, name);
    snprintf(json_key, sizeof(json_key), "%s", name);
    for (char *at = json_key; *at; at++)
        if (*at == '-')
            *at = '_';
    if (strcmp(name, "provider") == 0)
        return crti_provider_take(reader, value, to);
    if (strcmp(name, "node-types") == 0)
        return crti_yaml_each_key(reader, value, name, take_type,
                                  json_object_get(to, "node_types"));
    if (strcmp(name, "idle-timeout") == 0 || strcmp(name, "start-timeout") == 0 ||
        strcmp(name, "command-timeout") == 0)
        return take_seconds(reader, name, value, to, json_key);
    if (strcmp(name, "upscaling-speed") == 0 || strcmp(name, "downscaling-speed") == 0)
        return take_speed(reader, name, value, to, json_key);
    return crti_yaml_unknown(reader, key, written, file_name);
}

static void set_default(json_t *file, const char *key, int seconds)
{
    if (!json_object_get(file, key))
        json_object_set_new(file, key, json_integer(seconds));
}

/* A Deployment for each type: the one that was named, else crt-TYPE. */
static crt_status_t set_deployments(yaml_reader_t *reader, const yaml_node_t *root,
                                    json_t *file)
{
    json_t *given = json_object_get(json_object_get(file, "kubernetes"), "deployments");
    json_t *types = json_object_get(file, "node_types");
    json_t *taken = json_object();
    crt_status_t status = CRT_OK;

    for (size_t i = 0; status == CRT_OK && i < json_array_size(types); i++) {
        const json_t *type = json_array_get(types, i);
        const char *name = json_string_value(json_object_get(type, "name"));

        if (!json_object_get(given, name))
            json_object_set_new(given, name, json_sprintf("crt-%s", name));
        name = json_string_value(json_object_get(given, name));
        if (!crti_is_kubernetes_name(name))
            status = crti_yaml_wrong(
                reader, root, "there is no Deployment %s: name it by deployments", name);
        else if (json_object_get(taken, name))
            status = crti_yaml_wrong(reader, root,
                                     "two node types share the Deployment %s", name);
        json_object_set_new(taken, name, json_true());
    }
    if (status == CRT_OK && json_object_size(given) > json_array_size(types))
        status =
            crti_yaml_wrong(reader, root, "deployments names one that is no node type");
    json_decref(taken);
    return status;
}

static crt_status_t read_rules(yaml_reader_t *reader, const yaml_node_t *root,
                               json_t *file)
{
    const char *provider;
    bool is_local;

    CRT_TRY(crti_yaml_each_key(reader, root, "a file of the autoscaler", take_file_key,
                               file));
    provider = json_string_value(json_object_get(file, "provider"));
    if (!provider)
        return crti_yaml_wrong(reader, root, "no provider: %s", crti_provider_kinds);
    if (json_array_size(json_object_get(file, "node_types")) == 0)
        return crti_yaml_wrong(reader, root, "no node-types: which nodes there may be");
    if (strcmp(provider, "kubernetes") == 0)
        CRT_TRY(set_deployments(reader, root, file));
    is_local = strcmp(provider, "local") == 0;
    set_default(file, "start_timeout", is_local ? LOCAL_S : COMMANDS_S);
    set_default(file, "command_timeout", is_local ? LOCAL_S : COMMANDS_S);
    return CRT_OK;
}

crt_status_t crti_autoscaler_read_node(yaml_reader_t *reader, const yaml_node_t *node,
                                       json_t **rules_out)
{
    crt_status_t status;

    *rules_out = json_pack("{s:[], s:i, s:f, s:f}", "node_types", "idle_timeout", IDLE_S,
                           "upscaling_speed", 1.0, "downscaling_speed", 1.0);
    status = *rules_out ? read_rules(reader, node, *rules_out)
                        : crt_raise(CRT_ERR_NO_MEMORY, "%s", reader->path);
    if (status != CRT_OK) {
        json_decref(*rules_out);
        *rules_out = NULL;
    }
    return status;
}

crt_status_t crti_autoscaler_file_parse(const char *path, const char *text, size_t size,
                                        json_t **file_out)
{
    yaml_reader_t reader;
    crt_status_t status;

    *file_out = NULL;
    CRT_TRY(crti_yaml_open(&reader, path, text, size));
    status = crti_autoscaler_read_node(&reader, crti_yaml_root(&reader), file_out);
    crti_yaml_close(&reader);
    return status;
}

crt_status_t crti_autoscaler_file_read(const char *path, json_t **file_out)
{
    crt_status_t status;
    char *text;

    CRT_TRY(crti_yaml_read_file(path, &text));
    status = crti_autoscaler_file_parse(path, text, strlen(text), file_out);
    free(text);
    return status;
}
