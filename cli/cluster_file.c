/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster files, from YAML to one checked object. See cluster_file.h. */
#include "cli/cluster_file.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/autoscaler_file.h"
#include "cli/cluster_hosts.h"
#include "cli/ssh_keys.h"
#include "cli/start_keys.h"
#include "cli/start_options.h"
#include "cli/yaml_reader.h"

#define NAME_MOST       64
#define PARALLEL        16
#define PARALLEL_MOST   200 /* four descriptors each, of 1024 that there may be */
#define TIMEOUT_DEFAULT 600

/* A host, or a group of hosts that are started in the same way. */
typedef struct group {
    json_t *hosts;       /* texts */
    json_t *options;     /* of crt start, as its arguments */
    json_t *environment; /* its own */
    json_t *setup;
    bool is_head;
    const yaml_node_t
        *one_host; /* the key that only a single host may have, NULL: none */
} group_t;

typedef struct whole {
    json_t *file;
    group_t all; /* hosts beside all groups; environment and setup of every host */
    group_t head;
    const yaml_node_t *head_key, *groups;
} whole_t;

static void group_init(group_t *group)
{
    *group = (group_t){.hosts = json_array(),
                       .options = json_array(),
                       .environment = json_object(),
                       .setup = json_array()};
}

static void group_release(group_t *group)
{
    json_decref(group->hosts);
    json_decref(group->options);
    json_decref(group->environment);
    json_decref(group->setup);
}

bool crti_cluster_is_name(const char *text)
{
    size_t length = strlen(text);

    if (length == 0 || length >= NAME_MOST || !isalnum((unsigned char)*text))
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("._-", *text))
            return false;
    return true;
}

/* What crt_raise was told last, with its place. */
static crt_status_t detail_at(yaml_reader_t *reader, const yaml_node_t *node)
{
    char text[512];

    snprintf(text, sizeof(text), "%s", crt_error_detail());
    return crti_yaml_wrong(reader, node, "%s", text);
}

/* ---------------------------------------------------------------- files that are named */

/* A path in a cluster file is seen from its folder. */
static bool beside(const char *path, const char *named, char *full, size_t size)
{
    const char *slash = strrchr(path, '/');

    return snprintf(full, size, "%.*s%s",
                    *named == '/' || !slash ? 0 : (int)(slash + 1 - path), path,
                    named) < (int)size;
}

/* ---------------------------------------------------------------- hosts */

static crt_status_t take_host(yaml_reader_t *reader, const char *name,
                              const yaml_node_t *key, const yaml_node_t *value, void *to)
{
    const char *text;

    (void)name;
    CRT_TRY(crti_yaml_text(reader, value, "a host", &text));
    if (crti_cluster_hosts_add(text, to) != CRT_OK)
        return detail_at(reader, key);
    return CRT_OK;
}

static crt_status_t take_hosts_address(yaml_reader_t *reader, const yaml_node_t *value,
                                       json_t *hosts)
{
    char path[PATH_MAX], *list;
    const char *named;
    size_t line;
    crt_status_t status;

    CRT_TRY(crti_yaml_text(reader, value, "hosts-address", &named));
    if (!beside(reader->path, named, path, sizeof(path)))
        return crti_yaml_wrong(reader, value, "hosts-address: too long a path");
    if (crti_yaml_read_file(path, &list) != CRT_OK)
        return detail_at(reader, value);
    status = crti_cluster_hosts_add_lines(list, hosts, &line);
    if (status != CRT_OK) {
        char text[512];

        snprintf(text, sizeof(text), "%s", crt_error_detail());
        status = crt_raise(CRT_ERR_INVALID, "%s:%zu:1: %s", path, line, text);
    }
    free(list);
    return status;
}

/* ---------------------------------------------------------------- how they are started */

static crt_status_t take_variable(yaml_reader_t *reader, const char *name,
                                  const yaml_node_t *key, const yaml_node_t *value,
                                  void *to)
{
    const char *text;

    for (const char *at = name; *at || at == name; at++)
        if (!isalpha((unsigned char)*at) && *at != '_' &&
            (at == name || !isdigit((unsigned char)*at)))
            return crti_yaml_wrong(reader, key, "\"%s\" is no name of a variable", name);
    CRT_TRY(crti_yaml_text(reader, value, name, &text));
    if (json_object_set_new(to, name, json_string(text)) != 0)
        return crti_yaml_wrong(reader, value, "%s is not UTF-8", name);
    return CRT_OK;
}

static crt_status_t take_option(yaml_reader_t *reader, const option_spec_t *option,
                                const yaml_node_t *key, const yaml_node_t *value,
                                group_t *group)
{
    if (crti_start_is_head_only(option) && !group->is_head)
        return crti_yaml_wrong(reader, key, "%s belongs under head", option->name);
    if (strcmp(option->name, "node-ip-address") == 0)
        group->one_host = key;
    return crti_start_key_take(reader, option, key, value, group->options);
}

static const char *const group_keys[] = {"hosts", "hosts-address", "environment",
                                         "setup"};
#define GROUP_KEYS (sizeof(group_keys) / sizeof(group_keys[0]))

static const char *group_name(const void *user, size_t index)
{
    return index < GROUP_KEYS ? group_keys[index]
                              : crti_start_key_name(index - GROUP_KEYS);
}

static const char *head_name(const void *user, size_t index)
{
    static const char *const names[] = {"host", "environment", "setup"};

    return index < 3 ? names[index] : crti_start_key_name(index - 3);
}

/* What groups, the head and the whole file have. `*is_taken`: this was such a key. */
static crt_status_t take_common(yaml_reader_t *reader, const char *name,
                                const yaml_node_t *value, group_t *group, bool *is_taken)
{
    *is_taken = true;
    if (strcmp(name, "environment") == 0)
        return crti_yaml_each_key(reader, value, name, take_variable, group->environment);
    if (strcmp(name, "setup") == 0)
        return crti_yaml_each_item(reader, value, name, crti_ssh_text_take, group->setup);
    if (!group->is_head && strcmp(name, "hosts") == 0)
        return crti_yaml_each_item(reader, value, name, take_host, group->hosts);
    if (!group->is_head && strcmp(name, "hosts-address") == 0)
        return take_hosts_address(reader, value, group->hosts);
    *is_taken = false;
    return CRT_OK;
}

static crt_status_t take_group_key(yaml_reader_t *reader, const char *written,
                                   const yaml_node_t *key, const yaml_node_t *value,
                                   void *to)
{
    group_t *group = to;
    const option_spec_t *option;
    char name[YAML_KEY_MAX];
    bool is_taken;

    crti_yaml_name(written, name);
    CRT_TRY(take_common(reader, name, value, group, &is_taken));
    if (is_taken)
        return CRT_OK;
    if (group->is_head && strcmp(name, "host") == 0)
        return take_host(reader, NULL, value, value, group->hosts);
    option = crti_start_option(name);
    if (option && !crti_start_is_key(option))
        return crti_yaml_wrong(reader, key, "%s is what crt up sees to", name);
    if (!option)
        return crti_yaml_unknown(reader, key, written,
                                 group->is_head ? head_name : group_name);
    return take_option(reader, option, key, value, group);
}

/* ---------------------------------------------------------------- the hosts of the result */

static const json_t *find_host(const json_t *hosts, const char *name)
{
    const json_t *host;
    size_t i;

    json_array_foreach((json_t *)hosts, i, host)
    {
        if (strcmp(json_string_value(json_object_get(host, "host")), name) == 0)
            return host;
    }
    return NULL;
}

/* The hosts of a group, with what all hosts have. The head may be among them: it stays the head. */
static crt_status_t add_hosts(yaml_reader_t *reader, const whole_t *whole,
                              const group_t *group, const char *name,
                              const yaml_node_t *place)
{
    json_t *hosts = json_object_get(whole->file, "hosts");
    const json_t *host, *other;
    size_t i;

    json_array_foreach(group->hosts, i, host)
    {
        json_t *environment, *setup;

        other = find_host(hosts, json_string_value(host));
        if (other && json_is_true(json_object_get(other, "head")))
            continue;
        if (other)
            return crti_yaml_wrong(reader, place, "the host %s is there twice",
                                   json_string_value(host));
        environment = json_copy(whole->all.environment);
        json_object_update(environment, group->environment);
        setup = json_copy(whole->all.setup);
        if (group != &whole->all)
            json_array_extend(setup, group->setup);
        json_array_append_new(
            hosts, json_pack("{s:O, s:s, s:b, s:O, s:o, s:o}", "host", host, "group",
                             name, "head", group->is_head, "options", group->options,
                             "environment", environment, "setup", setup));
    }
    if (json_array_size(hosts) > CLUSTER_HOSTS_MAX)
        return crti_yaml_wrong(reader, place, "more than %d hosts", CLUSTER_HOSTS_MAX);
    return CRT_OK;
}

static crt_status_t take_group(yaml_reader_t *reader, const char *name,
                               const yaml_node_t *key, const yaml_node_t *value, void *to)
{
    whole_t *whole = to;
    group_t group;
    crt_status_t status;

    if (!crti_cluster_is_name(name))
        return crti_yaml_wrong(reader, key, "\"%s\" is no name of a group", name);
    group_init(&group);
    status = crti_yaml_each_key(reader, value, name, take_group_key, &group);
    if (status == CRT_OK && json_array_size(group.hosts) == 0)
        status = crti_yaml_wrong(reader, key, "the group %s has no hosts", name);
    if (status == CRT_OK && group.one_host && json_array_size(group.hosts) > 1)
        status = crti_yaml_wrong(reader, group.one_host,
                                 "node-ip-address is that of a single host");
    if (status == CRT_OK)
        status = add_hosts(reader, whole, &group, name, key);
    group_release(&group);
    return status;
}

static crt_status_t take_head(yaml_reader_t *reader, const yaml_node_t *value,
                              whole_t *whole)
{
    group_t *head = &whole->head;

    whole->head_key = value;
    head->is_head = true;
    if (value->type == YAML_SCALAR_NODE)
        CRT_TRY(take_host(reader, NULL, value, value, head->hosts));
    else
        CRT_TRY(crti_yaml_each_key(reader, value, "head", take_group_key, head));
    if (json_array_size(head->hosts) != 1)
        return crti_yaml_wrong(reader, value, "the head is one host: host: NAME");
    return CRT_OK;
}

/* ---------------------------------------------------------------- the whole file */

static const char *ssh_name(const void *user, size_t index)
{
    return crti_ssh_key_name(index);
}

static crt_status_t take_ssh(yaml_reader_t *reader, const char *name,
                             const yaml_node_t *key, const yaml_node_t *value, void *to)
{
    for (size_t i = 0; crti_ssh_key_name(i); i++)
        if (strcmp(name, crti_ssh_key_name(i)) == 0)
            return crti_ssh_key_take(reader, name, value, to);
    return crti_yaml_unknown(reader, key, name, ssh_name);
}

static crt_status_t take_number(yaml_reader_t *reader, const char *name,
                                const yaml_node_t *value, json_t *file)
{
    bool is_time = strcmp(name, "timeout") == 0;
    const char *text, *expected = "";
    uint64_t number;
    char *end;

    CRT_TRY(crti_yaml_text(reader, value, name, &text));
    if (is_time) {
        if (!crti_option_seconds(text, &number))
            return crti_yaml_wrong(reader, value,
                                   "timeout takes a time such as 90s or 10m, not \"%s\"",
                                   text);
    } else {
        number = strtoull(text, &end, 10);
        expected = "1 to 200";
        if (!isdigit((unsigned char)*text) || *end || number < 1 ||
            number > PARALLEL_MOST)
            return crti_yaml_wrong(reader, value, "parallel takes %s, not \"%s\"",
                                   expected, text);
    }
    json_object_set_new(file, name, json_integer((json_int_t)number));
    return CRT_OK;
}

static crt_status_t take_name(yaml_reader_t *reader, const char *name,
                              const yaml_node_t *value, json_t *file)
{
    const char *text;

    CRT_TRY(crti_yaml_text(reader, value, name, &text));
    if (strcmp(name, "name") == 0 && !crti_cluster_is_name(text))
        return crti_yaml_wrong(reader, value,
                               "\"%s\" is no name of a cluster: letters, digits and . _ "
                               "-, at most %d",
                               text, NAME_MOST - 1);
    if (!*text || json_object_set_new(file, name, json_string(text)) != 0)
        return crti_yaml_wrong(reader, value, "%s is a text that is not empty", name);
    return CRT_OK;
}

/* The section goes to the head as it is; there crt start reads it. */
static crt_status_t take_autoscaler(yaml_reader_t *reader, const yaml_node_t *value,
                                    json_t *file)
{
    json_t *rules, *section;

    CRT_TRY(crti_autoscaler_read_node(reader, value, &rules));
    json_decref(rules);
    CRT_TRY(crti_yaml_json(reader, value, &section));
    json_object_set_new(file, "autoscaler", section);
    return CRT_OK;
}

/* Not beside a path under head. */
static crt_status_t check_autoscaler(yaml_reader_t *reader, const whole_t *whole)
{
    const json_t *option;
    size_t i;

    json_array_foreach(whole->head.options, i, option)
    {
        if (json_object_get(whole->file, "autoscaler") &&
            strcmp(json_string_value(option), "--autoscaler") == 0)
            return crti_yaml_wrong(reader, whole->head_key,
                                   "autoscaler is there twice: as a path under head, and "
                                   "as a section");
    }
    return CRT_OK;
}

/* A folder here, that of the program. */
static crt_status_t take_folder(yaml_reader_t *reader, const yaml_node_t *value,
                                json_t *file)
{
    char path[PATH_MAX];
    const char *named;

    CRT_TRY(crti_yaml_text(reader, value, "folder", &named));
    if (!*named || !beside(reader->path, named, path, sizeof(path)))
        return crti_yaml_wrong(reader, value, "folder is the path of a folder here");
    if (json_object_set_new(file, "folder", json_string(path)) != 0)
        return crti_yaml_wrong(reader, value, "folder is not UTF-8");
    return CRT_OK;
}

static const char *file_name(const void *user, size_t index)
{
    static const char *const names[] = {
        "name",        "head",  "hosts",  "hosts-address", "groups",  "ssh",        "crt",
        "environment", "setup", "folder", "parallel",      "timeout", "autoscaler", NULL};

    return names[index];
}

static crt_status_t take_file_key(yaml_reader_t *reader, const char *written,
                                  const yaml_node_t *key, const yaml_node_t *value,
                                  void *to)
{
    whole_t *whole = to;
    char name[YAML_KEY_MAX];
    bool is_taken;

    crti_yaml_name(written, name);
    CRT_TRY(take_common(reader, name, value, &whole->all, &is_taken));
    if (is_taken)
        return CRT_OK;
    if (strcmp(name, "head") == 0)
        return take_head(reader, value, whole);
    if (strcmp(name, "groups") == 0) {
        whole->groups = value; /* behind what all hosts have */
        return CRT_OK;
    }
    if (strcmp(name, "ssh") == 0)
        return crti_yaml_each_key(reader, value, name, take_ssh,
                                  json_object_get(whole->file, "ssh"));
    if (strcmp(name, "name") == 0 || strcmp(name, "crt") == 0)
        return take_name(reader, name, value, whole->file);
    if (strcmp(name, "autoscaler") == 0)
        return take_autoscaler(reader, value, whole->file);
    if (strcmp(name, "folder") == 0)
        return take_folder(reader, value, whole->file);
    if (strcmp(name, "parallel") == 0 || strcmp(name, "timeout") == 0)
        return take_number(reader, name, value, whole->file);
    return crti_yaml_unknown(reader, key, written, file_name);
}

static crt_status_t read_whole(yaml_reader_t *reader, whole_t *whole)
{
    const yaml_node_t *root = crti_yaml_root(reader);

    CRT_TRY(crti_yaml_each_key(reader, root, "a cluster file", take_file_key, whole));
    if (!whole->head_key)
        return crti_yaml_wrong(reader, root, "no head: say by head: HOST where it runs");
    CRT_TRY(check_autoscaler(reader, whole));
    CRT_TRY(add_hosts(reader, whole, &whole->head, "head", whole->head_key));
    CRT_TRY(add_hosts(reader, whole, &whole->all, "", root));
    if (whole->groups)
        CRT_TRY(crti_yaml_each_key(reader, whole->groups, "groups", take_group, whole));
    return CRT_OK;
}

/* The name of the file without folder and ending. */
static void set_default_name(json_t *file, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    char name[NAME_MOST];

    snprintf(name, sizeof(name), "%.*s",
             dot && dot > base ? (int)(dot - base) : (int)strlen(base), base);
    for (char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && !strchr("._-", *at))
            *at = '_';
    json_object_set_new(file, "name",
                        json_string(crti_cluster_is_name(name) ? name : "cluster"));
}

crt_status_t crti_cluster_file_parse(const char *path, const char *text, size_t size,
                                     json_t **file_out)
{
    yaml_reader_t reader;
    whole_t whole = {0};
    crt_status_t status;

    CRT_TRY(crti_yaml_open(&reader, path, text, size));
    whole.file = json_pack("{s:i, s:i, s:[], s:[]}", "parallel", PARALLEL, "timeout",
                           TIMEOUT_DEFAULT, "ssh", "hosts");
    set_default_name(whole.file, path);
    group_init(&whole.all);
    group_init(&whole.head);
    status = read_whole(&reader, &whole);
    group_release(&whole.all);
    group_release(&whole.head);
    crti_yaml_close(&reader);
    if (status != CRT_OK) {
        json_decref(whole.file);
        whole.file = NULL;
    }
    *file_out = whole.file;
    return status;
}

crt_status_t crti_cluster_file_read(const char *path, json_t **file_out)
{
    crt_status_t status;
    char *text;

    CRT_TRY(crti_yaml_read_file(path, &text));
    status = crti_cluster_file_parse(path, text, strlen(text), file_out);
    free(text);
    return status;
}
