/* SPDX-License-Identifier: Apache-2.0 */
/* Where nodes come from. See provider_file.h. */
#include "cli/provider_file.h"

#include <string.h>

#include "cli/cluster_hosts.h"
#include "cli/ssh_keys.h"

#define COMMAND_MOST 4096
#define OBJECT_MOST  253  /* bytes of a name of Kubernetes */
#define HOSTS_MOST   1000 /* of a pool: it goes to commands in a variable */

const char crti_provider_kinds[] =
    "provider is local, slurm, kubernetes, or a map: ssh: with hosts; slurm: with "
    "options; "
    "kubernetes: with deployments; or three commands ask, list and end";

/* ---------------------------------------------------------------- texts */

static crt_status_t take_line(yaml_reader_t *reader, const char *name,
                              const yaml_node_t *value, json_t *to, const char *key)
{
    const char *text;

    CRT_TRY(crti_yaml_text(reader, value, name, &text));
    if (!*text || strlen(text) > COMMAND_MOST)
        return crti_yaml_wrong(reader, value, "%s is a text of 1 to %d bytes", name,
                               COMMAND_MOST);
    if (json_object_set_new(to, key, json_string(text)) != 0)
        return crti_yaml_wrong(reader, value, "%s is not UTF-8", name);
    return CRT_OK;
}

/* ---------------------------------------------------------------- a pool of hosts */

static const char *pool_name(const void *user, size_t index)
{
    static const char *const names[] = {"hosts", "crt", "setup"};

    return index < 3 ? names[index] : crti_ssh_key_name(index - 3);
}

static crt_status_t take_host(yaml_reader_t *reader, const char *name,
                              const yaml_node_t *key, const yaml_node_t *value, void *to)
{
    const char *text;

    (void)name;
    CRT_TRY(crti_yaml_text(reader, value, "a host", &text));
    if (crti_cluster_hosts_add(text, to) != CRT_OK) {
        char why[512];

        strncpy(why, crt_error_detail(), sizeof(why) - 1);
        why[sizeof(why) - 1] = '\0';
        return crti_yaml_wrong(reader, key, "%s", why);
    }
    if (json_array_size(to) > HOSTS_MOST)
        return crti_yaml_wrong(reader, key, "a pool has at most %d hosts", HOSTS_MOST);
    return CRT_OK;
}

static crt_status_t take_pool_key(yaml_reader_t *reader, const char *name,
                                  const yaml_node_t *key, const yaml_node_t *value,
                                  void *to)
{
    json_t *pool = to;

    if (strcmp(name, "hosts") == 0)
        return crti_yaml_each_item(reader, value, name, take_host,
                                   json_object_get(pool, "hosts"));
    if (strcmp(name, "setup") == 0)
        return crti_yaml_each_item(reader, value, name, crti_ssh_text_take,
                                   json_object_get(pool, "setup"));
    if (strcmp(name, "crt") == 0)
        return take_line(reader, name, value, pool, "crt");
    for (size_t i = 0; crti_ssh_key_name(i); i++)
        if (strcmp(name, crti_ssh_key_name(i)) == 0)
            return crti_ssh_key_take(reader, name, value, json_object_get(pool, "ssh"));
    return crti_yaml_unknown(reader, key, name, pool_name);
}

static crt_status_t take_pool(yaml_reader_t *reader, const yaml_node_t *value,
                              json_t *file)
{
    json_t *pool = json_pack("{s:[], s:[], s:[]}", "hosts", "ssh", "setup");
    const json_t *host, *other;
    size_t i, k;

    json_object_set_new(file, "pool", pool);
    CRT_TRY(crti_yaml_each_key(reader, value, "ssh", take_pool_key, pool));
    if (json_array_size(json_object_get(pool, "hosts")) == 0)
        return crti_yaml_wrong(reader, value, "the pool has no hosts: node[02-16]");
    json_array_foreach(json_object_get(pool, "hosts"), i, host)
    {
        json_array_foreach(json_object_get(pool, "hosts"), k, other)
        {
            if (k < i && json_equal(host, other))
                return crti_yaml_wrong(reader, value, "the host %s is there twice",
                                       json_string_value(host));
        }
    }
    json_object_set_new(file, "provider", json_string("ssh"));
    return CRT_OK;
}

/* ---------------------------------------------------------------- Slurm */

static const char *slurm_name(const void *user, size_t index)
{
    static const char *const names[] = {"options", "key-file", NULL};

    return names[index];
}

static crt_status_t take_slurm_key(yaml_reader_t *reader, const char *written,
                                   const yaml_node_t *key, const yaml_node_t *value,
                                   void *to)
{
    char name[YAML_KEY_MAX];

    crti_yaml_name(written, name);
    if (strcmp(name, "options") == 0)
        return crti_yaml_each_item(reader, value, name, crti_ssh_text_take,
                                   json_object_get(to, "slurm_options"));
    if (strcmp(name, "key-file") == 0)
        return take_line(reader, name, value, to, "slurm_key_file");
    return crti_yaml_unknown(reader, key, written, slurm_name);
}

/* `map` NULL: slurm alone. */
static crt_status_t take_slurm(yaml_reader_t *reader, const yaml_node_t *map,
                               json_t *file)
{
    json_object_set_new(file, "provider", json_string("slurm"));
    json_object_set_new(file, "slurm_options", json_array());
    return map ? crti_yaml_each_key(reader, map, "slurm", take_slurm_key, file) : CRT_OK;
}

/* ---------------------------------------------------------------- Kubernetes */

bool crti_is_kubernetes_name(const char *text)
{
    size_t size = strlen(text);

    return size && size <= OBJECT_MOST && !strchr(".-", text[0]) &&
           !strchr(".-", text[size - 1]) &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-") == size;
}

static crt_status_t take_object_name(yaml_reader_t *reader, const char *what,
                                     const yaml_node_t *value, json_t *to,
                                     const char *key)
{
    const char *text;

    CRT_TRY(crti_yaml_text(reader, value, what, &text));
    if (!crti_is_kubernetes_name(text))
        return crti_yaml_wrong(
            reader, value,
            "\"%s\" is no name of Kubernetes: small letters, digits, . "
            "and -",
            text);
    json_object_set_new(to, key, json_string(text));
    return CRT_OK;
}

static crt_status_t take_deployment(yaml_reader_t *reader, const char *name,
                                    const yaml_node_t *key, const yaml_node_t *value,
                                    void *to)
{
    (void)key;
    return take_object_name(reader, name, value, to, name);
}

static const char *kubernetes_name(const void *user, size_t index)
{
    static const char *const names[] = {"deployments", "namespace", "server",
                                        "service-account", NULL};

    return names[index];
}

static crt_status_t take_kubernetes_key(yaml_reader_t *reader, const char *written,
                                        const yaml_node_t *key, const yaml_node_t *value,
                                        void *to)
{
    char name[YAML_KEY_MAX];

    crti_yaml_name(written, name);
    if (strcmp(name, "deployments") == 0)
        return crti_yaml_each_key(reader, value, name, take_deployment,
                                  json_object_get(to, "deployments"));
    if (strcmp(name, "namespace") == 0)
        return take_object_name(reader, name, value, to, name);
    if (strcmp(name, "service-account") == 0)
        return take_line(reader, name, value, to, "service_account");
    if (strcmp(name, "server") != 0)
        return crti_yaml_unknown(reader, key, written, kubernetes_name);
    CRT_TRY(take_line(reader, name, value, to, name));
    if (strncmp(json_string_value(json_object_get(to, name)), "https://", 8) != 0)
        return crti_yaml_wrong(reader, value, "server is https://HOST:PORT");
    return CRT_OK;
}

/* `map` NULL: kubernetes alone. */
static crt_status_t take_kubernetes(yaml_reader_t *reader, const yaml_node_t *map,
                                    json_t *file)
{
    json_t *where = json_pack("{s:{}}", "deployments");

    json_object_set_new(file, "provider", json_string("kubernetes"));
    json_object_set_new(file, "kubernetes", where);
    return map ? crti_yaml_each_key(reader, map, "kubernetes", take_kubernetes_key, where)
               : CRT_OK;
}

/* ---------------------------------------------------------------- commands of the user's */

static const char *const commands[] = {"ask", "list", "end"};
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static crt_status_t check_commands(yaml_reader_t *reader, const yaml_node_t *value,
                                   json_t *file)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (!json_object_get(file, commands[i]))
            return crti_yaml_wrong(reader, value,
                                   "the provider has no command %s: it needs ask, list "
                                   "and end",
                                   commands[i]);
    json_object_set_new(file, "provider", json_string("commands"));
    return CRT_OK;
}

/* ---------------------------------------------------------------- the key */

static const char *provider_name(const void *user, size_t index)
{
    static const char *const names[] = {"ask",   "list",       "end", "ssh",
                                        "slurm", "kubernetes", NULL};

    return names[index];
}

static crt_status_t take_key(yaml_reader_t *reader, const char *name,
                             const yaml_node_t *key, const yaml_node_t *value, void *to)
{
    if (json_object_get(to, "provider"))
        return crti_yaml_wrong(reader, key, "a second provider: there is one");
    if (strcmp(name, "ssh") == 0)
        return take_pool(reader, value, to);
    if (strcmp(name, "slurm") == 0)
        return take_slurm(reader, value, to);
    if (strcmp(name, "kubernetes") == 0)
        return take_kubernetes(reader, value, to);
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(name, commands[i]) == 0)
            return take_line(reader, name, value, to, name);
    return crti_yaml_unknown(reader, key, name, provider_name);
}

crt_status_t crti_provider_take(yaml_reader_t *reader, const yaml_node_t *value,
                                json_t *file)
{
    const char *text;

    if (value->type == YAML_MAPPING_NODE) {
        CRT_TRY(crti_yaml_each_key(reader, value, "provider", take_key, file));
        return json_object_get(file, "provider") ? CRT_OK
                                                 : check_commands(reader, value, file);
    }
    CRT_TRY(crti_yaml_text(reader, value, "provider", &text));
    if (strcmp(text, "slurm") == 0)
        return take_slurm(reader, NULL, file);
    if (strcmp(text, "kubernetes") == 0)
        return take_kubernetes(reader, NULL, file);
    if (strcmp(text, "local") != 0)
        return crti_yaml_wrong(reader, value, "%s; not \"%s\"", crti_provider_kinds,
                               text);
    json_object_set_new(file, "provider", json_string("local"));
    return CRT_OK;
}
